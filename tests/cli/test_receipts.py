#!/usr/bin/env python3
"""Receipts (docs/receipts.md): `run --receipt` writes them, `verify` computes them again. Their chain and beginning are
computed here a second time, from goldens of `tblock logits`. $TBLOCK is the program."""
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import Skip, attempt_all, need, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
MODEL = str(ROOT / "models/shakespeare.bin")
OLD = ROOT / "tests/data/receipts/version1.json"
OLD_RULES = ROOT / "tests/data/receipts/rules1.json"
TEMP = None
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "old": {"type": "boolean"}},
          "required": ["name", "old"], "additionalProperties": False}


def tblock(*args, status=0, text=None):
    done = subprocess.run([TBLOCK, *map(str, args)], input=text, capture_output=True, encoding="utf-8", check=False)
    need(done.returncode == status, "%s: status %d, expected %d: %s" % (" ".join(map(str, args)), done.returncode, status, done.stderr))
    return done


def made(name, *options, model=MODEL, n=24, prompt=("--prompt", "ROMEO:")):
    """The path of a new receipt."""
    path = TEMP / (name + ".json")
    tblock("run", model, *prompt, "-n", n, "--quiet", "--receipt", path, *options)
    return path


def golden(name):
    path = TEMP / (name + ".safetensors")
    tblock("logits", MODEL, "--prompt", "ROMEO:", "--quiet", "-o", path)
    return path


def verdict(*paths, model=MODEL, options=(), status=None):
    """What verify says of each, as JSON."""
    done = subprocess.run([TBLOCK, "verify", model, *map(str, paths), "--json", "--quiet", *options], capture_output=True, encoding="utf-8", check=False)
    need(done.stdout, done.stderr)
    answer = json.loads(done.stdout)
    bad = {r["verdict"] for r in answer["receipts"]} - {"holds"}
    need(done.returncode == (0 if answer["ok"] else 5 if bad == {"failed"} else 1), "status %d" % done.returncode)
    need(answer["ok"] == all(r["verdict"] == "holds" for r in answer["receipts"]), "ok")
    return answer["receipts"]


def changed(path, change, name="changed"):
    receipt = json.loads(path.read_text())
    change(receipt)
    out = TEMP / (name + ".json")
    out.write_text(json.dumps(receipt))
    return out


def head(receipt):
    """The text that the chain begins with: all before "begin", as tblock writes it."""
    before = {key: receipt[key] for key in list(receipt)[:list(receipt).index("begin")]}
    return json.dumps(before, separators=(",", ":")).rstrip("}").encode() + (b"}" if receipt["constraint"] else b"")


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def tree(leaves):
    """The root as RFC 9162, 2.1.1, defines it, from the top down."""
    if len(leaves) == 1:
        return leaves[0]
    cut = 1 << ((len(leaves) - 1).bit_length() - 1)
    return sha(b"\1", tree(leaves[:cut]), tree(leaves[cut:]))


def text_hash(ids):
    """Of the shipped model's tokenizer, in which each id has its own bytes; an id that it lacks adds none."""
    done = subprocess.run([TBLOCK, "tokenize", MODEL, "--ids", ",".join(str(i) for i in ids if i < 1024)], capture_output=True, check=True)
    return sha(done.stdout).hex()


def sealed(receipt):
    """A forger computes again all that needs no model."""
    receipt["begin"] = sha(head(receipt)).hex()
    receipt["text_sha256"] = text_hash(receipt["drawn"])
    receipt["root"] = tree([bytes.fromhex(b) for b in receipt["blocks"]]).hex()


def options_table():
    schema = TEMP / "name.schema"
    schema.write_text(json.dumps(SCHEMA))
    grammar = TEMP / "list.gbnf"
    grammar.write_text('root ::= "[" [a-z]+ ("," [a-z]+)* "]"\n')
    return {
        "greedy": ["--temp", 0], "plain": ["--temp", 1, "--top-k", 0, "--top-p", 1], "top-k": ["--top-k", 5, "--top-p", 1],
        "top-p": ["--top-k", 0, "--top-p", 0.7], "min-p": ["--min-p", 0.05, "--top-k", 0, "--top-p", 1],
        "penalties": ["--repeat-penalty", 1.3, "--presence-penalty", 0.4, "--frequency-penalty", 0.2],
        "bias": ["--logit-bias", "10=-3.5", "--logit-bias", "58=2"], "seed": ["--seed", 2**64 - 1],
        "regex": ["--regex", "[A-Z][a-z]{3,9} [0-9]{4}"], "grammar": ["--grammar", grammar],
        "schema": ["--json-schema", schema], "any-order": ["--json-schema", schema, "--any-order", "--temp", 0.5], "object": ["--json-object"],
        "draft": ["--draft", "ngram", "--temp", 0],
        "min-tokens": ["--min-tokens", 9], "min-tokens-regex": ["--min-tokens", 9, "--regex", "[a-z ]+"],
        "bits": ["--math", "f32", "--kv-type", "q8"],
    }


# ---- What holds ----

def holds_with_every_option():
    paths = {name: made(name, *options) for name, options in options_table().items()}
    bits = paths.pop("bits")
    rows = verdict(*paths.values())
    for name, row in zip(paths, rows):
        need(row["verdict"] == "holds" and row["drawn"] == len(json.loads(paths[name].read_text())["drawn"]), "%s: %s" % (name, row))
    need(verdict(bits, options=["--kv-type", "q8"])[0]["verdict"] == "holds", "q8")
    for name in ("regex", "schema"):
        need(verdict(paths[name])[0]["verdict"] == "holds", name)


def min_tokens_count_only_where_they_are():
    """An absent key is 0; a receipt with the key has the end tokens that were masked, and no other number passes for it."""
    plain, least = made("plain"), made("least", "--min-tokens", 9)
    a, b = json.loads(plain.read_text()), json.loads(least.read_text())
    need("min_tokens" not in a["sampling"] and a["constraint"] is None, str(a["sampling"]))
    need(b["sampling"]["min_tokens"] == 9 and b["constraint"] == {"kind": "none", "text": "", "stop_ids": []} and b["drawn"] == a["drawn"], str(b["constraint"]))
    for change in (lambda r: r["sampling"].update(min_tokens=8), lambda r: r["sampling"].pop("min_tokens"), lambda r: r["constraint"]["stop_ids"].append(3)):
        need(verdict(changed(least, change))[0]["verdict"] == "changed", "another number or token")
    need(verdict(changed(plain, lambda r: r["sampling"].update(min_tokens=0)))[0]["verdict"] == "holds", "0 is absent")
    same = json.loads(tblock("run", MODEL, "--prompt", "ROMEO:", "-n", 60, "--json", "--stop", "I").stdout)
    late = json.loads(tblock("run", MODEL, "--prompt", "ROMEO:", "-n", 60, "--json", "--stop", "I", "--min-tokens", 30).stdout)
    need(same["stop_reason"] == "stop" and late["text"].startswith(same["text"] + "I"), "a stop text: %s, %s" % (same["text"], late["text"]))


def the_same_bytes_everywhere():
    for name, options in (("draft", ["--temp", 0]), ("schema", options_table()["schema"])):
        want = made(name, *options, "--receipt-every", 5).read_bytes()
        for other in (["--threads", 1], ["--threads", 3], ["--isa", "scalar"], ["--isa", "avx2"], ["--draft", "ngram"], ["--draft", MODEL]):
            if "avx2" in other and subprocess.run([TBLOCK, "run", MODEL, "--ids", "1", "-n", "0", *other], capture_output=True, check=False).returncode:
                continue
            need(made("other", *options, "--receipt-every", 5, *other).read_bytes() == want, "%s with %s" % (name, other))


def verify_runs_anywhere():
    path = made("here", "--receipt-every", 4, n=40)
    for options in (["--threads", "1"], ["--threads", "3"], ["--isa", "scalar"], ["--sandbox"]):
        done = subprocess.run([TBLOCK, "verify", MODEL, str(path), *options], capture_output=True, encoding="utf-8", check=False)
        if ("sandbox" in done.stderr and done.returncode == 4) or "ThreadSanitizer: CHECK" in done.stderr:
            continue  # no sandbox here, or one that keeps TSan from reading /proc/self/maps
        need(done.returncode == 0 and "every token and every bit" in done.stdout, str(options) + done.stderr)
    need(tblock("verify", MODEL, "-", text=path.read_text()).stdout.endswith("1 of 1 receipts hold; data checked\n"), "standard input")


def a_state_goes_on_with_a_receipt():
    tblock("run", MODEL, "--prompt", "JULIET:", "-n", 5, "-q", "--save-state", TEMP / "a.state")
    path = made("state", "--load-state", TEMP / "a.state", prompt=("--prompt", "\nROMEO:"))
    need(verdict(path)[0]["verdict"] == "holds", "verdict")


def the_chain_is_what_the_page_says():
    for name, n, options in (("sampled", 24, ["--logit-bias", "5=0.1"]), ("sampled", 200, []), ("sampled", 128, []), ("schema", 24, options_table()["schema"])):
        receipt = json.loads(made(name, *options, "--receipt-every", 3, n=n).read_text())
        ids = receipt["prompt"] + receipt["drawn"]
        golden = TEMP / "golden.safetensors"
        tblock("logits", MODEL, "--ids", ",".join(map(str, ids)), "-o", golden)
        data = golden.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        tensor = json.loads(data[8:8 + size])["logits"]
        start, vocab = 8 + size + tensor["data_offsets"][0], tensor["shape"][1]
        begin, leaves = sha(head(receipt)), []
        need(begin.hex() == receipt["begin"], "begin")
        for i, token in enumerate(receipt["drawn"]):
            index = len(receipt["prompt"]) + i
            row = start + (index - 1) * 4 * vocab
            link = sha(b"\2", begin, struct.pack("<Q", index)) if i % 64 == 0 else link
            link = sha(link, struct.pack("<i", token), data[row:row + 4 * vocab])
            leaves[i // 64:] = [sha(b"\0", link)]
            if (i + 1) % 3 == 0:
                need(link.hex() == receipt["links"][i // 3], "link %d" % i)
        need([leaf.hex() for leaf in leaves] == receipt["blocks"] and len(leaves) == (-(-n // 64) if name == "sampled" else 1), "blocks")
        need(tree(leaves).hex() == receipt["root"], "root")
        need(text_hash(receipt["drawn"]) == receipt["text_sha256"], "text")


def any_json_writer_keeps_it():
    path = made("pretty", "--logit-bias", "7=1.5")
    receipt = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(list(receipt.items()))), indent=2))
    need(verdict(path)[0]["verdict"] == "holds", "indented, in another order")


# ---- What does not ----

def each_field_changed_is_named():
    path = made("whole", "--receipt-every", 4, "--logit-bias", "7=1.5", "--regex", "[a-z ]{60}")
    digits = "ab" * 32
    other = {"numerics": "9", "model_sha256": digits, "config_sha256": digits, "math": "bf16", "weight_types": "q4", "activations": "8",
             "kv_type": "q8", "loaded_as": "q4", "model_layout": digits, "tokenizer_sha256": digits}
    need(list(json.loads(path.read_text())["run"]) == list(other), "a fact without a test")
    for key, value in other.items():
        row = verdict(changed(path, lambda r, k=key, v=value: r["run"].update({k: v})))[0]
        need(row["verdict"] == "other" and row["why"].startswith(key + " " + value[:12]), "%s: %s" % (key, row))
    sampling = {"temp": 0.5, "top_k": 3, "top_p": 0.5, "min_p": 0.1, "repeat_penalty": 1.5, "presence_penalty": 1, "frequency_penalty": 1,
                "seed": "1", "bias": []}
    need(list(json.loads(path.read_text())["sampling"]) == list(sampling), "an option without a test")
    changes = [lambda r, k=key, v=value: r["sampling"].update({k: v}) for key, value in sampling.items()]
    changes += [lambda r: r["prompt"].append(3), lambda r: r["constraint"].update(kind="grammar"), lambda r: r["constraint"].update(text="[a-z ]{9}"),
                lambda r: r["constraint"].update(stop_ids=[4]), lambda r: r.update(constraint=None), lambda r: r.update(begin=digits),
                lambda r: r.update(chat={"sha256": digits, "date": None})]
    for i, change in enumerate(changes):
        row = verdict(changed(path, change))[0]
        need(row["verdict"] == "changed" and "before it" in row["why"], "change %d: %s" % (i, row))


def a_changed_token_or_link_is_found():
    path = made("found", "--receipt-every", 4, n=22)
    first = len(json.loads(path.read_text())["prompt"])

    def token(r):
        r["drawn"][9] = (r["drawn"][9] + 1) % 1000
    row = verdict(changed(path, token))[0]
    need((row["verdict"], row["why"]) == ("text", "text_sha256: it is not of the text of the sampled ids"), str(row))

    def forged(r):
        token(r), sealed(r)
    row = verdict(changed(path, forged))[0]
    need((row["verdict"], row["position"], row["first"], row["last"]) == ("logits", first + 9, first + 8, first + 11), str(row))
    need("position %d: token" % (first + 9) in row["why"] and "positions %d to %d" % (first + 8, first + 11) in row["why"], row["why"])
    row = verdict(changed(path, lambda r: r["links"].__setitem__(2, "00" * 32)))[0]
    need((row["verdict"], row["first"], row["last"]) == ("logits", first + 8, first + 11) and "position" not in row, str(row))
    row = verdict(changed(path, lambda r: r.update(root="00" * 32)))[0]
    need((row["verdict"], row["why"]) == ("changed", "root: it is not of the blocks"), str(row))

    def leaf(r):
        r["blocks"][0] = "00" * 32
        sealed(r)
    row = verdict(changed(path, leaf))[0]
    need((row["verdict"], row["first"], row["last"]) == ("logits", first + 20, first + 21), str(row))

    def cut(r):
        del r["drawn"][10:], r["links"][2:]
        sealed(r)
    row = verdict(changed(path, cut))[0]
    need((row["verdict"], row["first"], row["last"]) == ("logits", first + 8, first + 9), str(row))
    row = verdict(changed(made("empty", "-n", 0), lambda r: r.update(root="00" * 32)))[0]
    need(row["verdict"] == "changed", str(row))


def blocks_cannot_change_places():
    path = made("places", n=150)

    def swapped(r):
        r["blocks"][:2] = r["blocks"][1::-1]
        r["drawn"][:128] = r["drawn"][64:128] + r["drawn"][:64]
        sealed(r)
    row = verdict(changed(path, swapped))[0]
    need(row["verdict"] == "logits" and row["first"] == 2, str(row))

    def short(r):
        del r["drawn"][64:], r["blocks"][1:]
        sealed(r)
    need(verdict(changed(path, short))[0]["verdict"] == "holds", "the first block is a receipt of its own")


def one_block_is_computed_alone():
    for options in ([], ["--regex", "([A-Za-z]+[ .,;:])+", "--repeat-penalty", "1.2"]):
        path = made("alone", *options, n=150)
        first = len(json.loads(path.read_text())["prompt"])

        def forged(r):
            r["drawn"][70] = 32
            sealed(r)
        bad = changed(path, forged)
        for block, want in ((0, "holds"), (1, "logits"), (2, "logits")):
            row, lied = verdict(path, bad, options=["--block", str(block)])
            need((row["verdict"], lied["verdict"]) == ("holds", want), "%d: %s %s" % (block, row, lied))
        need(verdict(bad, options=["--block", "1"])[0]["first"] == first + 64, "where the block begins")
    row = verdict(path, options=["--block", "3"])[0]
    need((row["verdict"], row["why"]) == ("failed", "block 3: expected 0 to 2"), str(row))
    need("only block 1 was computed" in tblock("verify", MODEL, path, "--block", 1).stdout, "which")


def two_are_bisected():
    path = made("mine", n=150)

    def forged(r):
        r["drawn"][70] = 32
        sealed(r)

    def logits(r):
        r["blocks"][2] = "00" * 32
        sealed(r)
    ids = changed(path, forged, "ids")
    for other, block, token in ((ids, 1, 72), (changed(path, logits, "logits"), 2, None)):
        done = tblock("verify", MODEL, path, other, "--bisect", "--json", status=1)
        answer = json.loads(done.stdout)
        need([r["verdict"] for r in answer["receipts"]] == ["holds", "logits"], done.stdout)
        need((answer["block"], answer["bisect"]["first"], answer["bisect"].get("token")) == (block, 2 + 64 * block, token), done.stdout)
    done = tblock("verify", MODEL, ids, path, "--bisect", status=1)
    need("the first block that differs is 1, positions 66 to 129; only it was computed\n1 of 2" in done.stdout, done.stdout)
    done = tblock("verify", MODEL, path, path, "--bisect")
    need("no block differs\n2 of 2 receipts hold" in done.stdout, done.stdout)
    short = made("short", n=128)
    answer = json.loads(tblock("verify", MODEL, path, short, "--bisect", "--json", status=5).stdout)
    need((answer["block"], answer["receipts"][1]["why"]) == (2, "block 2: expected 0 to 1"), str(answer))
    for other, field in ((made("seed", "--seed", 5), "sampling"), (made("prompt", prompt=("--prompt", "JULIET:")), "prompt"),
                         (made("fit", "--regex", "[a-z]+"), "constraint"), (made("kv", "--kv-type", "q8"), "run"), (OLD, "receipt")):
        need(": %s: expected that of" % field in tblock("verify", MODEL, path, other, "--bisect", status=3).stderr, field)
    for args in ([path, "--bisect"], [path, path, path, "--bisect"], [path, path, "--bisect", "--block", 0]):
        need("--bisect: expected two receipts" in tblock("verify", MODEL, *args, status=2).stderr, str(args))


def version_1_is_still_read():
    """OLD was written by tblock 0.1 of 2026-11 (--prompt ROMEO: -n 70 --seed 7 --receipt-every 32); it says nothing of the tokenizer."""
    row = verdict(OLD)[0]
    need((row["verdict"], row["version"], row["drawn"]) == ("holds", 1, 70), str(row))
    need("every token and every bit (version 1)" in tblock("verify", MODEL, OLD).stdout, "which version")
    row = verdict(changed(OLD, lambda r: r.update(end="00" * 32)))[0]
    need((row["verdict"], row["first"], row["last"]) == ("logits", 66, 71), str(row))
    row = verdict(changed(OLD, lambda r: r["drawn"].__setitem__(40, 3)))[0]
    need((row["verdict"], row["position"], row["first"]) == ("logits", 42, 34), str(row))


def older_rules_of_schemas_are_no_lie():
    """OLD_RULES was written before integers had one spelling (--prompt 'Give me a number: ' -n 24 --seed 1 --temp 1.6 --top-k 0 --top-p 1
    and the schema of an integer): it spelled 677 as 677.00..., which its logits gave then."""
    row = verdict(OLD_RULES)[0]
    need((row["verdict"], row["position"]) == ("other", 12) and "by rules 2 of JSON Schema; it was made by rules 1" in row["why"], str(row))
    row = verdict(changed(OLD_RULES, lambda r: r["constraint"].__setitem__("kind", "grammar")))[0]
    need(row["verdict"] == "changed", str(row))
    now = made("schema", "--json-schema", json.dumps(SCHEMA), n=40)
    need(json.loads(now.read_text())["constraint"]["rules"] == 2, now.read_text())
    need(verdict(now)[0]["verdict"] == "holds", "a schema of today")
    need("rules" not in json.loads(made("pattern", "--regex", "[a-z]+").read_text())["constraint"], "a pattern has no rules")
    for rules in (0, 1, 3, "2"):
        bad = changed(now, lambda r: r["constraint"].__setitem__("rules", rules))
        need("constraint.rules: expected" in tblock("verify", MODEL, bad, status=3).stderr, str(rules))


def nothing_sampled_proves_nothing():
    row = verdict(made("nothing", "-n", 0))[0]
    need((row["verdict"], row["drawn"]) == ("nothing", 0) and "no token was sampled" in row["why"], str(row))


def lies_about_options_are_found():
    """Whoever changes a field and computes the beginning anew has a chain that does not follow from it."""
    path = made("lie", "--temp", "1", n=30)

    def lie(r):
        r["sampling"]["seed"] = "1"
        sealed(r)
    row = verdict(changed(path, lie))[0]
    need(row["verdict"] == "logits" and row["position"] >= 0, str(row))


def other_settings_are_named_first():
    path = made("settings")
    row = verdict(path, options=["--kv-type", "q8"])[0]
    need(row["verdict"] == "other" and row["why"] == "kv_type f32 (here q8)", str(row))
    row = verdict(path, options=["--type", "q4"])[0]
    need(row["verdict"] == "other" and "loaded_as stored (here q4" in row["why"] and "weight_types bf16 (here q4" in row["why"], str(row))
    config = TEMP / "config.json"
    config.write_text('{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 64}')
    tblock("synth", config, "-o", TEMP / "synth.bin")
    row = verdict(path, model=TEMP / "synth.bin")[0]
    need(row["verdict"] == "other" and row["why"].startswith("model_sha256 "), str(row))


def what_cannot_be_computed_says_so():
    path = made("long", n=24)
    row = verdict(path, options=["--ctx", "8"])[0]
    need(row["verdict"] == "failed" and "do not fit into the context of 8" in row["why"], str(row))

    def bad(r):
        r["drawn"][3] = 2**31 - 1
        sealed(r)
    row = verdict(changed(path, bad))[0]
    need(row["verdict"] == "failed" and "expected 0 to" in row["why"], str(row))


def what_cannot_be_computed_is_not_checked_and_never_failed():
    short, path = made("short-one", n=4), made("long-one", n=24)
    xml = TEMP / "unchecked.xml"
    done = tblock("verify", MODEL, short, path, "--ctx", 8, "--junit", xml, status=5)
    need("1 of 2 receipts hold, 1 not checked;" in done.stdout and "  not checked\n" in done.stdout, done.stdout)
    need(": not checked: 26 tokens do not fit into the context of 8" in done.stderr, done.stderr)
    need("failed" not in done.stdout + done.stderr, done.stdout)
    need('message="not checked: 26 tokens' in xml.read_text(), xml.read_text())
    lie = changed(short, lambda r: r["sampling"].update(seed="9"))
    done = tblock("verify", MODEL, path, lie, "--ctx", 8, status=1)
    need("changed.json: begin: " in done.stderr, "what is wrong comes before what is not checked: " + done.stderr)


def records_bring_their_own_context_length():
    """The model's own is 256; each of these is longer."""
    wide = ["--ctx", 1000, "--seed", 1]
    path, state, golden_file = made("wide", *wide, n=300), TEMP / "wide.state", TEMP / "wide.safetensors"
    need(verdict(path)[0]["verdict"] == "holds", "a receipt of 302 tokens")
    need([r["verdict"] for r in verdict(made("usual"), path)] == ["holds", "holds"], "beside a short one")
    ids = ",".join(map(str, json.loads(path.read_text())["drawn"]))
    tblock("logits", MODEL, "--ids", ids, "--ctx", 1000, "--quiet", "-o", golden_file)
    need("1 of 1 sequences equal" in tblock("verify", MODEL, golden_file, "--exact").stdout, "a golden")
    need("expected 1 to 100 tokens" in tblock("verify", MODEL, golden_file, "--ctx", 100, status=3).stderr, "--ctx wins")
    tblock("run", MODEL, "--prompt", "ROMEO:", "-n", 300, *wide, "--save-state", state)
    on = ["--load-state", state, "--prompt", "JULIET:", "-n", 20, "--temp", 0, "--quiet"]
    need(tblock("run", MODEL, *on).stdout == tblock("run", MODEL, *on, "--ctx", 1000).stdout != "", "a state")
    need("but the context holds 100" in tblock("run", MODEL, *on, "--ctx", 100, status=2).stderr, "--ctx wins")


def receipts_bring_the_length_of_their_rotations():
    config, model = TEMP / "dynamic.json", TEMP / "dynamic.bin"
    config.write_text(json.dumps({"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 64,
                                  "rope": {"type": "dynamic", "factor": 4, "original_n_ctx": 64}}))
    tblock("synth", config, "-o", model, "--quiet")
    prompt = ("--ids", "1,2,3")
    paths = [made("rope%d" % i, *how, model=model, prompt=prompt, n=n)
             for i, (how, n) in enumerate(((["--ctx", 200], 150), ([], 20), (["--rope-length", 100], 20), (["--ctx", 200], 20)))]
    rows = verdict(*paths, model=model)
    need([r["verdict"] for r in rows] == ["holds"] * 4, str(rows))
    rows = verdict(*paths, model=model, options=["--rope-length", "100"])
    need([r["verdict"] for r in rows] == ["other", "other", "holds", "other"], str(rows))
    tblock("logits", model, "--ids", "1,2,3", "--ctx", 200, "--quiet", "-o", TEMP / "rope.safetensors")
    need(" equal " in tblock("verify", model, TEMP / "rope.safetensors", "--exact").stdout, "a golden")
    tblock("run", model, *prompt, "-n", 20, "--ctx", 200, "--quiet", "--save-state", TEMP / "rope.state")
    tblock("run", model, "--ids", "4", "-n", 3, "--quiet", "--load-state", TEMP / "rope.state")


def strangers_receipts_are_refused_by_name():
    path = made("stranger", "--receipt-every", 4, "--regex", "[a-z ]{60}")
    for change, words in (
            (lambda r: r.update(more=1), 'receipt: unknown field "more"'), (lambda r: r.pop("root"), 'expected the field "root"'),
            (lambda r: r.update(receipt=3), "receipt: expected an integer from 1 to 2, found 3"), (lambda r: r.update(receipt=1), 'receipt: unknown field "'),
            (lambda r: r["run"].pop("tokenizer_sha256"), 'expected the field "tokenizer_sha256"'), (lambda r: r["blocks"].append("00" * 32), "blocks: expected an array of 1 hashes"),
            (lambda r: r.update(text_sha256=1), "text_sha256: expected 64"), (lambda r: r["run"].update(path="/etc/passwd"), 'run: unknown field "path"'),
            (lambda r: r["run"].update(math=1), "math: expected a short text in ASCII"), (lambda r: r["run"].update(math="x" * 5000), "math: expected a short text"),
            (lambda r: r["run"].update(math="\x1b[2J"), "math: expected a short text"), (lambda r: r.update(prompt=[]), "prompt: expected an array of at least one id"),
            (lambda r: r.update(prompt=[-1]), "prompt: expected an integer from 0"), (lambda r: r.update(drawn=[1.5]), "drawn: expected an integer"),
            (lambda r: r.update(drawn="1"), "drawn: expected an array"), (lambda r: r.update(every=-1), "every: expected an integer"),
            (lambda r: r.update(links=[]), "links: expected an array of 6 links"), (lambda r: r["links"].__setitem__(0, "00"), "links: expected 64 lowercase"),
            (lambda r: r.update(root="AB" * 32), "root: expected 64 lowercase"), (lambda r: r["sampling"].update(seed="-1"), "sampling.seed: expected a text of decimal"),
            (lambda r: r["sampling"].update(seed=str(2**64)), "sampling.seed: expected"), (lambda r: r["sampling"].update(temp="0"), "sampling.temp: expected a number"),
            (lambda r: r["sampling"].update(temp=1e39), "sampling.temp: expected a number"), (lambda r: r["sampling"].update(top_k=-1), "sampling.top_k: expected"),
            (lambda r: r["sampling"].update(bias=[1]), "sampling.bias: expected pairs"), (lambda r: r["sampling"].update(bias={}), "sampling.bias: expected an array"),
            (lambda r: r["constraint"].update(kind="file"), "constraint.kind: expected regex"), (lambda r: r["constraint"].update(text=1), "constraint.text: expected a text"),
            (lambda r: r.update(chat={"sha256": "x", "date": None}), "chat.sha256: expected 64"), (lambda r: r.update(chat=1), "chat: expected an object"),
            (lambda r: r["sampling"].update(more=1), 'sampling: unknown field "more"')):
        done = tblock("verify", MODEL, changed(path, change), status=3)
        need(words in done.stderr and not done.stdout, "expected %r, found %r" % (words, done.stderr))
    for text, words in (("{", "expected"), ("[" * 100, "receipt"), ('{"receipt":1,"receipt":1}', "receipt")):
        (TEMP / "text.json").write_text(text)
        done = tblock("verify", MODEL, TEMP / "text.json", "-", status=3, text="{}")
        need(done.stderr.startswith("tblock: ") and words in done.stderr, done.stderr)
    (TEMP / "large.json").write_bytes(b"{" + b" " * (1 << 24) + b"}")
    need("large.json" in tblock("verify", MODEL, TEMP / "large.json", status=3).stderr, "a large one")


# ---- Many, and for machines ----

def many_are_one_batch():
    paths = [made("many%d" % i, "--seed", i, "--receipt-every", 7, n=5 + i) for i in range(20)]
    for i in (3, 11):
        paths[i] = changed(paths[i], lambda r: (r.update(blocks=["00" * 32]), sealed(r)), "bad%d" % i)
    rows = verdict(*paths)
    need([r["verdict"] for r in rows] == ["logits" if i in (3, 11) else "holds" for i in range(20)], str(rows))
    need([r["name"] for r in rows] == [str(p) for p in paths], "names")
    done = tblock("verify", MODEL, *paths, status=1)
    need("18 of 20 receipts hold" in done.stdout and "bad3.json: the tokens of positions" in done.stderr, done.stderr)


def junit_has_a_case_for_each():
    good, bad = made("good"), changed(made("good"), lambda r: (r.update(blocks=["00" * 32]), sealed(r)), "bad")
    tblock("verify", MODEL, good, bad, "--junit", TEMP / "j.xml", status=1)
    root = xml.etree.ElementTree.parse(TEMP / "j.xml").getroot()
    cases = root.findall("testsuite/testcase")
    need((root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "0"), str(root.attrib))
    need([c.get("name") for c in cases] == [str(good), str(bad)] and cases[0].find("failure") is None, "names")
    need("sampled from other logits" in cases[1].find("failure").get("message"), "message")
    (TEMP / "no.json").write_text("{}")
    tblock("verify", MODEL, TEMP / "no.json", "--junit", TEMP / "e.xml", status=3)
    need(xml.etree.ElementTree.parse(TEMP / "e.xml").getroot().get("errors") == "1", "errors")
    before = good.read_bytes()
    tblock("verify", MODEL, good, "--junit", good, status=2)
    need(good.read_bytes() == before, "a report over a receipt")


def usage_is_told():
    path = made("usage")
    for args, status, words in ((["--exact"], 2, "always exact"), (["--tol", "1"], 2, "always exact"), ([MODEL], 3, "expected a receipt beside others")):
        need(words in tblock("verify", MODEL, path, *args, status=status).stderr, words)
    for option in (["--bisect"], ["--block", 0]):
        need("expected receipts, found a golden" in tblock("verify", MODEL, golden("no"), *option, status=2).stderr, str(option))
    done = tblock("run", MODEL, "--prompt", "x", "-n", 1, "--receipt", TEMP / "x", "--trace", TEMP / "x", status=2)
    need("--trace and --receipt: expected two files" in done.stderr, done.stderr)
    need("--receipt" in tblock("run", MODEL, "--prompt", "x", "-n", 1, "--receipt", "/nowhere/x", status=4).stderr, "no folder")
    schema = options_table()["schema"]
    before = pathlib.Path(schema[1]).read_bytes()
    tblock("run", MODEL, "--prompt", "x", "-n", 1, "--receipt", schema[1], *schema, status=2)
    need(pathlib.Path(schema[1]).read_bytes() == before, "over the schema")
    copy = TEMP / "copy.bin"
    copy.write_bytes(pathlib.Path(MODEL).read_bytes())
    need(tblock("run", copy, "--prompt", "x", "-n", 1, "--receipt", copy, status=2).stderr, "over the model")


def the_model_s_hash_is_checked():
    copy = TEMP / "copy.bin"
    data = bytearray(pathlib.Path(MODEL).read_bytes())
    data[-200] ^= 1
    copy.write_bytes(data)
    done = tblock("run", copy, "--prompt", "ROMEO:", "-n", 8, "--receipt", TEMP / "h.json", status=3)
    need("sha256 of the data: expected" in done.stderr and not (TEMP / "h.json").exists(), done.stderr)
    tblock("run", copy, "--prompt", "ROMEO:", "-n", 8, "--receipt", TEMP / "h.json", "--trust-hash")
    need((TEMP / "h.json").exists(), "--trust-hash")
    for record in (made("honest"), golden("golden")):
        need("sha256 of the data: expected" in tblock("verify", copy, record, status=3).stderr, "%s: verify believes the file" % record.name)
        trusted = subprocess.run([TBLOCK, "verify", copy, record, "--trust-hash", "--json"], capture_output=True, encoding="utf-8", check=False)
        need(json.loads(trusted.stdout)["hash_checked"] is False, trusted.stdout)
        need(json.loads(tblock("verify", MODEL, record, "--json").stdout)["hash_checked"] is True, "hash_checked")
        need("; data not checked (--trust-hash)" in tblock("verify", MODEL, record, "--trust-hash").stdout, "the verdict says nothing")


def main():
    global TEMP
    claims = (holds_with_every_option, min_tokens_count_only_where_they_are, the_same_bytes_everywhere, verify_runs_anywhere, a_state_goes_on_with_a_receipt,
              the_chain_is_what_the_page_says, any_json_writer_keeps_it, each_field_changed_is_named, a_changed_token_or_link_is_found,
              blocks_cannot_change_places, one_block_is_computed_alone, two_are_bisected, version_1_is_still_read, older_rules_of_schemas_are_no_lie,
              nothing_sampled_proves_nothing, lies_about_options_are_found, other_settings_are_named_first, what_cannot_be_computed_says_so,
              what_cannot_be_computed_is_not_checked_and_never_failed, records_bring_their_own_context_length, receipts_bring_the_length_of_their_rotations,
              strangers_receipts_are_refused_by_name, many_are_one_batch, junit_has_a_case_for_each, usage_is_told,
              the_model_s_hash_is_checked)
    only = option_only(__doc__).parse_args().only
    with tempfile.TemporaryDirectory() as folder:
        TEMP = pathlib.Path(folder)
        sys.exit(attempt_all(*claims, only=only))


if __name__ == "__main__":
    main()
