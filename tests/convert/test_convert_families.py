#!/usr/bin/env python3
"""`tblock convert`: the families beyond Llama and Mistral: where each tensor's values come from, written a second time here in
plain numpy, and what each family's config means or refuses."""
import json
import math
import os
import sys

import harness
from harness import edited, if_there, need, converted, refused, source_tensors, to_f32, expect_config, MODELS
import numpy as np

MIXTURES = ("deepseek-v3", "ernie45-moe", "glm4-moe", "gpt-oss", "granite-moe", "llama4", "minimax-m2", "olmoe")

FAMILIES = (*MIXTURES, "cohere", "gemma", "gemma2", "gemma3", "gpt-neox", "gpt2", "granite", "mixtral", "olmo2", "phi3", "qwen2",
            "qwen2-moe", "qwen3", "qwen3-moe", "stablelm", "seed-oss", "glm4", "ernie45", "helium", "smollm3", "olmo3",
            "exaone4", "hunyuan-dense", "arcee", "nemotron", "ministral3",
            "apertus", "lfm2", "lfm2-odd", "lfm2-moe", "qwen3-next", "qwen3-5", "deepseek-v2", "cohere2")
PLUS_ONE = ("gemma", "nemotron", "qwen3-next", "qwen3-5")
PAIRED = ("cohere", "cohere2", "glm4", "ernie45", "ernie45-moe", "helium", "llama4")


LATENT = {"wq_a": "q_a_proj.weight", "q_a_norm": "q_a_layernorm.weight", "wq_b": "q_b_proj.weight", "wk": "kv_a_proj_with_mqa.weight",
          "latent_norm": "kv_a_layernorm.weight", "w_uk": "kv_b_proj.weight", "w_uv": "kv_b_proj.weight"}


def delta_shapes(c):
    heads, values = c.get("delta_heads", 0), c.get("delta_heads", 0) * c.get("delta_value_dim", 0)
    return {"delta_qkv": (2 * c.get("delta_key_heads", 0) * c.get("delta_key_dim", 0) + values, c["d_model"]), "delta_z": (values, c["d_model"]),
            "delta_b": (heads, c["d_model"]), "delta_a": (heads, c["d_model"]), "delta_out": (c["d_model"], values)}


def stored(m, name):
    """A tensor of the model file as [rows, k], [items, rows, k] or [n], in f32, by the letter of docs/format.md."""
    c, e = m.config, m.header[name]
    bits = to_f32(e["dtype"], m.bits(name))
    rotary = c.get("rotary_dim", c["head_dim"])
    assert rotary <= c["head_dim"]
    query = rotary + c["nope_dim"] if c.get("kv_lora") else c["head_dim"]
    shape = {"wq": (c["heads"] * query, c["d_model"]), "wk": (c["kv_heads"] * c["head_dim"], c["d_model"]),
             "wv": (c["kv_heads"] * c["head_dim"], c["d_model"]), "wo": (c["d_model"], c["heads"] * c.get("v_dim", c["head_dim"])),
             "w_gate": (c["d_ff"], c["d_model"]), "w_up": (c["d_ff"], c["d_model"]), "w_down": (c["d_model"], c["d_ff"]),
             "router": (c.get("n_experts"), c["d_model"]), "lm_head": (c["vocab_size"], c["d_model"]),
             "embed": (c["vocab_size"], c["d_model"]), "shared_router": (1, c["d_model"]),
             "shared_gate": (c.get("shared_d_ff"), c["d_model"]), "shared_up": (c.get("shared_d_ff"), c["d_model"]),
             "shared_down": (c["d_model"], c.get("shared_d_ff")), "expert_gate": (c.get("expert_d_ff"), c["d_model"]),
             "expert_up": (c.get("expert_d_ff"), c["d_model"]), "expert_down": (c["d_model"], c.get("expert_d_ff")),
             "wq_a": (c.get("q_lora"), c["d_model"]), "wq_b": (c["heads"] * (c.get("nope_dim", 0) + rotary), c.get("q_lora")),
             "attn_gate": (c["heads"] * c["head_dim"], c["d_model"]), "mtp_proj": (c["d_model"], 2 * c["d_model"]), **delta_shapes(c),
             **{"conv_" + part: (c["d_model"],) * 2 for part in ("b", "c", "x", "out")},
             "w_uk": (c.get("kv_lora"), c.get("nope_dim")), "w_uv": (c.get("v_dim"), c.get("kv_lora")),
             }.get(name.rpartition(".")[2])
    if bits.ndim <= 2 or bits.shape[1:] == shape:   # row-major
        return bits
    rows, k = shape
    if bits.ndim == 4:
        bits = bits.transpose(0, 1, 3, 2).reshape(bits.shape[0], -1, 16)[:, :k]
    per_item = -(-rows // 16)
    items = bits.shape[0] // per_item
    plain = bits.transpose(0, 2, 1).reshape(items, per_item * 16, k)
    assert not plain[:, rows:].any(), "padding of %s" % name
    return plain[:, :rows] if items > 1 else plain[0, :rows]


def halves(a, head_dim, rotary=None):
    """Rows of each head, of those that are rotated: even ones first, then odd ones."""
    heads, n = a.reshape((-1, head_dim) + a.shape[1:]), rotary or head_dim
    return np.concatenate([heads[:, 0:n:2], heads[:, 1:n:2], heads[:, n:]], axis=1).reshape(a.shape)


LLAMA = {"attn_norm": "input_layernorm", "wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj",
         "wo": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "w_gate": "mlp.gate_proj", "w_up": "mlp.up_proj",
         "w_down": "mlp.down_proj", "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm", "router": "mlp.gate",
         "shared_router": "mlp.shared_expert_gate", "shared_gate": "mlp.shared_expert.gate_proj",
         "shared_up": "mlp.shared_expert.up_proj", "shared_down": "mlp.shared_expert.down_proj",
         "mtp_embed_norm": "enorm", "mtp_state_norm": "hnorm", "mtp_proj": "eh_proj", "mtp_final_norm": "shared_head.norm"}


LFM2 = {"attn_norm": "operator_norm.weight", "q_norm": "self_attn.q_layernorm.weight", "k_norm": "self_attn.k_layernorm.weight",
        "wq": "self_attn.q_proj.weight", "wk": "self_attn.k_proj.weight", "wv": "self_attn.v_proj.weight", "wo": "self_attn.out_proj.weight",
        "conv_shift": "conv.conv.bias", "conv_out": "conv.out_proj.weight", "conv_out_bias": "conv.out_proj.bias", "ffn_norm": "ffn_norm.weight",
        "router": "feed_forward.gate.weight", "choice_bias": "feed_forward.expert_bias",
        "w_gate": "feed_forward.w1.weight", "w_up": "feed_forward.w3.weight", "w_down": "feed_forward.w2.weight",
        "embed": "model.embed_tokens.weight", "final_norm": "model.embedding_norm.weight", "lm_head": "lm_head.weight"}


def of_lfm2(t, layer, part):
    if not layer:
        return t[LFM2[part]]
    base = "model.layers.%s." % layer
    if part.startswith("expert_"):
        kept = "feed_forward.experts.%d." + {"gate": "w1", "up": "w3", "down": "w2"}[part[7:]] + ".weight"
        return np.stack([t[base + kept % e] for e in range(sum(name.startswith(base) and name.endswith(".w1.weight") for name in t))])
    if part == "conv":
        return t[base + "conv.conv.weight"].reshape(-1)
    if part in ("conv_b", "conv_c", "conv_x", "conv_b_bias", "conv_c_bias", "conv_x_bias"):
        return np.split(t[base + "conv.in_proj." + ("bias" if part.endswith("bias") else "weight")], 3)["bcx".index(part[5])]
    return t[base + LFM2[part]]


def of_delta(c, t, base, part):
    """A tensor that only layers with the delta rule have, or attention with a gate; None: another."""
    own = {"conv": "conv1d.weight", "delta_dt": "dt_bias", "delta_norm": "norm.weight", "delta_out": "out_proj.weight"}
    if part in own:
        a = t[base + "linear_attn." + own[part]]
        return a.reshape(-1) if part == "conv" else a
    if part == "delta_rate":
        return -np.exp(t[base + "linear_attn.A_log"].astype("<f8")).astype("<f4")
    if part in ("wq", "wq_bias", "attn_gate", "attn_gate_bias"):
        a = t[base + "self_attn.q_proj." + ("bias" if part.endswith("bias") else "weight")]
        return a.reshape(c["heads"], 2, c["head_dim"], -1)[:, int(part.startswith("attn"))].reshape(-1, *a.shape[1:])
    if not part.startswith("delta_"):
        return None
    if base + "linear_attn.in_proj_qkv.weight" in t:
        return t[base + "linear_attn.in_proj_%s.weight" % part[6:]]
    keys, dk = c["delta_key_heads"], c["delta_key_dim"]
    if part in ("delta_b", "delta_a"):
        a = t[base + "linear_attn.in_proj_ba.weight"]
        return a.reshape(keys, 2, -1, a.shape[1])[:, "ba".index(part[6])].reshape(-1, a.shape[1])
    a = t[base + "linear_attn.in_proj_qkvz.weight"]
    q, k, v, z = (x.reshape(-1, a.shape[1]) for x in np.split(
        a.reshape(keys, -1, a.shape[1]), np.cumsum([dk, dk, c["delta_heads"] // keys * c["delta_value_dim"]]), axis=1))
    return z if part == "delta_z" else np.concatenate([q, k, v])


def expected(fixture, c, t, name):
    """The values that our tensor `name` has to have, from the source's tensors t {name: f32 array}."""
    _, _, rest = name.partition("layers.")
    layer, _, part = rest.partition(".") if rest else ("", "", name)
    if fixture.startswith("lfm2"):
        return of_lfm2(t, layer, part)
    delta = of_delta(c, t, "model.layers.%s." % layer, part) if fixture in ("qwen3-next", "qwen3-5") else None
    if delta is not None:
        return delta
    kind, part = ("bias", part[:-5]) if part.endswith("_bias") else ("weight", part)
    q, kv, d, ff = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"], c["head_dim"], c["d_ff"]
    if fixture == "gpt2":
        names = {"embed": "wte", "pos_embed": "wpe", "final_norm": "ln_f", "attn_norm": "ln_1", "ffn_norm": "ln_2",
                 "wo": "attn.c_proj", "w_up": "mlp.c_fc", "w_down": "mlp.c_proj"}
        base = "transformer." + ("h.%s." % layer if layer else "")
        if part in ("wq", "wk", "wv"):
            a = np.split(t[base + "attn.c_attn." + kind], 3, axis=-1)["qkv".index(part[1])]
        else:
            a = t[base + names[part] + "." + kind]
        return a.T if part[0] == "w" and kind == "weight" else a
    if fixture == "gpt-neox":
        names = {"embed": "gpt_neox.embed_in", "final_norm": "gpt_neox.final_layer_norm", "lm_head": "embed_out",
                 "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "wo": "attention.dense",
                 "w_up": "mlp.dense_h_to_4h", "w_down": "mlp.dense_4h_to_h"}
        base = "gpt_neox.layers.%s." % layer if layer else ""
        if part in ("wq", "wk", "wv"):
            a = t[base + "attention.query_key_value." + kind]
            return a.reshape((c["heads"], 3, d) + a.shape[1:])[:, "qkv".index(part[1])].reshape((q,) + a.shape[1:])
        return t["%s%s.%s" % (base, names[part], kind)]
    if not layer:
        top = {"embed": "model.embed_tokens", "final_norm": "model.norm", "lm_head": "lm_head"}
        a = t["%s.%s" % (top[part], kind)]
        return a + np.float32(1) if fixture.startswith(PLUS_ONE) and part == "final_norm" and kind == "weight" else a
    base = "model.layers.%s." % layer
    if fixture == "gpt-oss" and part == "attn_sinks":
        return t[base + "self_attn.sinks"]
    if fixture == "gpt-oss" and part in ("expert_gate", "expert_up"):
        a = t[base + "mlp.experts.gate_up_proj" + ("_bias" if kind == "bias" else "")][..., part == "expert_up"::2]
        return a.swapaxes(1, 2) if kind == "weight" else a.reshape(-1)
    if fixture == "gpt-oss" and part == "expert_down":
        return t[base + "mlp.experts.down_proj"].swapaxes(1, 2) if kind == "weight" else t[base + "mlp.experts.down_proj_bias"].reshape(-1)
    if fixture == "llama4" and part in ("expert_gate", "expert_up"):
        return np.split(t[base + "feed_forward.experts.gate_up_proj"].swapaxes(1, 2), 2, axis=1)[part == "expert_up"]
    if fixture == "llama4" and part == "expert_down":
        return t[base + "feed_forward.experts.down_proj"].swapaxes(1, 2)
    if fixture == "llama4" and part.startswith("shared_"):
        return t["%sfeed_forward.shared_expert.%s_proj.weight" % (base, part[7:])]
    if fixture == "granite-moe" and part in ("expert_gate", "expert_up"):
        return np.split(t[base + "block_sparse_moe.input_linear.weight"], 2, axis=1)[part == "expert_up"]
    if fixture == "granite-moe" and part in ("router", "expert_down"):
        return t[base + "block_sparse_moe." + ("router.layer" if part == "router" else "output_linear") + ".weight"]
    if part == "choice":
        where = {"minimax-m2": "block_sparse_moe.", "ernie45-moe": "mlp.moe_statics."}.get(fixture, "mlp.gate.")
        return t[base + where + "e_score_correction_bias"].reshape(-1)
    if part.startswith("shared_") and fixture in ("glm4-moe", "ernie45-moe", "deepseek-v2", "deepseek-v3"):
        return t["%smlp.shared_experts.%s_proj.weight" % (base, part[7:])]
    if part.startswith("expert_"):
        pattern = "block_sparse_moe.experts.%d.w%d.weight" if fixture in ("mixtral", "minimax-m2") else "mlp.experts.%d.%s_proj.weight"
        which = {"gate": 1, "down": 2, "up": 3}[part[7:]] if fixture in ("mixtral", "minimax-m2") else part[7:]
        return np.stack([t[base + pattern % (e, which)] for e in range(c["n_experts"])])
    if fixture == "phi3" and part in ("wq", "wk", "wv"):
        return np.split(t[base + "self_attn.qkv_proj.weight"], [q, q + kv])["qkv".index(part[1])]
    if fixture in ("phi3", "glm4") and part in ("w_gate", "w_up"):
        return np.split(t[base + "mlp.gate_up_proj.weight"], [ff])[part == "w_up"]
    if part == "xielu":
        p, n, beta, eps = (float(t[base + "mlp.act_fn." + key].reshape(-1)[0]) for key in ("alpha_p", "alpha_n", "beta", "eps"))
        return np.array([math.log1p(math.exp(p)), beta + math.log1p(math.exp(n)), beta, eps], "<f4")
    if fixture.startswith("deepseek") and (part in LATENT or part == "wq"):
        a, rope = t[base + "self_attn." + LATENT.get(part, "q_proj.weight")], c["rotary_dim"]
        if part in ("w_uk", "w_uv"):
            k, v = np.split(a.reshape(c["heads"], -1, c["kv_lora"]), [c["nope_dim"]], axis=1)
            return k.swapaxes(1, 2) if part == "w_uk" else v
        if part in ("wq", "wq_b", "wk"):   # the rotated rows of a head first, as halves
            a = a.reshape(1 if part == "wk" else c["heads"], -1, a.shape[1])
            a = np.concatenate([a[:, -rope::2], a[:, 1 - rope::2], a[:, :-rope]], 1).reshape(-1, a.shape[2])
        return a
    names = dict(LLAMA)
    if fixture == "gpt-oss":
        names["router"] = "mlp.router"
    if fixture == "llama4":
        names.update(router="feed_forward.router", **{part: names[part].replace("mlp", "feed_forward") for part in ("w_gate", "w_up", "w_down")})
    if fixture == "apertus":
        names.update(attn_norm="attention_layernorm", ffn_norm="feedforward_layernorm")
    if fixture in ("mixtral", "minimax-m2"):
        names["router"] = "block_sparse_moe.gate"
    if fixture in ("gemma2", "gemma3", "olmo2", "olmo3", "exaone4"):
        names.update(attn_post_norm="post_attention_layernorm", ffn_post_norm="post_feedforward_layernorm",
                     ffn_norm="pre_feedforward_layernorm")
    if fixture == "hunyuan-dense":
        names.update(q_norm="self_attn.query_layernorm", k_norm="self_attn.key_layernorm")
    if fixture == "glm4":
        names.update(attn_post_norm="post_self_attn_layernorm", ffn_post_norm="post_mlp_layernorm")
    a = t["%s%s.%s" % (base, names[part], kind)]
    if fixture in PAIRED and part in ("wq", "wk"):
        return halves(a, d, c.get("rotary_dim"))
    return a + np.float32(1) if fixture.startswith(PLUS_ONE) and "norm" in part and kind == "weight" else a


def test_every_family_has_its_tensors_where_they_belong():
    for fixture in FAMILIES:
        with if_there():
            folder = need(MODELS, fixture)
            t = {k: to_f32(*v) for k, v in source_tensors(folder).items()}
            for layout in ("rows16", "rows"):
                m = converted(folder, "--layout", layout)
                for name in m.header:
                    if not name.startswith("pad."):
                        want, got = expected(fixture, m.config, t, name), stored(m, name)
                        assert want.shape == got.shape and np.array_equal(want, got), "%s %s %s" % (fixture, layout, name)


def test_every_value_of_the_source_is_somewhere():
    """No tensor of a folder is left behind: as many parameters come out as go in."""
    for fixture in FAMILIES:
        with if_there():
            folder = need(MODELS, fixture)
            m = converted(folder, "--layout", "rows")
            there = sum(int(np.prod(bits.shape)) for _, bits in source_tensors(folder).values())
            assert there == sum(int(np.prod(e["shape"])) for n, e in m.header.items() if not n.startswith("pad.")), fixture


def test_family_configs_say_what_their_folders_say():
    cases = {
        "cohere": dict(norm="layer", norm_placement="parallel", logit_scale=0.25, tied_embeddings=True, eos=[], bos=5),
        "gemma": dict(ffn="geglu", tied_embeddings=True, embed_scale=math.sqrt(48), head_dim=16, kv_heads=1),
        "gemma2": dict(norm_placement="both", attn_softcap=4, logit_softcap=6, attn_scale=1 / math.sqrt(24), window=8,
                       full_layers=[1, 3], tied_embeddings=True),
        "gemma3": dict(norm_placement="both", qk_norm="head", theta=1e6, theta_window=10000, window=8, full_layers=[2],
                       attn_scale=1 / math.sqrt(20)),
        "gpt-neox": dict(norm="layer", norm_bias=True, norm_placement="parallel2", ffn="gelu", rotary_dim=6, norm_eps=0.02,
                         qkv_bias=True, out_bias=True, ffn_bias=True),
        "gpt2": dict(positions="learned", ffn="gelu_tanh", d_ff=192, n_ctx=96, tied_embeddings=True, norm_eps=0.003),
        "granite": dict(embed_scale=6, residual_scale=0.35, attn_scale=0.2, logit_scale=1 / 3),
        "granite-moe": dict(n_experts=4, experts_used=2, expert_d_ff=40, renormalize=True, embed_scale=6, residual_scale=0.35,
                            attn_scale=0.2, logit_scale=1 / 3, tied_embeddings=True),
        "gpt-oss": dict(n_experts=4, experts_used=2, expert_d_ff=40, renormalize=True, router_bias=True, expert_bias=True, attn_sinks=True,
                        gate_limit=2, gate_alpha=1.702, qkv_bias=True, out_bias=True, window=8, full_layers=[1, 3], head_dim=16),
        "minimax-m2": dict(n_experts=8, experts_used=3, expert_d_ff=40, router_score="sigmoid", choice_bias=True, renormalize=True,
                           qk_norm="vector", rotary_dim=8, theta=5e6),
        "glm4-moe": dict(n_experts=8, experts_used=2, expert_d_ff=32, shared_d_ff=32, router_score="sigmoid", choice_bias=True,
                         renormalize=True, renormalize_min=1e-20, expert_scale=1.5, dense_layers=[0], qk_norm="head", rotary_dim=8,
                         n_layers=3, qkv_bias=True, out_bias=False, mtp_layers=1),
        "deepseek-v3": dict(n_experts=8, experts_used=3, expert_d_ff=32, shared_d_ff=32, expert_groups=4, groups_used=2, expert_scale=2.5,
                            router_score="sigmoid", choice_bias=True, renormalize=True, renormalize_min=1e-20,
                            dense_layers=[0], kv_lora=16, q_lora=24, nope_dim=12, v_dim=10, rotary_dim=8, head_dim=24, kv_heads=1,
                            attn_scale=(0.1 * math.log(8) + 1) ** 2 / math.sqrt(20), bos=0, eos=[1]),
        "deepseek-v2": dict(n_experts=8, experts_used=3, expert_d_ff=8, shared_d_ff=16, expert_groups=4, groups_used=2, group_by_largest=True,
                            expert_scale=2, router_score=None, choice_bias=None, renormalize=None, dense_layers=[0], kv_lora=10, q_lora=None,
                            nope_dim=8, v_dim=10, rotary_dim=6, head_dim=16, kv_heads=1, norm_eps=0.01, latent_norm_eps=1e-6),
        "cohere2": dict(norm="layer", norm_placement="parallel", logit_scale=0.25, tied_embeddings=True, window=9, full_layers=[1],
                        no_rope_layers=[1], qk_norm=False, bos=5, eos=[7]),
        "ernie45-moe": dict(n_experts=6, experts_used=2, expert_d_ff=32, shared_d_ff=64, choice_bias=True, renormalize=True,
                            renormalize_min=1e-12, dense_layers=[0], tied_embeddings=True),
        "llama4": dict(n_experts=4, experts_used=1, expert_d_ff=40, shared_d_ff=40, d_ff=96, dense_layers=[0, 2], router_score="sigmoid",
                       expert_input_scaled=True, qk_norm="plain", qk_norm_after_rope=True, window=8, window_chunked=True,
                       full_layers=[3], no_rope_layers=[3], query_scale=0.1, query_scale_length=8, query_scale_unrotated=True),
        "olmoe": dict(n_experts=8, experts_used=3, expert_d_ff=40, qk_norm="vector", window=0, bos=-1, eos=[2]),
        "mixtral": dict(n_experts=4, experts_used=2, expert_d_ff=80, renormalize=True, theta=1e6, window=0),
        "olmo2": dict(norm_placement="output", qk_norm="vector", theta=500000, bos=-1, eos=[]),
        "phi3": dict(window=0, kv_heads=4, eos=[2]), "qwen2": dict(window=0, qkv_bias=True, out_bias=False, tied_embeddings=True),
        "qwen2-moe": dict(n_experts=4, experts_used=2, expert_d_ff=40, shared_d_ff=64, shared_router=True, qkv_bias=True),
        "qwen3": dict(qk_norm="head", head_dim=16), "qwen3-moe": dict(n_experts=4, renormalize=True, qk_norm="head"),
        "seed-oss": dict(qkv_bias=True, out_bias=False, ffn_bias=False, head_dim=16, theta=1e7),
        "glm4": dict(norm_placement="both", rotary_dim=8, qkv_bias=True, out_bias=False, eos=[2, 3], bos=-1),
        "ernie45": dict(tied_embeddings=True, theta=500000, qkv_bias=False), "helium": dict(theta=100000, norm_eps=1e-8, head_dim=12),
        "smollm3": dict(no_rope_layers=[3], theta=5e6, tied_embeddings=True),
        "olmo3": dict(norm_placement="output", qk_norm="vector", window=8, full_layers=[3], theta=500000, theta_window=500000),
        "exaone4": dict(norm_placement="output", qk_norm="head", window=8, full_layers=[3], no_rope_layers=[3]),
        "hunyuan-dense": dict(qk_norm="head", qk_norm_after_rope=True, rope={"type": "default"}, theta=10000 * 1000 ** (16 / 14)),
        "arcee": dict(ffn="relu2", norm="rms", norm_placement="pre"),
        "nemotron": dict(ffn="relu2", norm="layer", norm_bias=True, rotary_dim=6),
        "ministral3": dict(query_scale=0.1, query_scale_length=16, head_dim=16, rope={
            "type": "yarn", "factor": 8, "original_n_ctx": 16, "beta_fast": 0.5, "beta_slow": 0.05, "mscale": 1, "mscale_all_dim": 1,
            "truncate": True}),
        "ministral3-nested": dict(query_scale=0.2, query_scale_length=12, tied_embeddings=True, head_dim=20, kv_heads=1),
        "apertus": dict(ffn="xielu", qk_norm="head", theta=12e6),
        "lfm2": dict(state_layers=[0, 1, 3], conv_taps=3, d_ff=24, qk_norm="head", tied_embeddings=True, theta=1e6, bos=1, eos=[7]),
        "lfm2-odd": dict(state_layers=[0, 2], conv_taps=5, conv_bias=True, d_ff=28, qk_norm="head", qkv_bias=False, tied_embeddings=False,
                         theta=10000),
        "lfm2-moe": dict(state_layers=[0, 2], conv_taps=3, d_ff=24, n_experts=5, experts_used=2, expert_d_ff=12, dense_layers=[0],
                         router_score="sigmoid", choice_bias=True, renormalize=True, renormalize_min=None, renormalize_add=1e-6,
                         expert_scale=1.5, qk_norm="head", tied_embeddings=True, theta=1e6),
        "qwen3-next": dict(state_layers=[0, 1], conv_taps=4, delta_heads=4, delta_key_heads=2, delta_key_dim=4, delta_value_dim=4,
                           attn_gate=True, qk_norm="head", rotary_dim=2, n_experts=4, experts_used=2, expert_d_ff=8, shared_d_ff=8,
                           shared_router=True, renormalize=True, theta=1e7, qkv_bias=False),
        "qwen3-5": dict(state_layers=[0, 2], conv_taps=3, delta_heads=4, delta_key_heads=2, delta_key_dim=6, delta_value_dim=5,
                        attn_gate=True, qk_norm="head", rotary_dim=6, tied_embeddings=True, qkv_bias=True, out_bias=True, theta=10000),
        "stablelm": dict(norm="layer", norm_bias=True, rotary_dim=6, qkv_bias=True, out_bias=False, norm_placement="pre"),
    }
    for name, values in cases.items():
        with if_there():
            m = converted(need(MODELS, name))
            expect_config(m, **values)
            for key in ("renormalize", "n_experts", "rotary_dim", "window", "mtp_layers"):   # sparse keys that must be absent
                assert key in values or key == "window" or key not in m.config, (name, key)


def same_weights(a, b):
    return a.data[a.start:] == b.data[b.start:]


def test_experts_may_be_one_by_one_or_fused():
    for fixture, base, gate, up, down in (("mixtral", "block_sparse_moe.experts", "w1", "w3", "w2"),
                                          ("qwen3-moe", "mlp.experts", "gate_proj", "up_proj", "down_proj")):
        def fuse(t):
            for n in range(2):
                take = lambda e, w: t.pop("model.layers.%d.%s.%d.%s.weight" % (n, base, e, w))  # noqa: E731
                all_ = [[take(e, w) for w in (gate, up, down)] for e in range(4)]
                dtype = all_[0][0][0]
                t["model.layers.%d.mlp.experts.gate_up_proj" % n] = (dtype, np.stack([np.concatenate([g[1], u[1]]) for g, u, _ in all_]))
                t["model.layers.%d.mlp.experts.down_proj" % n] = (dtype, np.stack([x[1] for _, _, x in all_]))
        with if_there():
            one, fused = converted(need(MODELS, fixture), out="a.bin"), converted(edited(fixture, tensors=fuse), out="b.bin")
            assert same_weights(one, fused) and one.config == fused.config

            def fewer(t):
                fuse(t)
                t["model.layers.0.mlp.experts.down_proj"] = (t["model.layers.0.mlp.experts.down_proj"][0],
                                                             t["model.layers.0.mlp.experts.down_proj"][1][:3])
            refused(edited(fixture, tensors=fewer), "experts.down_proj", "n_experts 4", "fits 3")
            refused(edited(fixture, tensors=lambda t: t.pop("model.layers.1.%s.3.%s.weight" % (base, up))), ".3.%s" % up, "no such tensor")
            refused(edited(fixture, config={"num_local_experts": 3}), "gate.weight", "[3, 48]", "[4, 48]")


def test_dense_layers_among_experts():
    def dense(t):
        for n in (0,):
            for name in [k for k in t if k.startswith("model.layers.%d.mlp." % n)]:
                del t[name]
            for name, shape in (("gate_proj", (96, 48)), ("up_proj", (96, 48)), ("down_proj", (48, 96))):
                t["model.layers.%d.mlp.%s.weight" % (n, name)] = ("BF16", np.full(shape, 0x3F80, "<u2"))
    for config in ({"mlp_only_layers": [0]}, {"decoder_sparse_step": 2}):
        m = converted(edited("qwen3-moe", config=config, tensors=dense))
        expect_config(m, dense_layers=[0], n_experts=4)
        assert "layers.0.w_gate" in m.header and "layers.1.expert_up" in m.header and "layers.0.router" not in m.header
    refused(edited("qwen3-moe", config={"mlp_only_layers": [0]}), "mlp.gate_proj.weight", "no such tensor")


def test_granite_moe_with_a_shared_network_and_olmoe_with_a_limit():
    def shared(t):
        for n in range(2):
            t["model.layers.%d.shared_mlp.input_linear.weight" % n] = ("BF16", (0x3C00 + np.arange(48 * 48, dtype="<u2") % 500).reshape(48, 48))
            t["model.layers.%d.shared_mlp.output_linear.weight" % n] = ("BF16", (0x3C00 + np.arange(48 * 24, dtype="<u2") % 500).reshape(48, 24))

    def renamed(t):   # as transformers 5 calls them
        for n in range(2):
            for old, new in (("input_linear.weight", "experts.gate_up_proj"), ("output_linear.weight", "experts.down_proj"),
                             ("router.layer.weight", "router.weight")):
                t["model.layers.%d.block_sparse_moe.%s" % (n, new)] = t.pop("model.layers.%d.block_sparse_moe.%s" % (n, old))
    with if_there():
        c = {"model_type": "granitemoeshared", "architectures": ["GraniteMoeSharedForCausalLM"]}
        m = converted(edited("granite-moe", config=dict(c, shared_intermediate_size=24), tensors=shared), "--layout", "rows")
        expect_config(m, shared_d_ff=24, n_experts=4, renormalize=True)
        both = to_f32("BF16", (0x3C00 + np.arange(48 * 48, dtype="<u2") % 500).reshape(48, 48))
        assert np.array_equal(stored(m, "layers.1.shared_gate"), both[:24]) and np.array_equal(stored(m, "layers.1.shared_up"), both[24:])
        expect_config(converted(edited("granite-moe", config=c), out="a.bin"), n_experts=4)
        refused(edited("granite-moe", config=dict(c, shared_intermediate_size=-1)), "shared_intermediate_size")
        one, other = converted(need(MODELS, "granite-moe"), out="a.bin"), converted(edited("granite-moe", tensors=renamed), out="b.bin")
        assert same_weights(one, other) and one.config == other.config
    with if_there():
        expect_config(converted(edited("olmoe", config={"clip_qkv": 1.5})), qkv_clip=1.5)
        refused(edited("olmoe", config={"clip_qkv": 0}), "clip_qkv")


def test_keys_of_llama4():
    with if_there():
        config = json.load(open(os.path.join(need(MODELS, "llama4"), "config.json")))
        expect_config(converted(edited("llama4", config={"use_qk_norm": False})), qk_norm=False, qk_norm_after_rope=None)
        expect_config(converted(edited("llama4", config={"attn_temperature_tuning": False})), query_scale=None, query_scale_length=None,
                      query_scale_unrotated=None)
        expect_config(converted(edited("llama4", drop=["moe_layers"])), dense_layers=[0, 2])
        expect_config(converted(edited("llama4", config={"no_rope_layers": []})), no_rope_layers=[3], full_layers=[3])
        expect_config(converted(edited("llama4", drop=["no_rope_layers"], config={"no_rope_layer_interval": 2})), no_rope_layers=[1, 3])
        expect_config(converted(edited("llama4", drop=["attention_chunk_size"])), window=8192)
        expect_config(converted(edited("llama4", config={"layer_types": ["chunked_attention"] * 3 + ["full_attention"]})), full_layers=[3])
        expect_config(converted(edited("llama4", config={"no_rope_layers": [0, 0, 0, 0]})), window=0, window_chunked=None)
        refused(edited("llama4", config={"layer_types": ["sliding_attention"] * 4}), "layer_types[0]", "chunked_attention")
        refused(edited("llama4", config={"attention_chunk_size": None}), "attention_chunk_size")
        refused(edited("llama4", config={"moe_layers": 3}), "moe_layers", "an array of layers")
        refused(edited("llama4", config={"moe_layers": [0, 1, 3]}), "feed_forward")
        whole = {"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"], "text_config": config, "vision_config": {}}

        def renamed(t):
            for name in list(t):
                t["language_model." + name] = t.pop(name)
        one = converted(need(MODELS, "llama4"), out="a.bin")
        other = converted(edited("llama4", config=whole, drop=set(config) - set(whole), tensors=renamed), out="b.bin")
        assert same_weights(one, other) and one.config == other.config


def test_routing_keys_of_minimax_glm_and_ernie():
    with if_there():
        expect_config(converted(edited("minimax-m2", drop=["rotary_dim"])), rotary_dim=None)
        expect_config(converted(edited("minimax-m2", config={"partial_rotary_factor": 0.25})), rotary_dim=4)
        for key, value in (("scoring_func", "softmax"), ("use_qk_norm", False), ("use_routing_bias", False), ("shared_intermediate_size", 8)):
            refused(edited("minimax-m2", config={key: value}), key, "found")
    with if_there():
        expect_config(converted(edited("glm4-moe", config={"n_group": 4, "topk_group": 2})), expert_groups=4, groups_used=2)
        expect_config(converted(edited("glm4-moe", config={"n_group": 4, "topk_group": 4})), expert_groups=None)
        expect_config(converted(edited("glm4-moe", config={"norm_topk_prob": False})), renormalize=None, renormalize_min=None)
        refused(edited("glm4-moe", config={"n_group": 3}), "expert_groups", "found 3")
        refused(edited("glm4-moe", config={"num_nextn_predict_layers": 0}), "model.layers.3.", "the config has 3 layers")
        # without one of its own tensors, or as one of several, the layer behind the last is left out
        for name in ("enorm", "hnorm", "eh_proj", "shared_head.norm"):
            expect_config(converted(edited("glm4-moe", tensors=lambda t, n=name: t.pop("model.layers.3.%s.weight" % n))), mtp_layers=None)
        expect_config(converted(edited("glm4-moe", config={"num_nextn_predict_layers": 2})), mtp_layers=None)
        copies = lambda t: t.update({"model.layers.3.embed_tokens.weight": t["model.embed_tokens.weight"],  # noqa: E731
                                     "model.layers.3.shared_head.head.weight": t["lm_head.weight"]})
        expect_config(converted(edited("glm4-moe", tensors=copies)), mtp_layers=1)
        refused(edited("glm4-moe", tensors=lambda t: t.pop("model.layers.3.mlp.gate.weight")), "model.layers.3.mlp.gate.weight")
        refused(edited("glm4-moe", config={"topk_method": "greedy"}), "topk_method")
        refused(edited("glm4-moe", config={"use_qk_norm": False}), "_norm.weight")
    with if_there():
        expect_config(converted(edited("deepseek-v3", config={"rope_scaling": None})), attn_scale=None, kv_lora=16)
        refused(edited("deepseek-v3", config={"num_key_value_heads": 2}), "num_key_value_heads", "4, found 2")
        refused(edited("deepseek-v3", config={"v_head_dim": 11}), "kv_b_proj", "[92, 16]", "[88, 16]")
        refused(edited("deepseek-v3", config={"q_lora_rank": None}), "q_proj")
        refused(edited("deepseek-v3", config={"moe_layer_freq": 2}), "moe_layer_freq")
        expect_config(converted(edited("deepseek-v3", config={"rms_norm_eps": 1e-5})), norm_eps=1e-5, latent_norm_eps=1e-6)
        first = converted(need(MODELS, "deepseek-v3"))
        expect_config(first, latent_norm_eps=None)
        assert same_weights(first, converted(edited("deepseek-v3", config={"model_type": "kimi_k2"}), out="other.bin"))


def test_deepseek_v2_and_glm_lite():
    with if_there():
        greedy = converted(edited("deepseek-v2", config={"topk_method": "greedy"}))
        expect_config(greedy, expert_groups=None, groups_used=None, group_by_largest=None)
        expect_config(converted(edited("deepseek-v2", drop=["topk_method"], config={"n_group": None, "topk_group": None})), expert_groups=None)
        for key, value, *words in (("topk_method", "noaux_tc", "'group_limited_greedy'", "'noaux_tc'"), ("scoring_func", "sigmoid", '"softmax"'),
                                   ("norm_topk_prob", True, "false"), ("num_experts_per_tok", 0, "0"), ("topk_method", 1, "'greedy'")):
            refused(edited("deepseek-v2", config={key: value}), key, *words)
        refused(edited("deepseek-v2", drop=["num_experts_per_tok"]), "experts_used")
    with if_there():
        lite = {"model_type": "glm4_moe_lite", "architectures": ["Glm4MoeLiteForCausalLM"], "n_group": 1, "topk_group": 1, "rms_norm_eps": 1e-5}
        m = converted(edited("deepseek-v3", config=lite))
        expect_config(m, family="glm4_moe_lite", expert_groups=None, router_score="sigmoid", choice_bias=True, dense_layers=[0],
                      latent_norm_eps=1e-6)
        named = dict(lite, mlp_layer_types=["dense", "sparse", "sparse"])
        expect_config(converted(edited("deepseek-v3", config=named)), dense_layers=[0])
        refused(edited("deepseek-v3", config=dict(lite, mlp_layer_types=["dense"])), "mlp_layer_types", "3 entries, found 1")
        refused(edited("deepseek-v3", config=dict(lite, mlp_layer_types=["dense", "moe", "sparse"])), "mlp_layer_types[1]", "'sparse'", "'moe'")
        refused(edited("deepseek-v3", config=dict(lite, mlp_layer_types="x")), "mlp_layer_types")
        refused(edited("deepseek-v3", config=dict(lite, first_k_dense_replace=2)), "first_k_dense_replace")


def test_cohere2_rotates_where_there_is_a_window():
    with if_there():
        expect_config(converted(edited("cohere2", drop=["sliding_window_pattern", "sliding_window"])), window=4096, full_layers=None, no_rope_layers=None)
        some = {"layer_types": ["full_attention", "sliding_attention", "full_attention"]}
        expect_config(converted(edited("cohere2", config=some)), window=9, full_layers=[0, 2], no_rope_layers=[0, 2])
        refused(edited("cohere2", config={"sliding_window": None}), "sliding_window", "null")
        refused(edited("cohere2", config={"position_embedding_type": "rope"}), "position_embedding_type")
        refused(edited("cohere2", config={"use_qk_norm": True}), "use_qk_norm")
    with if_there():
        expect_config(converted(edited("gpt-oss", drop=["layer_types", "swiglu_limit", "sliding_window"])), full_layers=[1, 3], gate_limit=7, window=128)
        expect_config(converted(edited("gpt-oss", config={"swiglu_alpha": 1.5})), gate_alpha=1.5)
        refused(edited("gpt-oss", drop=["rope_scaling"]), "rope_scaling", "found none")
        refused(edited("gpt-oss", config={"experts_per_token": 3}), "experts_per_token")
        refused(edited("gpt-oss", config={"swiglu_limit": 0}), "swiglu_limit")
        refused(edited("gpt-oss", config={"attention_bias": False}), "k_proj.bias")
    with if_there():
        refused(edited("ernie45-moe", config={"use_bias": True}), "use_bias", "expected false")
        refused(edited("ernie45-moe", config={"moe_layer_end_index": 1}), "model.layers.2.mlp.")
        refused(edited("ernie45-moe", config={"moe_layer_interval": 2}), "model.layers.2.mlp.")
        expect_config(converted(edited("ernie45-moe", config={"moe_layer_end_index": -1, "moe_norm_min": 0.5})), dense_layers=[0], renormalize_min=0.5)
        mtp = lambda t: t.update({"model.mtp_block.0.input_layernorm.weight": t["model.norm.weight"]})  # noqa: E731
        converted(edited("ernie45-moe", config={"num_nextn_predict_layers": 1}, tensors=mtp))


def test_convolutions_of_lfm2():
    with if_there():
        same = converted(edited("lfm2", config={"layer_types": ["conv", "conv", "full_attention", "conv"]}, drop=["full_attn_idxs"]))
        expect_config(same, state_layers=[0, 1, 3], conv_taps=3)
        expect_config(converted(edited("lfm2", config={"intermediate_size": 36, "tie_word_embeddings": True})), d_ff=24)
        expect_config(converted(edited("lfm2", config={"block_ff_dim": 24, "block_auto_adjust_ff_dim": False})), d_ff=24)
        expect_config(converted(edited("lfm2", config={"block_ff_dim": 18, "block_ffn_dim_multiplier": 1.5})), d_ff=24)
        expect_config(converted(edited("lfm2", config={"block_dim": 7, "conv_dim": 9, "theta": 3})), d_model=24, theta=1e6)
        refused(edited("lfm2", drop=["full_attn_idxs"]), "model.layers.0.self_attn.q_proj.weight", "no such tensor")
        refused(edited("lfm2", config={"full_attn_idxs": [2, 3]}), "model.layers.3.self_attn.q_proj.weight")
        refused(edited("lfm2", config={"layer_types": ["conv"] * 3}), "layer_types", "expected 4 entries, found 3")
        refused(edited("lfm2", config={"layer_types": ["conv", "mamba"] * 2}), "layer_types[1]", "'conv' or 'full_attention'", "mamba")
        refused(edited("lfm2", config={"conv_L_cache": 4}), "conv.conv.weight", "[96]", "[24, 1, 3]")
        refused(edited("lfm2", config={"conv_L_cache": 1}), "conv_taps", "expected 2 to 64", "found 1")
        refused(edited("lfm2", config={"conv_bias": True}), "conv.in_proj.bias", "the config asks for this bias")
        refused(edited("lfm2-odd", config={"conv_bias": False}), ".bias", "no bias here")
        refused(edited("lfm2", config={"tie_word_embeddings": False}), "tie_embedding")
        refused(edited("lfm2", config={"block_use_swiglu": False}), "block_use_swiglu", "expected true")
        refused(edited("lfm2", config={"block_multiple_of": 0}), "block_multiple_of")
        refused(edited("lfm2", config={"block_ffn_dim_multiplier": 1e9}), "intermediate_size", "expected a width")
    with if_there():
        expect_config(converted(edited("lfm2-moe", config={"norm_topk_prob": False})), renormalize=None, renormalize_add=None)
        refused(edited("lfm2-moe", drop=["layer_types"]), "layer_types", "expected 3 entries, found none")
        refused(edited("lfm2-moe", config={"use_expert_bias": False}), "expert_bias")
        refused(edited("lfm2-moe", config={"full_attn_idxs": [1]}), "full_attn_idxs", "unknown")
        refused(edited("lfm2-moe", config={"num_dense_layers": 2}), "layers.1.feed_forward.w1.weight")
    with if_there():   # no convolution at all: a model of attention
        def plain(t):
            for name in [n for n in t if ".0." in n or ".2." in n]:
                if ".conv." in name:
                    del t[name]
            for layer in (0, 2):
                for part in ("q_proj", "k_proj", "v_proj", "out_proj", "q_layernorm", "k_layernorm"):
                    name = "self_attn.%s.weight" % part
                    t["model.layers.%d.%s" % (layer, name)] = t["model.layers.1." + name]
        expect_config(converted(edited("lfm2-odd", config={"layer_types": ["full_attention"] * 3}, tensors=plain)),
                      state_layers=None, conv_taps=None, conv_bias=None)


def test_phi_has_a_bias_of_its_head():
    with if_there():
        model = converted(need(MODELS, "phi"))
        expect_config(model, head_bias=True, norm="layer", norm_bias=True, norm_placement="parallel", ffn="gelu_tanh", rotary_dim=4, qkv_bias=True,
                      out_bias=True, ffn_bias=True, tied_embeddings=False, bos=1, eos=[7])
        kept = source_tensors(need(MODELS, "phi"))["lm_head.bias"]
        assert (stored(model, "lm_head_bias") == to_f32(*kept)).all()
        refused(edited("phi", tensors=lambda t: t.pop("lm_head.bias")), "tensor lm_head.bias", "the config asks for this bias")
        refused(edited("phi", config={"tie_word_embeddings": True}, tensors=lambda t: t.pop("lm_head.weight")), "lm_head.bias", "no bias here")
        refused(edited("phi", config={"qk_layernorm": True}), "qk_layernorm", "expected false")
        refused(edited("phi", config={"hidden_act": "silu"}), "hidden_act", "gelu_new", "'silu'")


def test_the_delta_rule_of_qwen3_next():
    with if_there():
        types = ["linear_attention", "linear_attention", "full_attention"]
        whole = converted(need(MODELS, "qwen3-next"), out="a.bin")
        named = converted(edited("qwen3-next", config={"layer_types": types}, drop=["full_attention_interval"]), out="b.bin")
        assert whole.config == named.config and same_weights(whole, named)
        refused(edited("qwen3-next", drop=["full_attention_interval"]), "model.layers.2.linear_attn.in_proj_qkvz.weight", "no such tensor")
        refused(edited("qwen3-next", config={"full_attention_interval": 0}), "full_attention_interval")
        refused(edited("qwen3-next", config={"layer_types": types[:2]}), "layer_types", "expected 3 entries, found 2")
        refused(edited("qwen3-next", config={"layer_types": ["conv", *types[1:]]}), "layer_types[0]", "'linear_attention' or 'full_attention'", "conv")
        refused(edited("qwen3-next", config={"linear_num_value_heads": 3}), "delta_key_heads", "a divisor of delta_heads 3", "found 2")
        refused(edited("qwen3-next", config={"linear_key_head_dim": 5}), "in_proj_qkvz.weight", "[52, 16]", "[48, 16]")
        refused(edited("qwen3-next", config={"linear_conv_kernel_dim": 3}), "conv1d.weight", "[96]", "[32, 1, 4]")
        refused(edited("qwen3-next", config={"linear_conv_kernel_dim": 1}), "conv_taps", "expected 2 to 64", "found 1")
        refused(edited("qwen3-next", config={"attn_output_gate": False}), "attn_output_gate", "expected true")
        refused(edited("qwen3-next", config={"num_attention_heads": 4}), "self_attn.q_proj.weight", "[64, 16]", "[32, 16]")
        refused(edited("qwen3-next", tensors=lambda t: t.pop("model.layers.0.linear_attn.A_log")), "A_log", "no such tensor")
        further = lambda t: t.update({"mtp.fc.weight": t["model.norm.weight"]})  # noqa: E731
        assert same_weights(converted(edited("qwen3-next", tensors=further), out="b.bin"), whole)
    with if_there():   # no state at all
        def plain(t):
            for name in [n for n in t if "linear_attn" in n]:
                del t[name]
            for name in [n for n in t if ".1.self_attn." in n]:
                t[name.replace(".1.", ".0.")] = t[name.replace(".1.", ".2.")] = t[name]
        expect_config(converted(edited("qwen3-5", config={"layer_types": ["full_attention"] * 3}, tensors=plain)),
                      state_layers=None, conv_taps=None, delta_heads=None, delta_key_heads=None, delta_key_dim=None,
                      delta_value_dim=None, attn_gate=True)
    with if_there():   # the text part of a model that sees
        inside = json.load(open(os.path.join(need(MODELS, "qwen3-5"), "config.json")))
        whole = {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": inside,
                 "vision_config": {"depth": 1}, "image_token_id": 3, "tie_word_embeddings": True}

        def nested(t):
            for name in list(t):
                t[name.replace("model.", "model.language_model.", 1)] = t.pop(name)
            t["model.visual.patch_embed.proj.weight"] = t["model.language_model.norm.weight"]
        text = {k: v for k, v in inside.items() if k != "architectures"}
        a = converted(need(MODELS, "qwen3-5"), out="a.bin")
        b = converted(edited("qwen3-5", config={**whole, "text_config": text}, drop=[k for k in inside if k not in whole], tensors=nested), out="b.bin")
        assert same_weights(a, b) and a.config == b.config


def test_mxfp4_experts_keep_their_bits():
    def scales(value):
        def change(t):
            kind, bits = t["model.layers.1.mlp.experts.down_proj_scales"]
            t["model.layers.1.mlp.experts.down_proj_scales"] = (kind, np.full_like(bits, value))
        return change
    name = "model.layers.1.mlp.experts."
    with if_there():
        for change in (None, scales(100), scales(130)):
            folder = edited("gpt-oss-mxfp4", tensors=change)
            t, m, kept = source_tensors(folder), converted(folder, "--layout", "rows", "--type", "bf16"), converted(folder)
            for part in ("gate", "up", "down"):
                assert kept.meta["type.layers.1.expert_" + part] == "mxfp4"
                from_folder = t[name + ("down_proj" if part == "down" else "gate_up_proj") + "_scales"][1]
                rows = from_folder if part == "down" else from_folder[:, part == "up"::2]
                panels = -(-rows.shape[1] // 16)
                filled = np.zeros((rows.shape[0], panels * 16, rows.shape[2]), np.uint8)
                filled[:, :rows.shape[1]] = rows
                assert np.array_equal(kept.bits("layers.1.expert_%s.d" % part), filled.reshape(-1, 16, rows.shape[2]).swapaxes(1, 2))
            both, down = harness.mxfp4(t, name + "gate_up_proj"), harness.mxfp4(t, name + "down_proj")
            assert np.array_equal(stored(m, "layers.1.expert_gate"), both[:, ::2]) and np.array_equal(stored(m, "layers.1.expert_up"), both[:, 1::2])
            assert np.array_equal(stored(m, "layers.1.expert_down"), down) and m.header["layers.1.expert_down"]["dtype"] == "BF16"
        converted(edited("gpt-oss-mxfp4", tensors=scales(254)), out="largest.bin")   # 6 * 2^(254 - 127) is infinite
        done = harness.tblock("info", harness.temp("largest.bin"), "--check")
        assert done.returncode == 1 and "layers.1.expert_down: element [" in done.stdout and "infinite" in done.stdout, done
        for lost in ("_scales", "_blocks"):
            refused(edited("gpt-oss-mxfp4", tensors=lambda t: t.pop(name + "gate_up_proj" + lost)), "gate_up_proj", "no such tensor")
        shorter = lambda t: t.update({name + "down_proj_scales": ("U8", t[name + "down_proj_scales"][1][:, :, :2])})  # noqa: E731
        refused(edited("gpt-oss-mxfp4", tensors=shorter), "down_proj_scales", "[4, 64, 3]", "[4, 64, 2]")
        wider = lambda t: t.update({n: (kind, np.resize(bits, (4, 224) + bits.shape[2:])) for n, (kind, bits) in t.items() if "gate_up" in n})  # noqa: E731
        refused(edited("gpt-oss-mxfp4", config={"intermediate_size": 112}, tensors=wider), "down_proj_blocks", "whole blocks of 32", "112")
        other = lambda t: t.update({name + "down_proj_blocks": ("I8", t[name + "down_proj_blocks"][1].view("<i1"))})  # noqa: E731
        refused(edited("gpt-oss-mxfp4", tensors=other), "down_proj_blocks", "expected U8", "I8")
        refused(edited("gpt-oss-mxfp4", config={"quantization_config": {"quant_method": "fp8"}}), "quantization_config", "fp8")
    with if_there():
        refused(edited("olmoe", config={"quantization_config": {"quant_method": "mxfp4"}}), "quantization_config", "mxfp4")


def test_gpt2_with_and_without_its_prefix_and_buffers():
    def bare(t):
        for name in list(t):
            t[name[len("transformer."):]] = t.pop(name)

    def old(t):
        for n in range(3):
            t["transformer.h.%d.attn.bias" % n] = ("BF16", np.zeros((1, 1, 96, 96), "<u2"))
            t["transformer.h.%d.attn.masked_bias" % n] = ("F32", np.zeros((), "<u4"))
        t["lm_head.weight"] = t["transformer.wte.weight"]
    m = converted(need(MODELS, "gpt2"), out="a.bin")
    assert same_weights(m, converted(edited("gpt2", tensors=bare), out="b.bin"))
    assert same_weights(m, converted(edited("gpt2", tensors=old), out="b.bin"))
    for config, *expected in (({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
                              ({"add_cross_attention": True}, "add_cross_attention"), ({"activation_function": "silu"}, "gelu_new", "'silu'")):
        refused(edited("gpt2", config=config), "config.json", *expected)
    expect_config(converted(edited("gpt2", config={"scale_attn_weights": False, "reorder_and_upcast_attn": True})), attn_scale=1)


def test_gpt_neox_serial_and_buffers():
    def old(t):
        t["gpt_neox.layers.0.attention.bias"] = ("BF16", np.zeros((1, 1, 8, 8), "<u2"))
        t["gpt_neox.layers.0.attention.masked_bias"] = ("F32", np.zeros((), "<u4"))
        t["gpt_neox.layers.0.attention.rotary_emb.inv_freq"] = ("F32", (10000.0 ** (-np.arange(0, 6, 2) / 6)).astype("<f4").view("<u4"))
        t["lm_head.weight"] = t.pop("embed_out.weight")
    m = converted(need(MODELS, "gpt-neox"), out="a.bin")
    serial = converted(edited("gpt-neox", config={"use_parallel_residual": False}, tensors=old), out="b.bin")
    assert same_weights(m, serial) and serial.config["norm_placement"] == "pre"
    expect_config(converted(edited("gpt-neox", drop=["rotary_emb_base"], config={"rotary_pct": 1})), theta=10000)
    refused(edited("gpt-neox", drop=["rotary_pct"]), "partial_rotary_factor", "head_dim 12", "0.25")   # 3 dimensions
    refused(edited("gpt-neox", config={"hidden_act": "silu"}), "hidden_act", "'silu'")


def test_windows_of_each_family():
    def layers(fixture, **config):
        m = converted(edited(fixture, config=config))
        return m.config["window"], m.config.get("full_layers", [])
    assert layers("qwen2", use_sliding_window=True) == (8, [0, 1])
    assert layers("qwen2", use_sliding_window=True, max_window_layers=0) == (8, [])
    assert layers("qwen2", use_sliding_window=True, max_window_layers=3) == (0, [])
    assert layers("qwen2", use_sliding_window=True, layer_types=["sliding_attention"] * 2 + ["full_attention"]) == (8, [2])
    assert layers("gemma2", layer_types=None) == (8, [1, 3])
    assert layers("gemma2", layer_types=None, sliding_window=None) == (0, [])
    assert layers("gemma3", layer_types=None) == (8, [])
    assert layers("gemma3", layer_types=None, _sliding_window_pattern=2) == (8, [1])
    assert layers("gemma3", layer_types=["full_attention"] * 3) == (0, [])
    with if_there():
        assert layers("mixtral", sliding_window=9) == (9, [])
    assert layers("phi3", sliding_window=9) == (9, [])
    refused(edited("qwen3-moe", config={"use_sliding_window": True, "sliding_window": 8}), "layer_types", "use_sliding_window")
    refused(edited("qwen2", config={"layer_types": ["sliding_attention"] * 3}), "layer_types[0]", "no sliding_window")
    refused(edited("gemma2", config={"layer_types": ["full_attention"] * 3 + ["chunked_attention"]}), "layer_types[3]", "chunked")


def test_gemma3_in_both_dialects_and_inside_a_model_of_several_kinds_of_input():
    m = converted(need(MODELS, "gemma3"), out="a.bin")
    v4 = converted(edited("gemma3", drop=["rope_parameters"], config={"rope_theta": 1e6, "rope_local_base_freq": 1e4}), out="b.bin")
    assert v4.config == m.config and same_weights(v4, m)
    scaled = converted(edited("gemma3", drop=["rope_parameters"], config={"rope_scaling": {"rope_type": "linear", "factor": 8.0}}))
    expect_config(scaled, rope={"type": "linear", "factor": 8}, theta=1e6, theta_window=1e4)
    text = json.load(open(os.path.join(need(MODELS, "gemma3"), "config.json")))
    for base, head in (("language_model.model.", "language_model."), ("model.language_model.", "")):
        def wrap(t):
            for name in list(t):
                t[base + name[len("model."):]] = t.pop(name)
            t["vision_tower.encoder.weight" if head else "model.vision_tower.encoder.weight"] = ("F32", np.zeros(3, "<u4"))
            t["multi_modal_projector.w"] = ("F32", np.zeros(3, "<u4"))
        folder = edited("gemma3", tensors=wrap)
        outer = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": [1, 106],
                 "text_config": {k: v for k, v in text.items() if k != "architectures"}, "vision_config": {"hidden_size": 8}}
        json.dump(outer, open(os.path.join(folder, "config.json"), "w"))
        whole = converted(folder, out="b.bin")
        assert same_weights(whole, m) and dict(whole.config, eos=0) == dict(m.config, eos=0) and whole.config["eos"] == [1, 106]
    refused(edited("gemma3", config={"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2}}}),
            "sliding_attention", "'default'", "linear")


def test_layers_without_rotation():
    """SmolLM3 lists them, and with use_sliding_window they have the window; EXAONE 4 rotates only layers with a window."""
    smol, exaone = need(MODELS, "smollm3") and "smollm3", need(MODELS, "exaone4") and "exaone4"
    of = lambda fixture, drop=(), **config: converted(edited(fixture, drop=drop, config=config)).config  # noqa: E731
    assert of(smol, no_rope_layers=[1, 0, 1, 1, 0, 0, 0])["no_rope_layers"] == [1, 4]
    assert of(smol, ["no_rope_layers"], no_rope_layer_interval=2)["no_rope_layers"] == [1, 3]
    assert of(smol, no_rope_layers=None)["no_rope_layers"] == [3]
    assert "no_rope_layers" not in of(smol, no_rope_layers=[1] * 5)
    windows = of(smol, ["layer_types"], use_sliding_window=True, sliding_window=8)
    assert (windows["window"], windows["full_layers"], windows["no_rope_layers"]) == (8, [0, 1, 2, 4], [3])
    assert of(smol, use_sliding_window=True, sliding_window=8)["window"] == 0      # its layer_types name none
    refused(edited(smol, config={"no_rope_layers": [1, 1]}), "no_rope_layers", "5 entries", "found 2")
    refused(edited(smol, config={"no_rope_layers": [1, 1, 1, 2, 1]}), "no_rope_layers", "from 0 to 1")
    every = of(exaone, ["layer_types"], sliding_window_pattern=2)
    assert every["full_layers"] == every["no_rope_layers"] == [1, 3]
    none = of(exaone, sliding_window=None, layer_types=["full_attention"] * 4)
    assert none["window"] == 0 and "no_rope_layers" not in none
    all_full = of(exaone, layer_types=["full_attention"] * 4)
    assert all_full["window"] == 0 and all_full["no_rope_layers"] == [0, 1, 2, 3]
    # As transformers saves one without windows. Without layer_types it divides by this number.
    assert of(exaone, sliding_window=None, sliding_window_pattern=0, layer_types=["full_attention"] * 4) == none
    assert of(exaone, ["layer_types"], sliding_window=None, sliding_window_pattern=0) == none
    assert of(exaone, sliding_window_pattern=0) == of(exaone)
    refused(edited(exaone, drop=["layer_types"], config={"sliding_window_pattern": 0}), "sliding_window_pattern", "found 0")
    refused(edited(exaone, drop=["layer_types"]), "sliding_window_pattern", "found string")


def test_scaling_of_layers_without_a_window_only():
    """OLMo 3, in both dialects."""
    need(MODELS, "olmo3")
    v4 = converted(edited("olmo3"))
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192, "attention_factor": 1.2079441541679836,
            "rope_theta": 500000.0}
    nested = {"full_attention": yarn, "sliding_attention": {"rope_type": "default", "rope_theta": 500000.0}}
    v5 = converted(edited("olmo3", drop=["rope_theta", "rope_scaling"], config={"rope_parameters": nested}), out="b.bin")
    assert v4.config == v5.config and same_weights(v4, v5)
    other = dict(nested, sliding_attention={"rope_type": "default", "rope_theta": 1000.0})
    expect_config(converted(edited("olmo3", drop=["rope_theta", "rope_scaling"], config={"rope_parameters": other})),
                  theta=500000, theta_window=1000)
    plain = converted(edited("olmo3", drop=["rope_scaling"])).config
    assert plain["rope"] == {"type": "default"} and "theta_window" not in plain
    whole = converted(edited("olmo3", config={"sliding_window": None, "layer_types": None})).config
    assert whole["window"] == 0 and whole["rope"]["type"] == "yarn" and "theta_window" not in whole
    # transformers 5.23 gives layers with a window 500000 then, others the one that is there
    refused(edited("olmo3", config={"rope_theta": 777.0}), "rope_theta", "expected 500000", "found 777")
    refused(edited("olmo3", drop=["rope_scaling"], config={"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2}}}),
            "sliding_attention", "'default'", "linear")


def test_the_text_part_of_a_folder_with_images():
    """Mistral 3: text_config is a mistral, or a ministral3 if it says so; without tie_word_embeddings the head decides."""
    with if_there():
        plain, config = converted(need(MODELS, "mistral-window")), harness.config_of(need(MODELS, "mistral-window"))
        for base, head in (("language_model.model.", "language_model.lm_head.weight"), ("model.language_model.", "lm_head.weight")):
            def wrap(t):
                for name in list(t):
                    t[head if name == "lm_head.weight" else base + name[len("model."):]] = t.pop(name)
                t["vision_tower.x"] = t["multi_modal_projector.y"] = ("F32", np.zeros(3, "<u4"))
            folder = edited("mistral-window", tensors=wrap)
            text = {k: v for k, v in config.items() if k not in ("architectures", "model_type", "tie_word_embeddings")}
            outer = {"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"], "text_config": text,
                     "vision_config": {"model_type": "pixtral"}, "spatial_merge_size": 2}
            json.dump(outer, open(os.path.join(folder, "config.json"), "w"))
            whole = converted(folder, out="b.bin")
            assert same_weights(whole, plain) and whole.config == plain.config
        outer["text_config"] = dict(text, model_type="llama")
        json.dump(outer, open(os.path.join(folder, "config.json"), "w"))
        refused(folder, "text_config.model_type", "'mistral' or 'ministral3'", "'llama'")
    with if_there():
        need(MODELS, "ministral3-nested")
        assert converted(edited("ministral3-nested", drop=["tie_word_embeddings"])).config["tied_embeddings"]
        refused(edited("ministral3-nested", config={"tie_word_embeddings": False}), "lm_head.weight", "no such tensor")


def test_a_rotation_that_is_the_family_s_default():
    with if_there():
        need(MODELS, "apertus")
        expect_config(converted(edited("apertus", drop=["rope_scaling", "rope_theta"])), theta=12e6, rope={
            "type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_n_ctx": 8192})
        refused(edited("apertus", tensors=lambda t: t.pop("model.layers.1.mlp.act_fn.beta")), "layers.1.mlp.act_fn.beta", "no such tensor")
    need(MODELS, "ministral3")
    m = converted(edited("ministral3", drop=["rope_parameters"]))
    expect_config(m, theta=1e6, query_scale=0.1, query_scale_length=16384, rope={
        "type": "yarn", "factor": 16, "original_n_ctx": 16384, "beta_fast": 32, "beta_slow": 1, "mscale": 1, "mscale_all_dim": 1,
        "truncate": True})
    yarn = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16}
    refused(edited("ministral3", config={"rope_parameters": yarn}), "rope_parameters.llama_4_scaling_beta", "no such key")
    none = converted(edited("ministral3", config={"rope_parameters": dict(yarn, llama_4_scaling_beta=0)})).config
    assert "query_scale" not in none and "query_scale_length" not in none and none["theta"] == 10000


def wrapped(fixture, whole, config=None, prefix="language_model.", other="vision_tower.x", drop=(), nested=True):
    """The fixture's folder as the text part of a model with several kinds of input."""
    def rename(tensors):
        for name in list(tensors):
            to = name if not prefix else "model.language_model." + name[6:] if prefix == "model." and name.startswith("model.") else \
                name if prefix == "model." else prefix + name
            tensors[to] = tensors.pop(name)
        tensors[other] = ("F32", np.zeros(3, "<u4"))
    folder = edited(fixture, tensors=rename)
    path = os.path.join(folder, "config.json")
    text = {k: v for k, v in json.load(open(path)).items() if k not in ("architectures", "model_type", *drop)}
    text.update(config or {})
    json.dump(dict(whole, text_config=text) if nested else dict(text, **whole), open(path, "w"))
    return folder


def answers(folder):
    """The bytes of the logits of ids 1 to 9."""
    out = harness.temp("logits")
    done = harness.tblock("logits", folder, "--ids", "1,2,3,4,5,6,7,8,9", "-o", out, "--quiet")
    assert done.returncode == 0, done.stderr
    return harness.ModelFile(out).bits("logits").tobytes()


def test_text_parts_of_models_that_see():
    """The same logits as the bare text model: with equal positions, mrope turns each pair as usual."""
    llava = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "image_token_index": 3, "vision_config": {}}
    plain = answers(need(MODELS, "llama-gqa"))
    for whole, prefix in ((llava, "language_model."), (llava, "model."),
                          (dict(llava, model_type="llava_next", architectures=["LlavaNextForConditionalGeneration"]), "language_model.")):
        assert answers(wrapped("llama-gqa", whole, {"model_type": "llama"}, prefix, "image_newline")) == plain, prefix
    assert answers(wrapped("llama-gqa", dict(llava, tie_word_embeddings=False))) == plain  # llama when absent
    tied = wrapped("llama-tied", dict(llava, tie_word_embeddings=False), {"tie_word_embeddings": True})
    assert answers(tied) == answers(need(MODELS, "llama-tied"))
    qwen2 = answers(need(MODELS, "qwen2"))
    dims = json.load(open(os.path.join(MODELS, "qwen2", "config.json")))
    half = dims["hidden_size"] // dims["num_attention_heads"] // 2
    for kind, name in (("qwen2_vl", "Qwen2VL"), ("qwen2_5_vl", "Qwen2_5_VL")):
        whole = {"model_type": kind, "architectures": [name + "ForConditionalGeneration"], "vision_config": {"depth": 2}, "image_token_id": 5,
                 "vision_start_token_id": 6, "vision_end_token_id": 7, "vision_token_id": 8, "video_token_id": 9}
        for rope in ({"type": "mrope", "mrope_section": [half - 2, 1, 1]}, {"rope_type": "default", "mrope_section": [half - 2, 1, 1]}):
            text = {"rope_scaling": rope}
            assert answers(wrapped("qwen2", whole, text, None, "visual.x", nested=False)) == qwen2
            assert answers(wrapped("qwen2", whole, dict(text, model_type=kind + "_text"), "model.", "model.visual.x")) == qwen2
        refused(wrapped("qwen2", whole, {"rope_scaling": {"type": "mrope", "mrope_section": [half, 1, 1]}}, None, nested=False),
                "mrope_section", str(half))
        refused(wrapped("qwen2", dict(whole, some_key=1), None, None, nested=False), "'some_key'", "unknown")
    refused(wrapped("qwen2", dict(llava), {"model_type": "gemma"}), "text_config.model_type", "'llama'", "'gemma'")


def test_a_theta_for_each_layer():
    """granite_swa: windows in all but the first of four layers; at most one theta with a window and one without."""
    plain = {"model_type": "granite_swa", "hidden_size": 48, "num_hidden_layers": 5, "num_attention_heads": 4, "intermediate_size": 96,
             "vocab_size": 300, "sliding_window": 8}

    def read(**config):
        path = harness.temp("config.json")
        with open(path, "w") as f:
            json.dump(dict(plain, **config), f)
        return harness.tblock("info", path, "--json")
    for thetas, more in ((None, {}), ([5, 3, 3, 0, 5], {}), ([0, 3, 0, 3, 0], {}), ([7] * 5, {"rope_scaling": {"type": "linear", "factor": 2}})):
        done = read(layer_rope_theta=thetas, **more)
        assert done.returncode == 0, done.stderr
    for thetas, more, words in (([5, 3, 4, 0, 5], {}, ("with a window", "3", "4")), ([5, 3, 3, 3, 6], {}, ("without a window", "5", "6")),
                                ([1] * 4, {}, ("5 numbers", "4")), (["x"] * 5, {}, ("a number",)), (3, {}, ("5 numbers",)),
                                ([5, 3, 3, 3, 5], {"rope_scaling": {"type": "linear", "factor": 2}}, ("one theta with a scaling",))):
        done = read(layer_rope_theta=thetas, **more)
        assert done.returncode == 3 and "layer_rope_theta" in done.stderr and all(w in done.stderr for w in words), done
    done = read(model_type="granite", layer_rope_theta=[1] * 5, sliding_window=None)
    assert done.returncode == 3 and "layer_rope_theta" in done.stderr, done


def test_what_each_family_refuses():
    def case(fixture, config, *expected):
        with if_there():
            refused(edited(fixture, config=config), *expected)
    for word in ("longrope", "su", "yarn"):
        case("phi3", {"rope_scaling": {"type": word, "short_factor": [1], "long_factor": [1]}}, "short_factor", "6 numbers", "found 1")
    both = {"type": "longrope", "short_factor": [1] * 6, "long_factor": [1] * 6}
    case("phi3", {"rope_scaling": {k: v for k, v in both.items() if k != "long_factor"}}, "long_factor", "6 numbers", "found 0")
    case("phi3", {"rope_scaling": dict(both, long_factor=[1] * 5 + [0])}, "long_factor", "1e-6 to 1e6")
    case("phi3", {"rope_scaling": dict(both, long_factor=[1] * 5 + ["x"])}, "long_factor", "a number")
    case("phi3", {"rope_scaling": dict(both, mid_factor=[1])}, "mid_factor", "unknown key")
    case("phi3", {"rope_scaling": dict(both, original_max_position_embeddings=48), "original_max_position_embeddings": None},
         "original_max_position_embeddings", "4096", "48")
    case("phi3", {"rope_scaling": dict(both, original_max_position_embeddings=48), "original_max_position_embeddings": 64},
         "original_max_position_embeddings", "48", "64")
    case("phi3", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type", "default, longrope", "'dynamic'")
    case("granite", {"rope_scaling": {"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 16}},
         "original_max_position_embeddings", "max_position_embeddings", "16")
    case("granite", {"rope_scaling": {"type": "dynamic"}}, "rope_scaling.factor", "no such key")
    case("granite", {"rope_scaling": {"type": "dynamic", "factor": 2.0, "alpha": 3}}, "rope_scaling.alpha", "unknown key")
    case("gemma2", {"final_logit_softcapping": 0}, "final_logit_softcapping", "above 0")
    case("gemma2", {"use_bidirectional_attention": True}, "use_bidirectional_attention", "true")
    case("mistral-window", {"is_causal": False}, "sliding_window", "expected none where attention goes in both directions")
    case("granite", {"logits_scaling": 0}, "logits_scaling", "above 0")
    case("cohere", {"use_qk_norm": True}, "self_attn.q_norm.weight", "no such tensor")
    case("stablelm", {"partial_rotary_factor": 0.3}, "partial_rotary_factor", "head_dim 12")
    case("stablelm", {"head_dim": 12}, "head_dim", "unknown")
    case("qwen2", {"attention_bias": True}, "attention_bias", "false")
    case("qwen3", {"attention_bias": True}, "q_proj.bias", "asks for this bias")
    case("qwen3-moe", {"num_experts": 5}, "num_local_experts", "num_experts", "4")
    case("mixtral", {"num_experts_per_tok": 5}, "experts_used", "n_experts 4", "5")
    case("gemma", {"architectures": ["GemmaForTokenClassification"]}, "architectures")
    case("seed-oss", {"attention_out_bias": True}, "o_proj.bias", "asks for this bias")
    case("glm4", {"partial_rotary_factor": 0.2}, "partial_rotary_factor", "head_dim 16")
    case("glm4", {"mlp_bias": True}, "mlp_bias", "false")
    case("ernie45", {"use_bias": True}, "q_proj.bias", "asks for this bias")
    case("hunyuan-dense", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type", "'dynamic'")
    case("hunyuan-dense", {"rope_scaling": {"type": "dynamic", "alpha": -1}}, "rope_scaling.alpha", "above 0")
    case("hunyuan-dense", {"rope_scaling": {"type": "dynamic", "alpha": 2, "beta": 1}}, "rope_scaling.beta", "unknown key")
    case("arcee", {"hidden_act": "silu"}, "hidden_act", "relu2", "'silu'")
    case("nemotron", {"partial_rotary_factor": 0.25}, "partial_rotary_factor", "head_dim 12")
    case("helium", {"attention_bias": True}, "q_proj.bias", "asks for this bias")
    refused(edited("qwen2", tensors=lambda t: t.pop("model.layers.1.self_attn.k_proj.bias")), "k_proj.bias", "asks for this bias")
    refused(edited("phi3", tensors=lambda t: t.update({"model.layers.0.self_attn.qkv_proj.weight": ("BF16", np.zeros((143, 48), "<u2"))})),
            "qkv_proj", "[144, 48]", "[143, 48]")
    refused(edited("gpt2", tensors=lambda t: t.update({"transformer.h.0.attn.c_attn.weight": ("F32", np.zeros((144, 48), "<u4"))})),
            "c_attn", "[48, 144]", "[144, 48]")


def test_absent_keys_mean_the_family_s_default():
    with if_there():
        refused(edited("gemma", drop=["head_dim"]), "q_proj", "[1024, 48]")                       # 256
    refused(edited("gemma2", drop=["num_key_value_heads"], config={"num_attention_heads": 8}), "q_proj", "[128, 48]")
    expect_config(converted(edited("gemma2", drop=["attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"])),
                  attn_softcap=50, logit_softcap=30, attn_scale=0.0625)
    with if_there():
        expect_config(converted(edited("gemma", config={"hidden_act": "gelu"})), ffn="geglu")
    with if_there():
        expect_config(converted(edited("gemma", config={"hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"})), ffn="geglu")
    expect_config(converted(edited("cohere", drop=["logit_scale", "rope_theta"])), logit_scale=0.0625, theta=500000)
    with if_there():
        expect_config(converted(edited("granite", drop=["attention_multiplier", "embedding_multiplier"])), attn_scale=1)
    with if_there():
        expect_config(converted(edited("mixtral", drop=["rope_theta", "rms_norm_eps"])), theta=1e6, norm_eps=1e-5)
    refused(edited("stablelm", drop=["use_qkv_bias"]), "bias", "no bias here")
    refused(edited("gpt2", drop=["n_positions"]), "wpe", "[1024, 48]")
    with if_there():
        expect_config(converted(edited("olmo2", drop=["rms_norm_eps"])), norm_eps=1e-5)
    for fixture, drop, values in (
            ("seed-oss", ["bos_token_id", "eos_token_id", "mlp_bias", "attention_out_bias", "attention_bias"], dict(bos=0, eos=[2], qkv_bias=True)),
            ("glm4", ["partial_rotary_factor", "rms_norm_eps", "attention_bias"], dict(rotary_dim=8, norm_eps=1.5625e-7, qkv_bias=True)),
            ("ernie45", ["rope_theta", "rms_norm_eps", "tie_word_embeddings", "use_bias"], dict(theta=500000, norm_eps=1e-5, tied_embeddings=True)),
            ("hunyuan-dense", ["rope_scaling", "rms_norm_eps"], dict(theta=10000, norm_eps=1e-5)),
            ("arcee", ["hidden_act", "rope_scaling", "rms_norm_eps"], dict(ffn="relu2", norm_eps=1e-5)),
            ("nemotron", ["partial_rotary_factor", "norm_eps"], dict(rotary_dim=6, norm_eps=1e-5)),
            ("helium", ["rope_theta", "rms_norm_eps", "mlp_bias"], dict(theta=100000, norm_eps=1e-8))):
        with if_there():
            expect_config(converted(edited(fixture, drop=drop)), **values)
    with if_there():
        large = edited("glm4", config={"eos_token_id": None, "vocab_size": 151340, "tie_word_embeddings": True}, tensors=lambda t: t.update(
            {"model.embed_tokens.weight": ("BF16", np.zeros((151340, 48), "<u2")), "lm_head.weight": ("BF16", np.zeros((151340, 48), "<u2"))}))
        expect_config(converted(large), eos=[151329, 151336, 151338])


def test_q_and_k_norms_of_each_head():
    """Cohere's [heads, head_dim] in neighbour pairs, StableLM's one tensor for each head."""
    random = np.random.default_rng(3)
    values = {n: random.standard_normal((n, 12)).astype("<f4") for n in (4, 2)}

    def cohere(t):
        for layer in range(2):
            for name, n in (("q", 4), ("k", 2)):
                t["model.layers.%d.self_attn.%s_norm.weight" % (layer, name)] = ("F32", values[n].view("<u4"))

    def stablelm(t):
        for layer in range(2):
            for name, n in (("q", 4), ("k", 2)):
                for h in range(n):
                    t["model.layers.%d.self_attn.%s_layernorm.norms.%d.weight" % (layer, name, h)] = ("F32", values[n][h].view("<u4"))
    m = converted(edited("cohere", config={"use_qk_norm": True}, tensors=cohere))
    expect_config(m, qk_norm="heads")
    assert np.array_equal(stored(m, "layers.1.q_norm"), halves(values[4].reshape(-1), 12))
    m = converted(edited("stablelm", config={"qk_layernorm": True}, tensors=stablelm))
    expect_config(m, qk_norm="heads")
    assert np.array_equal(stored(m, "layers.0.k_norm"), values[2].reshape(-1))


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
