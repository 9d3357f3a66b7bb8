#include "base/file.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "test.h"

static char folder[64];

/* A path in this test's folder; four at a time. */
static const char *in_folder(const char *name)
{
    static char path[4][512];
    static int  turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void put_file(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        abort();
}

static bool holds(const char *name, const char *text)
{
    char  *found = NULL;
    size_t n = 0;
    bool   same = file_read(in_folder(name), 1 << 20, &found, &n, NULL) && n == strlen(text)
        && memcmp(found, text, n) == 0;
    free(found);
    return same;
}

static int count_files(void)
{
    int  n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void empty_folder(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            remove(in_folder(e->d_name));
    closedir(d);
}

static void a_file_is_mapped(void)
{
    put_file("a", "hello");
    FileMap f = { 0 };
    Error   e = { 0 };
    CHECK(file_map_open(&f, in_folder("a"), &e), "%s", e.msg);
    CHECK(f.size == 5 && memcmp(f.data, "hello", 5) == 0 && strcmp(f.path, in_folder("a")) == 0,
          "%zu bytes", f.size);
    file_map_will_need(&f, 3, SIZE_MAX);
    file_map_will_need(&f, SIZE_MAX, SIZE_MAX);
    file_map_huge_pages(&f);
    file_map_populate(&f);
    remove(in_folder("a"));
    CHECK(memcmp(f.data, "hello", 5) == 0, "the mapping lives on");
    file_map_close(&f);
    file_map_close(&f);
    CHECK(!f.data && !f.path && !f.size, "closed");
}

static void an_empty_file_is_mapped_as_nothing(void)
{
    put_file("a", "");
    FileMap f = { 0 };
    Error   e = { 0 };
    CHECK(file_map_open(&f, in_folder("a"), &e) && !f.data && f.size == 0, "%s", e.msg);
    file_map_will_need(&f, 0, 10);
    file_map_populate(&f);
    CHECK(file_map_lock(&f, &e), "%s", e.msg);
    file_map_close(&f);
    empty_folder();
}

static void what_is_no_file_is_refused_at_once(void)
{
    mkfifo(in_folder("fifo"), 0666);
    put_file("plain", "x");
    static const struct {
        const char *path, *message;
    } cases[] = {
        { "", "a directory" }, { "fifo", "a FIFO" }, { "/dev/null", "a character device" },
        { "missing", "No such file" }, { "plain/x", "Not a directory" },
        { "nowhere", "a symbolic link to gone, which does not exist" },
        { "loop", "a symbolic link to loop, which leads in a circle" }, { "to_fifo", "a FIFO" },
        { "/dev/fd/777", "Bad file" },
    };
    CHECK(symlink("gone", in_folder("nowhere")) == 0 && symlink("loop",
        in_folder("loop")) == 0 && symlink("fifo", in_folder("to_fifo")) == 0,
          "symlink");
    CHECK(path_exists(in_folder("nowhere")) && path_exists(in_folder("loop"))
              && !path_exists(in_folder("missing")),
          "names");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = cases[i].path[0] == '/' ? cases[i].path : in_folder(cases[i].path);
        FileMap     f;
        Error       e = { 0 };
        CHECK(!file_map_open(&f, path, &e), "%s was opened", path);
        CHECK(e.status == INPUT && strstr(e.msg, path) && strstr(e.msg, cases[i].message),
              "%s: %d '%s'", path, e.status, e.msg);
        file_map_close(&f);
        char  *text;
        size_t n;
        e = (Error){ 0 };
        CHECK(!file_read(path, 100, &text, &n, &e), "%s was read", path);
        CHECK(e.status == INPUT && strstr(e.msg, path) && strstr(e.msg, cases[i].message),
              "%s: %d '%s'", path, e.status, e.msg);
    }
    empty_folder();
}

static void file_read_stops_at_its_limit(void)
{
    char  *text;
    size_t n;
    Error  e = { 0 };
    put_file("a", "12345");
    CHECK(file_read(in_folder("a"), 5, &text, &n, &e) && n == 5 && strcmp(text, "12345") == 0, "%s",
          e.msg);
    free(text);
    CHECK(!file_read(in_folder("a"), 4, &text, &n, &e) && e.status == INPUT && strstr(e.msg,
        "at most 4"), "%s", e.msg);
    CHECK(!file_read_stream("/dev/zero", 1 << 20, &text, &n, &e) && e.status == INPUT, "%s", e.msg);
    CHECK(!file_read(folder, 100, &text, &n, &e) && e.status == INPUT && strstr(e.msg, "directory"),
          "%s", e.msg);
    CHECK(!file_read(in_folder("no"), 100, &text, &n, &e) && e.status == INPUT, "%s", e.msg);
    CHECK(file_read_stream("/dev/null", 0, &text, &n, &e) && n == 0 && text[0] == 0, "%s", e.msg);
    free(text);
    empty_folder();
}

static void file_read_takes_a_pipe_of_any_length(void)
{
    FILE *p = popen("head -c 300000 /dev/zero | tr '\\0' x", "r");
    char  path[64];
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(p));
    char  *text = NULL;
    size_t n = 0;
    Error  e = { 0 };
    CHECK(file_read(path, 1 << 20, &text, &n, &e) && n == 300000 && strspn(text, "x") == n,
          "%zu %s", n, e.msg);
    free(text);
    pclose(p);
}

static void output_appears_only_when_committed(void)
{
    OutFile f;
    Error   e = { 0 };
    put_file("out", "old");
    CHECK(out_file_open(&f, in_folder("out"), &e) && out_file_write(&f, "new text", 8, &e), "%s",
          e.msg);
    /* the new one may have no name yet */
    CHECK(holds("out", "old") && count_files() <= 2, "before");
    CHECK(out_file_commit(&f, &e) && holds("out", "new text") && count_files() == 1, "after: %s",
          e.msg);
    out_file_abort(&f);

    CHECK(out_file_open(&f, in_folder("out"), &e) && out_file_write(&f, "worse", 5, &e), "%s",
          e.msg);
    out_file_abort(&f);
    out_file_abort(&f);
    CHECK(holds("out", "new text") && count_files() == 1, "aborted");
    empty_folder();
}

static void output_may_be_written_in_any_order(void)
{
    OutFile f;
    Error   e = { 0 };
    CHECK(out_file_open(&f, in_folder("out"), &e), "%s", e.msg);
    CHECK(out_file_write_at(&f, 3, "def", 3, &e) && out_file_write_at(&f, 0, "abc", 3, &e), "%s",
          e.msg);
    CHECK(!out_file_write_at(&f, SIZE_MAX - 2, "abc", 3, &e), "past any file");
    CHECK(out_file_commit(&f, &e) && holds("out", "abcdef"), "%s", e.msg);
    empty_folder();
}

static void output_keeps_the_mode_and_obeys_the_umask(void)
{
    OutFile     f;
    Error       e = { 0 };
    struct stat st;
    mode_t      old = umask(027);
    CHECK(out_file_open(&f, in_folder("out"), &e) && out_file_commit(&f, &e), "%s", e.msg);
    CHECK(stat(in_folder("out"), &st) == 0 && (st.st_mode & 07777) == 0640, "new: %o", st.st_mode);
    chmod(in_folder("out"), 0606);
    CHECK(out_file_open(&f, in_folder("out"), &e) && out_file_commit(&f, &e), "%s", e.msg);
    CHECK(stat(in_folder("out"), &st) == 0 && (st.st_mode & 07777) == 0606, "replaced: %o",
          st.st_mode);
    umask(old);
    empty_folder();
}

static void output_follows_symbolic_links(void)
{
    OutFile     f;
    Error       e = { 0 };
    struct stat st;
    put_file("real", "old");
    if (symlink("real", in_folder("link")) != 0 || symlink("nowhere", in_folder("loose")) != 0)
        abort();
    CHECK(out_file_open(&f, in_folder("link"), &e) && out_file_write(&f, "new", 3,
        &e) && out_file_commit(&f, &e), "%s", e.msg);
    CHECK(holds("real", "new") && lstat(in_folder("link"), &st) == 0 && S_ISLNK(st.st_mode),
          "the link became a file");
    CHECK(!out_file_open(&f, in_folder("loose"), &e) && strstr(e.msg, "does not exist"), "%s",
          e.msg);
    empty_folder();
}

static void output_to_what_is_no_file_is_refused(void)
{
    OutFile f;
    Error   e = { 0 };
    CHECK(!out_file_open(&f, folder, &e) && e.status == SYSTEM && strstr(e.msg, "a directory"),
          "%s", e.msg);
    CHECK(!out_file_open(&f, in_folder("no/out"), &e) && e.status == SYSTEM && strstr(e.msg,
        "No such file"), "%s", e.msg);
    out_file_abort(&f);
    if (geteuid() == 0)
        return; /* root may write anything */
    put_file("out", "old");
    chmod(in_folder("out"), 0444);
    CHECK(!out_file_open(&f, in_folder("out"), &e) && strstr(e.msg, "Permission denied"), "%s",
          e.msg);
    empty_folder();
}

static void output_takes_the_longest_names(void)
{
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    OutFile f;
    Error   e = { 0 };
    CHECK(out_file_open(&f, in_folder(name), &e) && out_file_write(&f, "x", 1,
        &e) && out_file_commit(&f, &e), "%s", e.msg);
    CHECK(holds(name, "x"), "not there");
    empty_folder();
}

static void a_full_disk_is_an_error(void)
{
    OutFile f;
    Error   e = { 0 };
    struct stat st;
    CHECK(out_file_open(&f, "/dev/full", &e), "%s", e.msg);
    CHECK(!out_file_write(&f, "x", 1, &e) && e.status == SYSTEM && strstr(e.msg,
        "/dev/full: cannot write: No space"), "%s", e.msg);
    out_file_abort(&f);
    CHECK(out_file_open(&f, "/dev/full", &e) && out_file_write_at(&f, 0, "x", 1, &e), "%s", e.msg);
    CHECK(!out_file_commit(&f, &e) && strstr(e.msg, "No space"), "%s", e.msg);
    CHECK(stat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode), "the device was replaced");
    CHECK(out_file_open(&f, "/dev/null", &e) && out_file_write(&f, "x", 1,
        &e) && out_file_commit(&f, &e), "%s", e.msg);
    CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode), "the device was replaced");
}

static void a_pipe_gets_the_bytes_in_order(void)
{
    int     ends[2];
    OutFile f;
    Error   e = { 0 };
    char    path[32], got[16] = "";
    if (pipe(ends) != 0)
        abort();
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    CHECK(out_file_open(&f, path, &e) && out_file_write_at(&f, 3, "def", 3,
                                                           &e) && out_file_write_at(&f, 0, "abc", 3,
        &e), "%s", e.msg);
    CHECK(out_file_commit(&f, &e), "%s", e.msg);
    CHECK(read(ends[0], got, sizeof got) == 6 && memcmp(got, "abcdef", 6) == 0, "'%s'", got);
    close(ends[0]);
    close(ends[1]);
}

/* As in `tblock logits ... -o /dev/stdout >> file`: what stands in the file stays. */
static void a_redirected_descriptor_is_appended_to(void)
{
    OutFile f;
    Error   e = { 0 };
    char    path[32];
    put_file("out", "");
    int fd = open(in_folder("out"), O_WRONLY);
    if (write(fd, "head ", 5) != 5)
        abort();
    snprintf(path, sizeof path, "/dev/fd/%d", fd);
    CHECK(out_file_open(&f, path, &e) && out_file_write(&f, "tail", 4, &e) && out_file_commit(&f,
        &e), "%s", e.msg);
    close(fd);
    CHECK(holds("out", "head tail"), "lost");
    empty_folder();
}

static void a_path_has_a_name_and_an_end(void)
{
    static const char *const names[][2] = {
        { "a/b/c.bin", "c.bin" }, { "c.bin", "c.bin" }, { "/c", "c" }, { "a/b/", "a/b/" }
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(strcmp(path_name(names[i][0]), names[i][1]) == 0, "%s: %s", names[i][0],
              path_name(names[i][0]));
    CHECK(path_ends("a.bin", ".bin") && !path_ends(".bin", ".bin") && !path_ends("a.bin2", ".bin"),
          "ends");
}

int main(int argc, char **argv)
{
    snprintf(folder, sizeof folder, "/tmp/tblock-test-XXXXXX");
    if (!mkdtemp(folder))
        return 2;
    TEST_MAIN_ARGS(argc, argv);
    TEST(a_file_is_mapped);
    TEST(an_empty_file_is_mapped_as_nothing);
    TEST(what_is_no_file_is_refused_at_once);
    TEST(file_read_stops_at_its_limit);
    TEST(file_read_takes_a_pipe_of_any_length);
    TEST(output_appears_only_when_committed);
    TEST(output_may_be_written_in_any_order);
    TEST(output_keeps_the_mode_and_obeys_the_umask);
    TEST(output_follows_symbolic_links);
    TEST(output_to_what_is_no_file_is_refused);
    TEST(output_takes_the_longest_names);
    TEST(a_full_disk_is_an_error);
    TEST(a_pipe_gets_the_bytes_in_order);
    TEST(a_redirected_descriptor_is_appended_to);
    rmdir(folder);
    TEST(a_path_has_a_name_and_an_end);
    return TEST_END();
}
