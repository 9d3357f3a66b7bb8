#!/usr/bin/env python3
"""A model that does not fit into the memory (docs/reliability.md): weights of GGUF stay as they are in the file, with the same bits, and what
must be made is refused before it is. A library that is loaded first says how much is available; one case has a real limit, of a control
group, where this user may make one. $TBLOCK is the program."""
import os
import pathlib
import subprocess
import sys

from faults import BUILD, DATA, ROOT, TBLOCK, TEMP, Skip, case, fails, main, not_sanitized, run, text_model, works

LIBRARY = BUILD / "tests/faults/failing_memory.so"
GGUF = DATA / "gguf/llama-kquants/model.gguf"
STAY = b"stay as they are in the file"
GROUPS = pathlib.Path("/sys/fs/cgroup")


def with_memory(kilobytes, *args):
    if not LIBRARY.exists() or BUILD.name.endswith("san"):
        raise Skip("no failing_memory.so in this build")
    return run(*args, env=dict(os.environ, LD_PRELOAD=str(LIBRARY), FAIL_AVAILABLE_KB=str(kilobytes)))


@case
def weights_stay_in_the_file_with_the_same_bits():
    ids = ["--ids", ",".join(str(7 * i % 256) for i in range(40))]
    for name, args in (("logits", ["logits", GGUF, *ids]), ("huge pages", ["logits", GGUF, *ids, "--pages", "huge"])):
        outputs = []
        for kilobytes in (1 << 20, 100):
            r = works(with_memory(kilobytes, *args, "-o", f"o{kilobytes}"), name)
            assert r.stderr.count(STAY) == (kilobytes == 100), f"{name}, {kilobytes} kB: {r.stderr}"
            outputs.append((TEMP / f"o{kilobytes}").read_bytes())
        assert outputs[0] == outputs[1], f"{name}: other bits"


@case
def what_must_be_made_is_refused_before():
    """Matrices of another type than the file's are made when it is opened."""
    model = text_model()
    size = os.path.getsize(model)
    args = ["run", model, "-p", "ROMEO:", "-n", "2", "--temp", "0", "--type", "f32"]
    fails(with_memory(100, *args), 4, model, "out of memory", "MB are available")
    works(with_memory(16 * size // 1024, *args))


def group():
    """A new control group for memory, its limit's file, or a case is skipped."""
    for folder, limit in ((GROUPS / "memory", "memory.limit_in_bytes"), (GROUPS, "memory.max")):
        new = folder / f"tblock-test-{os.getpid()}"
        try:
            new.mkdir()
        except OSError:
            continue
        if (new / limit).exists():
            return new, new / limit
        new.rmdir()
    raise Skip("no control group of memory can be made here")


@case
def a_control_group_has_the_last_word():
    not_sanitized()
    new, limit = group()
    try:
        model = "m.bin"
        works(run("synth", ROOT / "models/smollm2-135m.json", "-o", model))
        limit.write_text(str(384 << 20))
        args = ["run", model, "--ids", "1,2", "-n", "2", "--temp", "0", "--type", "f32", "--sandbox"]
        enter = f'echo $$ > {new}/cgroup.procs; exec "$@"'
        r = subprocess.run(["sh", "-c", enter, "sh", TBLOCK, *args], cwd=TEMP, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        fails(r, 4, model, "out of memory")
    finally:
        new.rmdir()


if __name__ == "__main__":
    sys.exit(main())
