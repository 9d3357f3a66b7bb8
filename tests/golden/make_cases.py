#!/usr/bin/env python3
"""Model folders of our own, with golden logits by ref.py: the shapes that the recorded fixtures do not have.

    make_cases.py OUT [NAME...]     writes OUT/NAME/{config.json, model.safetensors, golden.safetensors, golden.json}
    make_cases.py --measure         prints what tolerance each case needs, and how far wrong formulas would be from it

Weights come from an integer hash, so they are the same for ever; golden logits are recomputed each time.
"""
import json
import os
import pathlib
import sys

import numpy as np

from ref import Reference, write_safetensors

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "mscale": 0.8, "mscale_all_dim": 1.3,
        "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}

# name: stored type, vocab, d_model, d_ff, layers, heads, kv_heads, head_dim, window, theta, sequence lengths, more config.
# K = 257 and 511 are one more and one less than whole chunks.
CASES = {
    "wide":       ("bf16", 96, 320, 1100, 2, 5, 1, 64, 0, 5e5, (1, 65, 300), {}),
    "chunks":     ("f32", 70, 257, 511, 2, 4, 4, 20, 0, 1e4, (1, 64, 129), {}),
    "odd":        ("bf16", 37, 45, 77, 3, 3, 3, 6, 0, 1e4, (1, 63, 130), {"attention_bias": True, "mlp_bias": True}),
    "headdim20":  ("f16", 64, 60, 100, 2, 6, 2, 20, 8, 1e4, (1, 9, 300), {}),
    "headdim64":  ("bf16", 64, 96, 160, 2, 6, 3, 64, 64, 1e4, (63, 65, 300), {}),
    "headdim128": ("f32", 64, 128, 192, 2, 2, 1, 128, 100, 1e4, (99, 101, 300), {}),
    "window1":    ("f32", 48, 32, 48, 2, 2, 2, 16, 1, 1e4, (1, 2, 70), {}),
    "window65":   ("f32", 48, 48, 80, 3, 4, 2, 12, 65, 1e4, (64, 66, 200), {}),
    "mqa12":      ("f16", 64, 72, 130, 2, 12, 1, 8, 0, 1e4, (1, 17, 192), {"tie_word_embeddings": True}),
    "llama3":     ("bf16", 64, 64, 96, 2, 4, 2, 32, 0, 5e5, (1, 40, 300), {"rope_scaling": LLAMA3, "attention_bias": True}),
    "yarn":       ("f32", 64, 64, 96, 2, 4, 2, 24, 0, 1e4, (1, 40, 300), {"rope_scaling": YARN}),
}
N_GREEDY = 24

# Share of the largest logit. The recorded fixtures allow 8 times the error of an ordinary float32 run; of these cases that is
# 4e-6 to 1.6e-5 (--measure), so one rule serves all; a wrong formula is at least 50 tolerances away.
TOLERANCE = 2e-5


def hash_uniform(seed, n):
    """n values in [-1, 1), multiples of 2^-23: the SplitMix64 finalizer of seed * 2^32 + i."""
    z = (np.arange(n, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z >> np.uint64(40)).astype(np.int64) - (1 << 23)) / float(1 << 23)


def stored(a, dtype):
    """a as it is stored: f4, f2, or the u2 bits of bf16 (cut, not rounded: any value will do)."""
    if dtype == "bf16":
        return (a.astype("<f4").view("<u4") >> 16).astype("<u2")
    return a.astype({"f32": "<f4", "f16": "<f2"}[dtype])


def widen(a):
    return (a.astype("<u4") << 16).view("<f4").astype(np.float64) if a.dtype.str == "<u2" else a.astype(np.float64)


def make(name):
    """(config, stored tensors) of a case."""
    dtype, vocab, d, d_ff, layers, heads, kv_heads, head_dim, window, theta, _, more = CASES[name]
    config = {"architectures": ["MistralForCausalLM" if window else "LlamaForCausalLM"], "model_type": "mistral" if window else "llama",
              "hidden_size": d, "intermediate_size": d_ff, "num_hidden_layers": layers, "num_attention_heads": heads,
              "num_key_value_heads": kv_heads, "head_dim": head_dim, "vocab_size": vocab, "max_position_embeddings": 512,
              "rms_norm_eps": 1e-3, "rope_theta": theta, "tie_word_embeddings": False, "hidden_act": "silu",
              "torch_dtype": {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}[dtype], "bos_token_id": 1, "eos_token_id": 2, **more}
    if window:
        config["sliding_window"] = window
    tensors, seed = {}, 1000 * (1 + list(CASES).index(name))

    def put(tensor, shape, spread, centre=0.0):
        values = centre + spread * hash_uniform(seed + len(tensors), int(np.prod(shape)))
        tensors[tensor] = stored(values, dtype).reshape(shape)

    def linear(tensor, rows, k, bias=False, gain=1.0):
        put(tensor + ".weight", (rows, k), gain * (3.0 / k) ** 0.5)  # uniform of that spread: rows of unit length
        if bias:
            put(tensor + ".bias", (rows,), 0.5)

    put("model.embed_tokens.weight", (vocab, d), 1.0)
    attn_bias, ffn_bias = config.get("attention_bias", False), config.get("mlp_bias", False)
    for i in range(layers):
        at = f"model.layers.{i}."
        put(at + "input_layernorm.weight", (d,), 0.5, 1.0)
        for proj, rows in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            linear(f"{at}self_attn.{proj}_proj", rows * head_dim, d, attn_bias, gain=1.5)
        linear(at + "self_attn.o_proj", d, heads * head_dim, attn_bias)
        put(at + "post_attention_layernorm.weight", (d,), 0.5, 1.0)
        linear(at + "mlp.gate_proj", d_ff, d, ffn_bias, gain=1.5)
        linear(at + "mlp.up_proj", d_ff, d, ffn_bias)
        linear(at + "mlp.down_proj", d, d_ff, ffn_bias)
    put("model.norm.weight", (d,), 0.5, 1.0)
    if not config["tie_word_embeddings"]:
        linear("lm_head", vocab, d, gain=3.0)
    return config, tensors


def sequences(name):
    vocab, lengths = CASES[name][1], CASES[name][10]
    start = 0
    for i, n in enumerate(lengths):
        u = hash_uniform(900 + list(CASES).index(name), start + n)[start:]
        yield f"seq{i}", ((u + 1) / 2 * vocab).astype("<i4")
        start += n


def write(out, name):
    config, tensors = make(name)
    ref = Reference(config, {k: widen(v) for k, v in tensors.items()})
    golden, largest = {}, 0.0
    for prefix, tokens in sequences(name):
        golden[prefix + ".tokens"] = tokens
        golden[prefix + ".logits_f64"] = ref(tokens)[0].astype("<f4")
        largest = max(largest, np.abs(golden[prefix + ".logits_f64"]).max())
        if len(tokens) <= 66:  # each greedy step recomputes its whole sequence
            ids, margin = ref.greedy(tokens, N_GREEDY)
            if margin > 0.005:  # else the path is decided by rounding
                golden[prefix + ".greedy"] = np.array(ids, "<i4")
    folder = pathlib.Path(out) / name
    folder.mkdir(parents=True, exist_ok=True)

    def place(file, write_to):  # at once: other tests may be reading the same cases
        temporary = folder / f"{file}.{os.getpid()}"
        write_to(temporary)
        os.replace(temporary, folder / file)

    place("config.json", lambda p: p.write_text(json.dumps(config, indent=1) + "\n"))
    place("golden.json", lambda p: p.write_text(json.dumps({"name": name, "suggested_tolerance": float(f"{TOLERANCE * largest:.2g}")}) + "\n"))
    place("model.safetensors", lambda p: write_safetensors(p, tensors, {"format": "pt"}))
    place("golden.safetensors", lambda p: write_safetensors(p, golden))


# ---- --measure: what the tolerances are made of ----

def float32_run(config, weights, tokens):
    """The same computation in float32: the parent's functions on float32 arrays, rotary tables excepted."""
    class Single(Reference):
        def rope(self, x):
            return super().rope(x).astype(np.float32)

        def attention(self, x, name):
            y, p = super().attention(x, name)
            return y.astype(np.float32), p
    return Single(config, {k: v.astype(np.float32) for k, v in weights.items()})(tokens)[0]


def wrong_formulas(config, weights, tokens):
    """(what is wrong, logits): mistakes that a tolerance must not hide."""
    window = config.get("sliding_window")
    yield "rms_norm_eps x 2", Reference({**config, "rms_norm_eps": 2e-3}, weights)(tokens)[0]
    yield "theta x 1.01", Reference({**config, "rope_theta": config["rope_theta"] * 1.01}, weights)(tokens)[0]
    if window and window < len(tokens):
        yield "window + 1", Reference({**config, "sliding_window": window + 1}, weights)(tokens)[0]
    biases = [k for k in weights if k.endswith(".bias")]
    if biases:
        yield "a bias missed", Reference(config, {k: v for k, v in weights.items() if k != biases[-1]})(tokens)[0]


def measure():
    print("case: largest logit, 8 x float32 error as a share of it; then the distance of wrong formulas in tolerances")
    for name in CASES:
        config, tensors = make(name)
        weights = {k: widen(v) for k, v in tensors.items()}
        ref, error, largest = Reference(config, weights), 0.0, 0.0
        for _, tokens in sequences(name):
            logits = ref(tokens)[0]
            error = max(error, np.abs(float32_run(config, weights, tokens) - logits).max())
            largest = max(largest, np.abs(logits).max())
        wrong = [f"{what} {np.abs(w - logits).max() / largest / TOLERANCE:.0f}" for what, w in wrong_formulas(config, weights, tokens)]
        print(f"{name}: {largest:.1f}, {8 * error / largest:.1e}; {', '.join(wrong)}")


def main(args):
    if args == ["--measure"]:
        return measure()
    if not args or args[0].startswith("-"):
        sys.exit(__doc__)
    for name in args[1:] or CASES:
        if name not in CASES:
            sys.exit(f"make_cases.py: no case {name}; there are {', '.join(CASES)}")
        write(args[0], name)


if __name__ == "__main__":
    main(sys.argv[1:])
