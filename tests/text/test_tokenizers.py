#!/usr/bin/env python3
"""Converts tokenizers, asks the program for ids and texts over `tblock tokenize --jsonl`, and compares every answer.

The recorded answers are those of the reference libraries: prompts of our own models in tests/data/models and, where they
lie in $TBLOCK_SHARED (../shared), fixtures/tokenizers/*/cases.jsonl and data/tokenizer-tests/reference_ids.jsonl. $TBLOCK is the program.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("TBLOCK_SHARED", ROOT.parent / "shared"))
TBLOCK = os.environ.get("TBLOCK", ROOT / "build" / "release" / "tblock")
OURS = ROOT / "tests" / "data" / "models"
FIXTURES = SHARED / "fixtures" / "tokenizers"
DATA = SHARED / "data"

RECORDED = ["bpe-gpt2", "bpe-llama3", "bpe-qwen2", "bpe-smollm", "llama2-sp", "llama3-tiktoken", "sp-bpe", "stories-sp512"]
NOT_YET = ["spjson-gemma", "spjson-legacy", "spjson-metaspace"]  # SentencePiece vocabularies in a tokenizer.json

# names in reference_ids.jsonl, where their tokenizers lie
REFERENCE = {
    "llama2": "tokenizers/llama2/tokenizer.model", "tok512": "models/stories260K/tok512.model",
    "tok105": "models/babyllama105/tok105.model", "mistral_v1": "tokenizers/mistral/tokenizer.model.v1",
    "mistral_v3": "tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3",
    "llama3": "tokenizers/llama3/tokenizer.model", "gpt2": "tokenizers/gpt2/tokenizer.json",
}


class Failure(Exception):
    pass


def run(*command):
    p = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        raise Failure("status %d: %s" % (p.returncode, p.stderr.decode(errors="replace").strip()[-300:]))
    return p.stdout.decode()


def compare(source, requests, folder):
    """requests: [(request, key of the answer, expected)]. Raises Failure for the first that differs."""
    model, lines = folder / "tokenizer.bin", folder / "requests.jsonl"
    if source.parent == ROOT / "models":
        model = source  # ours, converted already
    else:
        run(sys.executable, ROOT / "tools" / "convert.py", source, "-o", model, "--quiet")
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
    return [({"bytes_hex": row["utf8_hex"]}, "ids", row["ids"][name]) for row in rows]


def tests():
    """(name, file that must be there, tokenizer, function that makes the requests)"""
    for name, tokenizer in (("shakespeare", ROOT / "models" / "shakespeare.bin"), ("llama3-e2e", OURS / "llama3-e2e" / "tokenizer.json")):
        yield name, tokenizer, tokenizer, lambda name=name: requests_of_model(OURS / name)
    for name in RECORDED + NOT_YET:
        cases = FIXTURES / name / "cases.jsonl"
        tokenizer = next((f for f in (FIXTURES / name / "tokenizer.json", FIXTURES / name / "tokenizer.model") if f.exists()), None)
        yield name, cases, tokenizer, lambda cases=cases: requests_of_cases(cases)
    for name, path in REFERENCE.items():
        yield "reference_" + name, DATA / path, DATA / path, lambda name=name: requests_of_reference(name)


def main():
    failed = False
    for name, needed, tokenizer, make_requests in tests():
        if not needed.exists():
            print("skip tokenizer_%s: no data (%s)" % (name, needed))
            continue
        requests = make_requests()
        try:
            with tempfile.TemporaryDirectory(prefix="tblock-test-") as folder:
                compare(tokenizer, requests, pathlib.Path(folder))
            print("ok tokenizer_%s (%d answers)" % (name, len(requests)))
        except Failure as why:
            skip = name in NOT_YET and "convert.py: " in str(why)
            failed |= not skip
            print("%s tokenizer_%s: %s" % ("skip" if skip else "FAIL", name, str(why).replace("\n", " ")))
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
