/* train/sublayer.h: what the two halves of a block have in common: norms before, behind and
 * after the sum. Only the passes of this room use it. */
#ifndef TRAIN_SUBLAYER_H
#define TRAIN_SUBLAYER_H

#include "train/block.h"

static inline bool ffn_gated(FfnKind kind)
{
    return kind == FFN_SWIGLU || kind == FFN_GEGLU || kind == FFN_GEGLU_ERF;
}
static inline bool sublayer_norms_in(const BlockShape *s)
{
    return s->place == PLACE_PRE || s->place == PLACE_BOTH;
}
static inline bool sublayer_norms_out(const BlockShape *s)
{
    return s->place == PLACE_BOTH || s->place == PLACE_OUTPUT;
}
static inline int  call_tokens(const BlockCall *b) { return b->n_seqs * b->seq_len; }
static inline bool call_rotates(const BlockCall *b) { return b->rope && b->rope->rot > 0; }

/* Tells the observer that a value, or a gradient, of a step exists. Every operation ends with
 * it. */
static inline void made(const BlockCall *b, BlockStep step, bool gradient, const float *value,
                        int width)
{
    size_t n = (size_t)call_tokens(b) * (size_t)width;
    if (b->observer)
        b->observer->saw(b->observer->user, step, gradient, value, n);
}

/* One half of a block: its norms, the values that they read (NULL: there is no such norm), and
 * the names of the steps. */
typedef struct Sublayer {
    Weight    norm, post_norm;
    float    *y, *sum;
    uint32_t  site;      /* of its dropout */
    BlockStep norm_step, y_step, post_step, add_step;
} Sublayer;

static inline Sublayer attention_sublayer(const BlockCall *b, const BlockActs *a)
{
    return (Sublayer){ b->w->attn_norm, b->w->attn_post_norm, a->attn_y, a->attn_sum, b->drop.site,
                       STEP_ATTN_NORM, STEP_ATTN_Y, STEP_ATTN_POST, STEP_ATTN_ADD };
}
static inline Sublayer ffn_sublayer(const BlockCall *b, const BlockActs *a)
{
    return (Sublayer){ b->w->ffn_norm, b->w->ffn_post_norm, a->ffn_y, a->ffn_sum, b->drop.site + 1,
                       STEP_FFN_NORM, STEP_FFN_Y, STEP_FFN_POST, STEP_FFN_ADD };
}
static inline DropoutKey sublayer_dropout(const BlockCall *b, const Sublayer *l)
{
    DropoutKey k = b->drop;
    k.site = l->site;
    return k;
}

/* The parameters of a norm of d_model values; of a norm of heads, each alone or all as one
 * vector. */
static inline NormParams norm_of(const BlockShape *s, Weight w)
{
    return (NormParams){ s->norm, w.w, w.b, s->eps, s->d_model };
}
static inline NormParams head_norm(const BlockShape *s, Weight w, int heads)
{
    int n = s->qk_norm == QK_HEAD ? s->head_dim : heads * s->head_dim;
    return (NormParams){ s->norm, w.w, NULL, s->eps, n };
}

/* What a half reads: norm(x) in work->xn, or x itself if the half has no norm before it. */
const float   *sublayer_in(const BlockCall *b, const Sublayer *l, const float *x);
AttentionShape call_attention(const BlockCall *b);

#endif
