#!/usr/bin/env python3
"""Checkpoints of other programs, opened as they are: GGUF, llama2.c, Meta's folders.

    sources.py [--build DIR] [--only TEXT]

GGUF: `verify` against the float64 logits of the dequantized weights within the recording's tolerance, greedy tokens token by
token, with --math f32 --kv-type f32; the default (integers, an f16 cache) near them; a model file converted from it gives
the same bits. Folders: tests/data/gguf, and those of $TBLOCK_TEST_DATA. Meta's folders are written here from a
fixture's weights, whole and in tensor-parallel shards, and give the bits of that fixture.
"""
import argparse
import json
import sys

import numpy as np

from ref import read_safetensors
from runner import FIXTURES, MORE, ROOT, Failure, Program, add_options, run_checks

sys.path.insert(0, str(ROOT / "tests" / "format"))
import make_pth  # noqa: E402

GGUF = ["gemma2-f16", "llama-gqa-q4_1", "llama-kquants", "llama3-e2e-bf16", "qwen2-bf16", "stories260K-f16", "stories260K-f32",
        "stories260K-q4_0", "stories260K-q5_1", "stories260K-q8_0"]

# A share of the largest logit: 8-bit activations of the integer kernels, about twice the worst case (llama-kquants 2.7e-2).
NEAR = 6e-2
NEAR_OF = {"llama-gqa-q4_1": 0.15}    # 7.3e-2 in one of its sequences; q8 of the same model with 8 bits 4.3e-2


class Test(Program):
    def __init__(self, build):
        super().__init__(build, build / "golden" / "sources")

    def logits(self, model, golden, name, *options):
        """The bits of the logits of a golden file's longest sequence."""
        ids = ",".join(str(t) for t in read_safetensors(golden)["seq2.tokens"])
        answer = self.out / f"{name}.safetensors"
        self.run(self.tblock, "logits", model, "--ids", ids, "-o", answer, "--quiet", *options)
        return read_safetensors(answer)["logits"].tobytes()

    # ---- claims ----

    def gguf(self, name, folder):
        model, golden = folder / "model.gguf", folder / "golden.safetensors"
        tolerance = json.loads((folder / "golden.json").read_text())["suggested_tolerance"]
        largest = max(np.abs(v).max() for k, v in read_safetensors(golden).items() if "logits" in k)
        self.run(self.tblock, "verify", model, golden, "--greedy", "--tol", tolerance, "--math", "f32", "--kv-type", "f32")
        self.run(self.tblock, "verify", model, golden, "--tol", NEAR_OF.get(name, NEAR) * largest)
        same = self.logits(model, golden, name + ".direct")
        for options in (("--threads", "2"), ("--isa", "scalar")):
            if self.logits(model, golden, name + ".again", *options) != same:
                raise Failure(f"{name}: other bits with {' '.join(options)}")
        converted = self.out / f"{name}.bin"
        self.run(self.tblock, "convert", model, "-o", converted, "--quiet")
        if self.logits(converted, golden, name + ".converted") != same:
            raise Failure(f"{name}: the converted file gives other bits")

    def meta(self, folder, shards):
        source = self.out / f"meta-{shards}"
        write_meta(folder, source, shards)
        golden = folder / "golden.safetensors"
        model = self.out / "meta-original.bin"
        self.run(sys.executable, ROOT / "tools" / "convert.py", folder, "-o", f"{model}.{shards}")
        if self.logits(source, golden, source.name) != self.logits(f"{model}.{shards}", golden, f"{source.name}.hf"):
            raise Failure("the folder gives other bits than the one it was made of")

    def llama2c(self, model, golden, tolerance):
        self.run(self.tblock, "verify", model, golden, "--tol", tolerance)


# ---- Meta's folders -------------------------------------------------------------------------------------------------------

class Raw(make_pth.Storage):
    """Float32 values of an array."""
    def __init__(self, key, array):
        super().__init__(key, "F32", array.ravel())
        self.bytes = np.ascontiguousarray(array, "<f4").tobytes()

    def data(self):
        return self.bytes


def neighbours(w, heads):
    """Rows by halves of a head to rows by neighbouring pairs."""
    rows, k = w.shape
    return w.reshape(heads, 2, rows // heads // 2, k).swapaxes(1, 2).reshape(rows, k)


def cut(w, axis, shards, i):
    return w if axis is None else np.split(w, shards, axis)[i]


def write_meta(folder, out, shards):
    c = json.loads((folder / "config.json").read_text())
    w = read_safetensors(folder / "model.safetensors")
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    rope = c.get("rope_parameters") or c
    out.mkdir(exist_ok=True)
    (out / "params.json").write_text(json.dumps({
        "dim": c["hidden_size"], "n_layers": c["num_hidden_layers"], "n_heads": heads, "n_kv_heads": kv_heads, "multiple_of": 256,
        "norm_eps": c["rms_norm_eps"], "rope_theta": rope["rope_theta"], "vocab_size": -1}))
    names = [("tok_embeddings.weight", "model.embed_tokens.weight", 1), ("norm.weight", "model.norm.weight", None),
             ("output.weight", "lm_head.weight", 0)]
    for layer in range(c["num_hidden_layers"]):
        names += [(f"layers.{layer}.{a}.weight", f"model.layers.{layer}.{b}.weight", axis) for a, b, axis in (
            ("attention.wq", "self_attn.q_proj", 0), ("attention.wk", "self_attn.k_proj", 0), ("attention.wv", "self_attn.v_proj", 0),
            ("attention.wo", "self_attn.o_proj", 1), ("feed_forward.w1", "mlp.gate_proj", 0), ("feed_forward.w2", "mlp.down_proj", 1),
            ("feed_forward.w3", "mlp.up_proj", 0), ("attention_norm", "input_layernorm", None),
            ("ffn_norm", "post_attention_layernorm", None))]
    for i in range(shards):
        state = {"rope.freqs": np.zeros(4, "<f4")}
        for ours, theirs, axis in names:
            t = w[theirs]
            if "wq" in ours or "wk" in ours:
                t = neighbours(t, heads if "wq" in ours else kv_heads)
            state[ours] = cut(t, axis, shards, i)
        tensors = {}
        for n, (name, t) in enumerate(state.items()):
            strides = tuple(s // 4 for s in np.ascontiguousarray(t, "<f4").strides)
            tensors[name] = make_pth.Tensor(Raw(str(n), t), 0, t.shape, strides)
        make_pth.write_zip(out / f"consolidated.{i:02}.pth", tensors, 2)


# ---- The list -------------------------------------------------------------------------------------------------------------

def checks(t):
    for name in GGUF:
        own = ROOT / "tests" / "data" / "gguf" / name
        folder = own if own.exists() else FIXTURES / "gguf" / name
        yield f"source_gguf_{name}", folder, lambda name=name, folder=folder: t.gguf(name, folder)
    gqa = ROOT / "tests" / "data" / "models" / "llama-gqa"
    for shards in (1, 2):
        yield f"source_meta_{shards}", gqa, lambda shards=shards: t.meta(gqa, shards)
    data = MORE
    for name, model, golden, tolerance in (
            ("v0", "stories260K/stories260K.bin", "stories260K/stories260K.f32", 4e-4),
            ("v1", "stories260K/stories260K.v1.bin", "stories260K/stories260K.f32", 4e-4),
            ("v2", "stories260K/stories260K.q80-gs8.bin", "stories260K/stories260K.f32", 0.5),  # int8 weights, golden of floats
            ("babyllama105", "babyllama105/model5000.bin", "babyllama105/babyllama105.f32", 4e-4)):
        model, golden = data / "models" / model, data / "derived" / (golden + ".golden.safetensors")
        yield f"source_llama2c_{name}", model, lambda a=model, b=golden, c=tolerance: t.llama2c(a, b, c)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    args = parser.parse_args()
    return run_checks(checks(Test(args.build)), args.only)


if __name__ == "__main__":
    sys.exit(main())
