#!/usr/bin/env python3
"""The hashes of the tokenizer and of the chat template (docs/format.md, "Hashes"), which receipts, states and goldens have.
Who lies: whoever hands over a model folder with the weights of the record and a tokenizer that makes other texts of its
ids. $TBLOCK is the program."""
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import attempt_all, need, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
TEMP = None


def tblock(*args, status=0):
    done = subprocess.run([TBLOCK, *map(str, args)], capture_output=True, encoding="utf-8", errors="replace", check=False)
    need(done.returncode == status, "%s: status %d, expected %d: %s" % (" ".join(map(str, args)), done.returncode, status, done.stderr))
    return done


def folder(name, vocab=False, template=None):
    """A folder with weights, a tokenizer and a template; vocab: two tokens have changed places."""
    path = TEMP / name
    shutil.copytree(ROOT / "tests/data/models/llama3-e2e", path)
    tokenizer = json.loads((path / "tokenizer.json").read_text())
    ids = tokenizer["model"]["vocab"]
    if vocab:
        ids["a"], ids["e"] = ids["e"], ids["a"]
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((path / "tokenizer_config.json").read_text())
    config["chat_template"] = template or "{{ messages[0].content }}"
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def hash_of(model):
    return json.loads(tblock("info", model, "--json").stdout)["tokenizer"]["sha256"]


def header(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), data, size


def info_prints_it():
    plain, swapped = folder("info"), folder("info-swapped", vocab=True)
    tblock("convert", plain, "-o", TEMP / "info.bin")
    need(hash_of(plain) == hash_of(TEMP / "info.bin") != hash_of(swapped), "of folder and model file")
    need("tokens, sha256 %.12s..." % hash_of(plain) in tblock("info", plain).stdout, "as text")
    need(hash_of(folder("info-chat", template="x")) == hash_of(plain), "the template is no part of it")


def it_is_what_the_page_says():
    tblock("convert", folder("page"), "-o", TEMP / "page.bin")
    head, data, size = header(TEMP / "page.bin")
    meta, sha, chat = head["__metadata__"], hashlib.sha256(), hashlib.sha256()
    for key in ("tokenizer", "special_tokens"):
        sha.update(key.encode() + b"\0" + meta[key].encode() + b"\0")
    for name, tensor in head.items():
        if name.startswith("tok."):
            first, end = tensor["data_offsets"]
            sha.update(name.encode() + b"\0" + struct.pack("<Q", end - first) + data[8 + size + first:8 + size + end])
    need(sha.hexdigest() == hash_of(TEMP / "page.bin"), "tokenizer")
    chat.update(b"chat_template\0" + meta["chat_template"].encode() + b"\0")
    tblock("run", TEMP / "page.bin", "--ids", "1,2", "-n", 1, "--save-state", TEMP / "page.state")
    need(header(TEMP / "page.state")[0]["__metadata__"]["chat_template_sha256"] == chat.hexdigest(), "chat template")


def a_receipt_of_another_tokenizer_is_other():
    plain = folder("receipt")
    tblock("run", plain, "--prompt", "the sea", "-n", 8, "-q", "--receipt", TEMP / "r.json")
    need("1 of 1 receipts hold" in tblock("verify", plain, TEMP / "r.json").stdout, "its own")
    done = tblock("verify", folder("receipt-swapped", vocab=True), TEMP / "r.json", status=1)
    need("tokenizer_sha256 %.12s (here" % hash_of(plain) in done.stderr, done.stderr)
    tblock("verify", folder("receipt-chat", template="x"), TEMP / "r.json")  # no template wrote its prompt
    # A text that is not the one of the ids.
    receipt = json.loads((TEMP / "r.json").read_text())
    receipt["text_sha256"] = hashlib.sha256(b"another text").hexdigest()
    (TEMP / "text.json").write_text(json.dumps(receipt))
    row = json.loads(tblock("verify", plain, TEMP / "text.json", "--json", status=1).stdout)["receipts"][0]
    need(row["verdict"] == "text", str(row))


def a_state_of_another_is_refused_by_name():
    plain = folder("state")
    tblock("run", plain, "--prompt", "the sea", "-n", 4, "-q", "--save-state", TEMP / "a.state")
    more = ("--load-state", TEMP / "a.state", "--prompt", " ", "-n", 2)
    tblock("run", plain, *more)
    for other, key in ((folder("state-swapped", vocab=True), "tokenizer_sha256"), (folder("state-chat", template="x"), "chat_template_sha256")):
        need("metadata %s: expected" % key in tblock("run", other, *more, status=3).stderr, key)
    # One of an older version says nothing of it.
    head, data, size = header(TEMP / "a.state")
    for key in ("tokenizer_sha256", "chat_template_sha256"):
        del head["__metadata__"][key]
    (TEMP / "a.state").write_bytes(data[:8] + json.dumps(head).encode().ljust(size) + data[8 + size:])
    tblock("run", plain, *more)
    tblock("run", TEMP / "state-swapped", *more)


def a_golden_names_it():
    plain = folder("golden")
    tblock("logits", plain, "--prompt", "the sea", "-o", TEMP / "g.safetensors")
    need("recorded with other settings" not in tblock("verify", plain, TEMP / "g.safetensors", "--exact").stderr, "its own")
    for other, key in ((folder("golden-swapped", vocab=True), "tokenizer_sha256"), (folder("golden-chat", template="x"), "chat_template_sha256")):
        done = tblock("verify", other, TEMP / "g.safetensors", "--exact", status=1)
        need(": %s: " % key.split("_")[key.startswith("chat")] in done.stderr and "; the logits are equal" in done.stderr, done.stderr)
        done = tblock("verify", other, TEMP / "g.safetensors", "--exact", "--logits-only")
        need("recorded with other settings: %s " % key in done.stderr, done.stderr)


def main():
    global TEMP
    claims = (info_prints_it, it_is_what_the_page_says, a_receipt_of_another_tokenizer_is_other, a_state_of_another_is_refused_by_name,
              a_golden_names_it)
    only = option_only(__doc__).parse_args().only
    with tempfile.TemporaryDirectory() as temp:
        TEMP = pathlib.Path(temp)
        sys.exit(attempt_all(*claims, only=only))


if __name__ == "__main__":
    main()
