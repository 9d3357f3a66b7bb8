/* runtime/ops.c: the operations of forward.c, each split over the team. A member computes the tokens, panels or heads it
 * owns with r->kernels and then waits. Who computes what never shows in the bits. */
#include "runtime/run.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/math64.h"

static void my_share(const Run *r, int n, int *first, int *end) { threads_share(r->team, n, first, end); }
static void wait_all(const Run *r) { threads_barrier(r->team); }

void embed(Run *r, const Act *x)
{
    int first, end;
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++)
        embedding_row(&r->model->embed, r->token[t].token, act_row(x, t));
    wait_all(r);
}

/* Sine and cosine of every token's angles, in double, rounded once (design: rotary embedding). Same for all layers. */
void rope_table(Run *r)
{
    int half = r->model->cfg.head_dim / 2, first, end;
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++)
        for (int i = 0; i < half; i++) {
            double s, c;
            math64_sincos((double)r->token[t].pos * r->inv_freq[i], &s, &c);
            r->cosine[(size_t)t * (size_t)half + (size_t)i] = (float)(c * r->rope_factor);
            r->sine[(size_t)t * (size_t)half + (size_t)i]   = (float)(s * r->rope_factor);
        }
    wait_all(r);
}

void rms_norm(Run *r, const Act *y, const Act *x, const float *w)
{
    int first, end;
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++)
        r->kernels->rms_norm(act_row(y, t), act_row(x, t), w, x->width, r->norm_eps);
    wait_all(r);
}

/* y = W x + bias: each member owns a run of panels for all tokens. */
static void matmul_rows(Run *r, float *y, size_t y_stride, const float *x, size_t x_stride, const Mat *w, int n_tok)
{
    int first, end;
    my_share(r, panel_count(w->rows), &first, &end);
    if (first == end || n_tok == 0)
        return;
    r->kernels->matmul[w->type](&(MatmulArgs){
        .y = y + (size_t)first * PANEL_ROWS,
        .y_stride = y_stride,
        .x = x,
        .x_stride = x_stride,
        .w = panels_from(w->type, w->w, first, w->k),
        .n_panels = end - first,
        .k = w->k,
        .n_tok = n_tok,
        .bias = w->bias ? w->bias + (size_t)first * PANEL_ROWS : NULL,
        .scratch = r->scratch,
    });
}

void matmul(Run *r, const Act *y, const Act *x, const Mat *w)
{
    matmul_rows(r, y->data, y->stride, x->data, x->stride, w, r->n_tok);
    wait_all(r);
}

void rope(Run *r, const Act *x, int heads)
{
    int    d_head = r->model->cfg.head_dim, first, end;
    size_t half = (size_t)d_head / 2;
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++)
        r->kernels->rope(act_row(x, t), heads, d_head, d_head, r->cosine + (size_t)t * half, r->sine + (size_t)t * half);
    wait_all(r);
}

void kv_put(Run *r, int l)
{
    int d_head = r->model->cfg.head_dim, kv_heads = r->model->cfg.kv_heads, first, end;
    my_share(r, r->n_tok * kv_heads, &first, &end);
    for (int i = first; i < end; i++) {
        const BatchToken *b = &r->token[i / kv_heads];
        int               h = i % kv_heads;
        kv_cache_put(r->kv_cache, r->kernels, b->seq, l, h, b->pos, act_row(&r->k, i / kv_heads) + h * d_head,
                     act_row(&r->v, i / kv_heads) + h * d_head);
    }
    wait_all(r);
}

void swiglu(Run *r, const Act *gate, const Act *up)
{
    /* Cut each row into pieces of 512, so that one token is shared too. */
    enum { PIECE = 512 };
    int pieces = (gate->width + PIECE - 1) / PIECE, first, end;
    my_share(r, r->n_tok * pieces, &first, &end);
    for (int i = first; i < end; i++) {
        int    at = i % pieces * PIECE, n = gate->width - at < PIECE ? gate->width - at : PIECE;
        float *g = act_row(gate, i / pieces) + at;
        r->kernels->swiglu(g, g, act_row(up, i / pieces) + at, n);
    }
    wait_all(r);
}

void add(Run *r, const Act *x, const Act *y)
{
    int first, end;
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++)
        r->kernels->add(act_row(x, t), act_row(y, t), x->width);
    wait_all(r);
}

/* Logits of the tokens that want them: runs of neighbours whose logits lie one after the other are one matmul. */
void head(Run *r, const Act *xn)
{
    const Mat *w      = &r->model->lm_head;
    size_t     stride = round_up((size_t)w->rows, LANES);
    for (int t = 0; t < r->n_tok;) {
        int n = 1;
        if (r->token[t].logits)
            for (; t + n < r->n_tok && r->token[t + n].logits == r->token[t].logits + (size_t)n * stride;)
                n++;
        if (r->token[t].logits)
            matmul_rows(r, r->token[t].logits, stride, act_row(xn, t), xn->stride, w, n);
        t += n;
    }
    wait_all(r);
}

void observe(Run *r, const char *name, int l, const Act *x)
{
    if (!r->observer)
        return;
    if (r->team.thread == 0) {
        char text[32];
        if (l < 0)
            snprintf(text, sizeof text, "%s", name);
        else
            snprintf(text, sizeof text, "%s%d", name, l);
        r->observer(r->observer_user, text, r->first, r->n_tok, x->data, x->stride);
    }
    wait_all(r);
}
