"""What the tests of this folder that run the program share: commands that must succeed, and a list of checks run in parallel."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from testdata import FIXTURES, MORE, TEST_DATA  # noqa: E402, F401


class Failure(Exception):
    pass


class Program:
    """The program of a build, and a folder for what it writes."""

    def __init__(self, build, out):
        self.tblock, self.out = build / "tblock", out
        self.out.mkdir(parents=True, exist_ok=True)

    def run(self, *command):
        """stdout of a command that must succeed."""
        p = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if p.returncode:
            lines = (p.stderr.decode(errors="replace").strip() or p.stdout.decode(errors="replace").strip()).splitlines()
            raise Failure(f"{' '.join(map(str, command))}: status {p.returncode}: {' / '.join(lines[-6:])}")
        return p.stdout


def add_options(parser):
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / os.environ.get("BUILD", "build/release"))
    parser.add_argument("--only", default="", help="only the tests whose name contains this")


def attempt(check):
    name, needs, function = check
    if not needs.exists():
        return f"skip {name}: no data ({needs.name})"
    try:
        function()
    except Failure as e:
        return f"FAIL {name}: {e}"
    return f"ok {name}"


def run_checks(checks, only):
    """checks: (name, what must exist, function). The exit status."""
    failures = 0
    with concurrent.futures.ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), 8)) as pool:
        for line in pool.map(attempt, [c for c in checks if only in c[0]]):
            print(line, flush=True)
            failures += line.startswith("FAIL")
    return failures > 0
