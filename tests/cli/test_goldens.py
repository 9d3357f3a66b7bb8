#!/usr/bin/env python3
"""Goldens with fingerprints (docs/verify.md): whatever differs in a model is found, and its cause is named.
Who breaks it: somebody who loads, converts or edits a model wrongly, or the disk; and whoever hands over a golden file.
$TBLOCK is the program."""
import array
import copy
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import attempt_all, need, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
E2E = ROOT / "tests/data/models/llama3-e2e"
TEMP = None
LAYERS, D, HEADS, KV, HEAD, FF, VOCAB = 4, 48, 6, 3, 8, 64, 512
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": D, "intermediate_size": FF,
          "max_position_embeddings": 64, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "num_key_value_heads": KV,
          "head_dim": HEAD, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "vocab_size": VOCAB, "bos_token_id": 507,
          "eos_token_id": 508}
SHAPES = {"self_attn.q_proj": (HEADS * HEAD, D), "self_attn.k_proj": (KV * HEAD, D), "self_attn.v_proj": (KV * HEAD, D),
          "self_attn.o_proj": (D, HEADS * HEAD), "mlp.gate_proj": (FF, D), "mlp.up_proj": (FF, D), "mlp.down_proj": (D, FF),
          "input_layernorm": (D,), "post_attention_layernorm": (D,)}


def tblock(*args, status=0):
    done = subprocess.run([TBLOCK, *map(str, args)], capture_output=True, encoding="utf-8", errors="replace", check=False)
    need(done.returncode == status, "%s: status %d, expected %d: %s%s" % (" ".join(map(str, args)), done.returncode, status, done.stderr, done.stdout))
    return done


def numbers(seed, n, about=0.0):
    r = random.Random(seed)
    return array.array("f", (about + r.gauss(0, 0.15) for _ in range(n)))


def weights():
    """name: rows of float32 (a vector: one row)."""
    made = {"model.embed_tokens.weight": (VOCAB, D), "model.norm.weight": (D,)}
    for l in range(LAYERS):
        made.update({"model.layers.%d.%s.weight" % (l, name): shape for name, shape in SHAPES.items()})
    out = {}
    for seed, (name, shape) in enumerate(made.items()):
        flat = numbers(seed, shape[0] * (shape[1] if len(shape) > 1 else 1), 0.0 if len(shape) > 1 else 1.0)
        step = shape[-1]
        out[name] = [flat[i:i + step] for i in range(0, len(flat), step)]
    return out


def w(layer, part):
    return "model.layers.%d.%s.weight" % (layer, part)


def write_safetensors(path, tensors, meta=None):
    """tensors: name: (dtype, shape, bytes)"""
    header, at, data = ({"__metadata__": meta} if meta else {}), 0, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at, data = at + len(raw), data + raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    meta = header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + n:][slice(*t["data_offsets"])]) for name, t in header.items()}, meta


def folder(name, tensors=None, config=None, tokenizer=None, template=None, dtype="F32"):
    path = TEMP / name
    path.mkdir()
    (path / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    shutil.copy(E2E / "tokenizer_config.json", path)
    vocabulary = json.loads((E2E / "tokenizer.json").read_text())
    if tokenizer:
        tokenizer(vocabulary)
    (path / "tokenizer.json").write_text(json.dumps(vocabulary))
    if template:
        (path / "chat_template.jinja").write_text(template)
    # bf16: the upper half of each number, which must be all of it
    raw = lambda row: row.tobytes() if dtype == "F32" else b"".join(row.tobytes()[i + 2:i + 4] for i in range(0, 4 * len(row), 4))  # noqa: E731
    write_safetensors(path / "model.safetensors",
                      {name: (dtype, [len(rows), len(rows[0])] if len(rows) > 1 else [len(rows[0])], b"".join(raw(r) for r in rows))
                       for name, rows in (tensors or weights()).items()})
    return path


def reported(model, golden, *options, status=0):
    return json.loads(tblock("verify", model, golden, "--json", "--quiet", *options, status=status).stdout)


def golden(name, model, *options):
    path = TEMP / (name + ".safetensors")
    tblock("logits", model, "--ids", "1,2,3,4,5,6,7,8", "-o", path, "--quiet", *options)
    return path


# ---- Faults of weights -----------------------------------------------------------------------------------------------------


def swapped(t, a, b):
    t[a], t[b] = t[b], t[a]


def pairs(rows):
    """Each head's rows i of both halves side by side."""
    out = []
    for h in range(0, len(rows), HEAD):
        for i in range(HEAD // 2):
            out += [rows[h + i], rows[h + i + HEAD // 2]]
    return out


def scaled(rows, by):
    return [array.array("f", (x * by for x in row)) for row in rows]


def ulp(x):
    return struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", x))[0] + 1))[0]


def fault(change):
    t = copy.deepcopy(weights())
    change(t)
    return t


def one_value(t, name, row, column, new):
    t[name][row][column] = new(t[name][row][column])


def heads(rows, order):
    return [row for h in order for row in rows[h * HEAD:(h + 1) * HEAD]]


def layers_swap(t, a, b):
    for part in SHAPES:
        swapped(t, w(a, part), w(b, part))


def layer_copy(t, to, of):
    for part in SHAPES:
        t[w(to, part)] = t[w(of, part)]


Q, K, O, GATE, UP, DOWN = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
FAULTS = {
    "gate_copied_from_up": (lambda t: t.update({w(3, GATE): t[w(3, UP)]}), "tensor: w_gate of layer 3 holds the recorded w_up"),
    "gate_and_up_swapped": (lambda t: swapped(t, w(3, GATE), w(3, UP)), "tensor: w_gate of layer 3 holds the recorded w_up, and the other way round"),
    "gate_and_up_swapped_in_all": (lambda t: [swapped(t, w(l, GATE), w(l, UP)) for l in range(LAYERS)],
                                   "tensor: w_gate of layer 0 holds the recorded w_up, and the other way round; so in 3 more layers"),
    "matrix_of_another_layer": (lambda t: t.update({w(1, K): t[w(2, K)]}), "tensor: wk of layer 1 holds the recorded wk of layer 2"),
    "layer_copied": (lambda t: layer_copy(t, 2, 3), "tensor: layers.2 holds layers.3"),
    "layers_swapped": (lambda t: layers_swap(t, 0, 3), "tensor: layers.0 holds layers.3, layers.3 holds layers.0"),
    "heads_of_k": (lambda t: t.update({w(0, K): heads(t[w(0, K)], [1, 0, 2])}), "tensor: wk of layer 0: heads in the order [1, 0, 2]"),
    "heads_of_q": (lambda t: t.update({w(2, Q): heads(t[w(2, Q)], [5, 0, 3, 2, 1, 4])}),
                   "tensor: wq of layer 2: heads in the order [5, 0, 3, 2, 1, 4]"),
    "pairs_of_q": (lambda t: t.update({w(1, Q): pairs(t[w(1, Q)])}),
                   "tensor: wq of layer 1: rows of each head as neighbouring pairs: rotation of another convention"),
    "pairs_of_all": (lambda t: t.update({w(l, n): pairs(t[w(l, n)]) for l in range(LAYERS) for n in (Q, K)}),
                     "tensor: wq of layer 0: rows of each head as neighbouring pairs: rotation of another convention; so in 3 more layers; "
                     "4 other tensors of 38 differ"),
    "rows_swapped": (lambda t: swapped(t[w(0, GATE)], 7, 61), "tensor: w_gate of layer 0: rows 7 and 61 are swapped"),
    "rows_turned": (lambda t: t[w(0, GATE)].reverse(), "tensor: w_gate of layer 0: the same rows in another order"),
    "columns_turned": (lambda t: t.update({w(0, DOWN): [row[::-1] for row in t[w(0, DOWN)]]}),
                       "tensor: w_down of layer 0: the same columns in another order"),
    "transposed": (lambda t: t.update({w(2, O): [array.array("f", c) for c in zip(*t[w(2, O)])]}), "tensor: wo of layer 2: transposed"),
    "scaled": (lambda t: t.update({w(1, DOWN): scaled(t[w(1, DOWN)], 1.01)}), "tensor: w_down of layer 1: scaled by 1.01"),
    "negated": (lambda t: t.update({w(1, UP): scaled(t[w(1, UP)], -1)}), "tensor: w_up of layer 1: scaled by -1"),
    "zeros": (lambda t: t.update({w(1, UP): scaled(t[w(1, UP)], 0)}), "tensor: w_up of layer 1: all zeros"),
    "row_of_the_embedding": (lambda t: t["model.embed_tokens.weight"].__setitem__(3, numbers(99, D)), "tensor: embed: row 3 of 512 differs"),
    "column": (lambda t: [one_value(t, w(0, UP), r, 5, lambda x: x + 1) for r in range(FF)], "tensor: w_up of layer 0: column 5 of 48 differs"),
    "element_of_a_norm": (lambda t: one_value(t, "model.norm.weight", 0, 11, lambda x: 0.5), "tensor: final_norm: element 11: the golden has "),
    "another_token_unused_here": (lambda t: one_value(t, "model.embed_tokens.weight", 400, 7, lambda x: 0.5),
                                  "tensor: embed: row 400, column 7: the golden has "),
    "two_values": (lambda t: [one_value(t, w(2, K), r, 3 + r, ulp) for r in (1, 20)],
                   "tensor: wk of layer 2: some values differ, or all by little: the norm stays "),
    "other_values": (lambda t: t.update({w(2, K): [numbers(r, D) for r in range(KV * HEAD)]}), "tensor: wk of layer 2: other values: the golden's norm is "),
}


def the_fault_of_a_tensor_is_named():
    record, wrong = golden("of_faults", folder("good")), []
    for name, (change, expected) in FAULTS.items():
        found = reported(folder("fault-" + name, fault(change)), record, status=1)
        if found["ok"] or not found["cause"].startswith(expected) or (not expected.endswith(" ") and found["cause"] != expected):
            wrong.append("%s: %s" % (name, found["cause"]))
    need(not wrong, "; ".join(wrong))


def one_ulp_is_found_with_its_place():
    model, r, wrong, kinds = folder("ulp"), random.Random(7), [], weights()
    record = golden("of_ulps", model)
    tensors, _ = read_safetensors(model / "model.safetensors")
    for _ in range(50):
        name = r.choice(list(kinds))
        row, column = r.randrange(len(kinds[name])), r.randrange(len(kinds[name][0]))
        at, (dtype, shape, raw) = 4 * (row * len(kinds[name][0]) + column), tensors[name]
        bits = struct.unpack("<I", raw[at:at + 4])[0] + r.choice([-1, 1])
        write_safetensors(model / "model.safetensors", {**tensors, name: (dtype, shape, raw[:at] + struct.pack("<I", bits) + raw[at + 4:])})
        found = reported(model, record, status=1)
        place = "row %d, column %d: " % (row, column) if len(kinds[name]) > 1 else "element %d: " % column
        was, now = (float("%.9g" % struct.unpack("<f", x)[0]) for x in (raw[at:at + 4], struct.pack("<I", bits)))
        if place not in found["cause"] or "the golden has %.9g, the model %.9g (1 ulp)" % (was, now) not in found["cause"]:
            wrong.append("%s [%d, %d]: %s" % (name, row, column, found["cause"]))
    need(not wrong, "; ".join(wrong))


# ---- Faults of the rest ----------------------------------------------------------------------------------------------------


def the_key_of_the_config_is_named():
    record = golden("of_config", folder("config"))
    for i, (change, expected) in enumerate([
            ({"rope_theta": 500000.0}, "config: theta: the golden has 10000, the model 500000"),
            ({"rms_norm_eps": 1e-6}, "config: norm_eps: the golden has 1e-05, the model 1e-06"),
            ({"hidden_act": "gelu_pytorch_tanh"}, 'config: ffn: the golden has "swiglu", the model "geglu"'),
            ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, 'config: rope.type: the golden has "default", the model "linear"; '
                                                                       "rope.factor: the golden has none, the model 2"),
    ]):
        found = reported(folder("config-%d" % i, config=change), record, status=1)
        need(found["cause"] == expected, "%s: %s" % (change, found["cause"]))


def no_digit(t):
    t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = t["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"].replace("{1,3}", "{1,2}")


def two_tokens(t):
    ids = t["model"]["vocab"]
    ids["a"], ids["e"] = ids["e"], ids["a"]


def a_rule_of_the_tokenizer_or_the_template_is_named():
    record = golden("of_text", folder("text", template="{{ messages[0].content }}"))
    rule = reported(folder("text-rule", tokenizer=no_digit, template="{{ messages[0].content }}"), record, status=1)
    need(rule["cause"].startswith("tokenizer: pretokenize[0].regex: the golden has ...") and "{1,3}" in rule["cause"] and "{1,2}" in rule["cause"],
         rule["cause"])
    need(rule["sequences"][0]["max_abs"] == 0 and not rule["sequences"][0]["ok"], "the logits are equal")
    vocabulary = reported(folder("text-vocab", tokenizer=two_tokens, template="{{ messages[0].content }}"), record, status=1)
    need(vocabulary["cause"] == "tokenizer: the same rules, another vocabulary, merges or special tokens", vocabulary["cause"])
    template = reported(folder("text-template", template="{{ messages[0].role }}"), record, status=1)
    need(template["cause"].startswith("template: sha256: the golden has ") and not template["tokenizer_diff"], template["cause"])


def the_logits_alone_are_asked_for():
    record, other = golden("of_logits", folder("logits")), folder("logits-other", tokenizer=two_tokens)
    tblock("verify", other, record, "--exact", status=1)
    for options in (["--logits-only"], ["--exact", "--logits-only"], ["--tol", "0"]):
        found = reported(other, record, *options)
        need(found["ok"] and found["model_known"] and not found["cause"], "%s: %s" % (options, found))


def one_cause_is_one_message():
    record, report = golden("of_message", folder("message")), TEMP / "junit.xml"
    other = folder("message-theta", config={"rope_theta": 500000.0})
    done = tblock("verify", other, record, "--exact", "--junit", report, status=1)
    need(done.stderr.count("\n") == 1 and ": config: theta: the golden has 10000, the model 500000; logits differ from position 1 on" in done.stderr,
         done.stderr)
    failure = xml.etree.ElementTree.parse(report).find(".//failure")
    need(failure.get("message").startswith("config: theta: the golden has 10000, the model 500000; logits differ"), failure.get("message"))
    done = tblock("verify", folder("message-vocab", tokenizer=two_tokens), record, status=1)
    need(done.stderr.count("\n") == 1 and done.stderr.rstrip().endswith("special tokens; the logits agree, within 0.000" + done.stderr.rstrip()[-3:]),
         done.stderr)
    need("1 of 1 sequences within" in done.stdout and "other model" in done.stdout, done.stdout)


def settings_are_a_cause_if_logits_differ():
    model = folder("settings")
    record = golden("of_settings", model)
    found = reported(model, record, "--exact", "--kv-type", "f16", status=1)
    need(found["cause"] == "settings: kv_type f32 (here f16)", found["cause"])
    # no logit depends on ids of the config, nor on texts
    other = folder("settings-eos", config={"eos_token_id": 7}, tokenizer=two_tokens)
    found = reported(other, record, "--exact", "--kv-type", "f16", status=1)
    need(found["cause"] == "settings: kv_type f32 (here f16); also: config, tokenizer", found["cause"])
    found = reported(other, record, "--exact", status=1)
    need(found["cause"] == "config: eos: the golden has [508], the model [7]; also: tokenizer", found["cause"])


# ---- Equal models ----------------------------------------------------------------------------------------------------------


def a_model_in_another_format_or_type_is_the_same():
    t = {name: [array.array("f", struct.unpack("<%df" % len(row), b"".join(b"\0\0" + row.tobytes()[i + 2:i + 4] for i in range(0, 4 * len(row), 4))))
                for row in rows] for name, rows in weights().items()}
    models = [folder("same-f32", t), folder("same-bf16", t, dtype="BF16")]
    for i in range(2):
        models.append(TEMP / ("same-%d.bin" % i))
        tblock("convert", models[i], "-o", models[-1], "--quiet")
    for i, model in enumerate(models):
        record = golden("of_same-%d" % i, model)
        for j, other in enumerate(models):
            for options in ([], ["--exact", "--threads", "3", "--isa", "scalar"]):
                found = reported(other, record, *options)
                need(found["ok"] and found["model_known"] and not found["cause"], "%d %d: %s" % (i, j, found))
                need("sha256" not in found["other_settings"], found["other_settings"])


def every_family_is_the_same_as_its_conversion():
    """Fused, transposed, stacked, sharded and FP8 tensors, in the folder and in the model file made from it."""
    for config in sorted((ROOT / "tests/data/models").glob("*/config.json")):
        name, model, copy_of = config.parent.name, config.parent, TEMP / (config.parent.name + ".bin")
        tblock("convert", model, "-o", copy_of, "--quiet")
        if subprocess.run([TBLOCK, "logits", model, "--ids", "1,2,3", "-o", TEMP / "family-a", "--quiet"], capture_output=True, check=False).returncode:
            continue  # it predicts no next token
        tblock("logits", copy_of, "--ids", "1,2,3", "--digest", "-o", TEMP / "family-b", "--quiet")
        for made, record in ((copy_of, "family-a"), (model, "family-b")):
            found = reported(made, TEMP / record, "--exact")
            need(found["ok"] and found["model_known"], "%s: %s" % (name, found["cause"]))


def other_types_are_named():
    model, q8 = folder("types"), TEMP / "types-q8.bin"
    tblock("quantize", model, "-o", q8, "--type", "q8", "--quiet")
    found = reported(q8, golden("of_types", model), status=1)
    need(found["cause"].startswith("tensor: types: the golden has f32, the model ") and " of 38 hold other values, the first is embed" in found["cause"],
         found["cause"])


def mix13(z):
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    z = (z ^ z >> 27) * 0x94d049bb133111eb % 2**64
    return z ^ z >> 31


def print_of(rows):
    """docs/verify.md, "Fingerprints", said again."""
    p, q = (lambda i: mix13(2 * i + 2) | 1), (lambda i: mix13(2 * i + 1) | 1)

    def mixed(b):
        u = b * 0x9e3779b97f4a7c15 % 2**64
        v = (u ^ u >> 32) * 0xd6e8feb86659fd93 % 2**64
        return v ^ v >> 32

    bits = [struct.unpack("<%dI" % len(row), row.tobytes()) for row in rows]
    m = [[mixed(b) for b in row] for row in bits]
    h = [sum(x * q(c) for c, x in enumerate(row)) % 2**64 for row in m]
    g = [sum(row[c] * q(r) for r, row in enumerate(m)) % 2**64 for c in range(len(m[0]))]
    total = lambda values: sum(values) % 2**64  # noqa: E731
    return (total(x * p(r) for r, x in enumerate(h)), total(x * p(c) for c, x in enumerate(g)), total(map(sum, m)), total(map(mix13, h)),
            total(map(mix13, g)), total(h), total(r * x for r, x in enumerate(h)), total(g), total(c * x for c, x in enumerate(g)),
            total(map(sum, bits)))


def fingerprints_are_what_the_page_says():
    tensors, _ = read_safetensors(golden("of_page", folder("page")))
    found = list(struct.iter_unpack("<10Q", tensors["fingerprint.hash"][2]))
    sums = list(struct.iter_unpack("<3d", tensors["fingerprint.sum"][2]))
    made = weights()
    for at, name in ((1, w(0, "input_layernorm")), (3, w(0, K)), (-1, "model.norm.weight")):
        need(print_of(made[name]) in found and found.index(print_of(made[name])) == at % len(found), "%s: %s" % (name, found.index(print_of(made[name]))))
        values = [x for row in made[name] for x in row]
        wanted = (sum(x * x for x in values) ** 0.5, sum(values), max(map(abs, values)))
        need(all(abs(a - b) < 1e-9 * max(1, abs(b)) for a, b in zip(sums[at], wanted)), "%s: %s, %s" % (name, sums[at], wanted))


# ---- Golden files of strangers ---------------------------------------------------------------------------------------------


def a_bad_fingerprint_is_one_error_line():
    model = folder("stranger")
    good = golden("of_stranger", model)
    tensors, meta = read_safetensors(good)
    hashes, sums = tensors["fingerprint.hash"], tensors["fingerprint.sum"]
    n = hashes[1][0]
    for i, (change, other, expected) in enumerate([
            ({"fingerprints": "2"}, {}, "fingerprints: expected version 1, found '2'"),
            ({}, {"fingerprint.hash": None}, "tensor fingerprint.hash: expected U64 [n, 10], found none"),
            ({}, {"fingerprint.hash": ("I64", hashes[1], hashes[2])}, "tensor fingerprint.hash: expected U64 [n, 10], found I64 [%d, 10]" % n),
            ({}, {"fingerprint.sum": ("F64", [n - 1, 3], sums[2][24:])}, "expected as many rows, found %d and %d" % (n, n - 1)),
            ({}, {"fingerprint.sum": ("F64", [3 * n], sums[2])}, "tensor fingerprint.sum: expected F64 [n, 3], found F64 [%d]" % (3 * n)),
    ]):
        path = TEMP / ("stranger-%d.safetensors" % i)
        write_safetensors(path, {name: t for name, t in {**tensors, **other}.items() if t}, {**meta, **change})
        done = tblock("verify", model, path, status=3)
        need(expected in done.stderr and done.stderr.count("\n") == 1, done.stderr)
    # fewer tensors than the model has: found, not read past the end
    path = TEMP / "stranger-fewer.safetensors"
    write_safetensors(path, {**tensors, "fingerprint.hash": ("U64", [1, 10], hashes[2][:80]), "fingerprint.sum": ("F64", [1, 3], sums[2][:24])},
                      {**meta, "model_sha256": "0" * 64})
    need(reported(model, path, status=1)["cause"] == "tensor: the golden has 1, the model %d" % n, "of fewer tensors")
    # a config and rules that are none
    path = TEMP / "stranger-config.safetensors"
    write_safetensors(path, tensors, {**meta, "config": "{", "tokenizer": "[[", "tokenizer_sha256": "0" * 64})
    found = reported(model, path, status=1)
    need(found["config_diff"].startswith("the golden's: ") and found["tokenizer_diff"].startswith("the golden's: "), str(found))


def an_older_golden_is_read_as_before():
    model, other = folder("older"), folder("older-other", tokenizer=two_tokens)
    path = golden("of_older", model)
    tensors, meta = read_safetensors(path)
    for key in ("fingerprints", "model_layout", "tokenizer"):
        del meta[key]
    write_safetensors(path, {name: t for name, t in tensors.items() if not name.startswith("fingerprint.")}, meta)
    for m in (model, other):
        found = reported(m, path, "--exact")
        need(found["ok"] and not found["model_known"] and not found["cause"], str(found))
    theta = reported(folder("older-theta", config={"rope_theta": 500000.0}), path, "--exact", status=1)
    need(theta["cause"] == "config: theta: the golden has 10000, the model 500000", theta["cause"])


# ---- Digests ---------------------------------------------------------------------------------------------------------------


def a_digest_holds_hashes_and_the_five_largest():
    model = folder("digest")
    whole, path = golden("whole", model, "--hidden"), golden("digest", model, "--digest", "--hidden")
    tensors, _ = read_safetensors(path)
    logits = read_safetensors(whole)[0]["logits"]
    need("logits" not in tensors and path.stat().st_size < 0.5 * whole.stat().st_size, "%d %d" % (path.stat().st_size, whole.stat().st_size))
    for i in range(8):
        row = list(enumerate(struct.unpack_from("<512f", logits[2], 2048 * i)))
        wanted = sorted(row, key=lambda x: -x[1])[:5]
        need(struct.unpack_from("<5i", tensors["logits.top"][2], 20 * i) == tuple(j for j, _ in wanted), "top of %d" % i)
        need(struct.unpack_from("<5f", tensors["logits.top_value"][2], 20 * i) == tuple(x for _, x in wanted), "values of %d" % i)
        made = print_of([array.array("f", (x for _, x in row))])[5]  # the hash of a row
        need(struct.unpack_from("<Q", tensors["logits.hash"][2], 8 * i)[0] == made, "hash of %d" % i)
    need(tensors["hidden.layer3.attn"][:2] == ("U64", [8]), str(tensors["hidden.layer3.attn"][:2]))
    for options in ([], ["--exact", "--threads", "3", "--isa", "scalar"]):
        found = reported(model, path, *options)
        row = found["sequences"][0]
        need(found["ok"] and found["exact"] and found["digest"] and row["mean_kl"] is None and row["top5"] == 1 and row["hidden"] == 10, str(found))
    last = golden("digest-last", model, "--digest", "--last")
    need(read_safetensors(last)[0]["logits.hash"][1] == [1] and reported(model, last)["ok"], "of the last")


def a_digest_finds_what_differs():
    path = golden("digest-of", folder("digest-good"), "--digest", "--hidden")
    other = folder("digest-other", fault(lambda t: one_value(t, w(2, DOWN), 9, 9, lambda x: x + 1)))
    found = reported(other, path, "--logits-only", status=1)
    row = found["sequences"][0]
    need(row["first_diff"] == 0 and row["parted"] == "layer 2, feed-forward" and row["parted_position"] == 0 and row["max_abs"] > 0, str(row))
    done = tblock("verify", other, path, status=1)
    need(": tensor: w_down of layer 2: row 9, column 9: " in done.stderr and "expected equal hashes, found max |diff| " in done.stderr
         and "nan" not in done.stdout + done.stderr, done.stdout + done.stderr)
    done = tblock("verify", other, path, "--tol", "1e30", status=2)
    need("tol: expected logits, found hashes of them" in done.stderr, done.stderr)


def a_bad_digest_is_one_error_line():
    model = folder("digest-stranger")
    tensors, meta = read_safetensors(golden("digest-stranger", model, "--digest", "--hidden"))
    top = tensors["logits.top"][2]
    for i, (other, expected) in enumerate([
            ({"logits.top": None}, "tensor logits.top: expected I32, a row for each of 8 tokens or one for the last, found none"),
            ({"logits.hash": ("I64", [8], bytes(64))}, "tensor logits.hash: expected U64"),
            ({"logits.hash": ("U64", [7], bytes(56))}, "found U64 [7]"),
            ({"logits.hash": ("U64", [1], bytes(8))}, "tensor logits.top: expected I32"),
            ({"logits.top": ("I32", [8, 5], top[:8] + struct.pack("<i", 512) + top[12:])}, "tensor logits.top: token 2: expected -1 to 511, found 512"),
            ({"logits.top_value": ("F32", [8, 4], bytes(128))}, "found F32 [8, 4]"),
            ({"hidden.embed": ("U64", [9], bytes(72))}, "tensor hidden.embed: expected "),
    ]):
        path = TEMP / ("digest-stranger-%d.safetensors" % i)
        write_safetensors(path, {name: t for name, t in {**tensors, **other}.items() if t}, meta)
        done = tblock("verify", model, path, status=3)
        need(expected in done.stderr and done.stderr.count("\n") == 1, done.stderr)


def a_digest_whose_largest_logits_were_changed_differs():
    """They are for people, and must not say something else than the hash."""
    model = folder("digest-changed")
    tensors, meta = read_safetensors(golden("digest-changed", model, "--digest"))
    top, value = tensors["logits.top"][2], tensors["logits.top_value"][2]
    for i, other in enumerate(({"logits.top_value": ("F32", [8, 5], value[:-1] + bytes([value[-1] ^ 1]))},
                               {"logits.top": ("I32", [8, 5], top[:-20] + top[-16:-12] + top[-20:-16] + top[-12:])})):
        path = TEMP / ("digest-changed-%d.safetensors" % i)
        write_safetensors(path, {**tensors, **other}, meta)
        found = reported(model, path, status=1)
        need(found["sequences"][0]["first_diff"] == 7, str(found))


if __name__ == "__main__":
    only = option_only(__doc__).parse_args().only
    with tempfile.TemporaryDirectory(prefix="tblock-goldens-") as temp:
        TEMP = pathlib.Path(temp)
        sys.exit(attempt_all(the_fault_of_a_tensor_is_named, one_ulp_is_found_with_its_place, the_key_of_the_config_is_named,
                             a_rule_of_the_tokenizer_or_the_template_is_named, the_logits_alone_are_asked_for, one_cause_is_one_message,
                             settings_are_a_cause_if_logits_differ, a_model_in_another_format_or_type_is_the_same, every_family_is_the_same_as_its_conversion, other_types_are_named,
                             fingerprints_are_what_the_page_says,
                             a_bad_fingerprint_is_one_error_line, an_older_golden_is_read_as_before,
                             a_digest_holds_hashes_and_the_five_largest, a_digest_finds_what_differs, a_bad_digest_is_one_error_line,
                             a_digest_whose_largest_logits_were_changed_differs, only=only))
