#!/usr/bin/env python3
"""Record the vectors of receipts in tests/data/receipts: honest ones, as `tblock run` writes them, and forged ones, with the verdict
that each must have.

    record_receipts.py      writes index.json and NAME.json; $TBLOCK is the program

The forger knows the format, runs the model himself (`tblock logits`), and computes again every hash that helps him: FORGED says what
he changes, and which hashes are then made to fit."""
import copy
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from receipt_models import OUT, make_models  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
# How to make each model, from what is in the tree.
MODELS = {"f32": ["quantize", "tests/data/models/llama-gqa", "--type", "f32"], "bf16": ["convert", "tests/data/models/llama3-e2e"],
          "q8": ["quantize", "tests/data/models/llama3-e2e", "--type", "q8"], "shipped": ["quantize", "models/shakespeare.bin", "--type", "bf16"]}
PROMPT = ["--ids", "46,66,71"]
# name: model, options of `run`
HONEST = {
    "f32": ("f32", PROMPT + ["-n", 70, "--seed", 5, "--temp", 1.5]),
    "bf16": ("bf16", PROMPT + ["-n", 70, "--seed", 7, "--temp", 2, "--receipt-every", 64]),
    "q8": ("q8", PROMPT + ["-n", 70, "--seed", 7, "--temp", 2]),
    "shipped": ("shipped", ["--prompt", "ROMEO:", "-n", 24]),
    "greedy": ("q8", PROMPT + ["-n", 12, "--temp", 0]),
    "one-token": ("bf16", PROMPT + ["-n", 1, "--receipt-every", 1]),
    "options": ("bf16", PROMPT + ["-n", 30, "--seed", 2**64 - 1, "--temp", 3.3, "--top-k", 0, "--top-p", 0.9, "--min-p", 0.001, "--repeat-penalty", 1.3,
                                  "--presence-penalty", 0.4, "--frequency-penalty", 0.2, "--logit-bias", "10=-3.5", "--logit-bias", "58=2.25"]),
    "nothing": ("bf16", PROMPT + ["-n", 0]),
}


def set_to(*path, value):
    def change(r):
        for key in path[:-1]:
            r = r[key]
        r[path[-1]] = value
    return change


def other_token(at):
    def change(r):
        r["drawn"][at] = (r["drawn"][at] + 1) % 500
    return change


def cut(n):
    def change(r):
        del r["drawn"][n:], r["links"][n // 64:], r["blocks"][-(-n // 64):]
    return change


def swap_blocks(r):
    r["blocks"].reverse()


def repeat_block(r):
    r["drawn"] += r["drawn"][:40]
    r["blocks"][1] = r["blocks"][0]


def respell(r):
    for key in reversed(list(r)):
        r[key] = r.pop(key)
    r["sampling"].update(temp=2.0000000001, seed="007")


ZERO = "00" * 32
# name: (base, what is changed, hashes that are made to fit, verdict, the model whose logits he takes, what the lie is)
FORGED = {
    "respelled": ("bf16", respell, "", "holds", None, "another order, blanks, and numbers with more digits than a float has"),
    "chat-made-up": ("bf16", set_to("chat", value={"sha256": ZERO, "date": 'the "30th" of May'}), "begin chain root", "holds", "bf16",
                     "a chat template's hash is a claim"),
    "cut-at-a-block": ("bf16", cut(64), "text root", "holds", None, "the first block alone is what the model drew"),
    "model-hash": ("bf16", set_to("run", "model_sha256", value=ZERO), "begin chain root", "other", "bf16", ""),
    "tokenizer-hash": ("bf16", set_to("run", "tokenizer_sha256", value=ZERO), "begin", "other", None, ""),
    "no-tokenizer": ("bf16", set_to("run", "tokenizer_sha256", value="none"), "begin", "other", None, ""),
    "kv-type": ("q8", set_to("run", "kv_type", value="f32"), "begin", "other", None, "he computed with a more exact cache than the default"),
    "seed": ("bf16", set_to("sampling", "seed", value="8"), "", "changed", None, ""),
    "leaf": ("bf16", set_to("blocks", 0, value=ZERO), "", "changed", None, ""),
    "root": ("bf16", set_to("root", value=ZERO), "", "changed", None, ""),
    "text-hash": ("bf16", set_to("text_sha256", value=ZERO), "", "text", None, "the text that he shows is another"),
    "text-of-other-ids": ("bf16", other_token(9), "", "text", None, "one token is another, and the text is still that of the drawn ones"),
    "nicer-token": ("bf16", other_token(40), "text chain root", "token", "bf16", "true logits, but he chose a token"),
    "nicer-last-token": ("q8", other_token(69), "text chain root", "token", "q8", "the same at the end"),
    "seed-of-a-nicer-text": ("f32", set_to("sampling", "seed", value="6"), "begin chain root", "token", "f32", ""),
    "a-bias-left-out": ("options", set_to("sampling", "bias", value=[]), "begin chain root", "token", "bf16", ""),
    "token": ("bf16", other_token(40), "text", "logits", None, "one token, with the old hashes of logits"),
    "link": ("bf16", set_to("links", 0, value=ZERO), "", "logits", None, ""),
    "leaf-and-root": ("bf16", set_to("blocks", 1, value=ZERO), "root", "logits", None, ""),
    "swapped-blocks": ("bf16", swap_blocks, "root", "logits", None, "both leaves are true, but of the other place"),
    "repeated-block": ("bf16", repeat_block, "text root", "logits", None, "the leaf of one place at another"),
    "cut-in-a-block": ("bf16", cut(63), "text root", "logits", None, ""),
    "prompt": ("bf16", set_to("prompt", 1, value=67), "begin root", "logits", None, "tokens of another question"),
    "smaller-model": ("bf16", set_to("run", "loaded_as", value="stored"), "chain root", "logits", "q8", "computed in q8, and said to be in bf16"),
    "no-such-id": ("bf16", other_token(9), "text chain root id", "failed", "bf16", ""),
    "no-such-option": ("bf16", set_to("sampling", "top_p", value=1.5), "begin", "failed", None, ""),
    "one-more-field": ("one-token", set_to("note", value="true"), "", "refused", None, ""),
}


def tblock(*args):
    subprocess.run([TBLOCK, *map(str, args)], check=True, stdout=subprocess.DEVNULL)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def tensors(path):
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return {name: data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
            for name, t in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def text(model, ids):
    t = tensors(model)
    at = struct.unpack("<%dI" % (len(t["tok.offsets"]) // 4), t["tok.offsets"])
    return b"".join(t["tok.bytes"][at[i]:at[i + 1]] for i in ids if i + 1 < len(at))


def head(receipt):
    before = {key: receipt[key] for key in list(receipt)[:list(receipt).index("begin")]}
    return json.dumps(before, separators=(",", ":"))[:-1].encode()


def chain(r, model, folder):
    """Links and leaves of the logits that this model gives."""
    ids, given = r["prompt"] + r["drawn"], len(r["prompt"])
    tblock("logits", model, "--ids", ",".join(map(str, ids)), "-o", folder / "logits", "--quiet")
    logits, links, leaves, link = tensors(folder / "logits")["logits"], [], [], b""
    row = len(logits) // len(ids)
    for i, token in enumerate(r["drawn"], 1):
        if i % 64 == 1:
            link = sha256(b"\2", bytes.fromhex(r["begin"]), struct.pack("<Q", given + i - 1))
        link = sha256(link, struct.pack("<i", token), logits[row * (given + i - 2):row * (given + i - 1)])
        links += [link.hex()] if r["every"] and i % r["every"] == 0 else []
        leaves += [sha256(b"\0", link).hex()] if i % 64 == 0 or i == len(r["drawn"]) else []
    return links, leaves


def root(leaves):
    """Of at most two."""
    return sha256(b"\1", *map(bytes.fromhex, leaves)).hex() if len(leaves) > 1 else leaves[0]


def forge(base, model, change, fits, logits, models, folder):
    r = copy.deepcopy(base)
    change(r)
    if "begin" in fits:
        r["begin"] = sha256(head(r)).hex()
    if "text" in fits:
        r["text_sha256"] = sha256(text(models[model], r["drawn"])).hex()
    if "chain" in fits:
        r["links"], r["blocks"] = chain(r, models[logits], folder)
    if "id" in fits:
        r["drawn"][9] = 600
        r["text_sha256"] = sha256(text(models[model], r["drawn"])).hex()
    if "root" in fits:
        r["root"] = root(r["blocks"])
    return r


def main():
    OUT.mkdir(exist_ok=True)
    vectors, kept = [], {}

    def keep(name, model, verdict, what, written):
        (OUT / (name + ".json")).write_text(written + "\n")
        vectors.append({"file": name + ".json", "model": model, "verdict": verdict, **({"what": what} if what else {})})
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        models = make_models(TBLOCK, MODELS, folder)
        for name, (model, options) in HONEST.items():
            tblock("run", models[model], *options, "--quiet", "--receipt", folder / "receipt.json")
            written = (folder / "receipt.json").read_text().strip()
            kept[name] = model, json.loads(written)
            keep("honest-" + name, model, "nothing" if name == "nothing" else "holds", "", written)
        for name, (base, change, fits, verdict, logits, what) in FORGED.items():
            model, receipt = kept[base]
            forged = forge(receipt, model, change, fits, logits, models, folder)
            keep("forged-" + name, model, verdict, what, json.dumps(forged, **({"indent": 0} if name == "respelled" else {"separators": (",", ":")})))
    rows = ",\n".join("  " + json.dumps(v) for v in vectors)
    (OUT / "index.json").write_text('{"models": %s,\n "vectors": [\n%s\n]}\n' % (json.dumps(MODELS), rows))


if __name__ == "__main__":
    main()
