/* model/flops.c: FLOP and bytes of every operation of a block, counted as docs/info.md says. */
#include "model/flops.h"

enum { ACT = 4 }; /* bytes of an activation: f32 */

static const struct { const char *name, *key; FlopGroup group; } ops[OP_COUNT] = {
    [OP_ATTN_NORM] = { "RMSNorm",    "attn_norm", GROUP_OTHER },
    [OP_Q]         = { "Q",          "q",         GROUP_PROJECTIONS },
    [OP_K]         = { "K",          "k",         GROUP_PROJECTIONS },
    [OP_V]         = { "V",          "v",         GROUP_PROJECTIONS },
    [OP_ROPE]      = { "RoPE",       "rope",      GROUP_OTHER },
    [OP_QK]        = { "QK^T",       "qk",        GROUP_SCORES },
    [OP_SOFTMAX]   = { "softmax",    "softmax",   GROUP_OTHER },
    [OP_AV]        = { "AV",         "av",        GROUP_SCORES },
    [OP_OUT]       = { "output",     "out",       GROUP_PROJECTIONS },
    [OP_ATTN_ADD]  = { "residual",   "attn_add",  GROUP_OTHER },
    [OP_FFN_NORM]  = { "RMSNorm",    "ffn_norm",  GROUP_OTHER },
    [OP_GATE]      = { "gate",       "gate",      GROUP_FFN },
    [OP_UP]        = { "up",         "up",        GROUP_FFN },
    [OP_SILU]      = { "SiLU, gate", "silu",      GROUP_FFN },
    [OP_DOWN]      = { "down",       "down",      GROUP_FFN },
    [OP_FFN_ADD]   = { "residual",   "ffn_add",   GROUP_OTHER },
};

static const struct { const char *name, *key; } groups[GROUP_COUNT] = {
    [GROUP_PROJECTIONS] = { "projections", "projections" },
    [GROUP_SCORES]      = { "QK^T and AV", "scores" },
    [GROUP_FFN]         = { "FFN", "ffn" },
    [GROUP_OTHER]       = { "the rest", "other" },
};

const char *flop_op_name(FlopOp op) { return ops[op].name; }
const char *flop_op_key(FlopOp op) { return ops[op].key; }
FlopGroup   flop_op_group(FlopOp op) { return ops[op].group; }
const char *flop_group_name(FlopGroup g) { return groups[g].name; }
const char *flop_group_key(FlopGroup g) { return groups[g].key; }

double flop_intensity(const FlopRow *r) { return r->bytes > 0 ? r->computed / r->bytes : 0; }

/* What the rows are made of: the widths, and how many tokens and pairs of query and position there are. */
typedef struct Sizes {
    double d, q, kv, ff, heads, head_dim;
    double tokens, pairs_full, pairs_seen; /* pairs: of one head, all sequences */
    double kv_read, kv_written;            /* bytes of K, and of V              */
} Sizes;

/* Positions that the queries of a prompt of n tokens see, all together. */
static double causal_pairs(double n, double window)
{
    double full = window > 0 && window < n ? window : n; /* queries that see everything before them */
    return full * (full + 1) / 2 + (n - full) * full;
}

static Sizes measure(const Config *c, const FlopLoad *load)
{
    double n = load->seq, batch = load->batch, window = c->window;
    double seen = window > 0 && window < n ? window : n;
    Sizes  s = { .d = c->d_model, .q = (double)c->heads * c->head_dim, .kv = (double)c->kv_heads * c->head_dim, .ff = c->d_ff,
                 .heads = c->heads, .head_dim = c->head_dim };
    s.tokens     = load->decode ? batch : batch * n;
    s.pairs_full = load->decode ? batch * n : batch * n * n;
    s.pairs_seen = batch * (load->decode ? seen : causal_pairs(n, window));
    double kept  = s.kv * load->kv_bytes + (double)c->kv_heads * load->kv_scale_bytes; /* bytes of K of one position */
    s.kv_read    = batch * (load->decode ? seen : n) * kept;
    s.kv_written = s.tokens * kept;
    return s;
}

/* Weight bytes of a role in an average block: matrix and bias. */
static double weight_bytes(const Count *n, TensorRole role)
{
    double bytes = 0;
    for (int i = 0; i < n->n_parts; i++)
        if (n->part[i].role == role)
            bytes += (double)n->part[i].bytes / n->part[i].n_tensors;
    return bytes;
}

static FlopRow row(double flops, double bytes) { return (FlopRow){ flops, flops, bytes }; }

static FlopRow matrix(const Sizes *s, double rows, double k, double weights)
{
    return row(2 * s->tokens * rows * k, weights + ACT * s->tokens * (k + rows));
}

/* Sum of squares 2 for each element, scaling 2; the mean, eps, root and reciprocal 4 for each token. */
static FlopRow norm(const Sizes *s, double weights)
{
    return row(s->tokens * (4 * s->d + 4), weights + 2 * ACT * s->tokens * s->d);
}

/* Scores and softmax never reach memory: each tile's stay in the processor (runtime/attention.c). */
static void count_attention(Flops *f, const Sizes *s)
{
    double io = ACT * s->tokens * s->q;
    f->op[OP_QK] = (FlopRow){ 2 * s->q * s->pairs_full, 2 * s->q * s->pairs_seen, io + s->kv_read };
    f->op[OP_AV] = (FlopRow){ 2 * s->q * s->pairs_full, 2 * s->q * s->pairs_seen, io + s->kv_read };
    /* for each score: scale, maximum, difference, exp, sum; for each query and head: 1 / sum, and the result times it */
    double once = s->tokens * s->heads * (1 + s->head_dim);
    f->op[OP_SOFTMAX] = (FlopRow){ 5 * s->heads * s->pairs_full + once, 5 * s->heads * s->pairs_seen + once, 0 };
}

static void add_to(FlopRow *sum, const FlopRow *r)
{
    sum->full     += r->full;
    sum->computed += r->computed;
    sum->bytes    += r->bytes;
}

static void sum_up(Flops *f, const Config *c)
{
    for (int i = 0; i < OP_COUNT; i++) {
        add_to(&f->group[ops[i].group], &f->op[i]);
        add_to(&f->block, &f->op[i]);
        if (i >= OP_Q && i <= OP_OUT)
            add_to(&f->attention, &f->op[i]);
    }
    double n  = c->n_layers;
    f->blocks = (FlopRow){ n * f->block.full, n * f->block.computed, n * f->block.bytes };
    f->total  = (FlopRow){ f->blocks.full + f->head.full, f->blocks.computed + f->head.computed, f->blocks.bytes + f->head.bytes };
}

void count_flops(Flops *f, const Config *c, const Count *n, const FlopLoad *load)
{
    Sizes s = measure(c, load);
    *f = (Flops){ 0 };
    f->op[OP_ATTN_NORM] = norm(&s, weight_bytes(n, ROLE_ATTN_NORM));
    f->op[OP_Q]         = matrix(&s, s.q, s.d, weight_bytes(n, ROLE_WQ));
    f->op[OP_K]         = matrix(&s, s.kv, s.d, weight_bytes(n, ROLE_WK));
    f->op[OP_V]         = matrix(&s, s.kv, s.d, weight_bytes(n, ROLE_WV));
    /* 6 for each pair of elements of q and k; then k and v go into the cache */
    f->op[OP_ROPE]      = row(3 * s.tokens * (s.q + s.kv), ACT * s.tokens * (2 * (s.q + s.kv) + 2 * s.kv) + 2 * s.kv_written);
    count_attention(f, &s);
    f->op[OP_OUT]       = matrix(&s, s.d, s.q, weight_bytes(n, ROLE_WO));
    f->op[OP_ATTN_ADD]  = row(s.tokens * s.d, 3 * ACT * s.tokens * s.d);
    f->op[OP_FFN_NORM]  = norm(&s, weight_bytes(n, ROLE_FFN_NORM));
    f->op[OP_GATE]      = matrix(&s, s.ff, s.d, weight_bytes(n, ROLE_W_GATE));
    f->op[OP_UP]        = matrix(&s, s.ff, s.d, weight_bytes(n, ROLE_W_UP));
    /* exp, 1 + it, the division, times up */
    f->op[OP_SILU]      = row(4 * s.tokens * s.ff, 3 * ACT * s.tokens * s.ff);
    f->op[OP_DOWN]      = matrix(&s, s.d, s.ff, weight_bytes(n, ROLE_W_DOWN));
    f->op[OP_FFN_ADD]   = row(s.tokens * s.d, 3 * ACT * s.tokens * s.d);

    FlopRow final = norm(&s, weight_bytes(n, ROLE_FINAL_NORM));
    s.tokens      = load->batch;
    FlopRow head  = matrix(&s, c->vocab_size, s.d, weight_bytes(n, c->tied_embeddings ? ROLE_EMBED : ROLE_LM_HEAD));
    f->head       = row(final.full + head.full, final.bytes + head.bytes);
    sum_up(f, c);
}

/* ---- Crossover ---- */

typedef enum Case { FULL, PREFILL, DECODE } Case;

static bool attention_is_dearer(const Config *c, const Count *n, Case which, int seq)
{
    Flops f;
    count_flops(&f, c, n, &(FlopLoad){ .seq = seq, .batch = 1, .decode = which == DECODE, .kv_bytes = ACT });
    return (which == FULL ? f.attention.full : f.attention.computed) >= f.group[GROUP_FFN].full;
}

/* The attention branch's cost for each token never falls as the length grows, so the answer can be halved towards. */
static int crossover(const Config *c, const Count *n, Case which)
{
    int low = 1, high = 1 << 30;
    if (!attention_is_dearer(c, n, which, high))
        return 0;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (attention_is_dearer(c, n, which, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

Crossover count_crossover(const Config *c, const Count *n)
{
    return (Crossover){ crossover(c, n, FULL), crossover(c, n, PREFILL), crossover(c, n, DECODE) };
}
