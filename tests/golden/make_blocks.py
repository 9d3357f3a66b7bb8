#!/usr/bin/env python3
"""Write tests/data/gguf/block-edges.safetensors: random bytes as blocks of every GGUF type, with scales from the ends of
their range, and the floats that the Python package gguf makes of them (recorded with gguf 0.19.0, numpy 2.4.6).

    pip install gguf==0.19.0 numpy safetensors; tests/golden/make_blocks.py OUT
    tests/golden/make_blocks.py --digests     of types with a codebook: what tests/unit/test_ggml_blocks.c expects
    tests/golden/make_blocks.py --codebooks   src/quant/iq_codebooks.inc
"""
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize, quants
from safetensors.numpy import save_file

# where the f16 scales of a block lie, from its begin
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
}
# zeros, subnormals, the least normal, 1, the largest; both signs
EDGES = np.array([0, 0x8000, 1, 0x8001, 0x3FF, 0x83FF, 0x400, 0x8400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF], np.uint16)


# Types with a codebook and those of three values, which are compared by digests: where the 16 bits of their scale lie (of IQ1_M in the upper four of
# four words), and the codebooks, rows of codes of 2 or 4 bits.
CODEBOOK_TYPES = {"IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ1_M": [],
                  "TQ1_0": [52], "TQ2_0": [64]}
CODEBOOKS = {"IQ2_XXS": "iq2_xxs", "IQ2_XS": "iq2_xs", "IQ2_S": "iq2_s", "IQ3_XXS": "iq3_xxs", "IQ3_S": "iq3_s", "IQ1_S": "iq1"}
N_BLOCKS = 1024


def counted_blocks(name):
    """Bytes of a linear congruential generator: every index of every codebook is among them."""
    size, state, data = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1], 1, []
    for _ in range(N_BLOCKS * size):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        data.append(state >> 24)
    blocks = np.array(data, np.uint8).reshape(N_BLOCKS, size)
    scale = EDGES[np.arange(N_BLOCKS) % 12].astype("<u2")
    for at in CODEBOOK_TYPES[name]:
        blocks[:, at:at + 2] = scale.reshape(-1, 1).view(np.uint8)
    for i in range(4 if name == "IQ1_M" else 0):
        at = size - 8 + 2 * i + 1
        blocks[:, at] = blocks[:, at] & 15 | (scale >> 4 * i & 15).astype(np.uint8) << 4
    return blocks


def digests():
    for name in CODEBOOK_TYPES:
        values, h = dequantize(counted_blocks(name), GGMLQuantizationType[name]).astype("<f4"), 0xCBF29CE484222325
        for byte in values.tobytes():
            h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        print("        { BLOCK_%s, UINT64_C(0x%016x) }," % (name, h))


def codebooks():
    print("/* The codebooks of ggml's types of 1 to 3 bits, as the Python package gguf 0.19.0 has them\n"
          " * (grid_hex in quants.py): tests/golden/make_blocks.py --codebooks. */")
    for name, ours in CODEBOOKS.items():
        words = np.frombuffer(bytes.fromhex(getattr(quants, name).grid_hex.decode()), "<u2")
        print("\nstatic const uint16_t %s_codebook[%d] = {" % (ours, len(words)))
        for i in range(0, len(words), 11):
            print("    " + " ".join("0x%04x," % w for w in words[i:i + 11]))
        print("};")


def random_blocks(rng, name):
    _, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    n = 256 if name == "MXFP4" else 16
    blocks = rng.integers(0, 256, (n, size), np.uint8)
    for at in SCALES[name]:
        scale = np.where(np.arange(n) < 12, EDGES[rng.permutation(n) % 12], rng.normal(0, 1, n).astype(np.float16).view(np.uint16))
        blocks[:, at:at + 2] = scale.astype(np.uint16).reshape(n, 1).view(np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = np.arange(256)  # every exponent
    return blocks


def main():
    if sys.argv[1] in ("--digests", "--codebooks"):
        return digests() if sys.argv[1] == "--digests" else codebooks()
    rng, out = np.random.default_rng(1), {}
    for name in SCALES:
        raw = random_blocks(rng, name)
        with np.errstate(over="ignore"):  # the largest exponents of MXFP4
            values = dequantize(raw, GGMLQuantizationType[name])
        assert not np.isnan(values).any()
        out[f"dequantize.{name}.raw"], out[f"dequantize.{name}.values"] = raw, values
    save_file(out, sys.argv[1])


main()
