/* api/block_steps.c: names every step of a block as a paper would, and counts its FLOP. */
#include "api/block_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const step_keys[BLOCK_STEPS] = {
    [STEP_X] = "x",
    [STEP_ATTN_NORM] = "attn_norm",
    [STEP_Q] = "q",
    [STEP_K] = "k",
    [STEP_V] = "v",
    [STEP_Q_NORM] = "q_norm",
    [STEP_K_NORM] = "k_norm",
    [STEP_Q_ROPE] = "q_rope",
    [STEP_K_ROPE] = "k_rope",
    [STEP_PROBS] = "attn",
    [STEP_HEADS] = "heads",
    [STEP_ATTN_Y] = "attn_out",
    [STEP_ATTN_POST] = "attn_post_norm",
    [STEP_ATTN_ADD] = "attn_add",
    [STEP_FFN_NORM] = "ffn_norm",
    [STEP_GATE] = "gate",
    [STEP_UP] = "up",
    [STEP_H] = "act",
    [STEP_FFN_Y] = "ffn_out",
    [STEP_FFN_POST] = "ffn_post_norm",
    [STEP_FFN_ADD] = "ffn_add",
};

/* ---- Symbols and formulas -------------------------------------------------------------------- */

/* The symbols that depend on where the norms are: m is the stream after the first half, y the
 * block's output. */
typedef struct Symbols {
    const char *in1, *add1, *norm1, *in2, *add2, *norm2, *post1, *post2;
} Symbols;

static Symbols symbols_of(const BlockLab *lab)
{
    switch (lab->shape.place) {
    case PLACE_PRE:
    case PLACE_BOTH: return (Symbols){ "n1", "m", "n1", "n2", "y", "n2", "o'", "f'" };
    case PLACE_POST: return (Symbols){ "x", "s1", "m", "m", "s2", "y", "", "" };
    default:         return (Symbols){ "x", "m", "", "m", "y", "", "o'", "f'" };
    }
}

const char *block_step_symbol(const BlockLab *lab, BlockStep step, char *buf, size_t n)
{
    Symbols s = symbols_of(lab);
    bool    late = lab->shape.qk_norm_after_rope,
            twice = lab->shape.qk_norm != QK_NONE && lab->rope.rot > 0;
    const char *const names[BLOCK_STEPS] = {
        [STEP_X] = "x",
        [STEP_ATTN_NORM] = s.norm1,
        [STEP_Q] = "q",
        [STEP_K] = "k",
        [STEP_V] = "v",
        [STEP_Q_NORM] = late && twice ? "q''" : "q'",
        [STEP_K_NORM] = late && twice ? "k''" : "k'",
        [STEP_Q_ROPE] = !late && twice ? "q''" : "q'",
        [STEP_K_ROPE] = !late && twice ? "k''" : "k'",
        [STEP_PROBS] = "p",
        [STEP_HEADS] = "a",
        [STEP_ATTN_Y] = "o",
        [STEP_ATTN_POST] = s.post1,
        [STEP_ATTN_ADD] = s.add1,
        [STEP_FFN_NORM] = s.norm2,
        [STEP_GATE] = "g",
        [STEP_UP] = "u",
        [STEP_H] = "h",
        [STEP_FFN_Y] = "f",
        [STEP_FFN_POST] = s.post2,
        [STEP_FFN_ADD] = s.add2,
    };
    snprintf(buf, n, "%s", names[step]);
    return buf;
}

/* q (or k) as attention reads it: with a prime for each norm or rotation. */
static const char *last_of(const BlockLab *lab, const char *letter, char *buf, size_t n)
{
    int marks = (lab->shape.qk_norm != QK_NONE) + (lab->rope.rot > 0);
    snprintf(buf, n, "%s%.*s", letter, marks, "''");
    return buf;
}

static void act_formula(const BlockLab *lab, char *buf, size_t n)
{
    bool tanh = lab->shape.ffn == FFN_GEGLU || lab->shape.ffn == FFN_GELU_TANH;
    snprintf(buf, n, config_gated(&lab->config) ? "%s%s(g) * u" : "%s%s(u)",
             ffn_activations[lab->config.ffn].name, tanh ? "tanh" : "");
}

static void product_formula(const BlockLab *lab, const char *w, const char *x, const char *bias,
                            bool has, char *buf, size_t n)
{
    (void)lab;
    snprintf(buf, n, has ? "%s %s + %s" : "%s %s", w, x, bias);
}

static void sum_formula(const BlockLab *lab, const char *x, const char *y, char *buf, size_t n)
{
    if (lab->shape.residual_scale == 1.0f)
        snprintf(buf, n, "%s + %s", x, y);
    else
        snprintf(buf, n, "%s + %.3g %s", x, (double)lab->shape.residual_scale, y);
}

static void formula_of(const BlockLab *lab, BlockStep step, char *buf, size_t n)
{
    const Config *c    = &lab->config;
    const char   *norm = c->norm == NORM_LAYER ? "LayerNorm" : "RMSNorm";
    Symbols       s    = symbols_of(lab);
    bool          post = c->norm_placement == PLACE_POST,
         out = c->norm_placement == PLACE_BOTH || c->norm_placement == PLACE_OUTPUT;
    /* the prime of q where its norm reads it, and where the rotation does */
    const char   *late  = c->qk_norm_after_rope && lab->rope.rot > 0 ? "'" : "",
                 *early = c->qk_norm && !c->qk_norm_after_rope ? "'" : "";
    char          q[4], k[4];
    switch (step) {
    case STEP_X:         snprintf(buf, n, "the input"); break;
    case STEP_ATTN_NORM: snprintf(buf, n, "%s(%s)", norm, post ? "s1" : "x"); break;
    case STEP_Q:         product_formula(lab, "Wq", s.in1, "bq", c->qkv_bias, buf, n); break;
    case STEP_K:         product_formula(lab, "Wk", s.in1, "bk", c->qkv_bias, buf, n); break;
    case STEP_V:         product_formula(lab, "Wv", s.in1, "bv", c->qkv_bias, buf, n); break;
    case STEP_Q_NORM:
        snprintf(buf, n, "%s(q%s)%s", norm, late, c->qk_norm == QK_HEAD ? " of each head" : "");
        break;
    case STEP_K_NORM:
        snprintf(buf, n, "%s(k%s)%s", norm, late, c->qk_norm == QK_HEAD ? " of each head" : "");
        break;
    case STEP_Q_ROPE:    snprintf(buf, n, "RoPE(q%s)", early); break;
    case STEP_K_ROPE:    snprintf(buf, n, "RoPE(k%s)", early); break;
    case STEP_PROBS:
        snprintf(buf, n, "softmax(%s%s^T/%.3g%s)", last_of(lab, "q", q, sizeof q),
                 last_of(lab, "k", k, sizeof k), 1 / (double)lab->shape.attn_scale,
                 lab->shape.causal || c->window ? " + M" : "");
        break;
    case STEP_HEADS:     snprintf(buf, n, "p v"); break;
    case STEP_ATTN_Y:    product_formula(lab, "Wo", "a", "bo", c->out_bias, buf, n); break;
    case STEP_ATTN_POST: snprintf(buf, n, "%s(o)", norm); break;
    case STEP_ATTN_ADD:  sum_formula(lab, "x", out ? "o'" : "o", buf, n); break;
    case STEP_FFN_NORM:  snprintf(buf, n, "%s(%s)", norm, post ? "s2" : "m"); break;
    case STEP_GATE:      product_formula(lab, "Wgate", s.in2, "bgate", c->ffn_bias, buf, n); break;
    case STEP_UP:        product_formula(lab, "Wup", s.in2, "bup", c->ffn_bias, buf, n); break;
    case STEP_H:         act_formula(lab, buf, n); break;
    case STEP_FFN_Y:     product_formula(lab, "Wdown", "h", "bdown", c->ffn_bias, buf, n); break;
    case STEP_FFN_POST:  snprintf(buf, n, "%s(f)", norm); break;
    case STEP_FFN_ADD:   sum_formula(lab, "m", out ? "f'" : "f", buf, n); break;
    case BLOCK_STEPS:    break;
    }
}

/* Is the step part of the residual stream (x, m or y)? */
static bool in_stream(const BlockLab *lab, BlockStep step)
{
    bool post = lab->shape.place == PLACE_POST;
    return step == STEP_X || step == (post ? STEP_ATTN_NORM : STEP_ATTN_ADD)
        || step == (post ? STEP_FFN_NORM : STEP_FFN_ADD);
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static int shape_of(const BlockLab *lab, BlockStep step, int64_t shape[4])
{
    const BlockShape *s = &lab->shape;
    shape[0] = lab->n_seqs;
    shape[1] = lab->seq_len;
    shape[3] = s->head_dim;
    switch (step) {
    case STEP_Q:
    case STEP_Q_NORM:
    case STEP_Q_ROPE:
    case STEP_HEADS: shape[2] = s->heads; return 4;
    case STEP_K:
    case STEP_V:
    case STEP_K_NORM:
    case STEP_K_ROPE: shape[2] = s->kv_heads; return 4;
    case STEP_PROBS:
        shape[1] = s->heads;
        shape[2] = shape[3] = lab->seq_len;
        return 4;
    case STEP_GATE:
    case STEP_UP:
    case STEP_H: shape[2] = s->d_ff; return 3;
    default: shape[2] = s->d_model; return 3;
    }
}

/* ---- FLOP ------------------------------------------------------------------------------------ */

/* The share of all pairs of query and key that are visible, if the block is not causal. */
static double seen_share(const BlockLab *lab)
{
    double len = lab->seq_len, w = lab->shape.window,
           hidden = w > 0 && w < len ? (len - w) * (len - w + 1) / 2 : 0;
    return 1 - hidden / (len * len);
}

static double op_flops(const BlockLab *lab, const Flops *f, FlopOp op)
{
    const FlopRow *r = &f->op[op];
    bool   pairs = op == OP_QK || op == OP_SOFTMAX || op == OP_AV;
    /* not for each pair (flops.c) */
    double once  =
        op == OP_SOFTMAX ? (double)lab->n_tok * lab->shape.heads * (1 + lab->shape.head_dim) : 0;
    return pairs && !lab->shape.causal ? (r->full - once) * seen_share(lab) + once : r->computed;
}

static double step_flops(const BlockLab *lab, const Flops *f, BlockStep step)
{
    static const FlopOp of[BLOCK_STEPS] = {
        [STEP_X] = OP_COUNT,
        [STEP_ATTN_NORM] = OP_ATTN_NORM,
        [STEP_Q] = OP_Q,
        [STEP_K] = OP_K,
        [STEP_V] = OP_V,
        [STEP_Q_NORM] = OP_QK_NORM,
        [STEP_K_NORM] = OP_QK_NORM,
        [STEP_Q_ROPE] = OP_ROPE,
        [STEP_K_ROPE] = OP_ROPE,
        [STEP_PROBS] = OP_QK,
        [STEP_HEADS] = OP_AV,
        [STEP_ATTN_Y] = OP_OUT,
        [STEP_ATTN_POST] = OP_ATTN_POST_NORM,
        [STEP_ATTN_ADD] = OP_ATTN_ADD,
        [STEP_FFN_NORM] = OP_FFN_NORM,
        [STEP_GATE] = OP_GATE,
        [STEP_UP] = OP_UP,
        [STEP_H] = OP_SILU,
        [STEP_FFN_Y] = OP_DOWN,
        [STEP_FFN_POST] = OP_FFN_POST_NORM,
        [STEP_FFN_ADD] = OP_FFN_ADD,
    };
    double heads = lab->shape.heads, kv = lab->shape.kv_heads;
    bool   is_q = step == STEP_Q_NORM || step == STEP_Q_ROPE,
         is_k = step == STEP_K_NORM || step == STEP_K_ROPE;
    if (of[step] == OP_COUNT)
        return 0;
    double flops =
        op_flops(lab, f, of[step]) + (step == STEP_PROBS ? op_flops(lab, f, OP_SOFTMAX) : 0);
    return flops * (is_q ? heads / (heads + kv) : is_k ? kv / (heads + kv) : 1);
}

static void count(BlockPage *p, const BlockLab *lab, Flops *f)
{
    Count    n;
    FlopLoad load = { .seq = lab->seq_len, .batch = lab->n_seqs, .kv_bytes = 4 };
    count_config(&n, &lab->config, WT_F32);
    count_flops(f, &lab->config, &n, &load);
    p->params      = n.layer_params;
    p->attn_params = n.attn_params;
    p->ffn_params  = n.ffn_params;
    p->norm_params = n.norm_params;
    p->score_bytes = count_score_bytes(&lab->config, lab->seq_len, lab->n_seqs);
    for (int i = 0; i < OP_COUNT; i++)
        p->flops[flop_op_group((FlopOp)i)] += op_flops(lab, f, (FlopOp)i);
    for (int g = 0; g < GROUP_COUNT; g++) {
        p->forward_flops += p->flops[g];
        p->backward_flops += p->flops[g] * (g == GROUP_SCORES ? 2.5 : 2);
    }
}

/* ---- All together ---------------------------------------------------------------------------- */

static void add_step(BlockPage *p, const BlockLab *lab, const Flops *f, BlockStep step)
{
    const LabStat *v = &lab->value[step], *d = &lab->gradient[step];
    BlockPageStep *s = &p->step[p->n_steps++];
    *s = (BlockPageStep){ .key = step_keys[step],
                          .stream = in_stream(lab, step),
                          .rms = v->seen ? v->rms : NAN,
                          .largest = v->seen ? v->largest : NAN,
                          .d_rms = d->seen ? d->rms : NAN,
                          .flops = step_flops(lab, f, step),
                          .n_bad = v->n_bad,
                          .d_n_bad = d->n_bad };
    s->rank = shape_of(lab, step, s->shape);
    block_step_symbol(lab, step, s->symbol, sizeof s->symbol);
    formula_of(lab, step, s->formula, sizeof s->formula);
}

void block_page_steps(BlockPage *p, const BlockLab *lab)
{
    Flops f;
    count(p, lab, &f);
    for (int i = 0; i < lab->n_order; i++) {
        if (lab->order[i] == STEP_HEADS && !lab->value[STEP_PROBS].seen) /* not kept */
            add_step(p, lab, &f, STEP_PROBS);
        add_step(p, lab, &f, lab->order[i]);
    }
}

static bool name_bad(const BlockLab *lab, BlockStep step, const LabStat *s, const char *what,
                     char *buf, size_t n)
{
    int64_t shape[4];
    int     rank = shape_of(lab, step, shape);
    size_t  rest = s->first_bad, at[4];
    char    symbol[8], place[96] = "";
    if (s->n_bad == 0)
        return false;
    for (int i = rank; i-- > 0; rest /= (size_t)shape[i])
        at[i] = rest % (size_t)shape[i];
    for (int i = 0; i < rank; i++)
        snprintf(place + strlen(place), sizeof place - strlen(place), "%s%zu", i ? ", " : "",
                 at[i]);
    snprintf(buf, n, "%s%s[%s] is %g (%zu of %zu are not finite)", what,
             block_step_symbol(lab, step, symbol, sizeof symbol), place,
             /* The sign of a NaN means nothing. */
             isnan(s->bad_value) ? (double)NAN : (double)s->bad_value, s->n_bad, s->n);
    return true;
}

void block_first_bad(const BlockLab *lab, char *buf, size_t n)
{
    buf[0] = '\0';
    for (int i = 0; i < lab->n_order; i++)
        if (name_bad(lab, lab->order[i], &lab->value[lab->order[i]], "", buf, n))
            return;
    for (int i = 0; i < lab->n_back; i++)
        if (name_bad(lab, lab->back[i], &lab->gradient[lab->back[i]], "gradient of ", buf, n))
            return;
}
