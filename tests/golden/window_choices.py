#!/usr/bin/env python3
"""`eval --choices` of models with a sliding window: scores are those of plain logits, each choice computed from its start by itself. Questions'
choices share a context that the window has left behind, so that the cache cannot go back to its end. The shipped model gets a window.

    window_choices.py"""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import numpy as np
from ref import read_safetensors

ROOT = pathlib.Path(__file__).resolve().parents[2]
TBLOCK = os.environ.get("TBLOCK", str(ROOT / os.environ.get("BUILD", "build/release") / "tblock"))
MODEL = ROOT / "models" / "shakespeare.bin"
WINDOWS = {"all_layers": {"window": 8}, "some_layers": {"window": 20, "full_layers": [2, 5]}, "none": {}}
N_CTX, SHORT = 256, 100
WORDS = "the king of France doth speak and we shall hear him now my lord is dead upon a horse in night what news from thee".split()


class Failure(Exception):
    pass


def run(*command):
    p = subprocess.run([TBLOCK, *map(str, command)], capture_output=True)
    if p.returncode:
        raise Failure(f"{' '.join(map(str, command))}: status {p.returncode}: {p.stderr.decode(errors='replace').strip()[-300:]}")
    return p.stdout


def with_config(changes, out):
    """The shipped model with other values in its config."""
    data = MODEL.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header["__metadata__"]["config"] = json.dumps({**json.loads(header["__metadata__"]["config"]), **changes})
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 4096)
    out.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + n:])
    return out


def questions(n_ctx):
    """Contexts of a few to over two hundred tokens; choices of one word to nearly all that fits, in any order. A cache gives a tile of 64
    positions up with the second piece of 128 tokens that comes after it."""
    lengths = (1, 2, 5, 20, 60, 150) if n_ctx == N_CTX else (1, 2, 5, 20, 60)
    draw, asked = random.Random(5), []
    for length in (2, 9, 30, 64, 70, 100, 128, 33):
        context = " ".join(draw.choice(WORDS) for _ in range(length))
        choices = [" ".join(draw.choice(WORDS) for _ in range(n)) for n in draw.sample(lengths, len(lengths) - 1)]
        asked.append({"context": context, "choices": choices, "answer": 0})
    return asked


def ids(model, text):
    return json.loads(run("tokenize", model, "--json", "--text", text))["ids"]


def score(model, context, choice, n_ctx, folder):
    """The sum of log-likelihoods of the tokens that the choice adds, from the logits of one run over all of them."""
    before, whole = ids(model, context), ids(model, f"{context} {choice}")
    first = next((i for i, (a, b) in enumerate(zip(before, whole)) if a != b), min(len(before), len(whole)))
    skip = max(0, len(whole) - n_ctx - 1)
    run("logits", model, "--ids", ",".join(map(str, whole[skip:-1])), "-o", folder / "logits", "--quiet")
    rows = read_safetensors(folder / "logits")["logits"].astype(np.float64)
    total = 0.0
    for at in range(first, len(whole)):
        row = rows[at - 1 - skip]
        total += row[whole[at]] - row.max() - np.log(np.exp(row - row.max()).sum())
    return len(whole) - first, total


def check(changes, n_ctx, folder):
    model, asked = with_config(changes, folder / "model.bin"), questions(n_ctx)
    (folder / "questions").write_text("\n".join(map(json.dumps, asked)))
    found = json.loads(run("eval", model, "--choices", folder / "questions", "--each", "--json", "--ctx", n_ctx))["each"]
    if len(found) != len(asked):
        raise Failure(f"{len(found)} questions of {len(asked)}")
    sums = []
    for question, answer in zip(asked, found):
        for choice, scored in zip(question["choices"], answer["choices"]):
            n, expected = score(model, question["context"], choice, n_ctx, folder)
            if scored["tokens"] != n or not abs(scored["sum"] - expected) <= 1e-9 * abs(expected):
                raise Failure(f"{len(question['context'])} and {len(choice)} bytes: expected {n} tokens, {expected!r}, found {scored}")
            sums.append(scored["sum"])
    return sums


def main():
    failed, seen = 0, {}
    for name, changes in WINDOWS.items():
        for n_ctx in (N_CTX, SHORT):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    sums = check(changes, n_ctx, pathlib.Path(folder))
                    if sums in seen.values():
                        raise Failure("the window changes nothing")
                    seen[name, n_ctx] = sums
                    print(f"ok choices_with_a_window_in_{name}_{n_ctx}", flush=True)
                except Failure as e:
                    failed = 1
                    print(f"FAIL choices_with_a_window_in_{name}_{n_ctx}: {e}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
