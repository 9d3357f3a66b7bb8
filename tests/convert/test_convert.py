#!/usr/bin/env python3
"""Tests of tools/convert.py: each function here is a claim. Prints `ok NAME`, `FAIL NAME: why` or `skip NAME: why`.

  tests/convert/test_convert.py [--list] [NAME ...]

The outputs are read back by a reader of our own below, not by the converter's. Fixtures: $TBLOCK_SHARED or ../shared."""
import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tools"))
sys.dont_write_bytecode = True
try:
    import numpy as np
except ImportError:
    print("skip test_convert: no numpy")
    sys.exit(0)
from tblock_convert import cli, floats, panels  # noqa: E402

SHARED = os.environ.get("TBLOCK_SHARED", os.path.join(ROOT, "..", "shared"))
MODELS = os.path.join(SHARED, "fixtures", "models")
DATA = os.path.join(SHARED, "data")
TOKENIZERS = os.path.join(SHARED, "fixtures", "tokenizers")
TEMP = None


class Skip(Exception):
    pass


# ---- helpers ----

def need(*parts):
    path = os.path.join(*parts)
    if not os.path.exists(path):
        raise Skip("no data (%s)" % os.path.relpath(path, ROOT))
    return path


def temp(name):
    return os.path.join(TEMP, name)


def convert(src, *options, out="out.bin"):
    """(status, stdout, stderr) of a conversion in this process."""
    stdout, stderr = io.StringIO(), io.StringIO()
    handlers = {s: signal.getsignal(s) for s in cli.SIGNALS}
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            status = cli.main([src, "-o", temp(out)] + list(options))
    finally:
        for s, h in handlers.items():
            signal.signal(s, h)
    return status, stdout.getvalue(), stderr.getvalue()


def converted(src, *options, out="out.bin"):
    """The output of a conversion that has to succeed, read back."""
    status, _, err = convert(src, "--quiet", *options, out=out)
    assert status == 0, err
    return ModelFile(temp(out))


def refused(src, *expected, options=(), status=3):
    """The conversion is refused with one line that has all the expected parts, and nothing is left behind."""
    if os.path.exists(temp("refused.bin")):
        os.unlink(temp("refused.bin"))
    got, out, err = convert(src, *options, out="refused.bin")
    assert got == status, "status %d, expected %d: %s" % (got, status, err)
    assert err.startswith("convert.py: ") and err.count("\n") == 1, "not one line: %r" % err
    for part in expected:
        assert part in err, "%r is not in %r" % (part, err)
    left = [n for n in os.listdir(TEMP) if "refused" in n]
    assert not left, "left behind: %s" % left


class ModelFile:
    """The output, by the letter of docs/format.md."""

    def __init__(self, path):
        self.data = open(path, "rb").read()
        n = struct.unpack_from("<Q", self.data)[0]
        self.start = 8 + n
        header = json.loads(self.data[8:self.start])
        self.meta = header.pop("__metadata__")
        self.header = header
        self.config = json.loads(self.meta["config"]) if "config" in self.meta else None
        self.tokenizer = json.loads(self.meta["tokenizer"]) if "tokenizer" in self.meta else None

    def bits(self, name):
        e = self.header[name]
        kind = {"U8": "<u1", "BF16": "<u2", "F16": "<u2", "F32": "<u4", "U32": "<u4", "I32": "<i4"}[e["dtype"]]
        begin, end = e["data_offsets"]
        return np.frombuffer(self.data[self.start + begin:self.start + end], kind).reshape(e["shape"])


def read_safetensors(path):
    """{name: (dtype, bits)} of a source file."""
    data = open(path, "rb").read()
    n = struct.unpack_from("<Q", data)[0]
    result = {}
    for name, e in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            b, end = e["data_offsets"]
            kind = {"F32": "<u4", "F64": "<u8", "I8": "<i1"}.get(e["dtype"], "<u2")
            result[name] = (e["dtype"], np.frombuffer(data[8 + n + b:8 + n + end], kind).reshape(e["shape"]))
    return result


def write_safetensors(path, tensors, metadata=None):
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, bits) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(bits.shape), "data_offsets": [at, at + bits.nbytes]}
        at += bits.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, bits in tensors.values():
            f.write(np.ascontiguousarray(bits).tobytes())


NAMES = {"attn_norm": "input_layernorm", "wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj",
         "wo": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "w_gate": "mlp.gate_proj",
         "w_up": "mlp.up_proj", "w_down": "mlp.down_proj"}


def hf_name(ours):
    """A second writing of the tensor names, so that the converter's table is not its own judge."""
    top = {"embed": "model.embed_tokens.weight", "final_norm": "model.norm.weight", "lm_head": "lm_head.weight"}
    if ours in top:
        return top[ours]
    _, layer, part = ours.split(".")
    bias = part.endswith("_bias")
    return "model.layers.%s.%s.%s" % (layer, NAMES[part[:-5] if bias else part], "bias" if bias else "weight")


def config_of(folder):
    return json.load(open(os.path.join(folder, "config.json")))


def source_tensors(folder):
    result = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("model") and name.endswith(".safetensors"):
            result.update(read_safetensors(os.path.join(folder, name)))
    return result


def fixtures():
    need(MODELS)
    return [os.path.join(MODELS, n) for n in sorted(os.listdir(MODELS)) if n.startswith(("llama", "mistral", "stories"))]


def made(name="made", config=None, drop=(), tensors=None, files=None):
    """A small folder of our own: a Llama with every size different. config: changed keys; drop: keys left out; tensors: a
    function that changes the dictionary of tensors; files: {name: bytes} written beside."""
    folder = temp(name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    c = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 37, "vocab_size": 50, "torch_dtype": "float32",
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "bos_token_id": 1,
         "eos_token_id": 2, "rope_theta": 10000.0, "hidden_act": "silu"}
    c.update(config or {})
    for key in drop:
        del c[key]
    json.dump(c, open(os.path.join(folder, "config.json"), "w"))
    random = np.random.default_rng(5)
    shapes = {"model.embed_tokens.weight": (50, 24), "model.norm.weight": (24,), "lm_head.weight": (50, 24)}
    for n in range(2):
        for ours, shape in (("attn_norm", (24,)), ("wq", (24, 24)), ("wk", (8, 24)), ("wv", (8, 24)), ("wo", (24, 24)),
                            ("ffn_norm", (24,)), ("w_gate", (37, 24)), ("w_up", (37, 24)), ("w_down", (24, 37))):
            shapes[hf_name("layers.%d.%s" % (n, ours))] = shape
    t = {k: ("F32", random.standard_normal(s).astype("<f4").view("<u4")) for k, s in shapes.items()}
    if tensors:
        tensors(t)
    write_safetensors(os.path.join(folder, "model.safetensors"), t, {"format": "pt"})
    for key, value in (files or {}).items():
        with open(os.path.join(folder, key), "wb") as f:
            f.write(value if isinstance(value, bytes) else json.dumps(value).encode())
    return folder


def to_f32(dtype, bits):
    return bits.view("<f4") if dtype == "F32" else bits.view("<f2").astype("<f4") if dtype == "F16" else \
        (bits.astype("<u4") << 16).view("<f4")


# ---- the file ----

def test_every_fixture_converts_to_the_same_bits_in_both_layouts():
    for folder in fixtures():
        source = source_tensors(folder)
        for layout in ("rows16", "rows"):
            m = converted(folder, "--layout", layout)
            names = [n for n in m.header if not n.startswith(("pad.", "tok."))]
            assert {hf_name(n) for n in names} == set(source), folder
            for name in names:
                dtype, bits = source[hf_name(name)]
                e = m.header[name]
                if bits.ndim == 1:
                    assert e["dtype"] == "F32" and np.array_equal(m.bits(name).view("<f4"), to_f32(dtype, bits)), name
                    continue
                stored = m.bits(name)
                assert e["dtype"] == dtype, name
                if layout == "rows16" and (name != "embed" or m.config["tied_embeddings"]):
                    stored = by_the_table(stored, dtype, *bits.shape)
                assert np.array_equal(stored, bits), "%s %s %s" % (folder, layout, name)


def by_the_table(stored, dtype, rows, k):
    """The table of docs/format.md, section Panels, element by element."""
    r, c = np.meshgrid(np.arange(rows), np.arange(k), indexing="ij")
    assert list(stored.shape) == ([-(-rows // 16), -(-k // 2), 16, 2] if dtype == "BF16" else [-(-rows // 16), k, 16])
    return stored[r // 16, c // 2, r % 16, c % 2] if dtype == "BF16" else stored[r // 16, c, r % 16]


def test_panels_are_padded_with_zeros():
    for dtype in ("F32", "F16", "BF16"):
        for rows, k in ((1, 1), (16, 2), (17, 5), (33, 64), (50, 37)):
            bits = np.random.default_rng(rows).integers(1, 1 << 15, (rows, k)).astype(floats.BITS[dtype])
            stored = panels.pack(bits, dtype)
            assert list(stored.shape) == panels.stored_shape(dtype, rows, k)
            assert np.array_equal(by_the_table(stored, dtype, rows, k), bits)
            assert np.array_equal(panels.unpack(stored, dtype, rows, k), bits)
            assert np.count_nonzero(stored) == rows * k


def test_the_file_is_laid_out_as_docs_format_says():
    for folder in fixtures():
        m = converted(folder)
        assert m.start % 4096 == 0
        at = 0
        for name, e in m.header.items():
            begin, end = e["data_offsets"]
            assert begin == at, "%s: a hole before %s" % (folder, name)
            at = end
            if name.startswith("pad."):
                assert e["dtype"] == "U8" and not any(m.data[m.start + begin:m.start + end])
            else:
                assert begin % 64 == 0, name
        assert m.start + at == len(m.data)
        assert m.meta["format"] == "tblock" and m.meta["version"] == "1"
        assert m.meta["sha256"] == hashlib.sha256(m.data[m.start:]).hexdigest()
        for s in json.loads(m.meta["source"]):
            assert s["sha256"] == hashlib.sha256(open(os.path.join(folder, s["file"]), "rb").read()).hexdigest()
        order = [n for n in m.header if not n.startswith(("pad.", "tok."))]
        assert order[0] == "embed" and order[1] == "layers.0.attn_norm" and order[2] == "layers.0.wq"
        assert ("lm_head" in order) != m.config["tied_embeddings"]


def test_the_safetensors_package_opens_it():
    try:
        from safetensors import safe_open
    except ImportError:
        raise Skip("no safetensors package")
    converted(made())
    with safe_open(temp("out.bin"), "np") as f:
        assert "layers.1.w_down" in f.keys() and f.metadata()["format"] == "tblock"
        assert f.get_tensor("layers.1.w_down").shape == (2, 37, 16)


def test_the_same_source_gives_the_same_bytes():
    folder = made()
    assert converted(folder, out="a.bin").data == converted(folder, out="b.bin").data
    assert TEMP.encode() not in open(temp("a.bin"), "rb").read()


# ---- config ----

def expect_config(m, **values):
    for key, value in values.items():
        assert m.config[key] == value, "%s: %r, expected %r" % (key, m.config[key], value)


def test_fixture_configs_say_what_their_folders_say():
    expected = {
        "llama-bias": dict(qkv_bias=True, out_bias=True, ffn_bias=True, norm_eps=1e-5, head_dim=12),
        "llama-gqa": dict(kv_heads=2, heads=8, theta=10000.0, rope={"type": "default"}, qkv_bias=False),
        "llama-headdim": dict(head_dim=20, d_model=48, norm_eps=0.01),
        "llama-linear-scaled": dict(rope={"type": "linear", "factor": 4.0}),
        "llama-mqa": dict(kv_heads=1, norm_eps=1e-6),
        "llama-tied": dict(tied_embeddings=True, theta=100000.0),
        "llama-wide": dict(d_ff=1100, n_ctx=512, theta=500000.0),
        "llama-yarn": dict(rope={"type": "yarn", "factor": 4.0, "original_n_ctx": 32.0}),
        "llama3-e2e": dict(bos=507, eos=[508, 511], rope={"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                                       "high_freq_factor": 4.0, "original_n_ctx": 64.0}),
        "mistral-window": dict(family="mistral", window=8, theta=1e6),
        "mistral-window100": dict(window=100), "mistral-window64": dict(window=64, kv_heads=1),
        "stories260K": dict(n_ctx=512, head_dim=8, eos=[2], bos=1),
    }
    for name, values in expected.items():
        expect_config(converted(need(MODELS, name)), **values)


def test_both_dialects_of_rope_give_the_same_config():
    llama3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    for kind, values in (("default", {}), ("linear", {"factor": 2}), ("llama3", llama3), ("yarn", {"factor": 2.0})):
        v4 = converted(made(config={"rope_theta": 5e5, "rope_scaling": dict(values, rope_type=kind)})).config
        old = converted(made(config={"rope_theta": 5e5, "rope_scaling": dict(values, type=kind)})).config
        v5 = converted(made(config={"rope_parameters": dict(values, rope_type=kind, rope_theta=5e5)}, drop=["rope_theta"])).config
        assert v4 == old == v5 and v5["theta"] == 5e5 and v5["rope"]["type"] == kind
    assert v5["rope"] == {"type": "yarn", "factor": 2.0, "original_n_ctx": 64.0}


def test_absent_keys_mean_the_default_of_the_family():
    m = converted(made(drop=["rope_theta", "rms_norm_eps", "tie_word_embeddings", "max_position_embeddings", "hidden_act",
                             "bos_token_id", "eos_token_id", "torch_dtype", "architectures"]))
    expect_config(m, theta=10000.0, norm_eps=1e-6, tied_embeddings=False, n_ctx=2048, bos=1, eos=[2], window=0, head_dim=4)

    def all_heads(t):
        for n in range(2):
            for ours in ("wk", "wv"):
                t[hf_name("layers.%d.%s" % (n, ours))] = ("F32", np.zeros((24, 24), "<u4"))
    expect_config(converted(made(drop=["num_key_value_heads"], tensors=all_heads)), kv_heads=6)
    mistral = {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
    expect_config(converted(made(config=mistral, drop=["max_position_embeddings"])), window=4096, n_ctx=131072)
    expect_config(converted(made(config=dict(mistral, sliding_window=None))), window=0)
    refused(made(config=mistral, drop=["num_key_value_heads"]), "kv_heads", "8")
    expect_config(converted(made(config={"head_dim": None, "bos_token_id": None, "eos_token_id": None})), head_dim=4, bos=-1, eos=[])


def test_generation_config_adds_ends_of_text():
    m = converted(made(config={"eos_token_id": [2, 5]}, files={"generation_config.json": {"eos_token_id": [5, 7]}}))
    expect_config(m, eos=[2, 5, 7])
    refused(made(files={"generation_config.json": {"eos_token_id": [51]}}), "eos", "vocab_size 50", "51")


def test_harmless_keys_are_ignored():
    m = converted(made(config={"use_cache": True, "initializer_range": 0.02, "attention_dropout": 0.5, "pretraining_tp": 4,
                               "transformers_version": "4.1", "_name_or_path": "x", "pad_token_id": 0, "some_new_key": None,
                               "attention_bias": False, "mlp_bias": False, "layer_types": ["full_attention"] * 2}))
    expect_config(m, qkv_bias=False)


def test_what_may_change_the_result_is_refused_by_name():
    def case(config, *expected, **more):
        refused(made(config=config, **more), "config.json: ", *expected)
    case({"model_type": "mixtral", "architectures": None}, "model_type", "llama, mistral", "'mixtral'")
    case({"model_type": None, "architectures": ["GPT2LMHeadModel"]}, "model_type", "null")
    case({"architectures": ["LlamaForSequenceClassification"]}, "architectures", "LlamaForSequenceClassification")
    case({"attention_sink": 4}, "'attention_sink'", "unknown", "--ignore-key")
    case({"hidden_act": "gelu"}, "hidden_act", "'silu'", "'gelu'")
    case({"quantization_config": {"quant_method": "gptq"}}, "quantization_config", "gptq")
    case({"partial_rotary_factor": 0.5}, "partial_rotary_factor", "0.5")
    case({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}, "partial_rotary_factor", "0.25")
    case({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type", "'dynamic'")
    case({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "rope_type", "'longrope'")
    case({"rope_scaling": {"rope_type": "linear"}}, "rope_scaling.factor", "no such key")
    case({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "rope.factor", "1 to 1000000")
    case({"rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2}}, "rope type", "linear", "yarn")
    case({"rope_scaling": {"rope_type": "linear", "factor": 2, "gamma": 3}}, "rope_scaling.gamma", "unknown")
    case({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor", "no such key")
    case({"rope_scaling": 3}, "rope_scaling", "an object or null")
    case({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, "rope_theta", "7.0", "10000.0")
    case({"rope_parameters": {"full_attention": {"rope_theta": 1.0}}}, "rope_parameters", "full_attention")
    case({"sliding_window": 4096}, "'sliding_window'", "unknown")
    case({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types[1]", "sliding_attention")
    case({"layer_types": ["full_attention"]}, "layer_types", "2 entries", "1")
    case({"num_key_value_heads": 4}, "kv_heads", "divisor of heads 6", "4")
    case({"num_attention_heads": 5}, "hidden_size", "multiple of num_attention_heads 5")
    case({"head_dim": 5}, "head_dim", "even")
    case({"hidden_size": 24.5}, "hidden_size", "whole number", "24.5")
    case({"hidden_size": "24"}, "hidden_size", "'24'")
    case({"hidden_size": 1 << 40}, "hidden_size", "1 to")
    case({"num_hidden_layers": 0}, "num_hidden_layers", "0")
    case({"rms_norm_eps": 0}, "norm_eps", "1e-30 to 1")
    case({"tie_word_embeddings": 1}, "tie_word_embeddings", "true or false")
    case({"eos_token_id": "2"}, "eos_token_id", "'2'")
    case({"bos_token_id": 50}, "bos", "50")
    case({"is_encoder_decoder": True}, "is_encoder_decoder", "false", "true")


def test_ignore_key_takes_an_unknown_key_as_unneeded():
    folder = made(config={"attention_sink": 4})
    status, _, err = convert(folder, "--ignore-key", "attention_sink")
    assert status == 0 and "attention_sink" in err
    refused(folder, "--ignore-key", "'other'", options=["--ignore-key", "other"])


def test_json_that_means_two_things_is_refused():
    folder = made()
    path = os.path.join(folder, "config.json")
    text = open(path, "rb").read()
    for change, *expected in ((text.replace(b"{", b'{"hidden_size": 8, ', 1), "'hidden_size' twice"),
                              (text.replace(b"1e-05", b"NaN"), "NaN"), (text.replace(b"1e-05", b"1e999"), "1e999"),
                              (text[:-1], "JSON", "line 1"), (b"\xff" + text, "UTF-8", "0xff"), (b"", "the file is empty"),
                              (b"\xef\xbb\xbf" + text, "JSON"), (b"[1]", "a JSON object", "an array"),
                              (b"[" * 200000, "nested")):
        with open(path, "wb") as f:
            f.write(change)
        refused(folder, "config.json", *expected)


# ---- tensors ----

Q = "model.layers.1.self_attn.q_proj.weight"
K = "model.layers.1.self_attn.k_proj.weight"


def test_missing_extra_and_misshaped_tensors_are_named():
    def case(change, *expected, **more):
        refused(made(tensors=change, **more), *expected)
    case(lambda t: t.pop(Q), Q, "[24, 24]", "no such tensor")
    case(lambda t: t.pop("lm_head.weight"), "lm_head.weight", "[50, 24]", "tie_word_embeddings")
    case(lambda t: t.update({K: ("F32", np.zeros((12, 24), "<u4"))}), K, "[8, 24]", "[12, 24]", "this fits 3")
    case(lambda t: t.update({Q: ("F32", np.zeros((24, 23), "<u4"))}), Q, "[24, 24]", "[24, 23]")
    case(lambda t: t.update({"model.embed_tokens.weight": ("F32", np.zeros((48, 24), "<u4"))}), "vocab_size 50", "fits 48")
    case(lambda t: t.update({"model.extra.weight": ("F32", np.zeros(3, "<u4"))}), "model.extra.weight", "no such tensor", "[3]")
    case(lambda t: t.update({"model.layers.0.self_attn.q_proj.bias": ("F32", np.zeros(24, "<u4"))}), "q_proj.bias", "no bias")
    case(lambda t: None, "no such tensor", "config has 1 layers", config={"num_hidden_layers": 1})
    case(lambda t: None, "q_proj.bias", "[24]", "asks for this bias", config={"attention_bias": True})
    case(lambda t: None, "gate_proj.bias", "[37]", config={"mlp_bias": True})
    case(lambda t: t.update({Q: ("F64", np.zeros((24, 24), "<u8"))}), Q, "F32, F16 or BF16", "F64")
    case(lambda t: t.update({Q: ("I8", np.zeros((24, 24), "<i1"))}), Q, "I8")


def test_a_tied_head_may_be_stored_if_it_is_the_same():
    tied = {"tie_word_embeddings": True}

    def same(t):
        t["lm_head.weight"] = t["model.embed_tokens.weight"]
    m = converted(made(config=tied, tensors=same))
    assert "lm_head" not in m.header and m.header["embed"]["shape"] == [4, 24, 16]
    without = converted(made(config=tied, tensors=lambda t: t.pop("lm_head.weight")))
    assert m.data[m.start:] == without.data[without.start:]
    refused(made(config=tied), "lm_head.weight", "tie_word_embeddings")


def test_stored_inv_freq_is_compared_and_ignored():
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    good = (10000.0 ** (-np.arange(0, 4, 2) / 4)).astype("<f4").view("<u4")
    status, _, err = convert(made(tensors=lambda t: t.update({name: ("F32", good)})))
    assert status == 0 and not err
    status, _, err = convert(made(config={"rope_theta": 500.0}, tensors=lambda t: t.update({name: ("F32", good)})))
    assert status == 0 and "warning" in err and name in err and "500" in err


def test_tensors_decide_the_type_whatever_the_config_says():
    def mixed(t):
        t[Q] = ("F16", t[Q][1].view("<f4").astype("<f2").view("<u2"))
        t[K] = ("BF16", (t[K][1] >> 16).astype("<u2"))
    folder = made(config={"torch_dtype": "bfloat16"}, tensors=mixed)
    m = converted(folder)
    assert m.header["layers.1.wq"]["dtype"] == "F16" and m.header["layers.1.wk"]["dtype"] == "BF16"
    assert m.header["layers.0.wq"]["dtype"] == "F32"
    assert "config says bfloat16" in convert(folder)[1]
    for option, dtype in (("f32", "F32"), ("f16", "F16"), ("bf16", "BF16")):
        m = converted(folder, "--dtype", option)
        for name, e in m.header.items():
            if not name.startswith("pad."):
                assert e["dtype"] == ("F32" if "norm" in name else dtype), name


def test_rounding_is_to_nearest_even():
    """f32 to bf16 and f16 against the definition: the nearest of the two neighbours, of two equally near the even one."""
    random = np.random.default_rng(1)
    bits = np.concatenate([random.integers(0, 1 << 32, 20000, dtype=np.uint64),
                           (np.arange(0x3F80, 0x3FA0, dtype=np.uint64) << 16) + 0x8000,      # halfway for bf16
                           (np.arange(0x38, 0x48, dtype=np.uint64) << 24) + 0x1000,          # halfway for f16
                           [0, 0x80000000, 1, 0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0x33000000, 0x33000001, 0x477FEFFF,
                            0x477FF000]]).astype("<u4")
    for dtype in ("BF16", "F16"):
        every = np.arange(1 << 16, dtype=np.uint16)
        with np.errstate(invalid="ignore"):
            values = to_f32(dtype, every).astype(float)
        order = every[:floats.INFINITY[dtype]]            # the finite values from 0 upward, in order of their bits
        steps = values[order]
        largest = steps[-1] + (steps[-1] - steps[-2]) / 2  # from here on: infinity
        got, lost = floats.convert(bits, "F32", dtype)
        with np.errstate(invalid="ignore"):
            x = bits.view("<f4").astype(float)
        n_lost = 0
        for b, v, g in zip(bits.tolist(), x.tolist(), got.tolist()):
            sign, v = (0x8000 if b >> 31 else 0), abs(v)
            if v != v:
                assert g & 0x7FFF > floats.INFINITY[dtype], "NaN %08x" % b
                continue
            if v >= largest:
                expected = floats.INFINITY[dtype]
                n_lost += v != float("inf")
            else:
                above = int(np.searchsorted(steps, v))
                if above == 0 or above == len(steps):
                    expected = min(above, len(steps) - 1)
                else:
                    low, high = v - steps[above - 1], steps[above] - v
                    expected = above if high < low or (high == low and above % 2 == 0) else above - 1
            assert g == sign + expected, "%s of %08x: %04x, expected %04x" % (dtype, b, g, sign + expected)
        assert lost == n_lost


def test_a_value_too_large_for_the_type_is_refused():
    def large(t):
        t[Q] = ("F32", np.full((24, 24), np.float32(70000.0).view("<u4")))
    folder = made(tensors=large)
    refused(folder, Q, "F16", "576 too large", options=["--dtype", "f16"])
    converted(folder, "--dtype", "bf16")


def test_nan_and_infinity_are_kept_and_counted():
    odd = np.array([0x7FA00001, 0xFF800000, 0xFFC00123], "<u4")

    def change(t):
        bits = t[Q][1].copy()
        bits[0, :3] = odd
        t[Q] = ("F32", bits)
    status, _, err = convert(made(tensors=change), out="out.bin")
    assert status == 0 and "tensor %s: 3 values are NaN or infinite" % Q in err
    assert np.array_equal(by_the_table(ModelFile(temp("out.bin")).bits("layers.1.wq"), "F32", 24, 24)[0, :3], odd)


# ---- safetensors and shards ----

def test_a_broken_safetensors_file_is_refused():
    folder = made()
    path = os.path.join(folder, "model.safetensors")
    good = open(path, "rb").read()
    n = struct.unpack_from("<Q", good)[0]
    header = json.loads(good[8:8 + n])

    def case(data, *expected):
        with open(path, "wb") as f:
            f.write(data)
        refused(folder, "model.safetensors", *expected)

    def edited(**entry):
        h = json.loads(json.dumps(header))
        h[Q].update(entry)
        text = json.dumps(h).encode()
        return struct.pack("<Q", len(text)) + text + good[8 + n:]
    offsets = header[Q]["data_offsets"]
    case(good[:-1], "cut short")
    case(good + b"x", "after the last tensor")
    case(good[:7], "at least 8 bytes")
    case(struct.pack("<Q", 1 << 63) + good[8:], "header length", str(1 << 63))
    case(struct.pack("<Q", len(good)) + good[8:], "header length")
    case(edited(dtype="F33"), Q, "'F33'")
    case(edited(shape=[24, 25]), Q, "2400 bytes", "2304")
    case(edited(shape=[24, -24]), Q, "shape")
    case(edited(shape=[1 << 62, 1 << 62]), Q, "bytes")
    case(edited(data_offsets=[offsets[0] + 4, offsets[1] + 4]), "hole")
    case(edited(data_offsets=[offsets[0] - 4, offsets[1] - 4]), "overlap")
    case(edited(data_offsets=[0]), Q, "data_offsets")
    case(edited(extra=1), Q, "extra")
    case(good[:8] + good[8:8 + n].replace(b'"lm_head.weight"', b'"model.norm.weight"', 1)[:n] + good[8 + n:], "header")
    for at in range(0, len(good), 997):
        case(good[:at])


def test_shards_are_checked_against_their_index():
    source = need(MODELS, "llama-sharded")
    folder = temp("shards")

    def fresh():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        for name in os.listdir(folder):
            os.chmod(os.path.join(folder, name), 0o644)
        os.chmod(folder, 0o755)
        return json.load(open(os.path.join(folder, "model.safetensors.index.json")))

    def save(index):
        json.dump(index, open(os.path.join(folder, "model.safetensors.index.json"), "w"))
    fresh()
    os.unlink(os.path.join(folder, "model-00002-of-00002.safetensors"))
    refused(folder, "model-00002-of-00002.safetensors", "no such file")
    fresh()
    os.unlink(os.path.join(folder, "model.safetensors.index.json"))
    refused(folder, "model.safetensors.index.json", "model-00001-of-00002.safetensors")
    index = fresh()
    index["weight_map"]["lm_head.weight"] = "../lm.safetensors"
    save(index)
    refused(folder, "plain file names", "../lm.safetensors")
    index = fresh()
    index["weight_map"]["lm_head.weight"] = "model-00001-of-00002.safetensors"
    save(index)
    refused(folder, "lm_head.weight")
    index = fresh()
    del index["weight_map"]["lm_head.weight"]
    save(index)
    refused(folder, "lm_head.weight", "none")
    index = fresh()
    index["weight_map"]["ghost"] = "model-00001-of-00002.safetensors"
    save(index)
    refused(folder, "ghost")


# ---- llama2.c ----

def test_llama2c_gives_the_tensors_of_its_hugging_face_folder():
    hf = converted(need(MODELS, "stories260K"))
    tok = need(MODELS, "stories260K", "llama2c", "tok512.bin")
    legacy = converted(need(MODELS, "stories260K", "llama2c", "stories260K.bin"), "--tokenizer", tok)
    assert legacy.data[legacy.start:] == hf.data[hf.start:]
    version1 = converted(need(DATA, "models", "stories260K", "stories260K.v1.bin"), "--tokenizer",
                         need(DATA, "models", "stories260K", "tok512.model"))
    assert version1.data[version1.start:] == hf.data[hf.start:]
    for m in (legacy, version1):
        for key in hf.config:
            assert key == "eos" or m.config[key] == hf.config[key], key
        assert m.config["eos"] == [1, 2]
    assert {s["file"] for s in json.loads(legacy.meta["source"])} == {"stories260K.bin", "tok512.bin"}


def llama2c_file(path, tied, version):
    """dim 8, hidden 6, 2 layers, 4 heads, 2 kv heads, vocabulary 5, context 3. Returns the tensors by our names, wq and wk
    in halves already."""
    random = np.random.default_rng(2)
    shapes = {"embed": (5, 8), "attn_norm": (8,), "wq": (8, 8), "wk": (4, 8), "wv": (4, 8), "wo": (8, 8), "ffn_norm": (8,),
              "w_gate": (6, 8), "w_down": (8, 6), "w_up": (6, 8), "final_norm": (8,), "lm_head": (5, 8)}
    once = ("embed", "final_norm", "lm_head")
    t = {k: random.standard_normal(((1,) if k in once else (2,)) + s).astype("<f4") for k, s in shapes.items()}
    sizes = (8, 6, 2, 4, 2, 5 if tied or version else -5, 3)
    angle = np.outer(np.arange(3), [1.0]).astype("<f4")
    head = [] if tied else [t["lm_head"]]
    if version == 0:
        parts = [t[k] for k in ("embed", "attn_norm", "wq", "wk", "wv", "wo", "ffn_norm", "w_gate", "w_down", "w_up", "final_norm")]
        data = struct.pack("<7i", *sizes) + b"".join(p.tobytes() for p in parts + [np.cos(angle), np.sin(angle)] + head)
    else:
        parts = [t[k] for k in ("attn_norm", "ffn_norm", "final_norm", "embed", "wq", "wk", "wv", "wo", "w_gate", "w_down", "w_up")]
        data = (struct.pack("<Ii7iB", 0x616B3432, version, *sizes, tied)).ljust(256, b"\0") + b"".join(
            p.tobytes() for p in parts + head)
    with open(path, "wb") as f:
        f.write(data)
    result = {}
    for k, array in t.items():
        for n, a in enumerate(array):
            if k in ("wq", "wk"):   # head_dim 2: pairs and halves are the same; see the fixture above for larger heads
                a = a.reshape(-1, 1, 2, 8).transpose(0, 2, 1, 3).reshape(-1, 8)
            result[k if k in once else "layers.%d.%s" % (n, k)] = a
    return result


def test_llama2c_files_tied_and_untied_in_both_versions():
    for version in (0, 1):
        for tied in (False, True):
            expected = llama2c_file(temp("model.bin"), tied, version)
            m = converted(temp("model.bin"), "--layout", "rows")
            assert m.config["tied_embeddings"] == tied and m.config["vocab_size"] == 5
            for name, a in expected.items():
                if name == "lm_head" and tied:
                    assert name not in m.header
                else:
                    assert np.array_equal(m.bits(name).view("<f4"), a), name


def test_llama2c_files_that_do_not_fit_are_refused():
    llama2c_file(temp("model.bin"), False, 0)
    data = open(temp("model.bin"), "rb").read()

    def case(data, *expected):
        with open(temp("bad.bin"), "wb") as f:
            f.write(data)
        refused(temp("bad.bin"), *expected)
    case(data[:-4], "cut short")
    case(data + b"0000", "vocab_size 5")
    case(struct.pack("<Ii", 0x616B3432, 2) + bytes(248), "version", "int8", "--version 1")
    case(struct.pack("<Ii", 0x616B3432, 1) + bytes(248), "dim", "above 0")
    case(struct.pack("<Ii", 0x616B3432, 9) + bytes(248), "version", "9")
    case(struct.pack("<Ii", 0x616B3432, 1), "none of these")
    if os.path.exists(os.path.join(DATA, "models")):
        refused(os.path.join(DATA, "models", "stories260K", "stories260K.q80-gs8.bin"), "int8")


# ---- tokenizers ----

def fnv(piece):
    h = 0xCBF29CE484222325
    for b in piece:
        h = (h ^ b) * 0x100000001B3 % (1 << 64)
    return h


class Vocabulary:
    """The tokenizer of a model file, with look-ups as docs/format.md defines them."""

    def __init__(self, m):
        self.settings = m.tokenizer
        data, offsets = m.bits("tok.bytes").tobytes(), m.bits("tok.offsets").tolist()
        self.pieces = [data[a:b] for a, b in zip(offsets, offsets[1:])]
        self.types = m.bits("tok.types").tolist()
        self.index = m.bits("tok.index").tolist()
        if self.settings["type"] == "spm":
            self.scores = m.bits("tok.scores").view("<f4")
        else:
            self.merges, self.merge_index = m.bits("tok.merges").tolist(), m.bits("tok.merge_index").tolist()
        assert len(self.pieces) == len(self.types) == self.settings["size"] and offsets[-1] == len(data)

    def find(self, piece):
        at = fnv(piece) % len(self.index)
        while self.index[at] >= 0:
            if self.pieces[self.index[at]] == piece:
                return self.index[at]
            at = (at + 1) % len(self.index)
        return -1

    def find_merge(self, left, right):
        h = (left * 0x9E3779B97F4A7C15 + right * 0xC2B2AE3D27D4EB4F) % (1 << 64)
        at = (h ^ h >> 32) % len(self.merge_index)
        while self.merge_index[at] >= 0:
            if self.merges[self.merge_index[at]][:2] == [left, right]:
                return self.merge_index[at]
            at = (at + 1) % len(self.merge_index)
        return -1

    def encode_spm(self, text):
        """SentencePiece BPE, plainly: merge the best neighbours until there are none."""
        s = self.settings
        if s["remove_extra_whitespaces"]:
            text = b" ".join(w for w in text.split(b" ") if w)
        if s["add_dummy_prefix"] and text:
            text = b" " + text
        if s["escape_whitespaces"]:
            text = text.replace(b" ", "\u2581".encode())
        parts = [c.encode() for c in text.decode()]
        while True:
            best = None
            for i in range(len(parts) - 1):
                j = self.find(parts[i] + parts[i + 1])
                if j >= 0 and (best is None or self.scores[j] > best[0]):
                    best = (self.scores[j], i)
            if best is None:
                break
            parts[best[1]:best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]
        ids = []
        byte = {p: i for i, p in enumerate(self.pieces) if self.types[i] == 6}
        for p in parts:
            i = self.find(p)
            if i < 0 and s["byte_fallback"]:
                ids.extend(byte[bytes([b])] for b in p)
            else:
                ids.append(i if i >= 0 else s["unk"])
        return ids

    def encode_bpe(self, text, regex):
        pieces = [text]
        for step in self.settings["pretokenize"]:
            assert step["behavior"] == "isolated" and not step["invert"]
            pieces = [q for p in pieces for q in split_isolated(regex, step["regex"], p)]
        ids = []
        for p in pieces:
            p = p.encode()
            whole = self.find(p) if self.settings["ignore_merges"] else -1
            word = [whole] if whole >= 0 else [self.find(bytes([b])) for b in p]
            while len(word) > 1:
                rows = [(self.find_merge(a, b), i) for i, (a, b) in enumerate(zip(word, word[1:]))]
                rows = [r for r in rows if r[0] >= 0]
                if not rows:
                    break
                row, i = min(rows)
                word[i:i + 2] = [self.merges[row][2]]
            ids.extend(word)
        return ids


def split_isolated(regex, pattern, text):
    result, at = [], 0
    for m in regex.finditer(pattern, text):
        result += [text[at:m.start()], m.group()]
        at = m.end()
    return [p for p in result + [text[at:]] if p]


def cases(name):
    for line in open(os.path.join(TOKENIZERS, name, "cases.jsonl")):
        case = json.loads(line)
        if "text" in case and "ids" in case and case["mode"] != "decode" and not case.get("add_special") and len(case["text"]) < 300:
            yield case


def test_sentencepiece_vocabularies_give_the_recorded_ids():
    for name in ("llama2-sp", "sp-bpe", "stories-sp512"):
        v = Vocabulary(converted(need(TOKENIZERS, name, "tokenizer.model")))
        n = 0
        for case in cases(name):
            if "\x00" in case["text"] or "\u2581" in case["text"]:   # the library strips a written U+2581 like a space
                continue
            got = v.encode_spm(case["text"].encode())
            assert got == case["ids"], "%s %r: %s, expected %s" % (name, case["text"], got, case["ids"])
            n += 1
        assert n > 100


def test_byte_level_vocabularies_give_the_recorded_ids():
    try:
        import regex
    except ImportError:
        raise Skip("no regex package (it knows \\p{L})")
    for name in ("bpe-gpt2", "bpe-llama3", "bpe-smollm", "llama3-tiktoken"):
        file = "tokenizer.model" if name == "llama3-tiktoken" else "tokenizer.json"
        v = Vocabulary(converted(need(TOKENIZERS, name, file)))
        special = [v.pieces[s["id"]].decode() for s in v.settings["special"]]
        n = 0
        for case in cases(name):
            if any(s in case["text"] for s in special):
                continue
            got = v.encode_bpe(case["text"], regex)
            assert got == case["ids"], "%s %r: %s, expected %s" % (name, case["text"], got, case["ids"])
            n += 1
        assert n > 100


def test_every_piece_and_merge_is_found_in_the_hash_tables():
    for path in (("llama3-e2e",), ("stories260K",)):
        v = Vocabulary(converted(need(MODELS, *path)))
        slots = len(v.index)
        assert slots & (slots - 1) == 0 and 2 * sum(i >= 0 for i in v.index) <= slots
        for i, p in enumerate(v.pieces):
            if v.types[i] == 1:
                assert v.find(p) >= 0 and v.pieces[v.find(p)] == p
        if v.settings["type"] == "bpe":
            for n, (a, b, c) in enumerate(v.merges):
                assert v.find_merge(a, b) == n and v.pieces[a] + v.pieces[b] == v.pieces[c]


def test_templates_and_special_tokens():
    m = converted(need(MODELS, "llama3-e2e"))
    t = m.tokenizer
    assert (t["bos"], t["eos"], t["prefix"], t["suffix"]) == (507, 508, [507], [])
    assert [s["id"] for s in t["special"]] == [507, 508, 509, 510, 511] and t["ignore_merges"]
    v = Vocabulary(m)
    assert v.pieces[507] == b"<|begin_of_text|>" and v.types[507] == 3 and v.find(v.pieces[507]) < 0
    t = converted(need(MODELS, "stories260K")).tokenizer
    assert (t["bos"], t["eos"], t["unk"], t["prefix"]) == (1, 2, 0, [1]) and t["remove_extra_whitespaces"]
    shakespeare = converted(need(SHARED, "models", "shakespeare"))
    t = shakespeare.tokenizer
    assert (t["size"], t["bos"], t["eos"], t["prefix"]) == (1024, 0, 1, [])


def bpe_json(**changes):
    """A byte-level tokenizer.json with all bytes, 'ab' and 'abc'."""
    from tblock_convert import bytelevel
    vocabulary = {c: i for i, c in enumerate(sorted(bytelevel.BYTE_OF))}
    vocabulary.update({"ab": 256, "abc": 257})
    root = {"version": "1.0", "added_tokens": [{"id": 258, "content": "<|x|>", "special": True, "lstrip": True}], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": ["a b", ["ab", "c"]]}}
    for key, value in changes.items():
        where = root
        *path, last = key.split("__")
        for p in path:
            where = where[p]
        where[last] = value
    return json.dumps(root).encode()


def token_file(data, name="tokenizer.json"):
    with open(temp(name), "wb") as f:
        f.write(data)
    return temp(name)


def test_byte_level_traps():
    v = Vocabulary(converted(token_file(bpe_json())))
    assert v.settings["special"] == [{"id": 258, "lstrip": True}] and v.pieces[258] == b"<|x|>"
    assert v.pieces[v.find(b"abc")] == b"abc" and v.merges[1] == [256, v.find(b"c"), 257]
    assert sorted(v.pieces[:256]) == [bytes([b]) for b in range(256)]
    v = Vocabulary(converted(token_file(bpe_json(added_tokens=[{"id": 300, "content": "<y>"}]))))   # a hole
    assert v.settings["size"] == 301 and v.types[299] == 5 and v.pieces[299] == b"" and v.settings["special"] == [
        {"id": 300, "special": False}]
    v = Vocabulary(converted(token_file(bpe_json(model__merges=["a b", "ab c", "a b"]))))   # the later of two holds
    assert [m[2] for m in v.merges] == [257, 256]
    split = {"type": "Split", "pattern": {"String": "a.b"}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    digits = {"type": "Digits", "individual_digits": True}
    v = converted(token_file(bpe_json(pre_tokenizer={"type": "Sequence", "pretokenizers": [split, digits, level]})))
    assert v.tokenizer["pretokenize"] == [{"regex": "a\\.b", "behavior": "isolated", "invert": False},
                                          {"regex": "\\p{N}", "behavior": "isolated", "invert": False}]

    def case(expected, **changes):
        refused(token_file(bpe_json(**changes)), "tokenizer.json", *expected)
    assert converted(token_file(bpe_json(normalizer={"type": "NFC"}))).tokenizer["normalizer"] == "nfc"
    case(("normalizer", "'NFKC'"), normalizer={"type": "NFKC"})
    for change, expected in ({"behavior": "Removed"}, "'Removed'"), ({"invert": True}, "invert"), ({"pattern": {"x": "y"}}, "'x'"):
        case((expected,), pre_tokenizer={"type": "Sequence", "pretokenizers": [dict(split, **change), level]})
    case(("model.type", "'Unigram'"), model__type="Unigram")
    case(("model.type", "'WordPiece'"), model__type="WordPiece")
    case(("pre_tokenizer", "'Whitespace'"), pre_tokenizer={"type": "Whitespace"})
    case(("pre_tokenizer", "null"), pre_tokenizer=None)
    case(("pre_tokenizer", "'Punctuation'"), pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Punctuation"}, level]})
    case(("post_processor", "'BertProcessing'"), post_processor={"type": "BertProcessing"})
    case(("model.dropout", "0.1"), model__dropout=0.1)
    case(("continuing_subword_prefix", "'##'"), model__continuing_subword_prefix="##")
    case(("merges[0]", "'q?'"), model__merges=["q ?"])
    case(("merges[0]", "two pieces"), model__merges=["abc"])
    case(("vocab", "an id of its own"), model__vocab__ab=3)
    case(("an id of its own", "'ab'"), added_tokens=[{"id": 256, "content": "<z>"}])
    case(("half a surrogate",), added_tokens=[{"id": 258, "content": "\ud800"}])


def test_sentencepiece_traps():
    for name in ("m.model", "sentencepiece_unigram.model"):
        refused(need(DATA, "tokenizers", "small", name), "model type", "BPE", "unigram")
    good = open(need(TOKENIZERS, "sp-bpe", "tokenizer.model"), "rb").read()
    for at in range(0, len(good), 97):
        with open(temp("cut.model"), "wb") as f:
            f.write(good[:at])
        refused(temp("cut.model"))
    path = token_file(b"!!! 0\n", "ranks.model")
    refused(path, "none of these")
    refused(token_file(b"IQ== 0\nIQ== 1\n", "ranks.model"), "line 2")
    refused(token_file(b"IQ== 0\nIg== 1\n", "ranks.model"), "split pattern")


def test_added_tokens_of_a_folder_are_merged():
    ids = json.loads(bpe_json())["model"]["vocab"]
    files = {"tokenizer.json": bpe_json(added_tokens=[{"id": 258, "content": "<|x|>", "special": True}]),
             "tokenizer_config.json": {"bos_token": "<|x|>", "eos_token": {"content": "<|end|>"}, "add_bos_token": True,
                                       "tokenizer_class": "LlamaTokenizerFast",
                                       "added_tokens_decoder": {"259": {"content": "<|end|>", "special": True}}},
             "added_tokens.json": {"<y>": 260}}

    def grown(t):
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            t[name] = ("F32", np.zeros((261, 24), "<u4"))
    m = converted(made(config={"vocab_size": 261}, tensors=grown, files=files))
    t = m.tokenizer
    assert (t["bos"], t["eos"], t["prefix"], t["suffix"], t["size"]) == (258, 259, [258], [], 261)
    assert [(s["id"], s.get("special", True)) for s in t["special"]] == [(258, True), (259, True), (260, False)] and len(ids) == 258
    status, _, err = convert(made(files=files))
    assert status == 0 and "the tokenizer has 261 ids, the embedding 50 rows" in err


def test_a_folder_without_a_tokenizer_converts():
    status, out, err = convert(made())
    assert status == 0 and not err and "tokenizer   none" in out and ModelFile(temp("out.bin")).tokenizer is None


# ---- the command ----

def command(*args, **more):
    return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "convert.py")] + list(args), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, **more)


def test_usage_errors_have_status_2_and_one_line():
    folder = made()
    for args, expected in (([], "SRC"), ([folder], "-o"), ([folder, "-o", temp("o.bin"), "--dtype", "f64"], "f64"),
                           ([folder, "-o", temp("o.bin"), "--frob"], "--frob"), ([folder, "-o", TEMP], "a folder"),
                           ([folder, "-o", "/dev/null"], "something else")):
        done = command(*args)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and expected in done.stderr, (args, done.stderr)
        assert done.stdout == ""
    done = command("--help")
    assert done.returncode == 0 and "--layout" in done.stdout and done.stderr == ""
    source = token_file(bpe_json())
    done = command(source, "-o", source)
    assert done.returncode == 2 and "one of the sources" in done.stderr and os.path.getsize(source) == len(bpe_json())


def test_missing_and_unknown_sources_have_status_3():
    refused(temp("nowhere"), "no such file")
    refused(token_file(b"GGUF" + bytes(60), "x.gguf"), "GGUF")
    refused(token_file(b"PK\3\4" + bytes(60), "x.bin"), "PyTorch")
    refused(token_file(b"", "empty"), "none of these")
    refused(os.path.join(made(), "model.safetensors"), "give its folder")
    os.makedirs(temp("bare"), exist_ok=True)
    refused(temp("bare"), "config.json", "no such file")
    status, _, err = convert(made(), out="no/such/folder.bin")
    assert status == 4 and "no folder" in err


def test_a_full_disk_leaves_the_old_file_whole():
    import resource
    folder, out = made(), temp("old.bin")
    with open(out, "wb") as f:
        f.write(b"old")
    done = command(folder, "-o", out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    assert done.returncode == 4 and "cannot be written" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert open(out, "rb").read() == b"old" and not [n for n in os.listdir(TEMP) if n.endswith(".tmp")]


def sparse_folder(name, n_layers):
    """A folder whose weights are holes in a sparse file: 16 MB a layer, in the largest tensor 4 MB."""
    folder = temp(name)
    os.makedirs(folder, exist_ok=True)
    d, ff = 1024, 1024
    json.dump({"model_type": "llama", "hidden_size": d, "num_hidden_layers": n_layers, "num_attention_heads": 16,
               "intermediate_size": ff, "vocab_size": 64, "tie_word_embeddings": True}, open(os.path.join(folder, "config.json"), "w"))
    header, at = {}, 0
    shapes = {"model.embed_tokens.weight": [64, d], "model.norm.weight": [d]}
    for n in range(n_layers):
        for ours in NAMES:
            shapes[hf_name("layers.%d.%s" % (n, ours))] = [d] if "norm" in ours else [d, d]
    for key, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    return folder, at


def test_memory_stays_under_256_MB_whatever_the_size():
    folder, n_bytes = sparse_folder("sparse", 16)
    assert n_bytes > 400 << 20
    code = ("import os,resource,sys; os.spawnv(os.P_WAIT, sys.executable, [sys.executable] + sys.argv[1:]);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    done = subprocess.run([sys.executable, "-c", code, os.path.join(ROOT, "tools", "convert.py"), folder, "-o", temp("out.bin"),
                           "--dtype", "bf16", "--quiet"], stdout=subprocess.PIPE, universal_newlines=True, check=True)
    most = int(done.stdout) << 10
    assert os.path.getsize(temp("out.bin")) > n_bytes // 2
    shutil.rmtree(folder)
    os.unlink(temp("out.bin"))
    assert most < 256 << 20, "%d MB" % (most >> 20)


def test_interrupted_it_removes_what_it_wrote():
    folder, _ = sparse_folder("sparse", 16)
    for number in (signal.SIGINT, signal.SIGTERM):
        child = subprocess.Popen([sys.executable, os.path.join(ROOT, "tools", "convert.py"), folder, "-o", temp("gone.bin")],
                                 stderr=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        for _ in range(500):
            if any("gone.bin" in n for n in os.listdir(TEMP)) or child.poll() is not None:
                break
            time.sleep(0.01)
        child.send_signal(number)
        out, err = child.communicate()
        assert child.returncode == 130 and err == "convert.py: interrupted, nothing written\n" and out == "", (child.returncode, err)
        assert not [n for n in os.listdir(TEMP) if "gone" in n]
    shutil.rmtree(folder)


def main(names):
    global TEMP
    tests = {n[len("test_"):]: f for n, f in globals().items() if n.startswith("test_")}
    if "--list" in names:
        print("\n".join(tests))
        return 0
    failed = 0
    for name in names or tests:
        with tempfile.TemporaryDirectory() as TEMP:
            try:
                tests[name]()
                print("ok %s" % name)
            except Skip as e:
                print("skip %s: %s" % (name, e))
            except AssertionError as e:
                failed += 1
                line = traceback.extract_tb(e.__traceback__)[-1].lineno
                print("FAIL %s: %s (line %d)" % (name, str(e).replace("\n", " ") or "assertion", line))
            except Exception as e:
                failed += 1
                where = traceback.extract_tb(e.__traceback__)[-1]
                print("FAIL %s: %r (%s:%d)" % (name, e, os.path.basename(where.filename), where.lineno))
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
