#!/usr/bin/env python3
"""`tblock convert` of quantized Hugging Face folders: codes, scales and zero points become the values that numpy makes of them,
in a type that loses none of them; what would change the result is refused by name."""
import json
import os
import sys

import harness
from harness import MODELS, ModelFile, converted, edited, if_there, need, refused, temp
import numpy as np

CT = "compressed-tensors"
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [16, 24]}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": False, "damp_percent": 0.01}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm", "modules_to_not_convert": None}


def ct(form, bits=4, group=32, symmetric=True, strategy="group", of="int", **more):
    weights = {"num_bits": bits, "type": of, "symmetric": symmetric, "strategy": strategy, "group_size": group if strategy == "group" else None,
               "dynamic": False, "observer": "minmax", "actorder": None, **more}
    return {"quant_method": CT, "format": form, "ignore": ["lm_head"], "kv_cache_scheme": None, "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}}}


# ---- What the formats mean, written a second time ----------------------------------------------------------------------------

def stream(codes, bits):
    """Codes along the last axis as one stream of bits, the lowest first, in words."""
    flat = codes.reshape(-1, codes.shape[-1]).astype(np.uint8)
    stream_of = np.unpackbits(flat[..., None], axis=-1, bitorder="little")[..., :bits].reshape(len(flat), -1)
    stream_of = np.pad(stream_of, ((0, 0), (0, -stream_of.shape[1] % 32)))
    return np.packbits(stream_of, axis=-1, bitorder="little").view("<i4").reshape(*codes.shape[:-1], -1)


def awq_words(codes):
    """Eight codes in a word: those of columns 0 2 4 6 1 3 5 7."""
    eights = codes.reshape(codes.shape[0], -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]].astype(np.uint32)
    return (eights << np.arange(0, 32, 4, dtype=np.uint32)).sum(-1, dtype=np.uint32).view("<i4")


def e4m3(codes):
    sign, e, m = np.where(codes & 128, -1.0, 1.0), (codes >> 3 & 15).astype(int), codes & 7
    value = np.where(e == 0, m / 8 * 2.0 ** -6, (1 + m / 8) * 2.0 ** (e - 7))
    return (sign * np.where((codes & 127) == 127, np.nan, value)).astype("<f4")


def floats(x, dtype):
    """(bits, values) of x rounded to F16, BF16 or F32."""
    x = np.asarray(x, "<f4")
    if dtype == "F16":
        return x.astype("<f2").view("<u2"), x.astype("<f2").astype("<f4")
    if dtype == "BF16":
        bits = (x.view("<u4") >> 16).astype("<u2")
        return bits, (bits.astype("<u4") << 16).view("<f4")
    return x.view("<u4"), x


def scales(rng, shape, dtype):
    return floats(rng.uniform(0.001, 0.02, shape) * rng.choice([-1, 1], shape), dtype)


class Form:
    """Random tensors of a quantized matrix and the values that they stand for."""
    def __init__(self, config, type_of, dtype="F16", **how):
        self.config, self.type, self.dtype, self.how = config, type_of, dtype, how

    def __call__(self, rng, rows, k):
        method = self.config["quant_method"]
        return {"fp8": self.fp8, "gptq": self.gptq, "awq": self.awq, CT: self.compressed}[method](rng, rows, k)

    def float8(self, rng, rows, k, block, name):
        codes = np.resize(np.delete(np.arange(256), [127, 255]), (rows, k)).astype("<u1")
        rng.shuffle(codes.reshape(-1))
        of_rows, of_k = (block[0] or rows), (block[1] or k)
        shape = (-(-rows // of_rows), -(-k // of_k))
        s_bits, s = scales(rng, shape, self.dtype)
        if self.how.get("power"):
            s_bits = rng.integers(115, 125, shape).astype("<u1")
            s = 2.0 ** (s_bits.astype(int) - 127)
            s_bits, s = (s_bits, s) if self.dtype == "F8_E8M0" else floats(s, self.dtype)
        w = e4m3(codes) * np.repeat(np.repeat(s, of_rows, 0)[:rows], of_k, 1)[:, :k].astype("<f4")
        if shape == (1, 1) and self.how.get("scalar"):
            s_bits = s_bits.reshape(())
        return {"weight": ("F8_E4M3", codes), name: (self.dtype, s_bits), **self.how.get("more", {})}, w

    def fp8(self, rng, rows, k):
        return self.float8(rng, rows, k, self.config["weight_block_size"] or (0, 0), "weight_scale_inv")

    def integers(self, rng, rows, k, bits, group, offset=0):
        codes = rng.integers(0, 1 << bits, (rows, k)) - offset
        groups = -(-k // group) if group > 0 else 1
        g = np.arange(k) // group if group > 0 else np.zeros(k, int)
        if self.how.get("order"):
            g = rng.permutation(g)
        s_bits, s = scales(rng, (rows, groups), self.dtype)
        return codes, g, s_bits, s

    def gptq(self, rng, rows, k):
        bits, first = self.config["bits"], self.config.get("checkpoint_format", "gptq") == "gptq"
        codes, g, s_bits, s = self.integers(rng, rows, k, bits, self.config["group_size"])
        zeros = rng.integers(0, (1 << bits) - first, s.shape) if self.how.get("zeros", True) else np.full(s.shape, (1 << bits - 1) - first)
        w = s[:, g] * (codes - (zeros + first)[:, g]).astype("<f4")
        t = {"qweight": ("I32", np.ascontiguousarray(stream(codes.T.copy().T, bits).T)), "qzeros": ("I32", stream(zeros.T, bits)),
             "scales": (self.dtype, np.ascontiguousarray(s_bits.T))}
        if self.how.get("g_idx", True):
            t["g_idx"] = ("I32", g.astype("<i4"))
        return t, w

    def awq(self, rng, rows, k):
        codes, g, s_bits, s = self.integers(rng, rows, k, 4, self.config["group_size"])
        zeros = rng.integers(0, 16, s.shape) if self.how.get("zeros", True) else np.full(s.shape, 8)
        w = s[:, g] * (codes - zeros[:, g]).astype("<f4")
        return {"qweight": ("I32", awq_words(codes.T)), "qzeros": ("I32", awq_words(zeros.T)),
                "scales": ("F16", np.ascontiguousarray(s_bits.T))}, w

    def compressed(self, rng, rows, k):
        weights = self.config["config_groups"]["group_0"]["weights"]
        bits, group = weights["num_bits"], weights["group_size"] or -1
        block = {"tensor": (0, 0), "channel": (1, 0), "block": weights.get("block_structure")}.get(weights["strategy"])
        if weights["type"] == "float":
            return self.float8(rng, rows, k, block, "weight_scale")
        packed = self.config["format"] == "pack-quantized"
        codes, g, s_bits, s = self.integers(rng, rows, k, bits if packed else 8, group, 1 << (bits if packed else 8) - 1)
        if weights["strategy"] == "tensor":
            s_bits, s = s_bits[:1], np.repeat(s[:1], rows, 0)
        lowest = 1 << bits - 1
        zeros = np.zeros(s.shape, int) if weights["symmetric"] else rng.integers(-lowest, lowest, s.shape)
        w = s[:, g] * (codes - zeros[:, g]).astype("<f4")
        t = {"weight_scale": (self.dtype, s_bits), "input_scale": floats(np.ones(1), "F32")[0]}
        t["input_scale"] = ("F32", t["input_scale"])
        if packed:
            t.update(weight_packed=("I32", stream(codes + lowest, bits)), weight_shape=("I64", np.array([rows, k], "<i8")))
        else:
            t["weight"] = ("I8", codes.astype("<i1"))
        if not weights["symmetric"]:
            t["weight_zero_point"] = ("I32", np.ascontiguousarray(stream((zeros + lowest).T, bits).T)) if packed else ("I8", zeros.astype("<i1"))
        if self.how.get("order"):
            t["weight_g_idx"] = ("I32", g.astype("<i4"))
        return t, w


# ---- Folders -----------------------------------------------------------------------------------------------------------------

def linear(name, bits):
    return name.endswith(".weight") and bits.ndim == 2 and not any(part in name for part in ("embed", "lm_head", "mlp.gate.weight", "block_sparse_moe.gate"))


# Widths that are whole runs of 32, where a fixture has none.
WIDER = {"llama-gqa": ("intermediate_size", 172, 160), "llama-wide": ("intermediate_size", 1100, 1152), "qwen3-moe": ("moe_intermediate_size", 40, 64)}


def folders(fixture, form):
    """A fixture's folder with this form of random weights, and one with their values as floats."""
    key, narrow, wide = WIDER.get(fixture, (None, 0, 0))

    def quantized(t):
        for name in made:
            parts = made[name][0]
            del t[name]
            t.pop(name + "_scale_inv", None)
            t.update({name[:-6] + part: tensor for part, tensor in parts.items()})

    def plain(t):
        for name in made:
            t.pop(name + "_scale_inv", None)
            t[name] = ("F32", made[name][1].astype("<f4").view("<u4"))
    source, rng = harness.source_tensors(need(MODELS, fixture)), np.random.default_rng(7)
    made = {n: form(rng, *(wide if d == narrow else d for d in bits.shape)) for n, (_, bits) in source.items() if linear(n, bits)}
    config = {key: wide} if key else {}
    yield edited(fixture, config={"quantization_config": form.config, **config}, tensors=quantized)
    yield edited(fixture, config=config, tensors=plain)


def int4(group, alone="q4_z32"):
    """The type of codes of up to 4 bits by the columns that share a scale; alone: of groups of 32."""
    return lambda k: next(kind for n, kind in ((128, "q4_z128"), (64, "q4_z64"), (32, alone)) if group < 0 or k <= group or group % n == 0)


def weights_of(path):
    m = ModelFile(path) if isinstance(path, str) else path
    return {name: m.bits(name) for name in m.header if not name.startswith("pad.")}


def same(a, b, why):
    assert a.keys() == b.keys(), why
    for name in a:
        assert np.array_equal(a[name], b[name]), "%s: %s" % (why, name)


def check(fixture, form):
    """The values are those of numpy, bit for bit, with --type f32 at once and from a file that keeps the stored type."""
    why = "%s %s" % (fixture, json.dumps(form.config)[:160])
    made = folders(fixture, form)
    folder = next(made)
    kept = converted(folder, out="kept.bin")
    direct = weights_of(converted(folder, "--type", "f32", "--layout", "rows", out="direct.bin"))
    again = weights_of(converted(temp("kept.bin"), "--type", "f32", "--layout", "rows", out="again.bin"))
    expected = weights_of(converted(next(made), "--type", "f32", "--layout", "rows", out="expected.bin"))
    same(direct, expected, why)
    same(again, expected, why + " kept")
    for name, entry in kept.header.items():
        key = {"wq": "d_model", "w_down": "d_ff", "expert_down": "expert_d_ff"}.get(name.rpartition(".")[2])
        if key and name.startswith("layers."):
            found = kept.meta.get("type." + name, entry["dtype"].lower())
            k = kept.config[key]
            want = form.type if form.type == "bf16" or k % 32 == 0 else "f32"
            want = want if isinstance(want, str) else want(k)
            assert found == want, "%s: %s is %s, expected %s" % (why, name, found, want)


SCALAR = {"more": {"activation_scale": ("F32", np.ones((), "<f4").view("<u4"))}, "scalar": True}


def test_fp8_blocks_and_tensors():
    for block in ([16, 24], [128, 128], [7, 5], None):
        for dtype in ("F32", "BF16", "F16"):
            check("llama-gqa", Form({**FP8, "weight_block_size": block}, "f32", dtype, **({} if block else SCALAR)))
    for dtype in ("F32", "F8_E8M0"):
        check("llama-gqa", Form({**FP8, "scale_fmt": "ue8m0"}, "bf16", dtype, power=True))


def test_compressed_floats_and_integers():
    for strategy, more in (("tensor", {}), ("channel", {}), ("block", {"block_structure": [16, 16]}), ("block", {"block_structure": "16x32"})):
        if not more:
            check("llama-gqa", Form(ct("float-quantized", 8, strategy=strategy, of="float", **more), "f32", "BF16"))
            check("llama-gqa", Form(ct("int-quantized", 8, strategy=strategy, **more), "q8_0", "BF16"))
    check("llama-gqa", Form(ct("float-quantized", 8, strategy="block", of="float", block_structure=[16, 16]), "f32", "BF16"))
    check("llama-gqa", Form(ct("naive-quantized", 8, strategy="channel", of="float"), "bf16", "F32", power=True))
    check("llama-gqa", Form(ct("int-quantized", 8, strategy="channel"), "f32", "F32"))             # f16 does not hold these scales
    check("llama-gqa", Form(ct("int-quantized", 8, strategy="channel", symmetric=False), "f32", "BF16"))  # -255 to 255
    check("llama-headdim", Form(ct("int-quantized", 8, strategy="channel"), "f32", "BF16"))        # rows are not whole runs of 32


def test_compressed_packed():
    for bits in range(2, 9):
        for symmetric in (True, False):
            kind = "f32" if bits == 8 and not symmetric else "q8_0" if bits > 4 else int4(32, "q4_0" if bits < 4 or symmetric else "q4_z32")
            check("llama-gqa", Form(ct("pack-quantized", bits, symmetric=symmetric), kind, "BF16"))
    for symmetric in (True, False):
        check("llama-gqa", Form(ct("pack-quantized", 4, strategy="channel", symmetric=symmetric), int4(-1), "BF16"))
        for group in (64, 96, 128):
            check("llama-gqa", Form(ct("pack-quantized", 4, group=group, symmetric=symmetric), int4(group, "q4_0" if symmetric else "q4_z32"), "F16"))
    check("llama-gqa", Form(ct("pack-quantized", 4, symmetric=False), "f32", "F32"))  # f16 does not hold these scales
    check("llama-gqa", Form(ct("pack-quantized", 4, group=16), "f32", "F16"))
    check("llama-gqa", Form(ct("pack-quantized", 4, actorder="group"), "f32", "F16", order=True))
    check("llama-gqa", Form(ct("pack-quantized", 4, actorder="weight"), "q4_0", "F16"))


def test_gptq():
    for bits in (2, 3, 4, 8):
        for version in ("gptq", "gptq_v2"):
            for group in (32, 64, -1):
                kind = "f32" if bits == 8 else int4(group, "q4_z32" if bits == 4 else "q4_0")
                check("llama-gqa", Form({**GPTQ, "bits": bits, "group_size": group, "checkpoint_format": version}, kind))
        check("llama-gqa", Form({**GPTQ, "bits": bits, "sym": True}, "q8_0" if bits == 8 else "q4_0", zeros=False))
    check("llama-gqa", Form({**GPTQ, "desc_act": True}, "f32", order=True))
    check("llama-gqa", Form({**GPTQ, "sym": True, "group_size": 16}, "f32", zeros=False))
    check("llama-gqa", Form({**GPTQ, "sym": True}, "q4_0", zeros=False, g_idx=False))


def test_awq():
    for group in (32, 64, 128, -1):
        check("llama-gqa", Form({**AWQ, "group_size": group}, int4(group)))
    check("llama-gqa", Form(AWQ, "q4_0", zeros=False))


def test_fused_rows_pairs_and_experts():
    for fixture in ("phi3", "cohere", "glm4", "mixtral", "qwen3-moe"):
        with if_there():
            check(fixture, Form(FP8, "f32", "F32"))
            for form in (Form({**GPTQ, "group_size": -1}, int4(-1)), Form({**AWQ, "group_size": -1}, int4(-1)),
                         Form(ct("pack-quantized", 4, strategy="channel"), int4(-1), "BF16")):
                check(fixture, form)


def test_latent_attention():
    """The rows of kv_b_proj are those of two matrices, of which one is read by columns."""
    for form in (*(Form({**FP8, "weight_block_size": block}, "f32", "F32") for block in ([5, 3], [7, 24], [128, 128])),
                 Form({**FP8, "scale_fmt": "ue8m0"}, "bf16", "F8_E8M0", power=True), Form(ct("int-quantized", 8, strategy="channel"), "q8_0", "BF16"),
                 Form(ct("pack-quantized", 3, strategy="channel"), int4(-1), "BF16"),
                 Form(ct("pack-quantized", 4, strategy="channel", symmetric=False), int4(-1), "BF16"),
                 Form({**GPTQ, "bits": 3, "group_size": 8, "desc_act": True}, "f32", order=True), Form({**AWQ, "group_size": -1}, int4(-1))):
        check("deepseek-v3-fp8", form)
    m = converted(next(folders("deepseek-v3-fp8", Form({**AWQ, "group_size": -1}, int4(-1)))))
    assert (m.meta["type.layers.0.w_uv"], m.header["layers.0.w_uk"]["dtype"]) == ("q4_z128", "F32")


def test_logits_of_kept_types_are_those_of_floats():
    for fixture, form in (("llama-gqa", Form(FP8, "f32", "F32")), ("llama-gqa", Form(AWQ, int4(32))), ("llama-gqa", Form({**AWQ, "group_size": 128}, int4(128))),
                          ("llama-gqa", Form(ct("pack-quantized"), "q4_0", "BF16")),
                          ("llama-gqa", Form({**FP8, "scale_fmt": "ue8m0"}, "bf16", "F32", power=True)),
                          ("deepseek-v3-fp8", Form(ct("int-quantized", 8, strategy="channel"), "q8_0", "BF16"))):
        answers = []
        for folder in folders(fixture, form):
            done = harness.tblock("logits", folder, "--ids", "1,5,9,20,3", "--math", "f32", "--kv-type", "f32", "-o", temp("logits.safetensors"))
            assert done.returncode == 0, done.stderr
            answers.append(harness.read_safetensors(temp("logits.safetensors"))["logits"][1].tobytes())
        assert answers[0] == answers[1], form.config


def test_the_hash_of_the_weights_covers_their_scales():
    def hash_of(folder, name):
        t = {n: (dtype, bits.copy()) for n, (dtype, bits) in harness.source_tensors(folder).items()}
        found = []
        for _ in range(2):
            harness.write_safetensors(os.path.join(folder, "model.safetensors"), t)
            done = harness.tblock("logits", folder, "--ids", "1,5", "-o", temp("l.safetensors"))
            assert done.returncode == 0, done.stderr
            found.append(ModelFile(temp("l.safetensors")).meta["model_sha256"])
            t[name][1].reshape(-1)[0] += 1
        assert found[0] != found[1], name
    hash_of(next(folders("llama-gqa", Form(GPTQ, int4(32)))), "model.layers.0.self_attn.q_proj.scales")
    hash_of(next(folders("llama-gqa", Form(GPTQ, int4(32)))), "model.layers.0.self_attn.q_proj.qzeros")
    hash_of(next(folders("llama-gqa", Form(FP8, "f32", "F32"))), "model.layers.0.mlp.down_proj.weight_scale_inv")
    with if_there():
        hash_of(edited("gpt-oss-mxfp4"), "model.layers.0.mlp.experts.down_proj_scales")


def test_recorded_folders_give_their_logits():
    for name in ("qwen3-fp8", "llama-ct-fp8", "llama-ct-w8a8", "llama-ct-w4a16", "qwen2-gptq", "llama-awq", "deepseek-v3-fp8"):
        with if_there():
            folder = need(MODELS, name)
            tolerance = json.load(open(os.path.join(folder, "golden.json")))["suggested_tolerance"]
            converted(folder, out=name + ".bin")
            for model in (folder, temp(name + ".bin")):
                done = harness.tblock("verify", model, os.path.join(folder, "golden.safetensors"), "--greedy", "--tol", tolerance,
                                      "--math", "f32", "--kv-type", "f32")
                assert done.returncode == 0, done.stdout + done.stderr


def test_what_runs_as_f32_is_said_once_with_its_reason():
    for form, reason in ((Form({**GPTQ, "desc_act": True}, "f32", order=True), "groups are not in the order of columns (desc_act)"),
                         (Form({**GPTQ, "group_size": 16}, "f32"), "rows or groups are not multiples of 32 columns"),
                         (Form({**GPTQ, "bits": 8}, "f32"), "codes less zero points do not fit 8 bits"),
                         (Form(ct("pack-quantized"), "f32", "F32"), "scales do not fit f16"),
                         (Form(FP8, "f32", "F32"), "scales are not powers of two"), (Form(AWQ, int4(32)), None)):
        status, _, err = harness.convert(next(folders("llama-gqa", form)))
        lines = [line for line in err.splitlines() if "f32" in line]
        assert status == 0 and len(lines) == (reason is not None), (reason, err)
        assert reason is None or (reason in lines[0] and "layers.0.self_attn.q_proj" in lines[0]), err


def test_the_memory_is_the_file_s():
    """Groups of 64 and 128 keep one scale and one zero point: the panels are within 1.05 of the folder's tensors."""
    for form in (Form({**AWQ, "group_size": 32}, ""), Form({**AWQ, "group_size": 64}, ""), Form({**GPTQ, "group_size": 128, "sym": True}, "", zeros=False),
                 Form({**AWQ, "group_size": 128}, ""), Form(ct("pack-quantized", group=128, symmetric=False), "")):
        folder = next(folders("llama-wide", form))
        stored, kept = harness.source_tensors(folder), converted(folder)
        its = sum(bits.nbytes for name, (_, bits) in stored.items() if "layers.0." in name)
        ours = sum(kept.bits(name).nbytes for name in kept.header if name.startswith("layers.0."))
        assert 0.9 < ours / its < 1.05, (form.config, ours / its)


# ---- Refusals ----------------------------------------------------------------------------------------------------------------

def test_settings_that_change_the_result_are_refused():
    def case(config, *expected):
        refused(edited("llama-gqa", config={"quantization_config": config}), "quantization_config", *expected)

    def group(**changes):
        c = ct("pack-quantized")
        c["config_groups"]["group_0"].update(changes)
        return c
    case({"quant_method": "bitsandbytes", "load_in_4bit": True}, "fp8, compressed-tensors, gptq or awq", "'bitsandbytes'")
    case({}, "quant_method")
    case("fp8", "'fp8'")
    case({**FP8, "fmt": "e5m2"}, ".fmt", "e4m3", "'e5m2'")
    case({**FP8, "weight_block_size": [128]}, "weight_block_size", "two sizes")
    case({**FP8, "weight_block_size": [0, 128]}, "weight_block_size", "1 to")
    case({**FP8, "expert_dtype": "fp4"}, "expert_dtype", "'fp4'")
    case({**FP8, "kv_cache_scheme": "static"}, "kv_cache_scheme", "unknown")
    case({**GPTQ, "bits": 5}, ".bits", "2, 3, 4 or 8", "5")
    case({"quant_method": "gptq"}, ".bits")
    case({**GPTQ, "group_size": 0}, "group_size", "found 0")
    case({**GPTQ, "checkpoint_format": "marlin"}, "checkpoint_format", "'gptq' or 'gptq_v2'", "'marlin'")
    case({**GPTQ, "is_marlin_format": True}, "is_marlin_format", "true")
    case({**GPTQ, "pack_dtype": "int64"}, "pack_dtype", "'int64'")
    case({**GPTQ, "dynamic": {"+:.*down.*": {"bits": 8}}}, ".dynamic", "an object")
    case({**GPTQ, "rotation": "hadamard"}, "rotation", "unknown")
    case({**AWQ, "version": "gemv"}, ".version", "gemm", "'gemv'")
    case({**AWQ, "zero_point": False}, "zero_point", "true")
    case({**AWQ, "bits": 3}, ".bits", "4 to 4", "3")
    case({**AWQ, "backend": "llm-awq"}, ".backend", "'llm-awq'")
    case({**AWQ, "": 1}, "unknown")
    case({**AWQ, " modules_to_not_convert": 1}, ". modules_to_not_convert", "unknown")
    case(ct("nvfp4-pack-quantized"), ".format", "'nvfp4-pack-quantized'")
    case({**ct("pack-quantized"), "kv_cache_scheme": {"num_bits": 8}}, "kv_cache_scheme")
    case({**ct("pack-quantized"), "sparsity_config": {"format": "sparse-24-bitmask"}}, "sparsity_config", "'sparse-24-bitmask'")
    case({**ct("pack-quantized"), "transform_config": {"config_groups": {"R1": {}}}}, "transform_config")
    case({**ct("pack-quantized"), "new_key": 1}, "new_key", "unknown")
    case(group(output_activations={"num_bits": 8}), "group_0.output_activations")
    case(group(format="int-quantized"), "group_0.format", "pack-quantized")
    case(group(weights=[4, "group"]), "group_0.weights", "expected an object, found array")
    case(group(weights={"num_bits": 4, "strategy": "tensor_group"}), "weights.strategy", "'tensor_group'")
    case(group(weights={"num_bits": 4, "type": "float", "strategy": "channel"}), "weights.type", "'float'")
    case(group(weights={"num_bits": 4, "strategy": "channel", "dynamic": True}), "weights.dynamic", "false", "true")
    case(group(weights={"num_bits": 9, "strategy": "channel"}), "weights.num_bits", "2 to 8", "9")
    case(group(weights={"num_bits": 4, "strategy": "tensor", "symmetric": False}), "weights.symmetric", "true")
    case(group(weights={"num_bits": 4, "strategy": "channel", "zero": 1}), "weights.zero", "unknown")
    two = ct("pack-quantized")
    two["config_groups"]["group_1"] = ct("pack-quantized", 8)["config_groups"]["group_0"]
    case(two, "config_groups", "alike", "group_1")


def test_tensors_that_do_not_fit_are_refused():
    def case(form, change, *expected):
        folder = next(folders("llama-gqa", form))
        t = {name: (dtype, bits.copy()) for name, (dtype, bits) in harness.source_tensors(folder).items()}
        change(t)
        harness.write_safetensors(os.path.join(folder, "model.safetensors"), t)
        refused(folder, *expected)
    at = "model.layers.0.self_attn.q_proj."
    fp8, gptq, packed = Form(FP8, "f32", "F32"), Form({**GPTQ, "sym": True}, "q4_0", zeros=False), Form(ct("pack-quantized"), "q4_0", "BF16")
    case(fp8, lambda t: t.pop(at + "weight_scale_inv"), at + "weight_scale_inv", "no such tensor")
    case(fp8, lambda t: t.update({at + "weight_scale_inv": ("F32", np.zeros((1, 1), "<u4"))}), at + "weight_scale_inv", "[1, 1]")
    case(fp8, lambda t: t.update({at + "weight_scale_inv": ("I32", t[at + "weight_scale_inv"][1])}), "expected F16, BF16, F32, F8_E8M0", "I32")
    case(fp8, lambda t: t.update({at + "weight": ("F8_E5M2", t[at + "weight"][1])}), at + "weight", "F8_E5M2")
    case(gptq, lambda t: t.pop(at + "qzeros"), at + "qzeros", "no such tensor")
    case(gptq, lambda t: t[at + "g_idx"][1].__setitem__(3, 1000), at + "g_idx", "groups from 0 to", "1000")
    case(gptq, lambda t: t[at + "g_idx"][1].__setitem__(3, -1), at + "g_idx", "-1")
    case(gptq, lambda t: t[at + "qzeros"][1].__setitem__((0, 1), 15), at + "qzeros", "loaders disagree")
    case(packed, lambda t: t[at + "weight_shape"][1].__setitem__(0, 63), at + "weight_shape", "63")
    case(packed, lambda t: t.pop(at + "weight_shape"), at + "weight_shape", "no such tensor")
    case(Form({**GPTQ, "desc_act": True}, "f32", order=True), lambda t: t.pop(at + "g_idx"), at + "g_idx", "no such tensor")
    case(packed, lambda t: t.update({at + "weight_global_scale": ("F32", np.ones(1, "<u4"))}), at + "weight_global_scale", "no such tensor")


def test_biases_of_zeros_that_nobody_asked_for_are_left_out():
    form = Form({**GPTQ, "sym": True}, "q4_0", zeros=False)
    for value, good in ((0, True), (1, False)):
        folder = next(folders("llama-gqa", form))
        t = {name: (dtype, bits.copy()) for name, (dtype, bits) in harness.source_tensors(folder).items()}
        rows = t["model.layers.0.self_attn.q_proj.scales"][1].shape[1]
        t["model.layers.0.self_attn.q_proj.bias"] = ("F16", np.full(rows, value, "<u2"))
        harness.write_safetensors(os.path.join(folder, "model.safetensors"), t)
        if good:
            converted(folder)
        else:
            refused(folder, "q_proj.bias", "the config has no bias here")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
