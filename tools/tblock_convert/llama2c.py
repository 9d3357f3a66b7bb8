"""llama2.c checkpoints (karpathy/llama2.c, export.py): legacy (version 0) and version 1. All values are f32; rotary pairs
are neighbours there and halves here, so the rows of wq and wk are reordered; w1 is the gate, w2 down, w3 up."""
import struct

import numpy as np

from .errors import bad
from . import model

MAGIC = 0x616B3432          # "ak42"
HEADER_V1 = 256
THETA, NORM_EPS = 10000.0, 1e-5    # built into model.py and run.c
BOS, EOS = 1, [1, 2]               # run.c ends a text at BOS, which starts the next one in the training data
FIELDS = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")

# The tensors in file order; {} runs over the layers. None: the rotary tables of the legacy form.
LEGACY = ("embed", "layers.{}.attn_norm", "layers.{}.wq", "layers.{}.wk", "layers.{}.wv", "layers.{}.wo", "layers.{}.ffn_norm",
          "layers.{}.w_gate", "layers.{}.w_down", "layers.{}.w_up", "final_norm", None, "lm_head")
VERSION1 = ("layers.{}.attn_norm", "layers.{}.ffn_norm", "final_norm", "embed", "layers.{}.wq", "layers.{}.wk",
            "layers.{}.wv", "layers.{}.wo", "layers.{}.w_gate", "layers.{}.w_down", "layers.{}.w_up", "lm_head")


def looks_like(head):
    """Version 1 and 2 have a magic; a legacy file starts with seven plausible sizes."""
    if len(head) < 28:
        return False
    words = struct.unpack_from("<7i", head)
    if struct.unpack_from("<I", head)[0] == MAGIC:
        return True
    dim, _, layers, heads, kv_heads, vocab, _ = words
    return all(0 < n < 1 << 24 for n in words[:5] + words[6:]) and vocab != 0 and layers < 1 << 12 and \
        dim % heads == 0 and heads % kv_heads == 0


def load(file):
    """The Checkpoint of a file (source.SourceFile)."""
    head = file.read(0, min(file.size, HEADER_V1))
    if struct.unpack_from("<I", head)[0] != MAGIC:
        fields, tied, offset, order = _legacy(head)
    else:
        fields, tied, offset, order = _version1(file, head)
    config = _config(file.path, fields, tied)
    weights, end, tables = _places(file, config, offset, order)
    if end != file.size:
        raise bad(file.path, "", "%d bytes for %s" % (end, ", ".join("%s %d" % p for p in zip(FIELDS, fields))),
                  "%d" % file.size, "cut short" if file.size < end else "or not a llama2.c file")
    c = model.Checkpoint(config, weights, ["rotary pairs reordered from neighbours to halves"])
    if tables is not None and not _tables_agree(file, config, tables):
        c.warnings.append("%s: the stored rotary tables differ from theta %g, which is used" % (file.path, THETA))
    return c


def _legacy(head):
    fields = list(struct.unpack_from("<7i", head))
    tied = fields[5] > 0    # the sign of vocab_size is a flag
    fields[5] = abs(fields[5])
    return fields, tied, 28, LEGACY


def _version1(file, head):
    if len(head) < HEADER_V1:
        raise bad(file.path, "header", "%d bytes" % HEADER_V1, "%d" % len(head), "cut short")
    version = struct.unpack_from("<i", head, 4)[0]
    if version != 1:
        raise bad(file.path, "llama2.c version", "0 (legacy) or 1", "%d" % version,
                  "version 2 holds int8 weights; export the model with --version 1" if version == 2 else "")
    if head[36] not in (0, 1):
        raise bad(file.path, "shared classifier flag", "0 or 1", "%d" % head[36])
    return list(struct.unpack_from("<7i", head, 8)), bool(head[36]), HEADER_V1, VERSION1


def _config(path, fields, tied):
    for name, value in zip(FIELDS, fields):
        if value < 1:
            raise bad(path, name, "a number above 0", "%d" % value)
    dim, hidden, layers, heads, kv_heads, vocab, n_ctx = fields
    if dim % heads:
        raise bad(path, "dim", "a multiple of n_heads %d" % heads, "%d" % dim)
    return model.make_config(path, d_model=dim, d_ff=hidden, n_layers=layers, heads=heads, kv_heads=kv_heads,
                             head_dim=dim // heads, vocab_size=vocab, n_ctx=n_ctx, theta=THETA, norm_eps=NORM_EPS,
                             tied_embeddings=tied, bos=BOS, eos=[i for i in EOS if i < vocab])


def _places(file, config, offset, order):
    """Where each tensor lies. Returns (weights, end of the last one, offset of the rotary tables or None)."""
    shapes = {s.name: s.shape for s in model.tensor_specs(config)}
    weights, tables = {}, None
    for pattern in order:
        if pattern is None:
            tables, offset = offset, offset + 2 * 4 * config["n_ctx"] * (config["head_dim"] // 2)
            continue
        for n in range(config["n_layers"] if "{}" in pattern else 1):
            name = pattern.format(n)
            if name not in shapes:   # the head of a tied model
                continue
            rows, k = shapes[name] if len(shapes[name]) == 2 else shapes[name] + (1,)
            pair = config["head_dim"] if name.endswith((".wq", ".wk")) else 0
            weights[name] = model.Weight(name, [model.Place(file, "F32", offset, rows, k)], rows, k, pair=pair,
                                         head_dim=config["head_dim"])
            offset += 4 * rows * k
    return weights, offset, tables


def _tables_agree(file, config, offset):
    """The legacy form stores cos and sin of every angle; run.c computes them, with theta 10000."""
    half = config["head_dim"] // 2
    position = min(config["n_ctx"] - 1, 8)
    stored = np.frombuffer(file.read(offset + 4 * half * position, 4 * half), "<f4")
    angle = position * THETA ** (-np.arange(half) / half)
    return np.allclose(stored, np.cos(angle), atol=1e-3)
