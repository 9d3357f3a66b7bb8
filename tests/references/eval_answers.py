#!/usr/bin/env python3
"""Compares `tblock eval` with what PyTorch answers: tests/data/references.json, or FILE of `record.py --print`.

    eval_answers.py [FILE]

Everything within 1e-4: of a number of nats or a share, relative of a perplexity. Models are converted into BUILD/references.
"""
import json
import os
import pathlib
import subprocess
import sys

import record

ROOT, BUILD = record.ROOT, pathlib.Path(os.environ.get("BUILD", "build/release"))
TBLOCK = os.environ.get("TBLOCK", str(ROOT / BUILD / "tblock"))
OUT = ROOT / BUILD / "references"
ALLOWED = 1e-4
RELATIVE = ("perplexity", "perplexity_error", "recipe_perplexity")
EXACT = ("tokens", "scored", "bytes")
WHAT_WAS_ASKED = ("model", "text", "context", "stride", "type", "ids_sha256")


class Missing(Exception):
    pass


def run(*command):
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if p.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: status {p.returncode}: {p.stderr.strip()[-300:]}")
    return p.stdout


def model(name):
    shipped = ROOT / "models" / (name + ".bin")
    if shipped.exists():
        return shipped
    made, folder = OUT / (name + ".bin"), record.FOLDERS[name]
    if not folder.exists():
        raise Missing(f"no data ({name})")
    if not made.exists():
        OUT.mkdir(parents=True, exist_ok=True)
        run(sys.executable, ROOT / "tools" / "convert.py", folder, "-o", made)
    return made


def text_file(asked):
    if not record.text_exists(asked["text"]):
        raise Missing(f"no data ({asked['text']})")
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{asked['text']}.{asked['bytes']}"
    path.write_bytes(record.text_of(asked["text"], asked["bytes"]))
    return path


def compare(expected, found, keys):
    """What differs, and the largest difference."""
    worst = 0.0
    for key in keys:
        a, b = expected[key], found[key]
        if key in EXACT:
            assert a == b, f"{key}: expected {a}, found {b}"
            continue
        assert b is not None, f"{key}: expected {a}, found null"
        difference = abs(a - b) / (abs(a) if key in RELATIVE else 1)
        assert difference <= ALLOWED, f"{key}: expected {a}, found {b}"
        worst = max(worst, difference)
    return worst


def asked_keys(case):
    return [k for k in case if k not in WHAT_WAS_ASKED and k != "bytes"]


def check_text(case):
    found = json.loads(run(TBLOCK, "eval", model(case["model"]), text_file(case), "--json", "--ctx", case["context"], "--stride", case["stride"]))
    return compare(case, found, asked_keys(case))


def check_against(case):
    parent = model(case["model"])
    found = json.loads(run(TBLOCK, "eval", parent, text_file(case), "--json", "--ctx", case["context"], "--stride", case["stride"],
                           "--type", case["type"], "--kv-type", "f32", "--against", parent))
    return compare(case, found, asked_keys(case))


def check_choices(name, expected):
    found = json.loads(run(TBLOCK, "eval", model(name), "--choices", record.QUESTIONS, "--each", "--json"))
    worst, right, right_norm = 0.0, 0, 0
    assert found["questions"] == len(expected), f"questions: expected {len(expected)}, found {found['questions']}"
    for e, f in zip(expected, found["each"]):
        assert len(e["choices"]) == len(f["choices"]) and e["answer"] == f["answer"], f"line {f['line']}: another question"
        for a, b in zip(e["choices"], f["choices"]):
            worst = max(worst, compare(a, b, ("tokens", "bytes", "sum")))
        right += max(range(len(e["choices"])), key=lambda i: e["choices"][i]["sum"]) == e["answer"]
        right_norm += max(range(len(e["choices"])), key=lambda i: e["choices"][i]["sum"] / e["choices"][i]["bytes"]) == e["answer"]
    compare({"accuracy": right / len(expected), "accuracy_norm": right_norm / len(expected)}, found, ("accuracy", "accuracy_norm"))
    return worst


def checks(answers):
    for case in answers["texts"]:
        name = f"perplexity_{case['model']}_{case['text'].split('.')[0]}_{case['context']}_{case['stride']}"
        yield name, lambda case=case: check_text(case)
    for case in answers["against"]:
        yield f"kl_{case['model']}_{case['type']}_{case['text'].split('.')[0]}_{case['stride']}", lambda case=case: check_against(case)
    for name, expected in answers["choices"].items():
        yield f"choices_{name}", lambda name=name, expected=expected: check_choices(name, expected)


def main():
    answers = json.loads(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else record.ANSWERS).read_text())
    failed = False
    for name, check in checks(answers):
        try:
            worst = check()
            print(f"ok {name}\nnote: {name}: largest difference {worst:.1e}", flush=True)
        except Missing as e:
            print(f"skip {name}: {e}", flush=True)
        except AssertionError as e:
            print(f"FAIL {name}: {e}", flush=True)
            failed = True
    return failed


if __name__ == "__main__":
    sys.exit(main())
