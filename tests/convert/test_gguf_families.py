#!/usr/bin/env python3
"""GGUF files of every architecture, written here from the Hugging Face fixtures as llama.cpp's convert_hf_to_gguf.py lays them out:
their logits are those of the folder, but for settings that GGUF holds as float32. The program: $TBLOCK."""
import json
import os
import re
import subprocess
import sys

import harness
from harness import ROOT, Skip, temp
import numpy as np

sys.path.insert(0, os.path.join(ROOT, "tests", "format"))
import make_gguf  # noqa: E402
from make_gguf import ARRAY, BOOL, F32, STRING, U32  # noqa: E402

TBLOCK = os.environ.get("TBLOCK") or os.path.join(ROOT, "build", "release", "tblock")
IDS = ",".join(str(i) for i in range(3, 23))

# model_type -> architecture; whether rows of q and k are permuted to neighbouring pairs there.
ARCHS = {"granitemoe": ("granitemoe", True), "olmoe": ("olmoe", False), "minimax_m2": ("minimax-m2", False), "glm4_moe": ("glm4moe", False), "deepseek_v3": ("deepseek2", False),
         "ernie4_5_moe": ("ernie4_5-moe", False), "gpt_oss": ("gpt-oss", False),
         "llama": ("llama", True), "mistral": ("llama", True), "mixtral": ("llama", True), "granite": ("granite", True), "qwen2": ("qwen2", False),
         "qwen3": ("qwen3", False), "qwen2_moe": ("qwen2moe", False), "qwen3_moe": ("qwen3moe", False), "phi3": ("phi3", False),
         "gemma": ("gemma", False), "gemma2": ("gemma2", False), "gemma3_text": ("gemma3", False), "olmo2": ("olmo2", False),
         "cohere": ("command-r", False), "cohere2": ("cohere2", False), "stablelm": ("stablelm", False), "gpt2": ("gpt2", False), "gpt_neox": ("gptneox", False),
         "llama4_text": ("llama4", False),   # they lie in pairs already
         "seed_oss": ("seed_oss", False), "glm4": ("glm4", False), "ernie4_5": ("ernie4_5", False),
         "smollm3": ("smollm3", True), "olmo3": ("olmo2", False), "exaone4": ("exaone4", False),
         "hunyuan_v1_dense": ("hunyuan-dense", False), "arcee": ("arcee", True), "nemotron": ("nemotron", False), "ministral3": ("mistral3", True), "apertus": ("apertus", False), "lfm2": ("lfm2", False), "lfm2_moe": ("lfm2moe", False),
         "qwen3_next": ("qwen3next", False), "qwen3_5_text": ("qwen35", False)}
LAYER = {"input_layernorm": "attn_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm", "post_attention_layernorm": "ffn_norm",
         "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "mlp.gate_up_proj": "ffn_up", "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
         "eh_proj": "nextn.eh_proj", "enorm": "nextn.enorm", "hnorm": "nextn.hnorm", "shared_head.norm": "nextn.shared_head_norm",
         "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp",
         "block_sparse_moe.router.layer": "ffn_gate_inp", "block_sparse_moe.output_linear": "ffn_down_exps", "block_sparse_moe.gate": "ffn_gate_inp",
         "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
         "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp", "attn.c_attn": "attn_qkv",
         "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down", "attention.query_key_value": "attn_qkv",
         "attention.dense": "attn_output", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down",
         "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm",
         "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm",
         "feed_forward.gate_proj": "ffn_gate", "feed_forward.up_proj": "ffn_up", "feed_forward.down_proj": "ffn_down",
         "feed_forward.router": "ffn_gate_inp", "feed_forward.shared_expert.gate_proj": "ffn_gate_shexp",
         "feed_forward.shared_expert.up_proj": "ffn_up_shexp", "feed_forward.shared_expert.down_proj": "ffn_down_shexp",
         "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
         "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
         "operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.out_proj": "attn_output", "self_attn.q_layernorm": "attn_q_norm",
         "self_attn.k_layernorm": "attn_k_norm", "feed_forward.gate": "ffn_gate_inp", "feed_forward.w1": "ffn_gate", "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down",
         "conv.in_proj": "shortconv.in_proj", "conv.conv": "shortconv.conv", "conv.out_proj": "shortconv.out_proj",
         "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta",
         "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.conv1d": "ssm_conv1d",
         "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
         "attention_layernorm": "attn_norm", "feedforward_layernorm": "ffn_norm"}
TOP = {"embed_tokens": "token_embd", "wte": "token_embd", "embed_in": "token_embd", "wpe": "position_embd", "norm": "output_norm", "ln_f": "output_norm",
       "final_layer_norm": "output_norm", "embedding_norm": "token_embd_norm", "lm_head": "output", "embed_out": "output"}
EXPERT = {"gate_proj": "gate", "w1": "gate", "up_proj": "up", "w3": "up", "down_proj": "down", "w2": "down"}


def pairs(w, heads):
    """Rows of each head from halves to neighbours."""
    return np.ascontiguousarray(w.reshape(heads, 2, w.shape[0] // heads // 2, -1).swapaxes(1, 2)).reshape(w.shape)


def tiled(bits, c, part):
    """Value heads in the order in which their keys come in turn: rows, those behind q and k, or columns."""
    keys, heads, dk = (c["linear_" + k] for k in ("num_key_heads", "num_value_heads", "key_head_dim"))
    if part == "linear_attn.out_proj":
        return tiled(bits.T, c, "").T
    first = 2 * keys * dk if part in ("linear_attn.in_proj_qkv", "linear_attn.conv1d") else 0
    v = bits[first:].reshape(keys, heads // keys, -1, *bits.shape[1:]).swapaxes(0, 1)
    return np.concatenate([bits[:first], v.reshape(bits[first:].shape)])


def delta_parts(name, c, kind, bits):
    """[(name there, kind, bits)] of what lies otherwise there; None: of no such tensor."""
    layer, _, part = name.partition("linear_attn.")
    at, keys = "blk.%s." % layer.split(".")[-2] if part else "", c.get("linear_num_key_heads")
    if part == "A_log":
        rate = -np.exp(harness.to_f32(kind, bits))
        return [(at + "ssm_a", "F32", (rate if c["model_type"] == "qwen3_next" else tiled(rate, c, part)).view("<u4"))]
    if part == "dt_bias":
        return [(at + "ssm_dt.bias", kind, bits if c["model_type"] == "qwen3_next" else tiled(bits, c, part))]
    if part == "in_proj_qkvz.weight":
        dk, dv = c["linear_key_head_dim"], c["linear_value_head_dim"] * c["linear_num_value_heads"] // keys
        q, k, v, z = np.split(bits.reshape(keys, -1, bits.shape[1]), np.cumsum([dk, dk, dv]), axis=1)
        flat = [x.reshape(-1, bits.shape[1]) for x in (q, k, v, z)]
        return [(at + "attn_qkv.weight", kind, np.concatenate(flat[:3])), (at + "attn_gate.weight", kind, flat[3])]
    return None


def tensor_of(name, c, kind, bits):
    """The name there, and the bits as they lie there."""
    arch, permuted = ARCHS[c["model_type"]]
    found = re.match(r"(?:model\.|transformer\.|gpt_neox\.)?(?:layers|h)\.(\d+)\.(.*)\.(weight|bias)$", name)
    if not found:
        return TOP[name.split(".")[-2]] + "." + name.rsplit(".", 1)[1], bits
    layer, part, end = found.groups()
    ours = LAYER[part]
    if c["model_type"] in ("gemma2", "gemma3_text", "olmo2", "olmo3", "exaone4", "seed_oss", "glm4_moe", "gpt_oss", "qwen3_next", "qwen3_5_text") and part == "post_attention_layernorm":
        ours = "post_attention_norm"
    heads, kv_heads = c["heads"], c["kv_heads"]
    if permuted and ours in ("attn_q", "attn_k"):
        bits = pairs(bits, heads if ours == "attn_q" else kv_heads)
    if arch == "gpt2" and bits.ndim == 2:
        bits = bits.T
    if arch == "gptneox" and ours == "attn_qkv":
        bits = bits.reshape((heads, 3, -1) + bits.shape[1:]).swapaxes(0, 1).reshape(bits.shape)
    if c["model_type"] == "qwen3_5_text" and part.startswith("linear_attn.") and part != "linear_attn.norm":
        bits = tiled(bits, c, part)
    if part in ("conv.conv", "linear_attn.conv1d") and end == "weight":
        bits = bits.reshape(bits.shape[0], -1)
    return "blk.%s.%s.%s" % (layer, ours, end), np.ascontiguousarray(bits)


def tensors_of(folder, c):
    result, experts, tensors = {}, {}, harness.source_tensors(folder)
    for name, (kind, bits) in tensors.items():
        if name.endswith("block_sparse_moe.input_linear.weight"):
            for part, half in zip(("gate", "up"), np.split(bits, 2, axis=1)):
                result["blk.%s.ffn_%s_exps.weight" % (name.split(".")[2], part)] = (kind, np.ascontiguousarray(half))
            continue
        found = re.match(r"model\.layers\.(\d+)\.(?:(?:mlp|feed_forward)\.experts\.(gate_up|down)_proj|self_attn\.(sinks))(_bias)?$", name)
        quantized = re.match(r"model\.layers\.(\d+)\.mlp\.experts\.(gate_up|down)_proj_(blocks|scales)$", name)
        if quantized:   # in ggml a byte has codes that are 16 apart, behind the scale
            layer, part, what = quantized.groups()
            if what == "scales":
                continue
            codes = np.stack([bits & 15, bits >> 4], -1).reshape(bits.shape[:-1] + (32,))
            there = np.concatenate([tensors[name[:-6] + "scales"][1][..., None], codes[..., :16] | codes[..., 16:] << 4], -1)
            for to, rows in [("down", there)] if part == "down" else [("gate", there[:, ::2]), ("up", there[:, 1::2])]:
                result["blk.%s.ffn_%s_exps.weight" % (layer, to)] = ("MXFP4", np.ascontiguousarray(rows))
            continue
        if found:   # gpt_oss, where gate and up lie in turn; llama4
            layer, part, sinks, bias = found.groups()
            gate, up = (slice(0, None, 2), slice(1, None, 2)) if c["model_type"] == "gpt_oss" else np.arange(bits.shape[-1]).reshape(2, -1)
            bits = bits if bias or sinks else bits.swapaxes(1, 2)
            pieces = [("attn_sinks", bits)] if sinks else [("ffn_down_exps", bits)] if part == "down" else [
                ("ffn_gate_exps", bits[:, gate]), ("ffn_up_exps", bits[:, up])]
            for to, rows in pieces:
                kind, rows = ("F32", harness.to_f32(kind, rows).view("<u4")) if bias or sinks else (kind, rows)
                result["blk.%s.%s.%s" % (layer, to, "bias" if bias else "weight")] = (kind, np.ascontiguousarray(rows))
                kind = "BF16"
            continue
        parts = delta_parts(name, c, kind, bits)
        if parts:
            result.update({n: (k, np.ascontiguousarray(b)) for n, k, b in parts})
            continue
        if name.endswith("kv_b_proj.weight"):
            k, v = np.split(bits.reshape(c["heads"], -1, bits.shape[1]), [c["qk_nope_head_dim"]], axis=1)
            result["blk.%s.attn_k_b.weight" % name.split(".")[2]] = (kind, np.ascontiguousarray(k.swapaxes(1, 2)))
            result["blk.%s.attn_v_b.weight" % name.split(".")[2]] = (kind, np.ascontiguousarray(v))
            continue
        if "e_score_correction_bias" in name or name.endswith("expert_bias"):
            result["blk.%s.exp_probs_b.bias" % name.split(".")[2]] = ("F32", harness.to_f32(kind, bits).reshape(-1).view("<u4"))
            continue
        expert = re.match(r"model\.layers\.(\d+)\.(?:mlp|block_sparse_moe|feed_forward)\.experts\.(\d+)\.(\w+)\.weight$", name)
        if expert:
            layer, e, part = expert.groups()
            experts.setdefault("blk.%s.ffn_%s_exps.weight" % (layer, EXPERT[part]), {})[int(e)] = (kind, bits)
            continue
        if (name == "lm_head.weight" and c["tied_embeddings"]) or ".act_fn." in name:
            continue
        name, bits = tensor_of(name, c, kind, bits)
        if c["model_type"].startswith(("gemma", "nemotron", "qwen3_next", "qwen3_5")) and re.search("(?<!ssm_)norm.weight$", name):
            kind, bits = "F32", (harness.to_f32(kind, bits) + np.float32(1)).view("<u4")
        result[name] = (kind, bits)
    for name, parts in experts.items():
        result[name] = (parts[0][0], np.stack([parts[e][1] for e in sorted(parts)]))
    return {name: (bits.shape if kind != "MXFP4" else bits.shape[:2] + (bits.shape[2] * 32,), {"F32": 0, "F16": 1, "BF16": 30, "MXFP4": 39}[kind],
                   bits.tobytes()) for name, (kind, bits) in result.items()}


def keys_of(c, config):
    """config: ours, as `info --json` reports it; c: theirs."""
    own = {"embedding_length": (U32, config["d_model"]), "block_count": (U32, config["n_layers"]), "context_length": (U32, config["n_ctx"]),
           "feed_forward_length": (U32, config["d_ff"]), "attention.head_count": (U32, config["heads"]),
           "attention.head_count_kv": (U32, config["kv_heads"]), "attention.key_length": (U32, config["head_dim"]),
           "attention.value_length": (U32, config["head_dim"]), "rope.freq_base": (F32, config["theta"]),
           "rope.dimension_count": (U32, config.get("rotary_dim") or config["head_dim"]),
           "attention.layer_norm_%sepsilon" % ("rms_" if config["norm"] == "rms" else ""): (F32, config["norm_eps"])}
    for key, ours in (("attention.sliding_window", "window"), ("expert_count", "n_experts"), ("expert_used_count", "experts_used"),
                      ("expert_feed_forward_length", "expert_d_ff"), ("expert_shared_feed_forward_length", "shared_d_ff")):
        if config.get(ours):
            own[key] = (U32, config[ours])
    if config.get("full_layers"):
        own["attention.sliding_window_pattern"] = (ARRAY, (BOOL, [n not in config["full_layers"] for n in range(config["n_layers"])]))
    for key, ours in (("attn_logit_softcapping", "attn_softcap"), ("final_logit_softcapping", "logit_softcap"), ("attention.scale", "attn_scale"),
                      ("residual_scale", "residual_scale"), ("logit_scale", "logit_scale")):
        if config.get(ours, 0) not in (0, 1) and not config.get("kv_lora"):
            own[key] = (F32, 1 / config[ours] if c["model_type"].startswith("granite") and ours == "logit_scale" else config[ours])
    if c["model_type"].startswith("granite"):
        own["embedding_scale"] = (F32, config["embed_scale"])
    if c["model_type"] == "gemma3_text" and config.get("theta_window"):
        own["rope.freq_base_swa"] = (F32, config["theta_window"])
    if c["model_type"] == "gpt_neox":
        own["use_parallel_residual"] = (BOOL, c.get("use_parallel_residual", True))
    if config.get("router_score") == "sigmoid":
        own["expert_gating_func"] = (U32, 2)
    if config.get("dense_layers"):
        own["leading_dense_block_count"] = (U32, len(config["dense_layers"]))
    if config.get("expert_scale"):
        own["expert_weights_scale"], own["expert_weights_norm"] = (F32, config["expert_scale"]), (BOOL, config.get("renormalize", False))
    if config.get("expert_groups"):
        own["expert_group_count"], own["expert_group_used_count"] = (U32, config["expert_groups"]), (U32, config["groups_used"])
    if config.get("kv_lora"):
        own.update({"attention.value_length": (U32, config["kv_lora"]), "attention.kv_lora_rank": (U32, config["kv_lora"]),
                    "attention.key_length_mla": (U32, config["nope_dim"] + config["rotary_dim"]),
                    "attention.value_length_mla": (U32, config["v_dim"])})
        if config.get("q_lora"):
            own["attention.q_lora_rank"] = (U32, config["q_lora"])
        if config["rope"].get("mscale_all_dim"):
            own["rope.scaling.yarn_log_multiplier"] = (F32, 0.1 * config["rope"]["mscale_all_dim"])
    if config.get("delta_heads"):
        own.update({"ssm.conv_kernel": (U32, config["conv_taps"]), "ssm.state_size": (U32, config["delta_key_dim"]),
                    "ssm.group_count": (U32, config["delta_key_heads"]), "ssm.time_step_rank": (U32, config["delta_heads"]),
                    "ssm.inner_size": (U32, config["delta_heads"] * config["delta_value_dim"]),
                    "full_attention_interval": (U32, c["full_attention_interval"])})
        if "layer_types" in c:
            own["attention.recurrent_layers"] = (ARRAY, (BOOL, [n in config["state_layers"] for n in range(config["n_layers"])]))
    elif config.get("state_layers"):
        own["attention.head_count_kv"] = (ARRAY, (U32, [config["kv_heads"] * (n not in config["state_layers"]) for n in range(config["n_layers"])]))
        own["shortconv.l_cache"] = (U32, config["conv_taps"])
    if c["model_type"] == "ernie4_5_moe":   # llama.cpp's converter guesses it, and the tensor counts
        own["interleave_moe_layer_step"], own["expert_shared_feed_forward_length"] = (U32, 1), (U32, 7)
    if c["model_type"] == "glm4_moe":
        own["block_count"], own["nextn_predict_layers"] = (U32, config["n_layers"] + 1), (U32, 1)
    rope = config["rope"]
    if rope["type"] in ("linear", "yarn"):
        own["rope.scaling.type"], own["rope.scaling.factor"] = (STRING, rope["type"]), (F32, rope["factor"])
    if rope["type"] == "longrope":   # its type is in no key
        n = rope["original_n_ctx"]
        own["rope.scaling.original_context_length"] = (U32, int(n))
        own["rope.scaling.attn_factor"] = (F32, rope.get("attention_factor") or (1 + np.log(rope["factor"]) / np.log(n)) ** 0.5)
    if rope["type"] == "yarn":
        own["rope.scaling.original_context_length"] = (U32, int(rope["original_n_ctx"]))
        own["rope.scaling.yarn_beta_fast"], own["rope.scaling.yarn_beta_slow"] = (F32, rope["beta_fast"]), (F32, rope["beta_slow"])
    if c["model_type"] == "llama4_text":
        del own["attention.sliding_window_pattern"], own["leading_dense_block_count"]
        own["interleave_moe_layer_step"] = (U32, 2)
    elif config.get("query_scale"):
        own["attention.temperature_scale"] = (F32, config["query_scale"])
        own["rope.scaling.yarn_log_multiplier"] = (F32, rope["mscale_all_dim"])
    return own


def factors_of(config):
    """By what Llama 3.1's scaling divides each frequency: the tensor rope_freqs there."""
    rope, n = config["rope"], config.get("rotary_dim") or config["head_dim"]
    wavelength = 2 * np.pi * config["theta"] ** (np.arange(0, n, 2) / n)
    low, high = (rope["original_n_ctx"] / rope[key] for key in ("low_freq_factor", "high_freq_factor"))
    smooth = (rope["original_n_ctx"] / wavelength - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
    between = 1 / ((1 - smooth) / rope["factor"] + smooth)
    return np.where(wavelength > low, rope["factor"], np.where(wavelength < high, 1, between)).astype("<f4")


def logits(path):
    done = subprocess.run([TBLOCK, "logits", path, "--ids", IDS, "-o", temp("l"), "-q"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)
    assert done.returncode == 0, (path, done.stderr)
    data = open(temp("l"), "rb").read()
    start = 8 + int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8:start])["logits"]["data_offsets"]
    return np.frombuffer(data[start + begin:start + end], "<f4").astype("<f8")


def test_every_architecture_computes_what_the_folder_does():
    if not os.path.exists(TBLOCK):
        raise Skip("no program (%s)" % TBLOCK)
    wrong = []
    for folder in harness.known_models():
        if os.path.basename(folder).startswith("gpt-oss"):   # its limit has no key there
            folder = harness.edited(os.path.basename(folder), config={"swiglu_limit": 7.0})
        if os.path.basename(folder) == "llama4":   # nor have its chunks
            folder = harness.edited("llama4", config={"attention_chunk_size": 8192, "floor_scale": 8192, "max_position_embeddings": 32768})
        name = os.path.basename(folder)
        report = subprocess.run([TBLOCK, "info", folder, "--json"], stdout=subprocess.PIPE, universal_newlines=True)
        config = json.loads(report.stdout)["config"]
        c = dict(harness.config_of(folder), heads=config["heads"], kv_heads=config["kv_heads"], tied_embeddings=config["tied_embeddings"])
        # llama.cpp has no such architecture, or other groups of experts, or we do not read it (phi2); or the part of a folder
        if c["model_type"] in ("helium", "deepseek_v2", "phi") or "text_config" in c:
            continue
        arch = ARCHS[c["model_type"]][0]
        keys = {"general.architecture": (STRING, arch)}
        keys.update({arch + "." + k: v for k, v in keys_of(c, config).items()})
        tensors = tensors_of(folder, c)
        if arch == "apertus":   # numbers of the activation are settings there
            source = {k: harness.to_f32(*v) for k, v in harness.source_tensors(folder).items()}
            for key in ("alpha_p", "alpha_n", "beta", "eps"):
                keys["xielu." + key] = (ARRAY, (F32, [float(source["model.layers.%d.mlp.act_fn.%s" % (n, key)].reshape(-1)[0])
                                                      for n in range(config["n_layers"])]))
        if config["rope"]["type"] == "longrope":
            for end in ("short", "long"):
                factors = np.array(c["rope_scaling"][end + "_factor"], "<f4")
                tensors["rope_factors_%s.weight" % end] = (factors.shape, 0, factors.tobytes())
        if config["rope"]["type"] == "llama3":
            tensors["rope_freqs.weight"] = ((len(factors_of(config)),), 0, factors_of(config).tobytes())
        make_gguf.write(temp("model.gguf"), keys, tensors)
        if config.get("mtp_layers"):   # the layer behind the last has the same tensors
            both = [harness.converted(path, "--layout", "rows", out=out) for path, out in ((folder, "a.bin"), (temp("model.gguf"), "b.bin"))]
            names = [[n for n in m.header if n.startswith("layers.%d." % config["n_layers"])] for m in both]
            assert names[0] == names[1] and "layers.%d.mtp_proj" % config["n_layers"] in names[0], names
            assert all(np.array_equal(both[0].bits(n), both[1].bits(n)) for n in names[0]), name
        a, b = logits(folder), logits(temp("model.gguf"))
        difference = np.abs(a - b).max() / np.abs(a).max()
        if not difference < 1e-5:
            wrong.append("%s: %g" % (name, difference))
    assert not wrong, wrong


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
