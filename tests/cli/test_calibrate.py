#!/usr/bin/env python3
"""tblock quantize --calibrate: weights rounded with the importance of their columns on a text.

    test_calibrate.py [--only TEXT]

The shipped model computes as its parent does more nearly than without a text, on a text that it was not calibrated with; the file is
the same for any number of threads and instruction sets; what cannot be used as a text is refused.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import attempt_all, need, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
MODEL = ROOT / "models/shakespeare.bin"
PLAY = (ROOT / "models/as-you-like-it.txt").read_text()


def tblock(*words):
    return subprocess.run([TBLOCK, *map(str, words)], capture_output=True, text=True, timeout=600)


def quantize(out, *words, source=MODEL):
    ran = tblock("quantize", source, "-o", out, "--type", "q4", *words)
    need(ran.returncode == 0, ran.stderr)
    return out


def divergence(model, text):
    ran = tblock("eval", model, text, "--against", MODEL, "--math", "f32", "--json")
    need(ran.returncode == 0, ran.stderr)
    return json.loads(ran.stdout)["mean_kl"]


def a_calibrated_model_is_nearer_to_its_parent():
    pathlib.Path("later.txt").write_text(PLAY[24000:36000])
    plain, calibrated = divergence(quantize("plain.bin"), "later.txt"), divergence(quantize("near.bin", "--calibrate", "first.txt"), "later.txt")
    need(0 < calibrated < 0.99 * plain, f"mean KL {calibrated}, without a text {plain}")


def threads_do_not_change_the_file():
    one = pathlib.Path(quantize("one.bin", "--calibrate", "first.txt", "--threads", 1)).read_bytes()
    three = pathlib.Path(quantize("three.bin", "--calibrate", "first.txt", "--threads", 3)).read_bytes()
    need(one == three, "the files differ")


def the_file_names_the_text():
    head = pathlib.Path(quantize("named.bin", "--calibrate", "first.txt")).read_bytes()[:20000]
    need(hashlib.sha256(pathlib.Path("first.txt").read_bytes()).hexdigest().encode() in head, "no sha256 of the text")


def the_sandbox_changes_nothing():
    open_, closed = quantize("open.bin", "--calibrate", "first.txt"), quantize("closed.bin", "--calibrate", "first.txt", "--sandbox")
    need(pathlib.Path(open_).read_bytes() == pathlib.Path(closed).read_bytes(), "the files differ")


def what_is_no_text_is_refused():
    pathlib.Path("empty.txt").write_bytes(b"")
    pathlib.Path("config.json").write_text('{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}')
    need(tblock("synth", "config.json", "-o", "bare.bin").returncode == 0, "synth")
    ran = tblock("quantize", MODEL, "-o", "never.bin", "--type", "f32", "--calibrate", "first.txt")
    need(ran.returncode == 2 and "expected type q8 or q4" in ran.stderr, f"f32: {ran.returncode} {ran.stderr}")
    for source, text, status, word in ((MODEL, "missing.txt", 3, "missing.txt"), (MODEL, "empty.txt", 3, "at least two tokens"),
                                       ("bare.bin", "first.txt", 3, "tokenizer"), (MODEL, ".", 3, ".")):
        ran = tblock("quantize", source, "-o", "never.bin", "--type", "q4", "--calibrate", text)
        need(ran.returncode == status and word in ran.stderr and ran.stderr.count("\n") == 1, f"{text}: {ran.returncode} {ran.stderr}")
        need(not pathlib.Path("never.bin").exists(), f"{text}: a file was written")


def main():
    arguments = option_only(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("first.txt").write_text(PLAY[:12000])
        failed = attempt_all(a_calibrated_model_is_nearer_to_its_parent, threads_do_not_change_the_file, the_file_names_the_text,
                             the_sandbox_changes_nothing, what_is_no_text_is_refused, only=arguments.only)
        os.chdir(ROOT)
    return failed


if __name__ == "__main__":
    sys.exit(main())
