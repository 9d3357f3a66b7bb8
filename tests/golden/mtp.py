#!/usr/bin/env python3
"""The layer that predicts the token after the next: its logits are those that transformers' decoder layer of the family gives in float64
(tests/data/mtp.json), from a folder and from the file that `convert` makes of it; `--draft mtp` never changes a text. The models:
tests/golden/mtp_models.py.

    mtp.py [--only PART]"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import mtp_models
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import attempt_all, need, option_only  # noqa: E402

BUILD = ROOT / os.environ.get("BUILD", "build/release")
TBLOCK, TOOL = os.environ.get("TBLOCK", str(BUILD / "tblock")), str(BUILD / "tests" / "golden" / "mtp_tool")
RECORDED = json.loads((ROOT / "tests" / "data" / "mtp.json").read_text())
TEMP = tempfile.TemporaryDirectory()
FAMILIES = tuple(mtp_models.CONFIGS)
PROMPT = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20"


def run(*command, status=0):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    need(done.returncode == status, "%s: status %d: %s" % (" ".join(map(str, command)), done.returncode, done.stderr[-300:]))
    return done.stdout if status == 0 else done.stderr


def folder_of(family, kind):
    folder = pathlib.Path(TEMP.name, family + "-" + kind)
    if not folder.exists():
        mtp_models.write(folder, family, mtp_models.guesses_itself(family) if kind == "right" else mtp_models.weights(family))
    return folder


def file_of(family, kind, *options):
    path = pathlib.Path(TEMP.name, "-".join((family, kind) + options) + ".bin")
    if not path.exists():
        run(TBLOCK, "convert", folder_of(family, kind), "-o", path, "--quiet", *options)
    return path


def its_logits_are_those_of_the_reference():
    for family in FAMILIES:
        r = RECORDED[family]
        want = np.array(r["logits"])
        rows = [run(TOOL, model, piece, ",".join(map(str, r["ids"])), ",".join(map(str, r["guesses"])))
                for model in (folder_of(family, "drawn"), file_of(family, "drawn")) for piece in (1, 4, 64)]
        need(len(set(rows)) == 1, family + ": other bits in pieces, or from the file")
        got = np.array([[float(x) for x in line.split()] for line in rows[0].splitlines()])
        need(got.shape == want.shape, "%s: %s rows, expected %s" % (family, got.shape, want.shape))
        error = abs(got - want).max() / abs(want).max()
        need(error <= r["tolerance"], "%s: %.2g of the largest logit, at most %.2g" % (family, error, r["tolerance"]))


def answer(model, *options):
    """What a run draws and the hashes of its logits; proposed and accepted tokens."""
    trace = pathlib.Path(TEMP.name, "trace")
    found = json.loads(run(TBLOCK, "run", model, "--ids", PROMPT, "--json", "--trace", trace, *options))
    draft = found["stats"].get("draft", {})
    return (found["ids"], trace.read_text()), draft.get("proposed"), draft.get("accepted")


def the_text_is_the_same():
    for family in FAMILIES:
        for kind in ("drawn", "right"):
            for model in (folder_of(family, kind), file_of(family, kind), file_of(family, kind, "--type", "q8"), file_of(family, kind, "--type", "q4")):
                for how in (("--temp", "0"), ("--temp", "0.8", "--seed", "5"), ("--temp", "1.5", "--top-k", "0", "--seed", "7", "--draft-max", "3")):
                    plain = answer(model, "-n", 100, *how)[0] if "--draft-max" not in how else answer(model, "-n", 100, *how[:-2])[0]
                    for threads in (1, 2):
                        need(answer(model, "-n", 100, "-t", threads, "--draft", "mtp", *how)[0] == plain, "%s %s %s" % (family, model, how))


def a_layer_that_is_right_is_always_believed():
    for family in FAMILIES:
        for how in (("--temp", "0"), ("--temp", "0.8", "--seed", "5")):
            _, proposed, accepted = answer(file_of(family, "right"), "-n", 100, "--draft", "mtp", *how)
            need(proposed >= 70 and accepted == proposed, "%s %s: %s of %s" % (family, how, accepted, proposed))


def receipts_and_states_are_the_same():
    for family in FAMILIES:
        model, made = file_of(family, "right"), {}
        for by in ("none", "mtp"):
            to = [pathlib.Path(TEMP.name, "%s.%s" % (by, what)) for what in ("receipt", "state")]
            run(TBLOCK, "run", model, "--ids", PROMPT, "-n", 60, "--temp", "0.9", "--seed", "3", "--draft", by, "--quiet",
                "--receipt", to[0], "--save-state", to[1])
            made[by] = [p.read_bytes() for p in to]
            run(TBLOCK, "verify", model, to[0])
        need(made["none"] == made["mtp"], family)
        # what the state holds was never shown to the layer: it guesses from what comes behind
        options = ("run", model, "--load-state", to[1], "--ids", "5", "-n", 40, "--temp", "0", "--json")
        plain, guessed = (json.loads(run(TBLOCK, *options, *more)) for more in ((), ("--draft", "mtp")))
        need(plain["ids"] == guessed["ids"] and guessed["stats"]["draft"]["accepted"] > 20, "%s: %s" % (family, guessed["stats"]["draft"]))


def what_has_no_such_layer_is_refused():
    for family in FAMILIES:
        tensors = {name: t for name, t in mtp_models.weights(family).items() if not name.startswith("model.layers.2.")}
        folder = mtp_models.write(pathlib.Path(TEMP.name, family + "-without"), family, tensors)
        need("draft mtp: expected a layer that predicts the token after the next" in run(TBLOCK, "run", folder, "--ids", "1", "--draft", "mtp", status=3), family)
        need("mtp" not in run(TBLOCK, "info", folder), family)
        whole = json.loads(run(TBLOCK, "info", folder_of(family, "drawn"), "--json"))
        need(whole["mtp_parameters"] > 0 and "mtp layer" in run(TBLOCK, "info", file_of(family, "drawn")), "%s: %s" % (family, whole))


if __name__ == "__main__":
    only = option_only(__doc__).parse_args().only
    sys.exit(attempt_all(its_logits_are_those_of_the_reference, the_text_is_the_same, a_layer_that_is_right_is_always_believed,
                         receipts_and_states_are_the_same, what_has_no_such_layer_is_refused, only=only))
