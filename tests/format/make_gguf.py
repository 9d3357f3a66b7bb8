"""A GGUF file written byte by byte, version 3, so that a test can change any of it. Source: ggml/docs/gguf.md."""
import struct

U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
FORMS = {0: "B", 1: "b", 2: "H", 3: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", 11: "q", 12: "d"}


def value_bytes(kind, value):
    """A value of a key; an array is (type of the items, items)."""
    if kind == STRING:
        data = value.encode() if isinstance(value, str) else value
        return struct.pack("<Q", len(data)) + data
    if kind == ARRAY:
        item, items = value
        return struct.pack("<IQ", item, len(items)) + b"".join(value_bytes(item, i) for i in items)
    return struct.pack("<" + FORMS[kind], value)


def write(path, keys, tensors, alignment=32, version=3):
    """keys: {name: (type, value)}; tensors: {name: float32 array}, or (shape as numpy's, type of ggml, bytes)."""
    out, data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)), b""
    for name, (kind, value) in keys.items():
        out += value_bytes(STRING, name) + struct.pack("<I", kind) + value_bytes(kind, value)
    for name, t in tensors.items():
        shape, kind, body = t if isinstance(t, tuple) else (t.shape, 0, t.astype("<f4").tobytes())
        out += value_bytes(STRING, name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in reversed(shape))
        out += struct.pack("<IQ", kind, len(data))
        data += body + bytes(-len(body) % alignment)
    with open(path, "wb") as f:
        f.write(out + bytes(-len(out) % alignment) + data)


class Model:
    """A small llama: change .keys (names without the architecture where they belong to it) and .tensors, then write."""

    def __init__(self, arch="llama", d=32, layers=2, heads=4, kv_heads=2, d_ff=48, vocab=64, n_ctx=64):
        import numpy as np  # write() does without
        self.arch, self.random = arch, np.random.default_rng(1)
        self.keys = {"general.architecture": (STRING, arch)}
        self.own = {"embedding_length": (U32, d), "block_count": (U32, layers), "context_length": (U32, n_ctx),
                    "feed_forward_length": (U32, d_ff), "attention.head_count": (U32, heads),
                    "attention.head_count_kv": (U32, kv_heads), "attention.layer_norm_rms_epsilon": (F32, 1e-5),
                    "rope.dimension_count": (U32, d // heads)}
        kv = d // heads * kv_heads
        self.tensors = {"token_embd.weight": self.floats(vocab, d), "output_norm.weight": self.floats(d),
                        "output.weight": self.floats(vocab, d)}
        for layer in range(layers):
            for name, *shape in (("attn_norm", d), ("attn_q", d, d), ("attn_k", kv, d), ("attn_v", kv, d), ("attn_output", d, d),
                                 ("ffn_norm", d), ("ffn_gate", d_ff, d), ("ffn_up", d_ff, d), ("ffn_down", d, d_ff)):
                self.tensors["blk.%d.%s.weight" % (layer, name)] = self.floats(*shape)

    def floats(self, *shape):
        return (self.random.standard_normal(shape) * 0.2).astype("<f4")

    def write(self, path, **options):
        keys = dict(self.keys, **{self.arch + "." + k: v for k, v in self.own.items()})
        write(path, keys, self.tensors, **options)
        return path
