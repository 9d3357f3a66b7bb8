/* runtime/ops.c: the operations of a forward pass, each one line of the paper, in the order of
 * forward.c. Attention, feed-forward and experts have separate files. */
#include "runtime/ops.h"

#include <fenv.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"

/* Does this access need a barrier first? Only if the data was accessed since the last barrier, one
 * of the two accesses writes, and they divide the data differently. */
static bool must_meet(const Run *r, const Touch *t)
{
    bool alike = t->use && t->use->cut == t->cut && t->cut != ANYWHERE;
    return t->use && t->use->since == r->met && !alike && (t->writes || t->use->written);
}

void touch_all(Run *r, const Touch *t, size_t n)
{
    bool meet = false;
    for (size_t i = 0; i < n; i++)
        if (t[i].whole && t[i].whole->spread != RANK_ALL)
            gather_act(r, t[i].whole);
    for (size_t i = 0; i < n; i++)
        meet |= must_meet(r, &t[i]);
    if (meet) {
        threads_barrier(r->team);
        r->met++;
    }
    for (size_t i = 0; i < n; i++) {
        Use *u = t[i].use;
        if (u && u->since == r->met)
            *u = (Use){r->met, u->cut == t[i].cut ? t[i].cut : ANYWHERE, u->written || t[i].writes};
        else if (u)
            *u = (Use){r->met, t[i].cut, t[i].writes};
    }
}

/* ---- Operations on each token alone ---------------------------------------------------------- */

/* Sine and cosine of a token's angles, computed in double and rounded once (docs/numerics.md,
 * "Rotary embedding"). */
static void fill_table(const Run *r, const RopeTable *table, int t)
{
    int    half = r->model->cfg.rotary_dim / 2;
    size_t at   = (size_t)t * (size_t)half;
    for (int i = 0; i < half; i++) {
        double s, c;
        math64_sincos((double)r->token[t].pos * table->inv_freq[i], &s, &c);
        table->cosine[at + (size_t)i] = (float)(c * table->factor);
        table->sine[at + (size_t)i]   = (float)(s * table->factor);
    }
}

/* The angles are the same for all layers, or differ between layers with and without a window. */
void rope_angles(Run *r)
{
    int first, end;
    enter(r, "embed", 0, 0);
    if (r->model->cfg.positions != POS_ROPE)
        return;
    touch(r, touches(&r->angles, BY_ROWS, true));
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++) {
        fill_table(r, &r->rope[0], t);
        if (r->rope[1].cosine != r->rope[0].cosine)
            fill_table(r, &r->rope[1], t);
    }
}

/* x = embedding * embed_scale, plus the position's row if positions are learned. */
void embed(Run *r, Act *x)
{
    const Model *m = r->model;
    int          first, end;
    touch(r, writes(x, BY_ROWS), writes(&r->y, BY_ROWS));
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++) {
        embedding_row(&m->embed, r->token[t].token, act_row(x, t), r->late_scratch);
        if (r->embed_scale != 1.0f)
            r->kernels->scale(act_row(x, t), r->embed_scale, x->width);
        if (m->cfg.positions == POS_LEARNED) {
            embedding_row(&m->pos_embed, r->token[t].pos, act_row(&r->y, t), r->late_scratch);
            r->kernels->add(act_row(x, t), act_row(&r->y, t), x->width);
        }
    }
}

/* y = norm(x) for n values; the config says which norm. y may be x. */
static void normalize(const Run *r, float *y, const float *x, NormVectors v, int n, float eps)
{
    if (r->model->cfg.norm == NORM_LAYER)
        r->kernels->layer_norm(y, x, v.w, v.b, n, eps);
    else
        r->kernels->rms_norm(y, x, v.w, n, eps);
}

void norm(Run *r, Act *y, Act *x, NormVectors v)
{
    int first, end;
    Cut cut = my_rows(r, &first, &end);
    touch(r, reads(x, cut), writes(y, cut));
    enter(r, "norm", 0, 0);
    for (int t = first; t < end; t++)
        if (v.w)
            normalize(r, act_row(y, t), act_row(x, t), v, x->width, r->norm_eps);
        else
            memcpy(act_row(y, t), act_row(x, t), (size_t)x->width * sizeof(float));
}

/* The MTP layer reads two vectors (docs/drafts.md). */
void make_pair(Run *r, Act *pair, Act *x, const Layer *w)
{
    int first, end;
    touch(r, reads(x, BY_ROWS), writes(pair, BY_ROWS));
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++) {
        normalize(r, act_row(pair, t), act_row(x, t), w->mtp_embed_norm, x->width, r->norm_eps);
        normalize(r, act_row(pair, t) + x->width, r->token[t].before, w->mtp_state_norm, x->width,
                  r->norm_eps);
    }
}

void keep_states(Run *r, Act *xn)
{
    int first, end;
    touch(r, reads(xn, BY_ROWS));
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++)
        if (r->token[t].state)
            memcpy(r->token[t].state, act_row(xn, t), (size_t)xn->width * sizeof(float));
}

/* ---- Products -------------------------------------------------------------------------------- */

void quantize(const Run *r, const Act *x, int t, int at, int n, Integers ints)
{
    int16_t *q = x->q + (size_t)t * x->q_stride + at;
    float   *d = x->d + (size_t)t * x->d_stride + at / int_each(ints);
    r->kernels->quantize(q, d, act_row(x, t) + at, n, ints);
}

/* Makes integers of the first `width` columns of x. Each member takes rows, or superblocks if
 * there are few tokens. */
static void make_integers(Run *r, Act *x, int width, Integers ints)
{
    int units = (width + SUPERBLOCK - 1) / SUPERBLOCK, first = 0, end = r->n_tok * units;
    if (x->own_ints) {
        touch(r, reads(x, ANYWHERE));
    } else if (r->n_tok > OWN_ROWS) {
        touch(r, writes(x, BY_ROWS));
        my_share(r, r->n_tok, &first, &end);
        first *= units;
        end *= units;
    } else {
        touch(r, writes(x, ANYWHERE));
        my_share(r, r->n_tok * units, &first, &end);
    }
    for (int i = first; i < end; i++) {
        int at = i % units * SUPERBLOCK;
        quantize(r, x, i / units, at, SUPERBLOCK < width - at ? SUPERBLOCK : width - at, ints);
    }
    x->ints = ints;
}

/* Each member adds its share of the columns, tokens ascending. */
static void note_importance(Run *r, Act *x, const Mat *w)
{
    int first, end;
    if (w->number < 0)
        return;
    touch(r, reads(x, ANYWHERE));
    my_share(r, w->k, &first, &end);
    for (int t = 0; t < r->n_tok; t++)
        importance_add(r->importance, lora_input(w->number), act_row(x, t), first, end);
}

void prepare(Run *r, Act *x, const Mat *w)
{
    if (r->importance)
        note_importance(r, x, w);
    if (w->ints && x->ints != w->ints)
        make_integers(r, x, w->k, w->ints);
    lora_prepare(r, x, w);
}

/* The next two multiply panels first .. end - 1 of w, which start at `from`. */

static void multiply_int(const Run *r, RowSpan y, const Act *x, const Mat *w, Panels from,
                         int first, int end)
{
    r->kernels->matmul_int[w->type](&(IntMatmulArgs){
        .y = y.data + (size_t)first * PANEL_ROWS,
        .y_stride = y.stride,
        .q = x->q + (size_t)y.t * x->q_stride,
        .q_stride = x->q_stride,
        .d = x->d + (size_t)y.t * x->d_stride,
        .d_stride = x->d_stride,
        .ints = w->ints,
        .w = from,
        .n_panels = end - first,
        .k = w->k,
        .n_tok = y.n_tok,
        .bias = w->bias ? w->bias + (size_t)first * PANEL_ROWS : NULL,
        .scratch = r->scratch,
    });
}

void multiply_panels(const Run *r, RowSpan y, const Act *x, const Mat *w, Panels from, int first,
                     int end)
{
    if (w->ints) {
        multiply_int(r, y, x, w, from, first, end);
        return;
    }
    (w->bf16 ? r->kernels->matmul_bf16 : r->kernels->matmul[w->type])(&(MatmulArgs){
        .y = y.data + (size_t)first * PANEL_ROWS,
        .y_stride = y.stride,
        .x = act_row(x, y.t),
        .x_stride = x->stride,
        .w = from,
        .n_panels = end - first,
        .k = w->k,
        .n_tok = y.n_tok,
        .bias = w->bias ? w->bias + (size_t)first * PANEL_ROWS : NULL,
        .scratch = r->scratch,
    });
}

void multiply(const Run *r, RowSpan y, const Act *x, const Mat *w, int first, int end)
{
    if (first >= end || y.n_tok == 0)
        return;
    for (int p = first, n; p < end; p += n) {
        n = end - p;
        Panels from = mat_panels(w, p, &n, r->late_scratch);
        multiply_panels(r, y, x, w, from, p, p + n);
    }
    if (r->lora && w->number >= 0)
        lora_add(r, y, w, first, end);
}

/* Consecutive products with the same name are one operation of the profile. */
static void enter_product(const Run *r, const Mat *w)
{
    Profile *p = r->profile;
    if (p && p->running && p->running->name == w->op)
        profile_more(p, mat_read(w), mat_work(w, r->n_tok));
    else
        enter(r, w->op, mat_read(w), mat_work(w, r->n_tok));
}

void matmul(Run *r, Act *y, Act *in, const Mat *w)
{
    prepare(r, in, w);
    touch(r, reads(in, ANYWHERE), reads_low(r), writes_own(r, y, BY_COLUMNS, w->cut));
    enter_product(r, w);
    for (int i = 0, first, end; i < OWN_RUNS; i++) {
        my_panels_of(r, w->own.run[i], &first, &end);
        multiply(r, all_rows(r, y), in, w, first, end);
    }
}

/* ---- Heads ----------------------------------------------------------------------------------- */

/* Does each member compute whole KV heads and their groups in its columns of q, k and v? Then it
 * continues with them without a barrier. */
static bool own_heads(const Run *r)
{
    const Config *c = &r->model->cfg;
    int n_kv = r->kv_heads.end - r->kv_heads.first, n = r->heads.end - r->heads.first;
    return c->head_dim % PANEL_ROWS == 0 && n_kv % r->team.n_threads == 0
        && n == n_kv * (c->heads / c->kv_heads);
}
static Cut heads_cut(const Run *r) { return own_heads(r) ? BY_COLUMNS : BY_HEADS; }

/* This member's KV heads of token t: the same for every token, or its share of all (token, head)
 * pairs of this rank. */
static Range my_heads(const Run *r, int t)
{
    int first, end, base = r->kv_heads.first, n = r->kv_heads.end - base;
    if (own_heads(r)) {
        my_share(r, n, &first, &end);
        return (Range){ base + first, base + end };
    }
    my_share(r, n * r->n_tok, &first, &end);
    first -= n * t;
    end -= n * t;
    return (Range){ base + (first < 0 ? 0 : first < n ? first : n),
                    base + (end < 0 ? 0 : end < n ? end : n) };
}

/* The heads of x (q or k) that belong to my_heads. */
static Range my_heads_of(const Run *r, const Act *x, int t)
{
    const Config *c   = &r->model->cfg;
    Range         kv  = my_heads(r, t), own = x == &r->q ? r->heads : r->kv_heads;
    int           n   = x->width / c->head_dim / c->kv_heads;
    return (Range){ kv.first * n > own.first ? kv.first * n : own.first,
                    kv.end * n < own.end ? kv.end * n : own.end };
}

static Touch writes_heads(const Run *r, Act *x)
{
    return writes_own(r, x, heads_cut(r), x == &r->q ? RANK_HEADS : RANK_KV_HEADS);
}

void norm_part(Run *r, Act *x, int at, const float *w, float eps)
{
    int first, end;
    touch(r, writes(x, BY_ROWS));
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++)
        normalize(r, act_row(x, t) + at, act_row(x, t) + at, (NormVectors){w, NULL},
                  x->width - at, eps);
}

/* Norms of each head, with one weight for all heads (QK_HEAD), one for each (QK_HEADS), or 1. */
void norm_heads(Run *r, Act *x, const float *w, bool rotated)
{
    const Config *c = &r->model->cfg;
    int           n = c->head_dim;
    if (!w || c->qk_norm_after_rope != rotated)
        return;
    if (c->qk_norm == QK_VECTOR) {
        norm_part(r, x, 0, w, r->norm_eps);
        return;
    }
    touch(r, writes_heads(r, x));
    for (int t = 0; t < r->n_tok; t++) {
        Range mine = my_heads_of(r, x, t);
        for (int h = mine.first; h < mine.end; h++) {
            float *head = act_row(x, t) + h * n;
            normalize(r, head, head, (NormVectors){.w = c->qk_norm == QK_HEADS ? w + h * n : w}, n,
                      r->norm_eps);
        }
    }
}

void clip(Run *r, Act *x)
{
    float most = r->qkv_clip;
    int   n = r->model->cfg.head_dim;
    if (most == 0.0f)
        return;
    touch(r, writes_heads(r, x));
    for (int t = 0; t < r->n_tok; t++) {
        Range mine = my_heads_of(r, x, t);
        for (int i = mine.first * n; i < mine.end * n; i++) {
            float *v = act_row(x, t) + i;
            *v       = cut_at(*v, -most, most);
        }
    }
}

void rope(Run *r, Act *x, int l)
{
    const Config    *c = &r->model->cfg;
    const RopeTable *table = &r->rope[config_window(c, l) != 0];
    int              n = c->head_dim;
    if (!config_rotates(c, l))
        return;
    touch(r, touches(&r->angles, ANYWHERE, false), writes_heads(r, x));
    for (int t = 0; t < r->n_tok; t++) {
        size_t at   = (size_t)t * ((size_t)c->rotary_dim / 2);
        Range  mine = my_heads_of(r, x, t);
        if (mine.first < mine.end)
            r->kernels->rope(act_row(x, t) + mine.first * n, mine.end - mine.first, n,
                             c->rotary_dim, table->cosine + at, table->sine + at);
    }
}

/* The factor grows stepwise with the position (docs/numerics.md, "Rotary embedding"). */
void scale_query(Run *r, Act *q, int l)
{
    const Config *c = &r->model->cfg;
    int           n = c->head_dim, more = c->query_scale_unrotated;
    if (c->query_scale == 0 || (c->query_scale_unrotated && config_rotates(c, l)))
        return;
    touch(r, writes_heads(r, q));
    for (int t = 0; t < r->n_tok; t++) {
        int    step   = (r->token[t].pos + more) / c->query_scale_length;
        double factor = 1 + c->query_scale * math64_log(1 + (double)step);
        Range  mine   = my_heads_of(r, q, t);
        if (mine.first < mine.end && step > 0)
            r->kernels->scale(act_row(q, t) + mine.first * n, (float)factor,
                              (mine.end - mine.first) * n);
    }
}

/* The panels of an activation that this rank has. */
static Range own_part(const Run *r, const Act *a)
{
    return rank_panels(&r->model->cfg, a->spread, a->width, 1, r->ranks ? r->ranks->rank : 0,
                       r->ranks ? r->ranks->size : 1).run[0];
}

void kv_put(Run *r, int l)
{
    const Config *c   = &r->model->cfg;
    Cut           cut = heads_cut(r);
    Act          *v   = c->kv_lora ? &r->k : &r->v;
    touch(r, reads_own(&r->k, cut), reads_own(v, cut), touches(&r->cached, cut, true));
    for (int t = 0; t < r->n_tok; t++) {
        const BatchToken *b = &r->token[t];
        Range mine = my_heads(r, t);
        for (int h = mine.first; h < mine.end; h++)
            kv_cache_put(r->kv_cache, r->kernels, b->seq, l, h, b->pos,
                         act_row(&r->k, t) + h * c->head_dim, act_row(v, t) + h * c->head_dim);
    }
}

/* The other rows end here: nothing reads what the last block would add to them. A rank needs only
 * its own columns of the layer's output. */
void last_rows(Run *r, int l, Act *of_layer)
{
    const LastRows *w     = r->last;
    Act            *act[] = { &r->x, &r->xn, of_layer };
    int             first, end;
    if (!w || l + 1 < r->model->cfg.n_layers)
        return;
    touch(r, writes(&r->x, BY_COLUMNS), writes(&r->xn, BY_COLUMNS),
          writes_own(r, of_layer, BY_COLUMNS, of_layer->spread));
    for (size_t i = 0; i < sizeof act / sizeof *act; i++) {
        my_panels_of(r, own_part(r, act[i]), &first, &end);
        const int at = first * PANEL_ROWS, width = columns(first, end - first, act[i]->width);
        for (int t = 0; t < w->n_tok && width > 0; t++) /* upwards: w->row[t] >= t */
            memmove(act_row(act[i], t) + at, act_row(act[i], w->row[t]) + at,
                    (size_t)width * sizeof(float));
    }
    r->token   = w->token;
    r->span    = w->span;
    r->n_tok   = w->n_tok;
    r->n_spans = w->n_spans;
}

void open_gate(Run *r, Act *y, Act *gate, const Mat *w)
{
    int first, end;
    touch(r, writes_own(r, gate, BY_COLUMNS, w->cut), writes_own(r, y, BY_COLUMNS, w->cut));
    enter(r, "gate", 0, 0);
    my_panels(r, w, &first, &end);
    const int at = first * PANEL_ROWS, width = columns(first, end - first, y->width);
    for (int t = 0; t < r->n_tok && width > 0; t++) {
        float *g = act_row(gate, t) + at, *to = act_row(y, t) + at;
        r->kernels->sigmoid(g, g, width);
        for (int i = 0; i < width; i++)
            to[i] = to[i] * g[i];
    }
}

/* ---- Back into the residual stream ----------------------------------------------------------- */

/* x += norm(y) * residual_scale. Changes y. */
static void add_normed(Run *r, Act *x, Act *y, NormVectors v)
{
    int first, end;
    touch(r, writes(y, BY_ROWS), writes(x, BY_ROWS));
    enter(r, "norm", 0, 0);
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++) {
        normalize(r, act_row(y, t), act_row(y, t), v, y->width, r->norm_eps);
        r->kernels->add_scaled(act_row(x, t), act_row(y, t), r->residual_scale, x->width);
    }
}

void add(Run *r, Act *x, Act *y, NormVectors v)
{
    int first, end;
    if (v.w) {
        add_normed(r, x, y, v);
        return;
    }
    bool whole = y->spread == RANK_ALL; /* then all of x, else the columns that this rank has */
    touch(r, reads_own(y, BY_COLUMNS),
          whole ? writes(x, BY_COLUMNS) : writes_own(r, x, BY_COLUMNS, y->spread));
    my_panels_of(r, own_part(r, y), &first, &end);
    int at = first * PANEL_ROWS, width = columns(first, end - first, x->width);
    for (int t = 0; t < r->n_tok && width > 0; t++) {
        float *to = act_row(x, t) + at, *from = act_row(y, t) + at;
        if (r->residual_scale == 1.0f)
            r->kernels->add(to, from, width);
        else
            r->kernels->add_scaled(to, from, r->residual_scale, width);
    }
}

/* ---- Logits ---------------------------------------------------------------------------------- */

/* Panels first .. end - 1 of the logits of n tokens from t on, whose logits are adjacent in
 * memory. */
static void logits_of(const Run *r, const Act *xn, int t, int n, size_t stride, int first, int end)
{
    float *x = r->token[t].logits + (size_t)first * PANEL_ROWS;
    multiply(r, (RowSpan){r->token[t].logits, stride, t, n}, xn, r->lm_head, first, end);
    for (int i = 0; i < n && first < end; i++, x += stride) {
        if (r->logit_scale != 1.0f)
            r->kernels->scale(x, r->logit_scale, (end - first) * PANEL_ROWS);
        if (r->logit_softcap != 0.0f)
            r->kernels->soft_cap(x, r->logit_softcap, (end - first) * PANEL_ROWS);
    }
}

/* Tokens whose logits are adjacent in memory become one product, so the matrix is read once for
 * all. */
void head(Run *r, Act *xn)
{
    const Mat *w      = r->lm_head;
    size_t     stride = round_up((size_t)w->rows, LANES);
    int        first, end, n_tok = 0;
    if (w->rows == 0) /* headless */
        return;
    prepare(r, xn, w);
    touch(r, reads(xn, ANYWHERE), reads_low(r));
    for (int t = 0; r->profile && t < r->n_tok; t++)
        n_tok += r->token[t].logits != NULL;
    enter(r, "head", n_tok ? mat_read(w) : 0, mat_work(w, n_tok));
    my_panels(r, w, &first, &end);
    for (int t = 0, n; t < r->n_tok; t += n) {
        n = 1;
        if (r->token[t].logits)
            for (const float *x = r->token[t].logits; t + n < r->n_tok; n++)
                if (r->token[t + n].logits != x + (size_t)n * stride)
                    break;
        if (r->token[t].logits)
            logits_of(r, xn, t, n, stride, first, end);
    }
    if (r->ranks)
        gather_logits(r, stride);
}

/* The team's first member calls the observer. A barrier follows before the others next write x. */
void observe(Run *r, const char *name, int l, Act *x)
{
    char   text[32];
    fenv_t ours;
    if (!r->observer || (r->observed && strcmp(r->observed, name) != 0))
        return;
    touch(r, reads(x, ANYWHERE));
    if (r->team.thread != 0)
        return;
    snprintf(text, sizeof text, name, l);
    fegetenv(&ours);
    r->observer(r->observer_user, text, r->first, r->n_tok, x->data, x->stride);
    fesetenv(&ours); /* the observer may have changed the rounding */
}
