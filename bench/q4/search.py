#!/usr/bin/env python3
"""Search a codebook for q4, as docs/numerics.md tells: samples of four kinds of weights, then hill climbing by search.c.

    bench/q4/search.py [--steps N] [--seed N] [--superblocks N] [CODE ... 16 of them, the start]

Prints every codebook that is better than those before: mean log error | relative RMS errors (Gaussian, Student t5,
shakespeare, stories260K) | codes | magnitudes. Needs numpy and, for the models, the data beside the project.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))
import ref  # noqa: E402

MODELS = (ROOT.parent / "shared/models/shakespeare/model.safetensors",
          ROOT.parent / "shared/data/derived/stories260K/hf-f32/model.safetensors")


def superblocks(m):
    """A matrix [rows, k] as superblocks [n, 256], zeros past the end of a row, and how long each is."""
    blocks, lengths = [], []
    for s in range(0, m.shape[1], 256):
        b = m[:, s:s + 256]
        blocks.append(np.pad(b, ((0, 0), (0, 256 - b.shape[1]))))
        lengths.append(np.full(len(b), b.shape[1]))
    return np.concatenate(blocks), np.concatenate(lengths)


def samples(n):
    rng = np.random.default_rng(1)
    yield rng.standard_normal((n, 256)), np.full(n, 256)
    yield rng.standard_t(5, (n, 256)), np.full(n, 256)
    for path in MODELS:
        parts = [superblocks(w.astype(np.float32)) for w in ref.read_safetensors(path).values() if w.ndim == 2]
        blocks, lengths = (np.concatenate(x) for x in zip(*parts))
        few = rng.permutation(len(blocks))[:n]
        yield blocks[few], lengths[few]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("codes", nargs="*", type=int, default=[-10, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 9])
    arguments.add_argument("--steps", type=int, default=200, help="changes to try [200]; 0: only judge the start")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--superblocks", type=int, default=400, help="of each kind [400]")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder, files = pathlib.Path(folder), []
        for i, (blocks, lengths) in enumerate(samples(options.superblocks)):
            files.append(folder / f"{i}.bin")
            files[-1].write_bytes(np.int32(len(blocks)).tobytes() + lengths.astype("<i4").tobytes() + blocks.astype("<f4").tobytes())
        program = folder / "search"
        subprocess.run([os.environ.get("CC", "cc"), "-std=c17", "-O3", "-march=native", "-ffast-math", "-D_GNU_SOURCE",
                        ROOT / "bench/q4/search.c", "-o", program, "-lm"], check=True)
        subprocess.run([program, "-n", str(options.steps), "-s", str(options.seed), *files], check=True,
                       input=" ".join(map(str, options.codes)), text=True)


if __name__ == "__main__":
    main()
