/* train/embed_grad.c: looks up rows of the embedding. Its gradient adds each token's d_x to the
 * token's row. */
#include <string.h>

#include "train/train_ops.h"

/* Columns of a piece. */
enum { COLUMN_PIECE = 64 };

typedef struct Embed {
    const Crew    *c;
    float         *out;
    const float   *in;
    const int32_t *token;
    int            n_tok, d;
    float          scale;
} Embed;

static void gather_piece(void *arg, size_t at, int n)
{
    const Embed *e = arg;
    size_t d = (size_t)e->d;
    for (size_t t = at; t < at + (size_t)n; t++) {
        memcpy(e->out + t * d, e->in + (size_t)e->token[t] * d, d * sizeof *e->out);
        if (e->scale != 1.0f)
            e->c->k->scale(e->out + t * d, e->scale, e->d);
    }
}

void embed_forward(const Crew *c, float *x, const float *table, const int32_t *token, int n_tok,
                   int d, float scale)
{
    Embed e = { c, x, table, token, n_tok, d, scale };
    crew_cut(c, (size_t)n_tok, NORM_PIECE, gather_piece, &e);
}

/* Some columns of all tokens, in order. A token may occur often: cut by columns, no two threads
 * add to the same element, and the order of each sum is fixed. */
static void scatter_piece(void *arg, size_t at, int n)
{
    const Embed *e = arg;
    size_t d = (size_t)e->d;
    for (size_t t = 0; t < (size_t)e->n_tok; t++)
        e->c->k->add_scaled(e->out + (size_t)e->token[t] * d + at, e->in + t * d + at, e->scale, n);
}

void embed_backward(const Crew *c, float *d_table, const int32_t *token, const float *d_x,
                    int n_tok, int d, float scale)
{
    Embed e = { c, d_table, d_x, token, n_tok, d, scale };
    if (d_table)
        crew_cut(c, (size_t)d, COLUMN_PIECE, scatter_piece, &e);
}
