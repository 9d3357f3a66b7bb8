/* runtime/experts.c: mixture of experts (Shazeer et al. 2017; Jiang et al. 2024). A router
 * chooses a few experts for each token. Tokens are grouped by expert, so that a call reads each
 * chosen expert's weights once, and no others.
 *
 * All experts of a call are one operation. First the team computes the hidden values, sharing
 * the panels of all experts. Then each member computes its own columns of the results and adds
 * them in the order that docs/numerics.md fixes: by ascending expert, the shared one last. So
 * the grouping never changes the bits. If a call has more rows than the buffers hold, it takes
 * the experts in several waves. */
#include <math.h>
#include <string.h>

#include "runtime/ops.h"

int expert_rows(const Config *c, int max_tok)
{
    enum { AT_ONCE = 64 }; /* a call of this many tokens fits into one wave */
    int some = (max_tok < AT_ONCE ? max_tok : AT_ONCE) * (c->experts_used + 1);
    return some > max_tok ? some : max_tok;
}

/* ---- Routing --------------------------------------------------------------------------------- */

/* Marks the k largest of p[0 .. n); ties go to the lower index. If all are NaN (a softmax with one
 * NaN), marks the first k. */
static void mark_largest(const float *p, int n, int k, int *order, unsigned char *mark)
{
    int held = 0;
    memset(mark, 0, (size_t)n);
    for (int i = 0; i < n; i++) {
        if (held == k && !(p[i] > p[order[k - 1]]))
            continue;
        int at = held < k ? held++ : k - 1;
        for (; at > 0 && p[i] > p[order[at - 1]]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = 0; i < held; i++)
        mark[order[i]] = 1;
}

/* Sets the values of all experts to -inf but those in the best groups: the groups with the largest
 * sums of their two best values, or with the largest values. */
static void keep_best_groups(const Config *c, float *value, float *sum, int *order,
                             unsigned char *mark)
{
    int size = c->n_experts / c->expert_groups;
    for (int g = 0; g < c->expert_groups; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (int e = g * size; e < (g + 1) * size; e++)
            if (value[e] > first) {
                second = first;
                first  = value[e];
            } else if (value[e] > second) {
                second = value[e];
            }
        sum[g] = c->group_by_largest ? first : first + second;
    }
    mark_largest(sum, c->expert_groups, c->groups_used, order, mark);
    for (int e = 0; e < c->n_experts; e++)
        if (!mark[e / size])
            value[e] = -INFINITY;
}

/* Chooses the experts of token t, ascending, and their weights: of the scores p, by the values
 * v. */
static void choose(Run *r, int t, const float *bias)
{
    const Config  *c = &r->model->cfg;
    int used = c->experts_used, all = c->n_experts, n = 0,
        *expert = r->routing.expert + (size_t)t * (size_t)used;
    float         *weight = r->routing.weight + (size_t)t * (size_t)used, total = 0.0f;
    float         *p = r->scratch, *v = p + all, *sum = v + all,
                  *logit = act_row(&r->routing.logits, t);
    int           *order = (int *)(void *)(sum + all);
    unsigned char *mark  = (unsigned char *)(order + all);
    memcpy(p, logit, (size_t)all * sizeof *p);
    if (c->router_score == ROUTER_SIGMOID)
        r->kernels->sigmoid(p, p, all);
    else
        r->kernels->softmax(p, all);
    for (int e = 0; e < all; e++)
        v[e] = bias ? p[e] + bias[e] : c->expert_input_scaled ? logit[e] : p[e];
    if (c->expert_groups > 0)
        keep_best_groups(c, v, sum, order, mark);
    mark_largest(v, all, used, order, mark);
    for (int e = 0; e < all; e++)
        if (mark[e]) {
            expert[n]   = e;
            weight[n++] = p[e];
            total       = total + p[e];
        }
    total = (total < r->renormalize_min ? r->renormalize_min : total) + r->renormalize_add;
    for (int i = 0; i < used; i++) {
        weight[i] = c->renormalize ? weight[i] / total : weight[i];
        weight[i] = c->expert_scale != 1 ? weight[i] * r->expert_scale : weight[i];
    }
}

/* Groups the tokens by expert, ascending (a counting sort). Every member does it for itself. */
static void group_tokens(Run *r)
{
    const Config *c = &r->model->cfg;
    Routing      *g = &r->routing;
    int           n = r->n_tok * c->experts_used;
    memset(g->first, 0, ((size_t)c->n_experts + 1) * sizeof *g->first);
    for (int i = 0; i < n; i++)
        g->first[g->expert[i]]++;
    for (int e = 0, at = 0; e <= c->n_experts; e++) {
        int size    = g->first[e];
        g->first[e] = at + size; /* the end; filling below moves it to the start */
        at += size;
    }
    for (int i = n - 1; i >= 0; i--) {
        int at       = --g->first[g->expert[i]];
        g->token[at] = i / c->experts_used;
        g->share[at] = g->weight[i];
    }
}

/* The experts of each token: router product, softmax, the largest. */
static void route(Run *r, Act *xn, const Layer *w)
{
    int first, end;
    matmul(r, &r->routing.logits, xn, &w->router);
    if (w->shared_router.rows > 0)
        matmul(r, &r->routing.shared, xn, &w->shared_router);
    Cut  cut    = my_rows(r, &first, &end);
    Use *choice = r->own_rows ? NULL : &r->routing.use;  /* NULL: each member chooses for itself */
    touch(r, reads(&r->routing.logits, cut), touches(choice, cut, true));
    for (int t = first; t < end; t++)
        choose(r, t, w->choice_bias);
    touch(r, touches(choice, ANYWHERE, false));
    group_tokens(r);
}

/* ---- Groups and waves ------------------------------------------------------------------------ */

/* A run of consecutive experts whose rows fit into the buffers. The shared expert is number
 * n_experts. */
typedef struct Wave { int first, end, rows; } Wave;

/* One expert and its tokens. */
typedef struct Group {
    Mat          gate, up, down;
    const int   *token;          /* [n], ascending; NULL: all tokens (shared expert) */
    const float *share;          /* [n]: factor of its result, or of what it reads */
    int          n, row;         /* row: the group's first row in the wave's buffers */
} Group;

static int group_size(const Run *r, const Layer *w, int e)
{
    if (e == r->model->cfg.n_experts)
        return w->shared_up.rows > 0 ? r->n_tok : 0;
    return r->routing.first[e + 1] - r->routing.first[e];
}

/* Moves v to the next run of experts. False: none is left. */
static bool next_wave(const Run *r, const Layer *w, Wave *v)
{
    v->first = v->end;
    v->rows  = 0;
    for (int n; v->end <= r->model->cfg.n_experts; v->end++, v->rows += n) {
        n = group_size(r, w, v->end);
        if (v->rows > 0 && v->rows + n > r->expert_rows)
            break;
    }
    return v->rows > 0;
}

/* Finds the first group of a wave that has tokens, from expert *e on, and moves *e past it. row:
 * where the group starts in the buffers. */
static bool next_group(const Run *r, int l, Wave v, int *e, int row, Group *g)
{
    const Layer *w = &r->layer[l];
    while (*e < v.end && group_size(r, w, *e) == 0)
        (*e)++;
    if (*e >= v.end)
        return false;
    int i = (*e)++, at = r->routing.first[i];
    if (i == r->model->cfg.n_experts)
        *g = (Group){.gate = w->shared_gate, .up = w->shared_up, .down = w->shared_down};
    else
        *g = (Group){ .gate = mat_item(&w->expert_gate, i),
                      .up = mat_item(&w->expert_up, i),
                      .down = mat_item(&w->expert_down, i),
                      .token = r->routing.token + at,
                      .share = r->routing.share + at };
    g->n   = group_size(r, w, i);
    g->row = row;
    return true;
}

/* for EACH_GROUP (g) visits the groups of wave v of layer l. */
#define EACH_GROUP(g) \
    (int e_ = v.first, row_ = 0; next_group(r, l, v, &e_, row_, &(g)); row_ += (g).n)

/* ---- The experts ----------------------------------------------------------------------------- */

/* The matrices that read a token's row of xn. */
enum { READERS = 4 };
static void readers(const Layer *w, const Mat *of[READERS])
{
    of[0] = &w->expert_gate;
    of[1] = &w->expert_up;
    of[2] = &w->shared_gate;
    of[3] = &w->shared_up;
}

/* Row `to` of expert_in becomes token t's row of x, times its expert's score. */
static void scale_row(const Run *r, const Act *x, int to, int t, float score)
{
    const Act *y = &r->expert_in;
    memcpy(act_row(y, to), act_row(x, t), (size_t)x->width * sizeof(float));
    r->kernels->scale(act_row(y, to), score, x->width);
    if (x->ints)
        quantize(r, y, to, 0, x->width, x->ints);
}

/* Copies token t's row of x to row `to` of expert_in: the integers, the floats, or both, as the
 * matrices read them. */
static void copy_row(const Run *r, const Act *x, const Layer *w, int to, int t)
{
    const Act *y = &r->expert_in;
    const Mat *mat[READERS];
    if (x->ints) {
        memcpy(y->q + (size_t)to * y->q_stride, x->q + (size_t)t * x->q_stride,
               x->q_stride * sizeof *x->q);
        memcpy(y->d + (size_t)to * y->d_stride, x->d + (size_t)t * x->d_stride,
               x->d_stride * sizeof *x->d);
    }
    readers(w, mat);
    for (int i = 0; i < READERS; i++)
        if (mat[i]->rows && !mat[i]->ints) {
            memcpy(act_row(y, to), act_row(x, t), (size_t)x->width * sizeof(float));
            return;
        }
}

/* Copies the rows of xn that the groups of a wave read, one group after another. With one token
 * no copy is needed, unless scores multiply it: every group reads the same row. */
static Act *gather(Run *r, Act *xn, int l, Wave v)
{
    Group g;
    int   first, end;
    bool  scaled = r->model->cfg.expert_input_scaled;
    if (r->n_tok == 1 && !scaled)
        return xn;
    touch(r, reads(xn, ANYWHERE), writes(&r->expert_in, ANYWHERE));
    my_share(r, v.rows, &first, &end);
    for EACH_GROUP (g)
        for (int i = first > g.row ? first - g.row : 0; i < g.n && g.row + i < end; i++)
            if (scaled && g.token)
                scale_row(r, xn, g.row + i, g.token[i], g.share[i]);
            else
                copy_row(r, xn, &r->layer[l], g.row + i, g.token ? g.token[i] : i);
    return &r->expert_in;
}

/* The cost of a panel: reading it, which takes as long as multiplying it by some tokens (8), and
 * multiplying it. */
static int64_t panel_cost(const Group *g) { return g->n + 8; }

/* The panels of a group that this member computes, so that all members of the rank have about the
 * same cost. before: the cost of the groups before it. */
static void group_panels(const Run *r, const Group *g, int64_t before, int64_t total, int *first,
                      int *end)
{
    int64_t cost = panel_cost(g), panels = own_panels(&g->up.own), at[2];
    for (int i = 0; i < 2; i++) {
        int64_t from = total * (r->team.thread + i) / r->team.n_threads - before;
        at[i]        = from <= 0 ? 0 : (from + cost - 1) / cost;
        at[i]        = at[i] < panels ? at[i] : panels;
    }
    *first = g->up.own.run[0].first + (int)at[0];
    *end   = g->up.own.run[0].first + (int)at[1];
}

/* Computes the hidden values of a wave's groups. */
static void hidden_of_wave(Run *r, Act *in, int l, Wave v)
{
    Group   g;
    int64_t total = 0, before = 0;
    double  bytes = 0, work = 0;
    touch(r, reads(in, ANYWHERE), writes_own(r, &r->gate, ANYWHERE, RANK_PANELS),
          writes_own(r, &r->up, ANYWHERE, RANK_PANELS));
    for EACH_GROUP (g) {
        total += panel_cost(&g) * own_panels(&g.up.own);
        bytes += mat_read(&g.gate) + mat_read(&g.up);
        work += mat_work(&g.gate, g.n) + mat_work(&g.up, g.n);
    }
    enter(r, "experts", bytes, work);
    for EACH_GROUP (g) {
        int  first, end, x_row = in == &r->expert_in ? g.row : 0;
        RowSpan h  = {act_row(&r->gate, g.row), r->gate.stride, x_row, g.n};
        RowSpan up = {act_row(&r->up, g.row), r->up.stride, x_row, g.n};
        group_panels(r, &g, before, total, &first, &end);
        hidden_panels(r, h, up, in, &g.gate, &g.up, first, end, NULL, 0);
        before += panel_cost(&g) * own_panels(&g.up.own);
    }
}

/* Ranks have computed columns of the hidden values. The shared expert's rows come last, and may
 * have another width. */
static void gather_hidden(Run *r, int l, Wave v)
{
    const Layer *w      = &r->layer[l];
    int          shared = v.end > r->model->cfg.n_experts ? group_size(r, w, v.end - 1) : 0;
    GatherPart   part[GATHER_PARTS] = { { 0, v.rows - shared, w->expert_up.rows },
                                        { v.rows - shared, shared, w->shared_up.rows } };
    gather_parts(r, &r->gate, RANK_PANELS, part[0].n ? part : part + 1,
                 part[0].n && part[1].n ? 2 : 1);
}

/* Makes the integers of the hidden values, for the experts whose w_down multiplies integers. */
static void integers_of_wave(Run *r, int l, Wave v)
{
    Group g;
    int   first, end;
    bool  any = false;
    for EACH_GROUP (g)
        any |= g.down.ints != INT_NONE;
    if (!any)
        return;
    touch(r, writes(&r->gate, ANYWHERE));
    my_share(r, v.rows, &first, &end);
    for EACH_GROUP (g)
        for (int i = g.row > first ? g.row : first; g.down.ints && i < g.row + g.n && i < end; i++)
            quantize(r, &r->gate, i, 0, g.up.rows, g.down.ints);
}

/* The factor of a group's result for its i-th token t. Of the shared expert: sigmoid of its router,
 * or 1 if it has none. */
static float result_weight(const Run *r, const Layer *w, const Group *g, int i, int t)
{
    float p = 1.0f;
    if (g->token)
        return r->model->cfg.expert_input_scaled ? p : g->share[i];
    if (w->shared_router.rows > 0)
        r->kernels->sigmoid(&p, act_row(&r->routing.shared, t), 1);
    return p;
}

/* y += weight * w_down h for the tokens of one group, in panels p .. p + n - 1. */
static void add_group(Run *r, Act *y, int l, const Group *g, int p, int n)
{
    int at = p * PANEL_ROWS, width = columns(p, n, y->width);
    multiply(r, (RowSpan){r->mix.data, r->mix.stride, g->row, g->n}, &r->gate, &g->down, p, p + n);
    for (int i = 0; i < g->n && width > 0; i++) {
        int   t = g->token ? g->token[i] : i;
        float w = result_weight(r, &r->layer[l], g, i, t);
        r->kernels->add_weighted(act_row(y, t) + at, act_row(&r->mix, i) + at, w, width);
    }
}

/* Adds the results of a wave's groups to y, in panels first .. end - 1. It works in parts that are
 * still in the cache when they are added. */
static void add_wave(Run *r, Act *y, int l, Wave v, int first, int end)
{
    Group  g;
    double bytes = 0, work = 0;
    touch(r, reads(&r->gate, ANYWHERE), reads(&r->routing.shared, ANYWHERE),
          writes_own(r, &r->mix, BY_COLUMNS, RANK_PANELS),
          writes_own(r, y, BY_COLUMNS, RANK_PANELS));
    for EACH_GROUP (g) {
        bytes += mat_read(&g.down);
        work += mat_work(&g.down, g.n);
    }
    enter(r, "expert_down", bytes, work);
    for EACH_GROUP (g)
        for (int p = first, n, most = piece_panels(g.n, end - first); p < end; p += n) {
            n = most < end - p ? most : end - p;
            add_group(r, y, l, &g, p, n);
        }
}

void experts(Run *r, Act *y, Act *in, int l)
{
    const Layer *w = &r->layer[l];
    const Mat   *mat[READERS];
    Wave         v = {0};
    int          first, end;
    route(r, in, w);
    readers(w, mat);
    for (int i = 0; i < READERS; i++)
        if (mat[i]->rows)
            prepare(r, in, mat[i]);
    touch(r, writes_own(r, y, BY_COLUMNS, RANK_PANELS));
    my_panels(r, &w->expert_down, &first, &end);
    for (int t = 0; t < r->n_tok && first < end; t++)
        memset(act_row(y, t) + first * PANEL_ROWS, 0,
               (size_t)(end - first) * PANEL_ROWS * sizeof(float));
    while (next_wave(r, w, &v)) {
        Act *rows = gather(r, in, l, v);
        hidden_of_wave(r, rows, l, v);
        gather_hidden(r, l, v);
        r->keeps_turn = true; /* the number of waves left depends on the tokens */
        integers_of_wave(r, l, v);
        add_wave(r, y, l, v, first, end);
    }
    r->keeps_turn = false;
}
