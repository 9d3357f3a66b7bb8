#!/usr/bin/env python3
"""Say where everything in a model file lies, as plain lines, for a program without a JSON reader (neon_forward.c).

    neon_index.py MODEL.bin > INDEX

"config KEY VALUE" for every key of the config (rope's as rope.KEY), "tensor NAME DTYPE OFFSET RANK DIM..." for every tensor
but the tokenizer's and the padding; OFFSET is in the file.
"""
import json
import pathlib
import struct
import sys


def lines(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    config = json.loads(header.pop("__metadata__")["config"])
    for key, value in config.items():
        if isinstance(value, dict):
            yield from (f"config {key}.{k} {v!r}" if not isinstance(v, str) else f"config {key}.{k} {v}" for k, v in value.items())
        elif not isinstance(value, list):
            yield f"config {key} {int(value) if isinstance(value, bool) else value}"
    for name, t in header.items():
        if not name.startswith(("tok.", "pad.")):
            yield f"tensor {name} {t['dtype']} {8 + n + t['data_offsets'][0]} {len(t['shape'])} {' '.join(map(str, t['shape']))}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write("".join(line + "\n" for line in lines(pathlib.Path(sys.argv[1]))))
