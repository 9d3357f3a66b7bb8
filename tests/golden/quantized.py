#!/usr/bin/env python3
"""Quantized models, written here from docs/format.md alone and computed in float64 by ref.py on what their codes stand for.

    quantized.py [--build DIR] [--only TEXT]

`verify --math f32 --kv-type f32` within the tolerance of float models: the reader and the widening kernels are right. The default
(integers, an f16 cache) and both widths of activations within tolerances of their own: the integers are near, and 16 bits nearer. Then each
mode next to float64 with the roundings that docs/numerics.md gives it: most short sequences agree to what float32 sums lose.
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys

import numpy as np

import make_cases
from ref import Reference, write_safetensors

ROOT = pathlib.Path(__file__).resolve().parents[2]

# docs/numerics.md, "Our quantized types"
CODEBOOK = np.array([-10, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 9])
MAGNITUDE = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12, 12, 12])

# name: vocab, d_model, d_ff, layers, heads, kv_heads, head_dim, type of each matrix in turn, sequence lengths. Widths under, at and over
# a superblock of 256, some no multiple of 64 or of 4; "mixed" has groups of matrices that share an input and not their type.
CASES = {
    "q8":    (70, 320, 600, 2, 5, 1, 64, ["q8"], (1, 65, 150)),
    "q4":    (64, 256, 512, 3, 4, 2, 64, ["q4"], (1, 64, 100)),
    "odd":   (37, 45, 77, 2, 3, 3, 6, ["q4", "q8"], (1, 63, 70)),
    "bf16":  (64, 289, 300, 2, 4, 2, 24, ["bf16"], (1, 40, 90)),
    "mixed": (48, 290, 300, 2, 4, 2, 20, ["q8", "q4", "bf16", "f32", "q4"], (1, 40, 90)),
}

# Shares of the largest logit, two to four times what was found: f16 keys and values, 8 and 16 bits of activation.
NEAR = {"16": 1e-3, "8": 6e-2, "auto": 6e-2}


class Stored:
    """A matrix of random codes: its parts as the file has them, and what it stands for in float64."""

    def __init__(self, rng, kind, rows, k):
        panels, k64, blocks = -(-rows // 16), -(-k // 64) * 64, -(-k // 256)
        self.kind = kind
        if kind in ("bf16", "f32"):
            w = np.zeros((panels * 16, k + k % 2), "<f4")
            w[:rows, :k] = rng.standard_normal((rows, k)) / k ** 0.5
            if kind == "bf16":
                w = (w.view("<u4") >> 16).astype("<u2")
                self.parts = {"": w.reshape(panels, 16, -1, 2).transpose(0, 2, 1, 3).copy()}
                w = (w.astype("<u4") << 16).view("<f4")
            else:
                w = w[:, :k]
                self.parts = {"": w.reshape(panels, 16, k).transpose(0, 2, 1).copy()}
            self.value = w[:rows, :k].astype(np.float64)
            return
        column, row = np.arange(k64), np.arange(panels * 16)
        inside = (row[:, None] < rows) & (column < k)
        # the scale of each row and superblock, so that a row has about unit length
        d = (rng.uniform(0.5, 1.5, (panels * 16, blocks)) / k ** 0.5 / 73).astype("<f2")
        d[rows:] = 0
        if kind == "q8":
            code = np.where(inside, rng.integers(-127, 128, inside.shape), 0)
            whole = code
            self.parts = {"": code.astype("i1").reshape(panels, 16, -1, 4).transpose(0, 2, 1, 3).copy()}
        else:
            code = np.where(inside, rng.integers(0, 16, inside.shape), 8)
            sub = rng.integers(0, 32, (panels * 16, k64 // 16))  # bit 4: the sign
            sub[rows:] = 0
            whole = CODEBOOK[code] * np.repeat(np.where(sub & 16, -1, 1) * MAGNITUDE[sub & 15], 16, axis=1)
            by8 = code.reshape(panels, 16, -1, 2, 4)  # [p, r, c / 8, c % 8 / 4, c % 4]
            codes = (by8[..., 0, :] | by8[..., 1, :] << 4).transpose(0, 2, 1, 3).reshape(panels, -1, 16, 4)
            at64 = sub.reshape(panels, 16, -1, 4).transpose(0, 2, 3, 1)  # [p, c / 64, b, r]
            magnitudes = at64[:, :, 0::2] & 15 | (at64[:, :, 1::2] & 15) << 4
            signs = ((at64 >> 4 & 1) << np.arange(16)).sum(-1)
            subs = np.concatenate([magnitudes.reshape(panels, -1, 32), np.stack([signs & 255, signs >> 8], -1).reshape(panels, -1, 8)], -1)
            self.parts = {"": codes.astype("u1").reshape(panels, k64 // 4, 16, 2), ".s": subs.astype("u1")}
        self.parts[".d"] = d.reshape(panels, 16, blocks).transpose(0, 2, 1).copy()
        value = whole * np.repeat(d.astype(np.float64), 256, axis=1)[:, :k64]
        self.value = value[:rows, :k].astype(np.float32).astype(np.float64)  # --math f32: the exact value rounded once


def write_model(path, config, tensors, types):
    """The file of docs/format.md: data at 4096, every tensor on 64 bytes, pad.N between."""
    padded, at = {}, 0
    for name, a in tensors.items():
        padded[name] = a
        at += a.nbytes
        if at % 64:
            padded[f"pad.{len(padded)}"] = np.zeros(64 - at % 64, "u1")
            at += 64 - at % 64
    metadata = {"format": "tblock", "version": "1", "config": json.dumps(config), **{f"type.{n}": t for n, t in types.items()}}
    write_safetensors(path, padded, metadata)
    data = path.read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    spaces = -(8 + n) % 4096
    path.write_bytes(struct.pack("<Q", n + spaces) + data[8:8 + n] + b" " * spaces + data[8 + n:])


def build(name):
    """(config, the same in ref.py's keys, tensors, their types, {theirs: Stored or array}) of a case."""
    vocab, d, d_ff, layers, heads, kv_heads, head_dim, kinds, _ = CASES[name]
    rng, turn = np.random.default_rng(list(CASES).index(name)), 0
    tensors, types, weights = {}, {}, {}

    def vector(ours, theirs, n):
        tensors[ours] = rng.uniform(0.5, 1.5, n).astype("<f4")
        weights[theirs + ".weight"] = tensors[ours].astype(np.float64)

    def matrix(ours, theirs, rows, k):
        nonlocal turn
        m, turn = Stored(rng, kinds[turn % len(kinds)], rows, k), turn + 1
        for suffix, a in m.parts.items():
            tensors[ours + suffix] = a
        if m.kind[0] == "q":
            types[ours] = m.kind
        weights[theirs + ".weight"] = m

    tensors["embed"] = rng.standard_normal((vocab, d)).astype("<f4")
    weights["model.embed_tokens.weight"] = tensors["embed"].astype(np.float64)
    for i in range(layers):
        a, b = f"layers.{i}.", f"model.layers.{i}."
        vector(a + "attn_norm", b + "input_layernorm", d)
        for ours, theirs, n in (("wq", "q", heads), ("wk", "k", kv_heads), ("wv", "v", kv_heads)):
            matrix(a + ours, f"{b}self_attn.{theirs}_proj", n * head_dim, d)
        matrix(a + "wo", b + "self_attn.o_proj", d, heads * head_dim)
        vector(a + "ffn_norm", b + "post_attention_layernorm", d)
        matrix(a + "w_gate", b + "mlp.gate_proj", d_ff, d)
        matrix(a + "w_up", b + "mlp.up_proj", d_ff, d)
        matrix(a + "w_down", b + "mlp.down_proj", d, d_ff)
    vector("final_norm", "model.norm", d)
    matrix("lm_head", "lm_head", vocab, d)
    config = {"d_model": d, "n_layers": layers, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "d_ff": d_ff,
              "vocab_size": vocab, "theta": 10000, "norm_eps": 1e-5, "n_ctx": 256}
    theirs = {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, "hidden_size": d,
              "num_hidden_layers": layers, "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
    return config, theirs, tensors, types, weights


def make(folder, name):
    """Writes model.bin and golden.safetensors; returns the largest logit."""
    vocab, lengths = CASES[name][0], CASES[name][-1]
    config, theirs, tensors, types, weights = build(name)
    ref = Reference(theirs, {n: w.value if isinstance(w, Stored) else w for n, w in weights.items()})
    rng, golden, largest = np.random.default_rng(100), {}, 0
    for i, n in enumerate(lengths):
        golden[f"seq{i}.tokens"] = rng.integers(0, vocab, n).astype("<i4")
        golden[f"seq{i}.logits_f64"] = ref(golden[f"seq{i}.tokens"])[0].astype("<f4")
        largest = max(largest, np.abs(golden[f"seq{i}.logits_f64"]).max())
    folder.mkdir(parents=True, exist_ok=True)
    write_model(folder / "model.bin", config, tensors, types)
    write_safetensors(folder / "golden.safetensors", golden)
    return largest


# ---- The roundings of docs/numerics.md, one by one ----

# Where x * r lies near the middle of two integers, float32 and float64 may round apart, and one such step sets others off: sequences are
# short, and half of them must be close. 16 bits have so many steps that only the small model shows it; the others are within their noise.
# Where both widths occur, that noise sets off steps of 8 bits, which are large, and a quarter of the sequences must be close.
N_SHORT, SHORT, CLOSE, CLOSE_16 = 24, 3, 5e-6, 1e-4

# name: options, bits of activations (0: by the place of the group), bf16 activations, type of the cache
MODES = {
    "activations_8_exact":  (["--activations", "8", "--kv-type", "f32"], 8, False, "f32"),
    "activations_16_exact": (["--activations", "16", "--kv-type", "f32"], 16, False, "f32"),
    "auto_exact":           (["--kv-type", "f32"], 0, False, "f32"),
    "kv_f16_exact":         (["--kv-type", "f16"], 0, False, "f16"),
    "kv_q8_exact":          (["--kv-type", "q8"], 0, False, "q8"),
    "math_bf16_exact":      (["--math", "bf16", "--kv-type", "f32"], 0, True, "f32"),
}
GROUPS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


def codes(x, n, most):
    """(integers, scales) of f32 numbers, n at a time along the last axis."""
    x = np.pad(x.astype("<f4"), [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % n)])
    x = x.reshape(*x.shape[:-1], -1, n)
    amax = np.abs(x).max(-1, keepdims=True)
    zero = amax < np.float32(2.0 ** -100)
    scale = np.where(zero, np.float32(1), amax / np.float32(most))
    q = np.rint(x * (np.float32(1) / scale))
    return np.where(zero, 0, q).astype(np.float64), np.where(zero, 0, scale).astype(np.float64)


def coded(x, n, most):
    q, scale = codes(x, n, most)
    return (q * scale).reshape(*x.shape[:-1], -1)[..., :x.shape[-1]]


def to_bf16(x):
    bits = x.astype("<f4").view("<u4")
    y = ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype("<u4").view("<f4").astype(np.float64)
    return np.where(np.abs(y) < 2.0 ** -50, 0, y)


class Rounded(Reference):
    """float64 but for what numerics.md rounds: activations before a matrix, keys and values."""

    def __init__(self, config, weights, bits, bf16, kv):
        super().__init__(config, {n: w.value if isinstance(w, Stored) else w for n, w in weights.items()})
        self.kind = {n[:-len(".weight")]: w.kind for n, w in weights.items() if isinstance(w, Stored)}
        self.bits, self.bf16, self.kv, self.n_layers = bits, bf16, kv, config["num_hidden_layers"]

    def activations(self, name):
        """(numbers that share a scale, largest integer)"""
        layer, _, last = name.rpartition(".")
        group = next((g for g in GROUPS if last in g), (last,))
        kinds = {self.kind[f"{layer}.{g}" if layer else g] for g in group} & {"q8", "q4"}
        at_an_end = layer and int(layer.split(".")[2]) in (0, self.n_layers - 1)
        wide = not layer or last in GROUPS[0] or (at_an_end and last != "o_proj")
        bits = self.bits or (16 if wide else 8)
        return (32 if bits == 8 and kinds == {"q8"} else 256, 127 if bits == 8 else 32512)

    def linear(self, x, name):
        if self.kind[name][0] == "q":
            x = coded(x, *self.activations(name))
        elif self.kind[name] == "bf16" and self.bf16:
            x = to_bf16(x)
        return super().linear(x, name)

    def cached(self, x):
        if self.kv == "q8":
            return coded(x, x.shape[-1], 127).astype("<f4").astype(np.float64)
        return x.astype("<f2").astype(np.float64) if self.kv == "f16" else x


def share_allowed(case, bits):
    return CLOSE_16 if bits != 8 and case != "odd" else CLOSE


def shares(tblock, folder, name, mode):
    """Of each of the short sequences, the largest difference from Rounded as a share of the largest logit."""
    vocab = CASES[name][0]
    _, theirs, _, _, weights = build(name)
    options, *how = MODES[mode]
    ref, rng = Rounded(theirs, weights, *how), np.random.default_rng(200)
    golden = {}
    for i in range(N_SHORT):
        golden[f"seq{i}.tokens"] = rng.integers(0, vocab, SHORT).astype("<i4")
        golden[f"seq{i}.logits_f64"] = ref(golden[f"seq{i}.tokens"])[0].astype("<f4")
    largest = max(np.abs(a).max() for n, a in golden.items() if n.endswith("_f64"))
    path = folder / f"{mode}.safetensors"
    write_safetensors(path, golden)
    p = subprocess.run([str(tblock), "verify", str(folder / "model.bin"), str(path), "--json", *options], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL)
    return sorted(s["max_abs"] / largest for s in json.loads(p.stdout)["sequences"])


def verify(tblock, folder, tol, *options):
    """(does it answer yes, its last line)"""
    p = subprocess.run([str(tblock), "verify", str(folder / "model.bin"), str(folder / "golden.safetensors"), "--tol", repr(float(tol)),
                        *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines = (p.stdout + p.stderr).decode(errors="replace").strip().splitlines()
    return p.returncode == 0, " / ".join(lines[-4:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / os.environ.get("BUILD", "build/release"))
    parser.add_argument("--only", default="", help="only the tests whose name contains this")
    args = parser.parse_args()
    failures = 0

    def answer(name, good, text):
        nonlocal failures
        print(f"ok {name}" if good else f"FAIL {name}: {text}", flush=True)
        failures += not good

    for case in CASES:
        if args.only not in case:
            continue
        folder = args.build / "golden" / "quantized" / case
        largest = make(folder, case)
        tblock = args.build / "tblock"
        answer(f"quantized_{case}_math_f32", *verify(tblock, folder, make_cases.TOLERANCE * largest, "--math", "f32", "--kv-type", "f32"))
        quantized = case != "bf16"
        for bits, share in NEAR.items() if quantized else ():
            answer(f"quantized_{case}_activations_{bits}", *verify(tblock, folder, share * largest, "--activations", bits))
        if quantized:
            far = verify(tblock, folder, NEAR["16"] * largest, "--activations", "8")[0]  # else the test of 16 bits shows nothing
            answer(f"quantized_{case}_8_bits_lose_more", not far, "8 bits are within the tolerance of 16")
        for mode, (options, bits, bf16, _) in MODES.items():
            if (bits and not quantized) or (bf16 and "bf16" not in CASES[case][-2]):
                continue
            found = shares(tblock, folder, case, mode)
            print(f"  {case} {mode}: quartiles {found[N_SHORT // 4]:.1e} {found[N_SHORT // 2]:.1e} {found[3 * N_SHORT // 4]:.1e}, most {found[-1]:.1e}",
                  file=sys.stderr)
            least = found[N_SHORT // (2 if bits else 4)]
            answer(f"quantized_{case}_{mode}", least <= share_allowed(case, bits), f"most of the sequences differ by {least:.1e}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
