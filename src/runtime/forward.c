/* runtime/forward.c: the transformer, in the order of the paper. One decoder-only pass over
 * n_tok tokens:
 *
 *    x = embedding[token]
 *    each block:  x += Wo attention(rope(Wq n), rope(Wk n), Wv n)   with n = norm(x)
 *                 x += W_down (act(W_gate n) * (W_up n))            with n = norm(x)
 *    logits = lm_head norm(x)
 *
 * That is Llama. Other families have norms at other points, no gate, both halves of a block in
 * parallel, several feed-forward networks of which each token uses a few (experts), or an extra
 * factor. The config says which; the order stays the same. Attention is causal, or it is
 * bidirectional: each token sees the whole sequence.
 *
 * Prefill, decode and batches of sequences are this function with another n_tok. Every line is one
 * operation of ops.h. An activation is [n_tok, width], a row for each token. A matrix W is
 * [rows, k], and y = W x turns each token's vector of k values into one of `rows` values.
 *
 * Sources: Vaswani et al. 2017 (attention), Touvron et al. 2023 (Llama), Zhang and Sennrich 2019
 * (RMSNorm), Su et al. 2021 (RoPE), Ainslie et al. 2023 (shared KV heads), Shazeer 2020
 * (SwiGLU), Jiang et al. 2023 (windows) and 2024 (experts), Wang and Komatsuzaki 2021 (parallel
 * blocks), Gemma Team 2024 (norms on both sides), OLMo Team 2025 (norms after). */
#include "runtime/ops.h"

/* q, k and v of multi-head latent attention (DeepSeek-AI 2024): k and v of all heads are made of
 * one latent vector c. Instead of computing k = W_uk c, W_uk maps the query into the latent space:
 * q (W_uk c) = (W_uk^T q) c. So k is the rotated values, then c; v is k; W_uv follows attention. */
static void latent_qkv(Run *r, const Layer *w)
{
    Act *in = &r->xn;
    if (w->wq_a.rows > 0) {
        matmul(r, &r->q_a, &r->xn, &w->wq_a);      /* q in two steps [n_tok, q_lora] */
        norm_part(r, &r->q_a, 0, w->q_a_norm, r->latent_norm_eps);
        in = &r->q_a;
    }
    matmul(r, &r->q_heads, in, w->wq_a.rows > 0 ? &w->wq_b : &w->wq);
    matmul(r, &r->k, &r->xn, &w->wk);              /* k = Wk n   [n_tok, rotary_dim + kv_lora] */
    norm_part(r, &r->k, r->model->cfg.rotary_dim, w->latent_norm, r->latent_norm_eps);
    latent_query(r, &r->q, &r->q_heads, &w->w_uk); /* q          [n_tok, heads * head_dim] */
}

/* Attention: each token reads the tokens before it, through their k and v in the cache. */
static void self_attention(Run *r, int l)
{
    const Config *c = &r->model->cfg;
    const Layer  *w = &r->layer[l];
    if (c->kv_lora) {
        latent_qkv(r, w);
    } else {
        matmul(r, &r->q, &r->xn, &w->wq);    /* q = Wq n             [n_tok, heads * head_dim] */
        matmul(r, &r->k, &r->xn, &w->wk);    /* k = Wk n             [n_tok, kv_heads * head_dim] */
        matmul(r, &r->v, &r->xn, &w->wv);    /* v = Wv n             [n_tok, kv_heads * head_dim] */
    }
    norm_heads(r, &r->q, w->q_norm, false);  /* for families that norm q and k */
    norm_heads(r, &r->k, w->k_norm, false);
    clip(r, &r->q);                          /* for families that limit q, k and v */
    clip(r, &r->k);
    clip(r, &r->v);
    rope(r, &r->q, l);                       /* rotate by position, so that q k^T depends */
    rope(r, &r->k, l);                       /* only on how far apart two tokens are */
    norm_heads(r, &r->q, w->q_norm, true);   /* for families that norm them after RoPE */
    norm_heads(r, &r->k, w->k_norm, true);
    scale_query(r, &r->q, l);                /* for families that scale q by position */
    kv_put(r, l);                            /* k and v stay for all later tokens */
    last_rows(r, l, &r->q);                  /* the last block keeps only tokens with logits */
    if (r->n_tok == 0)
        return;
    if (c->kv_lora) {
        attention(r, &r->att_latent, l);     /* softmax(q k^T scale) k  [n_tok, heads * head_dim] */
        latent_values(r, &r->att_out, &r->att_latent, &w->w_uv); /* [n_tok, heads * v_dim] */
    } else {
        attention(r, &r->att_out, l);        /* softmax(q k^T scale) v  [n_tok, heads * head_dim] */
    }
    if (c->attn_gate) {                      /* for families with a gate on each value */
        matmul(r, &r->gate_att, &r->xn, &w->attn_gate);
        open_gate(r, &r->att_out, &r->gate_att, &w->attn_gate);
    }
    matmul(r, &r->y, &r->att_out, &w->wo);   /* y = Wo att_out       [n_tok, d_model] */
}

/* Instead of attention, a short convolution (Liquid AI 2025): each channel convolves its last few
 * values, which are the sequence's whole state. */
static void short_convolution(Run *r, int l)
{
    const Layer *w = &r->layer[l];
    matmul(r, &r->conv_b, &r->xn, &w->conv_b);    /* three products    [n_tok, d_model] each */
    matmul(r, &r->conv_c, &r->xn, &w->conv_c);
    matmul(r, &r->conv_x, &r->xn, &w->conv_x);
    short_conv(r, l);                             /* c = c * conv(b * x) */
    last_rows(r, l, &r->conv_c);
    if (r->n_tok > 0)
        matmul(r, &r->y, &r->conv_c, &w->conv_out);
}

/* Or the gated delta rule (Yang et al. 2024): each head's state is a matrix that maps keys to
 * values. A token decays it, corrects the value of its key, and reads it with its query. */
static void gated_delta_net(Run *r, int l)
{
    const Layer *w = &r->layer[l];
    matmul(r, &r->conv_x, &r->xn, &w->delta_qkv); /* q, k and v of all heads */
    matmul(r, &r->delta_z, &r->xn, &w->delta_z);  /* the gate        [n_tok, values] */
    matmul(r, &r->delta_b, &r->xn, &w->delta_b);  /* strengths of correction and of decay:
                                                   * [n_tok, heads] */
    matmul(r, &r->delta_a, &r->xn, &w->delta_a);
    short_conv(r, l);                             /* c = SiLU(conv(x)) */
    delta_rule(r, l);                             /* z = SiLU(z) * norm(the value read) */
    last_rows(r, l, &r->delta_z);
    if (r->n_tok > 0)
        matmul(r, &r->y, &r->delta_z, &w->delta_out);
}

/* One decoder block, which changes x [n_tok, d_model] in place. Where a family has no norm,
 * n = x. */
static void block(Run *r, int l)
{
    const Config *c = &r->model->cfg;
    const Layer  *w = &r->layer[l];
    NormPlacement place = c->norm_placement;

    /* Attention, or what the layer has instead. */
    norm(r, &r->xn, &r->x, w->attn_norm);    /* n = norm(x)          [n_tok, d_model] */
    if (!config_state(c, l))
        self_attention(r, l);
    else if (c->delta_heads == 0)
        short_convolution(r, l);
    else
        gated_delta_net(r, l);
    if (r->n_tok == 0)
        return;
    if (place == PLACE_PARALLEL2)
        norm(r, &r->xn, &r->x, w->ffn_norm); /* parallel: norm x before adding attention */
    add(r, &r->x, &r->y, w->attn_post_norm); /* x = x + y, or x + norm(y) */
    observe(r, "layer%d.attn", l, &r->x);

    /* Feed-forward: each token by itself, through one network or the experts chosen for it. */
    if (place != PLACE_PARALLEL && place != PLACE_PARALLEL2)
        norm(r, &r->xn, &r->x, w->ffn_norm); /* n = norm(x)          [n_tok, d_model] */
    if (config_moe(c, l)) {
        experts(r, &r->y, &r->xn, l);        /* y = sum of p W_down (act(W_gate n) * (W_up n)) */
    } else {                                 /* h = act(W_gate n) * (W_up n)   [n_tok, d_ff] */
        hidden(r, &r->gate, &r->xn, w);
        matmul(r, &r->y, &r->gate, &w->w_down); /* y = W_down h      [n_tok, d_model] */
    }
    add(r, &r->x, &r->y, w->ffn_post_norm);  /* x = x + y, or x + norm(y) */
    observe(r, "layer%d", l, &r->x);
}

/* The MTP layer predicts the token after the next (DeepSeek-AI 2024, section 2.2). It is a
 * transformer of one block, whose x is made of the next token's embedding and of the main model's
 * final state h. */
static void look_ahead(Run *r)
{
    const Layer *w = &r->layer[0];
    make_pair(r, &r->pair, &r->x, w);        /* [norm(x), norm(h)]   [n_tok, 2 d_model] */
    matmul(r, &r->x, &r->pair, &w->mtp_proj);
}

void transformer(Run *r)
{
    rope_angles(r);                          /* sine and cosine of each position, for all blocks */
    embed(r, &r->x);                         /* x = embedding[token] [n_tok, d_model] */
    if (r->model->is_mtp)
        look_ahead(r);
    observe(r, "embed", 0, &r->x);
    for (int l = 0; l < r->model->cfg.n_layers; l++)
        block(r, l);
    norm(r, &r->xn, &r->x, r->model->final_norm);
    observe(r, "final_norm", 0, &r->xn);
    keep_states(r, &r->xn);                  /* n, for embeddings and the MTP layer */
    head(r, &r->xn);                         /* logits = lm_head n, for tokens that want them */
}
