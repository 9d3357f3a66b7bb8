#!/usr/bin/env python3
"""Adapters that `tblock train --lora` writes, as peft reads them: the logits of peft in float64 against `tblock verify --lora`.

    live_lora.py              of every model folder that can be trained, for tokens of this run
    live_lora.py --record     one of them, kept in tests/data/adapters/trained

Needs torch, transformers and peft (tests/references/live.sh). peft must know every tensor of the folder, miss none and write the
same ones again. Models that training refuses, and families that store a matrix in a form of their own, are skipped with the reason.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys

import live_logits

sys.path.insert(0, str(live_logits.ROOT / "tests" / "train"))
from training import bytes_tokenizer  # noqa: E402

ROOT, TBLOCK, OUT = live_logits.ROOT, live_logits.TBLOCK, live_logits.OUT / "lora"
RECORDED = ROOT / "tests" / "data" / "adapters" / "trained"
TARGETS = ["q", "k", "v", "o", "gate", "up", "down"]


class Refused(Exception):
    """Training does not know this model."""


def tblock(*command):
    p = subprocess.run([TBLOCK, *map(str, command)], capture_output=True, text=True)
    if p.returncode:
        said = f"status {p.returncode}: {(p.stderr.strip() or 'nothing').splitlines()[-1][-250:]}"
        raise Refused(said) if command[0] == "train" and p.returncode == 3 else RuntimeError(said)
    return p.stdout


def trained(name, folder, tokenizer, rank):
    """An adapter of every matrix of the blocks: its folder."""
    model, out = OUT / f"{name}.bin", OUT / name
    shutil.rmtree(out, ignore_errors=True)
    pathlib.Path(f"{out}.ckpt").unlink(missing_ok=True)
    tblock("convert", folder, "-o", model, "--tokenizer", tokenizer, "--quiet")
    command = ["train", out, "--init", model, "--text", __file__, "--lora", rank, "--lora-alpha", rank + 2, "--steps", 6, "--batch", 4, "--ctx", 16,
               "--lr", 0.02, "--warmup", -1, "--quiet", "--lora-targets"]
    targets = list(TARGETS)
    while True:
        try:
            tblock(*command, ",".join(targets))
            break
        except Refused as e:  # no gate, or one matrix for gate and up, for q, k and v
            without = [t for t in targets if f"w_{t}: expected" not in str(e) and f"w{t}: expected" not in str(e)]
            if len(without) == len(targets):
                raise
            targets = without
    return out


def logits(folder, adapter, seed, n):
    """Tokens, and the logits with the adapter and without."""
    import peft
    import safetensors.torch
    import torch
    import transformers
    base = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    tokens = torch.randint(0, base.config.get_text_config().vocab_size, (1, n), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        plain = base(tokens).logits
        model = peft.PeftModel.from_pretrained(base, adapter).eval()
        got = model(tokens).logits
    again = OUT / "again"
    model.save_pretrained(again)
    files = [safetensors.torch.load_file(f / "adapter_model.safetensors") for f in (adapter, again)]
    if files[0].keys() != files[1].keys() or not all(torch.equal(x, files[1][n].float()) for n, x in files[0].items()):
        raise RuntimeError("peft writes other tensors than it read")
    return tokens, got.double(), plain.double()


def check(name, folder, tokenizer, seed):
    import safetensors.torch
    if "quantization_config" in (folder / "config.json").read_text():
        return f"skip live_lora_{name}: transformers reads such weights with other packages"
    try:
        adapter = trained(name, folder, tokenizer, 3)
        tokens, got, plain = logits(folder, adapter, seed, 32)
        tolerance = 4 * json.loads((folder / "golden.json").read_text())["suggested_tolerance"]
        change = float((got - plain).abs().max())
        if not change > 100 * tolerance:
            raise RuntimeError(f"the adapter changes logits by {change:g} only")
        golden = OUT / f"{name}.safetensors"
        safetensors.torch.save_file({"tokens": tokens, "logits_f64": got.contiguous()}, golden)
        row = json.loads(tblock("verify", folder, golden, "--tol", tolerance, "--json", "--lora", adapter))["sequences"][0]
    except Refused as e:
        return f"skip live_lora_{name}: {e}"
    except RuntimeError as e:
        return f"FAIL live_lora_{name}: {e}"
    return f"ok live_lora_{name}\nnote: live_lora_{name}: max |diff| {row['max_abs']:.1e} of changes to {change:.1e}"


def record(tokenizer):
    import safetensors.torch
    name = "llama3-e2e"
    folder = ROOT / "tests" / "data" / "models" / name
    adapter = trained(name, folder, tokenizer, 1)
    shutil.rmtree(RECORDED, ignore_errors=True)
    RECORDED.mkdir(parents=True)
    tokens, got, plain = logits(folder, adapter, 1, 6)
    for file in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(adapter / file, RECORDED)
    config = json.loads((RECORDED / "adapter_config.json").read_text())
    (RECORDED / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": name}, indent=1) + "\n")
    safetensors.torch.save_file({"tokens": tokens, "logits_f64": got.contiguous()}, RECORDED / "golden.safetensors")
    (RECORDED / "golden.json").write_text(json.dumps({
        "weights": f"../../models/{name}", "reference": ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("peft", "transformers", "torch")),
        "changes": float((got - plain).abs().max()), "suggested_tolerance": 4 * json.loads((folder / "golden.json").read_text())["suggested_tolerance"]},
        indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    os.makedirs(OUT, exist_ok=True)
    tokenizer, failed = bytes_tokenizer(OUT / "tokenizer.json"), False
    if args.record:
        return record(tokenizer)
    for name, folder in live_logits.folders().items():
        result = check(name, folder, tokenizer, args.seed)
        print(result, flush=True)
        failed |= result.startswith("FAIL")
    return failed


if __name__ == "__main__":
    sys.exit(main())
