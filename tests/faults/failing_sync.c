/* tests/faults/failing_sync.c: preloaded into the program. Each fsync and rename that succeeds is a
 * line on standard error: "@file N", "@folder N" or "@rename N", where N is the number (st_ino) of
 * the file, of the folder, or of the file under its new name. With FAIL_SYNC=file or folder,
 * fsync of these fails with EIO, as on a disk that is lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(default)

static void tell(const char *call, unsigned long long number)
{
    char  line[80];
    int   n = snprintf(line, sizeof line, "@%s %llu\n", call, number);
    if (write(STDERR_FILENO, line, (size_t)n) != n)
        _exit(99);
}

int fsync(int fd)
{
    struct stat st;
    const char *fail = getenv("FAIL_SYNC");
    if (syscall(SYS_fstat, fd, &st) != 0) /* that of the library is no call of the filter */
        return -1;
    if (fail && strcmp(fail, S_ISDIR(st.st_mode) ? "folder" : "file") == 0) {
        errno = EIO;
        return -1;
    }
    if (syscall(SYS_fsync, fd) != 0)
        return -1;
    tell(S_ISDIR(st.st_mode) ? "folder" : "file", (unsigned long long)st.st_ino);
    return 0;
}

int rename(const char *from, const char *to)
{
    struct stat st;
    if (syscall(SYS_renameat2, -100, from, -100, to, 0) != 0) /* AT_FDCWD */
        return -1;
    if (stat(to, &st) == 0)
        tell("rename", (unsigned long long)st.st_ino);
    return 0;
}
