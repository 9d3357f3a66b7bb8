/* The logits of the layer that predicts the token after the next, for tests/golden/mtp.py.
 *
 *   mtp_tool MODEL PIECE IDS GUESSES
 *
 * The model reads the ids in pieces, and the layer what the model ended with; then come the
 * guesses, each from the layer's own state. Prints a line of logits for each position of the
 * layer. */
#include <stdio.h>
#include <stdlib.h>

#include "api/mtp.h"

enum { MOST = 64 };

static int fault(const Error *err)
{
    fprintf(stderr, "%s\n", err->msg);
    return 1;
}

static size_t numbers(const char *text, int32_t *out)
{
    size_t n = 0;
    for (char *end; n < MOST; text = end + 1) {
        out[n] = (int32_t)strtol(text, &end, 10);
        n += end != text;
        if (*end != ',')
            break;
    }
    return n;
}

static void print_rows(const tblock_context *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = tblock_logits(c, i);
        for (int j = 0; j < c->model->weights.cfg.vocab_size; j++)
            printf("%s%.9g", j ? " " : "", (double)row[j]);
        printf("\n");
    }
}

/* Reads n ids in pieces, and what the layer answers behind them. */
static bool run(tblock_context *c, Mtp *m, size_t piece, int32_t *ids, size_t n, size_t n_guesses,
                Error *err)
{
    tblock_context *own = mtp_context(m);
    Guess           g   = { .ids = ids, .n = n, .most = 1 };
    tblock_item     item[MOST];
    for (size_t at = 0, now; at + 1 < n; at += now) {
        now = piece < n - 1 - at ? piece : n - 1 - at;
        for (size_t i = 0; i < now; i++)
            item[i] = (tblock_item){ .pos = (int32_t)(at + i), .token = ids[at + i] };
        if (!context_decode(c, item, now, err))
            return false;
        mtp_show(m, item, now, c->states);
    }
    if (!mtp_reserve(m, MOST, err))
        return false;
    n = mtp_add(m, &g, 0);
    for (size_t i = 0; i < n; i++)
        own->step[i].want_logits = true;
    if (!context_decode(own, own->step, n, err))
        return false;
    print_rows(own, n);
    for (size_t i = 0; i < n_guesses; i++) {
        mtp_add_guess(m, 0, 0);
        own->step[0] = (tblock_item){ .pos         = (int32_t)(n + i),
                                      .token       = ids[g.n + i],
                                      .want_logits = true };
        if (!context_decode(own, own->step, 1, err))
            return false;
        print_rows(own, 1);
    }
    return true;
}

int main(int argc, char **argv)
{
    Error   err = { 0 };
    int32_t ids[2 * MOST];
    if (argc != 5)
        return 2;
    const size_t    n = numbers(argv[3], ids), n_guesses = numbers(argv[4], ids + n);
    tblock_model   *model = tblock_open(argv[1], NULL, &err);
    tblock_context *c = model ? tblock_context_new(model, NULL, &err) : NULL;
    Mtp            *m = c ? mtp_new(c, &err) : NULL;
    if (m)
        c->states = malloc((size_t)c->n_batch * (size_t)model->weights.cfg.d_model * sizeof(float));
    const bool good = m && c->states && run(c, m, (size_t)atoi(argv[2]), ids, n, n_guesses, &err);
    mtp_free(m);
    tblock_context_free(c);
    tblock_close(model);
    return good ? 0 : fault(&err);
}
