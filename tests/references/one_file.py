#!/usr/bin/env python3
"""docs/examples/one_file.c, which follows docs/numerics.md and docs/format.md with no header of the project, computes the bits
of the engine: of the shipped model as bf16 and f32, and of a model of odd shapes. Also: it prints the ids that `tblock run`
samples, rejects what it cannot read, and the page has the constants of the kernels.

    one_file.py [--only TEXT]

The program is the one that the Makefile builds, so a sanitizer's build checks it too; gcc and clang build it once more as its
first lines say, with warnings as errors."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import Skip, attempt, need, option_only  # noqa: E402

BUILD = ROOT / os.environ.get("BUILD", "build/release")
TBLOCK = os.environ.get("TBLOCK", str(BUILD / "tblock"))
SOURCE = ROOT / "docs/examples/one_file.c"
PROGRAM = BUILD / "docs/examples/one_file"
CHUNKS = BUILD / "tests/references/one_file_chunks"
SHIPPED = ROOT / "models/shakespeare.bin"
N_TOK = 165  # two whole tiles of attention and a part of the third
# no number here is a multiple of 16, sums are longer than a chunk of 256, and the head is a matrix of its own
ODD = {"d_model": 275, "n_layers": 2, "heads": 6, "kv_heads": 2, "head_dim": 10, "d_ff": 301, "vocab_size": 333, "theta": 500000,
       "norm_eps": 1e-6, "n_ctx": 200, "tied_embeddings": False}


def run(*command, status=0):
    p = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
    need(p.returncode == status, f"{pathlib.Path(str(command[0])).name} {' '.join(str(c)[:80] for c in command[1:])}: status {p.returncode}: "
         f"{(p.stdout + p.stderr)[-400:]}")
    return p


def tensor(path, name):
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    start, end = json.loads(data[8:8 + n])[name]["data_offsets"]
    return data[8 + n + start:8 + n + end]


def model(work, name):
    """The path of a model by its name: shipped, f32, odd (bf16), odd-f32."""
    path = SHIPPED if name == "shipped" else work / f"{name}.bin"
    if path.exists():
        return path
    if name == "f32":
        run(TBLOCK, "quantize", SHIPPED, path, "--type", "f32", "--quiet")
    else:
        config = work / "odd.json"
        config.write_text(json.dumps(ODD))
        run(TBLOCK, "synth", config, "-o", path, "--type", "f32" if name.endswith("f32") else "bf16")
    return path


def prompt(name):
    """165 ids, of the held-out play or of no text."""
    if name.startswith("odd"):
        return ",".join(str(i * i * 7 % ODD["vocab_size"]) for i in range(N_TOK))
    return ",".join(run(TBLOCK, "tokenize", SHIPPED, "-f", ROOT / "models/as-you-like-it.txt").stdout.split()[:N_TOK])


def logits(work, name, program=PROGRAM):
    out = work / "logits.raw"
    printed = run(program, model(work, name), "--ids", prompt(name), "-o", out).stdout
    need(printed == "", f"expected nothing printed without -n, found {printed[:80]}")
    return out


def same_bits(work, name):
    """Each logit, for the prompt in one call and in calls of 1 to 165 tokens."""
    ours, ids = logits(work, name), prompt(name)
    run(TBLOCK, "logits", model(work, name), "--ids", ids, "-o", work / "engine", "--quiet")
    need(ours.read_bytes() == tensor(work / "engine", "logits"), "tblock logits has other bits")
    run(CHUNKS, model(work, name), ours, ids)
    damaged = bytearray(ours.read_bytes())
    damaged[-4] ^= 1
    (work / "damaged").write_bytes(damaged)
    run(CHUNKS, model(work, name), work / "damaged", ids, status=1)


def finds_what_differs(work):
    ours = logits(work, "shipped").read_bytes()
    run(TBLOCK, "logits", SHIPPED, "--ids", prompt("shipped"), "--kv-type", "f16", "-o", work / "engine", "--quiet")
    need(ours != tensor(work / "engine", "logits"), "a cache in f16 has the same bits")


def built_as_it_says(work, source, compiler):
    """The program that the first lines of a source say how to build, with the project's warnings as errors."""
    if not shutil.which(compiler):
        raise Skip(f"no {compiler}")
    program, command = work / compiler, re.search(rf"^ \*     cc (.*) -o {source.stem}$", source.read_text(), re.M).group(1)
    warnings = ["-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
    run(compiler, *warnings, *(source if word == source.name else word for word in command.split()), "-o", program)
    return program


def builds_with(work, compiler):
    program = built_as_it_says(work, SOURCE, compiler)
    need(logits(work, "shipped", program).read_bytes() == logits(work, "shipped").read_bytes(), "other bits than the Makefile's build")


def samples_as_run_does(work):
    for name, ids, n in (("shipped", "834,58", 120), ("odd", "1", 60)):
        mine = run(PROGRAM, model(work, name), "--ids", ids, "-n", n).stdout.split()
        theirs = json.loads(run(TBLOCK, "run", model(work, name), "--ids", ids, "-n", n, "--json", "--quiet").stdout.splitlines()[-1])["ids"]
        need([int(i) for i in mine] == theirs and len(theirs) == n, f"{name}: {mine} against {theirs}")


def is_as_short_as_it_says(work):
    n = len(SOURCE.read_text().splitlines())
    need(n <= 200, f"{n} lines, at most 200 belong there")


def rejected(work, path, *said):
    out = work / "none"
    p = run(PROGRAM, path, "--ids", "1,2,3", "-o", out, status=1)
    need(p.stdout == "" and not out.exists(), f"{path.name}: it left output")
    need(re.fullmatch(r"one_file: [^\n]+\n", p.stderr) and all(s in p.stderr for s in said), f"{path.name}: expected {said}, found {p.stderr[-300:]}")


def rejects_other_models(work):
    for i, (change, said) in enumerate((
            ({"qkv_bias": True}, 'expected "qkv_bias": false, found "qkv_bias": true'), ({"norm": "layer"}, 'found "norm": "layer"'),
            ({"rope": {"type": "linear", "factor": 2}}, 'found "rope": {"type": "linear"'), ({"window": 8}, 'found "window": 8'),
            ({"attn_softcap": 30}, 'expected "bos", found "attn_softcap"'), ({"family": "qwen3", "qk_norm": "head"}, 'found {"family": "qwen3"'))):
        config, path = work / f"other{i}.json", work / f"other{i}.bin"
        config.write_text(json.dumps({**ODD, **change}))
        run(TBLOCK, "synth", config, "-o", path)
        rejected(work, path, path.name, "config: ", said)
    run(TBLOCK, "quantize", SHIPPED, work / "q8.bin", "--type", "q8", "--quiet")
    rejected(work, work / "q8.bin", "tensor embed: expected F32 or BF16, found I8")
    rejected(work, work / "missing.bin", "missing.bin: cannot be opened: ")
    rejected(work, SOURCE, "expected a header up to a multiple of 4096 ")


def rejects_cut_files(work):
    """Wherever the file ends, it is an error; only the zeros that fill the end may be missing."""
    whole = model(work, "odd").read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    ends = {0, 1, 7, 8, 9, header - 1, header, header + 1, len(whole) - 4096, len(whole) - 65, *range(10, header, 501), *range(header, len(whole), 99991)}
    for end in sorted(ends):
        (work / "cut.bin").write_bytes(whole[:end])
        rejected(work, work / "cut.bin", "cut.bin")


def rejects_wrong_headers(work):
    """Numbers and names of the header that are wrong."""
    whole = model(work, "odd").read_bytes()
    n = int.from_bytes(whole[:8], "little")
    lies = [(rb'\"heads\": 6', rb'\"heads\": 5'), (rb'\"heads\": 6', rb'\"heads\": 0'), (rb'\"d_ff\": 301', rb'\"d_ff\": -01'),
            (rb'\"n_layers\": 2', rb'\"n_layers\": 9'), (rb'\"head_dim\": 10', rb'\"head_dim\": 11'), (rb'\"vocab_size\": 333', rb'\"vocab_size\": 999'),
            (b'"layers.1.wv"', b'"layers.1.wx"'), (b'"dtype": "BF16"', b'"dtype": "F16" '), (b'"final_norm": {"dtype": "F32"', b'"final_norm": {"dtype": "I32"'),
            (b'"data_offsets": [0, ', b'"data_offsets": [9, '), (b'"config": ', b'"confix": ')]
    for at in re.finditer(rb'\n"(?!pad)[^"]+": {[^}]*"data_offsets": \[(\d+), ', whole[8:8 + n]): # pads are of no tensor
        found, digits = at.group(0), len(at.group(1))
        lies.append((found, found[:-digits - 2] + b"9" * digits + b", "))
    for old, new in lies:
        need(old in whole and len(old) == len(new), f"{old} is not in the header")
        (work / "lie.bin").write_bytes(whole.replace(old, new, 1))
        rejected(work, work / "lie.bin", "lie.bin")
    for size in (0, 1, n - 1, n + 1, n + 4096, len(whole) - 8, len(whole) - 7, 1 << 63, (1 << 64) - 8, (1 << 64) - 1):
        (work / "lie.bin").write_bytes(size.to_bytes(8, "little") + whole[8:])
        rejected(work, work / "lie.bin", "lie.bin")


def rejects_wrong_arguments(work):
    usage, most = "expected MODEL --ids 1,2,3 [-n N] [-o FILE]", "expected a number from 0 to 1023, found "
    for words, said in ((("--ids",), usage), ((), usage), (("--ids", "1", "--seed", "1"), usage), (("-n", "1"), usage), (("--ids", ""), most),
                        (("--ids", "1,1024"), most), (("--ids", "-1"), most), (("--ids", "1;2"), most), (("--ids", "1", "-n", "257"), "from 0 to 256"),
                        (("--ids", "1", "-n", "256"), "at most 256 tokens"), (("--ids", "1,,2"), most), (("--ids", "1", "-o", work / "no/folder"), "cannot be written")):
        stderr = run(PROGRAM, SHIPPED, *words, status=1).stderr
        need(re.fullmatch(r"one_file: [^\n]+\n", stderr) and said in stderr, f"{words}: expected {said}, found {stderr[-200:]}")


def the_page_has_the_constants(work):
    constant = re.compile(r"0x1\.[0-9a-f]+p[+-][0-9]+f")
    missing = set(constant.findall((ROOT / "src/kernels/bodies/math.h").read_text())) - set(constant.findall((ROOT / "docs/numerics.md").read_text()))
    need(not missing, f"docs/numerics.md lacks {sorted(missing)} of math.h")


def main():
    only = option_only(__doc__).parse_args().only
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        work = pathlib.Path(folder)
        claims = [(f"same_bits_{name}", same_bits, name) for name in ("shipped", "f32", "odd", "odd-f32")]
        claims += [(f"builds_with_{compiler}", builds_with, compiler) for compiler in ("gcc", "clang")]
        claims += [(claim.__name__, claim) for claim in (finds_what_differs, samples_as_run_does, is_as_short_as_it_says, rejects_other_models, rejects_cut_files,
                                                         rejects_wrong_headers, rejects_wrong_arguments, the_page_has_the_constants)]
        return any([attempt(name, claim, work, *more) for name, claim, *more in claims if only in name])


if __name__ == "__main__":
    sys.exit(main())
