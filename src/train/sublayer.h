/* train/sublayer.h: what the two halves of a block have in common: norms before, behind and after the sum. Shared by
 * train_forward.c and backward.c alone. */
#ifndef TRAIN_SUBLAYER_H
#define TRAIN_SUBLAYER_H

#include "train/block.h"

static inline bool ffn_gated(FfnKind kind) { return kind == FFN_SWIGLU || kind == FFN_GEGLU || kind == FFN_GEGLU_ERF; }
static inline bool sublayer_norms_in(const BlockShape *s) { return s->place == PLACE_PRE || s->place == PLACE_BOTH; }
static inline bool sublayer_norms_out(const BlockShape *s) { return s->place == PLACE_BOTH || s->place == PLACE_OUTPUT; }
static inline int  call_tokens(const BlockCall *b) { return b->n_seqs * b->seq_len; }

/* One half: its weights, and where what its norms read is kept (NULL: there is no such norm). */
typedef struct Sublayer {
    float   *norm, *norm_bias, *post_norm, *post_norm_bias;
    float   *y, *sum;
    uint32_t site;      /* of its dropout */
} Sublayer;

static inline Sublayer attention_sublayer(const BlockCall *b, const BlockActs *a)
{
    const BlockWeights *w = b->w;
    return (Sublayer){ w->attn_norm, w->attn_norm_bias, w->attn_post_norm, w->attn_post_norm_bias, a->attn_y, a->attn_sum,
                       b->drop.site };
}
static inline Sublayer ffn_sublayer(const BlockCall *b, const BlockActs *a)
{
    const BlockWeights *w = b->w;
    return (Sublayer){ w->ffn_norm, w->ffn_norm_bias, w->ffn_post_norm, w->ffn_post_norm_bias, a->ffn_y, a->ffn_sum,
                       b->drop.site + 1 };
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
