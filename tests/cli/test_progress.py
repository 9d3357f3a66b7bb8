#!/usr/bin/env python3
"""What takes longer than a moment says so on a terminal, and leaves nothing there. Prints "ok NAME", "FAIL NAME: why" or "skip NAME:
why". $TBLOCK is the program."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import terminal

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import Skip, attempt  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / os.environ.get("BUILD", "build/release") / "tblock"))
LATEST = 2.0     # seconds, from which on silence is a fault; the line comes after half a second
CONFIG = {"d_model": 512, "n_layers": 6, "heads": 8, "d_ff": 1536, "vocab_size": 32000, "n_ctx": 100000}
LINE = re.compile(r"\r([a-z][a-z ]*[a-z])(?: \[[# ]*\] +\d+%)?(?:  \d+m\d\ds)?\x1b\[K")


def ids(n):
    return ",".join(str(i * 7919 % 32000) for i in range(n))


# what the line says, and the command; some read what an earlier one wrote
LONG = {
    "synth": ("writing weights", ["synth", "large.json", "-o", "large.bin"]),
    "info": ("checking the data", ["info", "large.bin", "--check"]),
    "quantize": ("quantizing", ["quantize", "model.bin", "q4.bin", "--type", "q4"]),
    "convert": ("converting", ["convert", "model.bin", "-o", "copy.bin", "--type", "q4"]),
    "loading": ("loading weights", ["logits", "model.bin", "--type", "q4", "--ids", "1", "-o", "one.safetensors"]),
    "run": ("reading the prompt", ["run", "model.bin", "--ids", ids(5000), "-n", "1", "-t", "1"]),
    "logits": ("computing logits", ["logits", "model.bin", "--ids", ids(900), "-t", "1", "-o", "golden.safetensors"]),
    "verify": ("verifying", ["verify", "model.bin", "golden.safetensors", "-t", "1", "--exact"]),
    "eval": ("evaluating", ["eval", "model.bin", "--ids", ids(900), "-t", "1", "--ctx", "900"]),
    "attn": ("computing attention", ["attn", "model.bin", "--ids", ids(2500), "-t", "1", "--layer", "0", "--head", "0", "-o", "a.json"]),
    "block": ("computing the block", ["block", "large.json", "--length", "64"]),
    "grad_check": ("checking gradients", ["train", "--grad-check", "--config", "small.json"]),
}
ALSO = ("loading weights", "writing the file")   # what comes before or after that, where it takes long enough
NEEDS_BLAS = ("block", "grad_check")


def plain(args, cwd):
    return subprocess.run([TBLOCK, *args], cwd=cwd, capture_output=True, text=True, env=dict(os.environ, TERM="xterm"))


def check(name, folder, *more, screen=None):
    says, args = LONG[name]
    for attempt in range(5):   # a silent one may have stood still where it had nothing to say: a fault is silent each time
        shown = terminal.run([TBLOCK, *args, *more], cwd=folder)
        found = [m.group(1) for m in LINE.finditer(shown.data)]
        if says in found or shown.seconds < LATEST:
            break
    if name in NEEDS_BLAS and "libopenblas" in shown.data:
        raise Skip("no OpenBLAS")
    assert shown.status == 0, "%d: %r" % (shown.status, shown.data[-300:])
    left = [line for line in shown.screen() if re.search(r"\[[# ]*\] +\d+%|" + "|".join((says, *ALSO)), line)]
    assert not left and screen in (None, shown.screen()), "stays on the screen: %r" % shown.screen()
    assert set(found) <= {says, *ALSO}, "%.1f s, shown: %r" % (shown.seconds, shown.data[:300])
    if shown.seconds < LATEST and says not in found:   # that part of the work was over before the line came
        raise Skip("done in %.1f s" % shown.seconds)
    assert says in found, "%.1f s, shown: %r" % (shown.seconds, shown.data[:300])


def quiet(folder):
    says, args = LONG["logits"]
    for how in ({"TERM": "dumb"}, {"TERM": None}):
        shown = terminal.run([TBLOCK, *args], cwd=folder, **how)
        assert shown.data == "", "%r: %r" % (how, shown.data)
    shown = terminal.run([TBLOCK, *args, "--quiet"], cwd=folder)
    assert shown.data == "", "--quiet: %r" % shown.data
    done = plain(args, folder)
    assert (done.stdout, done.stderr) == ("", ""), "a pipe: %r" % done.stderr


def interrupted(folder):
    """Both what ends the program and what it catches. An argument has at most 128 KB."""
    for name in ("logits", "eval"):
        says, args = LONG[name]
        args = [ids(18000) if "," in a else a for a in args]
        shown = terminal.run([TBLOCK, *args], cwd=folder, until=says)
        assert shown.status in (-2, 130), shown.status
        assert not [line for line in shown.screen() if says in line or "^C" in line], shown.screen()
    assert not list(folder.glob("*.tmp"))


def sandboxed(folder):
    if plain(["run", "model.bin", "--ids", "1", "-n", "0", "--sandbox"], folder).returncode == 4:
        raise Skip("no seccomp here")
    check("logits", folder, "--sandbox", screen=[""])


def main():
    if not terminal.possible():
        print("skip progress: no pseudo-terminals")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "model.json").write_text(json.dumps(CONFIG))
        (folder / "large.json").write_text(json.dumps(dict(CONFIG, d_model=1024, d_ff=4096, n_layers=3)))
        (folder / "small.json").write_text(json.dumps(dict(CONFIG, d_model=128, n_layers=4, d_ff=256, vocab_size=512, n_ctx=64)))
        plain(["synth", "model.json", "-o", "model.bin"], folder)
        claims = {"%s_says_what_it_does" % name: lambda folder, name=name: check(name, folder) for name in LONG}
        claims.update(nothing_of_it_where_it_was_not_asked_for=quiet, ctrl_c_leaves_a_clean_screen=interrupted, the_sandbox_draws_too=sandboxed)
        failed = sum(attempt(name, claim, folder) for name, claim in claims.items() if name in (sys.argv[1:] or claims))
    return failed > 0


sys.exit(main())
