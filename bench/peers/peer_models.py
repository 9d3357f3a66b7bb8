"""One model for all: a tblock file with random weights becomes GGUF (F16, BF16) or a Hugging Face folder (bf16), the same numbers.

  peer_models.py MODEL.bin gguf OUT.gguf      MODEL.bin holds f16 or bf16; bits are copied, never rounded
  peer_models.py MODEL.bin mxfp4 OUT.gguf     the matrices in MXFP4 as the Python package gguf quantizes them
  peer_models.py MODEL.bin hf FOLDER          bf16

Tensors are read from the mapped file, and written, one at a time. Families and options beyond Llama's are refused."""
import json
import math
import os
import pathlib
import sys

import numpy as np

DTYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2"), "U8": np.dtype("u1")}
KNOWN = {"family", "d_model", "n_layers", "heads", "kv_heads", "head_dim", "d_ff", "vocab_size", "theta", "norm_eps", "n_ctx",
         "tied_embeddings", "rope", "bos", "eos"}


class ModelFile:
    def __init__(self, path):
        self.path, self.data = path, np.memmap(path, dtype=np.uint8, mode="r")
        length = int.from_bytes(self.data[:8].tobytes(), "little")
        self.header = json.loads(self.data[8:8 + length].tobytes())
        self.start = 8 + length
        c = json.loads(self.header.pop("__metadata__")["config"])
        ordinary = {k: v for k, v in c.items() if k in KNOWN or v in (False, 0, "rms", "pre", "swiglu", "rope")}
        rope = c.get("rope", {"type": "default"})["type"]
        if c.get("family", "llama") != "llama" or set(ordinary) != set(c) or rope not in ("default", "llama3"):
            raise SystemExit("%s: expected an ordinary Llama config, found %s" % (path, c))
        c.setdefault("kv_heads", c["heads"])
        c.setdefault("head_dim", c["d_model"] // c["heads"])
        c.setdefault("theta", 10000)
        c.setdefault("norm_eps", 1e-6)
        c.setdefault("n_ctx", 2048)
        c.setdefault("tied_embeddings", False)
        self.config = c
        self.type = self.header["layers.0.wq"]["dtype"]

    def stored(self, name):
        t = self.header[name]
        begin, end = t["data_offsets"]
        return self.data[self.start + begin:self.start + end].view(DTYPES[t["dtype"]]).reshape(t["shape"])

    def vector(self, name):
        return np.ascontiguousarray(self.stored(name), dtype="<f4")

    def matrix(self, name, rows):
        """[rows, k], whichever layout it is stored in (docs/format.md, panels)."""
        t = self.stored(name)
        if t.ndim == 4:    # bf16 panels [panels, k/2, 16, 2]
            t = t.transpose(0, 2, 1, 3).reshape(t.shape[0] * 16, -1)
        elif t.ndim == 3:  # f32, f16 panels [panels, k, 16]
            t = t.transpose(0, 2, 1).reshape(t.shape[0] * 16, -1)
        return np.ascontiguousarray(t[:rows])


def matrices(c):
    """(name, rows, k) of a layer, in the file's order."""
    d, q, kv = c["d_model"], c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    return [("wq", q, d), ("wk", kv, d), ("wv", kv, d), ("wo", d, q), ("w_gate", c["d_ff"], d), ("w_up", c["d_ff"], d), ("w_down", d, c["d_ff"])]


def tensors(m, names):
    """(outside name, shape, how to read it) of every tensor; names maps ours to theirs, with {} for the layer."""
    c = m.config
    d, v = c["d_model"], c["vocab_size"]
    yield names["embed"], (v, d), lambda: m.matrix("embed", v)
    for layer in range(c["n_layers"]):
        own = "layers.%d." % layer
        for name in ("attn_norm", "ffn_norm"):
            yield names[name].format(layer), (d,), lambda n=own + name: m.vector(n)
        for name, rows, k in matrices(c):
            heads = {"wq": c["heads"], "wk": c["kv_heads"]}.get(name)
            yield names[name].format(layer), (rows, k), lambda n=own + name, r=rows, h=heads: (m.matrix(n, r), h)
    yield names["final_norm"], (d,), lambda: m.vector("final_norm")
    if not c["tied_embeddings"]:
        yield names["lm_head"], (v, d), lambda: m.matrix("lm_head", v)


# ---- GGUF ----------------------------------------------------------------------------------------------------------

GGUF_NAMES = {"embed": "token_embd.weight", "attn_norm": "blk.{}.attn_norm.weight", "ffn_norm": "blk.{}.ffn_norm.weight",
              "wq": "blk.{}.attn_q.weight", "wk": "blk.{}.attn_k.weight", "wv": "blk.{}.attn_v.weight", "wo": "blk.{}.attn_output.weight",
              "w_gate": "blk.{}.ffn_gate.weight", "w_up": "blk.{}.ffn_up.weight", "w_down": "blk.{}.ffn_down.weight",
              "final_norm": "output_norm.weight", "lm_head": "output.weight"}


def neighbours(t, heads):
    """GGUF's Llama rotates neighbouring pairs, ours (i, i + head_dim / 2): rows of each head are interleaved."""
    return np.ascontiguousarray(t.reshape(heads, 2, -1, t.shape[1]).swapaxes(1, 2).reshape(t.shape))


def rope_factors(c):
    """What llama3's scaling divides each frequency by (llama.cpp reads it as a tensor)."""
    r, n = c["rope"], c["head_dim"] // 2
    out = []
    for i in range(n):
        frequency = c["theta"] ** (-i / n)
        turns = r["original_n_ctx"] * frequency / (2 * math.pi)
        if turns > r["high_freq_factor"]:
            out.append(1.0)
        elif turns < r["low_freq_factor"]:
            out.append(float(r["factor"]))
        else:
            smooth = (turns - r["low_freq_factor"]) / (r["high_freq_factor"] - r["low_freq_factor"])
            out.append(1 / ((1 - smooth) / r["factor"] + smooth))
    return np.array(out, dtype="<f4")


def floats(t):
    return t.astype("<f4") if t.dtype != np.dtype("<u2") else (t.astype("<u4") << 16).view("<f4")


def write_gguf(m, path, quantize=False):
    import gguf
    c = m.config
    kind, file_type = {"F16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
                       "BF16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16)}[m.type]
    if quantize:
        kind, file_type = gguf.GGMLQuantizationType.MXFP4, gguf.LlamaFileType.MOSTLY_MXFP4_MOE
    w = gguf.GGUFWriter(path, "llama")
    w.add_file_type(file_type)
    w.add_context_length(c["n_ctx"])
    w.add_embedding_length(c["d_model"])
    w.add_block_count(c["n_layers"])
    w.add_feed_forward_length(c["d_ff"])
    w.add_head_count(c["heads"])
    w.add_head_count_kv(c["kv_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_rope_freq_base(float(c["theta"]))
    w.add_layer_norm_rms_eps(c["norm_eps"])
    w.add_vocab_size(c["vocab_size"])
    w.add_tokenizer_model("no_vocab")
    listed = list(tensors(m, GGUF_NAMES))
    if c.get("rope", {}).get("type") == "llama3":
        listed.insert(0, ("rope_freqs.weight", (c["head_dim"] // 2,), lambda: rope_factors(c)))
    for name, shape, _ in listed:
        vector = len(shape) == 1
        block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType.F32 if vector else kind]
        stored = shape if vector or not quantize else shape[:-1] + (shape[-1] // block * size,)
        w.add_tensor_info(name, stored, np.dtype("float32" if vector else "uint8" if quantize else "float16"), math.prod(shape) // block * size,
                          raw_dtype=None if vector else kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    for _, _, read in listed:
        t = read()
        if isinstance(t, tuple):
            t = neighbours(*t) if t[1] else t[0]
        if quantize and t.ndim > 1:  # in pieces: the package tries all 16 codes of each weight at once
            t = np.concatenate([gguf.quants.quantize(floats(t[i:i + 512]), kind) for i in range(0, len(t), 512)])
        w.write_tensor_data(t if t.dtype != np.dtype("<u2") else t.view(np.uint8))
    w.close()


# ---- Hugging Face --------------------------------------------------------------------------------------------------

HF_NAMES = {"embed": "model.embed_tokens.weight", "attn_norm": "model.layers.{}.input_layernorm.weight",
            "ffn_norm": "model.layers.{}.post_attention_layernorm.weight", "wq": "model.layers.{}.self_attn.q_proj.weight",
            "wk": "model.layers.{}.self_attn.k_proj.weight", "wv": "model.layers.{}.self_attn.v_proj.weight",
            "wo": "model.layers.{}.self_attn.o_proj.weight", "w_gate": "model.layers.{}.mlp.gate_proj.weight",
            "w_up": "model.layers.{}.mlp.up_proj.weight", "w_down": "model.layers.{}.mlp.down_proj.weight",
            "final_norm": "model.norm.weight", "lm_head": "lm_head.weight"}


def hf_config(c):
    out = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "torch_dtype": "bfloat16",
           "hidden_size": c["d_model"], "num_hidden_layers": c["n_layers"], "num_attention_heads": c["heads"],
           "num_key_value_heads": c["kv_heads"], "head_dim": c["head_dim"], "intermediate_size": c["d_ff"], "vocab_size": c["vocab_size"],
           "rope_theta": float(c["theta"]), "rms_norm_eps": c["norm_eps"], "max_position_embeddings": c["n_ctx"],
           "tie_word_embeddings": c["tied_embeddings"], "attention_bias": False, "mlp_bias": False}
    if c.get("rope", {}).get("type") == "llama3":
        r = c["rope"]
        out["rope_scaling"] = {"rope_type": "llama3", "factor": float(r["factor"]), "low_freq_factor": float(r["low_freq_factor"]),
                               "high_freq_factor": float(r["high_freq_factor"]), "original_max_position_embeddings": r["original_n_ctx"]}
    return out


def bf16_of_vector(v):
    bits = v.view("<u4")
    if np.any(bits & 0xffff):
        raise SystemExit("a norm's weight is no bf16 number")
    return (bits >> 16).astype("<u2")


def write_hf(m, folder):
    if m.type != "BF16":
        raise SystemExit("%s: expected bf16 weights, found %s" % (m.path, m.type))
    folder.mkdir(parents=True, exist_ok=True)
    listed, header, offset = list(tensors(m, HF_NAMES)), {"__metadata__": {"format": "pt"}}, 0
    for name, shape, _ in listed:
        n = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + n]}
        offset += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, _, read in listed:
            t = read()
            t = t[0] if isinstance(t, tuple) else t
            f.write((bf16_of_vector(t) if t.dtype == np.dtype("<f4") else t).tobytes())
    (folder / "config.json").write_text(json.dumps(hf_config(m.config), indent=1))


def main():
    if len(sys.argv) != 4 or sys.argv[2] not in ("gguf", "mxfp4", "hf"):
        raise SystemExit(__doc__)
    m, target = ModelFile(sys.argv[1]), pathlib.Path(sys.argv[3])
    if sys.argv[2] == "hf":
        write_hf(m, target)
    else:
        part = target.with_suffix(".part")
        write_gguf(m, part, sys.argv[2] == "mxfp4")
        os.replace(part, target)


if __name__ == "__main__":
    main()
