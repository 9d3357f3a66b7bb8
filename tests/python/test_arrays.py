#!/usr/bin/env python3
"""Weights, safetensors files and models made of arrays, compared with the package safetensors, with the program, and with what other
programs' files hold. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import os

from package import MODEL, ROOT, TEXT, program, raises, run_claims, tblock, temp
import numpy as np
from safetensors.numpy import load_file, save_file

DATA = os.path.join(ROOT, "tests", "data")


def _floats(folder):
    """The tensors of a published folder, as floats; those of BF16 by their bits."""
    arrays = tblock.load_arrays(os.path.join(DATA, "models", folder, "model.safetensors"))
    return {name: (a.view(np.uint16).astype(np.uint32) << 16).view(np.float32) if arrays.types[name] == "BF16" else a.astype(np.float32)
            for name, a in arrays.items()}


def weights_are_those_of_the_folder():
    """Of published folders: as they are, cut out of a fused tensor, stacked from experts."""
    with tblock.Model(os.path.join(DATA, "models", "llama-gqa")) as m:
        theirs, w = _floats("llama-gqa"), m.weights
        for l in range(m.n_layers):
            for ours, name in (("wq", "self_attn.q_proj"), ("wk", "self_attn.k_proj"), ("wo", "self_attn.o_proj"), ("w_down", "mlp.down_proj"),
                               ("attn_norm", "input_layernorm")):
                there = theirs["model.layers.%d.%s.weight" % (l, name)]
                here = w["layers.%d.%s" % (l, ours)]
                assert here.dtype == np.float32 and here.shape == w.shapes["layers.%d.%s" % (l, ours)] == there.shape
                assert here.tobytes() == there.tobytes(), (l, name)
        assert w["embed"].tobytes() == theirs["model.embed_tokens.weight"].tobytes()
        raises(KeyError, "layers.99.wq", lambda: w["layers.99.wq"])
    with tblock.Model(os.path.join(DATA, "models", "phi3")) as m:
        fused = _floats("phi3")["model.layers.0.mlp.gate_up_proj.weight"]
        both = np.concatenate([m.weights["layers.0.w_gate"], m.weights["layers.0.w_up"]])
        assert both.tobytes() == fused.tobytes()
    with tblock.Model(os.path.join(DATA, "models", "qwen2-moe")) as m:
        theirs = _floats("qwen2-moe")
        layer = next(n.split(".")[1] for n in m.weights if n.endswith("expert_down"))
        stack = m.weights["layers.%s.expert_down" % layer]
        for e in range(stack.shape[0]):
            there = theirs["model.layers.%s.mlp.experts.%d.down_proj.weight" % (layer, e)]
            assert stack[e].tobytes() == there.tobytes(), e


def weights_of_every_type_are_as_decoded():
    with tblock.Model(MODEL) as m:
        exact = dict(m.weights)
        assert set(m.weights.types.values()) == {"bf16", "f32"} and sum(a.size for a in exact.values()) == m.n_params
    for kind in ("f32", "f16", "bf16", "q8", "q4"):
        report = tblock.quantize(MODEL, temp("typed.bin"), kind)
        with tblock.Model(temp("typed.bin")) as m:
            for row in report.rows:
                found, original = m.weights[row.name].astype(np.float64), exact[row.name].astype(np.float64)
                error = np.sqrt(((found - original) ** 2).sum() / (original ** 2).sum())
                assert abs(error - row.error) <= 1e-9 * row.error, (row.name, kind, error, row.error)
                assert m.weights.types[row.name] == row.type
    with tblock.Model(os.path.join(DATA, "gguf", "llama-kquants", "model.gguf")) as m:
        tblock.convert(os.path.join(DATA, "gguf", "llama-kquants", "model.gguf"), temp("k.bin"), type="f32", row_major=True)
        rows = tblock.load_arrays(temp("k.bin"))
        assert {"q4_k", "q6_k"} & set(m.weights.types.values())
        for name, a in m.weights.items():
            assert a.tobytes() == rows[name].tobytes(), name


def a_model_is_made_of_arrays():
    with tblock.Model(MODEL) as m:
        config, weights = m.info().config, dict(m.weights)
        logits, text = m.context(math="f32").logits(TEXT), str(m.generate(TEXT, max_tokens=10))
        report = tblock.write_model(temp("made.bin"), config, weights, type="bf16", tokenizer=MODEL)
        assert report.n_params == m.n_params
        with tblock.Model(temp("made.bin")) as made:
            assert made.hash == tblock.load_arrays(temp("made.bin")).metadata["sha256"] and str(made.generate(TEXT, max_tokens=10)) == text
        tblock.write_model(temp("again.bin"), config, weights, type="bf16", tokenizer=MODEL)
        with open(temp("made.bin"), "rb") as a, open(temp("again.bin"), "rb") as b:
            assert a.read() == b.read()
        tblock.write_model(temp("wide.bin"), config, weights)
        with tblock.Model(temp("wide.bin")) as made:
            assert all(made.weights[name].tobytes() == a.tobytes() for name, a in weights.items()) and not made.has_tokenizer
            assert made.context(math="f32").logits(m.tokenize(TEXT)).tobytes() == logits.tobytes()
        program("info", temp("made.bin"), "--check")
        # an ablation: a head that does nothing
        wo = weights["layers.0.wo"].copy()
        wo[:, :m.head_dim] = 0
        tblock.write_model(temp("cut.bin"), config, {**weights, "layers.0.wo": wo}, type="bf16", tokenizer=MODEL)
        with tblock.Model(temp("cut.bin")) as cut:
            assert cut.context().logits(TEXT).tobytes() != logits.tobytes()
        less = {name: a for name, a in weights.items() if name != "layers.3.wk"}
        for kind, words, given in ((tblock.InputError, "layers.3.wk", less), (tblock.InputError, "extra", {**weights, "extra": wo}),
                                   (tblock.InputError, "layers.0.wo", {**weights, "layers.0.wo": wo[:-1]}),
                                   (tblock.InputError, "layers.0.wo", {**weights, "layers.0.wo": np.where(wo == 0, np.nan, wo)
                                                                       .astype(np.float32)}),
                                   (tblock.UsageError, "float64", {**weights, "layers.0.wo": wo.astype(np.float64)})):
            raises(kind, words, tblock.write_model, temp("none.bin"), config, given, type="bf16")
        raises(tblock.InputError, "config", tblock.write_model, temp("none.bin"), {**config, "heads": 5}, weights)
    assert not os.path.exists(temp("none.bin")) and not [n for n in os.listdir(temp("")) if n.startswith(".tblock")]


def arrays_are_those_of_safetensors():
    program("logits", MODEL, "--prompt", TEXT, "--hidden", "-o", temp("golden.safetensors"))
    ours, theirs = tblock.load_arrays(temp("golden.safetensors")), load_file(temp("golden.safetensors"))
    assert set(ours) == set(theirs) and ours.metadata["kv_type"] == "f32" and ours.types["tokens"] == "I32"
    for name, a in theirs.items():
        assert ours[name].dtype == a.dtype and ours[name].shape == a.shape and ours[name].tobytes() == a.tobytes()
        assert not ours[name].flags.writeable
    given = {"a": np.arange(6, dtype=np.int64).reshape(2, 3), "b": np.array(1.5), "none": np.zeros((0, 4), np.float16),
             "t": np.arange(6, dtype=">f4").reshape(2, 3).T, "bits": np.array([True, False])}
    tblock.save_arrays(temp("saved.safetensors"), given, metadata={"why": "na\u00efve"})
    theirs, ours = load_file(temp("saved.safetensors")), tblock.load_arrays(temp("saved.safetensors"))
    assert set(theirs) == set(given) and ours.metadata == {"why": "na\u00efve"}
    for name, a in given.items():
        assert np.array_equal(theirs[name], a) and np.array_equal(ours[name], a) and ours[name].shape == a.shape, name
    save_file({"x": np.ones(3, np.float32)}, temp("theirs.safetensors"))
    assert tblock.load_arrays(temp("theirs.safetensors"))["x"].tolist() == [1, 1, 1]


def bf16_has_its_name():
    """As bfloat16 where ml_dtypes is, else as bits."""
    bits = np.array([0x3F80, 0xC000, 0x7F80], np.uint16)
    tblock.save_arrays(temp("bf16"), {"x": bits, "y": bits}, types={"x": "BF16"})
    a = tblock.load_arrays(temp("bf16"))
    assert a.types == {"x": "BF16", "y": "U16"} and a["y"].dtype == np.uint16
    assert a["x"].view(np.uint16).tolist() == bits.tolist()
    tblock.save_arrays(temp("again"), dict(a), types=a.types)
    with open(temp("bf16"), "rb") as f, open(temp("again"), "rb") as g:
        assert f.read() == g.read()
    try:
        import ml_dtypes
    except ImportError:
        assert a["x"].dtype == np.uint16
        return
    assert a["x"].dtype == ml_dtypes.bfloat16 and a["x"].astype(np.float32).tolist() == [1, -2, np.inf]
    with tblock.Model(MODEL) as m:
        narrow = {name: a.astype(ml_dtypes.bfloat16) if a.ndim == 2 else a for name, a in m.weights.items()}
        tblock.write_model(temp("narrow.bin"), m.info().config, narrow)
        with tblock.Model(temp("narrow.bin")) as made:
            assert made.weight_types == "bf16" and made.context().logits([5, 6]).tobytes() == m.context().logits([5, 6]).tobytes()


def goldens_may_be_arrays():
    with tblock.Model(MODEL) as m, m.context() as c:
        ids, logits = m.tokenize(TEXT), c.logits(TEXT)
        assert c.verify({"tokens": ids, "logits": logits}, exact=True).ok
        hidden = {"hidden." + name: a for name, a in c.hidden(TEXT).items()}
        assert c.verify({"tokens": ids, "logits": logits, **hidden}, exact=True).rows[0].n_hidden == len(hidden) == 2 * m.n_layers + 2
        wrong = hidden["hidden.layer2.attn"].copy()
        wrong[3, 5] += 1
        row = c.verify({"tokens": ids, "logits": logits, **hidden, "hidden.layer2.attn": wrong}, exact=True).rows[0]
        assert not row.ok and row.parted == "layer 2, attention" and row.parted_pos == 3
        report = c.verify({"one.tokens": list(ids), "one.logits_f64": logits.astype(np.float64) + 1e-9}, tol=1e-6)
        assert report.ok and report.rows[0].name == "one"
        raises(tblock.InputError, "logits", c.verify, {"tokens": ids})
        np.save(temp("x-logits.npy"), logits)
        np.save(temp("x-tokens.npy"), np.asarray(ids))
        assert c.verify(temp("x-logits.npy"), exact=True).ok


def broken_files_are_refused():
    def header(text, data=b"", n=None):
        raw = text if isinstance(text, bytes) else json.dumps(text).encode()
        return (len(raw) if n is None else n).to_bytes(8, "little") + raw + data
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    for bad in (b"", b"1234567", header({"x": one}), header({"x": one}, b"12345678", 1 << 62), header(b"{", b""), header(b"[]"), header(b"[" * 100000),
                header({"x": {**one, "shape": [3]}}, b"12345678"), header({"x": {**one, "shape": [-2]}}, b"12345678"),
                header({"x": {**one, "shape": [1 << 62, 4]}}, b"12345678"), header({"x": {**one, "shape": 5}}, b"12345678"),
                header({"x": {**one, "dtype": "F3"}}, b"12345678"), header({"x": {**one, "data_offsets": [8, 0]}}, b"12345678"),
                header({"x": {**one, "data_offsets": [0]}}, b"12345678"), header({"x": {**one, "data_offsets": [-8, 0]}}, b"12345678"),
                header({"x": {**one, "shape": [2.0]}}, b"12345678"), header({"x": {**one, "shape": [True, 2]}}, b"12345678"),
                header({"x": 5}), header({"x": one, "__metadata__": 7}, b"12345678"), header(b'{"x": 1', b""), header(b"\xff\xfe")):
        with open(temp("bad"), "wb") as f:
            f.write(bad)
        raises(tblock.InputError, temp("bad"), tblock.load_arrays, temp("bad"))
    raises(tblock.InputError, "/nowhere", tblock.load_arrays, "/nowhere")
    tblock.save_arrays(temp("kept"), {"x": np.ones(2)})
    for words, given, more in (("complex128", {"x": np.ones(2, complex)}, {}), ("object", {"x": [None]}, {}), ("names", {5: np.ones(2)}, {}),
                               ("names", {"__metadata__": np.ones(2)}, {}), ("F32", {"x": np.ones(2)}, {"types": {"x": "F32"}}),
                               ("F9", {"x": np.ones(2)}, {"types": {"x": "F9"}}), ("metadata", {"x": np.ones(2)}, {"metadata": {"a": 5}})):
        raises(tblock.UsageError, words, tblock.save_arrays, temp("kept"), given, **more)
    assert tblock.load_arrays(temp("kept"))["x"].tolist() == [1, 1]
    raises(tblock.SystemFailure, "cannot write", tblock.save_arrays, "/nowhere/x", {"x": np.ones(2)})


if __name__ == "__main__":
    run_claims(globals())
