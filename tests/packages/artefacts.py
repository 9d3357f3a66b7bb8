"""What the tests of packages share: where things lie, and commands that must succeed."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests")]
# where make release has made all: nothing is made again then
RELEASE = os.environ.get("TBLOCK_RELEASE")
DIST = RELEASE or os.path.join(ROOT, "build", "dist")
DEBS = RELEASE or os.path.join(ROOT, "build", "deb")
MODEL = os.path.join(ROOT, "models", "shakespeare.bin")
GOLDEN = os.path.join(ROOT, "tests", "data", "models", "shakespeare", "golden.safetensors")
# nothing of the make that called us
ENV = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BUILD", "TBLOCK")}
with open(os.path.join(ROOT, "src", "tblock.h"), encoding="utf-8") as header:
    VERSION = re.search('^#define TBLOCK_VERSION "(.*)"', header.read(), re.M).group(1)


def run(*command, cwd=ROOT, status=0, env=ENV):
    """What it says on both streams; another status is a failure."""
    done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True)
    assert done.returncode == status, "%s: status %d: %s" % (" ".join(command)[:200], done.returncode, done.stdout[-1500:])
    return done.stdout


def make(*arguments):
    if not RELEASE:
        run("make", "-s", *arguments)
