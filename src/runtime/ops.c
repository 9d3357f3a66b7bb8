/* runtime/ops.c: the operations of forward.c, each split over the team. A member computes the rows, panels or heads it
 * owns with r->kernels. Meetings are few, for at one token they would cost as much as the small operations between them:
 *  - who computes columns of a product goes on with them: rotates its heads, gates its hidden values, adds to its part of x;
 *  - what every member reads and is quickly computed (norms, integers) each computes for itself where tokens are few.
 * Who computes what never shows in the bits. */
#include "runtime/run.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/math64.h"

static void my_share(const Run *r, int n, int *first, int *end) { threads_share(r->team, n, first, end); }
static void wait_all(const Run *r) { threads_barrier(r->team); }

/* Rows that this member computes; wait_rows: before another one's are read. */
static void my_rows(const Run *r, int *first, int *end)
{
    *first = 0;
    *end   = r->n_tok;
    if (!r->own_rows)
        my_share(r, r->n_tok, first, end);
}
static void wait_rows(const Run *r)
{
    if (!r->own_rows)
        wait_all(r);
}

static void enter(const Run *r, const char *name, double bytes, double operations)
{
    if (r->profile)
        profile_enter(r->profile, name, bytes, operations);
}

static double mat_read(const Mat *w) { return (double)panel_bytes(w->type, w->k) * panel_count(w->rows); }
static double mat_work(const Mat *w, int n_tok) { return 2.0 * w->rows * w->k * n_tok; }

/* ---- Rows ----------------------------------------------------------------------------------------------------- */

/* Sine and cosine of every token's angles, in double, rounded once (docs/numerics.md, "Rotary embedding"). Same for all layers.
 * Complete where embed ends. */
void rope_table(Run *r)
{
    int half = r->model->cfg.head_dim / 2, first, end;
    enter(r, "embed", 0, 0);
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++)
        for (int i = 0; i < half; i++) {
            double s, c;
            math64_sincos((double)r->token[t].pos * r->inv_freq[i], &s, &c);
            r->cosine[(size_t)t * (size_t)half + (size_t)i] = (float)(c * r->rope_factor);
            r->sine[(size_t)t * (size_t)half + (size_t)i]   = (float)(s * r->rope_factor);
        }
}

void embed(Run *r, const Act *x)
{
    int first, end;
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++)
        embedding_row(&r->model->embed, r->token[t].token, act_row(x, t));
    wait_all(r);
}

/* Integers of n values of row t from column `at` on, a multiple of 256. */
static void quantize(const Run *r, const Act *x, int t, int at, int n, int bits)
{
    int16_t *q = x->q + (size_t)t * x->q_stride + at;
    float   *d = x->d + (size_t)t * x->d_stride + at / SUPERBLOCK;
    r->kernels->quantize(q, d, act_row(x, t) + at, n, bits);
}

/* y = norm(x) * w, and its integers where bits says so. */
void rms_norm(Run *r, Act *y, const Act *x, const float *w, int bits)
{
    int first, end;
    enter(r, "norm", 0, 0);
    my_rows(r, &first, &end);
    for (int t = first; t < end; t++) {
        r->kernels->rms_norm(act_row(y, t), act_row(x, t), w, x->width, r->norm_eps);
        if (bits)
            quantize(r, y, t, 0, y->width, bits);
    }
    y->bits = bits;
    wait_rows(r);
}

void integers(Run *r, Act *x, int bits)
{
    int first, end;
    x->bits = bits;
    if (!bits)
        return;
    my_rows(r, &first, &end);
    for (int t = first; t < end; t++)
        quantize(r, x, t, 0, x->width, bits);
    wait_rows(r);
}

/* ---- Products ------------------------------------------------------------------------------------------------- */

/* Where a product goes: rows of n_tok tokens, from the call's token t on. */
typedef struct Rows { float *data; size_t stride; int t, n_tok; } Rows;

static Rows all_rows(const Run *r, const Act *y) { return (Rows){y->data, y->stride, 0, r->n_tok}; }

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

/* y = W x + bias, panels first .. end - 1. */
static void multiply(const Run *r, Rows y, const Act *x, const Mat *w, int first, int end)
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

/* Panels that are multiplied before their columns are gone on with: few where tokens are many, so that the columns are
 * still in the cache; 32 are 512 columns. */
static int piece_panels(const Run *r, int panels) { return r->n_tok > OWN_ROWS && panels > 32 ? 32 : panels; }

/* x += W in. */
void matmul_add(Run *r, const Act *x, const Act *in, const Mat *w, const char *name)
{
    int first, end;
    enter(r, name, mat_read(w), mat_work(w, r->n_tok));
    my_share(r, panel_count(w->rows), &first, &end);
    for (int p = first, n; p < end; p += n) {
        n = piece_panels(r, end - first) < end - p ? piece_panels(r, end - first) : end - p;
        multiply(r, all_rows(r, &r->y), in, w, p, p + n);
        int at = p * PANEL_ROWS, width = n * PANEL_ROWS < x->width - at ? n * PANEL_ROWS : x->width - at;
        for (int t = 0; t < r->n_tok; t++)
            r->kernels->add(act_row(x, t) + at, act_row(&r->y, t) + at, width);
    }
    wait_all(r);
}

/* ---- Attention's inputs --------------------------------------------------------------------------------------- */

/* Rotate q and k of the KV heads first .. end - 1 and their groups, and put k and v into the cache; token t of the call. */
static void rotate_and_put(Run *r, int l, int t, int first, int end)
{
    const Config     *c = &r->model->cfg;
    const BatchToken *b = &r->token[t];
    int               d_head = c->head_dim, group = c->heads / c->kv_heads, n = end - first;
    size_t            half = (size_t)d_head / 2;
    const float      *cosine = r->cosine + (size_t)t * half, *sine = r->sine + (size_t)t * half;
    float            *k = act_row(&r->k, t) + first * d_head, *v = act_row(&r->v, t) + first * d_head;
    r->kernels->rope(act_row(&r->q, t) + first * group * d_head, n * group, d_head, d_head, cosine, sine);
    r->kernels->rope(k, n, d_head, d_head, cosine, sine);
    for (int h = 0; h < n; h++)
        kv_cache_put(r->kv_cache, r->kernels, b->seq, l, first + h, b->pos, k + h * d_head, v + h * d_head);
}

/* Each member owns whole KV heads and their groups, and needs nobody's but its own. */
static void qkv_by_heads(Run *r, int l)
{
    const Layer *w     = &r->model->layer[l];
    int          group = r->model->cfg.heads / r->model->cfg.kv_heads, panels = r->model->cfg.head_dim / PANEL_ROWS;
    int          first, end;
    my_share(r, r->model->cfg.kv_heads, &first, &end);
    multiply(r, all_rows(r, &r->q), &r->xn, &w->wq, first * group * panels, end * group * panels);
    multiply(r, all_rows(r, &r->k), &r->xn, &w->wk, first * panels, end * panels);
    multiply(r, all_rows(r, &r->v), &r->xn, &w->wv, first * panels, end * panels);
    for (int t = 0; t < r->n_tok && first < end; t++)
        rotate_and_put(r, l, t, first, end);
}

/* Each member owns as many panels of the three as any other, and the heads are shared anew. */
static void qkv_by_panels(Run *r, int l)
{
    const Layer *w      = &r->model->layer[l];
    const Mat   *mat[3] = {&w->wq, &w->wk, &w->wv};
    const Act   *act[3] = {&r->q, &r->k, &r->v};
    int          n[3], first, end, at = 0, heads = r->model->cfg.kv_heads;
    for (int i = 0; i < 3; i++)
        n[i] = panel_count(mat[i]->rows);
    my_share(r, n[0] + n[1] + n[2], &first, &end);
    for (int i = 0; i < 3; at += n[i++]) {
        int from = first > at ? first - at : 0, to = end - at < n[i] ? end - at : n[i];
        multiply(r, all_rows(r, act[i]), &r->xn, mat[i], from, to);
    }
    wait_all(r);
    my_share(r, r->n_tok * heads, &first, &end);
    for (int i = first; i < end; i++)
        rotate_and_put(r, l, i / heads, i % heads, i % heads + 1);
}

/* q, k, v = W xn, q and k rotated, k and v in the cache of layer l. */
void qkv(Run *r, int l)
{
    const Config *c = &r->model->cfg;
    const Layer  *w = &r->model->layer[l];
    enter(r, "qkv", mat_read(&w->wq) + mat_read(&w->wk) + mat_read(&w->wv),
          mat_work(&w->wq, r->n_tok) + mat_work(&w->wk, r->n_tok) + mat_work(&w->wv, r->n_tok));
    if (c->head_dim % PANEL_ROWS == 0 && c->kv_heads % r->team.n_threads == 0)
        qkv_by_heads(r, l);
    else
        qkv_by_panels(r, l);
    wait_all(r);
}

/* ---- Feed-forward --------------------------------------------------------------------------------------------- */

/* gate = SiLU(W_gate in) * (W_up in), and its integers where bits says so: superblocks are whole, so a member makes those of
 * its own columns where all own as many. */
void swiglu(Run *r, Act *gate, const Act *up, const Act *in, const Layer *w, int bits)
{
    enum { UNIT = SUPERBLOCK / PANEL_ROWS };
    int  panels = panel_count(w->w_gate.rows), units = (panels + UNIT - 1) / UNIT, first, end;
    bool ours   = bits && units % r->team.n_threads == 0;
    enter(r, "gate_up", mat_read(&w->w_gate) + mat_read(&w->w_up),
          mat_work(&w->w_gate, r->n_tok) + mat_work(&w->w_up, r->n_tok));
    my_share(r, ours ? units : panels, &first, &end);
    if (ours) {
        first *= UNIT;
        end = end * UNIT < panels ? end * UNIT : panels;
    }
    for (int p = first, n; p < end; p += n) {
        n = piece_panels(r, end - first) < end - p ? piece_panels(r, end - first) : end - p;
        multiply(r, all_rows(r, gate), in, &w->w_gate, p, p + n);
        multiply(r, all_rows(r, up), in, &w->w_up, p, p + n);
        int at = p * PANEL_ROWS, width = n * PANEL_ROWS < gate->width - at ? n * PANEL_ROWS : gate->width - at;
        for (int t = 0; t < r->n_tok; t++) {
            r->kernels->swiglu(act_row(gate, t) + at, act_row(gate, t) + at, act_row(up, t) + at, width);
            if (ours)
                quantize(r, gate, t, at, width, bits);
        }
    }
    gate->bits = bits;
    wait_all(r);
    if (!bits || ours)
        return;
    my_share(r, r->n_tok * units, &first, &end);
    for (int i = first; i < end; i++) {
        int at = i % units * SUPERBLOCK;
        quantize(r, gate, i / units, at, SUPERBLOCK < gate->width - at ? SUPERBLOCK : gate->width - at, bits);
    }
    wait_all(r);
}

/* ---- Logits --------------------------------------------------------------------------------------------------- */

/* Logits of the tokens that want them: runs of neighbours whose logits lie one after the other are one product. */
void head(Run *r, const Act *xn)
{
    const Mat *w      = &r->model->lm_head;
    size_t     stride = round_up((size_t)w->rows, LANES);
    int        first, end, n_tok = 0;
    for (int t = 0; r->profile && t < r->n_tok; t++)
        n_tok += r->token[t].logits != NULL;
    enter(r, "head", n_tok ? mat_read(w) : 0, mat_work(w, n_tok));
    my_share(r, panel_count(w->rows), &first, &end);
    for (int t = 0, n; t < r->n_tok; t += n) {
        n = 1;
        if (r->token[t].logits)
            for (; t + n < r->n_tok && r->token[t + n].logits == r->token[t].logits + (size_t)n * stride;)
                n++;
        if (r->token[t].logits)
            multiply(r, (Rows){r->token[t].logits, stride, t, n}, xn, w, first, end);
    }
    wait_all(r);
    enter(r, NULL, 0, 0);
}

/* ---- For onlookers -------------------------------------------------------------------------------------------- */

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

/* Each position that a query sees costs a product with K and one with V in every head. */
void enter_attention(Run *r)
{
    const Config *c = &r->model->cfg;
    double        seen = 0, bytes = 0;
    if (!r->profile)
        return;
    for (int t = 0; t < r->n_tok; t++) {
        int n = r->token[t].pos + 1;
        seen += c->window && c->window < n ? c->window : n;
    }
    for (int s = 0; s < r->n_spans; s++) { /* its tokens share the tiles they look at */
        int n = r->span[s].pos + r->span[s].n_tok, most = c->window + r->span[s].n_tok - 1;
        bytes += (double)r->kv_cache->tile_bytes / KV_TILE * (c->window && most < n ? most : n);
    }
    enter(r, "attention", bytes, 4.0 * c->heads * c->head_dim * seen);
}
