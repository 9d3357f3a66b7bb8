#!/usr/bin/env python3
"""Check receipts (docs/receipts.md) without tblock: tools/verify_receipt.py model.bin RECEIPT...

Written from docs/numerics.md, format.md and receipts.md, in Python and numpy alone, for dense Llama models with f32, bf16 or q8
matrices in their default modes, a byte-level BPE tokenizer or none, and no constraint. All else is refused by name.
Exit status: 0 all hold, 1 one does not, 2 wrong usage, 3 a file that cannot be read or is not covered."""
import argparse
import hashlib
import json
import math
import pathlib
import re
import sys
from fractions import Fraction

import numpy as np

f32, f64, i64, hexa = np.float32, np.float64, np.int64, float.fromhex
BLOCK = 64  # tokens of a block of a receipt; positions of a tile of attention

def need(truth, why):
    if not truth:
        raise ValueError(why)

def read_json(data):
    def once(pairs):
        need(len(dict(pairs)) == len(pairs), "JSON: a key is there twice")
        return dict(pairs)
    return json.loads(data.decode(), object_pairs_hook=once)

def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()

# ---- Arithmetic of floats: numerics.md ----
def two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)  # a + b exactly (Knuth)

def fma(a, b, c):
    """a * b + c, rounded once. The product of two floats is exact as a double. The sum is rounded to a double and then to a float,
    which is one rounding too many only where the double lies in the middle between two floats, or they are subnormal. There the
    double is first rounded to odd: inexact and even, it becomes its neighbour on the side of the exact sum."""
    p, c = np.multiply(a, b, dtype=f64), np.asarray(c, f64)
    s = np.atleast_1d(p + c)
    doubtful = (s.view(i64) & 0x1FFFFFFF == 0x10000000) | (np.abs(s) < 2.0**-126)
    if doubtful.any():
        p, c = (np.broadcast_to(a, s.shape)[doubtful] for a in (p, c))
        bits, error = s[doubtful].view(i64), two_sum(p, c)[1]
        away = np.where((error > 0) == (bits >= 0), 1, -1)
        s[doubtful] = (bits + np.where((np.abs(error) > 0) & (bits % 2 == 0), away, 0)).view(f64)
    return s.astype(f32)

def sum16(v, square=False):
    """The 16-lane sum along the last axis, which stays."""
    lanes = np.zeros((*v.shape[:-1], 16), f32)
    for i in range(0, v.shape[-1], 16):
        x, lane = v[..., i:i + 16], lanes[..., :v.shape[-1] - i]
        lane[...] = fma(x, x, lane) if square else lane + x
    for half in (8, 4, 2, 1):
        lanes = lanes[..., :half] + lanes[..., half:2 * half]
    return lanes

EXP = [f32(hexa(c)) for c in "0x1.6ac71cp-10 0x1.123ddep-7 0x1.555858p-5 0x1.55548cp-3 0x1.fffffcp-2 1 1".split()]

def exp(x):
    n, p = fma(x, f32(hexa("0x1.715476p+0")), f32(hexa("0x1.8p23"))) - f32(hexa("0x1.8p23")), EXP[0]
    r = fma(n, f32(hexa("0x1.05c610p-29")), fma(n, f32(hexa("-0x1.62e430p-1")), x))
    for c in EXP[1:]:
        p = fma(p, r, c)
    p = (p.view(np.int32) + (n.astype(np.int32) << 23)).view(f32)
    return np.where(x > f32(88.72283), f32(np.inf), np.where(x < f32(-87.33654), f32(0), p))  # a NaN stays one

def silu(x):
    return np.where(x < f32(-88.72283), f32(-0.0), x / (1 + exp(-x)))

def rms_norm(x, w, eps):
    return x * (1 / np.sqrt(sum16(x, square=True) / f32(x.shape[-1]) + f32(eps))) * w

def attention(q, k, v):
    """q [n_tok, heads, head_dim], k and v [n_tok, kv_heads, head_dim] to [n_tok, heads * head_dim]."""
    n, heads, dim = q.shape
    q, k, v = q.transpose(1, 0, 2), *(np.repeat(a.transpose(1, 0, 2), heads // a.shape[1], axis=0) for a in (k, v))
    scale, run_m, run_l, run_o = f32(1 / math.sqrt(dim)), *(np.zeros((heads, n, size), f32) for size in (1, 1, dim))
    for t0 in range(0, n, BLOCK):
        tile, asks = slice(t0, min(t0 + BLOCK, n)), slice(t0, n)  # earlier queries see nothing of this tile
        sees = np.arange(n)[tile] <= np.arange(n)[asks, None]
        s, o = np.zeros((heads, *sees.shape), f32), np.zeros((heads, n - t0, dim), f32)
        for d in range(dim):
            s = fma(q[:, asks, d, None], k[:, None, tile, d], s)
        s = np.where(sees, s * scale, f32(-np.inf))
        m = s.max(-1, keepdims=True)
        p = np.where(sees, exp(s - m), f32(0))
        for t in range(sees.shape[1]):
            o = np.where(sees[:, t, None], fma(p[:, :, t, None], v[:, None, t0 + t], o), o)
        new_m, tile_l = np.maximum(run_m[:, asks], m) if t0 > 0 else m, sum16(p)
        run_by, tile_by = exp(run_m[:, asks] - new_m), exp(m - new_m)
        run_m[:, asks] = new_m
        run_l[:, asks] = fma(run_l[:, asks], run_by, tile_l * tile_by) if t0 > 0 else tile_l
        run_o[:, asks] = fma(run_o[:, asks], run_by, o * tile_by) if t0 > 0 else o
    return (run_o * (1 / run_l)).transpose(1, 0, 2).reshape(n, -1)

# ---- Rotation, in double: numerics.md, "Logarithm, power, sine and cosine" ----
def power(x, y):
    """x^y, for 1 < x and 0 <= y < 1. Pairs of doubles are sums with about 100 bits."""
    def product(a, b):
        return a * b, float(Fraction(a) * Fraction(b) - Fraction(a * b))
    ln2, ln2_low, (m, e), series, taylor = hexa("0x1.62e42feep-1"), hexa("0x1.a39ef35793c76p-33"), math.frexp(x), 0.0, 0.0
    m, e = (2 * m, e - 1) if 2 * m <= hexa("0x1.6a09e667f3bcdp+0") else (m, e)
    d, d_low = two_sum(m, 1.0)
    s = (m - 1) / d
    p, p_low = product(s, d)
    s_low, z = (((m - 1 - p) - p_low) - s * d_low) / d, s * s
    for k in range(25, 1, -2):
        series = series * z + 1 / k
    high, low = two_sum(e * ln2, 2 * s)
    low = low + (2 * s_low + (2 * s * z * series + e * ln2_low))
    p, p_low = product(y, high + low)
    p_low += y * (low - ((high + low) - high))
    n = round(p * hexa("0x1.71547652b82fep+0"))
    r = (p - n * ln2) + (p_low - n * ln2_low)
    for k in range(15, 1, -1):
        taylor = taylor * r + 1 / math.factorial(k)
    return math.ldexp(1 + (r + (r * r) * taylor), n)

def sine_cosine(angle):
    n, p = np.rint(angle * hexa("0x1.45f306dc9c883p-1")), [0.0, 0.0]
    r = ((angle - n * hexa("0x1.921fb54p+0")) - n * hexa("0x1.10b4610p-30")) - n * hexa("0x1.a62633145c06ep-58")
    z, quarter = r * r, n.astype(i64) & 3
    for k in range(18, 1, -1):  # even: of the cosine, odd: of the sine
        p[k % 2] = 1 / math.factorial(k) - z * p[k % 2]
    sine, cosine = r - r * z * p[1], 1.0 - z * p[0]
    return np.choose(quarter, [sine, cosine, -sine, -cosine]), np.choose(quarter, [cosine, -sine, -cosine, sine])

def frequency(c, i):
    f, rope = 1 / power(c["theta"], 2.0 * i / c["head_dim"]), c["rope"]
    if rope["type"] == "default":
        return f
    n, low, high, factor = (float(rope[key]) for key in ("original_n_ctx", "low_freq_factor", "high_freq_factor", "factor"))
    length = 2 * math.pi / f
    smooth = (n / length - low) / (high - low)
    return f / factor if length > n / low else f if length < n / high else (1 - smooth) * f / factor + smooth * f

def rotate(x, sine, cosine):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([fma(a, cosine, -(b * sine)), fma(b, cosine, a * sine)], axis=-1)

# ---- The model: format.md ----
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I8": "<i1", "U8": "<u1", "I32": "<i4", "U32": "<u4"}
SIZES = "d_model n_layers heads kv_heads head_dim d_ff vocab_size n_ctx theta norm_eps family rope bos eos tied_embeddings".split()
PLAIN = {"norm": "rms", "norm_placement": "pre", "ffn": "swiglu", "positions": "rope"}  # of other keys: 0, false or []

class Matrix:
    """W [rows, k] of y = W x."""
    def __init__(self, model, name, rows, k, bits=16):
        a, panels, self.bits = model.tensor(name), -(-rows // 16), bits  # of the activations that q8 is multiplied with
        self.kind = model.meta.get("type." + name, model.header[name]["dtype"]).lower()
        shape = {"f32": (panels, k, 16), "bf16": (panels, -(-k // 2), 16, 2), "q8": (panels, -(-k // 64) * 16, 16, 4)}.get(self.kind)
        row_major = self.kind != "q8" and a.shape == (rows, k)
        need(row_major or a.shape == shape, f"{name}: this verifier computes f32, bf16 and q8 of [{rows}, {k}], not {self.kind} {a.shape}")
        self.w = a if row_major else np.moveaxis(a, 2, 1).reshape(panels * 16, -1)[:rows, :k]
        self.n_bytes = sum(len(model.bytes(part)) for part in (name, name + ".d") if part in model.header)
        if self.kind == "q8":
            self.d = np.moveaxis(model.tensor(name + ".d"), 2, 1).reshape(panels * 16, -1)[:rows].astype(f32)

    def rows(self, ids):
        w = self.w[ids].astype(f32)
        return w * np.repeat(self.d[ids], 256, axis=1)[:, :w.shape[1]] if self.kind == "q8" else w

    def times(self, x):
        """x [n_tok, k] to [n_tok, rows]."""
        y = np.zeros((len(x), len(self.w)), f32)
        if self.kind == "q8":
            n_runs, each, most = -(-x.shape[1] // 32), *((256, 32512) if self.bits == 16 else (32, 127))
            x, codes = (np.pad(a, ((0, 0), (0, -a.shape[1] % 256))).reshape(len(a), -1, each) for a in (x, self.w))
            largest = np.abs(x).view(np.int32).max(-1).view(f32)
            d = np.where(np.isfinite(largest), np.where(largest < f32(2.0**-100), f32(0), largest / f32(most)), f32(np.nan))
            q = np.where((d > 0)[..., None], np.rint(x * (1 / d)[..., None]), 0).astype(f64)
            sums = lambda i: (q[:, i] @ codes[:, i].T.astype(f64)).astype(f32)  # integers under 2^53, exact in any order
            for s in range(self.d.shape[1]):
                if self.bits == 16:
                    y = fma(self.d[:, s] * d[:, s, None], sums(s), y)
                    continue
                c = np.zeros_like(y)
                for run in range(8 * s, min(8 * s + 8, n_runs)):
                    c = fma(d[:, run, None], sums(run), c)
                y = fma(self.d[:, s], c, y)
            return y
        w, x = np.ascontiguousarray(self.w.T, f64), x.T.astype(f64)
        for chunk in range(0, len(w), 256):
            c = np.zeros_like(y)
            for k in range(chunk, min(chunk + 256, len(w))):
                c = fma(x[k][:, None], w[k], c)
            y = y + c
        return y

class Model:
    def __init__(self, path):
        raw = pathlib.Path(path).read_bytes()
        size, at = 8 + int.from_bytes(raw[:8], "little"), 0
        self.header, self.data, self.pieces = read_json(raw[8:size]), memoryview(raw)[size:], None
        self.meta = self.header.pop("__metadata__")
        need((self.meta["format"], self.meta["version"], size % 4096) == ("tblock", "1", 0), "expected a model file of tblock, version 1")
        for name, t in self.header.items():
            n_bytes = math.prod(t["shape"]) * np.dtype(DTYPES[t["dtype"]]).itemsize
            need(t["data_offsets"] == [at, at + n_bytes], f"tensor {name}: offsets")
            at += n_bytes
        found = sha256(self.data).hex()
        need(at == len(self.data) and self.meta.get("sha256", found) == found, f"sha256 of the data: not that of the header, {found}")
        self.read_weights()
        if "tokenizer" in self.meta:
            need(read_json(self.meta["tokenizer"].encode())["type"] == "bpe", "this verifier has no tokenizer but bpe")
            text, ends = self.bytes("tok.bytes"), self.tensor("tok.offsets").tolist()
            self.pieces = [text[a:b] for a, b in zip(ends, ends[1:])]
        self.facts = self.read_facts(found)

    def bytes(self, name):
        return self.data[slice(*self.header[name]["data_offsets"])]

    def tensor(self, name):
        a = np.frombuffer(self.bytes(name), DTYPES[self.header[name]["dtype"]]).reshape(self.header[name]["shape"])
        return (a.astype(np.uint32) << 16).view(f32) if self.header[name]["dtype"] == "BF16" else a

    def read_weights(self):
        c = read_json(self.meta["config"].encode())
        self.c = c = {"theta": 10000, "norm_eps": 1e-6, "n_ctx": 2048, "kv_heads": c["heads"], "rope": {"type": "default"},
                      "head_dim": c["d_model"] // c["heads"], **c}
        others = [f"{key} {c[key]}" for key in c if key not in SIZES and c[key] and c[key] != PLAIN.get(key)]
        others += ["rope " + c["rope"]["type"]] if c["rope"]["type"] not in ("default", "llama3") else []
        need(not others, f"config: this verifier does not compute {', '.join(others)}")
        d, ff, q, kv = c["d_model"], c["d_ff"], c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
        shapes = {"wq": (q, d), "wk": (kv, d), "wv": (kv, d), "wo": (d, q), "w_gate": (ff, d), "w_up": (ff, d), "w_down": (d, ff)}
        wide = lambda i, name: name in ("wq", "wk", "wv") or (i in (0, c["n_layers"] - 1) and name != "wo")  # "Modes"
        self.layers = [{name: Matrix(self, f"layers.{i}.{name}", *shape, 16 if wide(i, name) else 8) for name, shape in shapes.items()}
                       for i in range(c["n_layers"])]
        self.norms = [[self.tensor(f"layers.{i}.{name}").astype(f32) for name in ("attn_norm", "ffn_norm")] for i in range(c["n_layers"])]
        self.final_norm, self.embed = self.tensor("final_norm").astype(f32), Matrix(self, "embed", c["vocab_size"], d)
        self.head = self.embed if c.get("tied_embeddings") else Matrix(self, "lm_head", c["vocab_size"], d)

    def read_facts(self, found):
        """What a receipt says of the run."""
        inside, meta, layout = [m for layer in self.layers for m in layer.values()], self.meta, []
        words = [f"{key}\0{meta[key]}\0".encode() for key in ("tokenizer", "special_tokens") if key in meta]
        for name, t in self.header.items():
            n_bytes = len(self.bytes(name)).to_bytes(8, "little")
            layout += [f"{name}\0{t['dtype']}\0".encode(), np.array(t["shape"], "<i8").tobytes(), n_bytes]
            words += [name.encode(), b"\0", n_bytes, self.bytes(name)] if name.startswith("tok.") else []
        layout += [f"{key}\0{meta[key]}\0".encode() for key in sorted(meta) if key.startswith("type.")]
        n_bytes = {kind: sum(m.n_bytes for m in {*inside, self.embed, self.head} if m.kind == kind) for kind in ("f32", "bf16", "q8")}
        self.cache = np.float16 if any(m.kind == "q8" for m in inside) else f32
        bits = {m.bits for m in (*inside, self.head) if m.kind == "q8"}
        return {"numerics": "3" if len(bits) > 1 else "2" if bits == {8} else "1", "math": "int8" if bits else "f32",
                "activations": "auto" if len(bits) > 1 else str(*bits or ["none"]), "loaded_as": "stored",
                "model_sha256": found, "config_sha256": sha256(meta["config"].encode()).hex(),
                "weight_types": ",".join(sorted(filter(n_bytes.get, n_bytes), key=n_bytes.get, reverse=True)),
                "kv_type": "f32" if self.cache is f32 else "f16", "model_layout": sha256(*layout).hex(),
                "tokenizer_sha256": sha256(*words).hex() if {"tokenizer", "special_tokens"} & set(meta) else "none"}

    def logits(self, ids, first):
        """Of the positions from first on: [n, vocab_size]."""
        c, n = self.c, len(ids)
        angles = np.arange(n, dtype=f64)[:, None] * np.array([frequency(c, i) for i in range(c["head_dim"] // 2)])
        sine, cosine = (table.astype(f32)[:, None] for table in sine_cosine(angles))
        x = self.embed.rows(ids)
        for w, (attn_norm, ffn_norm) in zip(self.layers, self.norms):
            xn = rms_norm(x, attn_norm, c["norm_eps"])
            q, k, v = (w[name].times(xn).reshape(n, -1, c["head_dim"]) for name in ("wq", "wk", "wv"))
            k, v = (a.astype(self.cache).astype(f32) for a in (rotate(k, sine, cosine), v))
            x = x + w["wo"].times(attention(rotate(q, sine, cosine), k, v))
            xn = rms_norm(x, ffn_norm, c["norm_eps"])
            x = x + w["w_down"].times(silu(w["w_gate"].times(xn)) * w["w_up"].times(xn))
        return self.head.times(rms_norm(x[first:], self.final_norm, c["norm_eps"]))

# ---- Sampling: numerics.md ----
def uniform(seed, index):  # Philox4x32-10
    word, key = [index, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * word[0], 0xCD9E8D57 * word[2]
        word = [b >> 32 ^ word[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ word[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(k + weyl) & 0xFFFFFFFF for k, weyl in zip(key, (0x9E3779B9, 0xBB67AE85))]
    return (word[0] >> 8) * 2.0**-24

def sample(logits, o, before, sampled):
    """The token behind `before`, of which `sampled` is the end that the model drew; None: there is none."""
    x = logits.copy()
    for token, bias in o["bias"]:
        x[token] += bias
    for token in set(before) if o["repeat_penalty"] not in (0, 1) else ():
        x[token] = x[token] / o["repeat_penalty"] if x[token] > 0 else x[token] * o["repeat_penalty"]
    for token in set(sampled) if o["presence_penalty"] != 0 or o["frequency_penalty"] != 0 else ():
        x[token] -= o["frequency_penalty"] * f32(sampled.count(token)) + o["presence_penalty"]
    x = x / (o["temp"] or f32(1))
    if np.isnan(logits).any() or x.max() == -np.inf:
        return None
    if o["temp"] == 0:
        return int(x.argmax())
    ids = np.argsort(-x, kind="stable")[:o["top_k"] or None]
    p = (exp(x[ids] - x[ids[0]]) if np.isfinite(x[ids[0]]) else x[ids] == x[ids[0]]).astype(f64)
    sums = np.cumsum(p)
    n = int(np.argmax(sums >= o["top_p"] * sums[-1])) + 1 if 0 < o["top_p"] < 1 else len(p)
    while n > 1 and not (p[n - 1] >= o["min_p"] * f32(p[0]) and p[n - 1] > 0):
        n -= 1
    return int(ids[np.argmax(sums[:n] > uniform(o["seed"], len(before)) * sums[n - 1])])

# ---- The receipt: receipts.md ----
RUN = "numerics model_sha256 config_sha256 math weight_types activations kv_type loaded_as model_layout tokenizer_sha256".split()
SAMPLING = "temp top_k top_p min_p repeat_penalty presence_penalty frequency_penalty seed bias".split()
FLOATS = [name for name in SAMPLING if name not in ("top_k", "top_p", "seed", "bias")]
# What each field is, as tblock writes it.
HASH, TEXT, IDS = '"[0-9a-f]{64}"', r'"([ !#-\[\]-~]|\\["\\])*"', "[0-9]+(,[0-9]+)*"
HEAD = {"receipt": "2", "run": f'{{("[a-z0-9_]+":{TEXT},?)+}}', "chat": f'null|{{"sha256":{HASH},"date":(null|{TEXT})}}',
        "prompt": rf"\[{IDS}\]", "sampling": ".*", "constraint": "null"}
FIELDS = {**HEAD, "begin": HASH, "drawn": rf"\[({IDS})?\]", "text_sha256": f"null|{HASH}", "every": "[0-9]+",
          "links": rf"\[({HASH},?)*\]", "blocks": rf"\[({HASH},?)*\]", "root": HASH}

def spelled(x):
    """As tblock writes it."""
    if isinstance(x, dict):
        return "{%s}" % ",".join(f"{spelled(key)}:{spelled(x[key])}" for key in x)
    if isinstance(x, list):
        return "[%s]" % ",".join(map(spelled, x))
    if not isinstance(x, float):
        return json.dumps(x)
    return f"{x:.0f}" if x == int(x) and abs(x) < 1e15 else next(t for n in range(1, 18) if float(t := f"{x:.{n}g}") == x)

def read_receipt(path):
    def members(x, keys):
        need(isinstance(x, dict) and set(x) == set(keys), f"expected an object of {', '.join(keys)}")
        return {key: x[key] for key in keys}
    r = read_json(pathlib.Path(path).read_bytes()[:2**24])
    need(not isinstance(r, dict) or r.get("receipt") != 1, "this verifier reads receipts of version 2, not of 1")
    r = members(r, FIELDS)
    need(r["constraint"] is None, "this verifier has no constraints")
    r["run"], s, r["chat"] = members(r["run"], RUN), members(r["sampling"], SAMPLING), r["chat"] and members(r["chat"], ["sha256", "date"])
    need(re.fullmatch("[0-9]{1,20}", s["seed"]) and int(s["seed"]) < 2**64, "sampling: seed: expected a text of digits")
    need(all(type(x) in (int, float) for x in [*(s[key] for key in (*FLOATS, "top_p")), *(x for _, x in s["bias"])]), "sampling: numbers")
    r["sampling"] = {**s, **{key: float(f32(s[key])) for key in FLOATS}, "top_p": float(s["top_p"]), "seed": str(int(s["seed"])),
                     "bias": [[token, float(f32(x))] for token, x in s["bias"]]}
    for key, looks in FIELDS.items():
        need(re.fullmatch(looks, spelled(r[key])), f"{key}: not what docs/receipts.md says")
    wholes, n = [*r["prompt"], *r["drawn"], r["every"], s["top_k"], *(token for token, _ in s["bias"])], len(r["drawn"])
    need(all(type(x) is int and 0 <= x < 2**31 for x in wholes), "a number is out of range")
    need(len(r["links"]) == (n // r["every"] if r["every"] else 0) and len(r["blocks"]) == -(-n // BLOCK), "links, blocks: how many")
    return r

def tree(leaves):
    """The root of a Merkle tree (RFC 9162, 2.1.1)."""
    half = 1 << (len(leaves) - 1).bit_length() >> 1
    return sha256(b"\1", tree(leaves[:half]), tree(leaves[half:])) if half else leaves[0]

def verify(model, r, block):
    """The verdict, and why."""
    facts, pieces, begin = model.facts, model.pieces, sha256(spelled({key: r[key] for key in HEAD})[:-1].encode())
    root = tree([bytes.fromhex(leaf) for leaf in r["blocks"]]) if r["drawn"] else begin
    text = pieces and sha256(*(pieces[token] for token in r["drawn"] if token < len(pieces))).hex()
    others = ", ".join(f"{key} {r['run'][key]} (here {facts[key]})" for key in RUN if r["run"][key] != facts[key])
    for wrong, verdict, why in ((others, "other", others),
                                (begin.hex() != r["begin"], "changed", "begin: it is not of the fields before it"),
                                (root.hex() != r["root"], "changed", "root: it is not of the blocks"),
                                (not r["drawn"], "nothing", "no token was sampled, so it says nothing of the model"),
                                (text != r["text_sha256"], "text", "text_sha256: it is not of the text of the sampled ids")):
        if wrong:
            return verdict, why
    return compute(model, r, begin, block)

def compute(model, r, begin, block):
    ids, given, vocab, s = r["prompt"] + r["drawn"], len(r["prompt"]), model.c["vocab_size"], r["sampling"]
    o = {**s, **{key: f32(s[key]) for key in FLOATS}, "seed": int(s["seed"]), "bias": [(token, f32(x)) for token, x in s["bias"]]}
    first, last = (given, len(ids)) if block is None else (given + BLOCK * block, min(given + BLOCK * (block + 1), len(ids)))
    if not given <= first < last or max([*ids, *(token for token, _ in o["bias"])]) >= vocab or len(ids) > model.c["n_ctx"]:
        return "failed", f"expected block 0 to {len(r['blocks']) - 1}, ids under {vocab} and at most {model.c['n_ctx']} of them"
    if not ((o["temp"] == 0 or o["temp"] >= f32(1e-6)) and 0 <= o["top_p"] <= 1 and 0 <= o["min_p"] <= 1 and o["repeat_penalty"] >= 0):
        return "failed", "a sampling option is out of range"
    wrong, closed, link = "", first, b""
    for index, logits in enumerate(model.logits(ids[:last - 1], first - 1), first):
        number = index - given + 1
        expected = ids[index] if wrong else sample(logits, o, ids[:index], ids[given:index])
        if expected is None:
            return "failed", f"position {index}: a logit is NaN, or all are -inf"
        if expected != ids[index]:
            wrong = f"position {index}: token {ids[index]} was sampled, but its logits give {expected}"
        before = sha256(b"\2", begin, index.to_bytes(8, "little")) if number % BLOCK == 1 else link
        link = sha256(before, ids[index].to_bytes(4, "little"), logits.astype("<f4").tobytes())
        kept = [r["links"][number // r["every"] - 1] == link.hex()] if r["every"] and number % r["every"] == 0 else []
        kept += [r["blocks"][(number - 1) // BLOCK] == sha256(b"\0", link).hex()] if number % BLOCK == 0 or index + 1 == len(ids) else []
        if not all(kept):
            return "logits", f"the tokens of positions {closed} to {index} were sampled from other logits; {wrong}".rstrip("; ")
        if kept and wrong:
            return "token", wrong
        closed = index + 1 if kept else closed
    return "holds", "every token and every bit"

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("receipt", nargs="+")
    parser.add_argument("--block", type=int, metavar="N", help="only the 64 tokens of this block, from 0; those before it are believed")
    args, files = parser.parse_args(), []
    np.seterr(all="ignore")
    try:
        for path in (args.model, *args.receipt):
            files.append(read_receipt(path) if files else Model(path))
    except (ValueError, OSError, KeyError, TypeError, ArithmeticError, RecursionError) as why:
        sys.exit(print(f"verify_receipt.py: {path}: {why}", file=sys.stderr) or 3)
    verdicts = [verify(files[0], receipt, args.block) for receipt in files[1:]]
    print("\n".join(f"{path}: {verdict}: {why}" for path, (verdict, why) in zip(args.receipt, verdicts)))
    sys.exit(0 if all(verdict == "holds" for verdict, _ in verdicts) else 1)

if __name__ == "__main__":
    main()
