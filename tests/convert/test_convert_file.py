#!/usr/bin/env python3
"""`tblock convert`: the model file that comes out: bits, layout, header, types, rounding."""
import hashlib
import json
import os
import sys

import harness
from harness import (Skip, temp, convert, converted, refused, ModelFile, hf_name, source_tensors, fixtures, made,
                     to_f32, by_the_table, Q, K)
import numpy as np


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
    assert temp().encode() not in open(temp("a.bin"), "rb").read()


def test_tensors_decide_the_type_whatever_the_config_says():
    def mixed(t):
        t[Q] = ("F16", t[Q][1].view("<f4").astype("<f2").view("<u2"))
        t[K] = ("BF16", (t[K][1] >> 16).astype("<u2"))
    folder = made(config={"torch_dtype": "bfloat16"}, tensors=mixed)
    m = converted(folder)
    assert m.header["layers.1.wq"]["dtype"] == "F16" and m.header["layers.1.wk"]["dtype"] == "BF16"
    assert m.header["layers.0.wq"]["dtype"] == "F32"
    for option, dtype in (("f32", "F32"), ("f16", "F16"), ("bf16", "BF16")):
        m = converted(folder, "--type", option)
        for name, e in m.header.items():
            if not name.startswith("pad."):
                assert e["dtype"] == ("F32" if "norm" in name else dtype), name


def test_rounding_is_to_nearest_even():
    """f32 to bf16 and f16 against the definition: the nearest of the two neighbours, of two equally near the even one."""
    rng = np.random.default_rng(1)
    bits = np.concatenate([rng.integers(0, 1 << 32, 20000, dtype=np.uint64),
                           (np.arange(0x3F80, 0x3FA0, dtype=np.uint64) << 16) + 0x8000,      # halfway for bf16
                           (np.arange(0x38, 0x48, dtype=np.uint64) << 24) + 0x1000,          # halfway for f16
                           [0, 0x80000000, 1, 0x33000000, 0x33000001, 0x477FEFFF, 0x26800000, 0x267FFFFF]]).astype("<u4")
    for dtype, infinity, least in (("BF16", 0x7F80, 2.0 ** -50), ("F16", 0x7C00, 0)):
        order = np.arange(infinity, dtype=np.uint16)      # the finite values from 0 upward, in order of their bits
        steps = to_f32(dtype, order).astype(float)
        with np.errstate(invalid="ignore"):
            fits = np.abs(bits.view("<f4").astype(float)) < steps[-1]
        given = np.resize(bits[fits], (1000, 24)).copy()
        m = converted(made(config={"vocab_size": 1000}, tensors=lambda t: t.update(
            {"model.embed_tokens.weight": ("F32", given), "lm_head.weight": ("F32", given)})), "--type", dtype.lower())
        for b, x, g in zip(given.ravel().tolist(), given.view("<f4").ravel().tolist(), m.bits("embed").ravel().tolist()):
            above = int(np.searchsorted(steps, abs(x)))
            low, high = abs(x) - steps[max(0, above - 1)], steps[above] - abs(x)
            expected = above if above == 0 or high < low or (high == low and above % 2 == 0) else above - 1
            expected = 0 if steps[expected] < least else expected
            sign = 0x8000 if b >> 31 and (expected or x == 0) else 0   # what becomes 0 is +0
            assert g == sign + expected, "%s of %08x: %04x, expected %04x" % (dtype, b, g, sign + expected)


def test_a_value_too_large_for_the_type_is_refused():
    def large(t):
        t[Q] = ("F32", np.full((24, 24), np.float32(70000.0).view("<u4")))
    folder = made(tensors=large)
    refused(folder, "tensor layers.1.wq", "f16", "found 70000", options=["--type", "f16"])
    converted(folder, "--type", "bf16")


def test_bf16_under_two_to_the_minus_50_becomes_zero():
    """0x2680 is 2^-50; both signs, stored as bf16 and narrowed from f32."""
    small, expected = [0x2680, 0xA680, 0x267F, 0xA67F, 0x0001, 0x8000], [0x2680, 0xA680, 0, 0, 0, 0x8000]

    def change(t):
        for name, dtype, shift in ((Q, "BF16", 0), (K, "F32", 16)):
            bits = (t[name][1] >> 16).astype("<u2")
            bits[0, :6] = small
            t[name] = (dtype, bits if dtype == "BF16" else bits.astype("<u4") << np.uint32(shift))
    status, _, err = convert(made(tensors=change), "--type", "bf16", out="out.bin")
    m = ModelFile(temp("out.bin"))
    assert status == 0 and "6 weights were too small" in err and m.meta["bf16_min"] == "2^-50"
    for name in ("layers.1.wq", "layers.1.wk"):
        stored = m.bits(name)
        assert by_the_table(stored, "BF16", m.config["heads" if name[-1] == "q" else "kv_heads"] * m.config["head_dim"],
                            m.config["d_model"])[0, :6].tolist() == expected, name
    assert "bf16_min" not in converted(made(), "--type", "f32").meta


def test_nan_and_infinity_are_kept():
    odd = np.array([0x7FA00001, 0xFF800000, 0xFFC00123], "<u4")

    def change(t):
        bits = t[Q][1].copy()
        bits[0, :3] = odd
        t[Q] = ("F32", bits)
    assert np.array_equal(by_the_table(converted(made(tensors=change)).bits("layers.1.wq"), "F32", 24, 24)[0, :3], odd)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
