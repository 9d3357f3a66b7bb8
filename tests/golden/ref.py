#!/usr/bin/env python3
"""A float64 reference of the Llama and Mistral forward pass, from a Hugging Face folder. It shares no code with the
C program or the converter: what they agree on with it, they did not copy from each other.

Everything is computed in float64 on weights that are exact in their stored type; only the results are rounded to
float32. Formulas: the Llama and Mistral papers; RoPE scaling in the order of transformers' modeling_rope_utils.py.

    ref.py FOLDER...        compare with FOLDER/golden.safetensors: logits, hidden states, attention, greedy tokens
"""
import json
import math
import pathlib
import struct
import sys

import numpy as np

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4", "I64": "<i8", "U8": "u1", "I8": "i1", "U32": "<u4", "U64": "<u8"}


def read_safetensors(path, widen=True):
    """{name: array}; with widen every float type becomes float64 (exactly), otherwise bf16 stays as its u2 bits."""
    data = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        a = np.frombuffer(data[8 + n + begin:8 + n + end], DTYPES[t["dtype"]])
        if widen and t["dtype"] == "BF16":
            a = (a.astype(np.uint32) << 16).view(np.float32)
        if widen and t["dtype"][0] in "FB":
            a = a.astype(np.float64)
        out[name] = a.reshape(t["shape"])
    return out


def write_safetensors(path, tensors, metadata=None):
    """tensors: {name: array of f4, f2, i4, or u2 for bf16}, written in the given order."""
    names = {v: k for k, v in DTYPES.items()}
    header, offset = {"__metadata__": metadata or {}}, 0
    for name, a in tensors.items():
        code = a.dtype.str.replace("|", "")
        header[name] = {"dtype": names[code], "shape": list(a.shape), "data_offsets": [offset, offset + a.nbytes]}
        offset += a.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in tensors.values():
            f.write(np.ascontiguousarray(a).tobytes())


def inv_freq(c, dim):
    """Rotary frequencies [dim / 2] and the factor on sine and cosine."""
    rope = c.get("rope_parameters") or c.get("rope_scaling") or {}
    theta = rope.get("rope_theta", c.get("rope_theta", 10000.0))
    kind = rope.get("rope_type", rope.get("type", "default"))
    f = 1.0 / theta ** (np.arange(0, dim, 2, dtype=np.float64) / dim)
    if kind == "default":
        return f, 1.0
    factor = rope["factor"]
    if kind == "linear":
        return f / factor, 1.0
    old = rope.get("original_max_position_embeddings") or c.get("original_max_position_embeddings") or c["max_position_embeddings"]
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        wavelength = 2 * math.pi / f
        smooth = (old / wavelength - low) / (high - low)
        between = (1 - smooth) * f / factor + smooth * f
        return np.where(wavelength > old / low, f / factor, np.where(wavelength < old / high, f, between)), 1.0
    if kind != "yarn":
        raise SystemExit(f"ref.py: rope type {kind} is not known")

    def dim_of(turns):  # the dimension that makes this many turns over the old context
        return dim * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(theta))

    def mscale(m):
        return 0.1 * m * math.log(factor) + 1.0 if factor > 1 else 1.0

    low, high = dim_of(rope.get("beta_fast") or 32), dim_of(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / ((high - low) or 0.001), 0, 1)
    scale = rope.get("attention_factor")
    if scale is None:
        both = rope.get("mscale") and rope.get("mscale_all_dim")
        scale = mscale(rope["mscale"]) / mscale(rope["mscale_all_dim"]) if both else mscale(1)
    return f / factor * ramp + f * (1 - ramp), scale


class Reference:
    def __init__(self, config, weights):
        self.c, self.w = config, weights
        self.heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        self.head_dim = config.get("head_dim") or config["hidden_size"] // self.heads
        default_window = 4096 if config.get("model_type") == "mistral" else None
        self.window = config.get("sliding_window", default_window) if config.get("model_type") == "mistral" else None

    @classmethod
    def from_folder(cls, folder):
        folder = pathlib.Path(folder)
        weights = {}
        for shard in sorted(folder.glob("model*.safetensors")):
            weights.update(read_safetensors(shard))
        return cls(json.loads((folder / "config.json").read_text()), weights)

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c.get("rms_norm_eps", 1e-6)) * self.w[name + ".weight"]

    def rope(self, x):  # [heads, T, head_dim], halves layout
        f, scale = inv_freq(self.c, self.head_dim)
        angle = np.arange(x.shape[1])[:, None] * f
        cos, sin = np.cos(angle) * scale, np.sin(angle) * scale
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def cached(self, x):  # [kv_heads, T, head_dim], as the KV cache gives it back
        return x

    def attention(self, x, name):
        def heads(y, n):
            return y.reshape(len(y), n, self.head_dim).transpose(1, 0, 2)

        q = self.rope(heads(self.linear(x, name + ".q_proj"), self.heads))
        k = self.rope(heads(self.linear(x, name + ".k_proj"), self.kv_heads))
        v = heads(self.linear(x, name + ".v_proj"), self.kv_heads)
        k, v = self.cached(k), self.cached(v)
        share = self.heads // self.kv_heads
        scores = q @ np.repeat(k, share, 0).transpose(0, 2, 1) / math.sqrt(self.head_dim)
        query, key = np.arange(len(x))[:, None], np.arange(len(x))
        visible = key <= query
        if self.window:
            visible &= key > query - self.window
        scores = np.where(visible, scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        out = (p @ np.repeat(v, share, 0)).transpose(1, 0, 2).reshape(len(x), -1)
        return self.linear(out, name + ".o_proj"), p

    def __call__(self, tokens):
        """Logits [T, vocab] in float64, and a dictionary of hidden states and attention as the golden files name them."""
        x = self.w["model.embed_tokens.weight"][np.asarray(tokens)]
        seen = {"hidden.embed": x}
        for i in range(self.c["num_hidden_layers"]):
            layer = f"model.layers.{i}."
            y, seen[f"attn.layer{i}"] = self.attention(self.norm(x, layer + "input_layernorm"), layer + "self_attn")
            x = x + y
            xn = self.norm(x, layer + "post_attention_layernorm")
            gate, up = self.linear(xn, layer + "mlp.gate_proj"), self.linear(xn, layer + "mlp.up_proj")
            x = x + self.linear(gate / (1 + np.exp(-gate)) * up, layer + "mlp.down_proj")
            seen[f"hidden.layer{i}"] = x
        x = seen["hidden.final_norm"] = self.norm(x, "model.norm")
        tied = self.c.get("tie_word_embeddings", False)
        return self.linear(x, "model.embed_tokens" if tied else "lm_head"), seen

    def greedy(self, tokens, n):
        """n tokens after tokens, each step from the whole sequence, and the smallest gap between best and second logit."""
        ids, margin = list(tokens), math.inf
        for _ in range(n):
            last = self(ids)[0][-1]
            second, best = np.partition(last, -2)[-2:]
            margin = min(margin, best - second)
            ids.append(int(last.argmax()))
        return ids[len(tokens):], margin


def compare(folder):
    """The largest difference from the folder's golden file, in units of float32 rounding of the largest value there."""
    golden, ref = read_safetensors(pathlib.Path(folder) / "golden.safetensors"), Reference.from_folder(folder)
    worst = {}
    for name in [n for n in golden if n.endswith(".tokens")]:
        prefix = name[:-len("tokens")]
        logits, seen = ref(golden[name])
        seen["logits_f64"] = logits
        for key, ours in seen.items():
            theirs = golden.get(prefix + key)
            if theirs is not None:
                kind = key.split(".")[0]
                worst[kind] = max(worst.get(kind, 0), np.abs(ours - theirs).max() / np.abs(theirs).max())
        n_greedy = min(24, len(golden[prefix + "greedy"]))
        if len(golden[name]) < 100:
            ids, _ = ref.greedy(golden[name], n_greedy)
            worst["greedy"] = worst.get("greedy", 0) + int((np.array(ids) != golden[prefix + "greedy"][:n_greedy]).sum())
    return worst


def main(folders):
    failures = 0
    for folder in folders:
        name = "ref_" + pathlib.Path(folder).name
        if not (pathlib.Path(folder) / "golden.safetensors").exists():
            print(f"skip {name}: no data")
            continue
        worst = compare(folder)
        good = all(v <= 1.5e-7 for v in worst.values())
        text = ", ".join(f"{k} {v:.1e}" for k, v in worst.items())
        print(f"ok {name}" if good else f"FAIL {name}: relative difference {text}; expected at most 1.5e-7")
        print(f"  {name}: {text}", file=sys.stderr)
        failures += not good
    return failures > 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
