/* tblock bench --csv: appends a line per row; a new file starts with a line of names. */
#include "bench.h"
#include "command.h"
#include "tblock_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static const char columns[] =
    "cpu,isa,threads,model,types,parameters,math,activations,kv_type,what,tokens,depth,repeats,"
    "tokens_per_s,tokens_per_s_least,"
    "tokens_per_s_most,gb_per_s,read_gb_per_s,gop_per_s,peak,peak_gop_per_s,weights_gb_per_s,"
    "huge_share\n";

/* A text in quotes, with quotes in it doubled. */
static void add_text(TextOut *csv, const char *text)
{
    text_out(csv, "\"");
    for (; *text; text++)
        text_out_bytes(csv, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    text_out(csv, "\",");
}

static void add_known(TextOut *csv, double x, bool is_known, const char *end)
{
    if (is_known)
        text_out(csv, "%.6g", x);
    text_out(csv, "%s", end);
}

static void add_row(TextOut *csv, const Bench *b, const BenchRow *r)
{
    const tblock_machine      *m = &b->machine[r->machine];
    const tblock_context_info *c = &b->computing;
    Rates                      x = bench_rates(b, r);
    Peak                       peak = bench_peak(b, r->machine);
    add_text(csv, m->cpu);
    text_out(csv, "%s,%d,", c->isa, m->threads);
    add_text(csv, path_name(b->args->model));
    add_text(csv, b->info.weight_types);
    text_out(csv, "%" PRIu64 ",%s,%s,%s,%s,%d,%d,%d,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%s,",
             b->info.n_params, c->math, c->activations, c->kv_type,
             r->decode ? "decode" : "prefill", r->tokens, r->depth, r->repeats, x.tokens_per_s,
             x.least, x.most, x.gb_per_s, m->read_gb_per_s, x.gop_per_s, peak.name);
    add_known(csv, peak.gop_per_s, peak.gop_per_s > 0, ",");
    add_known(csv, m->weights_gb_per_s, m->weights_gb_per_s > 0, ",");
    add_known(csv, m->huge_share, m->huge_share >= 0, "\n");
}

static bool system_error(const char *path, tblock_error *err)
{
    return fail(err, TBLOCK_SYSTEM, "--csv: %s: %s", path, strerror(errno));
}

/* Does the file begin with our columns? If it is empty or not a regular file, we may write to
 * it. */
static bool check_columns(int fd, const char *path, bool *empty, tblock_error *err)
{
    char first[sizeof columns];
    *empty = lseek(fd, 0, SEEK_END) <= 0; /* not fstat, which the sandbox may reject */
    if (*empty)
        return true;
    ssize_t n = pread(fd, first, sizeof columns - 1, 0);
    if (n < 0)
        return system_error(path, err);
    return ((size_t)n == sizeof columns - 1 && memcmp(first, columns, (size_t)n) == 0)
        || fail(err, TBLOCK_USAGE,
                "--csv: %s: expected the header line of this version, found "
                "another one: choose a new file",
                path);
}

bool bench_csv_check(int open_as, const char *path, tblock_error *err)
{
    bool        empty;
    struct stat st;
    if (open_as >= 0)
        return check_columns(open_as, path, &empty, err);
    if (stat(path, &st) != 0 ? errno == ENOENT : !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return true;
    int fd = open(path, O_RDWR);
    if (fd < 0)
        return system_error(path, err);
    bool good = check_columns(fd, path, &empty, err);
    close(fd);
    return good;
}

int bench_csv_open(const char *path, tblock_error *err)
{
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        system_error(path, err);
    return fd;
}

bool bench_csv_append(const Bench *b, int fd, const char *path, tblock_error *err)
{
    TextOut csv = { 0 };
    bool    empty, good = check_columns(fd, path, &empty, err);
    if (good && empty)
        text_out(&csv, "%s", columns);
    for (int i = 0; good && i < b->n_rows; i++)
        add_row(&csv, b, &b->row[i]);
    good = good && (!csv.failed || no_memory(NULL, err))
        && (write_all(fd, -1, csv.text, csv.n) || system_error(path, err));
    if (close(fd) != 0 && good)
        good = system_error(path, err);
    text_out_free(&csv);
    return good;
}
