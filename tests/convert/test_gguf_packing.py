#!/usr/bin/env python3
"""GGUF matrices are multiplied where they lie in the first pass, and packed before the second: both give the bits of a model file
that was packed before. The program: $TBLOCK."""
import os
import subprocess
import sys

import harness
from harness import ROOT, Skip, temp
import numpy as np

sys.path.insert(0, os.path.join(ROOT, "tests", "format"))
import make_gguf  # noqa: E402
from make_gguf import U32  # noqa: E402

TBLOCK = os.environ.get("TBLOCK") or os.path.join(ROOT, "build", "release", "tblock")
IDS = ",".join(str(i * 7 % 60) for i in range(30))
# ggml's number, elements and bytes of a block, and where its f16 scales lie; that of mxfp4 is a byte, the first.
TYPES = {"q4_0": (2, 32, 18, [0]), "q4_1": (3, 32, 20, [0, 2]), "q5_0": (6, 32, 22, [0]), "q5_1": (7, 32, 24, [0, 2]),
         "q8_0": (8, 32, 34, [0]), "q2_k": (10, 256, 84, [80, 82]), "q3_k": (11, 256, 110, [108]),
         "q4_k": (12, 256, 144, [0, 2]), "q5_k": (13, 256, 176, [0, 2]), "q6_k": (14, 256, 210, [208]),
         "iq4_nl": (20, 32, 18, [0]), "iq4_xs": (23, 256, 136, [0]), "iq3_s": (21, 256, 110, [0]),
         "iq2_xxs": (16, 256, 66, [0]), "iq2_xs": (17, 256, 74, [0]),
         "iq2_s": (22, 256, 82, [0]), "iq3_xxs": (18, 256, 98, [0]), "iq1_s": (19, 256, 50, [0]), "iq1_m": (29, 256, 56, []),
         "tq1_0": (34, 256, 54, [52]), "tq2_0": (35, 256, 66, [64]), "mxfp4": (39, 32, 17, [])}


def blocks(kind, *shape):
    number, elements, size, scales = TYPES[kind]
    rng = np.random.default_rng(number)
    data = rng.integers(0, 256, (int(np.prod(shape)) // elements, size), np.uint8)
    for at in scales:
        data[:, at:at + 2] = rng.uniform(0.0002, 0.001, (len(data), 1)).astype("<f2").view(np.uint8)
    if kind == "iq1_m":     # the upper four bits of four words
        data[:, 49:56:2] = data[:, 49:56:2] & 15 | np.array([0, 0x80, 0x20, 0x10], np.uint8)
    if kind == "mxfp4":
        data[:, 0] = rng.integers(118, 122, len(data))
    return shape, number, data.tobytes()


def quantize(model, kind):
    """All matrices but the router; those with other rows than k suits stay floats."""
    for name, t in model.tensors.items():
        if t.ndim > 1 and t.shape[-1] % TYPES[kind][1] == 0 and "gate_inp" not in name:
            model.tensors[name] = blocks(kind, *t.shape)
    return model


def experts(kind):
    """40 rows of an expert are two and a half panels."""
    m = make_gguf.Model(d=64, layers=2, d_ff=40)
    m.own.update({"expert_count": (U32, 6), "expert_used_count": (U32, 2)})
    for layer in range(2):
        for part, rows, k in (("gate", 40, 64), ("up", 40, 64), ("down", 64, 40)):
            del m.tensors["blk.%d.ffn_%s.weight" % (layer, part)]
            m.tensors["blk.%d.ffn_%s_exps.weight" % (layer, part)] = m.floats(6, rows, k)
        m.tensors["blk.%d.ffn_gate_inp.weight" % layer] = m.floats(6, 64)
    return quantize(m, kind)


def models():
    for kind in TYPES:
        m = make_gguf.Model(d=256, layers=2, d_ff=512)
        if kind in ("q8_0", "q6_k", "q5_0"):     # the head is the embedding, of which single rows are read too
            del m.tensors["output.weight"]
        yield kind, quantize(m, kind)
    for kind in ("q8_0", "mxfp4"):
        yield "experts-" + kind, experts(kind)


def run(*words):
    done = subprocess.run([TBLOCK] + list(words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def logits(path, *options):
    run("logits", path, "--ids", IDS, "-o", temp("l"), "-q", *options)
    with open(temp("l"), "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        f.seek(8 + size)        # the header names the model
        return f.read()


def test_first_and_later_passes_give_the_bits_of_packed_weights():
    if not os.path.exists(TBLOCK):
        raise Skip("no program (%s)" % TBLOCK)
    wrong = []
    for name, m in models():
        gguf, packed = m.write(temp(name + ".gguf")), temp(name + ".bin")
        run("convert", gguf, "-o", packed, "-q")
        for math in ("int8", "f32"):
            first, at_once, ours = logits(gguf, "--math", math), logits(gguf, "--math", math, "--pages", "huge"), logits(packed, "--math", math)
            if first != ours or at_once != ours:
                wrong.append("%s, %s: %s" % (name, math, "first pass" if first != ours else "packed"))
        go = ["--ids", IDS, "-n", "12", "--temp", "0", "-q"]
        if run("run", gguf, *go) != run("run", packed, *go):
            wrong.append(name + ": generated")
    assert not wrong, wrong


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
