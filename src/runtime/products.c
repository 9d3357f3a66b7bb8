/* runtime/products.c: a matrix times many vectors, as floats or integers, and its way back into the residual stream. */
#include "runtime/ops.h"

static void multiply_int(const Run *r, Rows y, const Act *x, const Mat *w, int first, int end)
{
    r->kernels->matmul_int[w->type](&(IntMatmulArgs){
        .y = y.data + (size_t)first * PANEL_ROWS,
        .y_stride = y.stride,
        .q = x->q + (size_t)y.t * x->q_stride,
        .q_stride = x->q_stride,
        .d = x->d + (size_t)y.t * x->d_stride,
        .d_stride = x->d_stride,
        .bits = x->bits,
        .w = panels_from(w->type, w->w, first, w->k),
        .n_panels = end - first,
        .k = w->k,
        .n_tok = y.n_tok,
        .bias = w->bias ? w->bias + (size_t)first * PANEL_ROWS : NULL,
        .scratch = r->scratch,
    });
}

void multiply(const Run *r, Rows y, const Act *x, const Mat *w, int first, int end)
{
    if (first >= end || y.n_tok == 0)
        return;
    Way way = way_of(r->numerics, w->type);
    if (way == WAY_INT) {
        multiply_int(r, y, x, w, first, end);
        return;
    }
    (way == WAY_BF16 ? r->kernels->matmul_bf16 : r->kernels->matmul[w->type])(&(MatmulArgs){
        .y = y.data + (size_t)first * PANEL_ROWS,
        .y_stride = y.stride,
        .x = act_row(x, y.t),
        .x_stride = x->stride,
        .w = panels_from(w->type, w->w, first, w->k),
        .n_panels = end - first,
        .k = w->k,
        .n_tok = y.n_tok,
        .bias = w->bias ? w->bias + (size_t)first * PANEL_ROWS : NULL,
        .scratch = r->scratch,
    });
}

void add_columns(const Run *r, const Act *x, const Act *y, int p, int n)
{
    int at = p * PANEL_ROWS, width = columns(p, n, x->width);
    for (int t = 0; t < r->n_tok && width > 0; t++) {
        if (r->residual_scale == 1.0f)
            r->kernels->add(act_row(x, t) + at, act_row(y, t) + at, width);
        else
            r->kernels->add_scaled(act_row(x, t) + at, act_row(y, t) + at, r->residual_scale, width);
    }
}

void add_normed(Run *r, const Act *x, const Act *y, NormVectors v)
{
    int first, end;
    wait_all(r);
    enter(r, "norm", 0, 0);
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++) {
        normalize(r, act_row(y, t), act_row(y, t), v, y->width);
        r->kernels->add_scaled(act_row(x, t), act_row(y, t), r->residual_scale, x->width);
    }
    wait_all(r);
}

/* x += W in, or x += norm(W in) where v says so. */
void add_product(Run *r, const Act *x, const Act *in, const Mat *w, NormVectors v, const char *name)
{
    int first, end;
    enter(r, name, mat_read(w), mat_work(w, r->n_tok));
    my_share(r, panel_count(w->rows), &first, &end);
    for (int p = first, n; p < end; p += n) {
        n = piece_panels(r->n_tok, end - first) < end - p ? piece_panels(r->n_tok, end - first) : end - p;
        multiply(r, all_rows(r, &r->y), in, w, p, p + n);
        if (!v.w)
            add_columns(r, x, &r->y, p, n);
    }
    if (v.w)
        add_normed(r, x, &r->y, v);
    else
        wait_all(r);
}
