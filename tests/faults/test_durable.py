#!/usr/bin/env python3
"""What is announced survives a power cut (docs/reliability.md): the data of an output are on the disk before it has its name, and the
name before the command ends. A library that is loaded first tells the order of the calls. $TBLOCK is the program."""
import os
import subprocess
import sys

from faults import BUILD, DATA, ROOT, TBLOCK, TEMP, Skip, case, fails, lacks_openblas, main, run, small_model, temporaries, text_model, works

LIBRARY = BUILD / "tests/faults/failing_sync.so"


def commands():
    """What writes a file or a folder: the output, and the command."""
    model, text = text_model(), str(ROOT / "README.md")
    a = {"convert": ("c.bin", ["convert", DATA / "models/cohere", "-o", "c.bin"]),
         "quantize": ("q.bin", ["quantize", model, "--type", "q8", "-o", "q.bin"]),
         "quantize --sandbox": ("s.bin", ["quantize", model, "--type", "q8", "-o", "s.bin", "--sandbox"]),
         "synth": ("y.bin", ["synth", "small.json", "-o", "y.bin"]),
         "logits": ("g.safetensors", ["logits", model, "-p", "ROMEO:", "-o", "g.safetensors"]),
         "attn": ("a.html", ["attn", model, "-p", "ROMEO:", "-o", "a.html"]),
         "embed": ("e.npy", ["embed", model, "--text", "ROMEO:", "-o", "e.npy"]),
         "run --save-state": ("state", ["run", model, "-p", "ROMEO:", "-n", "2", "--save-state", "state"]),
         "run --save-state --sandbox": ("held", ["run", model, "-p", "ROMEO:", "-n", "2", "--save-state", "held", "--sandbox"]),
         "run --receipt": ("r.json", ["run", model, "-p", "ROMEO:", "-n", "2", "--receipt", "r.json"])}
    if not lacks_openblas():
        a["train"] = ("t.bin", ["train", "t.bin", "--text", text, "--steps", "2", "--save-every", "1", "--batch", "1"])
        a["train --lora"] = ("l", ["train", "l", "--init", model, "--lora", "2", "--text", text, "--steps", "1", "--batch", "1"])
    return a


def told(r):
    return [tuple(line[1:].split()) for line in r.stderr.decode().splitlines() if line.startswith("@")]


def preloaded(args, **env):
    if not LIBRARY.exists() or BUILD.name.endswith("san"):
        raise Skip("no failing_sync.so in this build")
    r = run(*args, env=dict(os.environ, LD_PRELOAD=str(LIBRARY), **env))
    return r, told(r)


def outputs(path):
    return sorted(path.iterdir()) if path.is_dir() else [path]


@case
def data_then_name_then_folder():
    small_model()
    for name, (output, args) in commands().items():
        r, calls = preloaded(args)
        works(r, name)
        for path in outputs(TEMP / output):
            number, folder = str(path.stat().st_ino), str(path.parent.stat().st_ino)
            order = [i for i, call in enumerate(calls) if call in (("file", number), ("rename", number))][-2:]   # a number may come again
            assert [calls[i][0] for i in order] == ["file", "rename"], f"{name}: {path.name}: {calls}"
            assert ("folder", folder) in calls[order[1]:], f"{name}: {path.name}: its folder: {calls}"
        if (TEMP / output).is_dir():
            assert ("folder", str(TEMP.path.stat().st_ino)) in calls, f"{name}: the folder above: {calls}"


@case
def a_disk_that_is_lost_is_told_and_leaves_no_output():
    small_model()
    for name, (output, args) in commands().items():
        if name.startswith("train"):
            continue   # its checkpoint fails first
        r, _ = preloaded(args, FAIL_SYNC="file")
        fails(r, 4, output, os.strerror(5), what=name)
        assert not (TEMP / output).exists() and not temporaries(TEMP), f"{name}: {os.listdir(TEMP)}"
        r, _ = preloaded(args, FAIL_SYNC="folder")
        fails(r, 4, output, "cannot sync the folder", os.strerror(5), what=f"{name}: folder")


@case
def the_tools_sync_too():
    """convert.py and export.py: every file that they made, before its name; Python's os calls the same functions."""
    small_model()
    for output, args in (("py.bin", [ROOT / "tools/convert.py", DATA / "models/llama-tied", "-o", "py.bin"]),
                         ("folder", [ROOT / "tools/export.py", TEMP / "small.bin", "-o", "folder"])):
        env = dict(os.environ, LD_PRELOAD=str(LIBRARY), TBLOCK=TBLOCK)
        if not LIBRARY.exists() or BUILD.name.endswith("san"):
            raise Skip("no failing_sync.so in this build")
        r = subprocess.run([sys.executable, *map(str, args)], cwd=TEMP, env=env, capture_output=True, check=False)
        works(r, output)
        calls = told(r)
        renamed = ("rename", str((TEMP / output).stat().st_ino))
        for path in outputs(TEMP / output):
            assert ("file", str(path.stat().st_ino)) in calls[:calls.index(renamed)], f"{output}: {path.name}: {calls}"
        assert ("folder", str(TEMP.path.stat().st_ino)) in calls[calls.index(renamed):], f"{output}: its folder: {calls}"


if __name__ == "__main__":
    sys.exit(main())
