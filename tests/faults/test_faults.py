#!/usr/bin/env python3
"""What can go wrong around the program: files cut short or replaced while mapped, full disks, closed and broken outputs, signals,
odd files as models, limits on memory and threads, weights that are not finite. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why".
$TBLOCK is the program. --soak: many more rounds, for minutes. Names as arguments: only these."""
import errno
import json
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

from faults import (BUILD, DATA, MODEL, OLD, PATIENCE, SOAK, TBLOCK, TEMP, Skip, after_kill, at_work, case, fails, is_mapped, limit_files, main,
                    lacks_openblas, need_another_user, not_sanitized, run, small_model, start, temporaries, text_model, wait_until, works)

# ---- A file that changes while it is mapped ----------------------------------------------------------------------------

# Commands that read standard input when the model is open: then the file is cut, and only then the input ends.
READING = {
    "run": ["run", "MODEL", "-f", "-", "-n", "2"],
    "logits": ["logits", "MODEL", "-f", "-", "-o", "out"],
    "attn": ["attn", "MODEL", "-f", "-", "--json"],
    "tokenize": ["tokenize", "MODEL"],
    "chat": ["chat", "MODEL", "--chat-format", "alpaca", "-n", "2"],
    "eval": ["eval", "MODEL", "-"],
    "run --sandbox": ["run", "MODEL", "-f", "-", "-n", "2", "--sandbox", "--save-state", "state"],
    "run --threads 2": ["run", "MODEL", "-f", "-", "-n", "2", "--threads", "2"],
}


def changed_while_mapped(args, change):
    path = text_model("changing.bin")
    process = start(*[path if a == "MODEL" else a for a in args], stdin=subprocess.PIPE)
    wait_until(lambda: is_mapped(process, path) or process.poll() is not None, "the mapping")
    time.sleep(0.05)   # past the checks of opening, mostly
    change(path)
    out, err = process.communicate(b"ROMEO: what is it?\n", timeout=PATIENCE)
    return subprocess.CompletedProcess(args, process.returncode, out, err)


@case
def a_file_cut_short_is_an_error_with_its_name():
    for name, args in READING.items():
        r = changed_while_mapped(args, lambda path: os.truncate(path, 4096))
        fails(r, (3, 4), "changing.bin", "cut short", what=name)   # 3: it was cut while its header was checked
        assert not temporaries(TEMP), name
        assert not (TEMP / "out").exists() and not (TEMP / "state").exists(), f"{name}: half an output"


@case
def a_file_removed_or_replaced_stays_readable():
    expected = works(run("run", text_model(), "-f", "-", "-n", "2", input=b"ROMEO: what is it?\n")).stdout
    other = small_model()
    for change in (os.unlink, lambda path: os.replace(shutil.copyfile(other, TEMP / "new"), path)):
        r = changed_while_mapped(READING["run"], change)
        assert works(r).stdout == expected, r.stdout


@case
def readers_see_one_file_or_the_other_while_it_is_replaced():
    path, one, other = TEMP / "swapped.bin", text_model("one.bin"), small_model()
    config = ["run", path, "--ids", "1,2,3", "--temp", "0", "-n", "3", "--json"]
    wanted = set()
    for model in (one, other):
        shutil.copyfile(model, path)
        wanted.add(json.dumps(json.loads(works(run(*config)).stdout)["ids"]))
    assert len(wanted) == 2
    seen, end = set(), time.monotonic() + (60 if SOAK else 3)
    while time.monotonic() < end:
        readers = [start(*config, stdin=subprocess.DEVNULL) for _ in range(2)]
        for model in (one, other) * 3:
            os.replace(shutil.copyfile(model, TEMP / "next.bin"), path)
        for reader in readers:
            out, err = reader.communicate(timeout=PATIENCE)
            assert reader.returncode == 0, err
            seen.add(json.dumps(json.loads(out)["ids"]))
    assert seen <= wanted and seen, seen


# ---- Memory ------------------------------------------------------------------------------------------------------------

def commands_on(model):
    """Something of each command that ends soon; outputs go to files named out."""
    return {
        "run": ["run", model, "--ids", "1,2", "-n", "3", "--stats"],
        "logits": ["logits", model, "--ids", "1,2", "-o", "out"],
        "attn": ["attn", model, "--ids", "1,2", "-o", "out.html"],
        "info": ["info", model, "--check", "--html", "out"],
        "quantize": ["quantize", model, "-o", "out", "--type", "q8"],
        "synth": ["synth", "small.json", "-o", "out"],
        "convert": ["convert", DATA / "models/llama-gqa", "-o", "out"],
        "verify": ["verify", model, "golden", "--json", "--junit", "out"],
        "eval": ["eval", model, "--ids", "1,2,3"],
        "help": ["help", "run"],
        "completions": ["completions", "bash"],
    }


def usable_commands(model):
    """commands_on, as this version of the program spells them; prepares what they read."""
    works(run("logits", model, "--ids", "1,2", "-o", "golden"))
    usable = {}
    for name, args in commands_on(model).items():
        r = run(*args)
        if r.returncode == 2 and b"-o" in r.stderr:   # the output is an operand
            args = [a for a in args if a != "-o"]
            r = run(*args)
        works(r, name)
        usable[name] = args
    return usable


@case
def every_allocation_of_a_command_may_fail():
    library = BUILD / "tests/faults/failing_malloc.so"
    if not library.exists() or BUILD.name.endswith(("asan", "tsan")):
        raise Skip("no failing_malloc.so in this build")
    model = small_model()
    commands = usable_commands(model)
    commands["tokenize"] = ["tokenize", text_model(), "--text", "To be, or not", "--pieces"]
    (TEMP / "texts.jsonl").write_text('"ab ab"\n"ba"\n')
    (TEMP / "list.gbnf").write_text('root ::= "(" root ")" | [ab]+ (" " root)?')
    commands["constrain"] = ["constrain", text_model(), "--grammar", "list.gbnf", "--jsonl", "texts.jsonl", "--stats"]
    (TEMP / "schema.json").write_text('{"oneOf":[{"type":"object","required":["a"],"properties":{"a":{"format":"date"}},'
                                      '"patternProperties":{"^b":{"multipleOf":3,"minimum":1.5}},"not":{"required":["c"]}},'
                                      '{"items":{"$ref":"#"},"contains":{"const":[1]},"format":"x"}]}')
    (TEMP / "json.jsonl").write_text('"{\\"a\\":\\"2024-02-29\\", \\"b\\": 3}"\n"[[1]]"\n')
    commands["constrain --json-schema"] = ["constrain", "--json-schema", "schema.json", "--jsonl", "json.jsonl"]
    commands["constrain --regex"] = ["constrain", "--regex", "(?i)[^b]b{2,}|\\p{Lu}+ b", "--jsonl", "texts.jsonl"]
    commands["embed"] = ["embed", text_model(), "--prefix", "a", "--jsonl", "texts.jsonl", "-o", "out.npy"]
    commands["chat"] = ["chat", text_model(), "--chat-format", "alpaca", "-n", "2"]
    commands["run --sandbox"] = ["run", text_model(), "-p", "A", "-n", "2", "--sandbox", "--save-state", "out", "--trace", "out2"]
    for name, args in commands.items():
        env = dict(os.environ, LD_PRELOAD=str(library), COUNT_ALLOCATIONS=str(TEMP / "count"))
        works(run(*args, env=env, input=b"Hello"), name)
        n = int((TEMP / "count").read_text().split()[0])
        del env["COUNT_ALLOCATIONS"]
        tries = range(n) if SOAK else sorted(set(range(0, n, n // 20 + 1)) | set(range(min(n, 5))))
        for i in tries:
            for lasting in ("", "+"):
                r = run(*args, env=dict(env, FAIL_ALLOCATION=f"{i}{lasting}"), input=b"Hello")
                if r.returncode != 0:
                    fails(r, 4, what=f"{name}: allocation {i}{lasting} of {n}")
        assert not temporaries(TEMP), name


@case
def every_allocation_in_the_sandbox_may_fail():
    """From a little before it is entered on; one by one, and all from one on."""
    library = BUILD / "tests/faults/failing_malloc.so"
    if not library.exists() or BUILD.name.endswith(("asan", "tsan")):
        raise Skip("no failing_malloc.so in this build")
    need_sandbox()
    model = text_model()
    (TEMP / "text.txt").write_text("To be, or not to be, that is the question.\n" * 7)
    works(run("logits", model, "-p", "ROMEO:", "-o", "golden"))
    commands = {
        "run": ["run", model, "-p", "A", "-n", "4", "--sandbox", "--save-state", "out"],
        "run --threads 2": ["run", model, "-p", "A", "-n", "4", "--sandbox", "--threads", "2", "--save-state", "/dev/null"],
        "eval": ["eval", model, "text.txt", "--ctx", "32", "--sandbox"],
        "verify": ["verify", model, "golden", "--sandbox", "--junit", "out"],
        "verify of nothing": ["verify", model, "text.txt", "--sandbox"],
    }
    before = 20   # allocations: what the way in takes
    for name, args in commands.items():
        env = dict(os.environ, LD_PRELOAD=str(library))
        expected = run(*args, env=dict(env, COUNT_ALLOCATIONS=str(TEMP / "count")))
        assert expected.returncode == (3 if name == "verify of nothing" else 0), (name, expected.stderr)
        n, entered = map(int, (TEMP / "count").read_text().split())
        first = max(entered - before, 0)
        for i in range(first, n) if SOAK else sorted({*range(first, min(entered + 3, n)), *range(first, n, (n - first) // 30 + 1)}):
            for lasting in ("", "+"):
                r = run(*args, env=dict(env, FAIL_ALLOCATION=f"{i}{lasting}"))
                what = f"{name}: allocation {i}{lasting} of {n}, {entered} before the sandbox"
                if r.returncode != expected.returncode:
                    fails(r, 4, what=what)
                else:
                    assert r.stdout == expected.stdout, what
        wait_until(lambda: not temporaries(TEMP), f"{name}: the helper's tidying")


@case
def little_address_space_is_an_error():
    not_sanitized()
    model = text_model()
    for megabytes in list(range(6, 80, 1 if SOAK else 6)):   # the program alone takes 4
        for args in (["run", model, "-p", "A", "-n", "3", "--threads", "4"], ["info", model, "--check"],
                     ["quantize", model, "out.bin", "--type", "q8"]):
            limit = megabytes << 20
            r = run(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            # the loader itself may find no room for the libraries: it says so, with status 127
            if r.returncode not in (0, 127):
                fails(r, (4,), what=f"{args[0]} in {megabytes} MB")
            assert r.returncode == 127 or r.returncode >= 0


@case
def little_stack_and_no_threads_are_enough():
    need_another_user()
    model = text_model()
    args = ["run", model, "-p", "A", "-n", "3", "--threads", "8"]
    expected = works(run(*args)).stdout

    def limited():
        resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, 256 << 10))
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)   # the limit on processes does not hold for root
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    os.chmod(TEMP, 0o755)
    shutil.copyfile(TBLOCK, TEMP / "program")
    os.chmod(TEMP / "program", 0o755)
    r = subprocess.run([str(TEMP / "program"), *map(str, args)], cwd=TEMP, stdin=subprocess.DEVNULL, capture_output=True,
                       preexec_fn=limited, timeout=PATIENCE)
    assert works(r).stdout == expected


@case
def a_stack_of_64_kb_is_enough():
    not_sanitized()
    model, text = small_model(), text_model()
    commands = dict(usable_commands(model), **{
        "run of a text": ["run", text, "-f", "-", "-n", "3", "--temp", "0", "--threads", "2"], "tokenize": ["tokenize", text],
        "run --sandbox": ["run", text, "-f", "-", "-n", "3", "--temp", "0", "--sandbox", "--save-state", "/dev/null"],
        "chat": ["chat", text, "--chat-format", "alpaca", "-n", "2", "--temp", "0"], "eval of a text": ["eval", text, "-"],
        "block": ["block", model, "--stack", "0", "--json"],
        "run of a folder": ["run", DATA / "models/llama3-e2e", "-f", "-", "-n", "3", "--temp", "0"],
        "train": ["train", "--text", DATA / "README.md", "--vocab", "300", "--config", "small.json", "-o", "trained.bin", "--steps", "2", "--ctx", "16"],
        "eval --choices": ["eval", text, "--choices", DATA / "questions.jsonl"]})

    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, 64 << 10))
    for name, args in commands.items():
        r = run(*args, input=b"ROMEO: what is it?\n")
        for f in ("trained.bin", "trained.bin.ckpt"):
            (TEMP / f).unlink(missing_ok=True)
        small = run(*args, input=b"ROMEO: what is it?\n", preexec_fn=limit)
        assert (small.returncode, r.returncode) == (0, 0), f"{name}: {small.returncode}, {r.returncode}: {r.stderr[-200:]} {small.stderr[-200:]}"
        assert name in ("block", "train", "verify") or small.stdout == r.stdout, name


# ---- Outputs -----------------------------------------------------------------------------------------------------------

def outputs(model, data=DATA):
    """Commands that write a file of over 4 KB, whose name is the last argument."""
    return {
        "logits": ["logits", model, "--ids", ",".join(map(str, range(60))), "--hidden", "-o"],
        "logits --sandbox": ["logits", model, "--ids", ",".join(map(str, range(60))), "--hidden", "--sandbox", "-o"],
        "attn": ["attn", model, "--ids", ",".join(map(str, range(60))), "--format", "safetensors", "-o"],
        "run --save-state": ["run", model, "--ids", ",".join(map(str, range(30))), "-n", "2", "--save-state"],
        "run --save-state --sandbox": ["run", model, "--ids", ",".join(map(str, range(30))), "-n", "2", "--sandbox", "--save-state"],
        "quantize": ["quantize", model, "--type", "q8", "@"],
        "synth": ["synth", "small.json", "-o"],
        "convert": ["convert", data / "models/llama-gqa", "-o"],
        "info --html": ["info", model, "--html"],
        "info --html --sandbox": ["info", model, "--sandbox", "--html"],
        # threads, which a sanitizer cannot begin inside
        **({} if BUILD.name.endswith("san") else {"quantize --sandbox": ["quantize", model, "--type", "q8", "--sandbox", "@"],
                                                  "convert --sandbox": ["convert", data / "models/llama-gqa", "--sandbox", "-o"]}),
    }


def with_output(args, path):
    return [path if a == "@" else a for a in args] if "@" in args else [*args, path]


@case
def a_full_disk_leaves_the_old_file():
    model = small_model()
    target = TEMP / "target"
    for name, args in outputs(model).items():
        target.write_bytes(OLD)
        r = run(*with_output(args, target), preexec_fn=limit_files(4096))
        fails(r, 4, "target", what=name)
        assert target.read_bytes() == OLD, name
        assert not temporaries(TEMP), name
        fails(run(*with_output(args, "/dev/full")), 4, "/dev/full", "No space left on device", what=name)
    for args in (["run", model, "--ids", "1"], ["info", model], ["help"], ["completions", "bash"]):
        with open("/dev/full", "wb") as full:
            fails(run(*args, stdout=full), 4, "standard output", what=args[0])


@case
def a_small_file_system_fills_up():
    model = small_model()
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skip("no mount namespace to be had")
    mount = TEMP / "tiny"
    mount.mkdir()
    for name, args in outputs(model).items():
        line = subprocess.list2cmdline([TBLOCK, *map(str, with_output(args, mount / "target"))])
        script = (f"mount -t tmpfs -o size=8k none {mount} || exit 77; cp {TEMP}/old {mount}/target; {line}; status=$?; "
                  f"cmp {mount}/target {TEMP}/old || exit 78; [ $(ls -A {mount} | wc -l) = 1 ] || exit 79; exit $status")
        (TEMP / "old").write_bytes(OLD)
        r = subprocess.run(["unshare", "-m", "bash", "-c", script], cwd=TEMP, capture_output=True, timeout=PATIENCE)
        if r.returncode == 77:
            raise Skip("no tmpfs to be had")
        fails(r, 4, "target", what=name)


def small_disk(kilobytes, line):
    """Run a line of shell in a folder that is a tmpfs of so many KB; 77: there can be none here."""
    mount = TEMP / "small"
    mount.mkdir(exist_ok=True)
    script = f"mount -t tmpfs -o size={kilobytes}k none {mount} || exit 77; cd {mount} || exit 77; {line}; status=$?; ls -A | tr '\\n' ' '; exit $status"
    unshare = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
    r = subprocess.run([*unshare, "bash", "-c", script], cwd=TEMP, capture_output=True, timeout=PATIENCE)
    if r.returncode == 77 or b"unshare" in r.stderr:
        raise Skip("no tmpfs of our own to be had")
    return r


@case
def room_is_looked_for_before_work_begins():
    config = {"d_model": 64, "n_layers": 2, "heads": 4, "d_ff": 128, "vocab_size": 270, "n_ctx": 64}   # 467 kB as f32
    (TEMP / "room.json").write_text(json.dumps(config))
    (TEMP / "room.txt").write_text("To be, or not to be, that is the question. " * 400)
    works(run("synth", "room.json", "-o", "room.bin"))
    folder = DATA / "models" / "llama-gqa"
    train = f"train -o m.bin --text {TEMP}/room.txt --config {TEMP}/room.json --steps 2 --batch 2 --quiet"
    for kilobytes, args in ((100, f"synth {TEMP}/room.json -o m.bin"), (100, f"convert {folder} -o m.bin"),
                            (100, f"quantize {TEMP}/room.bin -o m.bin --type f32"), (300, train),
                            (1600, train), (2200, train + " --save-every 1")):   # a checkpoint fits; it and the model, or two, do not
        r = small_disk(kilobytes, f"{TBLOCK} {args}")
        if b"libopenblas" in r.stderr:
            continue
        fails(r, 4, "needs", "are free", what=args)
        assert r.stdout == b"", (args, r.stdout)   # and nothing was written
    r = small_disk(3400, f"{TBLOCK} {train} --save-every 1")
    if b"libopenblas" not in r.stderr:
        assert works(r).stdout == b"m.bin m.bin.ckpt ", r
    r = works(small_disk(100, f"{TBLOCK} synth {TEMP}/room.json -o m.bin --sparse && {TBLOCK} info m.bin"))   # reading would fill it: a tmpfs stores the zeros that are read
    assert b"every matrix is zero" in r.stdout, r.stdout


@case
def a_folder_that_cannot_be_written_is_an_error():
    need_another_user()
    model = small_model()
    folder = TEMP / "locked"
    folder.mkdir()
    os.chmod(folder, 0o555)
    shutil.copyfile(TBLOCK, TEMP / "program")
    os.chmod(TEMP / "program", 0o755)
    os.chmod(TEMP, 0o755)

    def unprivileged():
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
    shutil.copytree(DATA / "models/llama-gqa", TEMP / "data/models/llama-gqa")   # the clone may lie where only root may go
    for name, args in outputs(model, TEMP / "data").items():
        r = subprocess.run([str(TEMP / "program"), *map(str, with_output(args, folder / "target"))], cwd=TEMP,
                           stdin=subprocess.DEVNULL, capture_output=True, preexec_fn=unprivileged, timeout=PATIENCE)
        fails(r, 4, "target", what=name)


@case
def a_reader_that_goes_away_ends_it_quietly():
    model = text_model()
    for args in (["run", model, "-p", "A", "-n", "200"], ["info", model, "--tensors"], ["attn", model, "-p", "A", "--json"],
                 ["tokenize", model, "--text", "A " * 20000], ["help", "--man"], ["run", model, "-p", "A", "-n", "200", "--sandbox"]):
        read, write = os.pipe()
        process = subprocess.Popen([TBLOCK, *map(str, args)], stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        os.read(read, 1)
        os.close(read)
        _, err = process.communicate(timeout=PATIENCE)
        # what fits into the pipe was written before its reader went
        assert process.returncode in (0, 141) and not err, (args[0], process.returncode, err)


@case
def closed_standard_files_are_no_accident():
    model = text_model()
    golden = TEMP / "golden"
    works(run("logits", model, "--ids", "1,2", "-o", golden))
    wanted = golden.read_bytes()
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        for args in (f"run {model} --ids 1,2 -n 2", f"info {model}", f"logits {model} --ids 1,2 -o {golden}", "help",
                     f"logits {model} --ids 1,2 -o {golden} --sandbox", f"verify {model} {golden}", f"run {model}",
                     f"quantize {model} {TEMP}/q.bin --type q8"):
            r = subprocess.run(["bash", "-c", f"exec {TBLOCK} {args} {closed}"], cwd=TEMP, stdin=subprocess.DEVNULL,
                               capture_output=True, timeout=PATIENCE)
            assert 0 <= r.returncode <= 4, (args, closed, r.returncode, r.stderr)
            assert golden.read_bytes() == wanted, f"{args} {closed}: something was printed into the output file"
    r = subprocess.run(["bash", "-c", f"{TBLOCK} info {model} >&-"], capture_output=True, timeout=PATIENCE)
    fails(r, 4, "standard output", what="info >&-")


def sum_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@case
def no_output_replaces_what_is_read():
    """A model file, any file of a folder, a link to it, the prompt, the golden and its tokens: with and without --sandbox."""
    sandboxes = [[], ["--sandbox"]] if has_sandbox() else [[]]
    work = TEMP / "work"
    work.mkdir()
    shutil.copyfile(MODEL, work / "mm.bin")
    os.symlink("mm.bin", work / "link.bin")
    os.link(work / "mm.bin", work / "hard.bin")
    shutil.copytree(DATA / "models/llama-gqa", work / "fold")
    shutil.copytree(DATA / "models/llama-gqa", work / "broken")
    (work / "broken/model.safetensors").write_bytes(b"nothing")
    os.symlink("fold/config.json", work / "config.link")
    (work / "prompt").write_text("ROMEO:")
    (work / "x.csv").write_bytes(b"")
    works(run("logits", "work/mm.bin", "-p", "A", "-o", "work/golden"))
    works(run("run", "work/mm.bin", "-p", "A", "-n", "2", "--save-state", "work/state"))
    works(run("logits", "work/fold", "--ids", "1,2", "-o", "work/fold.golden"))
    data = (work / "fold.golden").read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + n])["logits"]
    write_npy("work/a-logits.npy", "<f4", tuple(entry["shape"]), data[8 + n:][slice(*entry["data_offsets"])])
    write_npy("work/a-tokens.npy", "<i4", "(2,)", struct.pack("<2i", 1, 2))
    before = sum_of(work)
    parts = ["config.link", *(f"fold/{name}" for name in ("model.safetensors", "config.json", "tokenizer.json") if (work / "fold" / name).exists())]
    pairs = [("mm.bin", name) for name in ("mm.bin", "link.bin", "hard.bin")] + [("link.bin", "mm.bin")] + [("fold", name) for name in parts]
    lines = []
    for model, out in pairs:
        model, out = f"work/{model}", f"work/{out}"
        lines += [["logits", model, "--ids", "1,2", "-o", out], ["run", model, "--ids", "1", "-n", "1", "--save-state", out],
                  ["run", model, "--ids", "1", "-n", "1", "--trace", out], ["attn", model, "--ids", "1,2", "--format", "json", "-o", out],
                  ["attn", model, "--ids", "1,2", "--format", "safetensors", "-o", out], ["info", model, "--html", out],
                  ["bench", model, *BENCH, "--svg", out], ["bench", model, *BENCH, "--csv", out],
                  ["quantize", model, "--type", "q8", "-o", out], ["verify", model, "work/fold.golden", "--junit", out]]
        lines += [["convert", model, "-o", out]] if model == "work/fold" else []
    for option in ("--trace", "--save-state"):
        lines += [["run", "work/mm.bin", "-n", "1", "-f", "work/prompt", option, "work/prompt"]]
    lines += [["logits", "work/mm.bin", "-f", "work/prompt", "-o", "work/prompt"],
              ["attn", "work/mm.bin", "-f", "work/prompt", "--format", "json", "-o", "work/prompt"],
              ["run", "work/mm.bin", "-p", "A", "-n", "1", "--load-state", "work/state", "--trace", "work/state"],
              ["verify", "work/fold", "work/a-logits.npy", "--junit", "work/a-tokens.npy"],
              ["verify", "work/fold", "work/a-logits.npy", "--junit", "work/a-logits.npy"],
              ["bench", "work/mm.bin", *BENCH, "--csv", "work/x.csv", "--svg", "work/x.csv"]]
    for args in lines:
        for more in sandboxes:
            fails(run(*args, *more), 2, "found", what=" ".join(map(str, args + more)))
            assert sum_of(work) == before, args + more
    for more in sandboxes:   # a report is also written of a model that cannot be opened: not over its parts
        for part in ("config.json", "model.safetensors"):
            fails(run("verify", "work/broken", "work/fold.golden", "--junit", f"work/broken/{part}", *more), 3, "work/broken")
            assert sum_of(work) == before, part
        fails(run("verify", "work/broken", "work/fold.golden", "--junit", "j.xml", *more), 3, "work/broken")
        assert b"work/fold.golden" in (TEMP / "j.xml").read_bytes()
        os.unlink(TEMP / "j.xml")
        with open(work / "prompt", "rb") as prompt:
            fails(run("run", "work/mm.bin", "-n", "1", "--trace", "work/prompt", *more, stdin=prompt), 2, "standard input")
        assert sum_of(work) == before
        works(run("run", "work/mm.bin", "-p", "A", "-n", "1", "--load-state", "work/state", "--save-state", "work/state", *more))
        (work / "state").write_bytes(before["state"])
    assert not temporaries(work)


# ---- Signals -----------------------------------------------------------------------------------------------------------

@case
def signals_leave_the_old_file_or_the_new_one():
    model = small_model("larger.bin", d_model=256, d_ff=1024, vocab_size=4000)
    target = TEMP / "target"
    rng = random.Random(1)
    rounds = 200 if SOAK else 12
    sorts, left = {"old": 0, "new": 0}, 0
    for name, args in outputs(model).items():
        if name == "info --html":
            continue   # over before a signal comes
        began = time.monotonic()
        if target.exists():
            target.unlink()
        works(run(*with_output(args, target)), name)
        wanted, usual = target.read_bytes(), time.monotonic() - began
        for i in range(rounds):
            target.write_bytes(OLD)
            process = start(*with_output(args, target), stdin=subprocess.DEVNULL)
            time.sleep(rng.random() * usual * 1.2)
            number = rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
            process.send_signal(number)
            process.communicate(timeout=PATIENCE)
            if "sandbox" in name and number == signal.SIGKILL:   # the helper tidies up a moment later, once it is there
                wait_until(lambda: not temporaries(TEMP) or not at_work(), f"{name}: the helper's tidying")
            if number == signal.SIGKILL:
                left += after_kill()
            assert not temporaries(TEMP), f"{name}, {number.name}: {temporaries(TEMP)}"
            # an interrupted run keeps what it has: a whole state, if a shorter one
            found = target.read_bytes()
            whole = found == wanted or (name.startswith("run") and found[8:9] == b"{")
            assert found == OLD or whole, f"{name}, {number.name}: {len(found)} bytes, {len(wanted)} expected"
            sorts["old" if found == OLD else "new"] += 1
    print(f"signals: {sorts['old']} times the old file, {sorts['new']} times a new one", file=sys.stderr)
    assert sorts["old"], "no signal came in time"
    assert left <= 2 + rounds // 10, f"{left} temporary files"   # of the moments that docs/reliability.md names


# ---- Odd files ---------------------------------------------------------------------------------------------------------

@case
def odd_files_are_no_models():
    model = small_model()
    works(run("logits", model, "--ids", "1,2", "-o", "golden"))
    os.mkfifo(TEMP / "fifo")
    (TEMP / "folder").mkdir()
    (TEMP / "empty").write_bytes(b"")
    os.symlink("loop", TEMP / "loop")
    listening = socket.socket(socket.AF_UNIX)
    folder = os.open(TEMP, os.O_RDONLY)
    listening.bind(f"/proc/self/fd/{folder}/socket")   # the name of a socket has 107 bytes at most
    os.close(folder)
    odd = ["fifo", "folder", "empty", "loop", "socket", "/dev/zero", "/dev/null", "/dev/stdin", "/dev/fd/77", "/proc/self/mem", "none",
           "none/none", "x" * 300, TBLOCK, "small.json", "", "/dev/fd/0"]
    for path in odd:
        for name, args in commands_on(path).items():
            if name in ("help", "completions", "synth", "convert") or (name == "info" and path == "small.json"):
                continue
            args = args[:2] + ["o1", "--type", "q8"] if name == "quantize" else args
            fails(run(*args, timeout=PATIENCE), (2, 3, 4), what=f"{name} of {path!r}")
        for args in (["verify", model, path], ["run", model, "--load-state", path], ["convert", path, "-o", "o2"],
                     ["tokenize", path, "--text", "a"], ["chat", path], ["bench", path]):
            fails(run(*args, timeout=PATIENCE), (2, 3, 4), what=f"{args[0]} with {path!r}")
        if path == "fifo":
            continue   # a text may come from one: it is waited for
        for args in (["synth", path, "-o", "o3"], ["run", model, "-f", path, "-n", "1"]):
            if path == "small.json" or path == TBLOCK:
                continue
            fails(run(*args, timeout=PATIENCE), (2, 3, 4), what=f"{args[0]} with {path!r}")
    listening.close()


@case
def the_small_files_of_a_model_are_regular_files():
    """A FIFO, a device, a folder or a link that leads nowhere under any name that is looked for is an error that names it: not a wait, not
    "there is none"."""
    work = TEMP / "parts"
    work.mkdir()
    os.mkfifo(work / "fifo")
    odd = {"FIFO": "../fifo", "device": "/dev/zero", "directory": "..", "does not exist": "gone", "circle": None}
    names = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json",
             "added_tokens.json", "chat_template.jinja", "chat_template.json", "model.safetensors", "model.safetensors.index.json"]
    for name in names:
        folder = work / name
        shutil.copytree(DATA / "models/llama3-e2e", folder)
        for first, then in (("model.safetensors", "model.safetensors.index.json"), ("tokenizer.json", "tokenizer.model")):
            if name == then:
                (folder / first).unlink()
        for what, target in odd.items():
            (folder / name).unlink(missing_ok=True)
            os.symlink(target or name, folder / name)
            for args in (["run", folder, "--ids", "1", "-n", "1"], ["convert", folder, "-o", work / "out"]):
                fails(run(*args), 3, f"{folder}/{name}: ", what, what=f"{args[0]}: {name} is a {what}")
    (work / "json").write_text('{"d_model": 32, "n_layers": 1, "heads": 2, "d_ff": 64, "vocab_size": 300}')
    text = DATA / "README.md"
    for what, target in odd.items():
        path = work / "odd.json"
        path.unlink(missing_ok=True)
        os.symlink("fifo" if what == "FIFO" else target or path.name, path)
        for args in (["synth", path, "-o", work / "out"], ["train", "--text", text, "--config", path, "-o", work / "out"], ["info", path], ["block", path]):
            fails(run(*args), (2, 3), "odd.json", "folder" if what == "directory" and args[0] in ("info", "block") else what,
                  what=f"{args[0]} of a {what}")
    if os.access("/dev/fd", os.X_OK):   # what is open already may be a pipe
        works(run("synth", "-", "-o", work / "out", input=(work / "json").read_bytes()))
        works(run("synth", "/dev/fd/0", "-o", work / "out", input=(work / "json").read_bytes()))


@case
def check_reads_all_data_before_anything_is_computed():
    model = text_model("whole.bin")
    data = bytearray(model.read_bytes())
    args = {"run": ["-p", "A", "-n", "2", "--temp", "0"], "eval": ["--ids", "1,2,3"], "logits": ["--ids", "1,2", "-o", "out.logits"]}
    plain = works(run("run", model, *args["run"])).stdout
    assert works(run("run", model, *args["run"], "--check")).stdout == plain
    works(run("run", DATA / "models/llama3-e2e", "--ids", "1", "-n", "1", "--check"))
    data[-100] ^= 1
    (TEMP / "bit.bin").write_bytes(data)
    for name, more in args.items():
        works(run(name, "bit.bin", *more), f"{name} without --check")
        (TEMP / "out.logits").unlink(missing_ok=True)
        fails(run(name, "bit.bin", *more, "--check"), 3, "bit.bin", "sha256", what=name)
    assert not (TEMP / "out.logits").exists()


# ---- Contexts ----------------------------------------------------------------------------------------------------------

@case
def a_context_is_filled_to_its_last_position():
    model = small_model()
    ids = [i % 7 + 1 for i in range(200)]
    spell = lambda n: ",".join(map(str, ids[:n]))   # noqa: E731
    for n_ctx in (1, 2, 63, 64, 65, 100):
        for n in (n_ctx - 1, n_ctx):
            if n == 0:
                continue
            for draft in ("none", "ngram"):
                r = works(run("run", model, "--ids", spell(n), "--ctx", n_ctx, "-n", "50", "--json", "--temp", "0", "--draft", draft),
                          f"{n} tokens of {n_ctx}")
                answer = json.loads(r.stdout)
                assert answer["stop_reason"] in ("context", "eos") and len(answer["ids"]) <= n_ctx - n, (n, n_ctx, answer)
                assert answer["stop_reason"] == "eos" or len(answer["ids"]) == n_ctx - n
        fails(run("run", model, "--ids", spell(n_ctx + 1), "--ctx", n_ctx), 2, n_ctx, n_ctx + 1)
        fails(run("logits", model, "--ids", spell(n_ctx + 1), "--ctx", n_ctx, "-o", "o"), 2, n_ctx, n_ctx + 1)
        works(run("logits", model, "--ids", spell(n_ctx), "--ctx", n_ctx, "-o", "o"))
        fails(run("attn", model, "--ids", spell(n_ctx + 1), "--ctx", n_ctx, "-o", "o.json"), 2)


@case
def a_text_that_the_system_cannot_read_is_the_systems_fault():
    """Open and read fail; whoever gives a name that leads nowhere has status 3 as ever."""
    library = BUILD / "tests/faults/failing_files.so"
    if not library.exists() or BUILD.name.endswith("san"):
        raise Skip("no failing_files.so in this build")
    model = text_model()
    (TEMP / "text").write_text("ROMEO: what is it?\n")
    commands = {"run": ["run", model, "-f", "TEXT", "-n", "2"], "eval": ["eval", model, "TEXT"], "tokenize": ["tokenize", model, "-f", "TEXT"],
                "logits": ["logits", model, "-f", "TEXT", "-o", "out"], "attn": ["attn", model, "-f", "TEXT", "--json"],
                "embed": ["embed", model, "--jsonl", "TEXT", "-o", "out.npy"], "constrain": ["constrain", "--regex", "a", "--jsonl", "TEXT"],
                "run --grammar": ["run", model, "-p", "A", "-n", "2", "--grammar", "TEXT"],
                "run --sandbox": ["run", model, "-f", "TEXT", "-n", "2", "--sandbox"],
                "train": ["train", "new.bin", "--text", "TEXT", "--steps", "1", "--batch", "1"]}
    if lacks_openblas():
        del commands["train"]
    for name, args in commands.items():
        for file in ("text", "-"):
            words = [file if a == "TEXT" else a for a in args]
            for call in ("open", "read"):
                for error in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO):
                    if (call == "open" and (file == "-" or error == errno.EIO)) or (call == "read" and error != errno.EIO):
                        continue
                    if name in ("train", "run --grammar") and (file == "-" or call == "read"):
                        continue   # it is mapped, or no "-" is known
                    env = dict(os.environ, LD_PRELOAD=str(library), FAIL_CALL=call, FAIL_FILE=file, FAIL_ERRNO=str(error))
                    what = f"{name} {file}: {call} {errno.errorcode[error]}"
                    fails(run(*words, env=env, input=b"ROMEO: x\n"), 4, os.strerror(error), what=what)
        fails(run(*["nowhere" if a == "TEXT" else a for a in args]), 3, "nowhere", what=name)


# ---- Weights that are not finite ---------------------------------------------------------------------------------------

def spoiled(name, tensor, bits, base=None):
    """A copy of the small model of f32 weights, or of another, with one element of a tensor replaced."""
    data = bytearray((base or small_model()).read_bytes())
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    entry = header[tensor]
    width = {"F32": 4, "BF16": 2, "F16": 2}[entry["dtype"]]
    at = 8 + n + entry["data_offsets"][0]
    value = struct.pack("<f", bits)
    data[at:at + width] = value[4 - width:] if entry["dtype"] != "F16" else struct.pack("<e", bits)
    (TEMP / name).write_bytes(data)
    return TEMP / name


@case
def logits_that_are_not_a_number_name_the_weight():
    nan = float("nan")
    for tensor, value, kind in (("layers.1.wk", nan, "NaN"), ("final_norm", nan, "NaN"), ("layers.0.wq", float("inf"), "infinite")):
        path = spoiled("spoiled.bin", tensor, value)
        for args in (["run", path, "--ids", "1,2", "-n", "3"], ["logits", path, "--ids", "1,2", "-o", "o"],
                     ["eval", path, "--ids", "1,2,3"]):
            if kind == "infinite" and run(*args).returncode == 0:
                continue   # an infinite product need not reach a logit as NaN
            fails(run(*args), 3, "spoiled.bin", tensor, kind, what=f"{args[0]}, {tensor}")
        fails(run("info", path, "--check"), 1, tensor, kind)
        if tensor.startswith("layers"):
            fails(run("quantize", path, "o.bin", "--type", "q8"), 3, tensor)
    path = spoiled("spoiled.bin", "final_norm", nan)
    works(run("logits", path, "--ids", "1,2", "-o", "nan.golden", "--allow-nan"))
    works(run("verify", path, "nan.golden", "--exact", "--allow-nan", "--trust-hash"))
    fails(run("verify", path, "nan.golden", "--exact", "--trust-hash"), 3, "final_norm")
    works(run("bench", path, "--read-mb=1", "--repeats=1", "--seconds=0.01", "--allow-nan", "--prefill", "8", "-n", "2"))


@case
def what_is_made_of_nan_is_no_answer():
    path = spoiled("spoiled.bin", "layers.1.wk", float("nan"), text_model("whole.bin"))
    fails(run("run", path, "-p", "ROMEO", "-n", "2", "--allow-nan"), 3, "spoiled.bin", "NaN", "cannot sample")
    for form in ("json", "html", "safetensors"):
        fails(run("attn", path, "-p", "ROMEO", "--format", form, "-o", "attn.out"), 3, "spoiled.bin", "layers.1.wk", "the attention of layer 1",
              what=form)
        assert not (TEMP / "attn.out").exists(), form
    works(run("attn", path, "-p", "ROMEO", "--layer", "0", "--json"))   # what is kept is finite
    assert b"null" in works(run("attn", path, "-p", "ROMEO", "--json", "--allow-nan")).stdout
    (TEMP / "one.jsonl").write_text('{"context": "ROMEO", "choices": ["a", "b"], "answer": 0}\n')
    fails(run("eval", path, "--choices", "one.jsonl"), 3, "spoiled.bin", "layers.1.wk")
    answer = json.loads(works(run("eval", path, "--choices", "one.jsonl", "--allow-nan", "--each", "--json")).stdout)
    assert answer["accuracy"] == answer["accuracy_norm"] == 0 and answer["accuracy_error"] is None, answer
    assert answer["each"][0]["best"] == answer["each"][0]["best_norm"] == -1, answer
    said = works(run("eval", path, "--choices", "one.jsonl", "--allow-nan", "--each")).stdout.decode()
    assert "answer 0, undecided: nan nan" in said and "accuracy          0 % +- -\n" in said, said


def hopeless_model():
    """Finite weights with which every logit is -inf, for the head's products overflow."""
    d, vocab, layer = 8, 40, "model.layers.0."
    (TEMP / "hopeless").mkdir(exist_ok=True)
    (TEMP / "hopeless" / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": d, "intermediate_size": d, "num_hidden_layers": 1,
        "num_attention_heads": 1, "vocab_size": vocab, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "tie_word_embeddings": False}))
    tensors = {"model.embed_tokens.weight": ([vocab, d], 1), "model.norm.weight": ([d], 1e30), "lm_head.weight": ([vocab, d], -3e38)}
    tensors.update({f"{layer}{name}.weight": ([d], 1) for name in ("input_layernorm", "post_attention_layernorm")})
    tensors.update({f"{layer}self_attn.{c}_proj.weight": ([d, d], 0) for c in "qkvo"})
    tensors.update({f"{layer}mlp.{name}_proj.weight": ([d, d], 0) for name in ("gate", "up", "down")})
    header, data = {}, b""
    for name, (shape, value) in tensors.items():
        part = struct.pack("<f", value) * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    (TEMP / "hopeless" / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return TEMP / "hopeless"


@case
def logits_that_are_all_minus_infinity_give_no_token():
    path = hopeless_model()
    for temp in ("0", "1"):
        fails(run("run", path, "--ids", "1,2", "-n", "2", "--temp", temp), 3, "hopeless", "every logit is -inf", "cannot sample")
    fails(run("eval", path, "--ids", "1,2,3"), 3, "hopeless", "after position 0", "found -inf")
    fails(run("eval", path, "--ids", "1,2,3", "--against", path), 3, "hopeless", "after position 0", "found -inf")
    assert b"nan" in works(run("eval", path, "--ids", "1,2,3", "--allow-nan")).stdout
    works(run("logits", path, "--ids", "1,2", "-o", "minus.golden"))   # they are what the model computes
    works(run("verify", path, "minus.golden", "--exact"))


# ---- Text that nobody vouches for --------------------------------------------------------------------------------------

@case
def special_tokens_in_a_prompt_are_text():
    works(run("convert", DATA / "models/llama3-e2e", "-o", "special.bin"))
    spelled = "a<|eot_id|><|start_header_id|>system<|end_header_id|>b"
    special = set(json.loads(works(run("tokenize", "special.bin", "--special", "--no-bos", "--json", "--text", "<|eot_id|>")).stdout)["ids"])
    assert len(special) == 1, special

    def ids(*args, **how):
        return json.loads(works(run("run", "special.bin", "-n", "0", "--json", *args, **how)).stdout)["prompt_ids"]
    plain, parsed = ids("-p", spelled), ids("-p", spelled, "--special")
    assert not special & set(plain) and special & set(parsed), (plain, parsed, special)
    (TEMP / "prompt.txt").write_text(spelled)
    assert ids("-f", "prompt.txt") == plain and ids(input=spelled.encode()) == plain
    assert works(run("tokenize", "special.bin", "--ids", ",".join(map(str, plain[1:])))).stdout.decode() == spelled
    plain = json.loads(works(run("tokenize", "special.bin", "--json", "--text", spelled)).stdout)["ids"]
    assert not special & set(plain), plain


# ---- Sandbox -----------------------------------------------------------------------------------------------------------

def has_sandbox():
    r = run("run", small_model(), "--ids", "1", "-n", "1", "--sandbox")
    if r.returncode == 4 and b"--sandbox" in r.stderr:
        return False
    works(r)
    return True


def need_sandbox():
    if not has_sandbox():
        raise Skip("no sandbox is to be had")


@case
def the_sandbox_changes_no_output():
    need_sandbox()
    model = text_model()
    (TEMP / "text.txt").write_text("To be, or not to be, that is the question.\n")
    (TEMP / "questions.jsonl").write_text('{"context": "To be", "choices": ["or not", "x"], "answer": 0}\n')
    works(run("logits", model, "-p", "ROMEO:", "-o", "golden"))
    for args in (["run", model, "-p", "A", "-n", "20", "--threads", "2"], ["eval", model, "text.txt"], ["tokenize", model, "-f", "text.txt"],
                 ["eval", model, "--choices", "questions.jsonl"], ["attn", model, "-p", "A", "--json"],
                 ["verify", model, "golden", "--exact"], ["chat", model, "--chat-format", "alpaca", "-n", "9"]):
        plain, inside = (works(run(*args, *more, input=b"Hello"), args[0]) for more in ([], ["--sandbox"]))
        assert plain.stdout == inside.stdout, args[0]
    for name in ("logits -o", "run --save-state", "attn -o", "verify --junit"):
        command, option = name.split()
        args = [command, model] + (["golden"] if command == "verify" else ["-p", "ROMEO:"]) + (["-n", "5"] if command == "run" else [])
        args += ["--format", "json"] if command == "attn" else []
        works(run(*args, option, "plain.out"), name)
        (TEMP / "inside.out").write_bytes(OLD)
        os.chmod(TEMP / "inside.out", 0o640)
        works(run(*args, option, "inside.out", "--sandbox"), name)
        assert (TEMP / "plain.out").read_bytes() == (TEMP / "inside.out").read_bytes(), name
        assert (TEMP / "inside.out").stat().st_mode & 0o777 == 0o640, name
        assert not temporaries(TEMP), name


@case
def the_sandbox_writes_in_place_what_is_no_file():
    """Devices, FIFOs and descriptors that are open: the same bytes, statuses and messages as without it."""
    need_sandbox()
    model, ids = small_model(), ["--ids", "1,2,3"]
    works(run("logits", model, *ids, "-o", "golden"))
    commands = {"logits": ["logits", model, *ids, "-o"], "run": ["run", model, *ids, "-n", "3", "--save-state"],
                "attn": ["attn", model, *ids, "--format", "safetensors", "-o"], "attn json": ["attn", model, *ids, "--format", "json", "-o"],
                "verify": ["verify", model, "golden", "--junit"]}
    os.mkfifo(TEMP / "fifo")

    def through_descriptor(args):
        with open(TEMP / "file", "wb") as file:
            file.write(b"before ")
            file.flush()
            r = run(*args, f"/dev/fd/{file.fileno()}", pass_fds=[file.fileno()])
        return r.returncode, r.stdout, r.stderr, (TEMP / "file").read_bytes()

    def through_fifo(args):
        reader = subprocess.Popen(["cat", TEMP / "fifo"], stdout=subprocess.PIPE)
        r = run(*args, "fifo")
        return r.returncode, r.stdout, r.stderr, reader.communicate(timeout=PATIENCE)[0]

    def by_name(name):
        def write(args):
            r = run(*args, name)
            return r.returncode, r.stdout if r.returncode == 0 else b"", r.stderr   # the sandbox opens outputs before it computes
        return write
    for command, args in commands.items():
        for how in (through_descriptor, through_fifo, *map(by_name, ("/dev/null", "/dev/stdout", "/dev/full", "/dev/fd/77", "none/file", "."))):
            plain, inside = how(args), how([*args[:2], "--sandbox", *args[2:]])
            assert plain == inside, (command, plain[:3], inside[:3])
    assert not temporaries(TEMP)


@case
def the_sandbox_leaves_a_link_that_leads_nowhere():
    need_sandbox()
    os.symlink("nothing", TEMP / "link")
    for more in ([], ["--sandbox"]):
        fails(run("logits", small_model(), "--ids", "1", "-o", "link", *more), 4, "link", "does not exist")
    assert os.readlink(TEMP / "link") == "nothing" and not (TEMP / "nothing").exists()
    (TEMP / "nothing").write_bytes(OLD)
    works(run("logits", small_model(), "--ids", "1", "-o", "link", "--sandbox"))
    assert os.readlink(TEMP / "link") == "nothing" and (TEMP / "nothing").read_bytes() != OLD


@case
def the_sandbox_waits_for_pipes():
    """Texts come from pipes whose writers are slow, or not there yet; what must be a regular file is refused at once."""
    need_sandbox()
    model, pause = text_model(), 0.3
    question = b'{"context": "To be", "choices": ["or not", "x"], "answer": 0}\n'
    (TEMP / "text").write_bytes(b"To be, or not")
    (TEMP / "line").write_bytes(b'{"text": "To be"}\n')
    (TEMP / "question").write_bytes(question)
    os.mkfifo(TEMP / "fifo")
    for args, text in ((["tokenize", model, "--file"], "text"), (["tokenize", model, "--jsonl"], "line"), (["eval", model, "--choices"], "question"),
                       (["run", model, "-n", "2", "-f"], "text"), (["eval", model], "text")):
        plain, data = works(run(*args, text)).stdout, (TEMP / text).read_bytes()
        read, write = os.pipe()
        process = start(*args, f"/dev/fd/{read}", "--sandbox", stdin=subprocess.DEVNULL, pass_fds=[read])
        os.close(read)
        time.sleep(pause)
        os.write(write, data[:5])
        time.sleep(pause)
        os.write(write, data[5:])
        os.close(write)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0 and out == plain, (args, err)
        process = start(*args, "fifo", "--sandbox", stdin=subprocess.DEVNULL)
        time.sleep(pause)
        (TEMP / "fifo").write_bytes(data)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0 and out == plain, (args, "fifo", err)
    fails(run("verify", model, "fifo", "--sandbox"), 3, "fifo", "found a FIFO")
    for args in (["tokenize", model, "--file", "none"], ["eval", model, "--choices", "none"], ["verify", model, "none"]):
        fails(run(*args, "--sandbox"), 3, "none", "No such file")


BENCH = ["--read-mb=1", "--repeats=1", "--seconds=0.01", "--prefill", "8", "-n", "2"]


@case
def the_sandbox_writes_what_bench_writes():
    need_sandbox()
    model = text_model()
    works(run("bench", model, *BENCH, "--csv", "all.csv", "--svg", "plain.svg"))
    (TEMP / "inside.svg").write_bytes(OLD)
    for _ in range(2):
        works(run("bench", model, *BENCH, "--csv", "all.csv", "--svg", "inside.svg", "--sandbox", "--threads", "2"))
    works(run("bench", model, *BENCH, "--csv", "new.csv", "--sandbox"))
    rows, new = (TEMP / "all.csv").read_text().splitlines(), (TEMP / "new.csv").read_text().splitlines()
    assert len(rows) == 7 and len(new) == 3 and rows[0] == new[0], (rows, new)   # two rows a run
    assert (TEMP / "inside.svg").read_text().startswith("<svg") and (TEMP / "inside.svg").read_text().endswith("</svg>\n")
    fails(run("bench", model, *BENCH, "--csv", "inside.svg", "--sandbox"), 2, "--csv", "inside.svg")
    fails(run("bench", model, *BENCH, "--svg", "none/x.svg", "--sandbox"), 4, "none/x.svg")
    fails(run("bench", model, *BENCH, "--csv", "/dev/full", "--sandbox"), 4, "/dev/full")
    (TEMP / "inside.svg").write_bytes(OLD)
    fails(run("bench", model, *BENCH, "--svg", "inside.svg", "--sandbox", preexec_fn=limit_files(1000)), 4, "inside.svg")
    assert (TEMP / "inside.svg").read_bytes() == OLD and not temporaries(TEMP)


def write_npy(name, descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    (TEMP / name).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


@case
def threads_made_in_the_sandbox_are_in_it():
    """Computing threads begin with the first product, which is after the filter: each has it."""
    need_sandbox()
    model = text_model()
    process = start("run", model, "-p", "A", "-n", "100000", "--ctx", "100001", "--sandbox", "--threads", "2", stdin=subprocess.DEVNULL)
    tasks = pathlib.Path(f"/proc/{process.pid}/task")
    try:
        wait_until(lambda: len(list(tasks.iterdir())) == 2, "the second thread")
        for task in tasks.iterdir():
            assert "\nSeccomp:\t2\n" in (task / "status").read_text(), task
    finally:
        process.kill()
        process.communicate()


@case
def the_sandbox_reads_goldens_of_numpy():
    need_sandbox()
    model, ids = small_model(), [3, 1, 4, 1, 5]
    works(run("logits", model, "--ids", ",".join(map(str, ids)), "-o", "golden"))
    data = (TEMP / "golden").read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + n])["logits"]
    logits = data[8 + n:][slice(*entry["data_offsets"])]
    write_npy("a-logits.npy", "<f4", tuple(entry["shape"]), logits)
    write_npy("a-tokens.npy", "<i4", f"({len(ids)},)", struct.pack("<5i", *ids))
    plain, inside = (works(run("verify", model, "a-logits.npy", "--exact", *more)) for more in ([], ["--sandbox", "--junit", "j.xml"]))
    assert plain.stdout == inside.stdout and b"equal bit by bit" in inside.stdout, inside.stdout
    assert b"a-logits.npy" in (TEMP / "j.xml").read_bytes()
    write_npy("a-tokens.npy", "<i4", f"({len(ids)},)", struct.pack("<5i", *ids[::-1]))
    fails(run("verify", model, "a-logits.npy", "--exact", "--sandbox"), 1, "a-logits.npy", "logits differ")
    write_npy("a-tokens.npy", "<f4", f"({len(ids)},)", struct.pack("<5f", *ids))
    fails(run("verify", model, "a-logits.npy", "--exact", "--sandbox"), 3, "a-logits.npy", "expected I32 or I64")
    (TEMP / "a-tokens.npy").write_bytes(b"no array")
    fails(run("verify", model, "a-logits.npy", "--sandbox"), 3, "a-tokens.npy")
    os.unlink(TEMP / "a-tokens.npy")
    fails(run("verify", model, "a-logits.npy", "--sandbox"), 3, "a-tokens.npy")
    shutil.copyfile(TEMP / "a-logits.npy", TEMP / "answer.npy")
    for more in ([], ["--sandbox"]):
        fails(run("verify", model, "answer.npy", *more), 3, "answer.npy", "expected a .npy file of logits")


@case
def a_sandbox_that_cannot_be_is_an_error():
    """Inside a filter that refuses seccomp itself there is none: the program says so before it computes."""
    need_sandbox()
    script = ("import ctypes, os, struct, sys\n"
              "libc = ctypes.CDLL(None, use_errno=True)\n"
              # load the call's number; refuse seccomp (317) and prctl (157) with EINVAL; allow others
              "code = [(0x20, 0, 0, 0), (0x15, 1, 0, 317), (0x15, 0, 1, 157), (0x06, 0, 0, 0x00050016), (0x06, 0, 0, 0x7fff0000)]\n"
              "data = b''.join(struct.pack('<HBBI', *i) for i in code)\n"
              "kept = ctypes.create_string_buffer(data)\n"
              "program = ctypes.create_string_buffer(struct.pack('<HxxxxxxQ', len(code), ctypes.addressof(kept)))\n"
              "assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program)) == 0\n"
              "os.execv(sys.argv[1], sys.argv[1:])\n")
    if os.uname().machine != "x86_64":
        raise Skip("the filter of this test speaks x86-64")
    r = subprocess.run([sys.executable, "-c", script, TBLOCK, "run", str(small_model()), "--ids", "1", "-n", "1", "--sandbox"],
                       capture_output=True, timeout=PATIENCE)
    fails(r, 4, "--sandbox")
    assert not r.stdout


# ---- Memory ------------------------------------------------------------------------------------------------------------

@case
def private_memory_is_what_was_predicted():
    large = small_model("wide.bin", d_model=1024, d_ff=4096, n_layers=4, heads=8, vocab_size=32000, n_ctx=4096)
    size = large.stat().st_size
    assert size > 150e6, size
    for model in (MODEL, large):
        for more in ([], ["--threads", "4"], ["--kv-type", "q8"], ["--sandbox"]):
            r = works(run("run", model, "--ids", ",".join(["1"] * 200), "-n", "40", "--json", *more), str(more))
            stats = json.loads(r.stdout)["stats"]
            if "private_bytes" not in stats:
                raise Skip("the kernel does not tell private memory")
            predicted = stats["predicted_private_bytes"]
            assert predicted == stats["kv_bytes"] + stats["activation_bytes"], stats
            assert stats["private_bytes"] <= predicted + 64e6, (more, stats["private_bytes"], stats)
    # weights that move into huge pages leave the file's
    for more in ([], ["--sandbox"]):
        r = works(run("run", large, "--ids", "1,2", "-n", "40", "--json", "--pages", "huge", *more))
        stats = json.loads(r.stdout)["stats"]
        assert stats["private_bytes"] <= stats["predicted_private_bytes"] + 64e6, stats
        assert stats["resident_bytes"] <= 1.05 * size + stats["kv_bytes"] + stats["activation_bytes"] + 64e6, stats
    # weights that are made while loading are private, and predicted
    stats = json.loads(works(run("run", large, "--ids", "1,2", "-n", "2", "--json", "--type", "q8")).stdout)["stats"]
    assert stats["predicted_private_bytes"] > 0.45 * size, stats
    assert 0.45 * size < stats["private_bytes"] <= stats["predicted_private_bytes"] + 64e6, stats
    text = works(run("run", MODEL, "-p", "A", "-n", "2", "--stats")).stderr.decode()
    assert "private " in text and "predicted" in text and "measured" in text, text


if __name__ == "__main__":
    sys.exit(main())
