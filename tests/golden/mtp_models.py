"""Folders as Hugging Face publishes them, with a layer that predicts the token after the next: of each family that has one, of weights that
follow from their names, so that no file holds them. tests/golden/mtp.py runs them, tests/references/record_mtp.py records what they answer."""
import hashlib
import json

import numpy as np
from ref import write_safetensors

COMMON = {"hidden_act": "silu", "hidden_size": 24, "intermediate_size": 40, "max_position_embeddings": 160, "moe_intermediate_size": 16,
          "n_routed_experts": 4, "n_shared_experts": 1, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
          "num_nextn_predict_layers": 1, "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.5,
          "n_group": 1, "topk_group": 1, "rms_norm_eps": 1e-05, "rope_theta": 10000, "tie_word_embeddings": False, "vocab_size": 40,
          "bos_token_id": None, "eos_token_id": [], "pad_token_id": None, "attention_bias": False}
CONFIGS = {
    "deepseek_v3": {**COMMON, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_key_value_heads": 4,
                    "kv_lora_rank": 16, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 6, "v_head_dim": 10,
                    "rope_scaling": None},
    "glm4_moe": {**COMMON, "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "num_key_value_heads": 2, "head_dim": 8,
                 "attention_bias": True, "use_qk_norm": True, "partial_rotary_factor": 0.5},
}


def shapes(c):
    """{name: shape} of a folder."""
    d, h, e, n, v = (c[k] for k in ("hidden_size", "num_attention_heads", "moe_intermediate_size", "num_hidden_layers", "vocab_size"))
    out = {"model.embed_tokens.weight": (v, d), "model.norm.weight": (d,), "lm_head.weight": (v, d)}
    mtp = f"model.layers.{n}."
    out.update({mtp + "enorm.weight": (d,), mtp + "hnorm.weight": (d,), mtp + "eh_proj.weight": (d, 2 * d), mtp + "shared_head.norm.weight": (d,),
                mtp + "embed_tokens.weight": (v, d), mtp + "shared_head.head.weight": (v, d)})
    for layer in range(n + 1):
        at, attn, mlp = (f"model.layers.{layer}." + part for part in ("", "self_attn.", "mlp."))
        out.update({at + "input_layernorm.weight": (d,), at + "post_attention_layernorm.weight": (d,)})
        if "kv_lora_rank" in c:
            rope, nope, own, kv, q = (c[k] for k in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank", "q_lora_rank"))
            out.update({attn + "q_a_proj.weight": (q, d), attn + "q_a_layernorm.weight": (q,), attn + "q_b_proj.weight": (h * (rope + nope), q),
                        attn + "kv_a_proj_with_mqa.weight": (kv + rope, d), attn + "kv_a_layernorm.weight": (kv,),
                        attn + "kv_b_proj.weight": (h * (nope + own), kv), attn + "o_proj.weight": (d, h * own)})
        else:
            size, kv = c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
            for part, rows in (("q", h * size), ("k", kv), ("v", kv)):
                out.update({attn + part + "_proj.weight": (rows, d), attn + part + "_proj.bias": (rows,)})
            out.update({attn + "o_proj.weight": (d, h * size), attn + "q_norm.weight": (size,), attn + "k_norm.weight": (size,)})
        if layer < c["first_k_dense_replace"]:
            networks = {mlp: c["intermediate_size"]}
        else:
            networks = {**{f"{mlp}experts.{i}.": e for i in range(c["n_routed_experts"])}, mlp + "shared_experts.": e}
            out.update({mlp + "gate.weight": (c["n_routed_experts"], d), mlp + "gate.e_score_correction_bias": (c["n_routed_experts"],)})
        for network, width in networks.items():
            out.update({network + "gate_proj.weight": (width, d), network + "up_proj.weight": (width, d), network + "down_proj.weight": (d, width)})
    return out


def weights(family):
    """{name: array} of float32, each between a few limits that make every part count. The copies of embedding and head are those of the model."""
    out = {}
    for name, shape in shapes(CONFIGS[family]).items():
        n = int(np.prod(shape))
        bits = np.frombuffer(hashlib.shake_256(f"{family} {name}".encode()).digest(2 * n), "<u2").astype(np.float64)
        norm = "norm" in name
        spread = 0.4 if norm else 0.3 if len(shape) == 1 else 1.0 if "embed" in name else 2.5 / shape[-1] ** 0.5
        out[name] = ((bits / 32768 - 1) * spread + norm).astype("<f4").reshape(shape)
    mtp = f"model.layers.{CONFIGS[family]['num_hidden_layers']}."
    out[mtp + "embed_tokens.weight"] = out["model.embed_tokens.weight"]
    out[mtp + "shared_head.head.weight"] = out["lm_head.weight"]
    return out


def guesses_itself(family):
    """The same, but each token alone says what comes next, and the layer behind the last predicts what the model does."""
    out = weights(family)
    n, d = CONFIGS[family]["num_hidden_layers"], CONFIGS[family]["hidden_size"]
    for name in out:
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            out[name] = np.zeros_like(out[name])
    mtp = f"model.layers.{n}."
    out[mtp + "eh_proj.weight"] = np.concatenate([np.eye(d), np.zeros((d, d))], 1).astype("<f4")
    out[mtp + "enorm.weight"] = np.ones(d, "<f4")
    out[mtp + "shared_head.norm.weight"] = out["model.norm.weight"]
    return out


def write(folder, family, tensors, **config):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIGS[family], **config}))
    write_safetensors(folder / "model.safetensors", tensors)
    return folder
