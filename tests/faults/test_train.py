#!/usr/bin/env python3
"""What can go wrong around `train`, `grad` and `block`: full disks, limits on memory and threads, signals at any moment, outputs that
nobody reads, checkpoints cut short or changed, texts too short, losses that are no number. A checkpoint is the last one or a new one,
and going on from it gives the bytes of a run that was never stopped. As test_faults.py otherwise."""
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

from faults import (BUILD, OLD, PATIENCE, SOAK, TBLOCK, TEMP, Skip, after_kill, case, fails, lacks_openblas, limit_files, main, need_another_user,
                    not_sanitized, run, start, temporaries, works)

CONFIG = {"d_model": 32, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 48, "vocab_size": 301, "n_ctx": 32, "tied_embeddings": True}
SETTINGS = ["--text", "text.txt", "--config", "config.json", "--batch", "4", "--micro-batch", "2", "--dropout", "0.1", "--save-every", "3",
            "--eval-every", "4"]


def train(out="m.bin", steps=12, *more):
    return ["train", out, *SETTINGS, "--steps", str(steps), *more]


def prepare():
    """A text of a few words and a config; no test without OpenBLAS."""
    if lacks_openblas():
        raise Skip("no OpenBLAS")
    draw = random.Random(1)
    words = ["".join(draw.choice("etaoinshrdlu") for _ in range(draw.randint(1, 7))) for _ in range(300)]
    (TEMP / "text.txt").write_text(" ".join(draw.choice(words) for _ in range(3000)))
    (TEMP / "config.json").write_text(json.dumps(CONFIG))


def files(out="m.bin"):
    return [(TEMP / name).read_bytes() if (TEMP / name).exists() else None for name in (out, f"{out}.ckpt")]


def stop_after(step, args, number=signal.SIGINT):
    """A signal as soon as that step is told; the status. Once more where the training ended before the signal came."""
    for attempt in range(20):
        process = start(*args, "--json", stdin=subprocess.DEVNULL)
        for line in process.stdout:
            if json.loads(line).get("step", 0) >= step:
                process.send_signal(number)
                break
        process.communicate(timeout=PATIENCE)
        if process.returncode != 0:
            break
        for name in ("m.bin", "m.bin.ckpt"):
            os.unlink(TEMP / name)
    return process.returncode


def stopped():
    """A checkpoint of a run that Ctrl-C ended, and what it should become."""
    works(run(*train("whole.bin")))
    assert stop_after(3, train()) == 130
    return files()[1], files("whole.bin")


def write_tokens(name="tokens"):
    header = json.dumps({"tokens": {"dtype": "I32", "shape": [2, 8], "data_offsets": [0, 64]}}).encode()
    (TEMP / name).write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<16i", *range(16)))
    return name


# ---- Memory ------------------------------------------------------------------------------------------------------------

def all_commands():
    """Something of each that ends soon; there are a model, a checkpoint and tokens."""
    works(run(*train("m.bin", 2)))
    write_tokens()
    return {"train": train("out", 2), "train --resume": train("m.bin", 2, "--resume"), "train --init": ["train", "out2", "--init", "m.bin",
            "--text", "text.txt", "--steps", "1", "--batch", "1"], "grad": ["grad", "m.bin", "--tokens", "tokens", "-o", "out3"],
            "block": ["block", "m.bin", "-o", "out4"], "block --grad-check": ["block", "--grad-check", "--json", "--places", "1"],
            "train --grad-check": ["train", "--grad-check", "--init", "m.bin"]}


@case
def every_allocation_of_training_may_fail():
    library = BUILD / "tests/faults/failing_malloc.so"
    if not library.exists() or BUILD.name.endswith(("asan", "tsan")):
        raise Skip("no failing_malloc.so in this build")
    prepare()
    for name, args in all_commands().items():
        env = dict(os.environ, LD_PRELOAD=str(library), COUNT_ALLOCATIONS=str(TEMP / "count"))
        works(run(*args, env=env), name)
        n = int((TEMP / "count").read_text())
        del env["COUNT_ALLOCATIONS"]
        for i in range(n) if SOAK else sorted(set(range(0, n, n // 15 + 1)) | set(range(3))):
            for lasting in ("", "+"):
                r = run(*args, env=dict(env, FAIL_ALLOCATION=f"{i}{lasting}"))
                if r.returncode != 0:
                    fails(r, 4, what=f"{name}: allocation {i}{lasting} of {n}")
        assert not temporaries(TEMP), name


@case
def little_address_space_ends_training_with_an_error():
    not_sanitized()
    prepare()
    for megabytes in range(20, 140, 1 if SOAK else 10):
        limit = megabytes << 20
        for args in (train(), ["block", "--stack", "0"]):
            r = run(*args, "--threads", "2", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            assert r.returncode in (0, 4), (megabytes, args[0], r.returncode, r.stderr[-300:])
            if r.returncode:
                fails(r, 4, what=f"{args[0]} in {megabytes} MB")


@case
def little_stack_and_no_threads_train_the_same():
    need_another_user()
    prepare()
    works(run(*train("whole.bin"), "--threads", "4"))

    def limited():
        resource.setrlimit(resource.RLIMIT_STACK, (256 << 10, 256 << 10))
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)   # the limit on processes does not hold for root
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    os.chmod(TEMP, 0o777)
    shutil.copyfile(TBLOCK, TEMP / "program")
    os.chmod(TEMP / "program", 0o755)
    r = subprocess.run([str(TEMP / "program"), *train(), "--threads", "4"], cwd=TEMP, stdin=subprocess.DEVNULL, capture_output=True,
                       preexec_fn=limited, timeout=PATIENCE)
    works(r)
    assert files() == files("whole.bin")


# ---- Outputs -----------------------------------------------------------------------------------------------------------

@case
def a_full_disk_leaves_the_last_checkpoint():
    prepare()
    good, whole = stopped()
    for limit in (1, 4096, len(good) - 200):   # padding makes a later one up to that much smaller
        fails(run(*train(), "--resume", preexec_fn=limit_files(limit)), 4, "m.bin.ckpt", what=f"files of {limit} bytes")
        assert files() == [None, good], limit
        assert not temporaries(TEMP), limit
    works(run(*train(), "--resume"))
    assert files() == whole


@case
def a_model_that_cannot_be_written_leaves_the_checkpoint():
    """The disk is full at the very end: what was computed is in the checkpoint."""
    prepare()
    works(run(*train("whole.bin")))
    os.symlink("/dev/full", TEMP / "m.bin")
    fails(run(*train()), 4, "m.bin: cannot write")
    os.unlink(TEMP / "m.bin")
    assert files()[1] == files("whole.bin")[1]
    r = works(run(*train(), "--resume", "--json"))
    assert files() == files("whole.bin") and b'"step"' not in r.stdout, "it computed again what was there"


@case
def an_adapter_that_cannot_be_written_leaves_the_checkpoint():
    """Of its two files either one; --resume writes both without a step."""
    prepare()
    works(run(*train("base.bin", 3)))

    def adapter(out, *more):
        return run("train", out, "--init", "base.bin", "--text", "text.txt", "--batch", "4", "--steps", "4", "--lora", "2", "--json", *more)
    works(adapter("whole"))
    names = ("adapter_model.safetensors", "adapter_config.json")
    for name in names:
        (TEMP / name).mkdir()
        os.symlink("/dev/full", TEMP / name / name)
        fails(adapter(name), 4, f"{name}: cannot write")
        os.unlink(TEMP / name / name)
        assert b'"step"' not in works(adapter(name, "--resume")).stdout, "it computed again what was there"
        for file in names:
            assert (TEMP / name / file).read_bytes() == (TEMP / "whole" / file).read_bytes(), file


@case
def a_plot_that_cannot_be_written_leaves_the_checkpoint():
    prepare()
    works(run(*train("whole.bin")))
    fails(run(*train(), "--plot", "/dev/full"), 4, "/dev/full")
    assert files()[0] is None and files()[1]
    assert json.loads(works(run(*train(), "--resume", "--json")).stdout.splitlines()[0])["step"] == 4
    assert files() == files("whole.bin")
    for name in ("m.bin", "./m.bin.ckpt"):
        fails(run(*train(), "--plot", name), 2, name)
    assert files() == files("whole.bin")


@case
def outputs_are_tried_before_anything_is_computed():
    prepare()
    (TEMP / "folder").mkdir()
    (TEMP / "taken.bin.ckpt").mkdir()
    for args, name in ((train("none/m.bin"), "none/m.bin"), (train("folder"), "folder"), (train("taken.bin"), "taken.bin.ckpt"),
                       (train("m.bin", 12, "--plot", "folder"), "folder"), (train("m.bin", 12, "--plot", "none/x.svg"), "none/x.svg")):
        r = run(*args, "--json")
        fails(r, 4, name)
        assert not r.stdout, args
    assert files() == [None, None] and not temporaries(TEMP)


@case
def gradients_and_blocks_leave_the_old_file_when_the_disk_is_full():
    prepare()
    works(run(*train("m.bin", 1)))
    write_tokens()
    for args in (["grad", "m.bin", "--tokens", "tokens", "-o"], ["block", "--stack", "0", "-o"], ["block", "m.bin", "--json", "-o"]):
        (TEMP / "target").write_bytes(OLD)
        fails(run(*args, "target", preexec_fn=limit_files(4096)), 4, "target", what=args[0])
        assert (TEMP / "target").read_bytes() == OLD and not temporaries(TEMP), args[0]
        fails(run(*args, "/dev/full"), 4, "/dev/full", what=args[0])
    for args in (["block"], ["block", "--json"], ["grad", "m.bin", "--tokens", "tokens", "-o", "g"], ["train", "--grad-check", "--init", "m.bin"]):
        with open("/dev/full", "wb") as full:
            fails(run(*args, stdout=full), 4, "standard output", what=args[0])


@case
def a_reader_that_goes_away_stops_training_with_a_checkpoint():
    prepare()
    works(run(*train("whole.bin", 400)))
    read, write = os.pipe()
    process = subprocess.Popen([TBLOCK, *train("m.bin", 400), "--json"], cwd=TEMP, stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    os.read(read, 1)
    os.close(read)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 141 and not err, (process.returncode, err)
    assert files()[0] is None and files()[1], "no checkpoint, or trained to the end for nobody"
    with open("/dev/full", "wb") as full:
        fails(run(*train("m.bin", 400), "--resume", "--json", stdout=full), 4, "standard output")
    works(run(*train("m.bin", 400), "--resume"))
    assert files() == files("whole.bin")


@case
def closed_standard_files_do_not_reach_the_checkpoint():
    prepare()
    works(run(*train("whole.bin")))
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        for more in ("", "--json"):
            for name in ("m.bin", "m.bin.ckpt"):   # a stopped one would be in the way
                (TEMP / name).unlink(missing_ok=True)
            r = subprocess.run(["bash", "-c", f"exec {TBLOCK} {subprocess.list2cmdline(train())} {more} {closed}"], cwd=TEMP,
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
            lost = ">&-" in closed.split()   # what it prints has nowhere to go
            assert r.returncode == (4 if lost else 0), (closed, more, r.returncode, r.stderr)
            if not lost or not more:
                assert files() == files("whole.bin"), (closed, more)


# ---- Signals -----------------------------------------------------------------------------------------------------------

@case
def training_goes_on_after_signals_at_any_moment():
    prepare()
    steps, rng, counts, left = 120, random.Random(2), {}, 0
    began = time.monotonic()
    works(run(*train("whole.bin", steps)))
    usual, whole = time.monotonic() - began, files("whole.bin")
    rounds = 60 if SOAK else 6
    for i in range(10 * rounds):   # the later ones only where no signal came in time
        if i >= rounds and len(counts) > 1:
            break
        for name in ("m.bin", "m.bin.ckpt"):
            if (TEMP / name).exists():
                os.unlink(TEMP / name)
        for attempt in range(200):
            resume = ["--resume"] if files()[1] else []
            process = start(*train("m.bin", steps), *resume, "--threads", rng.choice("12"), stdin=subprocess.DEVNULL)
            time.sleep(rng.random() * usual * 0.8)
            number = rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
            process.send_signal(number)
            err = process.communicate(timeout=PATIENCE)[1]
            status = process.returncode
            counts[status] = counts.get(status, 0) + 1
            assert status in (0, 130, -number), (number, status, err[-300:])
            if number == signal.SIGKILL:
                left += after_kill()
            assert not temporaries(TEMP), (number, temporaries(TEMP))
            if status == 0:
                if attempt == 0:   # no signal came in time: the one run that was measured was a slow one
                    usual /= 2
                break
        else:
            works(run(*train("m.bin", steps), *(["--resume"] if files()[1] else [])))
        assert files() == whole, f"round {i}: other bytes"
    print("training and signals:", counts, file=sys.stderr)
    assert len(counts) > 1, "no signal came in time"
    assert left <= 2 + sum(counts.values()) // 20, f"{left} temporary files"   # of the moment that docs/reliability.md names


@case
def a_second_interrupt_ends_at_once():
    prepare()
    process = start(*train("m.bin", 1 << 20), "--json", stdin=subprocess.DEVNULL)
    process.stdout.readline()
    os.kill(process.pid, signal.SIGSTOP)   # both arrive before a step ends: two that wait are one, so the first is taken alone
    process.send_signal(signal.SIGINT)
    os.kill(process.pid, signal.SIGCONT)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode in (130, -signal.SIGINT), process.returncode
    assert not temporaries(TEMP)


# ---- Checkpoints -------------------------------------------------------------------------------------------------------

@case
def a_checkpoint_cut_short_or_changed_is_an_error():
    prepare()
    good, whole = stopped()
    path, rng, same = TEMP / "m.bin.ckpt", random.Random(3), 0
    header = 8 + struct.unpack("<Q", good[:8])[0]
    lengths = [0, 1, 7, 8, 9, header - 1, header, header + 1, len(good) // 2, len(good) - 64, len(good) - 1]
    for n in lengths:
        path.write_bytes(good[:n])
        fails(run(*train(), "--resume"), 3, "m.bin.ckpt", what=f"{n} bytes of {len(good)}")
        assert files() == [None, good[:n]], n
    places = [rng.randrange(header) for _ in range(400 if SOAK else 25)] + [rng.randrange(header, len(good)) for _ in range(400 if SOAK else 25)]
    for at in places + [header, len(good) - 1]:
        bad = bytearray(good)
        bad[at] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        r = run(*train(), "--resume")
        if r.returncode == 0 and at < header:   # a part of the header that says nothing of the numbers
            same += 1
            assert files()[0] == whole[0], f"byte {at} changed: another model"
            os.unlink(TEMP / "m.bin")
            continue
        fails(r, 3, "m.bin.ckpt", what=f"byte {at} of {len(good)}, header of {header}")
        assert files() == [None, bytes(bad)], at
    path.write_bytes(good + b"\0")
    fails(run(*train(), "--resume"), 3, "m.bin.ckpt")
    for other in ("text.txt", "whole.bin", "config.json"):
        shutil.copyfile(TEMP / other, path)
        fails(run(*train(), "--resume"), 3, "m.bin.ckpt", what=other)
    path.write_bytes(good)
    works(run(*train(), "--resume"))
    assert files() == whole
    print(f"flipped bits: {same} changed nothing", file=sys.stderr)


@case
def a_tokenizer_of_any_length_can_be_resumed():
    """Tensors of words follow one of bytes in the tokenizer, whose length is any."""
    prepare()
    for vocab in range(297, 305):
        works(run(*train("whole.bin", 3), "--vocab", vocab))
        for name in ("", ".ckpt"):
            shutil.copyfile(TEMP / f"whole.bin{name}", TEMP / f"m.bin{name}")
        works(run(*train("m.bin", 3), "--vocab", vocab, "--resume"), f"{vocab} pieces")
        assert files() == files("whole.bin")


@case
def a_checkpoint_cut_short_while_it_is_mapped_is_an_error_with_its_name():
    """Its tokenizer is written into each new one."""
    prepare()
    assert stop_after(3, train("m.bin", 4000)) == 130
    held = os.open(TEMP / "m.bin.ckpt", os.O_RDWR)   # the file that is mapped, whatever gets its name
    process = start(*train("m.bin", 4000), "--resume", "--json", stdin=subprocess.DEVNULL)
    process.stdout.readline()
    os.ftruncate(held, 4096)
    os.close(held)
    out, err = process.communicate(timeout=PATIENCE)
    fails(subprocess.CompletedProcess([], process.returncode, out, err), 4, "m.bin.ckpt", "cut short")
    assert files()[0] is None and not temporaries(TEMP)


# ---- Texts and losses --------------------------------------------------------------------------------------------------

@case
def texts_that_cannot_be_learned_from_are_named():
    prepare()
    works(run(*train("from.bin", 1)))
    tuned = ["train", "m.bin", "--init", "from.bin", "--steps", "1", "--batch", "1", "--text"]
    (TEMP / "empty").write_bytes(b"")
    (TEMP / "folder").mkdir()
    os.mkfifo(TEMP / "fifo")
    for path in ("empty", "none", "none/none", "folder", "fifo", "/dev/null", "/dev/zero", "/proc/self/mem", "x" * 300):
        r = run(*tuned, path, timeout=PATIENCE)
        fails(r, (3, 4), path[:200], what=path)
        fails(run(*train(), "--text", path, timeout=PATIENCE), (2, 3, 4), what=path)
    for n in (1, 10, 31):
        (TEMP / "short").write_bytes(b"q" * n)   # a token each: never two together in the text that made the tokenizer
        fails(run(*tuned, "short"), 3, "short", "expected more than 33 training tokens", f"found {n}" if n < 10 else "found")
    fails(run(*tuned, "short", "--validation", "0"), 3, "short", "found 31")
    (TEMP / "short").write_bytes(b"q" * 35)
    fails(run(*tuned, "short"), 3, "short")
    works(run(*tuned, "short", "--validation", "0"))
    (TEMP / "odd").write_bytes(bytes(range(256)) * 20)
    works(run(*tuned, "odd"))
    assert not temporaries(TEMP)


@case
def a_loss_that_is_no_number_keeps_the_last_checkpoint():
    prepare()
    wild = ["--lr", "1000", "--clip", "0", "--warmup", "0", "--schedule", "constant", "--eval-every", "1000", "--save-every"]
    diverging = train("m.bin", 50, *wild, "1")
    r = run(*diverging, "--json")
    fails(r, 1, "step ", "not finite")
    kept = files()
    assert kept[0] is None
    last = json.loads(r.stdout.splitlines()[-1])["step"] if r.stdout else 0
    fails(run(*diverging, "--resume"), 1, f"step {last + 1}: ")
    assert files() == kept, "a NaN loss replaced the checkpoint"
    # the last step may be the one that goes wrong: what is held back tells, or where nothing is, the first tokens of the text
    last += 1
    for share, told in (("0.1", "the validation loss is not finite"), ("0", "the loss after this step")):
        fails(run(*train("n.bin", last, *wild, "1000"), "--validation", share), 1, f"step {last}: ", told)
        assert files("n.bin") == [None, None]


if __name__ == "__main__":
    sys.exit(main())
