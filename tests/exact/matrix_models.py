#!/usr/bin/env python3
"""Write the models of matrix.sh: one GGUF file for each stored type, a small Llama of random weights, wide enough for superblocks.

    matrix_models.py OUT     writes OUT/matrix-TYPE.gguf
"""
import pathlib
import struct
import sys

import numpy as np

D, FF, HEADS, KV_HEADS, HEAD, LAYERS, VOCAB, CONTEXT = 256, 256, 4, 2, 32, 2, 96, 512
# ggml's number, elements and bytes of a block, where its f16 scales lie and how large they are for weights of about 1 / sqrt(256)
TYPES = {
    "f32": (0, 1, 4, {}), "f16": (1, 1, 2, {}), "bf16": (30, 1, 2, {}), "q4_0": (2, 32, 18, {0: 0.012}), "q8_0": (8, 32, 34, {0: 0.0008}),
    "q4_k": (12, 256, 144, {0: 0.0004, 2: 0.003}), "q5_k": (13, 256, 176, {0: 0.0002, 2: 0.003}), "q6_k": (14, 256, 210, {208: 0.00005}),
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


def write(path, kind):
    rng = np.random.default_rng(TYPES[kind][0] + 5)
    entries = [("general.architecture", "llama")] + [(f"llama.{k}", v) for k, v in (
        ("context_length", CONTEXT), ("embedding_length", D), ("block_count", LAYERS), ("feed_forward_length", FF), ("attention.head_count", HEADS),
        ("attention.head_count_kv", KV_HEADS), ("attention.key_length", HEAD), ("attention.value_length", HEAD), ("rope.dimension_count", HEAD),
        ("vocab_size", VOCAB), ("attention.layer_norm_rms_epsilon", 1e-5), ("rope.freq_base", 10000.0))] + [("tokenizer.ggml.model", "no_vocab")]
    tensors = [("token_embd.weight", VOCAB, D), ("output_norm.weight", 0, D), ("output.weight", VOCAB, D)]
    for i in range(LAYERS):
        tensors += [(f"blk.{i}.{n}.weight", rows, k) for n, rows, k in (
            ("attn_norm", 0, D), ("attn_q", HEADS * HEAD, D), ("attn_k", KV_HEADS * HEAD, D), ("attn_v", KV_HEADS * HEAD, D),
            ("ffn_norm", 0, D), ("ffn_gate", FF, D), ("ffn_up", FF, D), ("ffn_down", D, FF))]
        # 128 wide: no superblock of 256 fits
        tensors.append((f"blk.{i}.attn_output.weight", D, HEADS * HEAD))
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(entries))
    for key, value in entries:
        head += text(key)
        head += struct.pack("<I", 8) + text(value) if isinstance(value, str) else struct.pack("<If", 6, value) if isinstance(value, float) else \
            struct.pack("<II", 4, value)
    data = b""
    for name, rows, k in tensors:
        own = "f32" if rows == 0 else kind if k % TYPES[kind][1] == 0 else "q8_0"
        raw = (1 + 0.2 * rng.standard_normal(k)).astype("<f4").tobytes() if rows == 0 else stored(rng, own, rows, k)
        head += text(name) + (struct.pack("<IQ", 1, k) if rows == 0 else struct.pack("<IQQ", 2, k, rows))
        head += struct.pack("<IQ", TYPES[own][0], len(data))
        data += raw + bytes(-len(raw) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)


out = pathlib.Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
for name in TYPES:
    write(out / f"matrix-{name}.gguf", name)
