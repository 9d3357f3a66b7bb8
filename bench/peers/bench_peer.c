/* bench_peer: tblock as one of the programs that bench/peers/run.py times in turn.
 *   bench_peer MODEL [--threads N] [--isa NAME] [--math f32|bf16]
 * MODEL may be -: then only `bandwidth` and `quit`.
 * The first line of the output describes the model; then each line of the input is a command,
 * answered by one line of JSON:
 *   prefill MODE N          {"seconds": s}   N tokens from an empty context to the logits after the
 *                                            last
 *   context MODE START      {}               make sure that START tokens are there; not timed
 *   decode MODE START N     {"seconds": s}   N tokens, one at a time, after START
 *   logits MODE FILE ID...  {}               the logits after these tokens, f32, to a file
 *   bandwidth               {"gb_per_s": x}  what this machine reads at most with these threads
 *   quit
 * The one MODE here is `default`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/progress.h"
#include "kernels/roofline.h"
#include "tblock.h"

enum {
    MAX_TOKENS = 1 << 16,
    LINE = 4096,
    SHORT = 256 /* contexts up to here are sequence 0, longer ones sequence 1 */
};

typedef struct Worker {
    tblock_model     *model;
    tblock_context   *context;
    tblock_model_info info;
    int               threads;
    char             *bandwidth_data;
} Worker;

static tblock_item batch[MAX_TOKENS];

static _Noreturn void stop(int status, const char *why)
{
    fprintf(stderr, "bench_peer: %s\n", why);
    exit(status);
}

/* A whole number of `text` from min to max; *text moves behind it. */
static int number(char **text, int min, int max)
{
    char *end;
    long  n = strtol(*text, &end, 10);
    if (end == *text || n < min || n > max)
        stop(2, "a number that is missing or out of range");
    *text = end;
    return (int)n;
}

/* Append n tokens to a sequence in one call; the same tokens for the same positions in every
 * program. */
static void extend(Worker *w, int seq, int n)
{
    tblock_error err;
    int          start = tblock_seq_length(w->context, seq);
    for (int i = 0; i < n; i++)
        batch[i] =
            (tblock_item){ seq, start + i, (int32_t)((start + i) * 7919LL % w->info.vocab_size),
                           i == n - 1 };
    if (!tblock_decode(w->context, batch, (size_t)n, &err))
        stop(err.status, err.msg);
}

static void rewind_to(Worker *w, int seq, int length)
{
    tblock_error err;
    if (!tblock_seq_rewind(w->context, seq, length, &err))
        stop(err.status, err.msg);
}

static void answer_seconds(double seconds)
{
    printf("{\"seconds\": %.9f}\n", seconds);
}

static void prefill(Worker *w, char *rest)
{
    int n = number(&rest, 1, MAX_TOKENS);
    rewind_to(w, 0, 0);
    double start = clock_seconds();
    extend(w, 0, n);
    answer_seconds(clock_seconds() - start);
}

/* Sequence with exactly `length` tokens. */
static int sequence_of(Worker *w, int length)
{
    int seq = length > SHORT;
    if (tblock_seq_length(w->context, seq) > length)
        rewind_to(w, seq, length);
    int missing = length - tblock_seq_length(w->context, seq);
    if (missing > 0)
        extend(w, seq, missing);
    return seq;
}

static void decode(Worker *w, char *rest)
{
    int length = number(&rest, 1, MAX_TOKENS / 2), n = number(&rest, 1, MAX_TOKENS / 2);
    int seq = sequence_of(w, length);
    double start = clock_seconds();
    for (int i = 0; i < n; i++)
        extend(w, seq, 1);
    answer_seconds(clock_seconds() - start);
}

static void write_logits(Worker *w, char *rest)
{
    tblock_error err;
    char *path = strtok(rest, " "), *id;
    int   n = 0;
    rewind_to(w, 0, 0);
    while ((id = strtok(NULL, " ")) && n < MAX_TOKENS) {
        batch[n] = (tblock_item){ 0, n, (int32_t)number(&id, 0, w->info.vocab_size - 1), false };
        n++;
    }
    if (n == 0)
        stop(2, "logits: expected a file and token ids");
    batch[n - 1].want_logits = true;
    if (!tblock_decode(w->context, batch, (size_t)n, &err))
        stop(err.status, err.msg);
    size_t vocab = (size_t)w->info.vocab_size;
    FILE  *f = fopen(path, "wb");
    if (!f || fwrite(tblock_logits(w->context, (size_t)n - 1), sizeof(float), vocab, f) != vocab
        || fclose(f) != 0)
        stop(4, "cannot write the logits");
    printf("{}\n");
}

/* Memory of our own in huge pages, as much as a 1B model reads for a token, so that neither the
 * page cache nor page walks nor L3 play a part. */
static void bandwidth(Worker *w)
{
    size_t n = (size_t)3 << 29;
    if (!w->bandwidth_data) {
        w->bandwidth_data = pages_map(n);
        if (!w->bandwidth_data)
            stop(4, "out of memory");
        memset(w->bandwidth_data, 1, n);
    }
    printf("{\"gb_per_s\": %.3f}\n", roofline_read(w->bandwidth_data, n, w->threads, 2));
}

static void open_model(Worker *w, const char *path, const char *isa, const char *math)
{
    tblock_error err;
    w->model = tblock_open(path, NULL, &err);
    if (!w->model)
        stop(err.status, err.msg);
    tblock_context_options o = { .n_seqs = 2,
                                 .threads = w->threads,
                                 .isa = isa,
                                 .math = math,
                                 .pages = "huge" }; /* what a long run would have */
    w->context = tblock_context_new(w->model, &o, &err);
    if (!w->context)
        stop(err.status, err.msg);
    tblock_context_info c;
    tblock_model_describe(w->model, &w->info);
    tblock_context_describe(w->context, &c);
    printf("{\"version\": \"tblock %s\", \"system\": \"%s, %d threads, weights %s, math %s, KV "
           "cache %s\", \"modes\": [\"default\"], "
           "\"bytes_per_token\": %zu, \"parameters\": %llu}\n",
           tblock_version(), c.isa, c.threads, w->info.weight_types, c.math, c.kv_type,
           w->info.bytes_per_token, (unsigned long long)w->info.n_params);
}

static void obey(Worker *w, char *line)
{
    char *rest, *command = strtok_r(line, " \n", &rest);
    if (!command || strcmp(command, "quit") == 0)
        exit(0);
    if (strcmp(command, "bandwidth") == 0) {
        bandwidth(w);
        return;
    }
    const char *mode = strtok_r(NULL, " \n", &rest);
    if (!mode || strcmp(mode, "default") != 0 || !w->context)
        stop(2, "expected mode `default`, and a model");
    rest[strcspn(rest, "\n")] = '\0';
    if (strcmp(command, "prefill") == 0)
        prefill(w, rest);
    else if (strcmp(command, "decode") == 0)
        decode(w, rest);
    else if (strcmp(command, "logits") == 0)
        write_logits(w, rest);
    else if (strcmp(command, "context") == 0)
        sequence_of(w, number(&rest, 1, MAX_TOKENS / 2)), printf("{}\n");
    else
        stop(2, "unknown command");
}

int main(int argc, char **argv)
{
    Worker      w   = { .threads = 2 };
    const char *isa = NULL, *math = NULL;
    char        line[LINE];
    for (int i = 2; i + 1 < argc; i += 2) {
        char *value = argv[i + 1];
        if (strcmp(argv[i], "--threads") == 0)
            w.threads = number(&value, 1, 1024);
        else if (strcmp(argv[i], "--isa") == 0)
            isa = value;
        else if (strcmp(argv[i], "--math") == 0)
            math = value;
        else
            argc = 0;
    }
    if (argc < 2 || argc % 2 != 0)
        stop(2,
             "usage: bench_peer MODEL|- [--threads N] [--isa NAME] [--math f32|bf16], commands on "
             "standard input");
    if (strcmp(argv[1], "-") != 0)
        open_model(&w, argv[1], isa, math);
    else
        printf("{\"version\": \"\", \"system\": \"\", \"modes\": []}\n");
    for (fflush(stdout); fgets(line, sizeof line, stdin); fflush(stdout))
        obey(&w, line);
    return 0;
}
