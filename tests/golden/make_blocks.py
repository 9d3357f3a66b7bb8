#!/usr/bin/env python3
"""Write tests/data/gguf/block-edges.safetensors: random bytes as blocks of every GGUF type, with scales from the ends of
their range, and the floats that the Python package gguf makes of them (recorded with gguf 0.19.0, numpy 2.4.6).

    pip install gguf==0.19.0 numpy safetensors; tests/golden/make_blocks.py OUT
"""
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
from safetensors.numpy import save_file

# where the f16 scales of a block lie, from its begin
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
}
# zeros, subnormals, the least normal, 1, the largest; both signs
EDGES = np.array([0, 0x8000, 1, 0x8001, 0x3FF, 0x83FF, 0x400, 0x8400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF], np.uint16)


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
    rng, out = np.random.default_rng(1), {}
    for name in SCALES:
        raw = random_blocks(rng, name)
        with np.errstate(over="ignore"):  # the largest exponents of MXFP4
            values = dequantize(raw, GGMLQuantizationType[name])
        assert not np.isnan(values).any()
        out[f"dequantize.{name}.raw"], out[f"dequantize.{name}.values"] = raw, values
    save_file(out, sys.argv[1])


main()
