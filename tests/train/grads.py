#!/usr/bin/env python3
"""`tblock grad` against torch: loss, gradients of all parameters and three AdamW steps of the fixtures.

    grads.py [--only TEXT]

Tolerances are those that the fixtures' README justifies. Also: the same bits whatever the threads, and our names for a model file."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "golden"), str(ROOT / "tests" / "faults")]
from faults import lacks_openblas  # noqa: E402
from ref import read_safetensors  # noqa: E402
from testdata import FIXTURES  # noqa: E402
from verdicts import Failure, attempt, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / os.environ.get("BUILD", "build/release") / "tblock"))
CASES = ["grad-llama-bias", "grad-llama-gqa", "grad-llama-tied"]
FAMILIES = ["gemma", "granite", "llama-headdim", "llama-mqa", "llama-yarn", "llama3-rope-scaled", "mistral-window", "olmo2", "phi3", "qwen2",
            "qwen3", "stablelm"]
REFUSED = {"gemma2": "attn_softcap", "mixtral": "n_experts", "gpt2": "positions", "cohere": "norm_placement"}
GRADIENT, LOSS, PARAMETER = 2e-5, 1e-5, 1e-4


def run(*command, status=0):
    p = subprocess.run([TBLOCK, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode != status:
        raise Failure(f"{' '.join(map(str, command))}: status {p.returncode}: {p.stderr.decode(errors='replace').strip()}")
    return p


def compare(found, case):
    """found: the file that was written, under the checkpoint's names."""
    golden = read_safetensors(case / "golden.safetensors")
    facts = json.loads((case / "golden.json").read_text())
    expected = {k for k in golden if k.startswith("grad.")}
    names = {k for k in found if k.startswith("grad.")}
    if names != expected:
        raise Failure(f"names: {sorted(names ^ expected)[:4]} are not in both")
    if {k[7:] for k in found if k.startswith("after3.")} != {k[5:] for k in expected}:
        raise Failure("after3 does not have the names of the gradients")
    for name in sorted(names):
        a, b = found[name].astype(np.float64), golden[name].astype(np.float64)
        if a.shape != b.shape or not np.linalg.norm(a - b) <= GRADIENT * np.linalg.norm(b):
            raise Failure(f"{name}: relative L2 error {np.linalg.norm(a - b) / np.linalg.norm(b):.3g}")
    for name in (k for k in golden if k.startswith("after3.")):
        if not np.abs(found[name] - golden[name]).max() <= PARAMETER:
            raise Failure(f"{name}: differs by {np.abs(found[name] - golden[name]).max():.3g}")
    losses = np.array(facts["adamw"]["losses_f64"])
    if not np.abs(found["losses"] - losses).max() <= LOSS or not abs(float(found["loss"]) - losses[0]) <= LOSS:
        raise Failure(f"losses {found['losses']}, expected {losses}")


def check_case(name, folder):
    case = FIXTURES / "grads" / name
    model = (case / json.loads((case / "golden.json").read_text())["weights"]).resolve()
    out = folder / "grads.safetensors"
    run("grad", model, "--tokens", case / "golden.safetensors", "-o", out, "--adamw-steps", 3, "--threads", 1, "--quiet")
    compare(read_safetensors(out), case)
    first = out.read_bytes()
    for threads in (2, 3):
        run("grad", model, "--tokens", case / "golden.safetensors", "-o", out, "--adamw-steps", 3, "--threads", threads, "--quiet")
        if out.read_bytes() != first:
            raise Failure(f"other bytes with {threads} threads")


def check_model_file(folder):
    """The same model converted: the same numbers under our names."""
    case = FIXTURES / "grads" / CASES[0]
    source = FIXTURES / "models" / "llama-bias"
    model, ours, theirs = folder / "m.bin", folder / "ours.safetensors", folder / "theirs.safetensors"
    subprocess.run([sys.executable, ROOT / "tools" / "convert.py", source, "-o", model], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run("grad", model, "--tokens", case / "golden.safetensors", "-o", ours, "--quiet")
    run("grad", source, "--tokens", case / "golden.safetensors", "-o", theirs, "--quiet")
    a, b = read_safetensors(ours), read_safetensors(theirs)
    for x, y in (("grad.embed", "grad.model.embed_tokens.weight"), ("grad.layers.1.wk", "grad.model.layers.1.self_attn.k_proj.weight"),
                 ("grad.layers.0.w_down_bias", "grad.model.layers.0.mlp.down_proj.bias")):
        if a[x].tobytes() != b[y].tobytes():
            raise Failure(f"{x} is not {y}")


def check_family(name):
    """The weights of a family that training implements: every parameter's gradient against central differences."""
    run("train", "--grad-check", "--init", FIXTURES / "models" / name, "--quiet")


def check_refused(name):
    said = run("train", "--grad-check", "--init", FIXTURES / "models" / name, status=3).stderr.decode()
    if REFUSED[name] not in said:
        raise Failure(f"expected '{REFUSED[name]}' in: {said}")


def main():
    only = option_only(__doc__).parse_args().only
    if lacks_openblas():
        print("skip grads: no OpenBLAS")
        return 0
    failed = 0
    grads, models = FIXTURES / "grads", FIXTURES / "models"
    claims = [(name, grads / name, lambda f, name=name: check_case(name, f)) for name in CASES]
    claims += [("model_file_names", grads / CASES[0], check_model_file)]
    claims += [(f"gradients_of_{name}", models / name, lambda f, name=name: check_family(name)) for name in FAMILIES]
    claims += [(f"{name}_is_refused", models / name, lambda f, name=name: check_refused(name)) for name in REFUSED]
    for name, needed, check in claims:
        if only not in name:
            continue
        if not needed.exists():
            print(f"skip {name}: no data ({needed.name})")
            continue
        with tempfile.TemporaryDirectory() as folder:
            failed |= attempt(name, check, pathlib.Path(folder))
    return failed


if __name__ == "__main__":
    sys.exit(main())
