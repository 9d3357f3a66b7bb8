/* model/flops.c: FLOP and bytes of each operation of a block, counted as docs/info.md says. */
#include "model/count.h"

#include <math.h>

enum { ACT = 4 }; /* bytes of an activation: f32 */

/* name NULL: it depends on the config. */
static const struct { const char *name, *key; FlopGroup group; } ops[OP_COUNT] = {
    [OP_ATTN_NORM]      = { NULL,          "attn_norm",      GROUP_OTHER },
    [OP_Q]              = { "Q",           "q",              GROUP_PROJECTIONS },
    [OP_K]              = { "K",           "k",              GROUP_PROJECTIONS },
    [OP_V]              = { "V",           "v",              GROUP_PROJECTIONS },
    [OP_QK_NORM]        = { "norms of QK", "qk_norm",        GROUP_OTHER },
    [OP_ROPE]           = { "RoPE",        "rope",           GROUP_OTHER },
    [OP_QK]             = { "QK^T",        "qk",             GROUP_SCORES },
    [OP_SOFTMAX]        = { "softmax",     "softmax",        GROUP_OTHER },
    [OP_AV]             = { "AV",          "av",             GROUP_SCORES },
    [OP_OUT]            = { "output",      "out",            GROUP_PROJECTIONS },
    [OP_CONV_IN]        = { NULL,          "conv_in",        GROUP_PROJECTIONS },
    [OP_CONV]           = { "convolution", "conv",           GROUP_OTHER },
    [OP_DELTA]          = { "delta rule",  "delta",          GROUP_OTHER },
    [OP_CONV_OUT]       = { "its output",  "conv_out",       GROUP_PROJECTIONS },
    [OP_ATTN_POST_NORM] = { NULL,          "attn_post_norm", GROUP_OTHER },
    [OP_ATTN_ADD]       = { "residual",    "attn_add",       GROUP_OTHER },
    [OP_FFN_NORM]       = { NULL,          "ffn_norm",       GROUP_OTHER },
    [OP_ROUTER]         = { "router",      "router",         GROUP_FFN },
    [OP_GATE]           = { "gate",        "gate",           GROUP_FFN },
    [OP_UP]             = { "up",          "up",             GROUP_FFN },
    [OP_SILU]           = { NULL,          "silu",           GROUP_FFN },
    [OP_DOWN]           = { "down",        "down",           GROUP_FFN },
    [OP_COMBINE]        = { "experts' sum", "combine",       GROUP_FFN },
    [OP_FFN_POST_NORM]  = { NULL,          "ffn_post_norm",  GROUP_OTHER },
    [OP_FFN_ADD]        = { "residual",    "ffn_add",        GROUP_OTHER },
};

static const struct { const char *name, *key; } groups[GROUP_COUNT] = {
    [GROUP_PROJECTIONS] = { "projections", "projections" },
    [GROUP_SCORES]      = { "QK^T and AV", "scores" },
    [GROUP_FFN]         = { "FFN", "ffn" },
    [GROUP_OTHER]       = { "the rest", "other" },
};

const char *flop_op_name(const Config *c, FlopOp op)
{
    if (ops[op].name)
        return ops[op].name;
    if (op == OP_CONV_IN)
        return c->delta_heads ? "q, k, v, z" : "B, C, X";
    if (op != OP_SILU)
        return c->norm == NORM_LAYER ? "LayerNorm" : "RMSNorm";
    return ffn_activations[c->ffn].op;
}
const char *flop_op_key(FlopOp op) { return ops[op].key; }
FlopGroup   flop_op_group(FlopOp op) { return ops[op].group; }
const char *flop_group_name(FlopGroup g) { return groups[g].name; }
const char *flop_group_key(FlopGroup g) { return groups[g].key; }

double flop_intensity(const FlopRow *r) { return r->bytes > 0 ? r->computed / r->bytes : 0; }

/* The numbers that all rows are computed from: widths, tokens, and pairs of a query and a
 * position. */
typedef struct Sizes {
    double d, q, kv, ff, heads, head_dim, rotary;
    double dense, moe, attends, state;     /* shares of the blocks of each kind */
    double tokens, pairs_full, pairs_seen; /* pairs: of one head, all sequences */
    double kv_read, kv_written;            /* bytes of K, and of V              */
    double vectors;                        /* K and V, or 1 that is both        */
} Sizes;

/* The sum of the positions that the queries of a prompt of n tokens see. */
static double seen_pairs(const Config *c, double n, double window)
{
    /* The first `full` queries see 1, 2, 3 ... positions; every later one sees `full`, or they
     * restart at 1. */
    double full = window > 0 && window < n ? window : n, chunks = floor(n / full),
           rest = n - chunks * full;
    double back = full * (full + 1) / 2 + (n - full) * full; /* the query itself is one of them */
    return c->window_chunked && window > 0
        ? chunks * full * (full + 1) / 2 + rest * (rest + 1) / 2
        : c->bidirectional ? 2 * back - n : back;
}

/* The mean over all blocks with attention: `windowed` is the value of a block with a window, `full`
 * of one without. */
static double mean(const Config *c, double windowed, double full)
{
    double n = count_windowed(c), all = c->n_layers - count_state(c);
    return n == 0 ? full : n == all ? windowed : (n * windowed + (all - n) * full) / all;
}

static Sizes measure(const Config *c, const FlopLoad *load)
{
    double n = load->seq, batch = load->batch, window = c->window;
    double last = c->window_chunked ? fmod(n - 1, window) + 1 : window;
    double seen = mean(c, window < n ? last : n, n);
    Sizes  s = { .d = c->d_model,
                 .q = (double)c->heads * c->head_dim,
                 .kv = (double)c->kv_heads * c->head_dim,
                 .ff = c->d_ff,
                 .heads = c->heads,
                 .head_dim = c->head_dim,
                 .rotary = (double)c->rotary_dim * count_rotated(c) / c->n_layers };
    s.moe        = (double)count_moe(c) / c->n_layers;
    s.dense      = 1 - s.moe;
    s.state      = (double)count_state(c) / c->n_layers;
    s.attends    = 1 - s.state;
    s.tokens     = load->decode ? batch : batch * n;
    s.pairs_full = s.attends * (load->decode ? batch * n : batch * n * n);
    s.pairs_seen = s.attends * batch
        * (load->decode ? seen : mean(c, seen_pairs(c, n, window), seen_pairs(c, n, 0)));
    /* Bytes of K for one position. */
    double kept  = s.kv * load->kv_bytes + (double)c->kv_heads * load->kv_scale_bytes;
    s.kv_read    = s.attends * batch * (load->decode ? seen : n) * kept;
    s.kv_written = s.attends * s.tokens * kept;
    s.vectors    = config_kv_vectors(c);
    return s;
}

/* Bytes of a role's weights, matrix and bias: in one of the blocks that have it, or in all if the
 * model has it once. */
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

/* Per element, the sum of squares costs 2 and scaling 2. Per token, mean, eps, root and reciprocal
 * cost 4. */
static FlopRow norm(const Sizes *s, double weights)
{
    return row(s->tokens * (4 * s->d + 4), weights + 2 * ACT * s->tokens * s->d);
}

/* Norms of q and k: one per head, or one for the whole vector. Of latent attention, those between
 * its matrices. */
static FlopRow qk_norm(const Sizes *s, const Config *c, const Count *n)
{
    double between = c->q_lora + c->kv_lora;
    if (c->kv_lora > 0)
        return row(s->tokens * (4 * between + (c->q_lora > 0 ? 8 : 4)),
                   weight_bytes(n, ROLE_Q_A_NORM) + weight_bytes(n, ROLE_LATENT_NORM)
                       + 2 * ACT * s->tokens * between);
    if (c->qk_norm == QK_NONE)
        return row(0, 0);
    double norms = c->qk_norm == QK_VECTOR ? 2 : (double)c->heads + c->kv_heads;
    return row(s->tokens * (4 * (s->q + s->kv) + 4 * norms),
               weight_bytes(n, ROLE_Q_NORM) + weight_bytes(n, ROLE_K_NORM)
                   + 2 * ACT * s->tokens * (s->q + s->kv));
}

/* 6 for each rotated pair of elements of q and k. Then k and v are written to the cache. */
static FlopRow rope(const Sizes *s)
{
    double share = s->rotary / s->head_dim;
    return row(3 * s->tokens * share * (s->q + s->kv),
               ACT * s->tokens * (2 * share * (s->q + s->kv) + s->vectors * s->attends * s->kv)
                   + s->vectors * s->kv_written);
}

/* ---- Feed-forward ---------------------------------------------------------------------------- */

static void add_to(FlopRow *sum, const FlopRow *r)
{
    sum->full     += r->full;
    sum->computed += r->computed;
    sum->bytes    += r->bytes;
}

static void add_share(FlopRow *sum, double share, FlopRow r)
{
    r = (FlopRow){ share * r.full, share * r.computed, share * r.bytes };
    add_to(sum, &r);
}

/* FLOP of the activation of one hidden value, with its gate. */
static double activation_flops(const Config *c)
{
    if (c->gate_limit != 0)
        return 10; /* three comparisons, times a constant, a sigmoid (3), a product, 1 +, a
                    * product */
    return ffn_activations[c->ffn].flops;
}

static FlopRow activation(const Sizes *s, const Config *c)
{
    double experts = c->experts_used * (double)c->expert_d_ff + c->shared_d_ff;
    double values  = s->tokens * (s->dense * s->ff + s->moe * experts);
    return row(activation_flops(c) * values, (config_gated(c) ? 3 : 2) * ACT * values);
}

/* The logits of the experts, and a softmax as in attention or a sigmoid of each (3), with the bias
 * for the choice; for the shared expert, a product and a sigmoid. */
static FlopRow router(const Sizes *s, const Config *c, const Count *n)
{
    FlopRow sum = { 0 };
    if (s->moe == 0)
        return sum;
    add_share(&sum, s->moe, matrix(s, c->n_experts, s->d, weight_bytes(n, ROLE_ROUTER)));
    add_share(
        &sum, s->moe,
        row(s->tokens
                * ((c->router_score == ROUTER_SIGMOID ? 3.0 : 5.0) * c->n_experts
                   + (c->choice_bias ? c->n_experts : 0)
                   + (c->renormalize ? 2.0 * c->experts_used : 0)
                   + (c->expert_scale != 1 ? c->experts_used : 0)),
            weight_bytes(n, ROLE_CHOICE_BIAS)));
    if (c->shared_router)
        add_share(&sum, s->moe,
                  row(s->tokens * (2 * s->d + 3), weight_bytes(n, ROLE_SHARED_ROUTER)));
    return sum;
}

static FlopRow combine(const Sizes *s, const Config *c)
{
    double parts = c->experts_used + (c->shared_d_ff > 0);
    return row(s->moe * s->tokens * 2 * parts * s->d, s->moe * 3 * ACT * s->tokens * parts * s->d);
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Scores and softmax never reach memory: each tile's values stay in the processor
 * (runtime/attention.c). */
static void count_attention(Flops *f, const Sizes *s, const Config *c)
{
    double io = s->attends * ACT * s->tokens * s->q;
    f->op[OP_QK] = (FlopRow){ 2 * s->q * s->pairs_full, 2 * s->q * s->pairs_seen, io + s->kv_read };
    f->op[OP_AV] = (FlopRow){ 2 * s->q * s->pairs_full, 2 * s->q * s->pairs_seen,
                              io + (s->vectors - 1) * s->kv_read };
    /* For each score: scale, maximum, difference, exp, sum. For each query and head: 1 / sum, and
     * the result times it. */
    double once = s->attends * s->tokens * s->heads * (1 + s->head_dim);
    if (c->attn_gate) /* a sigmoid and a product; the gate and the result are read and written */
        once += 4 * s->attends * s->tokens * s->q;
    f->op[OP_SOFTMAX] =
        (FlopRow){ 5 * s->heads * s->pairs_full + once, 5 * s->heads * s->pairs_seen + once,
                   c->attn_gate ? 3 * io : 0 };
}

/* For each channel one fma per tap, and a product before and after, or SiLU (3). It reads three
 * vectors (with SiLU one) and writes one, and its state is read and written once for each
 * sequence. */
static FlopRow convolution(const Sizes *s, const Config *c, const Count *n, const FlopLoad *load)
{
    FlopRow sum = { 0 };
    double  width = config_conv_width(c), delta = c->delta_heads > 0;
    add_share(&sum, s->state,
              row(s->tokens * width * (2 + delta + 2 * c->conv_taps),
                  weight_bytes(n, ROLE_CONV) + weight_bytes(n, ROLE_CONV_SHIFT)
                      + (4 - 2 * delta) * ACT * s->tokens * width
                      + 2 * load->batch * ACT * (c->conv_taps - 1) * width));
    return sum;
}

/* For each element of a head's matrix, a product and three fma. For each head, norms of q and k (4
 * per element, for each value head), beta and the decay (12), and of its output a norm (4), SiLU
 * and a product (4). The matrices are read and written once for each sequence. */
static FlopRow delta(const Sizes *s, const Config *c, const Count *n, const FlopLoad *load)
{
    FlopRow sum = { 0 };
    double  heads = c->delta_heads, keys = c->delta_key_dim, values = c->delta_value_dim;
    add_share(&sum, heads > 0 ? s->state : 0,
              row(s->tokens * heads * (7 * keys * values + 8 * keys + 8 * values + 12),
                  weight_bytes(n, ROLE_DELTA_DT) + weight_bytes(n, ROLE_DELTA_RATE)
                      + weight_bytes(n, ROLE_DELTA_NORM)
                      + ACT * s->tokens * (config_conv_width(c) + heads * (2 * values + 2))
                      + 2 * load->batch * ACT * heads * keys * values));
    return sum;
}

static void sum_up(Flops *f, const Config *c)
{
    for (int i = 0; i < OP_COUNT; i++) {
        add_to(&f->group[ops[i].group], &f->op[i]);
        add_to(&f->block, &f->op[i]);
        if (i >= OP_Q && i <= OP_CONV_OUT)
            add_to(&f->attention, &f->op[i]);
    }
    double n  = c->n_layers;
    f->blocks = (FlopRow){ n * f->block.full, n * f->block.computed, n * f->block.bytes };
    f->total  = (FlopRow){ f->blocks.full + f->head.full, f->blocks.computed + f->head.computed,
                           f->blocks.bytes + f->head.bytes };
}

/* Count a product or norm of the table, over the blocks that have it. A token uses a few experts.
 * Each expert's weights are read once; the tokens are assumed to choose different experts until all
 * are used. */
static void count_part(Flops *f, const Sizes *s, const Config *c, const Count *n,
                       const CountPart *p)
{
    const TensorRow *t = tensor_row(p->role);
    double weights = weight_bytes(n, p->role), wanted = s->tokens * c->experts_used;
    double share   = p->n_tensors == c->n_layers ? 1
        : t->part == PART_ATTENTION            ? (double)p->n_tensors / c->n_layers
        : p->n_tensors == count_moe(c)         ? s->moe
                                                 : s->dense;
    Sizes  used    = *s;
    if (t->op == OP_COUNT || p->bias)
        return;
    if (t->kind == KIND_NORM) {
        f->op[t->op] = norm(s, weights);
        return;
    }
    if (t->kind == KIND_HEADS)
        used.tokens = s->tokens * s->heads;
    if (t->kind == KIND_STACK) {
        used.tokens = wanted;
        weights     = weights / c->n_experts * (wanted < c->n_experts ? wanted : c->n_experts);
    }
    add_share(&f->op[t->op], share, matrix(&used, p->rows, p->k, weights));
}

void count_flops(Flops *f, const Config *c, const Count *n, const FlopLoad *load)
{
    Sizes s = measure(c, load);
    *f = (Flops){ 0 };
    for (int i = 0; i < n->n_parts; i++)
        count_part(f, &s, c, n, &n->part[i]);
    add_share(&f->op[OP_QK_NORM], s.attends, qk_norm(&s, c, n));
    f->op[OP_CONV]     = convolution(&s, c, n, load);
    f->op[OP_DELTA]    = delta(&s, c, n, load);
    f->op[OP_ROPE]     = rope(&s);
    f->op[OP_ATTN_ADD] = row(s.tokens * s.d, 3 * ACT * s.tokens * s.d);
    f->op[OP_ROUTER]   = router(&s, c, n);
    f->op[OP_SILU]     = activation(&s, c);
    f->op[OP_COMBINE]  = combine(&s, c);
    f->op[OP_FFN_ADD]  = row(s.tokens * s.d, 3 * ACT * s.tokens * s.d);
    count_attention(f, &s, c);

    FlopRow final = norm(&s, weight_bytes(n, ROLE_FINAL_NORM));
    s.tokens      = load->batch;
    FlopRow head  = matrix(&s, c->headless ? 0 : c->vocab_size, s.d,
                           weight_bytes(n, c->tied_embeddings ? ROLE_EMBED : ROLE_LM_HEAD));
    f->head       = row(final.full + head.full, final.bytes + head.bytes);
    sum_up(f, c);
}

/* ---- Crossover ------------------------------------------------------------------------------- */

typedef enum Case { FULL, PREFILL, DECODE } Case;

static bool attention_is_dearer(const Config *c, const Count *n, Case which, int seq)
{
    Flops f;
    count_flops(&f, c, n,
                &(FlopLoad){ .seq = seq, .batch = 1, .decode = which == DECODE, .kv_bytes = ACT });
    return (which == FULL ? f.attention.full : f.attention.computed) >= f.group[GROUP_FFN].full;
}

/* The cost of attention per token never falls as the length grows, so a binary search works. */
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
