#!/usr/bin/env python3
"""tools/verify_receipt.py, which shares no code with tblock, and `tblock verify` say the same of the receipts of tests/data/receipts, and of
what chance makes of them. $TBLOCK is the program."""
import copy
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]
import verify_receipt  # noqa: E402
from receipt_models import OUT, make_models  # noqa: E402
from verdicts import attempt_all, need, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
INDEX = json.loads((OUT / "index.json").read_text())
TEMP = MODELS = None


def run(*args):
    return subprocess.run(list(map(str, args)), capture_output=True, encoding="utf-8", check=False)


def first(model, paths, *options):
    """The verdicts of `tblock verify`."""
    done = run(TBLOCK, "verify", MODELS[model], *paths, "--json", "--quiet", *options)
    if done.returncode > 1:
        return "refused" if done.returncode == 3 else done.stderr
    rows = [row["verdict"] for row in json.loads(done.stdout)["receipts"]]
    need(done.returncode == (0 if set(rows) == {"holds"} else 1), "tblock verify: status %d" % done.returncode)
    return rows


def second(model, paths, *options):
    """The verdicts of tools/verify_receipt.py."""
    done = run(sys.executable, ROOT / "tools/verify_receipt.py", MODELS[model], *paths, *options)
    if done.returncode > 1:
        return "refused" if done.returncode == 3 else done.stderr
    rows = [line.split(": ")[1] for line in done.stdout.splitlines()]
    need(done.returncode == (0 if set(rows) == {"holds"} else 1), "verify_receipt.py: status %d %s" % (done.returncode, done.stderr))
    return rows


def vectors(model, refused=False):
    return [v for v in INDEX["vectors"] if v["model"] == model and (v["verdict"] == "refused") == refused]


def agree(model, paths, names, *options):
    """Both say the same; what they say."""
    one, two = first(model, paths, *options), second(model, paths, *options)
    need(one == two, "%s: tblock %s, verify_receipt.py %s" % (model, one, two) if isinstance(one, str) or isinstance(two, str) else
         "; ".join("%s: tblock %s, verify_receipt.py %s" % row for row in zip(names, one, two) if row[1] != row[2]))
    return one


def both_say_what_each_vector_must_have():
    need(len(INDEX["vectors"]) >= 20, "few vectors")
    need({p.name for p in OUT.glob("[fh]*.json")} == {v["file"] for v in INDEX["vectors"]}, "the index has other files")
    for model in MODELS:
        names = [v["file"] for v in vectors(model)]
        found = agree(model, [OUT / name for name in names], names)
        wrong = ["%s: expected %s, found %s" % (v["file"], v["verdict"], f) for v, f in zip(vectors(model), found) if v["verdict"] != f]
        need(not wrong, "; ".join(wrong))
        for vector in vectors(model, refused=True):
            need(agree(model, [OUT / vector["file"]], []) == "refused", vector["file"])


def both_say_the_same_of_one_block():
    names = [v["file"] for v in vectors("bf16")]
    for block in (0, 1):
        found = dict(zip(names, agree("bf16", [OUT / name for name in names], names, "--block", block)))
        need(found["honest-bf16.json"] == "holds" and found["forged-leaf-and-root.json"] == ("logits" if block else "holds"), str(found))
        need(found["honest-one-token.json"] == ("failed" if block else "holds"), str(found))


def leaves(value, path=()):
    """The paths of all values in JSON."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))
    else:
        yield path


def spoiled(receipt, path, chance):
    """With another value at this place, of the same kind."""
    r = copy.deepcopy(receipt)
    inner = r
    for key in path[:-1]:
        inner = inner[key]
    old = inner[path[-1]]
    if isinstance(old, str) and len(old) == 64:
        at = chance.randrange(64)
        old = old[:at] + ("1" if old[at] == "0" else "0") + old[at + 1:]
    elif isinstance(old, str):
        old = str(int(old) ^ 1) if old.isdigit() else old + "x"
    elif old is not None:
        old += 1 if path[0] != "sampling" or path[-1] in ("top_k", 0) else 0.125
    inner[path[-1]] = old
    return r


def both_say_the_same_of_each_value_that_is_spoiled():
    chance = random.Random(34)
    for name, model in (("honest-options.json", "bf16"), ("honest-one-token.json", "bf16")):
        receipt = json.loads((OUT / name).read_text())
        paths = [p for p in leaves(receipt) if p[0] not in ("receipt", "every", "prompt", "drawn") or (p[0] in ("prompt", "drawn") and p[1] % 9 == 0)]
        files = []
        for i, path in enumerate(paths):
            files.append(TEMP / ("spoiled%d.json" % i))
            files[-1].write_text(json.dumps(spoiled(receipt, path, chance)))
        found = agree(model, files, paths)
        holds = [path for path, verdict in zip(paths, found) if verdict == "holds"]
        need(holds == [("chat",), ("constraint",)], "%s: %s holds" % (name, holds))


def both_refuse_a_model_whose_data_are_others():
    data = bytearray(pathlib.Path(MODELS["bf16"]).read_bytes())
    data[-200000] ^= 1  # of a weight; the header with its hash stays
    MODELS["changed"] = str(TEMP / "changed.bin")
    pathlib.Path(MODELS["changed"]).write_bytes(data)
    need(agree("changed", [OUT / "honest-one-token.json"], []) == "refused", "a changed weight")
    need(agree("q8", [OUT / "honest-one-token.json"], ["q8"]) == ["other"], "another model")
    del MODELS["changed"]


def its_fma_is_rounded_once():
    """Where the sum as a double lies in the middle between two floats, and the exact one does not. No model is likely to meet this."""
    a, b = 1 + 2**-18, 1 - 2**-18  # a * b is 1 - 2^-36
    for factor, c, expected in ((2**-24, 1 + 2**-23, 1 + 2**-23), (-2**-24, 1 + 2**-23, 1 + 2**-23), (2**-24, 1, 1),
                                (2**-150, 2**-127 + 2**-149, 2**-127 + 2**-149)):
        for sign in (1, -1):
            x, y, z = (verify_receipt.f32(v) for v in (sign * a * factor * 2**75, b * 2**-75, sign * c))
            found = verify_receipt.fma(x, y, z)[0]
            need(found == sign * expected, "%g * %g + %r: expected %r, found %r" % (x, y, z, sign * expected, found))


def main():
    global TEMP, MODELS
    only = option_only(__doc__).parse_args().only
    with tempfile.TemporaryDirectory() as folder:
        TEMP = pathlib.Path(folder)
        MODELS = make_models(TBLOCK, INDEX["models"], TEMP)
        sys.exit(attempt_all(both_say_what_each_vector_must_have, both_say_the_same_of_one_block, both_say_the_same_of_each_value_that_is_spoiled,
                             both_refuse_a_model_whose_data_are_others, its_fma_is_rounded_once, only=only))


if __name__ == "__main__":
    main()
