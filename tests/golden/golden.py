#!/usr/bin/env python3
"""Converts every fixture and compares the program's answers with the golden ones.

    golden.py [--build DIR] [--only TEXT]
    golden.py [--build DIR] --models      only converts (what is not yet); prints the models' paths, with "case" after our own

For each model folder, in both layouts: `verify` against the float64 logits within the folder's tolerance, with the greedy
continuations token by token; in one layout also with an f16 KV cache. Hidden states of `logits --hidden`; generated text
of the models that have a tokenizer. Folders: tests/data/models, the cases of make_cases.py, the model files of shapes.py
(which are not converted), and in the folder of $TBLOCK_TEST_DATA: recorded fixtures too large or not
ours to copy, and llama2.c files.
"""
import argparse
import fcntl
import json
import os
import pathlib
import sys

import numpy as np

import make_cases
import shapes
from ref import read_safetensors
from runner import FIXTURES, MORE, ROOT, TEST_DATA, Failure, Program, add_options, run_checks

DATA = ROOT / "tests" / "data" / "models"
MIXTURES = ["deepseek-v3", "ernie45-moe", "glm4-moe", "gpt-oss", "gpt-oss-mxfp4", "granite-moe", "llama4", "minimax-m2", "olmoe"]

# An f16 cache rounds every K and V element by up to 2^-12 of itself. A share of the largest logit: about twice the worst
# case of these models, 2.1e-3 (window65). Greedy tokens are not compared: their margins may be smaller than this.
F16_KV_TOLERANCE = 4e-3
# There such rounding gives a token another expert.
NEAR_TIES = ["gpt-oss-mxfp4"]
# Stored as 4 bits: expanded, so that everything runs as floats. MODEL-kept.rows16.bin is the model as it is stored.
EXPANDED = {"gpt-oss-mxfp4": ("--type", "bf16")}

RECORDED = [*MIXTURES, "llama-bias", "llama-gqa", "llama-headdim", "llama-linear-scaled", "llama-mha", "llama-mqa", "llama-sharded", "llama-tied",
            "llama-wide", "llama-yarn", "llama3-e2e", "llama3-rope-scaled", "mistral-window", "mistral-window64", "mistral-window100",
            "cohere", "gemma", "gemma2", "gemma3", "gpt-neox", "gpt2", "granite", "mixtral", "olmo2", "phi3", "qwen2", "qwen2-moe",
            "qwen3", "qwen3-moe", "stablelm", "seed-oss", "glm4", "ernie45", "helium", "smollm3",
            "olmo3", "exaone4", "exaone4-full", "hunyuan-dense", "arcee", "nemotron",
            "ministral3", "ministral3-nested", "apertus", "lfm2", "lfm2-odd", "lfm2-moe", "qwen3-next", "qwen3-5",
            "deepseek-v2", "cohere2", "phi"]


class Test(Program):
    def __init__(self, build):
        super().__init__(build, build / "golden")

    def convert(self, source, name, *options):
        model = self.out / (name + ".bin")
        self.run(sys.executable, ROOT / "tools" / "convert.py", source, "-o", model, *options)
        return model

    # ---- claims ----

    def logits(self, name, source, layout, golden, tol, options=(), f16=False):
        """verify says yes; greedy tokens are equal."""
        model = self.convert(source, f"{name}.{layout}", "--layout", layout, *options)
        self.run(self.tblock, "verify", model, golden, "--greedy", "--tol", tol)
        if f16:
            largest = max(np.abs(v).max() for k, v in read_safetensors(golden).items() if "logits" in k)
            self.run(self.tblock, "verify", model, golden, "--tol", F16_KV_TOLERANCE * largest, "--kv-type", "f16")

    def shape(self, name):
        """The same of a model file of shapes.py."""
        shapes.write(self.out, name)
        folder, model = self.out / "shapes" / name, self.out / f"{name}.rows.bin"
        self.run(self.tblock, "verify", model, folder / "golden.safetensors", "--greedy", "--tol", tolerance(folder))

    def hidden(self, name, source, golden, options=()):
        """logits --hidden gives the golden residual stream after every layer."""
        model, answer = self.convert(source, f"{name}.hidden", *options), self.out / (name + ".hidden.safetensors")
        theirs = read_safetensors(golden)
        ids = ",".join(str(t) for t in theirs["seq1.tokens"])
        self.run(self.tblock, "logits", model, "--ids", ids, "--hidden", "-o", answer)
        ours = read_safetensors(answer)
        for key, want in theirs.items():
            if key.startswith("seq1.hidden."):
                got = ours.get(key[len("seq1."):])
                if got is None or got.shape != want.shape:
                    raise Failure(f"{key}: expected shape {want.shape}, found {'nothing' if got is None else got.shape}")
                difference, allowed = np.abs(got - want).max(), make_cases.TOLERANCE * np.abs(want).max()
                if not difference <= allowed:
                    raise Failure(f"{key}: largest difference {difference:.2e}, allowed {allowed:.2e}")

    def kept(self, name, source, golden, tol):
        """Kept as they are stored, quantized weights give the same bits as expanded ones, where their integers run as floats."""
        model, expanded = self.convert(source, f"{name}-kept.rows16"), self.convert(source, f"{name}.expanded", *EXPANDED[name])
        floats = ("--math", "f32", "--kv-type", "f32")
        self.run(self.tblock, "verify", model, golden, "--greedy", "--tol", tol, *floats)
        ids, answers = ",".join(str(t) for t in read_safetensors(golden)["seq1.tokens"]), []
        for path in (model, expanded):
            answer = path.with_suffix(".safetensors")
            self.run(self.tblock, "logits", path, "--ids", ids, "-o", answer, *floats)
            answers.append(read_safetensors(answer)["logits"])
        if answers[0].tobytes() != answers[1].tobytes():
            raise Failure("logits: expected those of the expanded weights, found others")

    def text(self, model, prompt, n, want, *options):
        """run --temp 0 prints exactly the golden text, and stops after n tokens."""
        got = self.run(self.tblock, "run", model, "--prompt", prompt, "-n", n, "--temp", 0, *options).decode(errors="replace")
        if got not in (want, want + "\n"):  # the program may end its line
            at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
            raise Failure(f"prompt {prompt!r}: at character {at} expected {want[at:at + 40]!r}, found {got[at:at + 40]!r}")

    def texts(self, name, source, sequences, *options):
        model = self.convert(source, f"{name}.text")
        for prompt, n, want in sequences:
            self.text(model, prompt, n, want, *options)


def tolerance(folder):
    return json.loads((folder / "golden.json").read_text())["suggested_tolerance"]


def recorded(name):
    return DATA / name if (DATA / name).exists() else FIXTURES / "models" / name


def folder_checks(t, name, folder):
    for layout in ("rows16", "rows"):
        def check(layout=layout):
            t.logits(name, folder, layout, folder / "golden.safetensors", tolerance(folder), EXPANDED.get(name, ()),
                     f16=layout == "rows16" and name not in NEAR_TIES)
        yield f"golden_{name}_{layout}", folder, check
    if name in RECORDED:
        yield f"golden_{name}_hidden", folder, lambda: t.hidden(name, folder, folder / "golden.safetensors", EXPANDED.get(name, ()))
    if name in EXPANDED:
        yield f"golden_{name}_kept", folder, lambda: t.kept(name, folder, folder / "golden.safetensors", tolerance(folder))


def texts_of(folder, strip=""):
    """(prompt, n, text) of a golden.json whose sequences have prompts; strip: what the tokenizer itself puts in front."""
    j = json.loads((folder / "golden.json").read_text())
    if "prompts" in j:
        return [(p, len(s["greedy"]), g) for p, s, g in zip(j["prompts"], j["sequences"], j["greedy_text"])]
    def text(s):  # the reference's decoder drops a space at the start of greedy_text; the whole text has it
        whole = s.get("prompt_and_greedy_text")
        return whole[len(s["prompt_text"]):] if whole else s["greedy_text"]
    return [(s["prompt_text"].removeprefix(strip), len(s["greedy"]), text(s)) for s in j["sequences"]]


def checks(t):
    """(name, what must exist, function) of every test."""
    for name in RECORDED:
        yield from folder_checks(t, name, recorded(name))
    for name in make_cases.CASES:
        folder = t.out / "cases" / name
        make_cases.write(t.out / "cases", name)
        yield from folder_checks(t, name, folder)

    for name in shapes.SHAPES:
        yield f"golden_shape_{name}", t.out, lambda name=name: t.shape(name)

    stories = FIXTURES / "models" / "stories260K"
    yield from folder_checks(t, "stories260K", stories)
    yield "golden_stories260K_text", stories, lambda: t.texts("stories260K", stories, texts_of(stories))
    e2e = recorded("llama3-e2e")
    yield "golden_llama3-e2e_text", e2e, lambda: t.texts("llama3-e2e", e2e, texts_of(e2e, "<|begin_of_text|>"))

    shakespeare = TEST_DATA / "models" / "shakespeare"
    yield from folder_checks(t, "shakespeare", shakespeare)
    shipped, its = ROOT / "models" / "shakespeare.bin", DATA / "shakespeare"
    yield "golden_shipped_model", shipped, lambda: t.run(
        t.tblock, "verify", shipped, its / "golden.safetensors", "--greedy", "--tol", tolerance(its))
    yield "golden_shipped_model_text", shipped, lambda: [t.text(shipped, *s) for s in texts_of(its)]

    # llama2.c files: neighbour rotary pairs, both versions, and another trained model. Golden logits of the data folder.
    data = MORE
    for name, model, golden, tokenizer in (
            ("stories260K-legacy", "stories260K/stories260K.bin", "stories260K/stories260K.f32", "stories260K/tok512.bin"),
            ("stories260K-v1", "stories260K/stories260K.v1.bin", "stories260K/stories260K.f32", "stories260K/tok512.model"),
            ("babyllama105", "babyllama105/model5000.bin", "babyllama105/babyllama105.f32", "babyllama105/tok105.model")):
        source = data / "models" / model
        yield f"golden_llama2c_{name}", source, lambda name=name, source=source, golden=golden, tokenizer=tokenizer: t.logits(
            name, source, "rows16", data / "derived" / (golden + ".golden.safetensors"), 4e-4,
            ("--tokenizer", data / "models" / tokenizer), f16=True)
    baby = data / "derived" / "babyllama105" / "hf-bf16"
    yield "golden_babyllama105-hf", baby, lambda: t.logits("babyllama105-hf", baby, "rows16", baby / "golden.safetensors", 4e-4, f16=True)


def list_models(t):
    """Every model with golden logits that this machine has, in the layout rows16."""
    found = [(name, recorded(name), "") for name in RECORDED] + [("stories260K", FIXTURES / "models" / "stories260K", "")]
    found += [(name + "-kept", recorded(name), "") for name in EXPANDED]
    found += [(name, t.out / "cases" / name, " case") for name in make_cases.CASES]
    makers = [ROOT / "tools" / "convert.py", pathlib.Path(make_cases.__file__)]
    newest = max(p.stat().st_mtime for p in makers)
    for name, folder, kind in found:
        model = t.out / f"{name}.rows16.bin"
        if not model.exists() or model.stat().st_mtime < newest:
            if kind:
                make_cases.write(t.out / "cases", name)
            if not folder.exists():
                continue
            t.convert(folder, name + ".rows16", *EXPANDED.get(name, ()))
        yield f"{model}{kind}"
    for name in shapes.SHAPES:
        shapes.write(t.out, name)
        yield f"{t.out / name}.rows.bin case"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--models", action="store_true", help="convert only, and print the models' paths")
    args = parser.parse_args()
    test = Test(args.build)
    with open(test.out / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # exact.sh and neon.sh take the models that this makes
        if not args.models:
            return run_checks(checks(test), args.only)
        for line in list_models(test):
            print(line)
        return 0


if __name__ == "__main__":
    sys.exit(main())
