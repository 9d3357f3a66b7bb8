#!/usr/bin/env python3
"""Convert published weights and tokenizers to tblock's model file: tools/convert.py SRC -o model.bin.

This file only finds numpy; tblock_convert/cli.py is the program, docs/convert.md the manual."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    sys.dont_write_bytecode = True
    try:
        import numpy  # noqa: F401 (only to see whether it is there)
    except ImportError:
        venv = os.path.join(os.path.dirname(HERE), ".venv")
        python = os.path.join(venv, "bin", "python")
        if os.path.exists(python) and os.path.realpath(sys.prefix) != os.path.realpath(venv):
            os.execv(python, [python, os.path.abspath(__file__)] + sys.argv[1:])
        print("convert.py: Python package numpy: expected one that can be imported, found none (pip install numpy)",
              file=sys.stderr)
        return 4
    from tblock_convert.cli import main as run
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
