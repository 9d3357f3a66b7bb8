/* model/tensor_rows.h: the tensors of a model, a row each, in the order of our files. The rows make
 * the roles and the list (tensor_list.h), the fields of Layer and Model (model.h), the weights that
 * are trained (train/block.h), and the names in other programs' files. A new tensor is a row here,
 * its arithmetic, and a row of docs/format.md, section Tensors; a config that may have it has a key
 * (config.h, config_keys.c). */
#ifndef MODEL_TENSOR_ROWS_H
#define MODEL_TENSOR_ROWS_H

/* T(ROLE, field, KIND, rows, columns, has, biased, gguf, hf, more)
 *   ROLE, field  ROLE_WQ and the field wq, the tensor's name in our files; its bias is wq_bias
 *   KIND         the type of the field (TensorKind)
 *   rows, columns  config keys, or what tensor_list.c defines; NONE: a vector
 *   has, biased  which configs, and which of their layers, have it and its bias: tensor_list.c
 *   gguf         its name in GGUF files, less .weight; "=": the whole name. NULL: none of its own
 *   hf           its name in folders, if a family has no other (source/family.c); NULL: all have
 *   more         further members of TensorRow: what a matrix reads and the operation (READS), the
 *                operation of a norm (NORMS), or the part of the block that a vector is of (OF) */
#define TENSOR_LAYER "@layers.#."
#define TENSOR_ATTN  TENSOR_LAYER "self_attn."
#define TENSOR_MLP   TENSOR_LAYER "mlp."
#define TENSOR_DELTA TENSOR_LAYER "linear_attn."

#define TENSORS_BEFORE(T)                                                                          \
    T(EMBED, embed, EMBEDDING, KEY(vocab_size), D_MODEL, ALWAYS, NEVER, "token_embd",              \
      "@embed_tokens.weight", TABLE)                                                               \
    T(POS_EMBED, pos_embed, EMBEDDING, KEY(n_ctx), D_MODEL, WORD(ANY, positions, POS_LEARNED),     \
      NEVER, "position_embd", NULL, TABLE)                                                         \
    T(ROPE_FACTORS, rope_factors, VECTOR, FACTORS, NONE, FACTORED, NEVER, "rope_freqs", NULL,      \
      OF(NORMS))

#define TENSORS_OF_LAYER(T)                                                                        \
    T(ATTN_NORM, attn_norm, NORM, D_MODEL, NONE, ATTN_NORMED, IF(norm_bias), "attn_norm",          \
      TENSOR_LAYER "input_layernorm.weight", NORMS(ATTN_NORM),                                     \
      BLOCK("norm1_weight", "norm1_bias"))                                                         \
    T(WQ, wq, MAT, Q_DIM, D_MODEL, UNLESS(ATTENTION, q_lora), IF_NOT(qkv_bias, kv_lora),           \
      "attn_q", TENSOR_ATTN "q_proj.weight", READS(QKV, Q), .cut = RANK_HEADS, .lora = "q",        \
      BLOCK("wq", "bq"))                                                                           \
    /* Latent attention: q in two steps, and no wv. wo reads heads * v_dim. */                     \
    T(WQ_A, wq_a, MAT, KEY(q_lora), D_MODEL, ON(ATTENTION, q_lora), IF(qkv_bias), "attn_q_a",      \
      TENSOR_ATTN "q_a_proj.weight", READS(QKV, Q))                                                \
    T(Q_A_NORM, q_a_norm, VECTOR, KEY(q_lora), NONE, ON(ATTENTION, q_lora), NEVER,                 \
      "attn_q_a_norm", TENSOR_ATTN "q_a_layernorm.weight", OF(NORMS))                              \
    T(WQ_B, wq_b, MAT, Q_DIM, KEY(q_lora), ON(ATTENTION, q_lora), NEVER, "attn_q_b",               \
      TENSOR_ATTN "q_b_proj.weight", READS(Q_A, Q), .cut = RANK_HEADS)                             \
    T(WK, wk, MAT, KV_DIM, D_MODEL, IN(ATTENTION), IF(qkv_bias), "attn_k",                         \
      TENSOR_ATTN "k_proj.weight", READS(QKV, K), .cut = RANK_KV_HEADS, .lora = "k",               \
      BLOCK("wk", "bk"))                                                                           \
    T(LATENT_NORM, latent_norm, VECTOR, KEY(kv_lora), NONE, ON(ATTENTION, kv_lora), NEVER,         \
      "attn_kv_a_norm", TENSOR_ATTN "kv_a_layernorm.weight", OF(NORMS))                            \
    T(WV, wv, MAT, KV_DIM, D_MODEL, UNLESS(ATTENTION, kv_lora), IF(qkv_bias), "attn_v",            \
      TENSOR_ATTN "v_proj.weight", READS(QKV, V), .cut = RANK_KV_HEADS, .lora = "v",               \
      BLOCK("wv", "bv"))                                                                           \
    T(W_UK, w_uk, HEADS, KEY(kv_lora), KEY(nope_dim), ON(ATTENTION, kv_lora), NEVER, "attn_k_b",   \
      NULL, READS(UK, Q), .cut = RANK_ITEMS)                                                       \
    T(W_UV, w_uv, HEADS, KEY(v_dim), KEY(kv_lora), ON(ATTENTION, kv_lora), NEVER, "attn_v_b",      \
      NULL, READS(UV, V), .cut = RANK_ITEMS)                                                       \
    T(Q_NORM, q_norm, VECTOR, Q_NORM_DIM, NONE, QK_NORMED, NEVER, "attn_q_norm",                   \
      TENSOR_ATTN "q_norm.weight", OF(NORMS), BLOCK("q_norm_weight", NULL))                        \
    T(K_NORM, k_norm, VECTOR, K_NORM_DIM, NONE, QK_NORMED, NEVER, "attn_k_norm",                   \
      TENSOR_ATTN "k_norm.weight", OF(NORMS), BLOCK("k_norm_weight", NULL))                        \
    T(ATTN_SINKS, attn_sinks, VECTOR, KEY(heads), NONE, ON(ATTENTION, attn_sinks), NEVER,          \
      "attn_sinks", TENSOR_ATTN "sinks", OF(ATTENTION))                                            \
    T(ATTN_GATE, attn_gate, MAT, Q_DIM, D_MODEL, ON(ATTENTION, attn_gate), IF(qkv_bias),           \
      "attn_q", NULL, READS(QKV, Q), .cut = RANK_HEADS)                                            \
    T(WO, wo, MAT, D_MODEL, O_DIM, IN(ATTENTION), IF(out_bias), "attn_output",                     \
      TENSOR_ATTN "o_proj.weight", READS(WO, OUT), .lora = "o", BLOCK("wo", "bo"))                 \
    /* Of a recurrent layer instead: a short convolution. */                                       \
    T(CONV_B, conv_b, MAT, D_MODEL, D_MODEL, UNLESS(STATE, delta_heads), IF(conv_bias),            \
      "shortconv.in_proj", NULL, READS(QKV, CONV_IN))                                              \
    T(CONV_C, conv_c, MAT, D_MODEL, D_MODEL, UNLESS(STATE, delta_heads), IF(conv_bias),            \
      "shortconv.in_proj", NULL, READS(QKV, CONV_IN))                                              \
    T(CONV_X, conv_x, MAT, D_MODEL, D_MODEL, UNLESS(STATE, delta_heads), IF(conv_bias),            \
      "shortconv.in_proj", NULL, READS(QKV, CONV_IN))                                              \
    /* Or the gated delta rule: q, k and v; vectors of softplus and exp; the norm of a head. */    \
    T(DELTA_QKV, delta_qkv, MAT, CONV_DIM, D_MODEL, ON(STATE, delta_heads), NEVER, "attn_qkv",     \
      NULL, READS(QKV, CONV_IN), .cut = RANK_DELTA_QKV)                                            \
    T(DELTA_Z, delta_z, MAT, STATE_DIM, D_MODEL, ON(STATE, delta_heads), NEVER, "attn_gate",       \
      NULL, READS(QKV, CONV_IN), .cut = RANK_DELTA)                                                \
    T(DELTA_B, delta_b, MAT, KEY(delta_heads), D_MODEL, ON(STATE, delta_heads), NEVER, "ssm_ba",   \
      NULL, READS(QKV, CONV_IN), .quantized = AS_FLOATS, .cut = RANK_DELTA)                        \
    T(DELTA_A, delta_a, MAT, KEY(delta_heads), D_MODEL, ON(STATE, delta_heads), NEVER, "ssm_ba",   \
      NULL, READS(QKV, CONV_IN), .quantized = AS_FLOATS, .cut = RANK_DELTA)                        \
    T(CONV, conv, VECTOR, TAPS, NONE, IN(STATE), NEVER, "shortconv.conv",                          \
      TENSOR_DELTA "conv1d.weight", OF(ATTENTION))                                                 \
    T(CONV_SHIFT, conv_shift, VECTOR, D_MODEL, NONE, ON(STATE, conv_bias), NEVER,                  \
      "=shortconv.conv.bias", NULL, OF(ATTENTION))                                                 \
    T(CONV_OUT, conv_out, MAT, D_MODEL, D_MODEL, UNLESS(STATE, delta_heads), IF(conv_bias),        \
      "shortconv.out_proj", TENSOR_LAYER "conv.out_proj.weight", READS(WO, CONV_OUT))              \
    T(DELTA_DT, delta_dt, VECTOR, KEY(delta_heads), NONE, ON(STATE, delta_heads), NEVER,           \
      "=ssm_dt.bias", TENSOR_DELTA "dt_bias", OF(ATTENTION))                                       \
    T(DELTA_RATE, delta_rate, VECTOR, KEY(delta_heads), NONE, ON(STATE, delta_heads), NEVER,       \
      "=ssm_a", TENSOR_DELTA "A_log", OF(ATTENTION))                                               \
    T(DELTA_NORM, delta_norm, VECTOR, KEY(delta_value_dim), NONE, ON(STATE, delta_heads), NEVER,   \
      "ssm_norm", TENSOR_DELTA "norm.weight", OF(NORMS))                                           \
    T(DELTA_OUT, delta_out, MAT, D_MODEL, STATE_DIM, ON(STATE, delta_heads), NEVER, "ssm_out",     \
      TENSOR_DELTA "out_proj.weight", READS(WO, CONV_OUT))                                         \
    T(ATTN_POST_NORM, attn_post_norm, NORM, D_MODEL, NONE, POST_NORMED, IF(norm_bias),             \
      "post_attention_norm", TENSOR_LAYER "post_attention_layernorm.weight",                       \
      NORMS(ATTN_POST_NORM), BLOCK("post_norm1_weight", "post_norm1_bias"))                        \
    T(FFN_NORM, ffn_norm, NORM, D_MODEL, NONE, FFN_NORMED, IF(norm_bias), "ffn_norm",              \
      TENSOR_LAYER "post_attention_layernorm.weight", NORMS(FFN_NORM),                             \
      BLOCK("norm2_weight", "norm2_bias"))                                                         \
    T(W_GATE, w_gate, MAT, KEY(d_ff), D_MODEL, GATED, IF(ffn_bias), "ffn_gate",                    \
      TENSOR_MLP "gate_proj.weight", READS(FFN, GATE), .lora = "gate", BLOCK("w_gate", "b_gate"))  \
    T(W_UP, w_up, MAT, KEY(d_ff), D_MODEL, IN(DENSE), IF(ffn_bias), "ffn_up",                      \
      TENSOR_MLP "up_proj.weight", READS(FFN, UP), .lora = "up", BLOCK("w_up", "b_up"))            \
    T(XIELU, xielu, VECTOR, FOUR, NONE, WORD(DENSE, ffn, FFN_XIELU), NEVER, NULL,                  \
      TENSOR_MLP "act_fn.alpha_p", OF(NORMS))                                                      \
    T(W_DOWN, w_down, MAT, D_MODEL, KEY(d_ff), IN(DENSE), IF(ffn_bias), "ffn_down",                \
      TENSOR_MLP "down_proj.weight", READS(DOWN, DOWN), .lora = "down",                            \
      BLOCK("w_down", "b_down"))                                                                   \
    /* Of experts: one tensor for all of a layer; and of the expert that every token uses. */      \
    T(ROUTER, router, MAT, KEY(n_experts), D_MODEL, IN(MOE), IF(router_bias), "ffn_gate_inp",      \
      TENSOR_MLP "gate.weight", READS(FFN, COUNT), .quantized = AS_FLOATS)                         \
    T(CHOICE_BIAS, choice_bias, VECTOR, KEY(n_experts), NONE, ON(MOE, choice_bias), NEVER,         \
      "=exp_probs_b.bias", TENSOR_MLP "gate.e_score_correction_bias", OF(FFN))                     \
    T(EXPERT_GATE, expert_gate, STACK, KEY(expert_d_ff), D_MODEL, IN(MOE), IF(expert_bias),        \
      "ffn_gate_exps", NULL, READS(FFN, GATE))                                                     \
    T(EXPERT_UP, expert_up, STACK, KEY(expert_d_ff), D_MODEL, IN(MOE), IF(expert_bias),            \
      "ffn_up_exps", NULL, READS(FFN, UP))                                                         \
    T(EXPERT_DOWN, expert_down, STACK, D_MODEL, KEY(expert_d_ff), IN(MOE), IF(expert_bias),        \
      "ffn_down_exps", NULL, READS(EXPERT_DOWN, DOWN))                                             \
    T(SHARED_ROUTER, shared_router, MAT, ONE, D_MODEL, ON(MOE, shared_router), NEVER,              \
      "ffn_gate_inp_shexp", TENSOR_MLP "shared_expert_gate.weight", READS(FFN, COUNT),             \
      .quantized = AS_FLOATS)                                                                      \
    T(SHARED_GATE, shared_gate, MAT, KEY(shared_d_ff), D_MODEL, ON(MOE, shared_d_ff), NEVER,       \
      "ffn_gate_shexp", TENSOR_MLP "shared_experts.gate_proj.weight", READS(FFN, GATE))            \
    T(SHARED_UP, shared_up, MAT, KEY(shared_d_ff), D_MODEL, ON(MOE, shared_d_ff), NEVER,           \
      "ffn_up_shexp", TENSOR_MLP "shared_experts.up_proj.weight", READS(FFN, UP))                  \
    T(SHARED_DOWN, shared_down, MAT, D_MODEL, KEY(shared_d_ff), ON(MOE, shared_d_ff), NEVER,       \
      "ffn_down_shexp", TENSOR_MLP "shared_experts.down_proj.weight", READS(SHARED_DOWN, DOWN))    \
    T(FFN_POST_NORM, ffn_post_norm, NORM, D_MODEL, NONE, POST_NORMED, IF(norm_bias),               \
      "post_ffw_norm", TENSOR_LAYER "post_feedforward_layernorm.weight", NORMS(FFN_POST_NORM),     \
      BLOCK("post_norm2_weight", "post_norm2_bias"))                                               \
    /* Of the MTP layer, which predicts the token after the next: norms of the next token's        \
     * embedding and the hidden state before it, a matrix for both, the norm before the head. */   \
    T(MTP_EMBED_NORM, mtp_embed_norm, NORM, D_MODEL, NONE, IN(MTP), IF(norm_bias), "nextn.enorm",  \
      TENSOR_LAYER "enorm.weight", NORMS(COUNT))                                                   \
    T(MTP_STATE_NORM, mtp_state_norm, NORM, D_MODEL, NONE, IN(MTP), IF(norm_bias), "nextn.hnorm",  \
      TENSOR_LAYER "hnorm.weight", NORMS(COUNT))                                                   \
    T(MTP_PROJ, mtp_proj, MAT, D_MODEL, TWO_MODELS, IN(MTP), NEVER, "nextn.eh_proj",               \
      TENSOR_LAYER "eh_proj.weight", READS(MTP, COUNT))                                            \
    T(MTP_FINAL_NORM, mtp_final_norm, NORM, D_MODEL, NONE, IN(MTP), IF(norm_bias),                 \
      "nextn.shared_head_norm", TENSOR_LAYER "shared_head.norm.weight", NORMS(COUNT))

#define TENSORS_AFTER(T)                                                                           \
    T(FINAL_NORM, final_norm, NORM, D_MODEL, NONE, ALWAYS, IF(norm_bias), "output_norm",           \
      "@norm.weight", NORMS(COUNT))                                                                \
    T(LM_HEAD, lm_head, MAT, KEY(vocab_size), D_MODEL, UNTIED, IF(head_bias), "output",            \
      "lm_head.weight", READS(HEAD, COUNT), .quantized = AT_LEAST_Q8, .lora = "lm_head")           \
    /* After pooling. */                                                                           \
    T(DENSE1, dense1, EMBEDDING, KEY(dense1), D_MODEL, IF(dense1), IF(dense1_bias), "dense_2",     \
      "dense1.linear.weight", OF(NORMS), .quantized = AS_FLOATS)                                   \
    T(DENSE2, dense2, EMBEDDING, KEY(dense2), KEY(dense1), IF(dense2), IF(dense2_bias),            \
      "dense_3", "dense2.linear.weight", OF(NORMS), .quantized = AS_FLOATS)

#define TENSORS(T) TENSORS_BEFORE(T) TENSORS_OF_LAYER(T) TENSORS_AFTER(T)

/* In file order. */
#define TENSOR_ROLE(role, ...) ROLE_##role,
typedef enum TensorRole { TENSORS(TENSOR_ROLE) ROLE_COUNT } TensorRole;

#endif
