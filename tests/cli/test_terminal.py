#!/usr/bin/env python3
"""What is shown fits a terminal of 80 columns, help fills the one it is on, and colours are for terminals alone. Prints "ok NAME",
"FAIL NAME: why" or "skip NAME: why". $TBLOCK is the program."""
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
MODEL = str(ROOT / "models/shakespeare.bin")
LARGEST = str(ROOT / "models/llama-2-70b.json")
BENCH = ["--seconds", "0.05", "--repeats", "2", "--read-mb", "50", "--prefill", "64", "--profile"]
TABLES = {
    "info": ["info", MODEL, "--check", "--tensors"],
    "info_large": ["info", LARGEST, "--seq", "131072", "--batch", "64"],
    "block": ["block", "--grad-check", "--places", "1"],
    "block_model": ["block", MODEL, "--layer", "5"],
    "logits": ["logits", MODEL, "--ids", "1,2,3,4", "--hidden", "-o", "golden.safetensors"],
    "verify": ["verify", MODEL, "golden.safetensors", "--exact"],
    "verify_differs": ["verify", MODEL, "golden.safetensors", "--type", "q4"],
    "quantize": ["quantize", MODEL, "-o", "q4.bin", "--type", "q4"],
    "quantize_tensors": ["quantize", MODEL, "-o", "q4.bin", "--type", "q8", "--tensors"],
    "eval": ["eval", MODEL, "text.txt", "--ctx", "64", "--stride", "32"],
    "eval_against": ["eval", "q4.bin", "text.txt", "--against", MODEL],
    "bench": ["bench", MODEL, *BENCH],
    "bench_q4": ["bench", "q4.bin", *BENCH],
    "grad_check": ["train", "--grad-check", "--config", "tiny.json"],
    "tokenize": ["tokenize", MODEL, "--text", "Shall I compare thee to a summer's day?"],
    "stats": ["run", MODEL, "--ids", "1,2,3", "-n", "4", "--stats"],
    "version": ["--version"],
}
COMMANDS = ["run", "chat", "info", "tokenize", "logits", "verify", "eval", "attn", "train", "grad", "block", "quantize", "convert", "synth",
            "bench", "completions", "help"]
COLOUR = re.compile("\x1b\\[[0-9;]*m")


def plain(*args, cwd=None):
    return subprocess.run([TBLOCK, *args], cwd=cwd, capture_output=True, text=True, env=dict(os.environ, TERM="xterm"))


def too_long(text, width=80):
    """Lines beyond the width, but for those that one long word makes long: a path."""
    return [line for line in text.split("\n") if len(line) > width and not re.search(r"\S{60,}", line)]


def tables_fit(folder):
    for name, args in TABLES.items():
        done = plain(*args, cwd=folder)
        if "libopenblas" in done.stderr:
            continue
        assert done.returncode in (0, 1), "%s: %s" % (name, done.stderr)
        errors = [line for line in done.stderr.split("\n") if not line.startswith("tblock: ")]
        long = too_long(done.stdout + "\n".join(errors))
        assert not long, "%s: %d columns: %r" % (name, len(long[0]), long[0])


def help_fits_where_there_is_no_terminal(folder):
    for args in [["help"], [], *(["help", name] for name in COMMANDS)]:
        done = plain(*args)
        long = too_long(done.stdout + done.stderr)
        assert not long, "%s: %r" % (args, long[0])
    wide = subprocess.run([TBLOCK, *args], capture_output=True, text=True, env=dict(os.environ, TERM="xterm", COLUMNS="200"))
    assert wide.stdout == done.stdout, "COLUMNS changes what a pipe gets"


def help_fills_its_terminal(folder):
    lengths = {}
    for columns in (40, 60, 80, 95, 100, 150):
        shown = terminal.run([TBLOCK, "help", "train"], columns=columns, COLUMNS=None)
        lengths[columns] = max(len(line) for line in shown.screen())
    for columns, most in ((40, 60), (60, 60), (80, 80), (95, 95), (100, 100), (150, 100)):
        assert lengths[columns] < most, "%d columns: a line of %d" % (columns, lengths[columns])
    assert lengths[40] > 50 and lengths[95] > 80 and lengths[150] > 90, lengths
    shown = terminal.run([TBLOCK, "help", "train"], columns=80, COLUMNS="95")
    assert 80 < max(len(line) for line in shown.screen()) < 95


def examples_are_one_command_each(folder):
    """Also where they take several lines."""
    for name in COMMANDS:
        text = plain("help", name).stdout.split("Examples:\n")[1]
        for line in text.replace(" \\\n    ", " ").split("\n"):
            if line.startswith("  tblock"):
                done = subprocess.run(["bash", "-n", "-c", line], capture_output=True, text=True)
                assert done.returncode == 0 and line.count("tblock") >= 1, line


def verdicts_are_coloured_on_a_terminal(folder):
    for name, code in (("info", "\x1b[32mok"), ("verify", "\x1b[32mok"), ("verify_differs", "\x1b[1;31mDIFFERS"),
                       ("verify_differs", "\x1b[1;31mtblock:\x1b[0m")):
        shown = terminal.run([TBLOCK, *TABLES[name]], cwd=folder, NO_COLOR=None)
        assert code in shown.data, "%s: %r" % (name, shown.data[-400:])
        for how in ({"NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": None}, {"TERM": None, "NO_COLOR": None}):
            shown = terminal.run([TBLOCK, *TABLES[name]], cwd=folder, **how)
            assert not COLOUR.search(shown.data), "%s, %r: %r" % (name, how, shown.data[-400:])
        done = plain(*TABLES[name], cwd=folder)
        assert not COLOUR.search(done.stdout + done.stderr), name
    shown = terminal.run([TBLOCK, "run", MODEL, "--ids", "1", "-n", "0", "--ctx", "300"], NO_COLOR=None)
    assert "tblock: \x1b[33mwarning:\x1b[0m" in shown.data, shown.data


def the_sandbox_colours_too(folder):
    args = [*TABLES["verify"], "--sandbox"]
    if plain(*args, cwd=folder).returncode == 4:
        raise Skip("no seccomp here")
    assert "\x1b[32mok" in terminal.run([TBLOCK, *args], cwd=folder, NO_COLOR=None).data


ANYWHERE = [tables_fit, help_fits_where_there_is_no_terminal, examples_are_one_command_each]
ON_A_TERMINAL = [help_fills_its_terminal, verdicts_are_coloured_on_a_terminal, the_sandbox_colours_too]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "tiny.json").write_text('{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}')
        (pathlib.Path(folder) / "text.txt").write_text("Shall I compare thee to a summer's day? " * 12)
        for claim in ANYWHERE + ON_A_TERMINAL:
            if claim in ON_A_TERMINAL and not terminal.possible():
                print("skip %s: no pseudo-terminals" % claim.__name__)
            else:
                failed += attempt(claim.__name__, claim, folder)
    return failed > 0


sys.exit(main())
