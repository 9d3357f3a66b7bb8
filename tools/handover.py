"""The command of convert.py, and all that it leaves to `tblock convert`: tokenizers, and every source and option that the
script does not know."""
import argparse
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


class HandOver(Exception):
    """Something that convert.py does not know; `tblock convert` does, or says what is wrong."""


def expect(condition, what):
    if not condition:
        raise HandOver(what)


def no_numpy():
    """Go on with the Python that tools/setup.sh made; where there is none, tblock does the work."""
    venv = os.path.join(os.path.dirname(HERE), ".venv")
    python = os.path.join(venv, "bin", "python")
    if os.path.exists(python) and os.path.realpath(sys.prefix) != os.path.realpath(venv):
        os.execv(python, [python] + sys.argv)


def find_tblock():
    """$TBLOCK, the one that is built here, or the one that is installed, in PATH or in the Python package; None."""
    given = os.environ.get("TBLOCK") or os.path.join(os.path.dirname(HERE), "build", "release", "tblock")
    if os.access(given, os.X_OK) or "TBLOCK" in os.environ:
        return given if os.access(given, os.X_OK) else None
    package = importlib.util.find_spec("tblock")
    packaged = os.path.join(package.submodule_search_locations[0], "tblock-program") if package and package.origin else ""
    return shutil.which("tblock") or (packaged if os.access(packaged, os.X_OK) else None)


def tokenizer(tblock, src, options, temporary):
    """A model file with nothing but the tokenizer of a folder, and its chat template. None where there is none, no tblock to make
    it, or other options, which are tblock's anyway."""
    path = os.path.join(temporary, "tokenizer.bin")
    if not tblock or options or not has_tokenizer(src):
        return None
    done = subprocess.run([tblock, "convert", src, "-o", path, "--tokenizer-only", "--quiet"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
    expect(done.returncode == 0, "the tokenizer")
    return path


def has_tokenizer(folder):
    """Is there a file that may be a tokenizer's?"""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return any(n.startswith(("tokenizer", "vocab")) or n.endswith((".model", ".tiktoken")) for n in names)


def warn(text):
    print("convert.py: warning: %s" % text, file=sys.stderr)


def stop(text, status):
    print("convert.py: %s" % text, file=sys.stderr)
    return status


def without_tblock(src, out, why):
    """Says what is missing: a place that is not there, or else the program that knows what to do."""
    if not os.path.exists(src):
        return stop("%s: no such file or folder" % src, 3)
    if not os.path.isdir(os.path.dirname(out) or "."):
        return stop("%s: cannot write: no such folder" % out, 4)
    return stop("%s: only tblock can convert this (%s), and it is not built: run make" % (src, why), 4)


def command(argv, convert):
    """Convert, or let tblock do it; the exit status. convert(src, out, layout, a file with the tokenizer or None) returns a line
    for the user, and raises HandOver where it does not know the source."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return attempt(argv, convert)
    except KeyboardInterrupt:
        return stop("interrupted, nothing written", 130)
    except OSError as e:
        return stop(e, 4)


def attempt(argv, convert):
    p = argparse.ArgumentParser(usage="convert.py SRC -o FILE [options of tblock convert]", description="Writes a model file from published "
                                "weights. tblock convert --help explains all sources and options.")
    p.add_argument("src", metavar="SRC", help="a Hugging Face folder, or what else tblock convert takes")
    p.add_argument("-o", "--output", metavar="FILE", required=True, help="the model file to write")
    p.add_argument("--layout", metavar="rows16|rows", default="rows16", help="how matrices lie in it [rows16]")
    p.add_argument("-q", "--quiet", action="store_true", help="print only errors")
    p.error = lambda text: sys.exit(stop(text, 2))
    args, others = p.parse_known_args(argv)
    tblock = find_tblock()
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = tokenizer(tblock, args.src, others, folder)
            expect(not others and args.layout in ("rows16", "rows"), " ".join(others) or "--layout " + args.layout)
            line = convert(args.src, args.output, args.layout, made)
            if not tblock and has_tokenizer(args.src):
                warn("the model file has no tokenizer: tblock makes it, and is not built: run make")
            print(line, end="") if not args.quiet else None
            return 0
        except (HandOver, FileNotFoundError, LookupError, TypeError, ValueError, RecursionError) as why:
            if not tblock:
                return without_tblock(args.src, args.output, why)
    sys.stdout.flush()
    os.execv(tblock, [tblock, "convert", args.src, "-o", args.output, "--layout", args.layout] + ["--quiet"] * args.quiet + others)
