/* model/rank_rows.c: which rows of its matrices, and which heads, a rank computes. Each rank
 * computes everything else (norms, integers, routers) itself. */
#include "model/model.h"

#include <string.h>

/* Of latent attention, all heads read all of wk. A matrix that stays in floats is small: a rank
 * computes all of it. Tables have panels too: embedding_row finds other rows. */
RankCut rank_cut(const Config *c, TensorRole role)
{
    const TensorRow *row = tensor_row(role);
    if (row->cut == RANK_KV_HEADS && c->kv_lora)
        return RANK_ALL;
    return row->cut != RANK_ALL ? row->cut : row->quantized == AS_FLOATS ? RANK_ALL : RANK_PANELS;
}

/* ---- Heads ----------------------------------------------------------------------------------- */

/* Whole groups of heads with their KV head; if there are more ranks than KV heads, the ranks of a
 * KV head share its group. */
Range rank_heads(const Config *c, int rank, int size)
{
    int group = c->heads / c->kv_heads;
    if (size > c->kv_heads)
        return ranks_share(rank, size, c->heads);
    Range kv = ranks_share(rank, size, c->kv_heads);
    return (Range){ kv.first * group, kv.end * group };
}

/* A rank without heads (more ranks than heads) has a KV head too, which it never reads. */
Range rank_kv_heads(const Config *c, int rank, int size)
{
    int   group = c->heads / c->kv_heads;
    Range q     = rank_heads(c, rank, size);
    int   first = q.first / group < c->kv_heads ? q.first / group : c->kv_heads - 1,
        end     = (q.end + group - 1) / group;
    return (Range){ first, end > first ? end : first + 1 };
}

/* As the heads of attention, each with the key heads that it reads. */
Range rank_delta_heads(const Config *c, int rank, int size)
{
    int keys = c->delta_key_heads, group = c->delta_heads > 0 ? c->delta_heads / keys : 0;
    if (c->delta_tiled || size > keys)
        return ranks_share(rank, size, c->delta_heads);
    Range key = ranks_share(rank, size, keys);
    return (Range){ key.first * group, key.end * group };
}

/* The key heads that they read; of tiled ones that wrap around, all. */
static Range delta_keys(const Config *c, Range heads)
{
    int n = heads.end - heads.first, keys = c->delta_key_heads, group = c->delta_heads / keys;
    if (n == 0)
        return (Range){ 0, 0 };
    if (!c->delta_tiled)
        return (Range){ heads.first / group, (heads.end + group - 1) / group };
    int first = heads.first % keys;
    return first + n > keys ? (Range){ 0, keys } : (Range){ first, first + n };
}

/* ---- Columns and panels ---------------------------------------------------------------------- */

static Range times(Range heads, int dim)
{
    return (Range){ heads.first * dim, heads.end * dim };
}

Range rank_columns(const Config *c, RankCut cut, int width, int rank, int size)
{
    Range own, before;
    switch (cut) {
    case RANK_HEADS: return times(rank_heads(c, rank, size), width / c->heads);
    case RANK_DELTA: return times(rank_delta_heads(c, rank, size), width / c->delta_heads);
    case RANK_KV_HEADS:
        own = rank_kv_heads(c, rank, size);
        before = rank > 0 ? rank_kv_heads(c, rank - 1, size) : (Range){ 0, 0 };
        own.first = own.first > before.end ? own.first : before.end;
        return times(own, c->head_dim);
    case RANK_PANELS:
        own = ranks_share(rank, size, panel_count(width));
        own.first *= PANEL_ROWS;
        own.end = own.end * PANEL_ROWS < width ? own.end * PANEL_ROWS : width;
        return (Range){ own.first < own.end ? own.first : own.end, own.end };
    case RANK_ITEMS:
    case RANK_DELTA_QKV:
    case RANK_ALL: break;
    }
    return (Range){ 0, width };
}

/* The panels in which these rows are, from panel `from` on. */
static Range panels_of(Range rows, int from)
{
    Range p = { rows.first / PANEL_ROWS, panel_count(rows.end) };
    p.first = p.first > from ? p.first : from;
    return rows.first < rows.end && p.first < p.end ? p : (Range){ from, from };
}

/* Of the delta rule's queries, keys and values, which are rows of one matrix. */
static Own delta_panels(const Config *c, int rank, int size)
{
    Range heads = rank_delta_heads(c, rank, size),
          keys  = times(delta_keys(c, heads), c->delta_key_dim),
          values = times(heads, c->delta_value_dim);
    int   all = c->delta_key_heads * c->delta_key_dim;
    Own   own = { .items = { 0, 1 } };
    own.run[0] = panels_of(keys, 0);
    own.run[1] = panels_of((Range){ all + keys.first, all + keys.end }, own.run[0].end);
    own.run[2] = panels_of((Range){ 2 * all + values.first, 2 * all + values.end },
                           own.run[1].end);
    return own;
}

Own rank_panels(const Config *c, RankCut cut, int rows, int stack, int rank, int size)
{
    Own own = { .items = { 0, stack }, .run[0] = { 0, panel_count(rows) } };
    if (rows == 0) /* the model has no such matrix */
        return own;
    switch (cut) {
    case RANK_DELTA_QKV: return delta_panels(c, rank, size);
    case RANK_PANELS:
        own.run[0] = ranks_share(rank, size, panel_count(rows));
        break;
    case RANK_KV_HEADS:
        own.run[0] = panels_of(times(rank_kv_heads(c, rank, size), c->head_dim), 0);
        break;
    case RANK_HEADS:
    case RANK_DELTA:
        own.run[0] = panels_of(rank_columns(c, cut, rows, rank, size), 0);
        break;
    case RANK_ITEMS:
        own.items = rank_heads(c, rank, size);
        break;
    case RANK_ALL: break;
    }
    return own;
}

Own model_panels(const Model *m, TensorRole role, int rows, int stack)
{
    const Ranks *r = m->ranks;
    return rank_panels(&m->cfg, r ? rank_cut(&m->cfg, role) : RANK_ALL, rows, stack,
                       r ? r->rank : 0, r ? r->size : 1);
}

int own_panels(const Own *own)
{
    int n = 0;
    for (int i = 0; i < OWN_RUNS; i++)
        n += own->run[i].end - own->run[i].first;
    return n;
}

int own_place(const Own *own, int p)
{
    int place = 0;
    for (int i = 0; i < OWN_RUNS && p >= own->run[i].first; i++)
        place += (p < own->run[i].end ? p : own->run[i].end) - own->run[i].first;
    return place;
}

/* The values of a run. */
static int run_columns(Range run, int width)
{
    int end = run.end * PANEL_ROWS < width ? run.end * PANEL_ROWS : width;
    return run.first < run.end ? end - run.first * PANEL_ROWS : 0;
}

int own_columns(const Own *own, int width)
{
    int n = 0;
    for (int i = 0; i < OWN_RUNS; i++)
        n += run_columns(own->run[i], width);
    return n;
}

/* ---- States ---------------------------------------------------------------------------------- */

/* The channels of the convolution that a rank computes. */
static Own conv_panels(const Config *c, int rank, int size)
{
    return rank_panels(c, c->delta_heads ? RANK_DELTA_QKV : RANK_PANELS, config_conv_width(c), 1,
                       rank, size);
}

static size_t delta_matrix(const Config *c)
{
    return (size_t)c->delta_key_dim * (size_t)c->delta_value_dim;
}

size_t rank_state_floats(const Config *c, int rank, int size)
{
    if (!config_has_state(c))
        return 0;
    Own    conv  = conv_panels(c, rank, size);
    Range  heads = rank_delta_heads(c, rank, size);
    size_t n     = (size_t)(c->conv_taps - 1) * (size_t)own_columns(&conv, config_conv_width(c))
        + (size_t)(heads.end - heads.first) * delta_matrix(c);
    return n > 0 ? n : 1; /* so that a sequence has a state on every rank */
}

static float *copy_floats(float *part, float *whole, size_t n, bool out)
{
    memcpy(out ? whole : part, out ? part : whole, n * sizeof *part);
    return part + n;
}

void rank_state_copy(const Config *c, int rank, int size, float *part, float *whole, bool out)
{
    const int    width = config_conv_width(c), rows = c->conv_taps - 1;
    const size_t each  = delta_matrix(c);
    Own          conv  = conv_panels(c, rank, size);
    Range        heads = rank_delta_heads(c, rank, size);
    for (int row = 0; row < rows; row++, whole += width)
        for (int i = 0; i < OWN_RUNS; i++)
            part = copy_floats(part, whole + conv.run[i].first * PANEL_ROWS,
                               (size_t)run_columns(conv.run[i], width), out);
    copy_floats(part, whole + (size_t)heads.first * each,
                (size_t)(heads.end - heads.first) * each, out);
}
