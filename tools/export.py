#!/usr/bin/env python3
"""Write a model file that transformers' Llama, SmolLM3 or Ministral3 computes as a Hugging Face folder: tools/export.py model.bin -o FOLDER.

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
# The keys of the config (docs/format.md) that are written; of each other, what transformers' classes below compute, and nothing else.
WRITTEN = ("family d_model n_layers heads kv_heads head_dim d_ff vocab_size theta norm_eps n_ctx tied_embeddings qkv_bias out_bias ffn_bias "
           "rope rotary_dim no_rope_layers query_scale query_scale_length bos eos").split()
FIXED = {"norm": "rms", "norm_placement": "pre", "ffn": "swiglu", "positions": "rope", "router_score": "softmax",
         **dict.fromkeys("embed_scale residual_scale logit_scale expert_scale".split(), 1), **dict.fromkeys("full_layers dense_layers".split(), []),
         **dict.fromkeys("pool dense1_act dense2_act".split(), "none"), "state_layers": [],
         **dict.fromkeys("headless head_bias qk_norm norm_bias qk_norm_after_rope window_chunked bidirectional query_scale_unrotated attn_sinks attn_gate "
                         "conv_bias delta_tiled router_bias expert_bias choice_bias group_by_largest renormalize shared_router "
                         "expert_input_scaled dense1_bias dense2_bias labels".split(), False),
         **dict.fromkeys("window theta_window attn_scale attn_softcap logit_softcap gate_limit gate_alpha kv_lora q_lora nope_dim v_dim "
                         "latent_norm_eps conv_taps delta_heads delta_key_heads delta_key_dim delta_value_dim qkv_clip n_experts experts_used "
                         "expert_d_ff shared_d_ff expert_groups groups_used renormalize_min renormalize_add mtp_layers dense1 dense2".split(), 0)}
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
    for name in sorted(m.header.keys() - {ours for _, ours, _, _ in order}):
        if not name.startswith(("tok.", "pad.")):
            raise Refused(f"{m.path}: tensor {name}: expected no such tensor in a model with this config, found one: it may change what is computed")
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, ours, rows, k in order:
            f.write(m.matrix(ours, rows, k)[1].tobytes())


# ---- Config ----

def chosen_class(m):
    """The class of transformers that computes the model; refuses one that none computes, whatever of it has no place there."""
    c, rope = m.config, m.config.get("rope", {})

    def no(key, expected, found, why="transformers' Llama has no such part"):
        raise Refused(f"{m.path}: config: {key}: expected {expected}, found {found}: {why}")
    for key, value in c.items():
        if key not in WRITTEN and key not in FIXED:
            no(key, "a key of docs/format.md", json.dumps(value), "it may change what is computed")
        if key in FIXED and value != FIXED[key] and not (key == "qk_norm" and value == "none"):
            no(key, json.dumps(FIXED[key]), json.dumps(value))
    kind = rope.get("type", "default")
    if kind not in ("default", *ROPE):
        no("rope", "default, linear, llama3 or yarn", kind)
    for key in rope:
        if key != "type" and key not in ROPE.get(kind, ()):
            no("rope", "type" + "".join(", " + k for k in ROPE.get(kind, ())), key, "it may change what is computed")
    head = c.get("head_dim") or c["d_model"] // c["heads"]
    if c.get("rotary_dim", head) != head:
        no("rotary_dim", f"{head}, all of a head", c["rotary_dim"])
    if bool(c.get("qkv_bias")) != bool(c.get("out_bias")):
        raise Refused(f"{m.path}: config: qkv_bias and out_bias: expected both or none, as transformers' attention_bias")
    if not c.get("query_scale"):
        return "SmolLM3" if c.get("no_rope_layers") else "Llama"
    for key in ("no_rope_layers", "qkv_bias", "ffn_bias"):
        if c.get(key):
            no(key, "none beside query_scale", json.dumps(c[key]), "transformers' Ministral3 has no such part")
    if kind != "yarn" or c.get("query_scale_length") != rope.get("original_n_ctx"):
        no("query_scale_length", "original_n_ctx of a yarn rope", c.get("query_scale_length"), "transformers' Ministral3 has one key for both")
    return "Ministral3"


def hf_config(m):
    c, kind = m.config, chosen_class(m)
    dtype = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(m.raw("layers.0.wq")[0]["dtype"])
    out = {"architectures": [kind + "ForCausalLM"], "model_type": kind.lower(), "hidden_act": "silu", "hidden_size": c["d_model"],
           "intermediate_size": c["d_ff"], "num_hidden_layers": c["n_layers"], "num_attention_heads": c["heads"],
           "num_key_value_heads": c.get("kv_heads", c["heads"]), "head_dim": c.get("head_dim") or c["d_model"] // c["heads"],
           "vocab_size": c["vocab_size"], "max_position_embeddings": c.get("n_ctx", 2048), "rms_norm_eps": c.get("norm_eps", 1e-6),
           "rope_theta": c.get("theta", 10000.0), "tie_word_embeddings": bool(c.get("tied_embeddings")), "torch_dtype": dtype}
    if kind != "Ministral3":
        out.update({"attention_bias": bool(c.get("qkv_bias")), "mlp_bias": bool(c.get("ffn_bias"))})
    rope = c.get("rope", {"type": "default"})
    if rope.get("type", "default") != "default":
        out["rope_scaling"] = {"rope_type": rope["type"], **{theirs: rope[ours] for ours, theirs in ROPE[rope["type"]].items() if ours in rope}}
    if kind == "SmolLM3":
        out.update({"no_rope_layers": [int(i not in c["no_rope_layers"]) for i in range(c["n_layers"])], "use_sliding_window": False,
                    "sliding_window": None, "layer_types": ["full_attention"] * c["n_layers"]})
    if kind == "Ministral3":
        out["rope_parameters"] = {**out.pop("rope_scaling"), "rope_theta": out.pop("rope_theta"), "llama_4_scaling_beta": c["query_scale"]}
        out["sliding_window"] = None
    if kind != "Llama":
        out["pad_token_id"] = None   # their classes name one, of their own vocabulary
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


def sync(path):
    """A file's data, or a folder's names, are there after a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_folder(m, output):
    """All of it or nothing. What fails here failed to be written: the model file is mapped."""
    temporary = None
    try:
        temporary = tempfile.mkdtemp(prefix=".export-", dir=os.path.dirname(os.path.abspath(output)))
        export(m, temporary)
        os.chmod(temporary, 0o755)
        for path in [*(os.path.join(temporary, name) for name in os.listdir(temporary)), temporary]:
            sync(path)
        os.rename(temporary, output)
        sync(os.path.dirname(os.path.abspath(output)))
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
