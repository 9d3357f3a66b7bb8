#!/usr/bin/env python3
"""Logits of every model folder of the fixtures, computed now by torch in float64 for tokens of this run, against `tblock verify`.

    live_logits.py [--seed N]

Folders: tests/data/models and those of the fixtures. The tolerance is the folder's own (golden.json). A family that
tblock convert does not know is skipped, as are
quantized weights, which transformers reads with other packages.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import record

ROOT, BUILD = record.ROOT, pathlib.Path(os.environ.get("BUILD", "build/release"))
TBLOCK = os.environ.get("TBLOCK", str(ROOT / BUILD / "tblock"))
OUT = ROOT / BUILD / "references"


def folders():
    found = {}
    for where in (ROOT / "tests" / "data" / "models", record.FIXTURES / "models"):
        for folder in sorted(where.glob("*")):
            if (folder / "config.json").exists() and (folder / "golden.json").exists():
                found.setdefault(folder.name, folder)
    return found


def logits_of(folder, dtype, seed):
    import torch
    import transformers
    how = {"dtype": dtype, "experts_implementation": "eager"}  # torch's grouped product of experts knows no float64
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, **how).eval()
    except ValueError:  # a text model inside one that sees
        model = transformers.AutoModelForImageTextToText.from_pretrained(folder, **how).eval()
    config = model.config.get_text_config()
    n = min(50, config.max_position_embeddings)
    tokens = torch.randint(0, config.vocab_size, (1, n), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return tokens, model(tokens).logits.double()


def write_golden(folder, path, seed):
    """tokens I64 and logits_f64, as any writer of safetensors has them: a batch of one."""
    import safetensors.torch
    import torch
    tokens, logits = logits_of(folder, torch.float64, seed)
    safetensors.torch.save_file({"tokens": tokens, "logits_f64": logits.contiguous()}, path)


def check(name, folder, seed):
    if "quantization_config" in (folder / "config.json").read_text():
        return f"skip live_{name}: transformers reads such weights with other packages"
    model, golden = OUT / f"live-{name}.bin", OUT / f"live-{name}.safetensors"
    made = subprocess.run([sys.executable, ROOT / "tools" / "convert.py", folder, "-o", model], capture_output=True, text=True)
    if made.returncode:
        return f"skip live_{name}: {(made.stderr.strip() or 'convert.py failed').splitlines()[-1][-200:]}"
    write_golden(folder, golden, seed)
    tolerance = json.loads((folder / "golden.json").read_text())["suggested_tolerance"]
    p = subprocess.run([TBLOCK, "verify", model, golden, "--tol", str(tolerance), "--json"], capture_output=True, text=True)
    if p.returncode:
        return f"FAIL live_{name}: {p.stderr.strip()[-300:]}"
    row = json.loads(p.stdout)["sequences"][0]
    return f"ok live_{name}\nnote: live_{name}: max |diff| {row['max_abs']:.1e}, {row['max_abs'] / tolerance:.2f} of the tolerance"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    results = []
    for name, folder in folders().items():
        results.append(check(name, folder, args.seed))
        print(results[-1], flush=True)
    return any(r.startswith("FAIL") for r in results)


if __name__ == "__main__":
    sys.exit(main())
