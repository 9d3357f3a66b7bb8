/* train/sublayer.h: what the two halves of a block have in common: norms before, behind and after the sum. Shared by
 * train_forward.c and backward.c alone. */
#ifndef TRAIN_SUBLAYER_H
#define TRAIN_SUBLAYER_H

#include "train/block.h"

static inline bool ffn_gated(FfnKind kind) { return kind == FFN_SWIGLU || kind == FFN_GEGLU || kind == FFN_GEGLU_ERF; }
static inline bool sublayer_norms_in(const BlockShape *s) { return s->place == PLACE_PRE || s->place == PLACE_BOTH; }
static inline bool sublayer_norms_out(const BlockShape *s) { return s->place == PLACE_BOTH || s->place == PLACE_OUTPUT; }
static inline int  call_tokens(const BlockCall *b) { return b->n_seqs * b->seq_len; }

static inline void show(const BlockCall *b, BlockStep step, bool gradient, const float *value, int width)
{
    if (b->observer)
        b->observer->saw(b->observer->user, step, gradient, value, (size_t)call_tokens(b) * (size_t)width);
}
/* What a norm before a half gives, where there is one. */
static inline void show_normed(const BlockCall *b, BlockStep step, const float *value, bool gradient)
{
    if (sublayer_norms_in(b->shape))
        show(b, step, gradient, value, b->shape->d_model);
}

/* One half: its weights, and where what its norms read is kept (NULL: there is no such norm). */
typedef struct Sublayer {
    float   *norm, *norm_bias, *post_norm, *post_norm_bias;
    float   *y, *sum;
    uint32_t site;      /* of its dropout */
    BlockStep norm_step, y_step, post_step, add_step;
} Sublayer;

static inline Sublayer attention_sublayer(const BlockCall *b, const BlockActs *a)
{
    const BlockWeights *w = b->w;
    return (Sublayer){ w->attn_norm, w->attn_norm_bias, w->attn_post_norm, w->attn_post_norm_bias, a->attn_y, a->attn_sum,
                       b->drop.site, STEP_ATTN_NORM, STEP_ATTN_Y, STEP_ATTN_POST, STEP_ATTN_ADD };
}
static inline Sublayer ffn_sublayer(const BlockCall *b, const BlockActs *a)
{
    const BlockWeights *w = b->w;
    return (Sublayer){ w->ffn_norm, w->ffn_norm_bias, w->ffn_post_norm, w->ffn_post_norm_bias, a->ffn_y, a->ffn_sum,
                       b->drop.site + 1, STEP_FFN_NORM, STEP_FFN_Y, STEP_FFN_POST, STEP_FFN_ADD };
}
static inline DropoutKey sublayer_dropout(const BlockCall *b, const Sublayer *l)
{
    DropoutKey k = b->drop;
    k.site = l->site;
    return k;
}

NormParams     sublayer_norm(const BlockShape *s, float *w, float *b);
const float   *sublayer_in(const BlockCall *b, const float *x, float *w, float *bias);
NormParams     head_norm(const BlockShape *s, float *w, int heads);
AttentionShape call_attention(const BlockCall *b);

#endif
