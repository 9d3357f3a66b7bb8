"""What the tests of this folder that run the program share: a folder for each case, commands, what is expected of an error."""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import Skip, attempt  # noqa: E402

BUILD = ROOT / os.environ.get("BUILD", "build/release")
TBLOCK = os.environ.get("TBLOCK", str(BUILD / "tblock"))
MODEL = ROOT / "models/shakespeare.bin"
DATA = ROOT / "tests/data"
PATIENCE = 600    # seconds; a busy machine is no failure
SOAK = "--soak" in sys.argv
OLD = b"what was there before\n"
CASES = []


class Folder:
    """The folder of the case that runs: TEMP, a path in all but its type."""
    path = None

    def __truediv__(self, name):
        return self.path / name

    def __fspath__(self):
        return str(self.path)

    __str__ = __fspath__


TEMP = Folder()


def case(fn):
    CASES.append(fn)
    return fn


def not_sanitized():
    """A sanitizer's own memory has no place in a little address space."""
    if BUILD.name.endswith("san"):  # config=asan and the like
        raise Skip("a sanitizer wants its address space")


# The search for leaks at the end needs calls that a sandbox refuses, and a thread. The cases of tests/cli have it.
os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")

# ---- Running -----------------------------------------------------------------------------------------------------------

def run(*args, timeout=PATIENCE, **how):
    """The program in TEMP; its standard input is empty unless given."""
    if "input" not in how and "stdin" not in how:
        how["stdin"] = subprocess.DEVNULL
    how.setdefault("stdout", subprocess.PIPE)
    how.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([TBLOCK, *map(str, args)], cwd=TEMP, timeout=timeout, **how)


def start(*args, **how):
    return subprocess.Popen([TBLOCK, *map(str, args)], cwd=TEMP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)


def fails(r, status, *words, what=""):
    """It ended with this status (one of several) and one line of an error that holds the words."""
    text = r.stderr.decode("utf-8", "replace")
    expected = status if isinstance(status, tuple) else (status,)
    assert r.returncode in expected, f"{what}: status {r.returncode}, expected {status}: {text[-300:]}"
    lines = [line for line in text.splitlines() if line.startswith("tblock: ")]
    assert lines, f"{what}: no error line: {text[-300:]}"
    for word in words:
        assert str(word) in lines[-1], f"{what}: no {word!r} in {lines[-1]!r}"


def works(r, what=""):
    assert r.returncode == 0, f"{what}: status {r.returncode}: {r.stderr[-300:]}"
    return r


def temporaries(folder):
    return [name for name in os.listdir(folder) if name.startswith(".tblock-")]


def after_kill():
    """Removes what a process that SIGKILL ended left, and returns how much: its temporary file where the file system has none without
    a name (O_TMPFILE), which counts as nothing, and one that was killed in the moment between its name and the rename."""
    left = temporaries(TEMP)
    for name in left:
        os.unlink(TEMP / name)
    try:
        os.close(os.open(TEMP, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        return 0
    return len(left)


def at_work():
    """Does a process have TEMP as its folder?"""
    for process in os.listdir("/proc"):
        try:
            if process.isdigit() and os.readlink(f"/proc/{process}/cwd") == os.path.realpath(TEMP):
                return True
        except OSError:
            pass   # it ended meanwhile, or is another user's
    return False


def need_another_user():
    """Root becomes nobody for what root may do anyway; in some containers it cannot."""
    if os.getuid() == 0:
        child = os.fork()
        if child == 0:
            try:
                os.setgid(65534)
                os.setuid(65534)
            except OSError:
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            raise Skip("root cannot become another user here")


def small_model(name="small.bin", **more):
    path = TEMP / name
    if not path.exists():
        config = {"d_model": 64, "n_layers": 2, "heads": 4, "d_ff": 128, "vocab_size": 300, "n_ctx": 64, **more}
        (TEMP / "small.json").write_text(json.dumps(config))
        works(run("synth", "small.json", "-o", path), "synth")
    return path


def text_model(name="text.bin"):
    path = TEMP / name
    shutil.copyfile(MODEL, path)
    return path


def is_mapped(process, path):
    try:
        return str(path) in pathlib.Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:
        return False


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.002)


def lacks_openblas():
    """Training multiplies matrices with OpenBLAS, which may be absent."""
    r = subprocess.run([TBLOCK, "block", "--stack", "0", "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return r.returncode == 4 and b"libopenblas.so.0 cannot be loaded" in r.stderr


def limit_files(n_bytes):
    """For preexec_fn: no file grows beyond this."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


# ---- The program -------------------------------------------------------------------------------------------------------

def main():
    os.umask(0o022)   # another user reads what is made here
    wanted = [a for a in sys.argv[1:] if not a.startswith("--")]
    failed = False
    for fn in CASES:
        if wanted and fn.__name__ not in wanted:
            continue
        TEMP.path = pathlib.Path(tempfile.mkdtemp(prefix="tblock-faults-"))
        try:
            failed |= attempt(fn.__name__, fn)
        finally:
            os.chmod(TEMP, 0o755)
            shutil.rmtree(TEMP, ignore_errors=True)
    return 1 if failed else 0
