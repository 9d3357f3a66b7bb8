#!/usr/bin/env python3
"""Time of `tblock tokenize` beside the libraries tokenizers, tiktoken and sentencepiece: the same text, one thread, medians.

  .venv/bin/python bench/bench_tokenize.py [--runs N]        after `make all` and `tools/setup.sh test`

The program's time is that of a whole process: opening the model file, reading the text, encoding, printing the ids. A
library's is that of its encode call alone, with the vocabulary loaded and its cache of words warm from the run before.
Needs the tokenizers and texts of $TBLOCK_SHARED (../shared)."""
import argparse
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

DATA = libraries.SHARED / "data"
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


def program(model, text_file):
    subprocess.run([str(libraries.TBLOCK), "tokenize", str(model), "--file", str(text_file)], check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=9, help="runs of each, of which the median counts (default: %(default)s)")
    runs = parser.parse_args().runs
    texts = [("Shakespeare", DATA / "text/tinyshakespeare.txt"), ("WikiText-2", DATA / "text/wikitext-2.wiki.test.raw"),
             ("Japanese", DATA / "text/wagahaiwa_nekodearu.txt")]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        empty = folder / "one.txt"
        empty.write_text("a")
        print("%-24s %-12s %8s %10s   %s" % ("vocabulary", "text", "MB", "tblock ms", "libraries, ms"))
        for vocabulary, file, others in ROWS:
            model = folder / (vocabulary.split(",")[0] + ".bin")
            subprocess.run([sys.executable, str(ROOT / "tools/convert.py"), str(DATA / file), "-o", str(model), "--quiet"],
                           check=True, stderr=subprocess.DEVNULL)
            loaded = [(kind, libraries.LIBRARIES[kind](DATA / path, ())) for kind, path in others]
            for text_name, path in texts:
                text = path.read_text()
                shown = []
                for kind, library in loaded:
                    encode = library.t.encode_ordinary if kind == "tiktoken" else library.t.encode
                    shown.append("%s %.0f" % (kind, 1e3 * median(runs, lambda: encode(text))))
                own = 1e3 * median(runs, lambda: program(model, path))
                print("%-24s %-12s %8.2f %10.1f   %s" % (vocabulary, text_name, path.stat().st_size / 1e6, own, ", ".join(shown)))
            own = [1e3 * median(runs, lambda: program(model, empty))]
            for n in (1, 2, 4):
                word = folder / "word.txt"
                word.write_text("".join(random.Random(n).choices("abcdefghijklmnopqrstuvwxyz", k=n * 1000000)))
                own.append(1e3 * median(3, lambda: program(model, word)))
            print("%-24s start-up %.1f ms; one word of 1, 2 and 4 MB: %.0f, %.0f, %.0f ms" % (vocabulary, *own))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
