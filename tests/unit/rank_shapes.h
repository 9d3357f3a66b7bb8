/* tests/unit/rank_shapes.h: small models whose heads, experts and channels no number of ranks
 * divides evenly: latent attention, short convolutions, the gated delta rule. */
#ifndef RANK_SHAPES_H
#define RANK_SHAPES_H

#include "temp_folder.h"
#include "tblock_tools.h"

enum { SHAPE_VOCAB = 50 };

#define SHAPE(of) "{\"vocab_size\": 50, \"n_ctx\": 256, \"d_ff\": 40, " of "}"

static const char *const rank_shape[] = {
    /* q in two steps; groups of experts, and shared ones, of other widths */
    SHAPE("\"d_model\": 36, \"n_layers\": 3, \"heads\": 6, \"kv_heads\": 1, \"head_dim\": 22, "
          "\"rotary_dim\": 6, \"kv_lora\": 16, \"q_lora\": 52, \"nope_dim\": 5, \"v_dim\": 7, "
          "\"n_experts\": 8, \"experts_used\": 3, \"expert_d_ff\": 24, \"shared_d_ff\": 33, "
          "\"router_score\": \"sigmoid\", \"choice_bias\": true, \"expert_groups\": 4, "
          "\"groups_used\": 2, \"renormalize\": true, \"expert_scale\": 2.5, "
          "\"dense_layers\": [0]"),
    SHAPE("\"d_model\": 64, \"n_layers\": 2, \"heads\": 5, \"kv_heads\": 1, \"head_dim\": 36, "
          "\"rotary_dim\": 4, \"kv_lora\": 32, \"nope_dim\": 16, \"v_dim\": 48"),
    SHAPE("\"d_model\": 45, \"n_layers\": 4, \"heads\": 6, \"kv_heads\": 3, \"head_dim\": 12, "
          "\"state_layers\": [1, 3], \"conv_taps\": 5, \"conv_bias\": true, \"window\": 66, "
          "\"norm_placement\": \"both\", \"full_layers\": [2], \"n_experts\": 6, "
          "\"experts_used\": 2, \"expert_d_ff\": 72, \"dense_layers\": [0, 1]"),
    SHAPE("\"d_model\": 96, \"n_layers\": 3, \"heads\": 4, \"kv_heads\": 2, "
          "\"state_layers\": [0, 2], \"conv_taps\": 3, \"qk_norm\": \"head\", "
          "\"tied_embeddings\": true"),
    SHAPE("\"d_model\": 36, \"n_layers\": 4, \"heads\": 6, \"kv_heads\": 3, \"head_dim\": 10, "
          "\"state_layers\": [0, 1, 3], \"conv_taps\": 4, \"delta_heads\": 6, "
          "\"delta_key_heads\": 3, \"delta_key_dim\": 7, \"delta_value_dim\": 9, "
          "\"attn_gate\": true, \"qk_norm\": \"head\", \"rotary_dim\": 4"),
    SHAPE("\"d_model\": 48, \"n_layers\": 3, \"heads\": 4, \"kv_heads\": 1, "
          "\"state_layers\": [0, 2], \"conv_taps\": 2, \"delta_heads\": 9, "
          "\"delta_key_heads\": 3, \"delta_key_dim\": 20, \"delta_value_dim\": 6, "
          "\"delta_tiled\": true, \"attn_gate\": true, \"n_experts\": 5, \"experts_used\": 2, "
          "\"expert_d_ff\": 33, \"shared_d_ff\": 24, \"shared_router\": true"),
    /* with a layer that predicts the token after the next: windows; latent attention and experts */
    SHAPE("\"d_model\": 45, \"n_layers\": 3, \"heads\": 6, \"kv_heads\": 3, \"head_dim\": 10, "
          "\"window\": 50, \"full_layers\": [1], \"mtp_layers\": 1"),
    SHAPE("\"d_model\": 36, \"n_layers\": 2, \"heads\": 6, \"kv_heads\": 1, \"head_dim\": 22, "
          "\"rotary_dim\": 6, \"kv_lora\": 16, \"q_lora\": 52, \"nope_dim\": 5, \"v_dim\": 7, "
          "\"n_experts\": 8, \"experts_used\": 3, \"expert_d_ff\": 24, \"shared_d_ff\": 33, "
          "\"dense_layers\": [0], \"tied_embeddings\": true, \"mtp_layers\": 1"),
    SHAPE("\"d_model\": 64, \"n_layers\": 2, \"heads\": 4, \"kv_heads\": 2, "
          "\"state_layers\": [0], \"conv_taps\": 4, \"delta_heads\": 2, "
          "\"delta_key_heads\": 2, \"delta_key_dim\": 16, \"delta_value_dim\": 16, "
          "\"attn_gate\": true, \"qkv_bias\": true"),
};
enum { N_SHAPES = sizeof rank_shape / sizeof *rank_shape };

/* m.bin in the test's folder. */
static inline bool make_shape(int i, const char *type, tblock_error *err)
{
    return write_config(rank_shape[i])
        && tblock_synth(in_folder("config.json"), in_folder("m.bin"),
                        &(tblock_synth_options){ .type = type, .seed = (uint64_t)i + 1 }, err);
}

#endif
