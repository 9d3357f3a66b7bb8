#!/usr/bin/env python3
"""`tblock embed` (docs/embeddings.md): the vectors that docs/numerics.md defines, from the states that tblock logits writes, whatever
other texts there are; lines, JSON and numpy; what is wrong is named. $TBLOCK is the program."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from pooled import pooled  # noqa: E402
from testdata import FIXTURES  # noqa: E402
from verdicts import Skip, attempt_all, need  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
MODEL = str(ROOT / "models/shakespeare.bin")
TEXTS = ["ROMEO:", "First Citizen: Before we proceed any further, hear me speak.", "A", " ", "żółć \U0001f600",
         "To be, or not to be, that is the question: " * 4, "First Citizen: Before we go"]
TEMP = None


def tblock(*args, status=0, text=None):
    done = subprocess.run([TBLOCK, *map(str, args)], input=text, capture_output=True, encoding="utf-8", check=False)
    need(done.returncode == status, "%s: status %d, expected %d: %s" % (" ".join(map(str, args)), done.returncode, status, done.stderr))
    return done


def vectors(*args, model=MODEL, **how):
    lines = [json.loads(line) for line in tblock("embed", model, *args, **how).stdout.splitlines()]
    need([line["index"] for line in lines] == list(range(len(lines))), "index")
    return np.array([line["embedding"] for line in lines]).astype(np.float32)


def same(found, expected, what):
    need(found.shape == expected.shape and found.tobytes() == expected.tobytes(), "%s: other vectors" % (what,))


def states(ids):
    tblock("logits", MODEL, "--ids", ",".join(map(str, ids)), "--hidden", "-o", TEMP / "golden")
    return load_file(TEMP / "golden")["hidden.final_norm"]


def ids_of(text, *options, model=MODEL):
    return [int(i) for i in tblock("tokenize", model, "--text", text, *options).stdout.split()]


def vectors_are_those_of_the_hidden_states():
    x = [states(ids_of(t)) for t in TEXTS]
    lines = "".join(t + "\n" for t in TEXTS)
    for pool in ("mean", "last", "cls"):
        for raw in ((), ("--raw",)):
            expected = np.array([pooled(s, pool, not raw) for s in x])
            same(vectors("--pool", pool, *raw, text=lines), expected, (pool, raw))
    same(vectors(text=lines), np.array([pooled(s, "mean", True) for s in x]), "the defaults")


def no_setting_changes_a_bit():
    """Threads, instruction sets, batches, and what was computed before of the same beginning."""
    texts = [("To be, or not to be. " * n)[:8 * n + 1] for n in range(1, 40, 6)]
    lines = "".join(t + "\n" for t in texts)
    for pool in ("mean", "last", "cls"):
        expected = np.concatenate([vectors("--pool", pool, "--text", t, "--threads", 1, "--isa", "scalar") for t in texts[::2]])
        for options in ((), ("--threads", 2), ("--isa", "scalar", "--kv-type", "f32")):
            found = vectors("--pool", pool, *options, text=lines)
            need(len(found) == len(texts), "a vector for each line")
            same(found[::2], expected, (pool, options))


def all_inputs_are_the_same():
    expected = vectors(*[part for t in TEXTS if t for part in ("--text", t)])
    (TEMP / "lines").write_text("\n".join(t for t in TEXTS if t))   # the last one without a line end
    same(vectors("--file", TEMP / "lines"), expected, "--file")
    forms = [lambda t: t, lambda t: {"text": t}, ids_of, lambda t: {"ids": ids_of(t)}]
    objects = "".join(json.dumps(forms[i % 4](t)) + "\n" for i, t in enumerate(t for t in TEXTS if t))
    same(vectors("--jsonl", "-", text=objects), expected, "--jsonl")
    same(vectors("--prefix", "First ", "--text", TEXTS[1][6:], "--text", "A"), vectors("--text", TEXTS[1], "--text", "First A"), "--prefix")
    same(vectors("--jsonl", "-", text='"a\\nb"\n'), vectors("--jsonl", "-", text=json.dumps(ids_of("a\nb"))), "a text with a line end")
    with_bos = FIXTURES / "models/llama3-e2e"
    if with_bos.is_dir():
        plain = ids_of("a b", "--no-bos", model=with_bos)
        need(plain == ids_of("a b", model=with_bos)[1:], "a BOS")
        same(vectors("--no-bos", "--text", "a b", model=with_bos), vectors("--jsonl", "-", text=json.dumps(plain), model=with_bos), "--no-bos")
        end = ids_of("A<|end_of_text|>", "--special", model=with_bos)
        need(len(end) == 3, "a special token")
        same(vectors("--special", "--text", "A<|end_of_text|>", model=with_bos),
             vectors("--jsonl", "-", text=json.dumps(end), model=with_bos), "--special")


def numpy_reads_what_is_written():
    lines = "".join("%d\n" % i for i in range(700))   # more than are read at once
    expected = vectors(text=lines)
    sanitized = any(name in pathlib.Path(TBLOCK).read_bytes() for name in (b"__asan_init", b"__tsan_init"))   # which no sandbox allows
    for options in ((),) if sanitized else ((), ("--sandbox",)):
        tblock("embed", MODEL, "-o", TEMP / "x.npy", *options, text=lines)
        found = np.load(TEMP / "x.npy")
        need(found.dtype == np.float32 and found.flags.c_contiguous, found.dtype)
        same(found, expected, options)
    tblock("embed", MODEL, "-o", TEMP / "none.npy", text="")
    need(np.load(TEMP / "none.npy").shape == (0, 192), "no line, no vector")
    tblock("embed", MODEL, "-o", TEMP / "x.jsonl", text=lines)
    need((TEMP / "x.jsonl").read_text() == tblock("embed", MODEL, text=lines).stdout, "-o with lines of JSON")


def a_line_is_answered_before_the_next_one_comes():
    p = subprocess.Popen([TBLOCK, "embed", MODEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for n in range(3):
        p.stdin.write("line %d\n" % n)
        p.stdin.flush()
        need(json.loads(p.stdout.readline())["index"] == n, "line %d" % n)
    p.stdin.close()
    need(p.wait() == 0 and not p.stdout.read(), "the end")


def recorded_embeddings_agree():
    """Of the fixtures' reference, in float64: the README of the fixtures says that 1e-5 is safe."""
    n = 0
    for path in sorted(FIXTURES.glob("models/*/embeddings.safetensors")):
        recorded, tokens = load_file(path), load_file(path.parent / "golden.safetensors")
        for i in range(3):
            ids = json.dumps(tokens["seq%d.tokens" % i].tolist())
            for pool in ("mean", "last"):
                found, = vectors("--pool", pool, "--jsonl", "-", model=path.parent, text=ids)
                worst = np.abs(found - recorded["seq%d.%s" % (i, pool)]).max()
                need(worst <= 1e-5, "%s: sequence %d, %s: off by %g" % (path.parent.name, i, pool, worst))
                n += 1
    if not n:
        raise Skip("no data")


def sentence_transformers(modules, **pooling):
    """A folder with these modules, and the config of its Pooling."""
    folder = TEMP / "st"
    if not folder.exists():
        shutil.copytree(ROOT / "tests/data/models/llama-gqa", folder)
        (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(json.dumps([{"idx": i, "name": str(i), "path": p, "type": "sentence_transformers.models." + t}
                                                     for i, (p, t) in enumerate(modules)]))
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    return folder


FLAGS = {"mean": "pooling_mode_mean_tokens", "last": "pooling_mode_lasttoken", "cls": "pooling_mode_cls_token"}
MODULES = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]


def folders_of_sentence_transformers_say_how_to_pool():
    ids = "[1, 5, 9, 3]\n"
    chosen = {p: vectors("--pool", p, "--jsonl", "-", model=ROOT / "tests/data/models/llama-gqa", text=ids) for p in FLAGS}
    forms = [(p, {f: f == FLAGS[p] for f in FLAGS.values()}) for p in FLAGS] \
        + [("mean", {}), ("last", {"pooling_mode": "lasttoken", "pooling_mode_mean_tokens": True, "include_prompt": True})]
    for pool, config in forms:
        for modules in (MODULES, MODULES[:2]):
            folder = sentence_transformers(modules, **config)
            same(vectors("--jsonl", "-", model=folder, text=ids), chosen[pool], (pool, config))
        tblock("convert", folder, "-o", TEMP / "st.bin")
        same(vectors("--jsonl", "-", model=TEMP / "st.bin", text=ids), chosen[pool], ("converted", pool))
        same(vectors("--pool", "cls", "--jsonl", "-", model=folder, text=ids), chosen["cls"], "an option counts")
    last = {"pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True}
    for said, modules, config in (
            ("module 2: expected Normalize, found 'sentence_transformers.models.CNN'", MODULES[:2] + [("2_CNN", "CNN")], last),
            ("path: expected the folder of one of at most two Dense", MODULES[:2] + [("2_Dense", "Dense")], last),
            ("module 3: expected none, found", MODULES + [("3_Dense", "Dense")], last),
            ("module 0: path: expected this folder, found '0_T'", [("0_T", "Transformer"), MODULES[1]], last),
            ("expected Transformer and Pooling, found 1", MODULES[:1], last),
            ("path: expected the folder of Pooling", [MODULES[0], ("../x", "Pooling")], last),
            ("expected one way of pooling that is known, found 2", MODULES, {"pooling_mode_lasttoken": True}),
            ("expected one way of pooling that is known, found 0", MODULES, {"pooling_mode": "concat"}),
            ("expected mean, lasttoken or cls, found weightedmean", MODULES, {"pooling_mode": "weightedmean"}),
            ("include_prompt: expected true, found false", MODULES, dict(last, include_prompt=False)),
            ("pooling_mode_lasttoken: expected", MODULES, {"pooling_mode_lasttoken": "yes"})):
        folder = sentence_transformers(modules, **config)
        for path in (folder, TEMP / "st.bin"):
            if path != folder:
                tblock("convert", folder, "-o", path)
            done = tblock("embed", path, "--jsonl", "-", status=3, text=ids)
            need((said if path == folder else "wants vectors of another kind") in done.stderr, "%s: %s" % (said, done.stderr))
            same(vectors("--pool", "last", "--jsonl", "-", model=path, text=ids), chosen["last"], "chosen all the same")
        tblock("run", folder, "--ids", "1,2", "-n", "1")
    for name, key, value in (("config_sentence_transformers.json", "default_prompt_name", "query"),
                             ("sentence_bert_config.json", "do_lower_case", True)):
        folder = sentence_transformers(MODULES, **last)
        for found in (value, None, False):
            (folder / name).write_text(json.dumps({key: found}))
            done = tblock("embed", folder, "--jsonl", "-", status=3 if found else 0, text=ids)
            need(not found or "%s: %s: expected none, found " % (name, key) in done.stderr, done.stderr)
        (folder / name).unlink()
    folder = sentence_transformers(MODULES[:2] + [("2_Dense", "Dense")])
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense/model.safetensors").write_bytes(b"")
    for name in ("2_Dense/config.json", "1_Pooling/config.json"):
        (folder / name).write_text('["bias"]')
        said = name + ": expected an object, found array"
        need(said in tblock("embed", folder, "--jsonl", "-", status=3, text=ids).stderr, said)
    shutil.rmtree(folder / "2_Dense")
    (folder / "modules.json").write_text('{"a": 1, "b": 2}')
    need("modules.json: expected an array, found object" in tblock("embed", folder, "--jsonl", "-", status=3, text=ids).stderr, "no list")
    (folder / "modules.json").write_text("[")
    need("modules.json" in tblock("embed", folder, "--jsonl", "-", status=3, text=ids).stderr, "no JSON")
    tblock("run", folder, "--ids", "1,2", "-n", "1")


def what_is_wrong_is_named():
    long = "To be. " * 300
    cases = [
        (2, ("--text", "a", "--file", "x"), None, "expected only one of them, found two"),
        (2, ("--pool", "max"), "a\n", "--pool: expected"),
        (2, (), "a\n\n", "standard input: line 2: ids: expected at least one token"),
        (2, (), "a\n" + long + "\n", "standard input: line 2: ids: expected at most the 256 tokens"),
        (3, ("--jsonl", "-"), '"a"\n{"text": "a", "n": 1}\n', "line 2: expected the key text or ids, found 'n'"),
        (3, ("--jsonl", "-"), '{"text": "a", "ids": [1]}\n', "line 1: expected text or ids, found both"),
        (3, ("--jsonl", "-"), "{}\n", "line 1: expected text or ids, found neither"),
        (3, ("--jsonl", "-"), "[1, -1]\n", "line 1: expected a token id, found -1"),
        (3, ("--jsonl", "-"), "[1, 2.5, \"a\"]\n", "line 1: expected a token id, found 2.5"),
        (2, ("--jsonl", "-"), "[1, 1024]\n", "line 1: ids: token 1: expected 0 to 1023, found 1024"),
        (3, ("--jsonl", "-"), "12\n", "line 1: expected a text"),
        (3, ("--jsonl", "-", "--prefix", "a"), "[1]\n", "line 1: expected a text beside --prefix"),
        (3, ("--jsonl", "-"), "\"a\n", "line 1: JSON:"),
        (2, ("--text", "a", "--text", long), None, "--text: number 2: ids: expected at most"),
        (3, ("--file", "missing"), None, "missing: cannot open"),
    ]
    for status, options, text, said in cases:
        done = tblock("embed", MODEL, *options, status=status, text=text)
        need(said in done.stderr and done.stderr.count("\n") == 1, "%s: expected '%s', found '%s'" % (options, said, done.stderr))
        need(len(done.stdout.splitlines()) == (1 if "line 2: " in said or "number 2: " in said else 0), "%s: texts before it: %s" % (options, done.stdout[:80]))
    (TEMP / "old.npy").write_text("old")
    tblock("embed", MODEL, "-o", TEMP / "old.npy", status=2, text="a\n" + long + "\n")
    need((TEMP / "old.npy").read_text() == "old", "a file that failed")
    copy = TEMP / "copy.bin"
    copy.write_bytes(pathlib.Path(MODEL).read_bytes())
    tblock("embed", copy, "-o", copy, status=2, text="a\n")


with tempfile.TemporaryDirectory() as folder:
    TEMP = pathlib.Path(folder)
    status = attempt_all(vectors_are_those_of_the_hidden_states, no_setting_changes_a_bit, all_inputs_are_the_same, numpy_reads_what_is_written,
                         a_line_is_answered_before_the_next_one_comes, recorded_embeddings_agree, folders_of_sentence_transformers_say_how_to_pool,
                         what_is_wrong_is_named)
sys.exit(status)
