#!/usr/bin/env python3
"""Seeds of the fuzzers: small sound inputs of every kind, from what the tests have and, where there is one, the folder of $TBLOCK_TEST_DATA.

    make_seeds.py OUT [--small]     writes OUT/TARGET/NAME; --small: only those made here, and only under 8 KB

`make fuzz-soak` calls it; the files in tests/fuzz/corpus whose names begin with seed- were made by it with --small.
"""
import base64
import glob
import io
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "format"))
import make_gguf  # noqa: E402
from testdata import TEST_DATA  # noqa: E402

TBLOCK = pathlib.Path(os.environ.get("TBLOCK", ROOT / "build/release/tblock"))
MOST = 1 << 17

CONFIGS = {
    "plain": {"d_model": 8, "n_layers": 1, "heads": 2, "d_ff": 8, "vocab_size": 5, "n_ctx": 16},
    "experts": {"d_model": 8, "n_layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 4, "d_ff": 8, "vocab_size": 7, "n_ctx": 16,
                "window": 5, "tied_embeddings": True, "n_experts": 2, "experts_used": 1, "expert_d_ff": 8},
    "gpt": {"d_model": 8, "n_layers": 1, "heads": 2, "kv_heads": 2, "d_ff": 8, "vocab_size": 5, "n_ctx": 16, "norm": "layer", "norm_bias": True,
            "ffn": "gelu_tanh", "positions": "learned", "qkv_bias": True, "out_bias": True, "ffn_bias": True, "qk_norm": "head"},
    "longrope": {"d_model": 8, "n_layers": 1, "heads": 2, "d_ff": 8, "vocab_size": 5, "n_ctx": 16,
                 "rope": {"type": "longrope", "factor": 4, "original_n_ctx": 4}},
    "states": {"d_model": 8, "n_layers": 2, "heads": 2, "d_ff": 8, "vocab_size": 5, "n_ctx": 16, "state_layers": [0], "conv_taps": 3,
               "conv_bias": True, "qk_norm": "head"},
    "delta": {"d_model": 8, "n_layers": 2, "heads": 2, "d_ff": 8, "vocab_size": 5, "n_ctx": 16, "state_layers": [0], "conv_taps": 2,
              "delta_heads": 2, "delta_key_heads": 1, "delta_key_dim": 2, "delta_value_dim": 3, "attn_gate": True},
}
HF = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1,
      "num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 3, "rms_norm_eps": 1e-5, "hidden_act": "silu",
      "max_position_embeddings": 16, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "float32"}
LONGROPE = {"original_max_position_embeddings": 4, "rope_scaling": {"type": "longrope", "short_factor": [1, 1.5], "long_factor": [2, 4.5]}}


def safetensors(tensors, metadata=None):
    """tensors: name -> shape, F32 of small values; or (dtype, shape, bytes)."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, shape in tensors.items():
        dtype, shape, values = shape if isinstance(shape, tuple) else ("F32", shape, None)
        n = math.prod(shape)
        values = values or struct.pack(f"<{n}f", *[((i * 37 + len(data)) % 101 - 50) / 64 for i in range(n)])
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


QUANTIZED = {
    "fp8": ({"quant_method": "fp8", "weight_block_size": [2, 4]}, {"weight": ("F8_E4M3", [4, 4]), "weight_scale_inv": ("BF16", [2, 1])}),
    "gptq": ({"quant_method": "gptq", "bits": 3, "group_size": 2, "checkpoint_format": "gptq_v2"}, {"qweight": ("I32", [1, 4]), "qzeros": ("I32", [2, 1]), "scales": ("F16", [2, 4]),
                                                                    "g_idx": ("I32", [4])}),
    "awq": ({"quant_method": "awq", "group_size": -1}, {"qweight": ("I32", [4, 1]), "qzeros": ("I32", [1, 1]), "scales": ("F16", [1, 4])}),
    "packed": ({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"a": {"weights": {
        "num_bits": 4, "strategy": "group", "group_size": 2, "symmetric": False}}}},
        {"weight_packed": ("I32", [4, 1]), "weight_scale": ("F32", [4, 2]), "weight_zero_point": ("I32", [1, 2]), "weight_shape": ("I64", [2])}),
}


def quantized_folder(kind):
    """hf_folder() with its linear layers quantized."""
    config, parts = QUANTIZED[kind]
    plain, tensors = hf_folder(), {}
    header = json.loads(plain[plain.index(b"\0") + 9:].split(b"}}")[0] + b"}}")
    for name, t in header.items():
        if "_proj" not in name:
            if name != "__metadata__":
                tensors[name] = t["shape"]
            continue
        for part, (dtype, shape) in parts.items():
            size = math.prod(shape) * {"F8_E4M3": 1, "BF16": 2, "F16": 2, "I64": 8}.get(dtype, 4)
            data = {"g_idx": struct.pack("<4i", 0, 1, 0, 1), "weight_shape": struct.pack("<2q", 4, 4)}.get(part, bytes(i * 29 % 61 for i in range(size)))
            tensors[name[:-6] + part] = (dtype, shape, data)
    return json.dumps({**HF, "quantization_config": config}).encode() + b"\0" + safetensors(tensors)


def hf_folder(**more):
    d, v = 4, more.get("vocab_size", 3)
    t = {"model.embed_tokens.weight": [v, d], "model.norm.weight": [d], "lm_head.weight": [v, d]}
    for name, shape in (("self_attn.q_proj", [d, d]), ("self_attn.k_proj", [d, d]), ("self_attn.v_proj", [d, d]), ("self_attn.o_proj", [d, d]),
                        ("mlp.gate_proj", [d, d]), ("mlp.up_proj", [d, d]), ("mlp.down_proj", [d, d]), ("input_layernorm", [d]),
                        ("post_attention_layernorm", [d])):
        t[f"model.layers.0.{name}.weight"] = shape
    return json.dumps({**HF, **more}).encode() + b"\0" + safetensors(t, {"format": "pt"})


def adapters(s):
    """For the model of hf_folder()."""
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, "bias": "none", "target_modules": ["q_proj"], "use_rslora": True,
              "rank_pattern": {"lm_head": 1}, "alpha_pattern": {"layers.0.+q_proj": 5}}
    at, parts = "base_model.model.model.layers.0.", {"base_model.model.lm_head.lora_A.weight": [1, 4], "base_model.model.lm_head.lora_B.weight": [3, 1]}
    for module in ("self_attn.q_proj", "mlp.down_proj"):
        parts.update({f"{at}{module}.lora_A.weight": [2, 4], f"{at}{module}.lora_B.weight": [4, 2]})
    s.put("lora", "peft", json.dumps(config).encode() + b"\0" + safetensors(parts, {"format": "pt"}))
    s.put("lora", "bf16", json.dumps({"peft_type": "LORA"}).encode() + b"\0" + safetensors({
        f"{at}self_attn.v_proj.lora_A.weight": ("BF16", [8, 4], bytes(i % 64 for i in range(64))),
        f"{at}self_attn.v_proj.lora_B.weight": ("BF16", [4, 8], bytes(i % 64 for i in range(64)))}))
    file = s.out / "adapter.gguf"
    make_gguf.write(file, {"general.architecture": (make_gguf.STRING, "llama"), "general.type": (make_gguf.STRING, "adapter"),
                           "adapter.type": (make_gguf.STRING, "lora"), "adapter.lora.alpha": (make_gguf.F32, 3.0)},
                    {f"blk.0.{part}.weight.lora_{ab}": ((2, 4) if ab == "a" else (4, 2), 0, struct.pack("<8f", *range(8)))
                     for part in ("attn_q", "ffn_up") for ab in "ab"})
    s.put("lora", "gguf", file.read_bytes())
    file.unlink()


def lfm2_folder():
    """A layer with a short convolution and one with attention."""
    d, v = 4, 3
    config = {**HF, "model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"], "num_hidden_layers": 2, "norm_eps": 1e-5, "tie_word_embeddings": True,
              "block_auto_adjust_ff_dim": False, "conv_L_cache": 3, "conv_bias": True, "full_attn_idxs": [1]}
    del config["hidden_act"], config["rms_norm_eps"]
    t = {"model.embed_tokens.weight": [v, d], "model.embedding_norm.weight": [d]}
    layers = ({"conv.in_proj.weight": [3 * d, d], "conv.in_proj.bias": [3 * d], "conv.conv.weight": [d, 1, 3], "conv.conv.bias": [d],
               "conv.out_proj.weight": [d, d], "conv.out_proj.bias": [d]},
              {**{f"self_attn.{x}_proj.weight": [d, d] for x in ("q", "k", "v", "out")}, **{f"self_attn.{x}_layernorm.weight": [d] for x in "qk"}})
    for i, parts in enumerate(layers):
        parts = {**parts, **{f"feed_forward.w{x}.weight": [d, d] for x in "123"}, "operator_norm.weight": [d], "ffn_norm.weight": [d]}
        t.update({f"model.layers.{i}.{name}": shape for name, shape in parts.items()})
    return json.dumps(config).encode() + b"\0" + safetensors(t, {"format": "pt"})


DELTA = {"linear_conv_kernel_dim": 2, "linear_key_head_dim": 2, "linear_num_key_heads": 1, "linear_num_value_heads": 2,
         "linear_value_head_dim": 1}   # 6 channels


def delta_folder():
    """A layer with the gated delta rule and one with attention."""
    d, v = 4, 3
    config = {**HF, **DELTA, "model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"], "num_hidden_layers": 2, "head_dim": 4,
              "tie_word_embeddings": True, "full_attention_interval": 2, "mlp_only_layers": [0, 1], "partial_rotary_factor": 0.5}
    t = {"model.embed_tokens.weight": [v, d], "model.norm.weight": [d]}
    layers = ({**{"linear_attn." + n: s for n, s in {"in_proj_qkvz.weight": [8, d], "in_proj_ba.weight": [4, d], "conv1d.weight": [6, 1, 2],
                                                     "dt_bias": [2], "A_log": [2], "norm.weight": [1], "out_proj.weight": [d, 2]}.items()}},
              {"self_attn.q_proj.weight": [8, d], **{f"self_attn.{x}_proj.weight": [d, d] for x in "kvo"},
               **{f"self_attn.{x}_norm.weight": [d] for x in "qk"}})
    for i, parts in enumerate(layers):
        parts = {**parts, **{f"mlp.{x}_proj.weight": [d, d] for x in ("gate", "up", "down")}, "input_layernorm.weight": [d],
                 "post_attention_layernorm.weight": [d]}
        t.update({f"model.layers.{i}.{name}": shape for name, shape in parts.items()})
    return json.dumps(config).encode() + b"\0" + safetensors(t, {"format": "pt"})


def delta_gguf(s):
    """The same as a file of qwen35, with two keys and four values in turn."""
    file, d, u32, f32 = s.out / "delta.gguf", 4, make_gguf.U32, make_gguf.F32
    keys = {"embedding_length": (u32, d), "block_count": (u32, 2), "context_length": (u32, 8), "feed_forward_length": (u32, d),
            "attention.head_count": (u32, 1), "attention.key_length": (u32, d), "attention.value_length": (u32, d),
            "rope.dimension_count": (u32, 2), "attention.layer_norm_rms_epsilon": (f32, 1e-5), "full_attention_interval": (u32, 2),
            **{"ssm." + k: (u32, n) for k, n in {"conv_kernel": 2, "state_size": 1, "group_count": 2, "time_step_rank": 4, "inner_size": 4}.items()}}
    shapes = {"token_embd.weight": (3, d), "output_norm.weight": (d,)}
    state = {"attn_qkv.weight": (8, d), "attn_gate.weight": (4, d), "ssm_beta.weight": (4, d), "ssm_alpha.weight": (4, d), "ssm_conv1d.weight": (8, 2),
             "ssm_dt.bias": (4,), "ssm_a": (4,), "ssm_norm.weight": (1,), "ssm_out.weight": (d, 4)}
    attention = {"attn_q.weight": (8, d), "attn_k.weight": (d, d), "attn_v.weight": (d, d), "attn_output.weight": (d, d), "attn_q_norm.weight": (d,),
                 "attn_k_norm.weight": (d,)}
    for i, parts in enumerate((state, attention)):
        parts = {**parts, "attn_norm.weight": (d,), "post_attention_norm.weight": (d,), **{f"ffn_{x}.weight": (d, d) for x in ("gate", "up", "down")}}
        shapes.update({f"blk.{i}.{name}": shape for name, shape in parts.items()})
    make_gguf.write(file, {"general.architecture": (make_gguf.STRING, "qwen35"), **{"qwen35." + k: v for k, v in keys.items()}},
                    {name: (shape, 0, struct.pack(f"<{math.prod(shape)}f", *[-n / 64 for n in range(math.prod(shape))])) for name, shape in shapes.items()})
    s.put("gguf", "delta", file.read_bytes())
    file.unlink()


def npy(shape, descr, data):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def torch_file(tensors):
    """What torch.save writes of a state dict of floats, name -> shape: a zip of a pickle and of the storages."""
    def whole(n):
        return b"J" + struct.pack("<i", n)

    def text(t):
        return b"X" + struct.pack("<I", len(t)) + t.encode()
    pickled, file = b"\x80\x02}(", io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as z:
        for i, (name, shape) in enumerate(tensors.items()):
            n, strides = math.prod(shape), [math.prod(shape[d + 1:]) for d in range(len(shape))]
            pickled += text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(i))
            pickled += text("cpu") + whole(n) + b"tQ" + whole(0) + b"".join(b"(" + b"".join(map(whole, d)) + b"t" for d in (shape, strides))
            pickled += b"\x89ccollections\nOrderedDict\n)RtR"
            z.writestr(zipfile.ZipInfo(f"a/data/{i}"), struct.pack(f"<{n}f", *[(k % 7 - 3) / 8 for k in range(n)]))
        z.writestr(zipfile.ZipInfo("a/data.pkl"), pickled + b"u.")
    return file.getvalue()


def meta_tensors():
    t = {"tok_embeddings.weight": [3, 4], "norm.weight": [4], "output.weight": [3, 4]}
    t.update({f"layers.0.attention.w{x}.weight": [4, 4] for x in "qkvo"})
    t.update({f"layers.0.feed_forward.w{x}.weight": [4, 4] for x in "123"})
    t.update({f"layers.0.{x}_norm.weight": [4] for x in ("attention", "ffn")})
    return t


def packed(kind, first, beside=b""):
    return bytes([kind]) + struct.pack("<H", len(beside)) + beside + first


def gpt_oss_folder():
    """Experts in MXFP4."""
    d, v, e = 32, 3, 2
    config = {**HF, "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "hidden_size": d, "intermediate_size": d, "num_attention_heads": 2,
              "num_key_value_heads": 1, "head_dim": 4, "num_local_experts": e, "num_experts_per_tok": 1, "layer_types": ["full_attention"],
              "sliding_window": 8, "attention_bias": True, "max_position_embeddings": 128,
              "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                               "original_max_position_embeddings": 4}, "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": []}}
    t = {"model.embed_tokens.weight": [v, d], "model.norm.weight": [d], "lm_head.weight": [v, d]}
    at = "model.layers.0."
    for x, rows in (("q", 8), ("k", 4), ("v", 4), ("o", d)):
        t[f"{at}self_attn.{x}_proj.weight"], t[f"{at}self_attn.{x}_proj.bias"] = [rows, 8 if x == "o" else d], [rows]
    t.update({at + "self_attn.sinks": [2], at + "input_layernorm.weight": [d], at + "post_attention_layernorm.weight": [d],
              at + "mlp.router.weight": [e, d], at + "mlp.router.bias": [e]})
    for x, rows in (("gate_up", 2 * d), ("down", d)):
        t[f"{at}mlp.experts.{x}_proj_bias"] = [e, rows]
        t[f"{at}mlp.experts.{x}_proj_blocks"] = ("U8", [e, rows, 1, 16], bytes(i % 251 for i in range(e * rows * 16)))
        t[f"{at}mlp.experts.{x}_proj_scales"] = ("U8", [e, rows, 1], bytes([120] * (e * rows)))
    return json.dumps(config).encode() + b"\0" + safetensors(t)


NAMES = re.findall('"([^"]+)"', re.search(r"packed_names\[\] = {(.*?)}", (ROOT / "tests/fuzz/packed_folder.h").read_text(), re.S)[1])


def pack(files):
    """name -> bytes, as packed_folder.h reads them."""
    return b"".join(bytes([NAMES.index(name)]) + struct.pack("<I", len(data)) + data for name, data in files.items())


BPE = {"version": "1.0", "added_tokens": [{"id": 4, "content": "<s>", "special": True}], "normalizer": None,
       "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, "decoder": {"type": "ByteLevel"},
       "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3}, "merges": ["a b"]}}


def whole_folders(s):
    """Every kind of folder, with all of its files."""
    def parts(two):
        config, _, tensors = two.partition(b"\0")
        return {"config.json": config, "model.safetensors": tensors}
    plain = parts(hf_folder())
    for kind in QUANTIZED:
        s.put("folder", "quantized-" + kind, pack(parts(quantized_folder(kind))))
    s.put("folder", "delta", pack(parts(delta_folder())))
    s.put("folder", "lfm2", pack(parts(lfm2_folder())))
    s.put("folder", "tokenizer", pack({**parts(hf_folder(vocab_size=5, **LONGROPE)), "tokenizer.json": json.dumps(BPE).encode(),
                                       "tokenizer_config.json": b'{"bos_token": "<s>", "chat_template": "{{ bos_token }}"}',
                                       "generation_config.json": b'{"eos_token_id": [2, 3]}'}))
    s.put("folder", "mxfp4", pack(parts(gpt_oss_folder())))
    n = struct.unpack("<Q", plain["model.safetensors"][:8])[0]
    header, data = json.loads(plain["model.safetensors"][8:8 + n]), plain["model.safetensors"][8 + n:]
    names = [name for name in header if name != "__metadata__"]
    shards, index = [], {}
    for i, part in enumerate((names[:6], names[6:])):
        shards.append(safetensors({name: ("F32", header[name]["shape"], data[slice(*header[name]["data_offsets"])]) for name in part}))
        index.update({name: f"model-0000{i + 1}-of-00002.safetensors" for name in part})
    s.put("folder", "sharded", pack({"config.json": plain["config.json"], "model.safetensors.index.json": json.dumps({"weight_map": index}).encode(),
                                     "model-00001-of-00002.safetensors": shards[0], "model-00002-of-00002.safetensors": shards[1]}))
    modules = [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind} for i, (path, kind) in enumerate(
        (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Normalize", "Normalize")))]
    s.put("folder", "vectors", pack({
        **plain, "modules.json": json.dumps(modules).encode(), "1_Pooling/config.json": b'{"word_embedding_dimension": 4, "pooling_mode_mean_tokens": true}',
        "2_Dense/config.json": b'{"in_features": 4, "out_features": 2, "bias": true, "activation_function": "torch.nn.modules.activation.Tanh"}',
        "2_Dense/model.safetensors": safetensors({"linear.weight": [2, 4], "linear.bias": [2]}),
        "config_sentence_transformers.json": b'{"default_prompt_name": null}', "sentence_bert_config.json": b'{"do_lower_case": false}'}))
    params = {"dim": 4, "n_layers": 1, "n_heads": 1, "vocab_size": 3, "multiple_of": 4, "norm_eps": 1e-5}
    s.put("folder", "meta", pack({"params.json": json.dumps(params).encode(), "consolidated.00.pth": torch_file(meta_tensors())}))


def gguf_bytes(s, keys, tensors=None):
    file = s.out / "made.gguf"
    make_gguf.write(file, keys, tensors or {})
    data = file.read_bytes()
    file.unlink()
    return data


U32, F32, STRING, ARRAY, BOOL = make_gguf.U32, make_gguf.F32, make_gguf.STRING, make_gguf.ARRAY, make_gguf.BOOL


def vocabulary(kind):
    """Twelve tokens."""
    t = {"general.architecture": (STRING, "llama"), "tokenizer.ggml.model": (STRING, kind), "tokenizer.ggml.bos_token_id": (U32, 1),
         "tokenizer.ggml.eos_token_id": (U32, 2), "tokenizer.ggml.add_bos_token": (BOOL, True)}
    if kind == "llama":
        words, kinds = ["<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "a", "b", "\u2581a", "ab", "\u2581ab", "l", "\u00e9"], [2, 3, 3, 6] + [1] * 8
        t["tokenizer.ggml.scores"] = (ARRAY, (F32, [-i / 2 for i in range(12)]))
    else:
        words, kinds = ["a", "<s>", "</s>", "b", "\u0120", "ab", "\u0120a", "l", "ll", "\u010a", "1", "<|x|>"], [1, 3, 3] + [1] * 8 + [4]
        t["tokenizer.ggml.pre"] = (STRING, "llama-bpe" if kind == "gpt2" else "default")
        t["tokenizer.ggml.merges"] = (ARRAY, (STRING, ["a b", "\u0120 a", "l l"]))
    t["tokenizer.ggml.tokens"] = (ARRAY, (STRING, words))
    t["tokenizer.ggml.token_type"] = (ARRAY, (make_gguf.I32, kinds))
    return t


def llama_gguf(arch="llama", d=8, layers=2, experts=0, kind=0, **more):
    """Keys and tensors; kind: ggml's number of the matrices' type."""
    own = {"embedding_length": (U32, d), "block_count": (U32, layers), "context_length": (U32, 16), "feed_forward_length": (U32, d),
           "attention.head_count": (U32, 2), "attention.head_count_kv": (U32, 1), "attention.layer_norm_rms_epsilon": (F32, 1e-5),
           "rope.dimension_count": (U32, d // 2), **more}
    if experts:
        own.update({"expert_count": (U32, experts), "expert_used_count": (U32, 1)})
    shapes = {"token_embd.weight": (12, d), "output_norm.weight": (d,), "output.weight": (12, d)}
    for i in range(layers):
        stack = (experts,) if experts else ()
        layer = {"attn_norm": (d,), "attn_q": (d, d), "attn_k": (d // 2, d), "attn_v": (d // 2, d), "attn_output": (d, d), "ffn_norm": (d,)}
        layer.update({f"ffn_{x}" + "_exps" * bool(experts): (*stack, d, d) for x in ("gate", "up", "down")})
        if experts:
            layer["ffn_gate_inp"] = (experts, d)
        shapes.update({f"blk.{i}.{name}.weight": shape for name, shape in layer.items()})

    def tensor(name, shape):
        n = math.prod(shape)
        if kind and len(shape) == 2 and name != "token_embd.weight":
            each = {2: 18, 3: 20, 6: 22, 8: 34, 39: 17}[kind]
            return shape, kind, bytes((i * 37 + len(name)) % 60 for i in range(n // 32 * each))
        return shape, 0, struct.pack(f"<{n}f", *[((i * 37 + len(name)) % 101 - 50) / 64 for i in range(n)])
    return {"general.architecture": (STRING, arch), **{f"{arch}.{k}": v for k, v in own.items()}}, {k: tensor(k, v) for k, v in shapes.items()}


def whole_ggufs(s):
    for kind in ("llama", "gpt2"):
        s.put("vocab", kind, gguf_bytes(s, vocabulary(kind)))
    keys, tensors = llama_gguf()
    s.put("ggufmodel", "llama", pack({"model.gguf": gguf_bytes(s, {**vocabulary("llama"), **keys}, tensors)}))
    s.put("ggufmodel", "experts", pack({"model.gguf": gguf_bytes(s, *llama_gguf("llama", layers=1, experts=2))}))
    s.put("ggufmodel", "q4", pack({"model.gguf": gguf_bytes(s, *llama_gguf(d=32, layers=1, kind=2))}))
    yarn = {"rope.scaling.type": (STRING, "yarn"), "rope.scaling.factor": (F32, 4.0), "rope.scaling.attn_factor": (F32, 1.5),
            "rope.scaling.original_context_length": (U32, 8), "rope.scaling.yarn_beta_fast": (F32, 32.0)}
    longrope = {"rope.scaling.attn_factor": (F32, 1.5), "rope.scaling.original_context_length": (U32, 8)}
    factors = {f"rope_factors_{x}.weight": ((2,), 0, struct.pack("<2f", 1, y)) for x, y in (("long", 4), ("short", 1))}
    s.put("ggufmodel", "yarn", pack({"model.gguf": gguf_bytes(s, *llama_gguf(layers=1, **yarn))}))
    long_keys, long_tensors = llama_gguf("phi3", layers=1, **longrope)
    s.put("ggufmodel", "longrope", pack({"model.gguf": gguf_bytes(s, long_keys, {**long_tensors, **factors})}))
    s.put("ggufmodel", "linear", pack({"model.gguf": gguf_bytes(s, *llama_gguf(layers=1, **{"rope.scale_linear": (F32, 4.0)}))}))
    names, split = list(tensors), {"split.count": (make_gguf.U32, 2), "split.tensors.count": (make_gguf.I32, len(tensors))}
    s.put("ggufmodel", "split", pack({
        "model-00001-of-00002.gguf": gguf_bytes(s, {**keys, **split, "split.no": (U32, 0)}, {n: tensors[n] for n in names[:9]}),
        "model-00002-of-00002.gguf": gguf_bytes(s, {**split, "split.no": (U32, 1)}, {n: tensors[n] for n in names[9:]})}))
    tokens = struct.pack("<i", 5) + b"".join(struct.pack("<fi", -i, len(t)) + t for i, t in enumerate((b"<unk>", b"<s>", b"</s>", b" a", b"a")))
    dims = (4, 4, 1, 1, 1, 5, 8)
    s.put("ggufmodel", "plain.config", pack({"config.json": json.dumps(CONFIGS["states"]).encode()}))
    s.put("ggufmodel", "hf.config", pack({"config.json": json.dumps(HF).encode()}))
    s.put("ggufmodel", "path.name", b"a/b")
    s.put("ggufmodel", "llama2c", pack({"stories.bin": struct.pack("<7i", *dims) + struct.pack("<176f", *[(i % 9 - 4) / 8 for i in range(176)]),
                                        "tokenizer.bin": tokens}))


class Seeds:
    def __init__(self, out, small):
        self.out, self.small = out, small

    def put(self, target, name, data):
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogatepass")
        if len(data) > (8192 if self.small else MOST):
            return
        folder = self.out / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"seed-{re.sub('[^A-Za-z0-9._-]', '_', name)[:60]}").write_bytes(data)

    def files(self, target, *patterns, wrap=lambda path, data: data):
        if self.small:  # the repository has these files already
            return
        for pattern in patterns:
            paths = sorted(glob.glob(str(ROOT / pattern))) + sorted(glob.glob(str(TEST_DATA / pattern)))
            for path in map(pathlib.Path, paths):
                if path.is_file() and path.stat().st_size <= MOST:
                    self.put(target, f"{path.parent.name}-{path.name}", wrap(path, path.read_bytes()))


def models(s):
    tmp = s.out / "tmp"
    tmp.mkdir(parents=True, exist_ok=True)
    for name, config in CONFIGS.items():
        (tmp / "config.json").write_text(json.dumps(config))
        s.put("config", name, json.dumps(config))
        for kind in ("f32", "bf16", "q8", "q4"):
            done = subprocess.run([TBLOCK, "synth", tmp / "config.json", "-o", tmp / "model.bin", "--type", kind, "--quiet"], capture_output=True)
            if done.returncode == 0:
                s.put("model", f"{name}-{kind}", (tmp / "model.bin").read_bytes())
    for p in tmp.iterdir():
        p.unlink()
    tmp.rmdir()


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def charsmap_of():
    """SentencePiece's precompiled_charsmap of three rules: A, B and \u00e9 become a, b and e."""
    units = [0] * 4096
    units[0] = 256 << 10
    for byte, text in ((65, 0), (66, 2)):
        units[256 ^ byte] = byte | 1 << 8 | 512 << 10
        units[256 ^ byte ^ 512] = 1 << 31 | text
    first = 256 ^ 0xC3
    units[first] = 0xC3 | 1024 << 10
    units[first ^ 1024 ^ 0xA9] = 0xA9 | 1 << 8 | 2048 << 10
    units[first ^ 1024 ^ 0xA9 ^ 2048] = 1 << 31 | 4
    return struct.pack("<I4096I", 4 * 4096, *units) + b"a\0b\0e\0"


def tokenizers(s):
    unigram = {"added_tokens": [], "normalizer": {"type": "NFKC"}, "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581"},
               "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["\u2581", -1.0], ["a", -2.5]], "byte_fallback": False}}
    settings = {"bos_token": "<s>", "eos_token": "<s>", "add_bos_token": True}
    s.put("tokenizer", "bpe", packed(0, json.dumps(BPE).encode(), json.dumps(settings).encode()))
    s.put("tokenizer", "unigram", packed(4, json.dumps(unigram).encode()))
    s.put("tokenizer", "gpt2", packed(2, json.dumps({"a": 0, "b": 1, "ab": 2}).encode(), b"#version: 0.2\na b\n"))
    ranks = b"".join(line.encode() + b"\n" for line in ("YQ== 0", "Yg== 1", "YWI= 2", "IA== 3"))
    s.put("tokenizer", "ranks", packed(131, ranks, json.dumps({"<s>": 4}).encode()))

    def piece(text, score, kind):
        body = b"\x0a" + bytes([len(text)]) + text + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([kind])
        return b"\x0a" + bytes([len(body)]) + body
    spm = piece(b"<unk>", 0, 2) + piece(b"<s>", 0, 3) + piece(b"</s>", 0, 3) + piece("\u2581a".encode(), -1, 1) + piece(b"a", -2, 1)
    for kind, name in ((1, "unigram"), (2, "bpe")):
        trainer = bytes([0x18, kind])
        s.put("tokenizer", f"sentencepiece-{name}", packed(1, spm + b"\x12" + bytes([len(trainer)]) + trainer))
    llama2c = struct.pack("<i", 5) + b"".join(struct.pack("<fi", -i, len(t)) + t for i, t in enumerate((b"<unk>", b"<s>", b"</s>", b" a", b"a")))
    s.put("tokenizer", "llama2c", packed(3, llama2c))
    s.files("tokenizer", "tests/data/models/*/tokenizer.json", "fixtures/tokenizers/*/tokenizer.json", wrap=lambda p, d: packed(0, d))
    s.files("tokenizer", "fixtures/tokenizers/*/*.model", "tests/data/tokenizers/*/*.model", wrap=lambda p, d: packed(1, d))
    s.files("tokenizer", "tests/data/tokenizers/*/tokenizer.json", wrap=lambda p, d: packed(0, d))
    gpt2 = {"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3, "\u0120": 4}
    s.put("tokenizer", "gpt2-files", packed(128, json.dumps(gpt2).encode(), b"#version: 0.2\na b\r\n\n"))
    steps = [{"type": "NFD"}, {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Lowercase"}, {"type": "Prepend", "prepend": "\u2581"},
             {"type": "Replace", "pattern": {"Regex": " +"}, "content": "\u2581"}, {"type": "Replace", "pattern": {"String": "b"}, "content": "a"}]
    charsmap = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap_of()).decode()}
    for name, normalizer in (("steps", {"type": "Sequence", "normalizers": steps}), ("charsmap", charsmap),
                             ("both", {"type": "Sequence", "normalizers": [charsmap, *steps[1:3]]})):
        s.put("tokenizer", "normalizer-" + name, packed(0, json.dumps({**unigram, "normalizer": normalizer}).encode()))
        s.put("tokenizer", "bpe-" + name, packed(0, json.dumps({**BPE, "normalizer": normalizer}).encode()))
    body = b"\x12" + varint(len(charsmap_of())) + charsmap_of() + b"\x18\x01"
    s.put("tokenizer", "sentencepiece-charsmap", packed(1, spm + b"\x12\x02\x18\x01" + b"\x1a" + varint(len(body)) + body))


TEMPLATES = [
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}",
    "{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim"
    " + '<|eot_id|>' }}{% endfor %}",
]


def texts(s):
    lines = ["", "Hello, world!", "<s>ROMEO:</s>\n  What's 12345 \u00e9\u4e2d\u6587 \U0001f600", "<|begin_of_text|><|eot_id|>", "a" * 200,
             "\u0301\u0300x\ufb01 \u1e9b\u0323", " \n\t\r\n  ", '{"text": "a\\u0000b", "mode": "special"}', '{"ids": [1, 2, 3]}']
    for i, line in enumerate(lines):
        for tokenizer in range(3 if s.small else 10):
            s.put("text", f"{i}-{tokenizer}", bytes([tokenizer + 32 * (i % 2)]) + line.encode())
    if not s.small:
        for path in glob.glob(str(TEST_DATA / "fixtures/tokenizers/*/cases.jsonl")):
            for i, line in enumerate(open(path).read().splitlines()[:200]):
                text = json.loads(line).get("text")
                if text:
                    s.put("text", f"{pathlib.Path(path).parent.name}-{i}", bytes([i % 32]) + text.encode("utf-8", "surrogatepass"))


def chats(s):
    s.put("chat", "variables", json.dumps({"bos_token": "<s>", "eos_token": None, "enable_thinking": False, "documents": [{"title": "t"}]}))
    s.put("chat", "tools", json.dumps([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]))
    s.put("chat", "message", json.dumps({"role": "assistant", "content": None, "reasoning": "r", "tool_calls": [{"function": {"name": "f"}}]}))
    s.put("chat", "format", json.dumps({"version": 1, "name": "x", "begin": "{bos}", "system": "<<{system}>>", "user": "U: {content}\n",
                                        "assistant": "A: {content}{eos}\n", "open": "A:", "stop": ["U:"]}))
    s.put("chat", "conversation", json.dumps({"messages": [{"role": "user", "content": "Hello"}, {"role": "tool", "content": [{"text": "a\n"}]}]}))


def jinjas(s):
    for i, t in enumerate(TEMPLATES):
        s.put("jinja", f"template-{i}", t)
    cases = [json.loads(line) for line in open(ROOT / "tests/data/jinja.jsonl")][1:]
    for i in range(0, len(cases), 32):  # those that fail would hide what follows
        s.put("jinja", f"language-{i // 32}", "".join(c["template"] for c in cases[i:i + 32] if c["text"] is not None)[:2500])
    asked = "{{ x is %s }}"
    s.put("jinja", "tests", "{% set x = 3 %}" + "".join(asked % t for t in (
        "odd", "even", "divisibleby 3", "defined", "undefined", "none", "boolean", "false", "true", "integer", "float", "string", "mapping", "number",
        "sequence", "iterable", "callable", "sameas 3", "in [3]", "eq 3", "ne 2", "gt 2", "ge 3", "lt 4", "le 3")) +
        "{{ 'a' is lower }}{{ 'A' is upper }}{{ 'odd' is test }}{{ 'trim' is filter }}{{ 'a' is escaped }}")
    if not s.small:
        for i, c in enumerate(cases):
            s.put("jinja", f"case-{i}", c["template"])
    s.files("jinja", "data/chat/jinja/*")


def schemas(s):
    """A schema, and behind a NUL a text that is valid."""
    for name, schema, text in (
            ("unique", {"type": "array", "uniqueItems": True, "items": {"enum": [1, "a", None, True, 2.5]}, "maxItems": 3}, [1, "a"]),
            ("unique-consts", {"type": "array", "uniqueItems": True, "prefixItems": [{"const": 1}, {"enum": [1, 2]}], "items": False}, [1, 2]),
            ("refs", {"$id": "http://x.y/a/b.json", "$defs": {"n~/ode": {"$anchor": "here", "type": "object", "properties": {"next": {"$ref": "#/$defs/n~0~1ode"}}},
                      "of": {"$id": "../c/./d.json", "type": "integer"}}, "anyOf": [{"$ref": "#here"}, {"$ref": "../c/d.json"}, {"$ref": "http://x.y/c/d.json"}]},
             {"next": {}}),
            ("pointer", {"prefixItems": [{"type": "string"}, {"$ref": "#/prefixItems/0"}], "properties": {"a%b": {"type": "null"}},
                         "anyOf": [{"$ref": "#/prefixItems/1"}, {"$ref": "#/properties/a%25b"}]}, "x")):
        s.put("schema", name, json.dumps(schema).encode() + b"\0" + json.dumps(text).encode())


def answers(s):
    for name, text in (("json", '\0<think>Hm.</think>\n\nSo:\n<call>{"name": "f", "arguments": {"x": [1, "}"]}}</call><call>{"arguments": {}, '
                        '"name": "g"}'), ("frame", '\1Hi [C]f[A]{"a": {"b": null}}[C]g[A]{}<|end|>'),
                       ("by-key", '\2<f=write><p=a>\n{"k": [1]}\n</p><p=b>\nTrue\n</p></f>then <f='),
                       ("quoted", "\3<f>f{a:<q>x, y}<q>,b:{c:[1,<q>z<q>]}}</f>"), ("bare", '\4{"name": "f", "parameters": {"x": "\\u00e9"}}'),
                       ("channels", '\5<|c|>think<|m|>Hm.<|end|><|s|>a<|c|>call to=f <|x|><|m|>{"a": 1}<|call|>'),
                       ("template", "\6{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}<c {{ c.function.name }}>"
                        "{{ c.function.arguments | tojson }}</c>{% endfor %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")):
        s.put("answer", name, text)


def goldens(s):
    tokens = {"dtype": "I32", "shape": [3], "data_offsets": [0, 12]}
    logits = {"dtype": "F32", "shape": [3, 5], "data_offsets": [12, 72]}
    text = json.dumps({"__metadata__": {"format": "tblock-logits"}, "tokens": tokens, "logits": logits}).encode()
    text += b" " * (-len(text) % 8)
    s.put("golden", "safetensors", struct.pack("<Q", len(text)) + text + struct.pack("<3i15f", 1, 2, 3, *range(15)))
    hashes, sums = 12 * 10 * 8, 12 * 3 * 8  # of the 12 tensors of fuzz_golden.c's model
    fingerprints = {"fingerprint.hash": {"dtype": "U64", "shape": [12, 10], "data_offsets": [72, 72 + hashes]},
                    "fingerprint.sum": {"dtype": "F64", "shape": [12, 3], "data_offsets": [72 + hashes, 72 + hashes + sums]}}
    meta = {"format": "tblock-logits", "fingerprints": "1", "tokenizer": "[{}]", "tokenizer_sha256": "0", "weight_types": "f32",
            "config": '{"d_model": 8, "n_layers": 1, "heads": 1, "d_ff": 8, "vocab_size": 5, "n_ctx": 16, "theta": 1e4}'}
    text = json.dumps({"__metadata__": meta, "tokens": tokens, "logits": logits, **fingerprints}).encode()
    text += b" " * (-len(text) % 8)
    s.put("golden", "fingerprints", struct.pack("<Q", len(text)) + text + struct.pack("<3i15f", 1, 2, 3, *range(15)) + bytes(hashes + sums))
    digest = {"tokens": tokens, "logits.hash": {"dtype": "U64", "shape": [3], "data_offsets": [12, 36]},
              "logits.top": {"dtype": "I32", "shape": [3, 5], "data_offsets": [36, 96]},
              "logits.top_value": {"dtype": "F32", "shape": [3, 5], "data_offsets": [96, 156]},
              "hidden.embed": {"dtype": "U64", "shape": [3], "data_offsets": [156, 180]}}
    text = json.dumps(digest).encode()
    text += b" " * (-len(text) % 8)
    s.put("golden", "digest", struct.pack("<Q", len(text)) + text + struct.pack("<3i3Q15i15f3Q", 1, 2, 3, 4, 5, 6, *[0, 1, 2, 3, -1] * 3, *range(15), 7, 8, 9))
    greedy = {"dtype": "I32", "shape": [15], "data_offsets": [72, 132]}  # one too many for a context of 16
    text = json.dumps({"tokens": tokens, "logits": logits, "greedy": greedy}).encode()
    text += b" " * (-len(text) % 8)
    s.put("golden", "greedy", struct.pack("<Q", len(text)) + text + struct.pack("<3i15f15i", 1, 2, 3, *range(15), *[4] * 15))
    s.put("golden", "npz", struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, 0, len("logits.npy"), 0) + b"logits.npy")
    s.put("golden", "npy-f4", npy("(3, 5)", "<f4", bytes(60)))
    s.put("golden", "npy-f8", npy("(1, 5)", "<f8", bytes(40)))
    s.put("golden", "npy-f2", npy("(1, 3, 5)", "<f2", bytes(30)))


QUESTIONS = [{"context": "a b", "choices": ["a", " b"], "answer": 1}, {"text": "ab <s>", "mode": "special", "add_special": True},
             {"bytes_hex": "61ff20"}, {"ids": [1, 66, 100]}]


def laboratory(s):
    """Questions and requests, a Meta folder's params.json, blocks with their tensors, changes of a checkpoint."""
    for i, line in enumerate(QUESTIONS):
        s.put("lines", str(i), json.dumps(line))
    s.put("lines", "all", "\n".join(map(json.dumps, QUESTIONS)))
    s.files("lines", "tests/data/questions.jsonl", wrap=lambda p, d: d[:4096])
    params = {"dim": 4, "n_layers": 1, "n_heads": 1, "vocab_size": 3, "multiple_of": 4, "norm_eps": 1e-5}
    s.put("meta", "params", json.dumps(params).encode() + b"\0")
    s.put("meta", "llama", json.dumps(params).encode() + b"\0" + torch_file(meta_tensors()))
    s.files("meta", "tests/data/pth/*.pth", wrap=lambda p, d: json.dumps(params).encode() + b"\0" + d)
    block = {"d_model": 4, "n_heads": 1, "n_kv_heads": 1, "head_dim": 4, "d_ff": 4, "norm": "rmsnorm", "norm_first": True, "ffn": "relu",
             "bias": False, "rope_theta": 10000.0, "causal": True, "window": 0, "eps": 1e-6, "batch": 1, "length": 2}
    tensors = {"x": [1, 2, 4], "dy": [1, 2, 4], "norm1_weight": [4], "norm2_weight": [4]}
    tensors.update({name: [4, 4] for name in ("wq", "wk", "wv", "wo", "w_up", "w_down")})
    s.put("lab", "block", json.dumps(block).encode() + b"\0" + safetensors(tensors))
    s.put("lab", "config", json.dumps(CONFIGS["plain"]))
    s.files("lab", "fixtures/blocks/*.json", wrap=lambda p, d: d + b"\0" + p.with_suffix(".safetensors").read_bytes())
    s.put("lab", "checkpoint", b"ckpt\0" + bytes(3))


def options(s):
    lines = ["run model --prompt Hi -n 20 --temp 0.7 --seed random", "logits m --ids 1,2,3 -o out", "info --json --seq=77 -qh x",
             "synth c -o out --type q8 --keep embed=f16", "completions bash", "tokenize m --text -- -x", "bench m --threads 3 -r 5",
             "verify m g --exact --tol 1e-3 --isa scalar", "quantize a b --type q4 --activations 16", "chat --system x --file y"]
    for i, line in enumerate(lines):
        s.put("options", str(i), line.replace(" ", "\0"))


def servers(s):
    """Bodies of every path of tblock serve behind a byte that chooses it, what its model draws, and requests as they are sent."""
    user = [{"role": "user", "content": "Hi"}]
    tool = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    draw = {"temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 1, "stop": ["a", "b"], "logit_bias": {"5": -2.5}, "n": 2, "stream": True,
            "stream_options": {"include_usage": True}, "return_token_ids": True, "presence_penalty": 0.5, "user": "u", "model": "shakespeare"}
    bodies = ({"prompt": "A", "max_tokens": 2, "echo": True, "logprobs": 2, **draw}, {"prompt": [[1, 2], [3]]}, {"input": "A", "encoding_format": "base64"},
              {"messages": user, "tools": tool, "tool_choice": "auto", "logprobs": True, "top_logprobs": 1, **draw},
              {"messages": user, "response_format": {"type": "json_schema", "json_schema": {"schema": {"enum": [1, "a"]}}}},
              {"input": [{"role": "user", "content": [{"type": "input_text", "text": "A"}]}], "instructions": "B", "max_output_tokens": 3},
              {"model": "m", "max_tokens": 3, "system": "S", "messages": user, "stop_sequences": ["x"]},
              {"prompt": "A", "return_token_strs": True}, {"tokens": [1, 2, 3]})
    for i, body in enumerate(bodies):
        for path in range(12):
            s.put("serve", f"{i}-{path}", bytes([path]) + json.dumps(body).encode())
    calls = (b'<call>{"name": "look", "arguments": {"a": "b"}}</call>', b'[C]look[A]{"a": 1}', b"<f=look><p=a>\nb\n</p></f>", b"<f>look{a:<q>b<q>}</f>",
             b'{"name": "look", "parameters": {"a": 1}}', b'<|s|>a to=look<|c|>call<|m|>{"a": 1}<|call|>')
    for i, call in enumerate(calls):   # as fuzz_written.c reads them: path and template, what is asked, tokens of a step; then what is drawn
        for path in range(4):
            s.put("written", f"{i}-{path}", bytes([path + 4 * i, 0x3F, 0x82]) + b"another\xf8<think>hm\xc3\xa4</think>Well " + call + b"\xf0\x9f\x98\x80\xfc\x01\x05\xf8")
            s.put("written", f"{i}-{path}-alone", bytes([path + 4 * i, 0x20, 0]) + call)
    head = b" HTTP/1.1\r\nHost: localhost\r\n"
    for name, text in (("get", b"GET /health" + head + b"\r\n"), ("head", b"HEAD /v1/models" + head + b"Origin: http://localhost\r\n\r\n"),
                       ("old", b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\n\r\n"),
                       ("options", b"OPTIONS /tokenize" + head + b"\r\n"), ("two", b"GET /props" + head + b"\r\nGET /%68ealth?a=b" + head + b"\r\n"),
                       ("post", b"POST /tokenize" + head + b"Content-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"prompt\": \"A\"}"),
                       ("chunked", b"POST /detokenize" + head + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                        b"f;x=y\r\n{\"tokens\": [1]}\r\n0\r\nX: y\r\n\r\n"), ("expect", b"POST /tokenize" + head + b"Expect: 100-continue\r\n\r\n")):
        s.put("http", name, text)


def main():
    s = Seeds(pathlib.Path(sys.argv[1]), "--small" in sys.argv)
    models(s)
    s.put("hf", "llama", hf_folder())
    s.put("hf", "longrope", hf_folder(**LONGROPE))
    s.put("hf", "lfm2", lfm2_folder())
    s.put("hf", "delta", delta_folder())
    for kind in QUANTIZED:
        s.put("hf", "quantized-" + kind, quantized_folder(kind))
    whole_folders(s)
    whole_ggufs(s)
    adapters(s)
    s.put("config", "llama", json.dumps(HF))
    s.put("config", "llama-longrope", json.dumps({**HF, **LONGROPE}))
    s.files("config", "tests/data/models/*/config.json", "fixtures/models/*/config.json", "data/models/*/config.json")
    s.files("json", "tests/data/models/llama*/config.json", "data/json/JSONTestSuite/*", "data/json/JSONTestSuite/*/*")
    s.put("json", "kinds", '{"a": [1, -2.5e3, true, null, "\\u00e9\\n"], "b": {}}')
    tokenizers(s)
    texts(s)
    chats(s)
    jinjas(s)
    answers(s)
    schemas(s)
    goldens(s)
    options(s)
    laboratory(s)
    servers(s)
    s.files("receipt", "tests/fuzz/corpus/receipt/*")
    s.files("audit", "tests/fuzz/corpus/audit/*")
    s.files("pth", "tests/data/pth/*.pth")
    s.files("gguf", "data/gguf-malformed/*", "data/gguf-small/*")
    s.put("pth", "zip", b"PK\x05\x06" + bytes(18))
    delta_gguf(s)
    for path in (s.out / "gguf").glob("seed-*"):
        s.put("ggufmodel", path.name.removeprefix("seed-"), pack({"model.gguf": path.read_bytes()}))
    s.put("gguf", "empty", struct.pack("<4sIQQ", b"GGUF", 3, 0, 0))
    s.put("llama2c", "smallest", struct.pack("<7i", 2, 1, 1, 1, 1, 1, 1) + bytes(4 * 32))


main()
