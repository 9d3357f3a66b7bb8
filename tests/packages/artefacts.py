"""What the tests of packages share: where things lie, and commands that must succeed."""
import hashlib
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "project")]
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


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def same_logits(program, model, place, sets, folder):
    """A program's logits and hidden states of the included model are the bytes of the one that make built here, in three types of
    weights, for these instruction sets and any threads. program(*arguments) runs it, which calls the model so; place: what it calls a
    file to write, and we."""
    prompt = ["--prompt", "ROMEO: But, soft! what light", "--hidden"]
    normal = os.path.join(ROOT, "build", "release", "tblock")
    own = os.path.join(folder, "expected")
    for weights in ("bf16", "q8", "q4"):
        run(normal, "logits", MODEL, *prompt, "--type", weights, "-o", own)
        for isa in sets:
            for threads in ("1", "3"):
                program("logits", model, *prompt, "--type", weights, "--isa", isa, "--threads", threads, "-o", place[0])
                assert sha256(place[1]) == sha256(own), (weights, isa, threads)
    print("%s equal" % ", ".join(sets))


def x86_sets():
    """Of this processor."""
    with open("/proc/cpuinfo") as f:
        has = f.read()
    return ["scalar"] + [isa for isa, flag in (("avx2", "avx2"), ("avx512", "avx512dq"), ("avx512vnni", "avx512_vnni"),
                                               ("avx512bf16", "avx512_bf16")) if flag in has] + ["auto"]
