#include "chat_file.h"

#include "common.h"
#include "input.h"
#include "message.h"
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool chat_file_write(const char *path, const char *text, size_t n, tblock_error *err)
{
    char temp[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int         folder = slash ? (int)(slash - path) + 1 : 0;
    /* as base/file.c names it, so that fault.c finds it */
    if (snprintf(temp, sizeof temp, "%.*s.tblock-%ld-0.tmp", folder, path, (long)getpid()) >= (int)sizeof temp)
        return cli_fail(err, TBLOCK_USAGE, "%.60s...: the name is too long", path);
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return cli_fail(err, TBLOCK_SYSTEM, "%s: %s", path, strerror(errno));
    sigset_t all, before; /* a signal that ends us finds the file by its descriptor; none may come once that is closed */
    bool     good = write_all(fd, text, n);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    good = close(fd) == 0 && good && rename(temp, path) == 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (good)
        return true;
    cli_fail(err, TBLOCK_SYSTEM, "%s: %s", path, strerror(errno));
    unlink(temp);
    return false;
}

bool chat_file_read(const char *path, tblock_chat_message **messages, size_t *n, tblock_error *err)
{
    Bytes text = { 0 };
    bool  good = input_read(path, INPUT_PROMPT, &text, err)
                && tblock_chat_from_json(text.data ? text.data : "", text.n, path, messages, n, err);
    free(text.data);
    return good;
}
