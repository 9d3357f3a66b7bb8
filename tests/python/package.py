"""What the tests of the Python package share: the package itself, as it is built for the tests (BUILD/python) or installed in the
folder TBLOCK_PACKAGE. Without it, whoever imports this says "skip" and ends."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGE = os.environ.get("TBLOCK_PACKAGE") or os.path.join(ROOT, os.environ.get("BUILD", "build/release"), "python")
sys.path[:0] = [os.path.join(ROOT, "tests"), PACKAGE]
from verdicts import attempt  # noqa: E402

if not os.path.exists(os.path.join(PACKAGE, "tblock", "__init__.py")):
    print("skip tests/python: the package is not built (tools/setup.sh test installs what it needs)")
    sys.exit(0)
import tblock  # noqa: E402

PROGRAM = os.environ.get("TBLOCK") or os.path.join(ROOT, "build", "release", "tblock")
MODEL = os.path.join(ROOT, "models", "shakespeare.bin")
TEXT = "ROMEO:\nBut soft, what light through yonder window breaks?"
TEMP = tempfile.mkdtemp()


def program(*args, given=None):
    return subprocess.run([PROGRAM, *args], stdout=subprocess.PIPE, check=True, input=given).stdout


def raises(kind, words, function, *args, **options):
    try:
        function(*args, **options)
    except kind as e:
        assert words in str(e), "expected %r in the message, found %r" % (words, str(e))
        return e
    raise AssertionError("expected %s, found no error" % kind.__name__)


def temp(name):
    return os.path.join(TEMP, name)


def run_claims(names):
    """Try each function of a test file but _helpers, or those that its command line names, and end with the status."""
    claims = [f for f in names.values() if getattr(f, "__module__", "") == "__main__" and callable(f) and f.__name__[0] != "_"]
    wanted = sys.argv[1:]
    sys.exit(max([attempt(f.__name__, f) for f in claims if not wanted or f.__name__ in wanted]))
