#!/usr/bin/env python3
"""Write the models of matrix.sh: one GGUF file for each stored type, a small Llama of random weights, wide enough for superblocks, and a
mixture, a small gpt-oss.

    matrix_models.py OUT     writes OUT/matrix-TYPE.gguf and OUT/matrix-gpt-oss.gguf
"""
import pathlib
import struct
import sys

import numpy as np

D, FF, HEADS, KV_HEADS, HEAD, LAYERS, VOCAB, CONTEXT = 256, 256, 4, 2, 32, 2, 96, 512
# ggml's number, elements and bytes of a block, where its f16 scales lie and how large they are for weights of about 1 / sqrt(256)
TYPES = {
    "f32": (0, 1, 4, {}), "f16": (1, 1, 2, {}), "bf16": (30, 1, 2, {}), "q4_0": (2, 32, 18, {0: 0.012}), "q8_0": (8, 32, 34, {0: 0.0008}),
    "q4_1": (3, 32, 20, {0: 0.012, 2: -0.09}), "q5_0": (6, 32, 22, {0: 0.006}), "q5_1": (7, 32, 24, {0: 0.006, 2: -0.09}),
    "q2_k": (10, 256, 84, {80: 0.004, 82: 0.006}), "q3_k": (11, 256, 110, {108: 0.0009}),
    "q4_k": (12, 256, 144, {0: 0.0004, 2: 0.003}), "q5_k": (13, 256, 176, {0: 0.0002, 2: 0.003}), "q6_k": (14, 256, 210, {208: 0.00005}),
    "iq4_nl": (20, 32, 18, {0: 0.0012}), "iq4_xs": (23, 256, 136, {0: 0.00005}),
    "q8_16": (22, 256, 82, {0: 0.0005}),  # IQ2_S, which becomes it
    "mxfp4": (39, 32, 17, {}),  # a byte, the first: 2^(e - 127)
}


def stored(rng, kind, rows, k):
    number, per_block, size, scales = TYPES[kind]
    if per_block == 1:
        w = (rng.standard_normal((rows, k)) / k ** 0.5 * 1.5).astype("<f4")
        if kind == "bf16":
            return (w.view("<u4") >> 16).astype("<u2").tobytes()
        return w.astype("<f4" if kind == "f32" else "<f2").tobytes()
    n = rows * k // per_block
    blocks = rng.integers(0, 256, (n, size), np.uint8)
    for at, scale in scales.items():
        blocks[:, at:at + 2] = (scale * rng.uniform(0.5, 1.5, (n, 1))).astype("<f2").view(np.uint8)
    if kind == "mxfp4":
        blocks[:, 0] = rng.integers(120, 123, n)
    return blocks.tobytes()


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def entry(value):
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    return struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)


def vector(rng, n, mean, spread):
    return "f32", (n,), (mean + spread * rng.standard_normal(n)).astype("<f4").tobytes()


def write(path, arch, settings, tensors):
    """settings: keys without the architecture. tensors: name, type, dimensions from the innermost on, data."""
    entries = [("general.architecture", arch)] + [(f"{arch}.{k}", v) for k, v in settings] + [("tokenizer.ggml.model", "no_vocab")]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(entries)) + b"".join(text(k) + entry(v) for k, v in entries)
    data = b""
    for name, kind, dims, raw in tensors:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, TYPES[kind][0], len(data))
        data += raw + bytes(-len(raw) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)


def settings(*more):
    return [("context_length", CONTEXT), ("embedding_length", D), ("block_count", LAYERS), ("feed_forward_length", FF), ("attention.head_count", HEADS),
            ("attention.head_count_kv", KV_HEADS), ("attention.key_length", HEAD), ("attention.value_length", HEAD), ("rope.dimension_count", HEAD),
            ("vocab_size", VOCAB), ("attention.layer_norm_rms_epsilon", 1e-5), ("rope.freq_base", 10000.0), *more]


def llama(path, kind):
    rng, tensors = np.random.default_rng(TYPES[kind][0] + 5), []

    def add(name, rows, k):
        own = "f32" if rows == 0 else kind if k % TYPES[kind][1] == 0 else "q8_0"
        tensors.append((name + ".weight", *(vector(rng, k, 1, 0.2) if rows == 0 else (own, (k, rows), stored(rng, own, rows, k)))))
    add("token_embd", VOCAB, D), add("output_norm", 0, D), add("output", VOCAB, D)
    for i in range(LAYERS):
        for name, rows, k in (("attn_norm", 0, D), ("attn_q", HEADS * HEAD, D), ("attn_k", KV_HEADS * HEAD, D), ("attn_v", KV_HEADS * HEAD, D),
                              ("ffn_norm", 0, D), ("ffn_gate", FF, D), ("ffn_up", FF, D), ("ffn_down", D, FF),
                              ("attn_output", D, HEADS * HEAD)):  # 128 wide: no superblock of 256 fits
            add(f"blk.{i}.{name}", rows, k)
    write(path, "llama", settings(), tensors)


def gpt_oss(path):
    """Sinks, a window in one of two layers, biases, and experts in MXFP4 that are no superblock wide; the rest in Q8_0."""
    n, width, rng, tensors = 5, 96, np.random.default_rng(44), []

    def add(name, rows, k, kind="q8_0", bias=True, stack=()):
        tensors.append((name + ".weight", kind, (k, rows, *stack), stored(rng, kind, rows * int(np.prod(stack)), k)))
        if bias:
            kind, dims, raw = vector(rng, rows * int(np.prod(stack)), 0, 0.1)
            tensors.append((name + ".bias", kind, (rows, *stack), raw))
    add("token_embd", VOCAB, D, bias=False), add("output", VOCAB, D, bias=False)
    tensors.append(("output_norm.weight", *vector(rng, D, 1, 0.2)))
    for i in range(LAYERS):
        for name, size, mean in (("attn_norm", D, 1), ("post_attention_norm", D, 1), ("attn_sinks", HEADS, 0)):
            tensors.append((f"blk.{i}.{name}.weight", *vector(rng, size, mean, 0.2)))
        for name, rows, k in (("attn_q", HEADS * HEAD, D), ("attn_k", KV_HEADS * HEAD, D), ("attn_v", KV_HEADS * HEAD, D),
                              ("attn_output", D, HEADS * HEAD)):
            add(f"blk.{i}.{name}", rows, k)
        add(f"blk.{i}.ffn_gate_inp", n, D, "f32")
        for name, rows, k in (("gate", width, D), ("up", width, D), ("down", D, width)):
            add(f"blk.{i}.ffn_{name}_exps", rows, k, "mxfp4", stack=(n,))
    write(path, "gpt-oss", settings(("expert_count", n), ("expert_used_count", 2), ("expert_feed_forward_length", width),
                                    ("attention.sliding_window", 48), ("rope.scaling.type", "yarn"), ("rope.scaling.factor", 4.0),
                                    ("rope.scaling.original_context_length", CONTEXT // 4)), tensors)


out = pathlib.Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
for name in TYPES:
    llama(out / f"matrix-{name}.gguf", name)
gpt_oss(out / "matrix-gpt-oss.gguf")
