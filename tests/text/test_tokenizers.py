#!/usr/bin/env python3
"""Converts tokenizers, asks the program for ids and texts over `tblock tokenize --jsonl`, and compares every answer.

The recorded answers are those of the reference libraries: prompts of our own models in tests/data/models, tokenizers/*/cases.jsonl
of the fixtures, and in the folder of $TBLOCK_TEST_DATA data/tokenizer-tests/reference_ids.jsonl. $TBLOCK is the program.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from testdata import FIXTURES, MORE as DATA  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", ROOT / "build" / "release" / "tblock")
OURS = ROOT / "tests" / "data" / "models"
TOKENIZERS = FIXTURES / "tokenizers"

RECORDED = ["bpe-gpt2", "bpe-llama3", "bpe-qwen2", "bpe-smollm", "llama2-sp", "llama3-tiktoken", "sp-bpe", "spjson-gemma",
            "spjson-legacy", "spjson-metaspace", "stories-sp512"]

# names in reference_ids.jsonl, where their tokenizers lie
REFERENCE = {
    "llama2": "tokenizers/llama2/tokenizer.model", "tok512": "models/stories260K/tok512.model",
    "tok105": "models/babyllama105/tok105.model", "mistral_v1": "tokenizers/mistral/tokenizer.model.v1",
    "mistral_v3": "tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3",
    "llama3": "tokenizers/llama3/tokenizer.model", "gpt2": "tokenizers/gpt2/tokenizer.json",
    "qwen2": "tokenizers/qwen2", "llama2_hf_json": "tokenizers/llama2/tokenizer.json",
    "small_torchtitan": "tokenizers/small/torchtitan_tokenizer.json", "small_tiny_bpe": "tokenizers/small/tiny_bpe_tokenizer.json",
    "small_tiktoken_llama3_pattern": "tokenizers/small/tiktoken_small.model",
}
OPTIONS = {"small_tiktoken_llama3_pattern": ["--pattern", "llama3"]}


class Failure(Exception):
    pass


def run(*command):
    p = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        raise Failure("status %d: %s" % (p.returncode, p.stderr.decode(errors="replace").strip()[-300:]))
    return p.stdout.decode()


def compare(source, requests, folder, options=()):
    """requests: [(request, key of the answer, expected)]. Raises Failure for the first that differs."""
    model, lines = folder / "tokenizer.bin", folder / "requests.jsonl"
    if source.parent == ROOT / "models":
        model = source  # ours, converted already
    else:
        run(sys.executable, ROOT / "tools" / "convert.py", source, "-o", model, "--quiet", *options)
    lines.write_text("".join(json.dumps(request) + "\n" for request, _, _ in requests))
    answers = run(TBLOCK, "tokenize", model, "--jsonl", lines).splitlines()
    if len(answers) != len(requests):
        raise Failure("%d answers to %d requests" % (len(answers), len(requests)))
    wrong = [(r, a) for r, a in zip(requests, answers) if json.loads(a).get(r[1]) != r[2]]
    if wrong:
        (request, _, expected), answer = wrong[0]
        raise Failure("%d of %d differ, first %s: expected %s, found %s" % (
            len(wrong), len(requests), json.dumps(request)[:200], json.dumps(expected)[:200], answer[:200]))


def requests_of_cases(path):
    out = []
    for line in path.read_text().splitlines():
        case = json.loads(line)
        if case["mode"] != "decode":
            keys = ("text", "bytes_hex", "mode", "add_special")
            out.append(({k: case[k] for k in keys if k in case}, "ids", case["ids"]))
        if "decoded" in case:
            out.append(({"ids": case["ids"]}, "text", case["decoded"]))
        if "decoded_hex" in case:
            out.append(({"ids": case["ids"]}, "bytes_hex", case["decoded_hex"]))
    return out


def requests_of_model(folder):
    """The prompts and greedy texts of golden.json."""
    golden = json.loads((folder / "golden.json").read_text())
    out = []
    for i, sequence in enumerate(golden["sequences"]):
        text = golden["prompts"][i] if "prompts" in golden else sequence["prompt_text"]
        out.append(({"text": text, "mode": "special"}, "ids", sequence["tokens"]))
        out.append(({"ids": sequence["tokens"]}, "text", text))
        if "greedy_text" in sequence:
            out.append(({"ids": sequence["greedy"]}, "text", sequence["greedy_text"]))
    return out


def requests_of_reference(name):
    lines = (DATA / "tokenizer-tests" / "reference_ids.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    mode = {"mode": "special"} if name in ("llama2_hf_json", "small_tiny_bpe") else {}  # they take <s> in a text as the token
    return [(dict(mode, bytes_hex=row["utf8_hex"]), "ids", row["ids"][name]) for row in rows]


def requests_of_pairs(name):
    """texts and ids of ggml-vocab-NAME.gguf.inp and .out"""
    pair = DATA / "tokenizer-tests" / ("ggml-vocab-%s.gguf" % name)
    texts = pathlib.Path(str(pair) + ".inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    ids = [[int(i) for i in line.split()] for line in pathlib.Path(str(pair) + ".out").read_text().splitlines()]
    return [({"text": text, "mode": "special"}, "ids", expected) for text, expected in zip(texts, ids)]


def requests_of_swift(name):
    cases = json.loads((DATA / "tokenizer-tests" / "swift-transformers_tokenizer_tests.json").read_text())[name]
    out = []
    for case in cases:
        ids = case["encoded"]["input_ids"]
        out.append(({"text": case["input"], "mode": "special", "add_special": True}, "ids", ids))
        if not any(s in case["input"] for s in (" !", " ?", " .", " ,", " '")):  # transformers tidies those up after decoding
            out.append(({"ids": ids}, "text", case["decoded_with_special"]))
    return out


def round_trips():
    """Naughty strings and invalid UTF-8: what they are encoded to decodes to the same bytes."""
    texts = [s.encode() for s in json.loads((DATA / "unicode" / "blns.json").read_text()) if s]
    for name in ("kuhn-utf8_invalid.txt", "utf8tests.bin", "utf8tests.txt"):
        data = (DATA / "unicode" / name).read_bytes()
        texts += [data] + [line for line in data.split(b"\n") if line]
    texts += [bytes([b]) for b in range(256)] + [b"a\0b", b"\0", b"\xff\xfe\0\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
    return texts


def check_round_trips(source, folder, exact):
    """exact: of every text; else SentencePiece's, where bytes that are no UTF-8 become U+FFFD."""
    model, lines = folder / "tokenizer.bin", folder / "requests.jsonl"
    run(sys.executable, ROOT / "tools" / "convert.py", source, "-o", model, "--quiet")
    texts = round_trips()
    if not exact:
        texts = [t for t in texts if b"\xe2\x96\x81" not in t and t.decode("utf-8", "ignore").encode() == t and not t.startswith(b" ")]
    lines.write_text("".join(json.dumps({"bytes_hex": t.hex()}) + "\n" for t in texts))
    ids = [json.loads(a)["ids"] for a in run(TBLOCK, "tokenize", model, "--jsonl", lines).splitlines()]
    lines.write_text("".join(json.dumps({"ids": i}) + "\n" for i in ids))
    back = [bytes.fromhex(json.loads(a)["bytes_hex"]) for a in run(TBLOCK, "tokenize", model, "--jsonl", lines).splitlines()]
    wrong = [(t, b) for t, b in zip(texts, back) if t != b]
    if wrong or len(back) != len(texts):
        raise Failure("%d of %d differ, first %r became %r" % (len(wrong), len(texts), wrong[0][0][:80], wrong[0][1][:80]))
    return len(texts)


# names in the swift-transformers file and of .inp/.out pairs, where their tokenizers lie
SWIFT = {"distilgpt2": "tokenizers/gpt2/tokenizer.json", "coreml-projects/Llama-2-7b-chat-coreml": "tokenizers/llama2/tokenizer.json",
         "pcuenq/Llama-3.2-1B-Instruct-tokenizer": "tokenizers/llama3/tokenizer.model"}
PAIRS = {"llama-spm": "tokenizers/llama2/tokenizer.model", "llama-bpe": "tokenizers/llama3/tokenizer.model",
         "gpt-2": "tokenizers/gpt2/tokenizer.json"}
ROUND_TRIPS = {"gpt2": ("tokenizers/gpt2/tokenizer.json", True), "llama3": ("tokenizers/llama3/tokenizer.model", True),
               "llama2": ("tokenizers/llama2/tokenizer.model", False), "llama2_hf_json": ("tokenizers/llama2/tokenizer.json", False)}


def tests():
    """(name, file that must be there, tokenizer, function that makes the requests)"""
    for name, tokenizer in (("shakespeare", ROOT / "models" / "shakespeare.bin"), ("llama3-e2e", OURS / "llama3-e2e" / "tokenizer.json")):
        yield name, tokenizer, tokenizer, lambda name=name: requests_of_model(OURS / name)
    recorded = [TOKENIZERS / name for name in RECORDED] + [ROOT / "tests/data/tokenizers/single-word"]
    for name, cases, folder in [(folder.name, folder / "cases.jsonl", folder) for folder in recorded]:
        tokenizer = next((f for f in (folder / "tokenizer.json", folder / "tokenizer.model") if f.exists()), None)
        yield name, cases, tokenizer, lambda cases=cases: requests_of_cases(cases)
    for kind, table, requests in (("reference", REFERENCE, requests_of_reference), ("pairs", PAIRS, requests_of_pairs),
                                  ("swift", SWIFT, requests_of_swift)):
        for name, path in table.items():
            yield "%s_%s" % (kind, name), DATA / path, DATA / path, lambda name=name, requests=requests: requests(name)


def main():
    failed = False
    for name, needed, tokenizer, make_requests in tests():
        if not needed.exists():
            print("skip tokenizer_%s: no data (%s)" % (name, needed))
            continue
        requests = make_requests()
        try:
            with tempfile.TemporaryDirectory(prefix="tblock-test-") as folder:
                compare(tokenizer, requests, pathlib.Path(folder), OPTIONS.get(name.replace("reference_", ""), ()))
            print("ok tokenizer_%s (%d answers)" % (name, len(requests)))
        except Failure as why:
            failed = True
            print("FAIL tokenizer_%s: %s" % (name, str(why).replace("\n", " ")))
        sys.stdout.flush()
    for name, (path, exact) in ROUND_TRIPS.items():
        if not (DATA / path).exists():
            print("skip round_trips_%s: no data (%s)" % (name, DATA / path))
            continue
        try:
            with tempfile.TemporaryDirectory(prefix="tblock-test-") as folder:
                print("ok round_trips_%s (%d texts)" % (name, check_round_trips(DATA / path, pathlib.Path(folder), exact)))
        except Failure as why:
            failed = True
            print("FAIL round_trips_%s: %s" % (name, str(why).replace("\n", " ")))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
