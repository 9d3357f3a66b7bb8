#!/usr/bin/env python3
"""Texts that models draw within a constraint, at temperatures at which they draw almost anything: each fits, or was cut and says so; and
each is the same on one thread and two, with and without drafts. The shipped model, and where $TBLOCK_TEST_DATA has them vocabularies
with bytes for what they cannot spell (stories260K with 512 tokens, Llama 2 with 32,000) and Llama 3's of 128,256 tokens. Prints
"ok NAME", "FAIL NAME: why" or "skip NAME: why". $TBLOCK is the program."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]
from testdata import MORE  # noqa: E402
from verdicts import Skip, attempt, need  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
TEMP = tempfile.TemporaryDirectory()
TINY = {"d_model": 16, "n_layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 8, "d_ff": 16, "vocab_size": 128256, "n_ctx": 512}
SEEDS, MOST = 4, 60

SCHEMA = {
    "type": "object", "required": ["name", "tags", "n"], "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 9},
        "tags": {"type": "array", "items": {"enum": ["a", "b\u00e9", "\u6f22\u5b57"]}, "maxItems": 3},
        "n": {"type": "integer", "minimum": -5, "maximum": 12345}}}
LIST = r"""
root ::= item+
item ::= "- " word (" " (word | group)){0,4} "\n"
group ::= "(" group? ")" | "[" word "]"
word ::= [a-zäöü]{1,12} | [\u3040-\u309f]{1,4}
"""
# texts that often fit within MOST tokens, and texts that seldom do
CONSTRAINTS = [
    ("--regex", r"[\p{Greek}\u4E00-\u4E40é]{3,9}"), ("--regex", r" ?(yes|no|😀{2}) ?[^a-z]{1,4}"), ("--regex", r"(ab|a|b){40}!"), ("--json-schema", SCHEMA),
    ("--grammar", LIST), ("--json-object", None)]


def tblock(*args, **more):
    return subprocess.run([TBLOCK, *map(str, args)], capture_output=True, **more)


def written(name, text):
    path = pathlib.Path(TEMP.name) / name
    path.write_text(text, encoding="utf-8")
    return path


def options(kind, what):
    if kind == "--json-object":
        return [kind]
    if kind == "--regex":
        return [kind, what]
    return [kind, written("constraint", json.dumps(what) if kind == "--json-schema" else what)]


def accepted(constraint, texts):
    """What `tblock constrain` says of them, byte by byte."""
    p = tblock("constrain", "-q", *options(*constraint), "--jsonl", "-", input="".join(json.dumps(t) + "\n" for t in texts).encode())
    need(p.returncode == 0, p.stderr.decode(errors="replace"))
    return [line == b"true" for line in p.stdout.split()]


def sampled(model, constraint, seed, *more):
    """(ids, text, why it ended) of a run, and whether it says that the text was cut."""
    p = tblock("run", model, "-p", "A", "-n", MOST, "--temp", 1 + seed % 3 / 2, "-s", seed, "--json", *options(*constraint), *more)
    what = p.stderr.decode(errors="replace")
    need(p.returncode == 0, "%s, seed %d: %s" % (constraint[0], seed, what))
    answer = json.loads(p.stdout)
    return (answer["ids"], answer["text"], answer["stop_reason"]), "cut before" in what


def what_is_sampled_fits(model):
    path, fitting = model(), 0
    for constraint in CONSTRAINTS:
        texts = []
        for seed in range(SEEDS):
            told, cut = sampled(path, constraint, seed, "--threads", 1)
            other, _ = sampled(path, constraint, seed, "--threads", 2, "--draft", "ngram", "--draft-match", 1)
            need(told == other, "%s, seed %d: %r on one thread, %r on two with drafts" % (constraint[0], seed, told, other))
            if seed < 3:
                other, _ = sampled(path, constraint, seed, "--draft", path)
                need(told == other, "%s, seed %d: %r alone, %r with the model's own drafts" % (constraint[0], seed, told, other))
            need(told[2] in ("fits", "length", "eos"), "%s, seed %d: ended by %s" % (constraint[0], seed, told[2]))
            texts.append((told[1], told[2] != "length", cut))
        for (text, ended, cut), fits in zip(texts, accepted(constraint, [t for t, _, _ in texts])):
            need(fits or not ended, "%s: %r ended and does not fit" % (constraint[0], text))
            need(cut == (not fits), "%s: %r fits: %s; said to be cut: %s" % (constraint[0], text, fits, cut))
            fitting += fits
    print("# %d of %d texts fit, the others were cut" % (fitting, SEEDS * len(CONSTRAINTS)))
    need(fitting >= SEEDS * len(CONSTRAINTS) // 3, "only %d texts fit" % fitting)


def of_data(name):
    path = MORE / name
    if not path.is_file():
        raise Skip("no data")
    return path


def llama3():
    """Random weights with Llama 3's vocabulary."""
    folder = MORE / "tokenizers" / "llama3"
    if not folder.is_dir():
        raise Skip("no data")
    made, path = pathlib.Path(TEMP.name) / "tiny.bin", pathlib.Path(TEMP.name) / "llama3.bin"
    for args in (["synth", written("tiny.json", json.dumps(TINY)), "-o", made], ["convert", made, "--tokenizer", folder, "-o", path]):
        p = tblock(*args)
        need(p.returncode == 0, p.stderr.decode(errors="replace"))
    return path


def main():
    models = {
        "shakespeare": lambda: ROOT / "models" / "shakespeare.bin",
        "stories260K, 512 tokens": lambda: of_data("derived/stories260K/stories260K.f32.gguf"),
        "Llama 2's vocabulary": lambda: of_data("models/tiny-random/llama-2-tiny-random.gguf"),
        "Llama 3's vocabulary": llama3,
    }
    return any([attempt("what is sampled fits, " + name, what_is_sampled_fits, model) for name, model in models.items()])


if __name__ == "__main__":
    sys.exit(main())
