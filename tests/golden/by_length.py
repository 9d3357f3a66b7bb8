#!/usr/bin/env python3
"""Rotations that depend on a length, which is a constant of the context: longrope and dynamic NTK.

    by_length.py [--build DIR] [--only TEXT]

The reference takes the length of the whole sequence. So each recorded sequence is computed with --rope-length of its own
length, and each greedy token with that of the text before it, computed from the start, as the reference did. The folder, a
model file converted from it and a GGUF file with llama.cpp's names are compared; what is recorded of a run names the length.
"""
import argparse
import json
import math
import subprocess
import sys

import numpy as np

from ref import read_safetensors, write_safetensors
from runner import FIXTURES, ROOT, Failure, Program, add_options, run_checks

sys.path.insert(0, str(ROOT / "tests" / "format"))
import make_gguf  # noqa: E402

MODELS = FIXTURES / "models"
PLAIN = ROOT / "models" / "shakespeare.bin"


def join(ids):
    return ",".join(str(t) for t in ids)


class Test(Program):
    def __init__(self, build):
        super().__init__(build, build / "golden" / "by_length")

    def refused(self, status, *command):
        """The message of a command that must fail so."""
        p = subprocess.run([str(c) for c in (self.tblock, *command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if p.returncode != status:
            raise Failure(f"{' '.join(map(str, command))}: expected status {status}, found {p.returncode}: {p.stderr.decode()}")
        return p.stderr.decode()

    def logits(self, model, ids, *options):
        out = self.out / ("-".join([model.name, str(len(ids)), *map(str, options)]) + ".logits")
        self.run(self.tblock, "logits", model, "--ids", join(ids), "-o", out, "--quiet", "--ctx", 100, *options)
        return read_safetensors(out, widen=False)["logits"]

    def sequences(self, name, model, greedy=True):
        """Every sequence with its own length, and every greedy token with that of the text before it."""
        folder = MODELS / name
        golden, tolerance = read_safetensors(folder / "golden.safetensors"), json.loads((folder / "golden.json").read_text())["suggested_tolerance"]
        for i in range(3):
            ids = [int(t) for t in golden[f"seq{i}.tokens"]]
            alone = self.out / f"{model.name}-seq{i}.safetensors"
            write_safetensors(alone, {k: v.astype("<f4" if v.dtype.kind == "f" else "<i4") for k, v in golden.items() if k.startswith(f"seq{i}.")
                                      and not k.endswith("logits_f64") and not k.endswith("greedy")})
            options = ("--tol", tolerance, "--ctx", 100, "--rope-length", len(ids))
            self.run(self.tblock, "verify", model, alone, *options)
            for token in golden[f"seq{i}.greedy"] if greedy else ():
                found = int(np.argmax(self.logits(model, ids, "--rope-length", len(ids), "--last")[0]))
                if found != token:
                    raise Failure(f"seq{i}: token {len(ids)}: expected {token}, found {found}")
                ids.append(int(token))

    def converted(self, name):
        model = self.out / f"{name}.bin"
        self.run(self.tblock, "convert", MODELS / name, "-o", model, "--quiet")
        self.sequences(name, model, greedy=False)
        ids = [int(t) for t in read_safetensors(MODELS / name / "golden.safetensors")["seq2.tokens"]]
        for options in ((), ("--rope-length", 70), ("--rope-length", 30)):
            if self.logits(model, ids, *options).tobytes() != self.logits(MODELS / name, ids, *options).tobytes():
                raise Failure(f"{name}: other bits than the folder's with {options}")

    def constant(self, name):
        """The context's length unless it is given; alike for every start of the same tokens, thread count and instruction set."""
        model = MODELS / name
        ids = [int(t) for t in read_safetensors(model / "golden.safetensors")["seq2.tokens"]]
        whole = self.logits(model, ids)
        if whole.tobytes() != self.logits(model, ids, "--rope-length", 100).tobytes():
            raise Failure("without --rope-length, the length is not that of --ctx")
        if whole.tobytes() == self.logits(model, ids, "--rope-length", 48).tobytes():
            raise Failure("the length changes nothing")
        for n in (1, 20, 49):
            if self.logits(model, ids[:n]).tobytes() != whole[:n].tobytes():
                raise Failure(f"the first {n} tokens alone have other logits")
        for options in (("--threads", 2), ("--isa", "scalar")):
            if self.logits(model, ids, *options).tobytes() != whole.tobytes():
                raise Failure(f"other bits with {options}")

    def recorded(self, name):
        """A golden, a state and a receipt are those of one length."""
        model, ids = MODELS / name, join(range(1, 11))
        golden, state, receipt = (self.out / f"{name}.{end}" for end in ("golden", "state", "receipt"))
        run = ("run", model, "--ids", ids, "-n", 4, "--quiet", "--ctx", 100)
        self.run(self.tblock, "logits", model, "--ids", ids, "-o", golden, "--quiet", "--ctx", 100, "--rope-length", 60)
        self.run(self.tblock, *run, "--rope-length", 60, "--save-state", state, "--receipt", receipt)
        for options in ((), ("--ctx", 60), ("--rope-length", 60)):
            self.run(self.tblock, "verify", model, golden, *options)
            self.run(self.tblock, "verify", model, receipt, *options)
        if json.loads(receipt.read_text())["run"]["rope_length"] != "60":
            raise Failure("the receipt lacks the length")
        answer = subprocess.run([self.tblock, "verify", model, receipt, "--rope-length", "100"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
        if "rope_length 60 (here 100)" not in answer:
            raise Failure(f"a receipt of another length: {answer}")
        said = self.refused(3, *run[:2], "--load-state", state, "--ids", 5, "-n", 1, "--quiet", "--ctx", 100, "--rope-length", 100)
        if "rope_length" not in said:
            raise Failure(f"a state of another length: {said}")
        for options in ((), ("--ctx", 100), ("--ctx", 100, "--rope-length", 60)):
            self.run(self.tblock, *run[:2], "--load-state", state, "--ids", 5, "-n", 1, "--quiet", *options)

    def advised(self):
        """A golden brings its length; compared with another one, it says which option makes it equal."""
        model, golden = MODELS / "llama-dynamic-ntk", self.out / "advised.golden"
        self.run(self.tblock, "logits", model, "--ids", "1,2,3,4", "-o", golden, "--quiet", "--ctx", 100)
        self.run(self.tblock, "verify", model, golden)
        said = self.refused(1, "verify", model, golden, "--rope-length", 48)
        if "--rope-length 100" not in said:
            raise Failure(said)

    def gguf(self):
        """llama.cpp's converter writes no type of scaling, but the two tensors and the factor of sine and cosine."""
        folder, model = MODELS / "phi3-longrope", self.out / "phi3-longrope.gguf"
        c, w = json.loads((folder / "config.json").read_text()), read_safetensors(folder / "model.safetensors")
        n, whole = c["original_max_position_embeddings"], c["max_position_embeddings"]
        U32, F32 = make_gguf.U32, make_gguf.F32
        own = {"embedding_length": (U32, c["hidden_size"]), "block_count": (U32, c["num_hidden_layers"]), "context_length": (U32, whole),
               "feed_forward_length": (U32, c["intermediate_size"]), "attention.head_count": (U32, c["num_attention_heads"]),
               "attention.head_count_kv": (U32, c["num_key_value_heads"]), "attention.layer_norm_rms_epsilon": (F32, c["rms_norm_eps"]),
               "rope.dimension_count": (U32, c["hidden_size"] // c["num_attention_heads"]), "rope.freq_base": (F32, c["rope_theta"]),
               "rope.scaling.original_context_length": (U32, n),
               "rope.scaling.attn_factor": (F32, math.sqrt(1 + math.log(whole / n) / math.log(n)))}
        keys = {"general.architecture": (make_gguf.STRING, "phi3"), **{f"phi3.{k}": v for k, v in own.items()}}
        names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
        inner = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.qkv_proj": "attn_qkv",
                 "self_attn.o_proj": "attn_output", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
        for layer in range(c["num_hidden_layers"]):
            names.update({f"model.layers.{layer}.{a}": f"blk.{layer}.{b}" for a, b in inner.items()})
        tensors = {names[k.removesuffix(".weight")] + ".weight": v.astype("<f4") for k, v in w.items()}
        for end in ("long", "short"):
            tensors[f"rope_factors_{end}.weight"] = np.array(c["rope_scaling"][f"{end}_factor"], "<f4")
        make_gguf.write(model, keys, tensors)
        self.sequences("phi3-longrope", model, greedy=False)
        changed = self.out / "changed.gguf"
        for keys_, tensors_, words in (
                ({**keys, "phi3.rope.scaling.factor": (F32, 4.0)}, tensors, ("rope.scaling.factor", "longrope")),
                ({**keys, "phi3.rope.scaling.attn_factor": (F32, -1.0)}, tensors, ("rope.scaling.attn_factor", "above 0", "-1")),
                (keys, {**tensors, "rope_freqs.weight": np.ones(6, "<f4")}, ("rope_freqs.weight",)),
                (keys, {k: v for k, v in tensors.items() if "short" not in k}, ("rope_factors_short.weight", "no such tensor")),
                (keys, {**tensors, "rope_factors_long.weight": np.ones(5, "<f4")}, ("rope_factors_long.weight", "[6]", "[5]")),
                (keys, {**tensors, "rope_factors_long.weight": np.zeros(6, "<f4")}, ("rope_factors", "above 0"))):
            make_gguf.write(changed, keys_, tensors_)
            said = self.refused(3, "logits", changed, "--ids", "1,2", "-o", self.out / "none")
            if not all(w in said for w in words):
                raise Failure(f"expected {words}, found {said}")

    def none(self):
        said = self.refused(2, "run", PLAIN, "--ids", "1", "-n", 1, "--rope-length", 5)
        if "rope_length" not in said:
            raise Failure(said)


def checks(t):
    for name in ("phi3-longrope", "llama-dynamic-ntk"):
        folder = MODELS / name
        yield f"{name}_each_sequence_with_its_own_length", folder, lambda name=name, folder=folder: t.sequences(name, folder)
        yield f"{name}_converted", folder, lambda name=name: t.converted(name)
        yield f"{name}_the_length_is_a_constant", folder, lambda name=name: t.constant(name)
        yield f"{name}_what_is_recorded_names_the_length", folder, lambda name=name: t.recorded(name)
    yield "a_golden_of_another_length_says_which", MODELS / "llama-dynamic-ntk", t.advised
    yield "gguf_of_longrope", MODELS / "phi3-longrope", t.gguf
    yield "a_model_whose_rotation_depends_on_none_refuses_it", PLAIN, t.none


def main():
    parser = argparse.ArgumentParser()
    add_options(parser)
    args = parser.parse_args()
    return run_checks(checks(Test(args.build)), args.only)


if __name__ == "__main__":
    sys.exit(main())
