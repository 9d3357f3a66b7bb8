/* bench_batch: what the engine alone makes of a server's load: prompts read one after the other,
 * then their answers decoded in one batch. No text, no sampling, no network.
 *   bench_batch MODEL [--threads N] [--sequences N] [--prompt N] [--answer N]
 * Prints one JSON object. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../timing.h"
#include "tblock.h"

enum { MOST_SEQUENCES = 1024 };

typedef struct Args {
    const char *model;
    int         threads, sequences, prompt, answer;
} Args;

static _Noreturn void stop(int status, const char *why)
{
    fprintf(stderr, "bench_batch: %s\n", why);
    exit(status);
}

static Args read_args(int argc, char **argv)
{
    Args a = { .sequences = 8, .prompt = 64, .answer = 256 };
    if (argc < 2 || argc % 2 || argv[1][0] == '-')
        stop(2, "usage: bench_batch MODEL [--threads N] [--sequences N] [--prompt N] [--answer N]");
    a.model = argv[1];
    for (int i = 2; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--threads") == 0)
            a.threads = number_option(name, value, 1024);
        else if (strcmp(name, "--sequences") == 0)
            a.sequences = number_option(name, value, MOST_SEQUENCES);
        else if (strcmp(name, "--prompt") == 0)
            a.prompt = number_option(name, value, 1 << 20);
        else if (strcmp(name, "--answer") == 0)
            a.answer = number_option(name, value, 1 << 20);
        else
            stop(2, "an option that is not known");
    }
    return a;
}

static void decode(tblock_context *c, const tblock_item *items, size_t n)
{
    tblock_error err;
    if (!tblock_decode(c, items, n, &err))
        stop(err.status, err.msg);
}

/* Seconds of all prompts. */
static double read_prompts(tblock_context *c, const Args *a, int vocab)
{
    tblock_item *item = malloc((size_t)a->prompt * sizeof *item);
    if (!item)
        stop(4, "out of memory");
    const double begun = clock_seconds();
    for (int s = 0; s < a->sequences; s++) {
        for (int i = 0; i < a->prompt; i++)
            item[i] = (tblock_item){ s, i, ((s + 1) * 7919 + i * 104729) % vocab,
                                     i + 1 == a->prompt };
        decode(c, item, (size_t)a->prompt);
    }
    free(item);
    return clock_seconds() - begun;
}

static double decode_answers(tblock_context *c, const Args *a, int vocab)
{
    tblock_item  item[MOST_SEQUENCES];
    const double begun = clock_seconds();
    for (int i = 0; i < a->answer; i++) {
        for (int s = 0; s < a->sequences; s++)
            item[s] = (tblock_item){ s, a->prompt + i, (s * 7919 + i * 104729 + 1) % vocab, true };
        decode(c, item, (size_t)a->sequences);
    }
    return clock_seconds() - begun;
}

int main(int argc, char **argv)
{
    Args          a     = read_args(argc, argv), once;
    tblock_error  err;
    tblock_model *model = tblock_open(a.model, NULL, &err);
    if (!model)
        stop(err.status, err.msg);
    tblock_context_options opt = { .threads = a.threads,
                                   .n_ctx   = a.prompt + a.answer,
                                   .n_seqs  = a.sequences,
                                   .pages   = "huge" };
    tblock_context *c = tblock_context_new(model, &opt, &err);
    if (!c)
        stop(err.status, err.msg);
    tblock_model_info m;
    tblock_model_describe(model, &m);
    once           = a;
    once.sequences = 1;
    once.prompt    = a.prompt < 16 ? a.prompt : 16;
    read_prompts(c, &once, m.vocab_size); /* touches the pages */
    tblock_seq_rewind(c, 0, 0, &err);
    double read = read_prompts(c, &a, m.vocab_size), decoded = decode_answers(c, &a, m.vocab_size);
    double n_read = (double)a.prompt * a.sequences, n_decoded = (double)a.answer * a.sequences;
    printf("{\"sequences\": %d, \"prompt\": %d, \"answer\": %d, \"prefill_tok_per_s\": %.2f, "
           "\"decode_tok_per_s\": %.2f, \"tokens_per_s\": %.2f}\n",
           a.sequences, a.prompt, a.answer, n_read / read, n_decoded / decoded,
           n_decoded / (read + decoded));
    tblock_context_free(c);
    tblock_close(model);
    return 0;
}
