/* train/linear.c: y = x W^T + b and its gradients. Products over tokens are cut by tokens, the
 * gradient of W by its rows: each element is computed by one thread. */
#include <string.h>

#include "train/train_ops.h"

typedef struct Linear {
    const Crew  *c;
    float       *out, *d_b;
    const float *in, *w, *b;
    int          n_tok, rows, k;
    bool         add;
} Linear;

static void multiply_piece(void *arg, size_t at, int n)
{
    const Linear *l = arg;
    float *y  = l->out + at * (size_t)l->rows;
    /* The product adds to y (beta 1) if it starts from the bias. */
    for (int t = 0; l->b && t < n; t++)
        memcpy(y + (size_t)t * (size_t)l->rows, l->b, (size_t)l->rows * sizeof *y);
    l->c->blas.sgemm(CBLAS_ROWS, CBLAS_PLAIN, CBLAS_TURNED, n, l->rows, l->k, 1,
                     l->in + at * (size_t)l->k, l->k, l->w, l->k, l->b ? 1 : 0, y, l->rows);
}

void linear(const Crew *c, float *y, const float *x, const float *w, const float *b, int n_tok,
            int rows, int k)
{
    Linear l = { .c = c, .out = y, .in = x, .w = w, .b = b, .n_tok = n_tok, .rows = rows, .k = k };
    crew_cut(c, (size_t)n_tok, ROW_PIECE, multiply_piece, &l);
}

static void back_piece(void *arg, size_t at, int n)
{
    const Linear *l = arg;
    l->c->blas.sgemm(CBLAS_ROWS, CBLAS_PLAIN, CBLAS_PLAIN, n, l->k, l->rows, 1,
                     l->in + at * (size_t)l->rows, l->rows, l->w, l->k, l->add ? 1 : 0,
                     l->out + at * (size_t)l->k, l->k);
}

void linear_backward(const Crew *c, float *d_x, const float *d_y, const float *w, int n_tok,
                     int rows, int k, bool add)
{
    Linear l = {
        .c = c, .out = d_x, .in = d_y, .w = w, .n_tok = n_tok, .rows = rows, .k = k, .add = add
    };
    crew_cut(c, (size_t)n_tok, ROW_PIECE, back_piece, &l);
}

/* sum [n] += rows of x, in order. */
static void sum_columns(float *sum, const float *x, int n_tok, size_t stride, int n)
{
    for (int t = 0; t < n_tok; t++)
        for (int j = 0; j < n; j++)
            sum[j] += x[(size_t)t * stride + (size_t)j];
}

/* Some rows of the gradient of W and b, over all tokens. Here l->w is d_y and l->in is x. */
static void weight_piece(void *arg, size_t at, int n)
{
    const Linear *l = arg;
    if (l->out)
        l->c->blas.sgemm(CBLAS_ROWS, CBLAS_TURNED, CBLAS_PLAIN, n, l->k, l->n_tok, 1, l->w + at,
                         l->rows, l->in, l->k, 1, l->out + at * (size_t)l->k, l->k);
    if (l->d_b)
        sum_columns(l->d_b + at, l->w + at, l->n_tok, (size_t)l->rows, n);
}

void linear_weight_backward(const Crew *c, float *d_w, float *d_b, const float *d_y, const float *x,
                            int n_tok, int rows, int k)
{
    Linear l = {
        .c = c, .out = d_w, .d_b = d_b, .in = x, .w = d_y, .n_tok = n_tok, .rows = rows, .k = k
    };
    if (d_w || d_b)
        crew_cut(c, (size_t)rows, WEIGHT_PIECE, weight_piece, &l);
}
