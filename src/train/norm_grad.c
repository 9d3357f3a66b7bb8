/* train/norm_grad.c: norms of rows and their gradients, alone or fused with the residual sum
 * before them. */
#include <string.h>

#include "train/train_ops.h"

typedef struct NormWork {
    const Crew       *c;
    float            *out;
    const NormParams *p, *d;
    const float      *x, *d_y;
    int               n_tok;
    const float      *stream, *y;          /* only the fused ones: x and y of the sum */
    float            *sum, *branch, scale;  /* the sum; where d_y goes */
} NormWork;

/* sum = x + y * scale. The norm then reads the sum (w->x). */
static void add_row(const NormWork *w, size_t at)
{
    float       *sum = w->sum + at; /* locals: else each element reloads the pointers */
    const float *x = w->stream + at, *y = w->y + at;
    float        scale = w->scale;
    for (int j = 0; j < w->p->n; j++)
        sum[j] = x[j] + y[j] * scale;
}

static void forward_piece(void *arg, size_t first, int n)
{
    const NormWork   *w = arg;
    const NormParams *p = w->p;
    size_t            at = first * (size_t)p->n;
    for (int t = 0; t < n; t++, at += (size_t)p->n) {
        if (w->sum)
            add_row(w, at);
        if (p->kind == NORM_LAYER)
            w->c->k->layer_norm(w->out + at, w->x + at, p->w, p->b, p->n, p->eps);
        else
            w->c->k->rms_norm(w->out + at, w->x + at, p->w, p->n, p->eps);
    }
}

void norm_forward(const Crew *c, float *y, const float *x, const NormParams *p, int n_tok)
{
    NormWork w = { .c = c, .out = y, .p = p, .x = x, .n_tok = n_tok };
    crew_cut(c, (size_t)n_tok, NORM_PIECE, forward_piece, &w);
}

/* restrict lets the compiler vectorize: it knows that the rows do not overlap. */
static void scale_row(float *restrict y, const float *restrict x, float scale, int n)
{
    for (int j = 0; j < n; j++)
        y[j] = x[j] * scale;
}

/* First sums the gradients of w and b of this piece into the crew's partial sums [2, n].
 * add_partials then adds the pieces in their order, so the bits do not depend on threads. */
static void backward_piece(void *arg, size_t first, int n)
{
    const NormWork   *w  = arg;
    const NormParams *p  = w->p;
    size_t            at = first * (size_t)p->n;
    float *d_w = w->c->partial + first / NORM_PIECE * 2 * (size_t)p->n, *d_b = d_w + p->n;
    memset(d_w, 0, 2 * (size_t)p->n * sizeof *d_w);
    for (int t = 0; t < n; t++, at += (size_t)p->n) {
        if (p->kind == NORM_LAYER)
            w->c->k->layer_norm_backward(w->out + at, d_w, d_b, w->x + at, p->w, w->d_y + at, p->n,
                                         p->eps);
        else
            w->c->k->rms_norm_backward(w->out + at, d_w, w->x + at, p->w, w->d_y + at, p->n,
                                       p->eps);
        if (w->branch)
            scale_row(w->branch + at, w->out + at, w->scale, p->n);
    }
}

static void add_partials(const Crew *c, float *sum, int which, int n_pieces, int n)
{
    for (int i = 0; sum && i < n_pieces; i++)
        c->k->add(sum, c->partial + ((size_t)i * 2 + (size_t)which) * (size_t)n, n);
}

static void backward(const NormWork *w)
{
    int n = pieces((size_t)w->n_tok, NORM_PIECE);
    crew_cut(w->c, (size_t)w->n_tok, NORM_PIECE, backward_piece, (void *)w);
    add_partials(w->c, w->d->w, 0, n, w->p->n);
    add_partials(w->c, w->d->b, 1, n, w->p->n);
}

void norm_backward_rows(const Crew *c, float *d_x, const NormParams *d, const float *x,
                        const NormParams *p, const float *d_y, int n_tok)
{
    NormWork w = { .c = c, .out = d_x, .p = p, .d = d, .x = x, .d_y = d_y, .n_tok = n_tok };
    backward(&w);
}

void residual_norm_forward(const Crew *c, float *sum, float *xn, const float *x, const float *y,
                           float scale, const NormParams *p, int n_tok)
{
    NormWork w = { .c = c,
                   .out = xn,
                   .p = p,
                   .x = sum,
                   .n_tok = n_tok,
                   .stream = x,
                   .y = y,
                   .sum = sum,
                   .scale = scale };
    crew_cut(c, (size_t)n_tok, NORM_PIECE, forward_piece, &w);
}

void residual_norm_backward(const Crew *c, float *d_x, float *d_y, const NormParams *d,
                            const float *sum, const NormParams *p, const float *d_xn, float scale,
                            int n_tok)
{
    NormWork w = { .c = c,
                   .out = d_x,
                   .p = p,
                   .d = d,
                   .x = sum,
                   .d_y = d_xn,
                   .n_tok = n_tok,
                   .branch = d_y,
                   .scale = scale };
    backward(&w);
}
