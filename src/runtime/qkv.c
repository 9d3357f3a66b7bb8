/* runtime/qkv.c: what attention reads: q, k and v of each token, normed where the family does so, rotated, k and v cached. */
#include "runtime/ops.h"

/* Heads first .. first + n - 1 of q or k, the first of which lies at x. */
static void norm_heads(const Run *r, float *x, const float *w, int first, int n)
{
    const Config *c = &r->model->cfg;
    for (int h = 0; h < n; h++) {
        const float *own = c->qk_norm == QK_HEADS ? w + (first + h) * c->head_dim : w;
        normalize(r, x + h * c->head_dim, x + h * c->head_dim, (NormVectors){own, NULL}, c->head_dim);
    }
}

/* Norm and rotate q and k of the KV heads first .. end - 1 and their groups, and put k and v into the cache; token t of the call. */
static void rotate_and_put(Run *r, int l, int t, int first, int end)
{
    const Config     *c = &r->model->cfg;
    const Layer      *w = &r->model->layer[l];
    const BatchToken *b = &r->token[t];
    const RopeTable  *table = &r->rope[config_window(c, l) != 0];
    int               d_head = c->head_dim, group = c->heads / c->kv_heads, n = end - first;
    size_t            at = (size_t)t * ((size_t)c->rotary_dim / 2);
    float            *q = act_row(&r->q, t) + first * group * d_head;
    float            *k = act_row(&r->k, t) + first * d_head, *v = act_row(&r->v, t) + first * d_head;
    if (c->qk_norm == QK_HEAD || c->qk_norm == QK_HEADS) {
        norm_heads(r, q, w->q_norm, first * group, n * group);
        norm_heads(r, k, w->k_norm, first, n);
    }
    if (c->positions == POS_ROPE) {
        r->kernels->rope(q, n * group, d_head, c->rotary_dim, table->cosine + at, table->sine + at);
        r->kernels->rope(k, n, d_head, c->rotary_dim, table->cosine + at, table->sine + at);
    }
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

/* Norms that need all of a token's q and k. */
static void norm_vectors(Run *r, const Layer *w)
{
    int first, end;
    my_share(r, r->n_tok, &first, &end);
    for (int t = first; t < end; t++) {
        normalize(r, act_row(&r->q, t), act_row(&r->q, t), (NormVectors){w->q_norm, NULL}, r->q.width);
        normalize(r, act_row(&r->k, t), act_row(&r->k, t), (NormVectors){w->k_norm, NULL}, r->k.width);
    }
    wait_all(r);
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
    if (r->model->cfg.qk_norm == QK_VECTOR)
        norm_vectors(r, w);
    my_share(r, r->n_tok * heads, &first, &end);
    for (int i = first; i < end; i++)
        rotate_and_put(r, l, i / heads, i % heads, i % heads + 1);
}

/* q, k, v = W xn, q and k normed and rotated, k and v in the cache of layer l. */
void qkv(Run *r, int l)
{
    const Config *c = &r->model->cfg;
    const Layer  *w = &r->model->layer[l];
    enter(r, "qkv", mat_read(&w->wq) + mat_read(&w->wk) + mat_read(&w->wv),
          mat_work(&w->wq, r->n_tok) + mat_work(&w->wk, r->n_tok) + mat_work(&w->wv, r->n_tok));
    if (c->head_dim % PANEL_ROWS == 0 && c->kv_heads % r->team.n_threads == 0 && c->qk_norm != QK_VECTOR)
        qkv_by_heads(r, l);
    else
        qkv_by_panels(r, l);
    wait_all(r);
}
