/* train/attention_grad.c: softmax attention over whole sequences, forward and backward. A task of
 * the forward pass is one head of one sequence. In the backward pass it is one KV head, because
 * all query heads of that group add to the same d_k and d_v. */
#include <string.h>

#include "train/train_ops.h"

typedef struct Attention {
    const Crew           *c;
    const AttentionShape *s;
    const float          *q, *k, *v, *y, *d_y;
    float                *out, *stats, *probs, *d_q, *d_k, *d_v;
} Attention;

/* Queries first .. first + n - 1 of one head. Together they see keys from .. end - 1. */
typedef struct QueryTile { int seq, head, kv_head, first, n, from, end; } QueryTile;

static int sees_from(const AttentionShape *s, int pos)
{
    return s->window > 0 && pos >= s->window ? pos - s->window + 1 : 0;
}
static int sees_end(const AttentionShape *s, int pos) { return s->causal ? pos + 1 : s->seq_len; }

static QueryTile tile_of(const AttentionShape *s, int seq, int head, int first)
{
    int n = s->seq_len - first < QUERY_TILE ? s->seq_len - first : QUERY_TILE;
    return (QueryTile){ seq,
                        head,
                        head / (s->heads / s->kv_heads),
                        first,
                        n,
                        sees_from(s, first),
                        sees_end(s, first + n - 1) };
}

/* Offset of a row (one position of one head) in an activation of `heads` heads. */
static size_t at(const AttentionShape *s, int seq, int pos, int heads, int head)
{
    return ((size_t)seq * (size_t)s->seq_len + (size_t)pos) * (size_t)(heads * s->head_dim)
        + (size_t)(head * s->head_dim);
}
static size_t query_at(const AttentionShape *s, const QueryTile *t)
{
    return at(s, t->seq, t->first, s->heads, t->head);
}
static size_t key_at(const AttentionShape *s, const QueryTile *t)
{
    return at(s, t->seq, t->from, s->kv_heads, t->kv_head);
}
static size_t stats_at(const AttentionShape *s, const QueryTile *t, int i)
{
    return 2
        * (((size_t)t->seq * (size_t)s->heads + (size_t)t->head) * (size_t)s->seq_len
           + (size_t)(t->first + i));
}

/* x [n, keys] = Q K^T for the queries and keys of the tile. Both have rows of head_dim. */
static void times_keys(const Attention *a, float *x, const float *q, const float *k,
                       const QueryTile *t)
{
    const AttentionShape *s = a->s;
    int keys = t->end - t->from;
    a->c->blas.sgemm(CBLAS_ROWS, CBLAS_PLAIN, CBLAS_TURNED, t->n, keys, s->head_dim, 1,
                     q + query_at(s, t), s->heads * s->head_dim, k + key_at(s, t),
                     s->kv_heads * s->head_dim, 0, x, keys);
}

/* Q rows = x [n, keys] K. Overwrites the rows of the tile. */
static void over_keys(const Attention *a, float *q, const float *x, const float *k,
                      const QueryTile *t)
{
    const AttentionShape *s = a->s;
    int keys = t->end - t->from;
    a->c->blas.sgemm(CBLAS_ROWS, CBLAS_PLAIN, CBLAS_PLAIN, t->n, s->head_dim, keys, 1, x, keys,
                     k + key_at(s, t), s->kv_heads * s->head_dim, 0, q + query_at(s, t),
                     s->heads * s->head_dim);
}

/* K rows += x [n, keys]^T Q. It adds, because every head of the group contributes. */
static void add_over_queries(const Attention *a, float *k, const float *x, const float *q,
                             const QueryTile *t)
{
    const AttentionShape *s = a->s;
    int keys = t->end - t->from;
    a->c->blas.sgemm(CBLAS_ROWS, CBLAS_TURNED, CBLAS_PLAIN, keys, s->head_dim, t->n, 1, x, keys,
                     q + query_at(s, t), s->heads * s->head_dim, 1, k + key_at(s, t),
                     s->kv_heads * s->head_dim);
}

/* Finds the part of row i that its query sees: *row is its start, the result its length. Sets
 * the rest of the row to 0, so that the products over the whole tile need no mask. */
static int seen(const AttentionShape *s, const QueryTile *t, float *x, int i, float **row)
{
    int    keys = t->end - t->from, from = sees_from(s, t->first + i) - t->from,
        end = sees_end(s, t->first + i) - t->from;
    float *all = x + (size_t)i * (size_t)keys;
    memset(all, 0, (size_t)from * sizeof *all);
    memset(all + end, 0, (size_t)(keys - end) * sizeof *all);
    *row = all + from;
    return end - from;
}

/* ---- Forward --------------------------------------------------------------------------------- */

static void copy_probs(const Attention *a, const float *x, const QueryTile *t)
{
    const AttentionShape *s = a->s;
    int    keys = t->end - t->from;
    size_t len  = (size_t)s->seq_len;
    for (int i = 0; i < t->n; i++) {
        float *row = a->probs
            + (((size_t)t->seq * (size_t)s->heads + (size_t)t->head) * len + (size_t)(t->first + i))
                * len;
        memset(row, 0, len * sizeof *row);
        memcpy(row + t->from, x + (size_t)i * (size_t)keys, (size_t)keys * sizeof *row);
    }
}

/* Keeps two statistics for each query instead of the probabilities. */
static void forward_tile(const Attention *a, const QueryTile *t, float *x)
{
    const AttentionShape *s = a->s;
    times_keys(a, x, a->q, a->k, t);
    for (int i = 0; i < t->n; i++) {
        float *row, *stats = a->stats + stats_at(s, t, i);
        int    n = seen(s, t, x, i, &row);
        a->c->k->softmax_scaled(row, s->scale, n, &stats[0], &stats[1]);
    }
    over_keys(a, a->out, x, a->v, t);
    if (a->probs)
        copy_probs(a, x, t);
}

static void forward_piece(void *arg, int i, float *scratch)
{
    const Attention      *a = arg;
    const AttentionShape *s = a->s;
    for (int first = 0; first < s->seq_len; first += QUERY_TILE) {
        QueryTile t = tile_of(s, i / s->heads, i % s->heads, first);
        forward_tile(a, &t, scratch);
    }
}

void attention_forward(const Crew *c, float *y, float *stats, float *probs, const float *q,
                       const float *k, const float *v, const AttentionShape *s)
{
    Attention a = {
        .c = c, .s = s, .q = q, .k = k, .v = v, .out = y, .stats = stats, .probs = probs
    };
    crew_each(c, s->n_seqs * s->heads, forward_piece, &a);
}

/* ---- Backward ----
 *  P = softmax(S), S = scale Q K^T, O = P V:
 *    dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)), dQ = scale dS K, dK = scale dS^T Q.
 *  rowsum(dO O) equals rowsum(dP P), so a tile needs no sum over all keys
 *  (FlashAttention, appendix B.2). */

static void backward_tile(const Attention *a, const QueryTile *t, float *p, float *d_s)
{
    const AttentionShape *s = a->s;
    size_t row_floats = (size_t)s->heads * (size_t)s->head_dim, from = query_at(s, t);
    times_keys(a, p, a->q, a->k, t);
    times_keys(a, d_s, a->d_y, a->v, t);
    for (int i = 0; i < t->n; i++) {
        const float *stats = a->stats + stats_at(s, t, i);
        size_t       o     = from + (size_t)i * row_floats;
        float       *row, *d_row, sum = a->c->k->dot(a->d_y + o, a->y + o, s->head_dim);
        int          n = seen(s, t, p, i, &row);
        seen(s, t, d_s, i, &d_row);
        a->c->k->softmax_again(row, s->scale, stats[0], stats[1], n);
        a->c->k->softmax_backward(d_row, row, sum, s->scale, n);
    }
    over_keys(a, a->d_q, d_s, a->k, t);
    add_over_queries(a, a->d_k, d_s, a->q, t);
    add_over_queries(a, a->d_v, p, a->d_y, t);
}

static void clear_keys(const Attention *a, int seq, int kv_head)
{
    const AttentionShape *s = a->s;
    for (int pos = 0; pos < s->seq_len; pos++) {
        size_t row = at(s, seq, pos, s->kv_heads, kv_head);
        memset(a->d_k + row, 0, (size_t)s->head_dim * sizeof *a->d_k);
        memset(a->d_v + row, 0, (size_t)s->head_dim * sizeof *a->d_v);
    }
}

static void backward_piece(void *arg, int i, float *scratch)
{
    const Attention      *a = arg;
    const AttentionShape *s = a->s;
    int seq = i / s->kv_heads, kv_head = i % s->kv_heads, group = s->heads / s->kv_heads;
    clear_keys(a, seq, kv_head);
    for (int h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (int first = 0; first < s->seq_len; first += QUERY_TILE) {
            QueryTile t = tile_of(s, seq, h, first);
            backward_tile(a, &t, scratch, scratch + (size_t)QUERY_TILE * (size_t)s->seq_len);
        }
}

void attention_backward(const Crew *c, float *d_q, float *d_k, float *d_v, const float *q,
                        const float *k, const float *v, const float *y, const float *stats,
                        const float *d_y, const AttentionShape *s)
{
    Attention a = { .c = c,
                    .s = s,
                    .q = q,
                    .k = k,
                    .v = v,
                    .y = y,
                    .d_y = d_y,
                    .stats = (float *)stats,
                    .d_q = d_q,
                    .d_k = d_k,
                    .d_v = d_v };
    crew_each(c, s->n_seqs * s->kv_heads, backward_piece, &a);
}
