#!/usr/bin/env python3
"""LoRA adapters (docs/lora.md).

    adapters.py [--build DIR] [--only TEXT]

Recorded ones: `verify --lora` against what peft computed in float64, on the folder and on a model file. Made ones, of every linear module of
every folder of tests/data/models: the logits are those of a folder whose weights are W + scale * B A. tests/exact/exact.c with an adapter:
the same bits for instruction sets, threads, pieces and company with other adapters. What is not kept is refused by name.
`convert --merge-lora`: every weight is the float64 sum, rounded once. tests/train/training.py has those that tblock trains.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
from ref import read_safetensors, write_safetensors
from runner import ROOT, TEST_DATA, Failure, Program, add_options, run_checks

sys.path.insert(0, str(ROOT / "tests" / "format"))
import make_gguf  # noqa: E402

DATA = ROOT / "tests" / "data" / "models"
MADE = ["llama-gqa", "llama-bias", "llama-tied", "qwen2", "phi3", "gpt2", "gpt-neox", "cohere", "gemma2", "stablelm", "qwen3-moe"]
MORE_MADE = ["apertus", "ernie45", "ernie45-moe", "exaone4", "glm4", "glm4-moe", "gpt-oss", "granite", "granite-moe", "helium", "hunyuan-dense", "llama4",
             "minimax-m2", "ministral3-nested", "mixtral", "nemotron", "olmo3", "olmoe", "phi3-longrope", "seed-oss", "smollm3"]
IDS = [3, 17, 4, 60, 5, 9, 33, 12, 7, 50, 41, 2]
# Bits of the last logits after IDS with the adapter of llama-gqa: a change here is a change of numerics.
PINNED = "58dd1ff444dd8bbb"


def numbers(shape, seed, spread):
    """Fixed numbers in [-spread, spread], exact in bf16's 8 bits times a power of two."""
    i = np.arange(np.prod(shape), dtype=np.uint64) + np.uint64(seed * 7919)
    h = (i * np.uint64(2654435761)) & np.uint64(0xffffffff)
    h = ((h ^ (h >> np.uint64(15))) * np.uint64(2246822519)) & np.uint64(0xffffffff)
    return (((h >> np.uint64(13)) % np.uint64(127)).astype(np.float64) - 63).reshape(shape) / 64 * spread


def bf16_of(x):
    """float64 to the bits of bf16, to nearest even in one step; no magnitude under 2^-50 but 0."""
    e = np.maximum(np.frexp(x)[1] - 8, -133)
    y = np.ldexp(np.rint(np.ldexp(x, -e)), e)
    return (np.where(np.abs(y) < 2.0 ** -50, 0, y).astype("<f4").view("<u4") >> 16).astype("<u2")


def linear(name, w):
    """Is it a module that an adapter may change?"""
    others = ("embed_tokens", "embed_in", "wte", "wpe", "norm", "ln_", "experts", "shared_expert", "shared_mlp", "mlp.gate.weight", "router",
              "block_sparse_moe.gate", "vision_tower", "multi_modal")
    return w.ndim == 2 and name.endswith(".weight") and not any(o in name for o in others)


def predicts(name, config):
    """Is it of a layer behind the last one, which predicts more tokens at once?"""
    return f"layers.{config.get('num_hidden_layers')}." in name


def folder_of(name):
    return DATA / name if (DATA / name).exists() else TEST_DATA / "fixtures" / "models" / name


GGUF_NAMES = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "gate_proj": "ffn_gate", "up_proj": "ffn_up",
              "down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def gguf_name(name):
    """llama.cpp's name, without its end, of a tensor of a Llama folder."""
    word = name.split(".")
    if word[1] == "layers":
        return f"blk.{word[2]}.{GGUF_NAMES[word[3] if 'norm' in word[3] else word[4]]}"
    return "output" if word[0] == "lm_head" else {"embed_tokens": "token_embd", "norm": "output_norm"}[word[1]]


def gguf_rows(config, where, x):
    """The rows of q and k by neighbouring dimensions, as llama.cpp rotates them."""
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(where.split(".")[-1])
    return x.reshape(config[heads], 2, -1, x.shape[1]).swapaxes(1, 2).reshape(x.shape) if heads else x


def write_gguf(file, source):
    c = json.loads((source / "config.json").read_text())
    keys = {"general.architecture": (make_gguf.STRING, "llama"), "llama.attention.layer_norm_rms_epsilon": (make_gguf.F32, c["rms_norm_eps"]),
            "llama.rope.freq_base": (make_gguf.F32, c["rope_parameters"]["rope_theta"])}
    for key, of in (("block_count", "num_hidden_layers"), ("context_length", "max_position_embeddings"), ("embedding_length", "hidden_size"),
                    ("feed_forward_length", "intermediate_size"), ("attention.head_count", "num_attention_heads"),
                    ("attention.head_count_kv", "num_key_value_heads"), ("vocab_size", "vocab_size")):
        keys[f"llama.{key}"] = (make_gguf.U32, c[of])
    make_gguf.write(file, keys, {f"{gguf_name(n)}.weight": gguf_rows(c, gguf_name(n), x).astype("<f4")
                                 for n, x in read_safetensors(source / "model.safetensors").items()})


class Test(Program):
    def __init__(self, build, name):
        super().__init__(build, build / "adapters" / name)
        self.exact = build / "tests" / "exact" / "exact"

    def refused(self, status, *command):
        p = subprocess.run([str(self.tblock), *map(str, command)], capture_output=True)
        if p.returncode != status:
            raise Failure(f"{' '.join(map(str, command))}: expected status {status}, found {p.returncode}: {p.stderr.decode()[-300:]}")
        return p.stderr.decode()

    def make(self, name, kind="f4", scale=0.75, ranks=(5, 3)):
        """An adapter of all modules, with two ranks by pattern, and the folder with merged weights."""
        source, adapter, merged = folder_of(name), self.out / f"{name}-{kind}", self.out / f"{name}-merged"
        for folder in (adapter, merged):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        turned, config = name == "gpt2", json.loads((source / "config.json").read_text())
        parts, weights, modules = {}, read_safetensors(source / "model.safetensors"), []
        for i, (full, w) in enumerate(sorted(weights.items())):
            if not linear(full, w) or predicts(full, config):
                continue
            module = full[:-len(".weight")]
            modules.append(module)
            rank = ranks[i % 3 != 0]
            rows, k = w.T.shape if turned else w.shape
            a, b = numbers((rank, k), 2 * i, 0.5 / k ** 0.5), numbers((rows, rank), 2 * i + 1, 1)
            a = (a.astype("<f4").view("<u4") >> 16).astype("<u2")
            a = (a.astype("<u4") << 16).view("<f4")
            for ab, x in (("A", a), ("B", b.astype("<f4"))):
                parts[f"base_model.model.{module}.lora_{ab}.weight"] = x if kind == "f4" else (x.view("<u4") >> 16).astype("<u2")
            change = scale * b @ a.astype(np.float64)
            weights[full] = w + (change.T if turned else change)
        write_safetensors(adapter / "adapter_model.safetensors", parts, {"format": "pt"})
        first = {m: ranks[0] for m in modules if parts[f"base_model.model.{m}.lora_A.weight"].shape[0] == ranks[0]}
        (adapter / "adapter_config.json").write_text(json.dumps({
            "peft_type": "LORA", "r": ranks[1], "lora_alpha": ranks[1] * scale, "rank_pattern": first,
            "alpha_pattern": {m.replace(".", "\\."): ranks[0] * scale for m in first}, "target_modules": modules, "bias": "none", "use_dora": False,
            "fan_in_fan_out": turned, "modules_to_save": None}))
        shutil.copy(source / "config.json", merged)
        write_safetensors(merged / "model.safetensors", {n: w.astype("<f4") for n, w in weights.items()}, {"format": "pt"})
        return source, adapter, merged

    def logits(self, *options):
        out = self.out / "logits.safetensors"
        self.run(self.tblock, "logits", *options, "--ids", ",".join(map(str, IDS)), "-o", out, "--quiet")
        return read_safetensors(out)["logits"]

    # ---- claims ----

    def recorded(self, name):
        folder = TEST_DATA / "fixtures" / "adapters" / name
        golden = json.loads((folder / "golden.json").read_text())
        base = (folder / golden["weights"]).resolve()
        file = self.out / f"{name}.bin"
        self.run(self.tblock, "convert", base, "-o", file, "--quiet")
        for model in (base, file):
            self.run(self.tblock, "verify", model, folder / "golden.safetensors", "--greedy", "--tol", golden["suggested_tolerance"], "--lora", folder)

    def trained(self):
        """What `train --lora` wrote, and peft's logits with it (tests/references/live_lora.py --record)."""
        folder = ROOT / "tests" / "data" / "adapters" / "trained"
        golden = json.loads((folder / "golden.json").read_text())
        if not golden["changes"] > 1000 * golden["suggested_tolerance"]:
            raise Failure(f"the adapter changes logits by {golden['changes']} only")
        self.run(self.tblock, "verify", (folder / golden["weights"]).resolve(), folder / "golden.safetensors", "--tol", golden["suggested_tolerance"],
                 "--lora", folder)

    def merged(self, name):
        source, adapter, merged = self.make(name)
        want, got, plain = self.logits(merged), self.logits(source, "--lora", adapter), self.logits(source)
        largest, off = np.abs(want).max(), np.abs(want - got).max()
        if not off <= 2e-5 * largest or not np.abs(plain - want).max() > 1e-2 * largest:
            raise Failure(f"off by {off:g} of {largest:g}; without the adapter by {np.abs(plain - want).max():g}")
        if not (self.logits(source, "--lora", f"{adapter}:0.5", "--lora", f"{adapter}:0.5") == self.logits(
                source, "--lora", f"{adapter}:0.5", "--lora", f"{adapter}:0.5", "--threads", 3, "--isa", "scalar")).all():
            raise Failure("other bits with three threads and the scalar kernels")

    def merges(self, name):
        """The weights of convert --merge-lora are those of numpy: W + s B A in float64, one rounding."""
        source, adapter, _ = self.make(name)
        config = json.loads((adapter / "adapter_config.json").read_text())
        parts, turned = read_safetensors(adapter / "adapter_model.safetensors"), config["fan_in_fan_out"]
        floats = read_safetensors(source / "model.safetensors")
        for type, twice in (("f32", False), ("f16", False), ("bf16", False), ("f32", True)):
            want, folder, both = {}, self.out / f"{name}-sum", ["--merge-lora", f"{adapter}:0.5"]
            for full, w in floats.items():
                a, b = (parts.get(f"base_model.model.{full[:-7]}.lora_{i}.weight") for i in "AB")
                sum = w.astype(np.float64)
                for s in ([0.75 * 0.5, 0.75 * -2] if twice else [0.75 * 0.5]) if a is not None else []:
                    change = np.zeros((b.shape[0], a.shape[1]))
                    for r in range(a.shape[0]):
                        change += np.outer(b[:, r].astype(np.float64), a[r].astype(np.float64))
                    sum = sum + s * (change.T if turned else change)
                to = "f4" if type == "f32" or a is None else "f2" if type == "f16" else "u2"
                want[full] = bf16_of(sum) if to == "u2" else sum.astype("<" + to)
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(source, folder)
            write_safetensors(folder / "model.safetensors", want, {"format": "pt"})
            got, plain = self.out / f"{name}-got.bin", self.out / f"{name}-want.bin"
            self.run(self.tblock, "convert", source, "-o", got, "--quiet", "--type", type, *both, *(["--merge-lora", f"{adapter}:-2"] if twice else []))
            self.run(self.tblock, "convert", folder, "-o", plain, "--quiet", "--type", type)
            self.same_weights(got, plain)

    def same_weights(self, *files):
        one, other = (read_safetensors(f) for f in files)
        for tensor in one:
            if one[tensor].tobytes() != other[tensor].tobytes():
                raise Failure(f"{tensor}: other bytes")

    def merged_from(self):
        """Folder, GGUF adapter, model file: the same weights. What a file was made from is recorded."""
        source, adapter, _ = self.make("llama-gqa")
        (self.out / "first.bin").unlink(missing_ok=True)
        file, merged, again = self.out / "plain.bin", self.out / "merged.bin", self.out / "again.bin"
        self.run(self.tblock, "convert", source, "-o", file, "--quiet")
        self.run(self.tblock, "convert", source, "-o", merged, "--quiet", "--merge-lora", adapter, "--threads", 1)
        self.run(self.tblock, "convert", file, "-o", again, "--quiet", "--merge-lora", f"{adapter}:1", "--threads", 3)
        if merged.read_bytes() != again.read_bytes():
            raise Failure("of a folder and of its model file: other bytes")
        write_gguf(self.out / "plain.gguf", source)
        for model in (source, self.out / "plain.gguf"):
            self.run(self.tblock, "convert", model, "-o", again, "--quiet", "--merge-lora", adapter, "--type", "f32")
            self.same_weights(again, self.out / "first.bin") if (self.out / "first.bin").exists() else again.rename(self.out / "first.bin")
        receipt = self.out / "receipt.json"
        self.run(self.tblock, "run", source, "--lora", adapter, "--ids", "1", "-n", "1", "--receipt", receipt, "--quiet")
        loaded = receipt.read_text()
        entry = json.loads(self.run(self.tblock, "info", merged, "--json").decode())["source"][-1]
        if entry["kind"] != "lora" or entry["lora"] != adapter.name or f"lora {entry['sha256']}:1" not in loaded:
            raise Failure(f"source {entry}, run {loaded}")
        for type in ("q8", "q4"):  # one rounding: of the float32 sums, as the type's own search rounds floats
            got, want = self.out / "got.bin", self.out / "want.bin"
            sums = self.out / "sums.bin"
            self.run(self.tblock, "convert", source, "-o", sums, "--quiet", "--merge-lora", adapter, "--type", "f32")
            self.run(self.tblock, "convert", source, "-o", got, "--quiet", "--merge-lora", adapter, "--type", type)
            self.run(self.tblock, "convert", sums, "-o", want, "--quiet", "--type", type)
            self.same_weights(got, want)

    def merge_refusals(self):
        source, adapter, _ = self.make("llama-gqa")
        quantized, out, one = self.out / "q4.bin", self.out / "out.bin", self.out / "one"
        self.run(self.tblock, "convert", source, "-o", quantized, "--quiet", "--type", "q4")
        out.unlink(missing_ok=True)
        for given, status, word in (([quantized], 3, "rounded twice; --type"), ([quantized, "--type", "q8"], 3, "quantizing again"),
                                    ([DATA / "llama-bias"], 3, "expected"), ([ROOT / "models" / "shakespeare.bin", "--tokenizer-only"], 2, "merge lora")):
            said = self.refused(status, "convert", *given, "-o", out, "--merge-lora", adapter)
            if word not in said or out.exists():
                raise Failure(f"{given}: expected {word}, found {said}")
        self.refused(2, "convert", source, "-o", out, *["--merge-lora", adapter] * 17)
        self.run(self.tblock, "convert", quantized, "-o", out, "--quiet", "--type", "bf16", "--merge-lora", adapter)
        out.unlink()
        # an adapter of one matrix leaves the others in their type
        shutil.rmtree(one, ignore_errors=True)
        shutil.copytree(adapter, one)
        parts = read_safetensors(adapter / "adapter_model.safetensors", widen=False)
        write_safetensors(one / "adapter_model.safetensors", {n: x for n, x in parts.items() if "layers.0.self_attn.q_proj" in n}, {"format": "pt"})
        self.run(self.tblock, "convert", quantized, "-o", out, "--quiet", "--type", "q4", "--keep", "layers.0.wq=f32", "--merge-lora", one)
        # a tied model has no head to merge into
        tied, rank = DATA / "llama-tied", 2
        (one / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": 1, "target_modules": ["lm_head"]}))
        c = json.loads((tied / "config.json").read_text())
        write_safetensors(one / "adapter_model.safetensors", {
            "base_model.model.lm_head.lora_A.weight": numbers((rank, c["hidden_size"]), 1, 0.1).astype("<f4"),
            "base_model.model.lm_head.lora_B.weight": numbers((c["vocab_size"], rank), 2, 0.1).astype("<f4")}, {"format": "pt"})
        self.run(self.tblock, "run", tied, "--ids", "1", "-n", "1", "--lora", one)
        if "tied" not in self.refused(3, "convert", tied, "-o", out, "--merge-lora", one):
            raise Failure("a tied head: expected the reason")

    def outputs_apart(self):
        """No output replaces a file of the adapter."""
        source, adapter, _ = self.make("llama-gqa")
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            file = adapter / name
            was = file.read_bytes()
            self.refused(2, "convert", source, "-o", file, "--merge-lora", adapter)
            self.refused(2, "logits", source, "--ids", "1,2", "-o", file, "--lora", adapter)
            self.refused(2, "attn", source, "--ids", "1,2", "-o", file, "--lora", adapter)
            self.refused(2, "run", source, "--ids", "1,2", "-n", "1", "--save-state", file, "--lora", adapter)
            if file.read_bytes() != was:
                raise Failure(f"{name} was changed")

    def gguf(self):
        """The same adapter as convert_lora_to_gguf.py writes it: rows of q and k by neighbouring dimensions."""
        source, adapter, _ = self.make("llama-gqa", ranks=(4, 4))
        c, tensors, file = json.loads((source / "config.json").read_text()), {}, self.out / "adapter.gguf"
        for name, x in read_safetensors(adapter / "adapter_model.safetensors").items():
            where = gguf_name(name.replace("base_model.model.", ""))
            tensors[f"{where}.weight.lora_{'a' if 'lora_A' in name else 'b'}"] = (gguf_rows(c, where, x) if "lora_B" in name else x).astype("<f4")
        keys = {"general.architecture": (make_gguf.STRING, "llama"), "general.type": (make_gguf.STRING, "adapter"),
                "adapter.type": (make_gguf.STRING, "lora"), "adapter.lora.alpha": (make_gguf.F32, 3.0)}
        make_gguf.write(file, keys, tensors)
        if not (self.logits(source, "--lora", file) == self.logits(source, "--lora", adapter)).all():
            raise Failure("the GGUF adapter has other bits than peft's")
        for change, word in (({"adapter.type": (make_gguf.STRING, "vera")}, "adapter.type"), ({"general.architecture": (make_gguf.STRING, "qwen2")}, "llama"),
                             ({"adapter.alora.invocation_tokens": (make_gguf.ARRAY, (make_gguf.U32, [1]))}, "aLoRA")):
            make_gguf.write(file, {**keys, **change}, tensors)
            said = self.refused(3, "run", source, "--ids", "1", "--lora", file)
            if word not in said:
                raise Failure(f"{change}: expected {word} in {said}")
        lacking = next(n for n in tensors if n.endswith("a"))
        for other in ({n: x for n, x in tensors.items() if n != lacking}, {**tensors, "token_embd.weight.lora_a": tensors[lacking]},
                      {**tensors, "blk.0.attn_norm.weight": tensors[lacking][0]}):
            make_gguf.write(file, keys, other)
            self.refused(3, "run", source, "--ids", "1", "--lora", file)

    def same_bits(self, name, type):
        source, adapter, _ = self.make(name, "u2")
        model = self.out / f"{name}-{type}.bin"
        self.run(self.tblock, "convert", source, "-o", model, "--quiet", *([] if type == "bf16" else ["--type", type]))
        lines = self.run(self.exact, "--lora", adapter, model).decode()
        if "FAIL" in lines or lines.count("ok ") < 3:
            raise Failure(lines[-300:])

    def pinned(self):
        source, adapter, _ = self.make("llama-gqa")
        p = subprocess.run([str(self.tblock), "run", source, "--lora", str(adapter), "--ids", ",".join(map(str, IDS)), "-n", "1", "--temp", "0",
                            "--isa", "scalar", "--stats"], capture_output=True)
        if PINNED not in p.stderr.decode():
            raise Failure(f"expected the hash {PINNED}, found {p.stderr.decode().splitlines()[-1:]}")

    def recorded_in_files(self):
        source, adapter, _ = self.make("llama-gqa")
        run = [self.tblock, "run", source, "--ids", ",".join(map(str, IDS)), "-n", 20, "--quiet"]
        state, receipt = self.out / "facts.state", self.out / "facts.json"
        self.run(*run, "--lora", adapter, "--save-state", state, "--receipt", receipt)
        self.run(self.tblock, "verify", source, receipt, "--lora", adapter, "--isa", "scalar")
        self.run(*run[:3], "--lora", adapter, "--load-state", state, "--ids", 1, "-n", 3, "--quiet")
        for other in ([], ["--lora", f"{adapter}:0.5"]):
            if "loaded_as" not in self.refused(1, "verify", source, receipt, *other):
                raise Failure("a receipt of other adapters: expected loaded_as to be named")
            if "loaded_as" not in self.refused(3, "run", source, "--load-state", state, "--ids", 1, "-n", 3, *other):
                raise Failure("a state of other adapters: expected loaded_as to be named")

    def parts_refused(self):
        """Of Llama 4, what is neither attention nor a layer's own feed-forward: named, one each. And latent attention as a whole."""
        adapter = self.make("llama4")[1]
        parts = read_safetensors(adapter / "adapter_model.safetensors", widen=False)
        one = [n for n in parts if "layers.0.self_attn.q_proj" in n]
        for module in ("router", "shared_expert.gate_proj", "shared_expert.down_proj", "experts", "experts.base_layer"):
            at = f"model.layers.1.feed_forward.{module}"
            write_safetensors(adapter / "adapter_model.safetensors", {**{n: parts[n] for n in one},
                              **{n.replace("model.layers.0.self_attn.q_proj", at): parts[n] for n in one}}, {"format": "pt"})
            said = self.refused(3, "run", folder_of("llama4"), "--ids", "1", "--lora", adapter)
            if f"{at}.lora_" not in said or said.count("\n") != 1:
                raise Failure(f"{module}: expected one line with its name, found {said}")
        said = self.refused(3, "run", folder_of("deepseek-v3"), "--ids", "1", "--lora", self.make("llama-gqa")[1])
        if "kv_lora" not in said:
            raise Failure(f"expected kv_lora, found {said}")

    def refusals(self):
        source, adapter, _ = self.make("llama-gqa")
        config, parts = json.loads((adapter / "adapter_config.json").read_text()), read_safetensors(adapter / "adapter_model.safetensors")
        some = next(n for n in parts if "q_proj.lora_A" in n)
        nan = parts[some].copy()
        nan[1, 2] = np.nan
        renamed = {some.replace("self_attn.q_proj.lora_A", to): parts[some] for to in ("embed_tokens.lora_embedding_A",)}
        cases = [({"use_dora": True}, {}, "use_dora"), ({"modules_to_save": ["lm_head"]}, {}, "modules_to_save"), ({"bias": "all"}, {}, "bias"),
                 ({"peft_type": "IA3"}, {}, "peft_type"), ({"r": 4}, {}, "expected [4"), ({"r": 0}, {}, "r: expected"),
                 ({"lora_alpha": "8"}, {}, "lora_alpha"), ({"alpha_pattern": {"(": 1}}, {}, "alpha_pattern"), ({"new_method": 1}, {}, "new_method"),
                 ({}, {some: parts[some][:, 1:]}, some), ({}, {some: nan}, "finite"), ({}, renamed, "embedding"),
                 ({}, {some.replace("layers.0", "layers.9"): parts[some]}, "layers.9"), ({}, {some: None}, "found no such tensor"),
                 ({}, {some.replace("q_proj.lora_A.weight", "q_proj.lora_magnitude_vector"): parts[some][0]}, "DoRA")]
        for i, (keys, tensors, word) in enumerate(cases):
            bad = self.out / f"bad{i}"
            bad.mkdir(exist_ok=True)
            (bad / "adapter_config.json").write_text(json.dumps({**config, **keys}))
            write_safetensors(bad / "adapter_model.safetensors", {n: x.astype("<f4") for n, x in {**parts, **tensors}.items() if x is not None})
            said = self.refused(3, "run", source, "--ids", "1", "-n", "1", "--lora", bad)
            if word not in said or said.count("\n") != 1:
                raise Failure(f"{keys} {list(tensors)}: expected one line with {word}, found {said}")
        self.refused(3, "run", source, "--ids", "1", "--lora", DATA / "qwen2")
        self.refused(3, "run", DATA / "llama-bias", "--ids", "1", "--lora", adapter)
        self.refused(2, "run", source, "--ids", "1", *["--lora", adapter] * 17)


def main():
    parser = argparse.ArgumentParser()
    add_options(parser)
    args = parser.parse_args()
    checks = []

    def add(name, needs, claim, *given):
        checks.append((f"adapter_{name}", needs, lambda: claim(Test(args.build, name), *given)))

    for name in ("lora-qv", "lora-all-rslora"):
        add(name, TEST_DATA / "fixtures" / "adapters" / name, Test.recorded, name)
    for name in MADE + MORE_MADE:
        add(f"of_{name}_is_the_merged_model", folder_of(name), Test.merged, name)
    for name, kind in (("llama-gqa", "bf16"), ("qwen2", "q8"), ("phi3", "q4"), ("llama4", "bf16"), ("gpt-oss", "q8"),
                       ("glm4", "q4")):
        add(f"has_one_result_{name}_{kind}", folder_of(name), Test.same_bits, name, kind)
    for name in ("llama-gqa", "phi3", "gpt2", "gpt-neox"):
        add(f"merged_into_{name}_is_the_sum_rounded_once", DATA / name, Test.merges, name)
    add("merged_is_recorded_and_the_same_from_any_form", DATA, Test.merged_from)
    add("merging_is_refused_by_name", DATA, Test.merge_refusals)
    add("is_not_overwritten", DATA, Test.outputs_apart)
    add("that_was_trained_is_that_of_peft", DATA, Test.trained)
    add("of_gguf_is_that_of_peft", DATA, Test.gguf)
    add("bits_are_pinned", DATA, Test.pinned)
    add("is_recorded_in_files", DATA, Test.recorded_in_files)
    add("refused_by_name", DATA, Test.refusals)
    add("of_parts_of_a_mixture_is_refused_by_name", folder_of("llama4"), Test.parts_refused)
    return run_checks(checks, args.only)


if __name__ == "__main__":
    sys.exit(main())
