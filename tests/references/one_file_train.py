#!/usr/bin/env python3
"""docs/examples/one_file_train.c computes the gradients of `tblock grad`, takes the steps of `tblock train`, and rejects what it
cannot use.

    one_file_train.py [--only TEXT]

The tolerances are those of tests/train/grads.py. The program is the one that the Makefile builds, so a sanitizer's build checks it
too; gcc and clang build it once more as its first lines say, with warnings as errors."""
import json
import pathlib
import re
import sys
import tempfile

import numpy as np
from one_file import BUILD, ROOT, SHIPPED, TBLOCK, built_as_it_says, model, prompt, run

sys.path[:0] = [str(ROOT / "tests" / "golden"), str(ROOT / "tests" / "faults")]
from faults import lacks_openblas  # noqa: E402
from ref import read_safetensors, write_safetensors  # noqa: E402
from verdicts import Skip, attempt, need, option_only  # noqa: E402

SOURCE = ROOT / "docs/examples/one_file_train.c"
PROGRAM = BUILD / "docs/examples/one_file_train"
TEXT = ROOT / "models/as-you-like-it.txt"
GRADIENT, LOSS, PARAMETER = 2e-5, 1e-5, 1e-4
SMALL = {"d_model": 48, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 80, "vocab_size": 320, "n_ctx": 64}


def ids_file(work, ids):
    path = work / "ids"
    path.write_text(" ".join(map(str, ids)) + "\n")
    return path


def losses(program, *arguments):
    return np.array([float(line) for line in run(program, *arguments).stdout.split()])


def gradients(work, name, program=PROGRAM):
    """The loss and the bytes of all gradients of 164 predicted tokens."""
    loss = losses(program, model(work, name), ids_file(work, prompt(name).split(",")), "-o", work / "raw")
    return loss, np.fromfile(work / "raw", dtype="<f4")


def gradients_are_those_of_grad(work, name):
    write_safetensors(work / "tokens", {"tokens": np.array([[int(i) for i in prompt(name).split(",")]], dtype=np.int32)})
    run(TBLOCK, "grad", model(work, name), "--tokens", work / "tokens", "-o", work / "grads", "--quiet")
    theirs, (loss, ours), at = read_safetensors(work / "grads"), gradients(work, name), 0
    need(len(loss) == 1 and abs(loss[0] - theirs.pop("loss")) <= LOSS, f"loss {loss}")
    need(len(theirs) > 20, f"{len(theirs)} gradients")
    for key, b in theirs.items():
        a, at = ours[at:at + b.size].reshape(b.shape), at + b.size
        need(np.linalg.norm(b) > 0 and np.linalg.norm(a - b) <= GRADIENT * np.linalg.norm(b),
             f"{key}: differs by {np.linalg.norm(a - b) / np.linalg.norm(b):.3g}")
    need(at == ours.size, f"{ours.size} numbers, expected {at}")


def steps_are_those_of_train(work):
    """50 steps from a model of one step: their losses, and the weights after the last."""
    (work / "small.json").write_text(json.dumps(SMALL))
    start, trained = work / "start.bin", work / "trained.bin"
    run(TBLOCK, "train", "-o", start, "--text", TEXT, "--config", work / "small.json", "--steps", 1, "--batch", 1, "--quiet")
    lines = run(TBLOCK, "train", "-o", trained, "--init", start, "--text", TEXT, "--steps", 50, "--batch", 3, "--ctx", 40, "--lr", 2e-3,
                "--validation", 0, "--json", "--quiet").stdout.splitlines()
    theirs = np.array([step["loss"] for step in map(json.loads, lines) if "step" in step])
    ids = ids_file(work, run(TBLOCK, "tokenize", start, "-f", TEXT).stdout.split())
    ours = losses(PROGRAM, start, ids, "--steps", 50, "--batch", 3, "--ctx", 40, "--lr", "2e-3", "-o", work / "raw")
    need(len(ours) == len(theirs) == 50, f"{len(ours)} and {len(theirs)} steps")
    need(np.abs(ours - theirs).max() <= LOSS, f"losses differ by {np.abs(ours - theirs).max():.3g}")
    need(ours[-1] < ours[0] - 0.5, f"from {ours[0]} to {ours[-1]}: nothing is learnt")
    # grad writes the weights of a model that it does not change
    write_safetensors(work / "tokens", {"tokens": np.array([[1, 2, 3]], dtype=np.int32)})
    run(TBLOCK, "grad", trained, "--tokens", work / "tokens", "-o", work / "weights", "--adamw-steps", 1, "--lr", 0, "--quiet")
    weights = [w.ravel() for key, w in read_safetensors(work / "weights").items() if key.startswith("after1.")]
    difference = np.abs(np.fromfile(work / "raw", dtype="<f4") - np.concatenate(weights)).max()
    need(difference <= PARAMETER, f"weights differ by {difference:.3g}")


def builds_with(work, compiler):
    loss, ours = gradients(work, "odd", built_as_it_says(work, SOURCE, compiler))
    expected, theirs = gradients(work, "odd")
    need(abs(loss[0] - expected[0]) <= LOSS and np.linalg.norm(ours - theirs) <= GRADIENT * np.linalg.norm(theirs), "other gradients")


def is_as_short_as_it_says(work):
    n = len(SOURCE.read_text().splitlines())
    need(n <= 400, f"{n} lines, at most 400 belong there")


def rejects_wrong_arguments(work):
    usage, ids, lonely = "expected MODEL IDS [--steps N]", ids_file(work, range(40)), work / "lonely"
    lonely.write_text("7\n")
    (work / "long").write_text("1 " * 258)
    (work / "words").write_text("1 2 three")
    for words, said in (((), usage), ((SHIPPED,), usage), ((SHIPPED, ids, "--steps"), usage), ((SHIPPED, ids, "--seed", "1"), usage),
                        ((SHIPPED, work / "none"), "none: cannot be read: "), ((SHIPPED, lonely), "expected more than 1 ids"),
                        ((SHIPPED, work / "long"), "at most 256 of them in a sequence, found 258"), ((SHIPPED, work / "words"), "found 'three'"),
                        ((SHIPPED, ids, "--steps", "1", "--ctx", "40"), "expected more than 40 ids"), ((SHIPPED, ids, "--steps", "1", "--ctx", "257"), "from 1 to 256"),
                        ((SHIPPED, ids, "--steps", "-1"), "expected a number"), ((SHIPPED, ids, "--lr", "fast"), "--lr: expected a number"),
                        ((SHIPPED, ids, "--lr", "nan"), "--lr: expected a number"), ((SHIPPED, ids, "-o", work / "no/folder"), "cannot be written"),
                        ((ids, ids), "ids: expected a header up to a multiple of 4096")):
        stderr = run(PROGRAM, *words, status=1).stderr
        need(re.fullmatch(r"one_file_train: [^\n]+\n", stderr) and said in stderr, f"{words[1:]}: expected {said}, found {stderr[-200:]}")


def main():
    only = option_only(__doc__).parse_args().only

    def with_openblas(claim):
        def tried(*arguments):
            if lacks_openblas():
                raise Skip("no OpenBLAS")
            claim(*arguments)
        return tried

    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        claims = [(f"gradients_are_those_of_grad_{name}", with_openblas(gradients_are_those_of_grad), name) for name in ("shipped", "odd", "odd-f32")]
        claims += [("steps_are_those_of_train", with_openblas(steps_are_those_of_train))]
        claims += [(f"builds_with_{compiler}", builds_with, compiler) for compiler in ("gcc", "clang")]
        claims += [(claim.__name__, claim) for claim in (is_as_short_as_it_says, rejects_wrong_arguments)]
        return any([attempt(name, claim, pathlib.Path(folder), *more) for name, claim, *more in claims if only in name])


sys.exit(main())
