#!/usr/bin/env python3
"""Time of `tblock tokenize` beside the libraries tokenizers, tiktoken and sentencepiece: the same text, one thread, medians.

  .venv/bin/python bench/bench_tokenize.py [--runs N]        after `make all` and `tools/setup.sh test`

Each row is the encode call alone, in this process, with the vocabulary loaded (tokenizers' cache of words is warm from the
run before). Start-up is a whole `tblock tokenize` of one letter. Needs the tokenizers and texts of $TBLOCK_TEST_DATA."""
import argparse
import ctypes
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "text"))
import test_differential as libraries  # noqa: E402

DATA = libraries.testdata.MORE
ROWS = [   # vocabulary, the same for the program, [(library, its file)]
    ("gpt2, byte-level", "tokenizers/gpt2/tokenizer.json", [("tokenizers", "tokenizers/gpt2/tokenizer.json"), ("tiktoken", "tokenizers/gpt2/gpt2.tiktoken")]),
    ("llama3, byte-level", "tokenizers/llama3/tokenizer.model", [("tiktoken", "tokenizers/llama3/tokenizer.model")]),
    ("qwen2, byte-level", "tokenizers/qwen2/vocab.json", [("tokenizers", "tokenizers/qwen2/vocab.json")]),
    ("llama2, tokenizer.json", "tokenizers/llama2/tokenizer.json", [("tokenizers", "tokenizers/llama2/tokenizer.json")]),
    ("llama2, SentencePiece", "tokenizers/llama2/tokenizer.model", [("sentencepiece", "tokenizers/llama2/tokenizer.model")]),
    ("nmt_nfkc, unigram", "tokenizers/small/m.model", [("sentencepiece", "tokenizers/small/m.model")]),
]


def median(runs, call):
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def program(model, *arguments):
    subprocess.run([str(libraries.TBLOCK), "tokenize", str(model), *arguments], check=True, stdout=subprocess.DEVNULL)


class Tblock:
    """tblock_tokenize of libtblock.so, beside the program."""

    def __init__(self, model):
        self.c = ctypes.CDLL(str(pathlib.Path(libraries.TBLOCK).parent / "libtblock.so"))
        self.c.tblock_open.restype = ctypes.c_void_p
        self.model = ctypes.c_void_p(self.c.tblock_open(str(model).encode(), None, None))
        self.ids, self.n = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()

    def encode(self, data):
        if not self.c.tblock_tokenize(self.model, data, ctypes.c_size_t(len(data)), 0, ctypes.byref(self.ids), ctypes.byref(self.n), None):
            raise SystemExit("tblock_tokenize failed")
        self.c.tblock_free(self.ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=9, help="runs of each, of which the median counts (default: %(default)s)")
    runs = parser.parse_args().runs
    texts = [("Shakespeare", DATA / "text/tinyshakespeare.txt"), ("WikiText-2", DATA / "text/wikitext-2.wiki.test.raw"),
             ("Japanese", DATA / "text/wagahaiwa_nekodearu.txt")]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print("%-24s %-12s %8s %10s   %s" % ("vocabulary", "text", "MB", "tblock ms", "libraries, ms"))
        for vocabulary, file, others in ROWS:
            model = folder / (vocabulary.split(",")[0] + ".bin")
            subprocess.run([sys.executable, str(ROOT / "tools/convert.py"), str(DATA / file), "-o", str(model), "--quiet"],
                           check=True, stderr=subprocess.DEVNULL)
            loaded = [(kind, libraries.LIBRARIES[kind](DATA / path, ())) for kind, path in others]
            ours = Tblock(model)
            for text_name, path in texts:
                text = path.read_text()
                shown = []
                for kind, library in loaded:
                    encode = library.t.encode_ordinary if kind == "tiktoken" else library.t.encode
                    shown.append("%s %.0f" % (kind, 1e3 * median(runs, lambda: encode(text))))
                data = path.read_bytes()
                own = 1e3 * median(runs, lambda: ours.encode(data))
                print("%-24s %-12s %8.2f %10.1f   %s" % (vocabulary, text_name, path.stat().st_size / 1e6, own, ", ".join(shown)))
            own = [1e3 * median(runs, lambda: program(model, "--text", "a"))]
            for n in (1, 2, 4):
                word = "".join(random.Random(n).choices("abcdefghijklmnopqrstuvwxyz", k=n * 1000000)).encode()
                own.append(1e3 * median(3, lambda: ours.encode(word)))
            print("%-24s start-up %.1f ms; one word of 1, 2 and 4 MB: %.0f, %.0f, %.0f ms" % (vocabulary, *own))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
