#!/usr/bin/env python3
"""Bad input: every wrong file, option and output gets one line on stderr, the documented exit status, and leaves nothing behind.

    input.py [--build DIR] [--only TEXT]

Files are made here byte by byte, so that each is wrong in one way. Under an address sanitizer build a report counts as a
failure too: it is more than one line.
"""
import argparse
import concurrent.futures
import copy
import hashlib
import json
import math
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
NO, USAGE, INPUT, SYSTEM = 1, 2, 3, 4
TIMEOUT = 600  # seconds; a busy machine is no failure


# ---- A model file, small enough to take apart ----

CONFIG = {"family": "llama", "d_model": 8, "n_layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 4, "d_ff": 6, "vocab_size": 12, "n_ctx": 32}
SHAPES = {"embed": [12, 8], "layers.0.attn_norm": [8], "layers.0.wq": [8, 8], "layers.0.wk": [4, 8], "layers.0.wv": [4, 8],
          "layers.0.wo": [8, 8], "layers.0.ffn_norm": [8], "layers.0.w_gate": [6, 8], "layers.0.w_up": [6, 8], "layers.0.w_down": [8, 6],
          "final_norm": [8], "lm_head": [12, 8]}


# Of the file with quantized matrices, parts in their order: two k of a superblock, padded to 64; all codes 3, all scales 1/64.
QUANTIZED = {"layers.0.wq": ("q8", {"": ("I8", [1, 16, 16, 4], b"\3"), ".d": ("F16", [1, 1, 16], b"\0\x24")}),
             "layers.0.w_gate": ("q4", {"": ("U8", [1, 16, 16, 2], b"\x99"), ".s": ("U8", [1, 1, 40], b"\x11"),
                                        ".d": ("F16", [1, 1, 16], b"\0\x24")})}


class ModelFile:
    """A right model file of layout rows, or with quantized matrices; change header, metadata or data, then write."""

    def __init__(self, quantized=False):
        self.header, self.data, pads = {}, b"", 0
        self.meta = {"format": "tblock", "version": "1", "config": json.dumps(CONFIG), "source": "[]"}
        rng = random.Random(1)
        for name, shape in SHAPES.items():
            kind, parts = QUANTIZED.get(name, (None, None)) if quantized else (None, None)
            if kind:
                self.meta["type." + name] = kind
            for suffix, (dtype, dims, fill) in (parts or {"": ("F32", shape, b"")}).items():
                n = math.prod(dims)
                if len(self.data) % 64:
                    pad = -len(self.data) % 64
                    self.add(f"pad.{pads}", "U8", [pad], bytes(pad))
                    pads += 1
                self.add(name + suffix, dtype, dims, fill * n or struct.pack(f"<{n}f", *(rng.uniform(-0.5, 0.5) for _ in range(n))))
        self.meta["sha256"] = hashlib.sha256(self.data).hexdigest()

    def add(self, name, dtype, shape, data):
        self.header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(self.data), len(self.data) + len(data)]}
        self.data += data

    def config(self, **changes):
        """Change keys of the config; None takes a key away."""
        c = {**CONFIG, **changes}
        self.meta["config"] = json.dumps({k: v for k, v in c.items() if v is not None})

    def bytes(self, text=None, length=None, pad=True):
        text = json.dumps({"__metadata__": self.meta, **self.header}).encode() if text is None else text
        text += b" " * ((-(len(text) + 8) % 4096) if pad else 0)
        return struct.pack("<Q", len(text) if length is None else length) + text + self.data


def shift(m, name, begin=0, end=0):
    offsets = m.header[name]["data_offsets"]
    m.header[name]["data_offsets"] = [offsets[0] + begin, offsets[1] + end]


def raw(m, old, new):
    """The header's text with old replaced by new: what json.dumps cannot write."""
    text = json.dumps({"__metadata__": m.meta, **m.header})
    assert old in text, old
    return m.bytes(text.replace(old, new, 1).encode())


def bad_files():
    """(name, bytes, words that the message must hold)."""
    cases = []

    def case(name, *words):
        """case(NAME, WORD...)(change): change a good file, or return the whole file's bytes."""
        def add(change):
            m = ModelFile()
            data = change(m)
            cases.append((name, m.bytes() if data is None else data, words))
        return add

    def tensor(name, **keys):
        return lambda m: m.header[name].update(keys)

    # the header
    good = ModelFile().bytes()
    for length in (2**63, 2**63 - 1, 2**64 - 1, 0, 1, 7, len(good), len(good) - 7, 100_000_001, 2**32):
        case(f"header_length_{length}")(lambda m: m.bytes(length=length))
    for n in range(0, 9):
        case(f"only_{n}_bytes")(lambda m: good[:n])
    for what, text in (("array", b"[]"), ("number", b"1"), ("empty_object", b"{}"), ("nothing", b""), ("half", b'{"a": {"dtype"'), ("nul", b'{"a\0": 1}'),
                       ("not_utf8", b'{"\xff": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}'), ("deep", b'{"a":' * 100 + b"1" + b"}" * 100),
                       ("trailing", b"{} {}"), ("tensor_is_a_number", b'{"a": 1}'), ("deep_arrays", b"[" * 100000)):
        case(f"header_{what}")(lambda m: m.bytes(text=text))

    # tensors: dtype, shape, offsets
    case("dtype_i32", "layers.0.wq")(tensor("layers.0.wq", dtype="I32"))
    case("dtype_of_other_size", "layers.0.wq")(tensor("layers.0.wq", dtype="F64"))
    case("dtype_unknown", "layers.0.wq")(tensor("layers.0.wq", dtype="F33"))
    case("dtype_number", "layers.0.wq")(tensor("layers.0.wq", dtype=5))
    case("norm_of_integers", "final_norm")(tensor("final_norm", dtype="I32"))
    case("shape_other", "layers.0.wq", "[8, 8]", "[4, 16]")(tensor("layers.0.wq", shape=[4, 16]))
    case("shape_transposed", "layers.0.w_gate", "[6, 8]", "[8, 6]")(tensor("layers.0.w_gate", shape=[8, 6]))
    case("shape_flat", "layers.0.wq")(tensor("layers.0.wq", shape=[64]))
    case("shape_rank_3", "layers.0.wq")(tensor("layers.0.wq", shape=[2, 4, 8]))
    case("shape_rank_9", "layers.0.wq")(tensor("layers.0.wq", shape=[1, 1, 1, 1, 1, 1, 1, 8, 8]))
    case("norm_of_rank_2", "final_norm")(tensor("final_norm", shape=[1, 8]))
    case("shape_negative", "layers.0.wq")(tensor("layers.0.wq", shape=[-8, -8]))
    case("shape_zero", "layers.0.wq")(tensor("layers.0.wq", shape=[0, 8]))
    case("shape_fraction", "layers.0.wq")(tensor("layers.0.wq", shape=[8.5, 8]))
    case("shape_overflows", "layers.0.wq")(tensor("layers.0.wq", shape=[2**32, 2**32 + 64]))
    case("shape_over_2_53", "layers.0.wq")(tensor("layers.0.wq", shape=[2**60, 8]))
    case("shape_text", "layers.0.wq")(tensor("layers.0.wq", shape="8"))
    case("shape_missing", "layers.0.wq")(lambda m: m.header["layers.0.wq"].pop("shape") and None)
    case("offsets_overlap", "layers.0.wo")(lambda m: shift(m, "layers.0.wo", -64, -64))
    case("offsets_equal", "layers.0.wk")(lambda m: m.header.update({"layers.0.wk": dict(m.header["layers.0.wv"])}))
    case("offsets_hole")(lambda m: m.header.pop("layers.0.wo") and None)
    case("offsets_too_short", "layers.0.wq")(lambda m: shift(m, "layers.0.wq", 0, -4))
    case("offsets_reversed", "final_norm")(lambda m: m.header["final_norm"]["data_offsets"].reverse())
    case("offsets_past_the_end", "lm_head")(lambda m: shift(m, "lm_head", 4096, 4096))
    case("offsets_negative", "embed")(tensor("embed", data_offsets=[-384, 0]))
    case("offsets_huge", "embed")(tensor("embed", data_offsets=[2**63, 2**63 + 384]))
    case("offsets_beyond_any_number", "too large")(lambda m: raw(m, '"data_offsets": [0, 384]', '"data_offsets": [0, 1e999]'))
    case("offsets_wrap", "embed")(tensor("embed", data_offsets=[2**64 - 384, 2**64]))
    case("offsets_fraction", "embed")(tensor("embed", data_offsets=[0.5, 384.5]))
    case("offsets_one", "embed")(tensor("embed", data_offsets=[0]))
    case("offsets_three", "embed")(tensor("embed", data_offsets=[0, 384, 384]))
    case("offsets_missing", "embed")(lambda m: m.header["embed"].pop("data_offsets") and None)
    case("bytes_after_the_last_tensor")(lambda m: m.bytes() + b"x")
    case("tensor_missing", "lm_head")(lambda m: (m.header.pop("lm_head"), setattr(m, "data", m.data[:-384]))[0] and None)
    case("tensor_unknown", "layers.0.extra")(lambda m: m.add("layers.0.extra", "F32", [16], bytes(64)))
    case("tensor_of_a_layer_too_many", "layers.1.wq")(lambda m: m.add("layers.1.wq", "F32", [8, 8], bytes(256)))
    case("bias_without_the_key", "layers.0.wq_bias")(lambda m: m.add("layers.0.wq_bias", "F32", [8], bytes(32)))
    case("name_with_newline_and_escape")(lambda m: m.add("a\nb\x1b[31m\u202e", "F32", [16], bytes(64)))
    case("name_with_nul")(lambda m: m.add("embed\0", "F32", [16], bytes(64)))
    case("name_very_long")(lambda m: m.add("n" * 5000, "F32", [16], bytes(64)))
    case("name_empty")(lambda m: m.add("", "F32", [16], bytes(64)))
    case("duplicate_tensor", "lm_head")(lambda m: raw(m, '"final_norm": {', '"lm_head": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}, "final_norm": {'))
    case("duplicate_key_in_tensor")(lambda m: raw(m, '{"dtype": "F32", "shape": [12, 8]', '{"dtype": "F32", "dtype": "F32", "shape": [12, 8]'))
    case("duplicate_metadata_key")(lambda m: raw(m, '"version": "1"', '"version": "1", "version": "1"'))
    case("duplicate_metadata")(lambda m: raw(m, '"embed": {', '"__metadata__": {}, "embed": {'))

    # metadata and config
    for key in ("format", "version", "config"):
        case(f"metadata_without_{key}", key)(lambda m: m.meta.pop(key) and None)
    case("metadata_version_2", "version")(lambda m: m.meta.update(version="2"))
    case("metadata_of_another_format", "format")(lambda m: m.meta.update(format="pt"))
    case("metadata_number")(lambda m: m.meta.update(version=1))
    case("metadata_is_text")(lambda m: raw(m, json.dumps(m.meta), '"tblock"'))
    case("config_is_no_json", "config")(lambda m: m.meta.update(config="{"))
    case("config_is_an_array", "config")(lambda m: m.meta.update(config="[]"))
    case("config_is_empty", "config")(lambda m: m.meta.update(config=""))
    case("config_duplicate_key", "d_model")(lambda m: m.meta.update(config=m.meta["config"].replace("{", '{"d_model": 8, ', 1)))
    case("config_trailing_text", "config")(lambda m: m.meta.update(config=m.meta["config"] + "x"))
    contradictions = {
        "d_model_16": ({"d_model": 16}, ()), "two_layers": ({"n_layers": 2}, ("layers.1",)), "heads_4": ({"heads": 4}, ("wq",)),
        "kv_heads_2": ({"kv_heads": 2}, ("wk",)), "head_dim_8": ({"head_dim": 8}, ("wq",)), "d_ff_8": ({"d_ff": 8}, ("w_gate",)),
        "vocab_13": ({"vocab_size": 13}, ("embed",)), "tied_with_a_head": ({"tied_embeddings": True}, ()),
        "qkv_bias": ({"qkv_bias": True}, ("wq_bias",)), "out_bias": ({"out_bias": True}, ("wo_bias",)), "ffn_bias": ({"ffn_bias": True}, ("bias",)),
        "ffn_gelu": ({"ffn": "gelu"}, ("w_gate",)), "learned_positions": ({"positions": "learned"}, ("pos_embed",)),
        "qk_norm": ({"qk_norm": True}, ("q_norm",)), "experts": ({"n_experts": 4, "experts_used": 2, "expert_d_ff": 8}, ("w_gate",)),
        "longrope": ({"rope": {"type": "longrope", "factor": 2, "original_n_ctx": 8}}, ("rope_factors", "[4]")),
        "norm_output": ({"norm_placement": "output"}, ("attn_norm",)), "norm_both": ({"norm_placement": "both"}, ("attn_post_norm",)),
    }
    experts = {"n_experts": 8, "experts_used": 4, "expert_d_ff": 8}
    for name, wrong in {"groups_uneven": {"expert_groups": 3, "groups_used": 1}, "groups_of_one": {"expert_groups": 8, "groups_used": 4},
                        "groups_too_many": {"expert_groups": 4, "groups_used": 5}, "groups_too_few": {"expert_groups": 4, "groups_used": 1},
                        "groups_none": {"expert_groups": 2}}.items():
        contradictions["experts_" + name] = ({**experts, **wrong}, ("groups", "found"))
    for key in ("renormalize_min", "renormalize_add"):
        contradictions["experts_" + key] = ({**experts, key: 0.1}, (key, "renormalize"))
    for name, (change, words) in contradictions.items():
        case(f"config_contradicts_{name}", *words)(lambda m: m.config(**change))
    values = {
        "d_model": (0, -8, 8.5, "8", 2**31, 2**53, 1e300, None, [], True), "n_layers": (0, -1, 10**9, None), "heads": (0, 3, None, 2**31 - 1),
        "kv_heads": (0, 3, -1), "head_dim": (0, 3, -4, 2**30), "d_ff": (0, None, 2**31 - 1), "vocab_size": (0, 2**31 - 1, None),
        "n_ctx": (0, -1, 2**40), "theta": (0, -1, "x"), "norm_eps": (-1, "x"), "window": (-1, 0.5), "eos": (5, list(range(17)), [1.5]), "bos": ("x", 1.5),
        "family": (5, "", "x" * 40), "norm": ("none",), "norm_placement": ("post", "x"), "ffn": ("x",), "positions": ("x",),
        "qk_norm": ("x", 1), "rotary_dim": (3, 400, 0), "experts_used": (2,), "full_layers": ([0], "x"), "dense_layers": ([0],), "no_rope_layers": ([1], "x"), "query_scale": (0.1,), "query_scale_length": (8,),
        "attn_softcap": (-1,),
        "shared_router": (True,), "norm_bias": (True,), "gate_limit": (2, -1), "attn_sinks": (1,), "router_bias": (True,), "expert_bias": (True,),
        "router_score": ("sigmoid", "x"), "pool": ("max", 1), "choice_bias": (True,), "expert_groups": (2,), "groups_used": (1,), "group_by_largest": (True,), "latent_norm_eps": (1e-6, -1),
        "renormalize_min": (0.5, -1), "expert_scale": (2, 0), "theta_window": (5000,), "n_experts": (4,), "tied_embeddings": ("x", 1),
        "rope": ("x", {"type": "x"}, {"type": "linear"}, {"type": "linear", "factor": 0}, {"type": "llama3", "factor": 8}, {"type": "yarn"},
                 {"type": "dynamic", "factor": 2}, {"type": "longrope", "factor": 2, "original_n_ctx": 1}, {"type": "default", "no_such_key": 1}),
        "no_such_key": (1,),
    }
    for key, wrong in values.items():
        for value in wrong:
            case(f"config_{key}_{json.dumps(value)[:30]}", "config", *([key] if key not in ("rope", "positions") else []))(lambda m: m.config(**{key: value}))
    return cases


def bad_quantized_files():
    """The same for the parts of q8 and q4 matrices and the metadata that names their type."""
    cases = []

    def case(name, change, *words):
        m = ModelFile(quantized=True)
        change(m)
        cases.append(("quantized_" + name, m.bytes(), words))

    def hide(name):  # its bytes stay where they are
        def change(m):
            t = m.header[name]
            begin, end = t["data_offsets"]
            m.header = {("pad.77" if n == name else n): ({"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]} if n == name else t)
                        for n, t in m.header.items()}
        return change

    q8, q4 = "layers.0.wq", "layers.0.w_gate"
    for name in (q8 + ".d", q4 + ".s", q4 + ".d", q8, q4):
        case(f"without_{name}", hide(name), name)
    for name in (q8, q4):
        case(f"no_type_of_{name}", lambda m: m.meta.pop("type." + name), name, "type." + name)
    for value in ("q5", "f32", "", "Q8", "q8 ", "x" * 3000):
        case(f"type_{value[:10]}", lambda m: m.meta.update({"type." + q8: value}), "type." + q8)
    case("type_q4_of_q8", lambda m: m.meta.update({"type." + q8: "q4"}), q8)
    case("type_q8_of_q4", lambda m: m.meta.update({"type." + q4: "q8"}), q4)
    case("type_of_floats", lambda m: m.meta.update({"type.layers.0.wk": "q8"}), "layers.0.wk", "I8", "F32")
    case("type_of_a_vector", lambda m: m.meta.update({"type.final_norm": "q8"}), "final_norm")
    case("type_of_nothing", lambda m: m.meta.update({"type.layers.9.wq": "q8"}), "layers.9.wq")
    case("type_of_a_part", lambda m: m.meta.update({f"type.{q8}.d": "q8"}), q8 + ".d")
    case("sub_scales_of_q8", lambda m: m.add(q8 + ".s", "U8", [1, 1, 40], bytes(40)), q8 + ".s")
    case("scales_of_floats", lambda m: m.add("layers.0.wk.d", "F16", [1, 1, 16], bytes(32)), "layers.0.wk.d")
    for name, shapes in {q8: ([1, 16, 4, 16], [16, 64], [2, 8, 16, 4], [1024]), q4: ([1, 8, 16, 4], [16, 32]), q4 + ".s": ([40], [1, 40, 1]),
                         q8 + ".d": ([16], [1, 16], [16, 1, 1]), q4 + ".d": ([16, 1, 1], [1, 16])}.items():
        for shape in shapes:
            case(f"shape_{shape}_of_{name}", lambda m: m.header[name].update(shape=shape), name, str(shape))
    for name, dtype in ((q8, "U8"), (q4, "I8"), (q4 + ".s", "I8"), (q8 + ".d", "BF16"), (q4 + ".d", "I16")):
        case(f"dtype_{dtype}_of_{name}", lambda m: m.header[name].update(dtype=dtype), name, dtype)
    return cases


# ---- Running ----

class Failure(Exception):
    pass


class Test:
    def __init__(self, build, folder):
        self.tblock, self.folder = (build / "tblock").resolve(), pathlib.Path(folder)
        self.model = self.folder / "good.bin"
        self.model.write_bytes(ModelFile().bytes())
        self.sanitized = b"__asan_init" in self.tblock.read_bytes()
        shipped = ROOT / "models" / "shakespeare.bin"
        self.shipped = shipped if shipped.exists() else None

    def fails(self, status, *args, words=(), stdin=b"", stdout=None, limit=None, memory=None, program=None, allow_output=False, cwd=None):
        """The command ends with the status and one line on stderr that holds the words; nothing on stdout."""
        def prepare():
            if limit is not None:  # like a disk with that much room: writes beyond it fail, and the signal is ignored
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            if memory is not None:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        command = [str(a) for a in ([self.tblock] if program is None else program)] + [str(a) for a in args]
        try:
            p = subprocess.run(command, input=stdin, stdout=stdout or subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT, cwd=cwd,
                               preexec_fn=None if limit is None and memory is None else prepare, restore_signals=limit is None)
        except subprocess.TimeoutExpired:
            raise Failure(f"{' '.join(command)}: still running after {TIMEOUT} s")
        text = p.stderr.decode(errors="replace")
        shown = f"{' '.join(c if len(c) < 80 else c[:77] + '...' for c in command)}: status {p.returncode}, stderr {text[-500:]!r}"
        if p.returncode != status:
            raise Failure(f"expected status {status}: {shown}")
        if text.count("\n") != 1 or not text.endswith("\n") or any(ord(c) < 32 or ord(c) == 127 for c in text[:-1]):
            raise Failure(f"expected one clean line: {shown}")
        if program is None and not text.startswith("tblock: "):
            raise Failure(f"expected 'tblock: ...': {shown}")
        if p.stdout and not allow_output:
            raise Failure(f"expected nothing on stdout, found {p.stdout[:100]!r}: {shown}")
        missing = [w for w in words if w not in text]
        if missing:
            raise Failure(f"expected the words {missing}: {shown}")

    def works(self, *args, stdin=b""):
        p = subprocess.run([str(self.tblock), *map(str, args)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT)
        if p.returncode:
            raise Failure(f"tblock {' '.join(map(str, args))}: expected status 0, found {p.returncode}: {p.stderr.decode(errors='replace')!r}")
        return p.stdout

    def nothing_left(self, folder, *allowed):
        extra = sorted(set(os.listdir(folder)) - set(allowed))
        if extra:
            raise Failure(f"left behind: {extra}")

    def scratch(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.folder))

    def bad_model(self, data, words=()):
        """A model file of these bytes is refused, and named; the output file does not appear."""
        folder = self.scratch()
        model, out = folder / "bad.bin", folder / "out.safetensors"
        model.write_bytes(data)
        self.fails(INPUT, "logits", model, "--ids", "1,2,3", "-o", out, words=("bad.bin", *words))
        self.nothing_left(folder, "bad.bin")
        shutil.rmtree(folder)


# ---- Tests ----

def good_file_works(t):
    out = t.folder / "good.safetensors"
    t.works("logits", t.model, "--ids", "1,2,3", "-o", out)
    t.works("verify", t.model, out, "--exact")


def good_quantized_file_works(t):
    """Else the cases made of it show nothing. What no rule forbids runs: code -128, each sub-scale's bits."""
    for fill in (None, b"\x80", b"\xff"):
        m = ModelFile(quantized=True)
        if fill:
            for name in QUANTIZED:
                begin, end = m.header[name]["data_offsets"]
                m.data = m.data[:begin] + fill * (end - begin) + m.data[end:]
        model = t.folder / "quantized.bin"
        model.write_bytes(m.bytes())
        t.works("logits", model, "--ids", "1,2,3", "-o", t.folder / "quantized.safetensors")


def truncated(t, data, step):
    for n in [*range(0, len(data), step), len(data) - 1]:
        try:
            t.bad_model(data[:n])
        except Failure as e:
            raise Failure(f"cut at byte {n} of {len(data)}: {e}")


def truncated_shipped_model(t):
    """The tokenizer's tensors too: a cut in the header, and cuts spread over the data."""
    data = t.shipped.read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    for at in [*range(0, 8 + n, (8 + n) // 60), *range(8 + n, len(data), len(data) // 60)]:
        t.bad_model(data[:at])


def flipped_bytes(t, data, end, count, seed):
    """Any byte may be wrong: a file still opens or is refused in one line, but nothing crashes. Weights' own bytes are not flipped."""
    rng = random.Random(seed)
    folder = t.scratch()
    for _ in range(count):
        changed, places = bytearray(data), []
        for _ in range(rng.choice((1, 1, 2, 5))):
            places.append(rng.randrange(end))
            changed[places[-1]] = rng.choice((0, 0xff, 0x20, 0x22, 0x2c, 0x39, 0x7b, changed[places[-1]] ^ (1 << rng.randrange(8))))
        (folder / "flipped.bin").write_bytes(changed)
        p = subprocess.run([t.tblock, "logits", folder / "flipped.bin", "--ids", "1,2", "-o", folder / "out"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=TIMEOUT)
        if p.returncode not in (0, USAGE, INPUT) or p.stderr.count(b"\n") != (p.returncode != 0):
            kept = t.folder.parent / "input-flipped.bin"
            shutil.copyfile(folder / "flipped.bin", kept)
            raise Failure(f"bytes {places}: status {p.returncode}, stderr {p.stderr[-800:]!r}; kept as {kept}")
    shutil.rmtree(folder)


def not_a_regular_file(t):
    folder = t.scratch()
    os.mkfifo(folder / "fifo")
    os.symlink("loop", folder / "loop")
    (folder / "empty").write_bytes(b"")
    for path in (folder / "missing", folder, folder / "fifo", "/dev/zero", "/dev/null", folder / "loop", folder / "empty", folder / "empty" / "x",
                 "", folder / ("n" * 300)):
        for command in (["logits", path, "--ids", "1", "-o", folder / "out"], ["info", path], ["run", path, "--prompt", "x"], ["tokenize", path, "--text", "x"],
                        ["verify", t.model, path]):
            t.fails(INPUT, *command)
    t.fails(INPUT, "logits", folder / "new\nline", "--ids", "1", "-o", folder / "out")
    t.nothing_left(folder, "fifo", "loop", "empty")


def wrong_usage(t):
    good = [t.model]
    for args, words in (
            (["no-such-command"], ("no-such-command",)), (["rum", t.model], ("run",)), (["run"], ()), (["logits"], ()), (["info"], ()),
            (["run", *good, "--no-such-option"], ("--no-such-option",)), (["run", *good, "--promt", "x"], ("--promt", "--prompt")),
            (["logits", *good, "-z"], ("-z",)), (["logits", *good, "--ids"], ("--ids",)), (["run", *good, *good, "--prompt", "x"], ()),
            (["run", *good, "--prompt", "x", "--temp", "nan"], ("temp", "nan")), (["run", *good, "--prompt", "x", "--temp", "-1"], ("temp",)),
            (["run", *good, "--prompt", "x", "--top-p", "0"], ("top-p",)), (["run", *good, "--prompt", "x", "--top-p", "1.5"], ("top-p",)),
            (["run", *good, "--prompt", "x", "-n", "x"], ("x",)), (["run", *good, "--prompt", "x", "-n", "-2"], ("-2",)),
            (["run", *good, "--prompt", "x", "-n", "99999999999999999999"], ()), (["run", *good, "--prompt", "x", "--top-k", "1.5"], ("top-k",)),
            (["run", *good, "--prompt", "x", "--seed", "abc"], ("seed",)), (["run", *good, "--prompt", "x", "--threads", "-1"], ("threads",)),
            (["run", *good, "--prompt", "x", "--repeat-penalty", "0"], ("repeat-penalty",)), (["run", *good, "--prompt", "x", "--min-p", "2"], ("min-p",)),
            (["logits", *good, "--ids", "1", "-o", "/dev/null", "--isa", "mmx"], ("mmx",)),
            (["logits", *good, "--ids", "1", "-o", "/dev/null", "--math", "f64"], ("f64",)),
            (["logits", *good, "--ids", "1", "-o", "/dev/null", "--kv-type", "f8"], ("f8",)),
            (["logits", *good, "--ids", "1,,2", "-o", "/dev/null"], ("ids",)), (["logits", *good, "--ids", "", "-o", "/dev/null"], ()),
            (["logits", *good, "--ids", "1,x", "-o", "/dev/null"], ("x",)), (["logits", *good, "--ids", "-1", "-o", "/dev/null"], ("-1",)),
            (["logits", *good, "--ids", "12", "-o", "/dev/null"], ("12", "11")), (["logits", *good, "--ids", "99999999999", "-o", "/dev/null"], ()),
            (["logits", *good, "--ids", "1"], ()),
            (["logits", *good, "--ids", ",".join(["1"] * 33), "-o", "/dev/null"], ("33", "32")), (["verify", *good], ()),
            (["verify", *good, *good, "--tol", "-1"], ("tol",)), (["synth"], ())):
        t.fails(USAGE, *args, words=words)


def model_without_tokenizer(t):
    t.fails(INPUT, "run", t.model, "--prompt", "x", words=("good.bin", "tokenizer"))
    t.fails(INPUT, "tokenize", t.model, "--text", "x", words=("good.bin", "tokenizer"))
    t.fails(INPUT, "logits", t.model, "--prompt", "x", "-o", "/dev/null", words=("good.bin", "tokenizer"))


def empty_prompt(t):
    """It gives a model without a BOS template nothing to continue."""
    t.fails(USAGE, "run", t.shipped, "--prompt", "", words=("prompt", "empty"))
    t.fails(USAGE, "run", t.shipped, stdin=b"", words=("prompt", "empty"))


def prompt_longer_than_the_context(t):
    """The message names both numbers."""
    t.fails(USAGE, "run", t.shipped, "--prompt", "the king " * 200, words=("256",))
    t.fails(USAGE, "run", t.shipped, "--prompt", "ROMEO: what is it", "--ctx", "4", words=("4",))


def prompt_file(t):
    t.fails(INPUT, "run", t.shipped, "--prompt-file", t.folder / "missing", words=("missing",))
    t.fails(INPUT, "run", t.shipped, "--prompt-file", t.folder)
    t.fails(INPUT, "tokenize", t.shipped, "--jsonl", t.folder / "missing", words=("missing",))


def endless_prompt(t):
    """Refused at some size, long before memory ends (a sanitizer's own address space is larger than any limit)."""
    memory = None if t.sanitized else 2 << 30
    t.fails(INPUT, "run", t.shipped, "--prompt-file", "/dev/zero", words=("/dev/zero",), memory=memory)


def bad_json_lines(t):
    folder = t.scratch()
    for i, line in enumerate((b"{", b"[]", b'{"text": 5}', b"{}", b'{"text": "a", "text": "b"}', b'{"ids": [99999999]}', b'{"ids": [1.5]}', b'{"ids": "x"}',
                              b'{"bytes_hex": "abc"}', b'{"bytes_hex": "zz"}', b'{"text": "\\ud800"}', b'{"text": "a", "mode": "x"}', b'{"text": "a"} x',
                              b'{"text": "\xff"}', b'{"text": "a\nb"}')):
        (folder / "lines").write_bytes(b'{"text": "good"}\n' + line + b"\n")
        p = subprocess.run([t.tblock, "tokenize", t.shipped, "--jsonl", folder / "lines"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT)
        if p.returncode == 0:
            raise Failure(f"line {line!r} was accepted: {p.stdout!r}")
        t.fails(INPUT, "tokenize", t.shipped, "--jsonl", folder / "lines", allow_output=True)


def bad_golden_files(t):
    folder = t.scratch()
    golden, bad = folder / "golden.safetensors", folder / "bad.safetensors"
    t.works("logits", t.model, "--ids", "1,2,3", "-o", golden)
    data = golden.read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + n])
    for name, change in (
            ("no tokens", lambda h: h.pop("tokens") and {"x": h.pop("logits")}), ("no logits", lambda h: h.pop("logits") and None),
            ("other length", lambda h: h["tokens"].update(shape=[2], data_offsets=[0, 8])), ("logits of rank 1", lambda h: h["logits"].update(shape=[36])),
            ("other vocabulary", lambda h: h["logits"].update(shape=[4, 9])), ("tokens F32", lambda h: h["tokens"].update(dtype="F32")),
            ("logits I32", lambda h: h["logits"].update(dtype="I32"))):
        h = copy.deepcopy(header)
        h.update(change(h) or {})
        text = json.dumps(h).encode()
        bad.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + n:])
        try:
            t.fails(INPUT, "verify", t.model, bad, words=("bad.safetensors",))
        except Failure as e:
            raise Failure(f"{name}: {e}")
    for token in (12, -1, 2**31 - 1):
        changed = bytearray(data)
        at = 8 + n + header["tokens"]["data_offsets"][0]
        changed[at:at + 4] = struct.pack("<i", token)
        bad.write_bytes(changed)
        t.fails(INPUT, "verify", t.model, bad, words=("bad.safetensors", str(token)))
    truncated_golden = data[:-1]
    bad.write_bytes(truncated_golden)
    t.fails(INPUT, "verify", t.model, bad, words=("bad.safetensors",))


def verify_says_no(t):
    """Differences are status 1, with the report on stdout."""
    folder = t.scratch()
    golden, other = folder / "golden.safetensors", folder / "other.safetensors"
    t.works("logits", t.model, "--ids", "1,2,3", "-o", golden)
    data = bytearray(golden.read_bytes())
    (n,) = struct.unpack_from("<Q", data)
    at = 8 + n + json.loads(data[8:8 + n])["logits"]["data_offsets"][0] + 4 * 17
    for what, value, options, status in (("last bit", None, ["--exact"], NO), ("last bit in tolerance", None, ["--tol", "1e-3"], 0), ("a wrong value", 50.0, ["--tol", "1e-3"], NO),
                                         ("NaN", float("nan"), ["--tol", "1e-3"], NO), ("infinity", float("inf"), ["--tol", "1e-3"], NO)):
        changed = bytearray(data)
        if value is None:
            changed[at] ^= 1
        else:
            changed[at:at + 4] = struct.pack("<f", value)
        other.write_bytes(changed)
        p = subprocess.run([t.tblock, "verify", t.model, other, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT)
        if p.returncode != status:
            raise Failure(f"{what}: expected status {status}, found {p.returncode}: {p.stdout.decode()!r} {p.stderr.decode()!r}")


def full_disk(t):
    """Output that does not fit: status 4, the old file whole, no temporary file left."""
    folder = t.scratch()
    os.symlink("/dev/full", folder / "full")
    out = folder / "out"
    config = folder / "config.json"
    config.write_text(json.dumps(CONFIG))
    logits = ["logits", t.model, "--ids", "1,2,3"]
    t.fails(SYSTEM, *logits, "-o", folder / "full", words=("full",))
    t.fails(SYSTEM, "synth", config, "-o", folder / "full", words=("full",))
    for limit in (0, 100, 300):
        t.fails(SYSTEM, *logits, "-o", out, words=("out",), limit=limit)
        t.fails(SYSTEM, "synth", config, "-o", out, words=("out",), limit=limit)
        t.nothing_left(folder, "full", "config.json")
    out.write_bytes(b"old")
    t.fails(SYSTEM, *logits, "-o", out, limit=100)
    t.fails(SYSTEM, "synth", config, "-o", out, limit=5000)
    if out.read_bytes() != b"old":
        raise Failure("the old file is gone")
    t.fails(SYSTEM, *logits, "-o", folder / "no-such-folder" / "out", words=("no-such-folder",))
    t.nothing_left(folder, "full", "config.json", "out")


def full_standard_output(t):
    with open("/dev/full", "wb") as full:
        t.fails(SYSTEM, "info", t.model, stdout=full)
        t.fails(SYSTEM, "help", stdout=full)
        t.fails(SYSTEM, "--version", stdout=full)
        if t.shipped:
            t.fails(SYSTEM, "run", t.shipped, "--prompt", "ROMEO:", "-n", "4", stdout=full)
            t.fails(SYSTEM, "tokenize", t.shipped, "--text", "ROMEO:", stdout=full)


def small_file_system(t):
    """A real file system that fills up: a tmpfs of 16 KB in a mount namespace of its own."""
    folder = t.scratch()
    script = 'mount -t tmpfs -o size=16k none "$1" || exit 99; shift; d=$1; shift; "$@"; s=$?; [ -z "$(ls -A "$d")" ] || exit 98; exit $s'
    probe = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", folder, folder, "true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if probe.returncode:
        return f"cannot mount a tmpfs here: {probe.stderr.decode(errors='replace').strip()[:80]}"
    config = t.folder / "wide.json"
    config.write_text(json.dumps({**CONFIG, "vocab_size": 4000}))
    t.fails(SYSTEM, "synth", config, "-o", folder / "out", program=["unshare", "-m", "sh", "-c", script, "sh", folder, folder, t.tblock])
    return None


def converter(t):
    """tools/convert.py keeps the same rules."""
    program = [sys.executable, ROOT / "tools" / "convert.py"]
    folder = t.scratch()
    source = folder / "source"
    shutil.copytree(ROOT / "tests" / "data" / "models" / "llama-mqa", source)
    out = folder / "out.bin"
    config, model = json.loads((source / "config.json").read_text()), (source / "model.safetensors").read_bytes()

    def refused(what, *words, status=INPUT):
        try:
            t.fails(status, source, "-o", out, program=program, words=words)
            t.nothing_left(folder, "source", "full")
        except Failure as e:
            raise Failure(f"{what}: {e}")

    for what, change, words in (("another family", {"model_type": "bloom", "architectures": ["BloomForCausalLM"]}, ("bloom",)), ("hidden size", {"hidden_size": 64}, ()),
                                ("a layer more", {"num_hidden_layers": 4}, ("3",)), ("heads that do not divide", {"num_key_value_heads": 4}, ()),
                                ("an unknown activation", {"hidden_act": "mish"}, ("mish",)), ("unknown rope", {"rope_scaling": {"type": "ntk", "factor": 2}}, ("ntk",)),
                                ("text for a number", {"hidden_size": "48"}, ("hidden_size",)), ("no layers", {"num_hidden_layers": 0}, ())):
        (source / "config.json").write_text(json.dumps({**config, **change}))
        refused(what, *words)
    for what, text in (("config is no JSON", "{"), ("config is a list", "[]"), ("config is empty", "")):
        (source / "config.json").write_text(text)
        refused(what, "config.json")
    (source / "config.json").unlink()
    refused("no config")
    (source / "config.json").write_text(json.dumps(config))
    for n in (0, 4, 8, 100, len(model) // 2, len(model) - 1):
        (source / "model.safetensors").write_bytes(model[:n])
        refused(f"cut at {n}", "model.safetensors")
    (source / "model.safetensors").write_bytes(struct.pack("<Q", 2**63) + model[8:])
    refused("header length 2^63", "model.safetensors")
    (source / "model.safetensors").unlink()
    refused("no weights")
    (source / "model.safetensors").write_bytes(model)
    t.fails(INPUT, folder / "missing", "-o", out, program=program, words=("missing",))
    os.symlink("/dev/full", folder / "full")
    t.fails(SYSTEM, source, "-o", folder / "full", program=program, words=("full",))
    t.fails(SYSTEM, source, "-o", out, program=program, limit=5000)
    t.nothing_left(folder, "source", "full")
    t.fails(USAGE, source, "-o", out, "--type", "f8", program=program, words=("f8",))
    t.fails(USAGE, program=program)


def checks(t):
    yield "good_file_works", good_file_works, True
    yield "good_quantized_file_works", good_quantized_file_works, True
    for name, data, words in bad_files() + bad_quantized_files():
        yield name, lambda t, data=data, words=words: t.bad_model(data, words), True
    good = ModelFile().bytes()
    yield "truncated_at_every_97th_byte", lambda t: truncated(t, good, 97), True
    yield "truncated_shipped_model", truncated_shipped_model, t.shipped
    yield "flipped_header_bytes", lambda t: flipped_bytes(t, good, len(good) - len(ModelFile().data), 400, 2), True
    for function in (not_a_regular_file, wrong_usage, model_without_tokenizer, bad_golden_files, verify_says_no, full_disk, full_standard_output,
                     small_file_system, converter):
        yield function.__name__, function, True
    for function in (empty_prompt, prompt_longer_than_the_context, prompt_file, endless_prompt):
        yield function.__name__, function, t.shipped
    yield "bad_json_lines", bad_json_lines, t.shipped


def attempt(t, check):
    name, function, present = check
    name = "input_" + "".join(c if c.isalnum() or c in "-_.^" else "_" for c in name)
    if not present:
        return f"skip {name}: no models/shakespeare.bin"
    try:
        reason = function(t)
    except Failure as e:
        return f"FAIL {name}: {e}".replace("\n", " / ")
    return f"skip {name}: {reason}" if reason else f"ok {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / os.environ.get("BUILD", "build/release"))
    parser.add_argument("--only", default="", help="only the tests whose name contains this")
    args = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory(prefix="tblock-input-") as folder, concurrent.futures.ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), 8)) as pool:
        t = Test(args.build, folder)
        todo = [c for c in checks(t) if args.only in c[0]]
        for line in pool.map(lambda c: attempt(t, c), todo):
            print(line, flush=True)
            failures += line.startswith("FAIL")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
