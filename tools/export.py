#!/usr/bin/env python3
"""Write a model file of the Llama family as a Hugging Face folder: tools/export.py model.bin -o FOLDER.

The folder has config.json, generation_config.json, model.safetensors (each tensor in the type that it is stored in), tokenizer.json
and tokenizer_config.json with the chat template. A tokenizer that no tokenizer.json says, such as SentencePiece's, is left out with a
warning. The folder is written under another name and renamed when complete; one that is there is not touched. Quantized weights are refused:
`tblock quantize --type f32` widens them.
Exit status: 2 wrong usage, 3 a file that cannot be exported, 4 the system failed, 130 interrupted."""
import argparse
import errno
import json
import mmap
import os
import shutil
import signal
import stat
import struct
import sys
import tempfile

from export_tokenizer import LeftOut, tokenizer_config, tokenizer_json

DTYPES = {"F32": ("<f4", 4), "F16": ("<f2", 2), "BF16": ("<u2", 2)}
# our name in a layer: (name in transformers, has a bias where this key of the config says so)
LAYER = {"wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj", "wo": "self_attn.o_proj", "w_gate": "mlp.gate_proj",
         "w_up": "mlp.up_proj", "w_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
OUTER = {"embed": "model.embed_tokens.weight", "final_norm": "model.norm.weight", "lm_head": "lm_head.weight"}
# what transformers' LlamaForCausalLM computes, and nothing else
FIXED = {"norm": ("rms",), "norm_placement": ("pre",), "ffn": ("swiglu",), "qk_norm": (False, "none"), "window": (0,), "positions": ("rope",),
         "embed_scale": (1,), "residual_scale": (1,), "logit_scale": (1,), "attn_scale": (0,), "attn_softcap": (0,), "logit_softcap": (0,),
         "n_experts": (0,)}
ROPE = {"linear": {"factor": "factor"},
        "llama3": {"factor": "factor", "low_freq_factor": "low_freq_factor", "high_freq_factor": "high_freq_factor",
                   "original_n_ctx": "original_max_position_embeddings"},
        "yarn": {"factor": "factor", "original_n_ctx": "original_max_position_embeddings", "beta_fast": "beta_fast", "beta_slow": "beta_slow",
                 "attention_factor": "attention_factor", "mscale": "mscale", "mscale_all_dim": "mscale_all_dim", "truncate": "truncate"}}


# what is wrong with the name of a file, not with the system (as src/base/file.c has it)
NAMES_NONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO, errno.EISDIR)


class Refused(Exception):
    """What cannot be exported: one line, exit status 3."""


class SystemFailed(Exception):
    """One line, exit status 4."""


# ---- The model file ----

def mapped(path):
    """A regular file alone: opening a pipe would wait for its writer."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise Refused(f"{path}: expected a model file, found {'a folder' if stat.S_ISDIR(mode) else 'something that is not a regular file'}")
        with open(path, "rb") as f:
            return mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) if os.fstat(f.fileno()).st_size else b""
    except OSError as e:
        raise (Refused if e.errno in NAMES_NONE else SystemFailed)(f"{path}: cannot open: {e.strerror}") from None


class ModelFile:
    def __init__(self, path):
        self.path = path
        self.bytes = mapped(path)
        if len(self.bytes) < 8 or struct.unpack_from("<Q", self.bytes)[0] > len(self.bytes) - 8:
            raise Refused(f"{path}: expected a model file, found {len(self.bytes)} bytes without a safetensors header")
        n = struct.unpack_from("<Q", self.bytes)[0]
        try:
            self.header = json.loads(self.bytes[8:8 + n])
        except (ValueError, RecursionError) as e:
            raise Refused(f"{path}: header: {e}") from None
        self.meta, self.data = self.header.pop("__metadata__", {}), 8 + n
        if self.meta.get("format") != "tblock":
            raise Refused(f"{path}: metadata format: expected tblock, a model file, found {self.meta.get('format')}")
        if "config" not in self.meta:
            raise Refused(f"{path}: metadata config: expected one, found none (a tokenizer without weights?)")
        self.config = json.loads(self.meta["config"])

    def raw(self, name):
        t = self.header.get(name)
        if t is None:
            raise Refused(f"{self.path}: tensor {name}: expected one, found no such tensor")
        begin, end = t["data_offsets"]
        if not 0 <= begin <= end <= len(self.bytes) - self.data:
            raise Refused(f"{self.path}: tensor {name}: the file is cut short")
        return t, self.bytes[self.data + begin:self.data + end]

    def matrix(self, name, rows, k):
        """(dtype, rows one after the other) of a matrix in panels or rows; k 0: a vector."""
        import numpy as np
        t, data = self.raw(name)
        if f"type.{name}" in self.meta or t["dtype"] not in DTYPES:
            raise Refused(f"{self.path}: tensor {name}: expected f32, f16 or bf16, found {self.meta.get('type.' + name, t['dtype'])}: "
                          f"tblock quantize --type f32 widens it")
        a, panels = np.frombuffer(data, DTYPES[t["dtype"]][0]), -(-rows // 16)
        if t["shape"] == ([rows, k] if k else [rows]):
            return t["dtype"], a.reshape(t["shape"])
        if t["dtype"] == "BF16" and t["shape"] == [panels, -(-k // 2), 16, 2]:
            return "BF16", a.reshape(panels, -1, 16, 2).transpose(0, 2, 1, 3).reshape(panels * 16, -1)[:rows, :k].copy()
        if t["shape"] == [panels, k, 16]:
            return t["dtype"], a.reshape(panels, k, 16).transpose(0, 2, 1).reshape(panels * 16, k)[:rows].copy()
        raise Refused(f"{self.path}: tensor {name}: expected [{rows}, {k}] or its panels, found {t['shape']}")


# ---- Weights ----

def tensors(m):
    """(name in transformers, our name, rows, k), in the order of the file."""
    c = m.config
    d, head = c["d_model"], c.get("head_dim") or c["d_model"] // c["heads"]
    q, kv, ff = c["heads"] * head, c.get("kv_heads", c["heads"]) * head, c["d_ff"]
    yield OUTER["embed"], "embed", c["vocab_size"], d
    shapes = {"attn_norm": (d, 0), "wq": (q, d), "wk": (kv, d), "wv": (kv, d), "wo": (d, q), "ffn_norm": (d, 0), "w_gate": (ff, d), "w_up": (ff, d),
              "w_down": (d, ff)}
    for layer in range(c["n_layers"]):
        for part, (rows, k) in shapes.items():
            name, ours = f"model.layers.{layer}.{LAYER[part]}", f"layers.{layer}.{part}"
            yield name + ".weight", ours, rows, k
            if ours + "_bias" in m.header:
                yield name + ".bias", ours + "_bias", rows, 0
    yield OUTER["final_norm"], "final_norm", d, 0
    if not c.get("tied_embeddings"):
        yield OUTER["lm_head"], "lm_head", c["vocab_size"], d


def write_weights(m, path):
    """Headers first, so that one tensor at a time is in memory."""
    header, at, order = {"__metadata__": {"format": "pt"}}, 0, list(tensors(m))
    for name, ours, rows, k in order:
        dtype = m.raw(ours)[0]["dtype"]
        if dtype not in DTYPES:
            m.matrix(ours, rows, k)
        n = rows * (k or 1) * DTYPES[dtype][1]
        header[name] = {"dtype": dtype, "shape": [rows, k] if k else [rows], "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, ours, rows, k in order:
            f.write(m.matrix(ours, rows, k)[1].tobytes())


# ---- Config ----

def check_family(m):
    for key, values in FIXED.items():
        if m.config.get(key, values[0]) not in values:
            raise Refused(f"{m.path}: config: {key}: expected {values[0]}, found {m.config[key]}: transformers' Llama has no such part")
    head = m.config.get("head_dim") or m.config["d_model"] // m.config["heads"]
    if m.config.get("rotary_dim", head) != head:
        raise Refused(f"{m.path}: config: rotary_dim: expected {head}, all of a head, found {m.config['rotary_dim']}: transformers' Llama "
                      f"has no such part")
    if bool(m.config.get("qkv_bias")) != bool(m.config.get("out_bias")):
        raise Refused(f"{m.path}: config: qkv_bias and out_bias: expected both or none, as transformers' attention_bias")
    if m.config.get("rope", {}).get("type", "default") not in ("default", *ROPE):
        raise Refused(f"{m.path}: config: rope: expected default, linear, llama3 or yarn, found {m.config['rope']['type']}")


def hf_config(m):
    c = m.config
    dtype = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(m.raw("layers.0.wq")[0]["dtype"])
    out = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": c["d_model"],
           "intermediate_size": c["d_ff"], "num_hidden_layers": c["n_layers"], "num_attention_heads": c["heads"],
           "num_key_value_heads": c.get("kv_heads", c["heads"]), "head_dim": c.get("head_dim") or c["d_model"] // c["heads"],
           "vocab_size": c["vocab_size"], "max_position_embeddings": c.get("n_ctx", 2048), "rms_norm_eps": c.get("norm_eps", 1e-6),
           "rope_theta": c.get("theta", 10000.0), "tie_word_embeddings": bool(c.get("tied_embeddings")),
           "attention_bias": bool(c.get("qkv_bias")), "mlp_bias": bool(c.get("ffn_bias")), "torch_dtype": dtype}
    rope = c.get("rope", {"type": "default"})
    if rope.get("type", "default") != "default":
        out["rope_scaling"] = {"rope_type": rope["type"], **{theirs: rope[ours] for ours, theirs in ROPE[rope["type"]].items() if ours in rope}}
    bos, eos = c.get("bos", -1), c.get("eos", [])
    out["bos_token_id"] = bos if bos >= 0 else None
    out["eos_token_id"] = None if not eos else eos[0] if len(eos) == 1 else eos
    return out


# ---- The folder ----

def export(m, folder):
    def put(name, value):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(value, f, indent=2, ensure_ascii=False)
            f.write("\n")

    def warn(text):
        print(f"export.py: warning: {m.path}: {text}", file=sys.stderr)
    check_family(m)
    config, tokenizer = hf_config(m), None
    put("config.json", config)
    put("generation_config.json", {k: config[k] for k in ("bos_token_id", "eos_token_id") if config[k] is not None})
    if "tokenizer" in m.meta:
        try:
            tokenizer = tokenizer_json(m)
            put("tokenizer.json", tokenizer)
        except LeftOut as e:
            warn(f"the tokenizer is left out: {e}")
    settings = tokenizer_config(m, tokenizer)
    if settings:
        put("tokenizer_config.json", settings)
    if "chat" in m.meta and "chat_template" not in m.meta:
        name = json.loads(m.meta["chat"]).get("name", "custom")
        warn(f"the chat entry {name} is left out: expected a template in Jinja (metadata chat_template), found none")
    write_weights(m, os.path.join(folder, "model.safetensors"))


def write_folder(m, output):
    """All of it or nothing. What fails here failed to be written: the model file is mapped."""
    temporary = None
    try:
        temporary = tempfile.mkdtemp(prefix=".export-", dir=os.path.dirname(os.path.abspath(output)))
        export(m, temporary)
        os.chmod(temporary, 0o755)
        os.rename(temporary, output)
    except OSError as e:
        parent = os.path.dirname(os.path.abspath(output))
        why = e.strerror or e if os.path.isdir(parent) else f"no folder {os.path.dirname(output.rstrip('/')) or '.'}"
        raise SystemFailed(f"{output}: cannot be written: {why}") from None
    finally:
        if temporary and os.path.exists(temporary):
            shutil.rmtree(temporary)


def main():
    parser = argparse.ArgumentParser(prog="export.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model file")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="the folder to write; it must not exist")
    a = parser.parse_args()
    if not a.output:
        parser.error("-o: expected a folder name, found an empty one")
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.default_int_handler)
    try:
        if os.path.lexists(a.output):
            raise Refused(f"{a.output}: expected a new folder, found an existing one")
        write_folder(ModelFile(a.model), a.output)
        return 0
    except Refused as e:
        print(f"export.py: {e}", file=sys.stderr)
        return 3
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        print(f"export.py: {a.model}: expected a whole model file, found a damaged one ({type(e).__name__}: {e}): tblock info shows where",
              file=sys.stderr)
        return 3
    except ImportError:
        print("export.py: Python package numpy: expected one that can be imported, found none (pip install numpy)", file=sys.stderr)
        return 4
    except SystemFailed as e:
        print(f"export.py: {e}", file=sys.stderr)
        return 4
    except MemoryError:
        print(f"export.py: {a.model}: out of memory", file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        print("export.py: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
