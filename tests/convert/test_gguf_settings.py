#!/usr/bin/env python3
"""Settings and tensors of GGUF files that are odd, wrong or of an older writer: taken as llama.cpp does, or refused by name.
The program: $TBLOCK."""
import json
import math
import os
import struct
import subprocess
import sys

import harness
from harness import ROOT, Skip, temp
import numpy as np

sys.path.insert(0, os.path.join(ROOT, "tests", "format"))
import make_gguf  # noqa: E402
from make_gguf import ARRAY, BOOL, F32, I32, STRING, U32, U64  # noqa: E402

TBLOCK = os.environ.get("TBLOCK") or os.path.join(ROOT, "build", "release", "tblock")
IDS = ",".join(str(i) for i in range(1, 14))


def tblock(*args):
    if not os.path.exists(TBLOCK):
        raise Skip("no program (%s)" % TBLOCK)
    return subprocess.run([TBLOCK] + [str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                          timeout=600)


def model(own=None, keys=None, tensors=None, drop=(), **sizes):
    m = make_gguf.Model(**sizes)
    m.own.update(own or {})
    m.keys.update(keys or {})
    m.tensors.update(tensors or {})
    for name in drop:
        for table in (m.own, m.keys, m.tensors):
            table.pop(name, None)
    return m


def logits(m, **options):
    done = tblock("logits", m.write(temp("m.gguf"), **options), "--ids", IDS, "-o", temp("l"), "-q")
    assert done.returncode == 0, done.stderr
    data = open(temp("l"), "rb").read()
    start = 8 + int.from_bytes(data[:8], "little")
    begin, end = json.loads(data[8:start])["logits"]["data_offsets"]
    return data[start + begin:start + end]


def config(m):
    done = tblock("info", m.write(temp("m.gguf")), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["config"]


def refused(m, *expected, **options):
    path = m.write(temp("m.gguf"), **options)
    for command in (["info", path], ["run", path, "--ids", "1,2", "-n", "1"], ["convert", path, "-o", temp("x.bin")]):
        done = tblock(*command)
        assert done.returncode == 3 and done.stderr.count("\n") == 1, (command[0], done)
        for part in expected:
            assert part in done.stderr, "%r is not in %r" % (part, done.stderr)
    assert not os.path.exists(temp("x.bin"))


def test_a_factor_without_a_type_scales_linearly_as_llama_cpp_reads_it():
    plain = logits(model())
    linear = logits(model({"rope.scaling.type": (STRING, "linear"), "rope.scaling.factor": (F32, 4.0)}))
    assert linear != plain
    assert logits(model({"rope.scaling.factor": (F32, 4.0)})) == linear
    assert logits(model({"rope.scale_linear": (F32, 4.0)})) == linear
    for none in ({"rope.scaling.factor": (F32, 0.0)}, {"rope.scaling.type": (STRING, "linear")}, {"rope.scale_linear": (F32, 1.0)},
                 {"rope.scaling.type": (STRING, "none"), "rope.scaling.factor": (F32, 4.0)}):
        assert logits(model(none)) == plain, none


def test_an_attention_factor_multiplies_that_of_yarn():
    yarn = {"rope.scaling.type": (STRING, "yarn"), "rope.scaling.factor": (F32, 4.0), "rope.scaling.original_context_length": (U32, 16)}
    assert "attention_factor" not in config(model(yarn))["rope"]
    factor = config(model(dict(yarn, **{"rope.scaling.attn_factor": (F32, 0.5)})))["rope"]["attention_factor"]
    assert abs(factor - 0.5 * (0.1 * math.log(4) + 1)) < 1e-12, factor


def test_settings_that_would_change_the_result_are_refused_by_name():
    for key, value in {"attention.clamp_kqv": (F32, 8.0), "attention.max_alibi_bias": (F32, 8.0), "attention.output_scale": (F32, 2.0),
                       "expert_weights_scale": (F32, 2.5), "expert_gating_func": (U32, 2), "leading_dense_block_count": (U32, 1),
                       "no_rope_layer_step": (U32, 4), "rope.scaling.yarn_log_multiplier": (F32, 0.1), "swin_norm": (BOOL, True),
                       "attention.shared_kv_layers": (ARRAY, (U32, [0, 1]))}.items():
        refused(model({key: value}), "llama." + key, "would change the result")
        nothing = {F32: 0.0, BOOL: False, U32: 0, ARRAY: (U32, [0, 0])}[value[0]]
        assert logits(model({key: (value[0], nothing)})) == logits(model()), key


def test_the_type_of_pooling_is_that_of_llama_cpp():
    words = {-1: None, 0: None, 1: "mean", 2: "cls", 3: "last", 4: "other", 5: "other"}
    for value, word in words.items():
        found = config(model(own={"pooling_type": (I32, value)})).get("pool", "none")
        assert found == (word or "none"), (value, found)


def test_windows_are_a_period_or_a_list_of_layers():
    both = {"attention.sliding_window": (U32, 8)}
    assert config(model(both))["window"] == 8
    every = config(model(dict(both, **{"attention.sliding_window_pattern": (U32, 2)}), layers=4))
    listed = config(model(dict(both, **{"attention.sliding_window_pattern": (ARRAY, (BOOL, [True, False, True, False]))}), layers=4))
    assert every["window"] == listed["window"] == 8 and every["full_layers"] == listed["full_layers"] == [1, 3]
    for none in ((U32, 1), (ARRAY, (BOOL, [False, False]))):
        assert config(model(dict(both, **{"attention.sliding_window_pattern": none}))).get("window", 0) == 0
    refused(model(dict(both, **{"attention.sliding_window_pattern": (ARRAY, (BOOL, [True]))})), "sliding_window_pattern", "2 items", "1")


def test_ids_outside_of_the_vocabulary_are_left_out():
    m = model(keys={"tokenizer.ggml.bos_token_id": (U32, 0xFFFFFFFF), "tokenizer.ggml.eos_token_id": (U32, 5),
                    "tokenizer.ggml.eot_token_id": (U32, 64), "tokenizer.ggml.eom_token_id": (I32, -1)})
    c = config(m)
    assert c["bos"] == -1 and c["eos"] == [5], c


def test_frequency_factors_are_numbers_above_0_and_as_many_as_pairs():
    assert logits(model(tensors={"rope_freqs.weight": np.ones(4, "<f4")})) == logits(model())
    for bad in (0.0, -1.0, np.nan, np.inf):
        factors = np.array([1, 1, bad, 1], "<f4")
        refused(model(tensors={"rope_freqs.weight": factors}), "rope_factors", "above 0", "%g" % bad)
        refused(model(tensors={"rope_factors_short.weight": np.ones(4, "<f4"), "rope_factors_long.weight": factors}),
                "rope_factors", "above 0", "%g" % bad)
    for n in (3, 8):
        refused(model(tensors={"rope_freqs.weight": np.ones(n, "<f4")}), "rope_freqs.weight", "[4]", "[%d]" % n)
    good = model(tensors={"rope_freqs.weight": np.array([1, 1, 4, 1], "<f4")}).write(temp("m.gguf"))
    assert tblock("convert", good, "-o", temp("good.bin")).returncode == 0
    data, four = open(temp("good.bin"), "rb").read(), struct.pack("<4f", 1, 1, 4, 1)
    assert data.count(four) == 1
    with open(temp("bad.bin"), "wb") as f:
        f.write(data.replace(four, struct.pack("<4f", 1, 1, -4, 1)))
    for command in (["info", temp("bad.bin")], ["run", temp("bad.bin"), "--ids", "1,2"],
                    ["quantize", temp("bad.bin"), "-o", temp("x.bin"), "--type", "q8"]):
        done = tblock(*command)
        assert done.returncode == 3 and "bad.bin: rope_factors: expected finite numbers above 0, found -4" in done.stderr, done


def test_sizes_of_wrong_types_and_values():
    for key in ("embedding_length", "block_count", "context_length", "attention.head_count"):
        for value in ((STRING, "x"), (F32, 2.5), (U32, 0), (I32, -1), (U32, 0xFFFFFFFF), (U64, 1 << 63), (ARRAY, (U32, [])), (BOOL, True)):
            refused(model({key: value}), "llama." + key)
        refused(model(drop=[key]), "llama." + key, "no such key")
    assert logits(model({"attention.head_count_kv": (ARRAY, (U32, [2, 2]))})) == logits(model())
    refused(model({"attention.head_count_kv": (ARRAY, (U32, [2, 4]))}), "head_count_kv", "all layers")
    refused(model({"rope.dimension_count": (U32, 7)}), "rotary_dim", "even", "7")
    for alignment in (0, 3, 48):
        refused(model(keys={"general.alignment": (U32, alignment)}), "general.alignment", str(alignment))
    for alignment in (1, 8, 64, 4096):
        assert logits(model(keys={"general.alignment": (U32, alignment)}), alignment=alignment) == logits(model())


def test_tensors_that_are_missing_or_too_many_are_named():
    vectors = {"blk.%d.attn_%s.bias" % (n, w): np.ones(s, "<f4") for n in (0, 1) for w, s in (("q", 32), ("k", 16), ("v", 16))}
    assert config(model(tensors=vectors))["qkv_bias"]
    refused(model(tensors={k: v for k, v in vectors.items() if "blk.0" in k}), "blk.1.attn_q.bias", "[32]", "no such tensor")
    refused(model(tensors={k: v for k, v in vectors.items() if "blk.1" in k}), "blk.1.attn_q.bias", "no bias")
    refused(model(tensors={k: v for k, v in vectors.items() if "_q" in k}), "blk.0.attn_k.bias")
    refused(model(tensors={"blk.%d.ffn_up.bias" % n: np.ones(48, "<f4") for n in (0, 1)}), "blk.0.ffn_gate.bias", "[48]")
    refused(model(tensors={"blk.00.attn_q.weight": np.ones((32, 32), "<f4")}), "blk.00.attn_q.weight")
    refused(model(tensors={"blk.2.attn_q.weight": np.ones((32, 32), "<f4")}), "blk.2.attn_q.weight")
    refused(model(drop=["output_norm.weight"]), "output_norm.weight", "[32]")
    assert config(model(drop=["output.weight"]))["tied_embeddings"]


def experts(split, used=2, n=4):
    m = model({"expert_count": (U32, n), "expert_used_count": (U32, used)})
    random = np.random.default_rng(3)
    for layer in (0, 1):
        m.tensors["blk.%d.ffn_gate_inp.weight" % layer] = random.standard_normal((4, 32)).astype("<f4")
        for name, shape in (("gate", (48, 32)), ("up", (48, 32)), ("down", (32, 48))):
            del m.tensors["blk.%d.ffn_%s.weight" % (layer, name)]
            stack = random.standard_normal((4,) + shape).astype("<f4")
            if split:
                m.tensors.update({"blk.%d.ffn_%s.%d.weight" % (layer, name, e): stack[e] for e in range(4)})
            else:
                m.tensors["blk.%d.ffn_%s_exps.weight" % (layer, name)] = stack
    return m


def test_experts_one_by_one_are_those_of_one_tensor():
    assert logits(experts(True)) == logits(experts(False))
    short = experts(True)
    del short.tensors["blk.1.ffn_up.3.weight"]
    refused(short, "blk.1.ffn_up.3.weight", "[48, 32]")
    refused(experts(False, used=5), "experts_used", "5")
    refused(experts(False, n=3), "ffn_gate_inp", "[3, 32]")
    grouped = experts(False)
    grouped.keys.update({"llama.expert_group_count": (U32, 2), "llama.expert_group_used_count": (U32, 1)})
    refused(grouped, "expert_group_count", "softmax", "2")


def test_more_layers_than_a_config_holds_are_refused_before_anything_goes_through_them():
    gemma = {"attention.sliding_window": (U32, 8), "attention.key_length": (U32, 8)}
    states = {"attention.head_count_kv": (ARRAY, (U32, [0] * 5000)), "shortconv.l_cache": (U32, 3)}
    for layers in (4097, 5000, 1 << 16, 1 << 20):
        for arch, own in (("llama", {}), ("gemma3", gemma), ("lfm2", states), ("stablelm", {"attention.layer_norm_epsilon": (F32, 1e-5)})):
            m = model(dict(own, block_count=(U32, layers)), arch=arch)
            m.keys.update({"tokenizer.ggml.model": (STRING, "llama"), "tokenizer.ggml.tokens": (ARRAY, (STRING, ["<%d>" % i for i in range(64)])),
                           "tokenizer.ggml.scores": (ARRAY, (F32, [0.0] * 64))})
            refused(m, "m.gguf: key %s.block_count: expected at most 4096, found %d" % (arch, layers))
            done = tblock("tokenize", temp("m.gguf"), "--text", "a")
            assert done.returncode == 3 and "block_count: expected at most 4096, found %d" % layers in done.stderr, done


def test_a_file_cut_anywhere_is_refused():
    data = open(model().write(temp("m.gguf")), "rb").read()
    for n in list(range(4, 2600, 101)) + list(range(2600, len(data), 9001)):
        with open(temp("cut.gguf"), "wb") as f:
            f.write(data[:n])
        done = tblock("info", temp("cut.gguf"), "--check")
        assert done.returncode == 3 and done.stderr.count("\n") == 1, (n, done)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
