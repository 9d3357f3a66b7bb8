#!/usr/bin/env python3
"""Record what PyTorch and transformers compute for small models of random weights: tests/data/models/lfm2, lfm2-odd, lfm2-moe,
qwen3-next, qwen3-5, deepseek-v2, cohere2, exaone4-full, deepseek-v3-fp8 and phi.

    record_models.py [NAME...]   writes config.json, model.safetensors, golden.safetensors (float64, stored as F32) and golden.json
                                 of each

lfm2 has the keys of published folders, lfm2-odd those of the configuration class, biases and another length of the convolution,
lfm2-moe experts, one by one as published folders have them. qwen3-next has the keys and tensors of published folders,
qwen3-5 is the text part of one, with biases and sizes that fill no vector. deepseek-v2 chooses experts by groups, and its norms have
another eps than those of the latents. cohere2 has layers with a window, which rotate, and without. exaone4-full is as
transformers saves one without windows. deepseek-v3-fp8 has linear layers in FP8 as published ones, with blocks that end inside of heads.
phi has the keys of published folders, and a bias of the head.
Needs torch and transformers, of deepseek-v3-fp8 also accelerate (live.sh makes an environment with them). Tolerance: 8 times what torch's own float32 loses, at
least 4e-6 of the largest logit.
"""
import importlib.metadata
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "models"
COMMON = {"architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "bos_token_id": 1, "eos_token_id": 7, "pad_token_id": 0, "vocab_size": 40,
          "max_position_embeddings": 256, "initializer_range": 0.02, "use_cache": True, "torch_dtype": "bfloat16"}
MODELS = {
    "lfm2": {"block_auto_adjust_ff_dim": True, "block_dim": 24, "block_ff_dim": 36, "block_ffn_dim_multiplier": 1.0, "block_mlp_init_scale": 1.0,
             "block_multiple_of": 8, "block_norm_eps": 1e-05, "block_out_init_scale": 1.0, "block_use_swiglu": True,
             "block_use_xavier_init": True, "conv_L_cache": 3, "conv_bias": False, "conv_dim": 24, "conv_dim_out": 24,
             "conv_use_xavier_init": True, "full_attn_idxs": [2], "hidden_size": 24, "norm_eps": 1e-05, "num_attention_heads": 3, "num_heads": 3,
             "num_hidden_layers": 4, "num_key_value_heads": 1, "rope_theta": 1000000.0, "theta": 1000000.0, "tie_embedding": True,
             "use_pos_enc": True},
    "lfm2-odd": {"block_auto_adjust_ff_dim": False, "intermediate_size": 28, "conv_L_cache": 5, "conv_bias": True,
                 "layer_types": ["conv", "full_attention", "conv"], "hidden_size": 20, "norm_eps": 1e-03, "num_attention_heads": 5,
                 "num_hidden_layers": 3, "num_key_value_heads": 1, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
                 "tie_word_embeddings": False},
    "lfm2-moe": {"architectures": ["Lfm2MoeForCausalLM"], "model_type": "lfm2_moe", "conv_L_cache": 3, "conv_bias": False, "hidden_size": 16,
                 "intermediate_size": 24, "layer_types": ["conv", "full_attention", "conv"], "moe_intermediate_size": 12, "norm_eps": 1e-05,
                 "norm_topk_prob": True, "num_attention_heads": 2, "num_dense_layers": 1, "num_experts": 5, "num_experts_per_tok": 2,
                 "num_hidden_layers": 3, "num_key_value_heads": 1, "rope_theta": 1000000.0, "routed_scaling_factor": 1.5,
                 "use_expert_bias": True},
    "qwen3-next": {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "attention_bias": False, "attention_dropout": 0.0,
                   "decoder_sparse_step": 1, "full_attention_interval": 3, "head_dim": 8, "hidden_act": "silu", "hidden_size": 16,
                   "intermediate_size": 24, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 4, "linear_num_key_heads": 2,
                   "linear_num_value_heads": 4, "linear_value_head_dim": 4, "mlp_only_layers": [], "moe_intermediate_size": 8,
                   "norm_topk_prob": True, "num_attention_heads": 2, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 3,
                   "num_key_value_heads": 1, "output_router_logits": False, "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06,
                   "rope_scaling": None, "rope_theta": 10000000, "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 8,
                   "tie_word_embeddings": False, "use_sliding_window": False},
    "qwen3-5": {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "attention_bias": True, "attn_output_gate": True,
                "full_attention_interval": 4, "head_dim": 12, "hidden_act": "silu", "hidden_size": 20, "intermediate_size": 24,
                "layer_types": ["linear_attention", "full_attention", "linear_attention"], "linear_conv_kernel_dim": 3,
                "linear_key_head_dim": 6, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_value_head_dim": 5,
                "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False, "num_attention_heads": 2,
                "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-03, "tie_word_embeddings": True,
                "rope_parameters": {"mrope_interleaved": True, "mrope_section": [1, 1, 1], "rope_type": "default", "rope_theta": 10000.0,
                                    "partial_rotary_factor": 0.5}},
    "deepseek-v2": {"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "attention_bias": False, "aux_loss_alpha": 0.001,
                    "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 18, "intermediate_size": 24, "kv_lora_rank": 10,
                    "moe_intermediate_size": 8, "moe_layer_freq": 1, "n_group": 4, "n_routed_experts": 8, "n_shared_experts": 2,
                    "norm_topk_prob": False, "num_attention_heads": 3, "num_experts_per_tok": 3, "num_hidden_layers": 2,
                    "num_key_value_heads": 3, "q_lora_rank": None, "qk_nope_head_dim": 8, "qk_rope_head_dim": 6, "rms_norm_eps": 1e-02,
                    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
                                     "original_max_position_embeddings": 16, "type": "yarn"},
                    "rope_theta": 10000, "routed_scaling_factor": 2.0, "scoring_func": "softmax", "seq_aux": True,
                    "tie_word_embeddings": False, "topk_group": 2, "topk_method": "group_limited_greedy", "v_head_dim": 10},
    "cohere2": {"architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2", "attention_bias": False, "attention_dropout": 0.0,
                "bos_token_id": 5, "cache_implementation": "hybrid", "head_dim": 4, "hidden_act": "silu", "hidden_size": 16,
                "intermediate_size": 24, "layer_norm_eps": 1e-05, "layer_switch": 4, "logit_scale": 0.25, "num_attention_heads": 4,
                "num_hidden_layers": 3, "num_key_value_heads": 2, "order_of_interleaved_layers": "local_attn_first",
                "position_embedding_type": "rope_gptj", "rope_scaling": None, "rope_theta": 50000, "rotary_pct": 1.0,
                "sliding_window": 9, "sliding_window_pattern": 2, "use_embedding_sharing": True, "use_gated_activation": True,
                "use_parallel_block": True, "use_parallel_embedding": False, "use_qk_norm": False},
    "exaone4-full": {"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4", "attention_dropout": 0.0, "hidden_act": "silu",
                     "hidden_size": 16, "intermediate_size": 24, "layer_types": ["full_attention"] * 2, "num_attention_heads": 2,
                     "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-05,
                     "rope_parameters": {"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                                         "original_max_position_embeddings": 64, "rope_theta": 10000.0, "rope_type": "llama3"},
                     "sliding_window": None, "sliding_window_pattern": 0, "tie_word_embeddings": False},
    "deepseek-v3-fp8": {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "attention_bias": False, "attention_dropout": 0.0,
                        "ep_size": 1, "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 16, "intermediate_size": 24,
                        "kv_lora_rank": 32, "moe_intermediate_size": 8, "moe_layer_freq": 1, "n_group": 2, "n_routed_experts": 4,
                        "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts_per_tok": 2,
                        "num_hidden_layers": 2, "num_key_value_heads": 4, "q_lora_rank": 16, "qk_nope_head_dim": 6, "qk_rope_head_dim": 8,
                        "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [8, 8]},
                        "rms_norm_eps": 1e-06,
                        "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                                         "original_max_position_embeddings": 16, "type": "yarn"},
                        "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": False,
                        "topk_group": 1, "topk_method": "noaux_tc", "v_head_dim": 8},
    "phi": {"architectures": ["PhiForCausalLM"], "model_type": "phi", "attention_dropout": 0.0, "embd_pdrop": 0.0, "hidden_act": "gelu_new",
            "hidden_size": 16, "intermediate_size": 20, "layer_norm_eps": 1e-05, "num_attention_heads": 2, "num_hidden_layers": 2,
            "num_key_value_heads": 2, "partial_rotary_factor": 0.5, "qk_layernorm": False, "resid_pdrop": 0.1, "rope_scaling": None,
            "rope_theta": 10000.0, "tie_word_embeddings": False},
}
EXPERTS = {"deepseek_v2": ("gate_proj", "up_proj", "down_proj"), "deepseek_v3": ("gate_proj", "up_proj", "down_proj"), "lfm2_moe": ("w1", "w3", "w2"), "qwen3_next": ("gate_proj", "up_proj", "down_proj")}
LENGTHS, N_GREEDY, HIDDEN = (1, 7, 40), 24, 1


def load(folder, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager",
                                                             experts_implementation="eager").eval()


def weights(config, seed):
    """Of spreads that make every part count, rounded to bf16."""
    model, g = transformers.AutoModelForCausalLM.from_config(config), torch.Generator().manual_seed(seed)
    out = {}
    less_one = config.model_type.startswith("qwen3")  # norms are stored as w - 1
    choice = [(name, b) for name, b in model.named_buffers() if name.endswith(("expert_bias", "correction_bias"))]
    for name, p in [*model.named_parameters(), *choice]:
        r = torch.randn(p.shape, generator=g)
        spread = 0.2 if "norm" in name else 0.3 if p.ndim == 1 else 0.5 if "embed" in name else 1.5 / p.shape[-1] ** 0.5
        centre = ("norm" in name and (not less_one or "linear_attn" in name)) - 0.5 * ("A_log" in name)
        w = (spread * r + centre).to(torch.bfloat16)
        base, _, part = name.rpartition(".")
        if p.ndim == 3 and part in ("gate_up_proj", "down_proj"):
            names = EXPERTS[config.model_type]
            for e, each in enumerate(w):
                parts = each.chunk(2) if part == "gate_up_proj" else (each,)
                out.update({f"{base}.{e}.{n}.weight": x.clone() for n, x in zip(names[:2] if len(parts) == 2 else names[2:], parts)})
        else:
            out[name] = w
    return out


def in_blocks(tensors, config):
    """Linear layers as published folders in FP8 have them: the largest of each block is 448, the end of e4m3."""
    rows, columns = config.quantization_config["weight_block_size"]
    for name in [n for n in tensors if n.endswith(".weight") and "_proj" in n]:
        w = tensors[name].float()
        blocks = w.reshape(w.shape[0] // rows, rows, w.shape[1] // columns, columns)
        scales = blocks.abs().amax((1, 3)) / 448
        tensors[name] = (blocks / scales[:, None, :, None]).reshape(w.shape).to(torch.float8_e4m3fn)
        tensors[name + "_scale_inv"] = scales
    return tensors


def hidden_states(model, ids):
    kept, hooks = {}, []
    parts = {"embed": model.model.embed_tokens, "final_norm": getattr(model.model, "embedding_norm", None)
             or getattr(model.model, "final_layernorm", None) or model.model.norm,
             **{f"layer{i}": m for i, m in enumerate(model.model.layers)}}
    for name, part in parts.items():
        def keep(_m, _i, out, name=name):
            kept[name] = (out[0] if isinstance(out, tuple) else out).reshape(-1, model.config.hidden_size)
        hooks.append(part.register_forward_hook(keep))
    model(ids, use_cache=False)
    for h in hooks:
        h.remove()
    return kept


def attention(model, ids):
    """Of models with attention in every layer only."""
    if model.config.model_type.startswith(("lfm2", "qwen3_")):
        return {}
    return {f"attn.layer{i}": a[0] for i, a in enumerate(model(ids, use_cache=False, output_attentions=True).attentions)}


def greedy(model, ids):
    out, margin = ids, float("inf")
    for _ in range(N_GREEDY):
        best = model(out, use_cache=False).logits[0, -1].topk(2)
        margin = min(margin, float(best.values[0] - best.values[1]))
        out = torch.cat([out, best.indices[:1].reshape(1, 1)], 1)
    return out[0, ids.shape[1]:], margin


def record(name, seed):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**COMMON, **MODELS[name]}, indent=1) + "\n")
    config = transformers.AutoConfig.from_pretrained(folder)
    tensors = weights(config, seed)
    save_file(in_blocks(tensors, config) if name.endswith("fp8") else tensors, folder / "model.safetensors", {"format": "pt"})
    wide, plain = load(folder, torch.float64), load(folder, torch.float32)
    g, tensors, sequences, error, largest = torch.Generator().manual_seed(seed + 1), {}, [], 0.0, 0.0
    for i, n in enumerate(LENGTHS):
        ids = torch.randint(0, COMMON["vocab_size"], (1, n), generator=g)
        logits = wide(ids, use_cache=False).logits[0]
        error = max(error, float((plain(ids, use_cache=False).logits[0].double() - logits).abs().max()))
        largest = max(largest, float(logits.abs().max()))
        tensors[f"seq{i}.tokens"], tensors[f"seq{i}.logits_f64"] = ids[0].int(), logits.float()
        drawn, margin = greedy(wide, ids)
        if margin > 0.005:
            tensors[f"seq{i}.greedy"] = drawn.int()
        if i == HIDDEN:
            tensors.update({f"seq{i}.hidden.{k}": v.float() for k, v in hidden_states(wide, ids).items()})
            tensors.update({f"seq{i}.{k}": v.float() for k, v in attention(wide, ids).items()})
        sequences.append({"length": n, "greedy_min_margin": round(margin, 6)})
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "golden.safetensors")
    versions = ", ".join(f"{p} {importlib.metadata.version(p).split('+')[0]}" for p in ("transformers", "torch"))
    (folder / "golden.json").write_text(json.dumps({
        "name": name, "family": wide.config.model_type, "seed": seed, "reference": versions, "max_abs_f32_vs_f64": float(f"{error:.3g}"),
        "logit_absmax": round(largest, 4), "suggested_tolerance": float(f"{max(8 * error, 4e-6 * largest):.2g}"), "sequences": sequences}, indent=1) + "\n")


if __name__ == "__main__":
    with torch.no_grad():
        for number, model_name in enumerate(MODELS):
            if model_name in (sys.argv[1:] or MODELS):
                record(model_name, 240 + number)
