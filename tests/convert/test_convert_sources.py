#!/usr/bin/env python3
"""`tblock convert`: tensors of Hugging Face folders and llama2.c files, and what is wrong with them."""
import json
import os
import shutil
import struct
import sys

import harness
from harness import need, temp, converted, refused, made, MODELS, DATA, Q, K
import numpy as np


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


def test_stored_inv_freq_is_ignored():
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    converted(made(tensors=lambda t: t.update({name: ("F32", np.zeros(2, "<u4"))})))


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
    case(good + b"x", "end with its last tensor")
    case(good[:7], "7 bytes")
    case(struct.pack("<Q", 1 << 63) + good[8:], "header")
    case(struct.pack("<Q", len(good)) + good[8:], "header")
    case(edited(dtype="F33"), Q, "F33")
    case(edited(shape=[24, 25]), Q, "2400 bytes", "2304")
    case(edited(shape=[24, -24]), Q, "shape")
    case(edited(shape=[1 << 62, 1 << 62]), Q, "shape")
    case(edited(data_offsets=[offsets[0] + 4, offsets[1] + 4]), "the bytes between")
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
    refused(folder, "the index of the shards")
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
    case(data + b"0000")
    case(struct.pack("<Ii", 0x616B3432, 2) + bytes(248), "group size")
    case(struct.pack("<Ii", 0x616B3432, 1) + bytes(248), "dim", "from 1")
    case(struct.pack("<Ii", 0x616B3432, 9) + bytes(248), "version", "9")
    case(struct.pack("<Ii", 0x616B3432, 1), "8 bytes")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
