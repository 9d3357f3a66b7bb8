#!/usr/bin/env python3
"""tblock quantize --requantize: what is quantized already, quantized again.

    test_requantize.py [--only TEXT]

The weights are those that the floats of the quantized file give; a line says what is lost, and the figure is that of the two files'
weights; the file is the same for any number of threads; without the option, one line names it.
"""
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from array import array

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import attempt_all, need, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
SAID = re.compile(r"tblock: requantized (\d+) matrices: relative RMS error ([\d.]+)% against the weights before; ([\d.]+) bits per weight before, ([\d.]+) now\n")
CONFIG = {"d_model": 64, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 300, "vocab_size": 100, "n_ctx": 64}


def tblock(*words):
    return subprocess.run([TBLOCK, *map(str, words)], capture_output=True, text=True, timeout=600)


def run(*words):
    ran = tblock(*words)
    need(ran.returncode == 0, ran.stderr)
    return ran


def weights_hash(path):
    return json.loads(run("info", path, "--json").stdout)["sha256"]


def floats(path):
    """The values of its matrices, by name."""
    run("convert", path, "-o", "rows.bin", "--type", "f32", "--layout", "rows")
    data = pathlib.Path("rows.bin").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    out = {}
    for name, tensor in header.items():
        if name != "__metadata__" and len(tensor["shape"]) == 2:
            begin, end = tensor["data_offsets"]
            out[name] = array("f", data[8 + size + begin:8 + size + end])
    return out


def loss(before, after):
    """Of all matrices together."""
    error2 = sum2 = 0.0
    for name, given in before.items():
        error2 += math.fsum((a - b) ** 2 for a, b in zip(after[name], given))
        sum2 += math.fsum(b * b for b in given)
    return math.sqrt(error2 / sum2)


def what_is_lost_is_said():
    said = SAID.fullmatch(run("quantize", "q8.bin", "-o", "lossy.bin", "--type", "q4", "--requantize", "--keep", "embed=q4", "--keep", "lm_head=q4").stderr)
    need(said, "no line about the loss")
    need(int(said[1]) == 16, f"{said[1]} matrices, expected 16")
    found, expected = float(said[2]), 100 * loss(floats("q8.bin"), floats("lossy.bin"))
    need(expected > 1 and abs(found - expected) < 2e-4, f"{found}%, computed from the files {expected}%")
    sizes = [json.loads(run("quantize", "model.bin", "-o", "size.bin", "--type", t, "--json", "--keep", "embed=" + t, "--keep", "lm_head=" + t).stdout)
             for t in ("q8", "q4")]
    for told, size in zip((said[3], said[4]), sizes):
        bits = 8 * sum(t["bytes"] for t in size["tensors"]) / sum(t["parameters"] for t in size["tensors"])
        need(abs(float(told) - bits) < 6e-4, f"{told} bits per weight, expected {bits}")


def the_weights_are_those_made_of_the_floats():
    for first, then in (("q8", "q4"), ("q4", "q8")):
        run("quantize", first + ".bin", "-o", "again.bin", "--type", then, "--requantize")
        run("quantize", first + ".bin", "-o", "between.bin", "--type", "f32")
        run("quantize", "between.bin", "-o", "floats.bin", "--type", then)
        again, other = floats("again.bin"), floats("floats.bin")
        ends = ("embed", "lm_head")  # q8 in all of them, so they are copied in one
        need(all(again[n] == other[n] for n in again if n not in ends), f"{first} to {then}: the values differ")


def a_type_that_stays_is_copied():
    ran = run("quantize", "q4.bin", "-o", "same.bin", "--type", "q4", "--requantize")
    need(ran.stderr == "" and weights_hash("same.bin") == weights_hash("q4.bin"), f"not copied: {ran.stderr}")


def threads_do_not_change_the_file():
    for n in (1, 3):
        run("quantize", "q8.bin", "-o", f"threads{n}.bin", "--type", "q4", "--requantize", "--threads", n)
    need(pathlib.Path("threads1.bin").read_bytes() == pathlib.Path("threads3.bin").read_bytes(), "the files differ")


def without_the_option_a_line_names_it():
    ran = tblock("quantize", "q8.bin", "-o", "never.bin", "--type", "q4")
    need(ran.returncode == 3 and ran.stderr.count("\n") == 1 and "--requantize" in ran.stderr and "found q8" in ran.stderr,
         f"{ran.returncode} {ran.stderr}")
    need(not pathlib.Path("never.bin").exists(), "a file was written")


def a_gguf_file_is_quantized_again():
    source = ROOT / "tests/data/gguf/llama-kquants/model.gguf"
    need(tblock("quantize", source, "-o", "never.bin", "--type", "q4").returncode == 3, "not refused without the option")
    said = SAID.fullmatch(run("quantize", source, "-o", "gguf.bin", "--type", "q4", "--requantize").stderr)
    need(said, "no line about the loss")
    before, after = floats(source), floats("gguf.bin")
    table = json.loads(run("quantize", source, "-o", "gguf.bin", "--type", "q4", "--requantize", "--json").stdout)["tensors"]
    again = [t["name"] for t in table if t["from"] not in ("f32", "f16", "bf16")]
    need(len(again) == int(said[1]) > 1, f"{len(again)} matrices, {said[1]} in the line")
    expected = 100 * loss({n: before[n] for n in again}, after)
    need(abs(float(said[2]) - expected) < 2e-4, f"{said[2]}%, computed from the files {expected}%")


def main():
    arguments = option_only(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("config.json").write_text(json.dumps(CONFIG))
        run("synth", "config.json", "-o", "model.bin")
        for kind in ("q8", "q4"):
            run("quantize", "model.bin", "-o", kind + ".bin", "--type", kind)
        failed = attempt_all(what_is_lost_is_said, the_weights_are_those_made_of_the_floats, a_type_that_stays_is_copied,
                             threads_do_not_change_the_file, without_the_option_a_line_names_it, a_gguf_file_is_quantized_again,
                             only=arguments.only)
        os.chdir(ROOT)
    return failed


if __name__ == "__main__":
    sys.exit(main())
