#!/usr/bin/env python3
"""tblock quantize --imatrix: the importance of columns from llama.cpp's files.

    test_imatrix.py [--only TEXT]

Files in both formats are made here. What they say decides the rounding as --calibrate does, whatever their scale is; experts have
their own; what is missing is said; a file that lies is refused in one line, and nothing is written.
"""
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/format")]
import make_gguf  # noqa: E402
from verdicts import attempt_all, need, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
D, FF, LAYERS, EXPERTS = 64, 96, 2, 4
CONFIG = {"d_model": D, "n_layers": LAYERS, "heads": 4, "kv_heads": 2, "d_ff": FF, "vocab_size": 100, "n_ctx": 64}
MOE = {**CONFIG, "n_experts": EXPERTS, "experts_used": 2, "expert_d_ff": FF}
DENSE = {"attn_q": D, "attn_k": D, "attn_v": D, "attn_output": D, "ffn_gate": D, "ffn_up": D, "ffn_down": FF}
STACKS = {"ffn_gate_exps": D, "ffn_up_exps": D, "ffn_down_exps": FF}


def tblock(*words):
    return subprocess.run([TBLOCK, *map(str, words)], capture_output=True, text=True, timeout=600)


def run(*words):
    ran = tblock(*words)
    need(ran.returncode == 0, ran.stderr)
    return ran


def means(k, seed):
    """Mean squares of k columns; a few are far larger, as in real models."""
    r = random.Random(seed)
    return [r.random() * (100 if r.random() < 0.1 else 1) + 0.001 for _ in range(k)]


def entries(columns=DENSE, experts=1):
    """NAME -> mean squares of each matrix of it."""
    return {f"blk.{layer}.{name}.weight": [means(k, f"{layer} {name} {e}") for e in range(experts)] for layer in range(LAYERS) for name, k in columns.items()}


def write_legacy(path, given, calls=7, tail=True):
    out = struct.pack("<i", len(given))
    for name, matrices in given.items():
        values = [v * calls for m in matrices for v in m]
        out += struct.pack("<i", len(name)) + name.encode() + struct.pack(f"<ii{len(values)}f", calls, len(values), *values)
    pathlib.Path(path).write_bytes(out + (struct.pack("<ii", calls, 4) + b"text" if tail else b""))
    return path


def write_gguf(path, given, count=512.0, counts=None, kind="imatrix"):
    tensors = {}
    for name, matrices in given.items():
        of = counts if counts and len(counts) == len(matrices) else [count] * len(matrices)
        tensors[name + ".in_sum2"] = ([len(matrices), len(matrices[0])], 0, struct.pack(f"<{len(matrices) * len(matrices[0])}f", *[v * (c or 1) for m, c in zip(matrices, of) for v in m]))
        tensors[name + ".counts"] = ([len(matrices), 1], 0, struct.pack(f"<{len(matrices)}f", *of))
    make_gguf.write(pathlib.Path(path), {"general.type": (make_gguf.STRING, kind), "imatrix.chunk_count": (make_gguf.U32, 3),
                                         "imatrix.chunk_size": (make_gguf.U32, 512)}, tensors)
    return path


def quantize(out, imatrix, *words, source="model.bin"):
    return run("quantize", source, "-o", out, "--type", "q4", "--imatrix", imatrix, *words)


def weights(path):
    """sha256 of the data section: the weights without the metadata."""
    return json.loads(run("info", path, "--json").stdout)["sha256"]


def both_formats_give_the_same_weights():
    """Powers of two, so that every scaling is exact."""
    given = entries()
    quantize("a.bin", write_legacy("a.dat", given, calls=8))
    for name, path in (("b", write_gguf("b.gguf", given, 512.0)), ("c", write_legacy("c.dat", given, calls=1, tail=False)), ("d", write_gguf("d.gguf", given, 64.0))):
        quantize(name + ".bin", path)
        need(weights(name + ".bin") == weights("a.bin"), f"{path}: other weights than of a.dat")
    run("quantize", "model.bin", "-o", "plain.bin", "--type", "q4")
    need(weights("plain.bin") != weights("a.bin"), "the same weights as without it")


def flat_importance_changes_nothing():
    quantize("flat.bin", write_gguf("flat.gguf", {n: [[2.0] * len(m) for m in ms] for n, ms in entries().items()}))
    run("quantize", "model.bin", "-o", "plain.bin", "--type", "q4")
    need(weights("flat.bin") == weights("plain.bin"), "other weights than without it")


def columns_that_matter_are_rounded_finer():
    """The weighted error of the matrices is smaller than without it: computed here, from the weights in the files."""
    given = entries()
    quantize("near.bin", write_legacy("near.dat", given))
    run("quantize", "model.bin", "-o", "plain.bin", "--type", "q4")
    parent, near, plain = rows("model.bin"), rows("near.bin"), rows("plain.bin")
    ours = {"wq": "attn_q", "wo": "attn_output", "w_down": "ffn_down", "w_gate": "ffn_gate"}
    for layer in range(LAYERS):
        for name, theirs in ours.items():
            importance = given[f"blk.{layer}.{theirs}.weight"][0]
            a, b = (weighted(parent, other, f"layers.{layer}.{name}", importance) for other in (near, plain))
            need(0 < a < 0.97 * b, f"layers.{layer}.{name}: weighted error {a}, without {b}")


def rows(path):
    from array import array
    run("convert", path, "-o", "rows.bin", "--type", "f32", "--layout", "rows")
    data = pathlib.Path("rows.bin").read_bytes()
    size = int.from_bytes(data[:8], "little")
    return {n: array("f", data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]) for n, t in json.loads(data[8:8 + size]).items() if n != "__metadata__"}


def weighted(parent, other, name, importance):
    k = len(importance)
    return sum(importance[i % k] * (a - b) ** 2 for i, (a, b) in enumerate(zip(parent[name], other[name])))


def experts_have_their_own():
    attention = {n: v for n, v in entries().items() if "attn" in n}
    given = {**attention, **entries(STACKS, EXPERTS)}
    quantize("moe.bin", write_gguf("moe.gguf", given), source="moe-model.bin")
    quantize("moe2.bin", write_legacy("moe.dat", given, calls=8), source="moe-model.bin")
    need(weights("moe.bin") == weights("moe2.bin"), "other weights of the other format")
    changed = {**given, "blk.0.ffn_up_exps.weight": [*given["blk.0.ffn_up_exps.weight"][:3], means(D, "other")]}
    quantize("moe3.bin", write_gguf("moe3.gguf", changed), source="moe-model.bin")
    a, b = rows("moe.bin"), rows("moe3.bin")
    name, part = "layers.0.expert_up", FF * D
    need(a[name][:3 * part] == b[name][:3 * part] and a[name][3 * part:] != b[name][3 * part:], "not that expert alone has changed")
    # an expert that saw no token: its columns count alike, whatever the sums say
    flat = {n: [*ms[:3], [1.0] * len(ms[0])] if "exps" in n else ms for n, ms in given.items()}
    quantize("unseen.bin", write_gguf("unseen.gguf", given, counts=[512.0, 512.0, 512.0, 0.0]), source="moe-model.bin")
    quantize("flat.bin", write_gguf("flat.gguf", flat), source="moe-model.bin")
    need(weights("unseen.bin") == weights("flat.bin") != weights("moe.bin"), "an expert without tokens has importance")
    refused(write_gguf("three.gguf", {**given, "blk.0.ffn_up_exps.weight": entries(STACKS, 3)["blk.0.ffn_up_exps.weight"]}),
            "blk.0.ffn_up_exps.weight", f"expected {EXPERTS} x {D} values", source="moe-model.bin")


def what_is_missing_is_said():
    given = entries()
    said = quantize("all.bin", write_legacy("all.dat", given)).stderr
    need("no entry for 2 of 16 matrices, such as embed" in said, said)
    del given["blk.1.ffn_down.weight"]
    said = quantize("some.bin", write_legacy("some.dat", given)).stderr
    need("no entry for 3 of 16 matrices" in said, said)


def the_file_is_named_and_threads_change_nothing():
    path = pathlib.Path(write_gguf("named.gguf", entries()))
    for n in (1, 3):
        quantize(f"threads{n}.bin", path, "--threads", n)
    quantize("closed.bin", path, "--sandbox")
    one = pathlib.Path("threads1.bin").read_bytes()
    need(hashlib.sha256(path.read_bytes()).hexdigest().encode() in one[:20000], "no sha256 of the file")
    need(one == pathlib.Path("threads3.bin").read_bytes() == pathlib.Path("closed.bin").read_bytes(), "the files differ")


def refused(path, *words, status=3, options=(), source="model.bin"):
    ran = tblock("quantize", source, "-o", "never.bin", "--type", "q4", "--imatrix", path, *options)
    for word in words:
        need(ran.returncode == status and word in ran.stderr and ran.stderr.count("\n") == 1, f"{path}: expected {word!r}: {ran.returncode} {ran.stderr}")
    need(not pathlib.Path("never.bin").exists(), f"{path}: a file was written")


def changed(at, form, value, name="changed.dat"):
    data = bytearray(pathlib.Path(write_legacy("whole.dat", entries())).read_bytes())
    struct.pack_into(form, data, at, value)
    pathlib.Path(name).write_bytes(data)
    return name


def a_file_that_lies_is_refused():
    given, first = entries(), "blk.0.attn_q.weight"
    value = 4 + 4 + len(first) + 8
    for number in (float("nan"), float("inf"), -1.0):
        refused(changed(value + 4, "<f", number), first, "value 1", "at least 0")
    for at, what in ((0, "number of entries"), (4, "length of a name"), (value - 8, "number of calls"), (value - 4, "number of values")):
        refused(changed(at, "<i", -1), what, "found -1")
    refused(changed(0, "<i", 2000000000), "number of entries")
    refused(changed(value - 4, "<i", 2147483647), "bytes of values", "to the end of the file")
    refused(changed(4, "<i", 2147483647), "length of a name")
    whole = pathlib.Path("whole.dat").read_bytes()
    for n in (0, 3, 4, 20, len(whole) // 2):
        pathlib.Path("cut.dat").write_bytes(whole[:n])
        refused("cut.dat", "cut.dat")
    refused(write_legacy("wide.dat", {**given, first: [means(D + 1, "")]}), first, f"expected 1 x {D} values", "layers.0.wq", f"found {D + 1}")
    refused(write_gguf("wide.gguf", {**given, first: [means(D, ""), means(D, "")]}), first, f"expected 1 x {D} values", f"found {2 * D}")
    refused(write_legacy("other.dat", {"blk.9.attn_q.weight": [means(D, "")]}), "expected an entry for a matrix", "found none among 1")
    refused(write_gguf("nan.gguf", given, counts=[float("nan")]), "count 0")
    refused(write_gguf("below.gguf", given, counts=[-1.0]), "count 0")
    refused(write_gguf("kind.gguf", given, kind="model"), "general.type", "expected imatrix, found model")
    refused("missing.dat", "missing.dat")
    refused("model.bin", "model.bin")
    entry = struct.pack("<i", len(first)) + first.encode() + struct.pack(f"<ii{D}f", 1, D, *means(D, ""))
    pathlib.Path("twice.dat").write_bytes(struct.pack("<i", 2) + entry + entry)
    refused("twice.dat", first, "found it twice")


def options_that_do_not_fit_are_refused():
    path = write_legacy("good.dat", entries())
    pathlib.Path("text.txt").write_text("To be or not to be")
    refused(path, "imatrix", "found both", status=2, options=("--calibrate", "text.txt"))
    ran = tblock("quantize", "model.bin", "-o", "never.bin", "--type", "f32", "--imatrix", path)
    need(ran.returncode == 2 and "imatrix: expected type q8 or q4" in ran.stderr, f"f32: {ran.returncode} {ran.stderr}")
    ran = tblock("quantize", "model.bin", "-o", path, "--type", "q4", "--imatrix", path)
    need(ran.returncode == 2 and pathlib.Path(path).stat().st_size < 100000, f"output over the input: {ran.returncode} {ran.stderr}")


def main():
    arguments = option_only(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, config in (("model", CONFIG), ("moe-model", MOE)):
            pathlib.Path("config.json").write_text(json.dumps(config))
            run("synth", "config.json", "-o", name + ".bin")
        failed = attempt_all(both_formats_give_the_same_weights, flat_importance_changes_nothing, columns_that_matter_are_rounded_finer,
                             experts_have_their_own, what_is_missing_is_said, the_file_is_named_and_threads_change_nothing,
                             a_file_that_lies_is_refused, options_that_do_not_fit_are_refused, only=arguments.only)
        os.chdir(ROOT)
    return failed


if __name__ == "__main__":
    sys.exit(main())
