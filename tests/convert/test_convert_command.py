#!/usr/bin/env python3
"""`tblock convert` and folders taken as they are: the recorded bytes (tests/recorded.py), and logits of a folder that are those
of its model file. The program: $TBLOCK."""
import json
import os
import shutil
import sys

import harness
import recorded
from harness import edited, if_there, need, refused, tblock, temp, converted, made, source_tensors, MODELS, TOKENIZERS, Q, K
import numpy as np


def same(src, *options):
    """The file has the recorded bytes (tests/recorded.py)."""
    key = recorded.digest(recorded.contents(src), *[recorded.contents(o) if os.path.isfile(o) else o for o in options])
    done = tblock("convert", src, "-o", temp("c.bin"), "-q", *options)
    assert done.returncode == 0, done.stderr
    why = recorded.difference(key, 0, recorded.without_later_entries(open(temp("c.bin"), "rb").read()))
    assert not why, "%s: %s" % (src, why)


def test_every_fixture_becomes_the_recorded_bytes():
    for folder in harness.all_models():
        if harness.is_known(folder):
            if recorded.is_recorded(folder):
                same(folder)
        else:
            refused(folder)


def test_other_types_become_the_recorded_bytes():
    for fixture in ("llama-gqa", "llama-mqa", "llama-bias", "qwen3-moe", "gpt2", "gemma2"):
        folder = os.path.join(need(MODELS), fixture)
        if not os.path.exists(folder):
            continue
        for kind in ("f32", "f16", "bf16"):
            same(folder, "--type", kind)


def test_values_at_the_ends_of_a_type_become_the_recorded_bytes():
    """Subnormals, what rounds to 0 from either side, and in a norm NaN and infinity."""
    ends = np.array([1, 0x80000001, 0x33000000, 0xB3000000, 0x00800000, 0x80800000, 0x26000000, 0xA6FFFFFF, 0x80000000, 0, 0x7F7F0000,
                     0x477FE000], "<u4")

    def change(t):
        t[Q] = ("F32", np.resize(ends[:10], (24, 24)).copy())
        t[K] = ("BF16", np.resize((ends >> 16).astype("<u2"), (8, 24)).copy())
        t["model.norm.weight"] = ("F32", np.resize(np.array([0x7FC00001, 0x7F800000, 0xFF800000, 1], "<u4"), 24).copy())
    folder = made(tensors=change)
    same(folder)
    for kind in ("f32", "bf16"):
        same(folder, "--type", kind)


def test_values_that_are_not_finite_stay_as_they_are():
    def change(t):
        t[Q] = ("F32", np.resize(np.array([0x7FC00001, 0x7F800000, 0xFF800000, 1], "<u4"), (24, 24)).copy())
    same(made(tensors=change))


def test_configs_become_the_recorded_bytes():
    """Dialects, absent keys, windows, experts, scaling."""
    for config in ({}, {"rope_scaling": {"type": "linear", "factor": 2.5}}, {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
                   {"rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16, "mscale": 0.7,
                                     "mscale_all_dim": 1.1, "attention_factor": None, "truncate": False}},
                   {"rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 48}},
                   {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4}},
                   {"rms_norm_eps": 1.2345e-7, "rope_theta": 123456.789}, {"eos_token_id": [2, 7, 99]}, {"bos_token_id": None},
                   {"eos_token_id": None, "hidden_act": "gelu"}, {"hidden_act": "gelu_pytorch_tanh"}):
        same(made(config=config))
    for drop in ("rope_theta", "rms_norm_eps", "max_position_embeddings", "bos_token_id", "eos_token_id", "torch_dtype", "architectures",
                 "hidden_act"):
        same(made(drop=[drop]))
    same(made(files={"generation_config.json": {"eos_token_id": [5, 2, 60]}}))
    cases = (("qwen2", dict(config={"use_sliding_window": True})), ("qwen2", dict(config={"use_sliding_window": True, "max_window_layers": 3})),
             ("gemma2", dict(config={"layer_types": None})), ("gemma2", dict(config={"sliding_window": None, "layer_types": None})),
             ("gemma2", dict(drop=["attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"])),
             ("gemma3", dict(config={"layer_types": None, "_sliding_window_pattern": 2})),
             ("gemma3", dict(drop=["rope_parameters"], config={"rope_scaling": {"rope_type": "linear", "factor": 8.0}})),
             ("gemma", dict(config={"hidden_act": "gelu"})), ("cohere", dict(drop=["logit_scale", "rope_theta"])),
             ("granite", dict(drop=["attention_multiplier", "embedding_multiplier"])), ("mixtral", dict(config={"sliding_window": 9})),
             ("gpt2", dict(config={"scale_attn_weights": False})), ("gpt-neox", dict(config={"use_parallel_residual": False})),
             ("mixtral", dict(drop=["rope_theta", "rms_norm_eps"])), ("olmo2", dict(drop=["rms_norm_eps"])))
    for fixture, change in cases:
        with if_there():
            same(edited(fixture, **change))


def test_tensors_in_other_forms_become_the_recorded_bytes():
    def fused(t):
        for n in range(2):
            parts = [[t.pop("model.layers.%d.mlp.experts.%d.%s_proj.weight" % (n, e, w)) for w in ("gate", "up", "down")] for e in range(4)]
            t["model.layers.%d.mlp.experts.gate_up_proj" % n] = ("BF16", np.stack([np.concatenate([g[1], u[1]]) for g, u, _ in parts]))
            t["model.layers.%d.mlp.experts.down_proj" % n] = ("BF16", np.stack([d[1] for _, _, d in parts]))

    def bare(t):
        for name in list(t):
            t[name[len("transformer."):]] = t.pop(name)
        t["h.0.attn.bias"] = ("BF16", np.zeros((1, 1, 96, 96), "<u2"))

    def head(t):
        t["lm_head.weight"] = t["model.embed_tokens.weight"]

    def norms(t):
        values = np.random.default_rng(3).standard_normal((4, 12)).astype("<f4").view("<u4")
        for layer in range(2):
            t["model.layers.%d.self_attn.q_norm.weight" % layer] = ("F32", values)
            t["model.layers.%d.self_attn.k_norm.weight" % layer] = ("F32", values[:2])

    def head_norms(t):
        for layer in range(2):
            for name, n in (("q", 4), ("k", 2)):
                for h in range(n):
                    t["model.layers.%d.self_attn.%s_layernorm.norms.%d.weight" % (layer, name, h)] = (
                        "F32", np.random.default_rng(h).standard_normal(12).astype("<f4").view("<u4"))
    same(edited("qwen3-moe", tensors=fused))
    same(edited("gpt2", tensors=bare))
    same(edited("gemma2", tensors=head))
    same(edited("cohere", config={"use_qk_norm": True}, tensors=norms))
    same(edited("stablelm", config={"qk_layernorm": True}, tensors=head_norms))
    text = json.load(open(os.path.join(need(MODELS, "gemma3"), "config.json")))

    def wrap(t):
        for name in list(t):
            t["language_model." + name] = t.pop(name)
        t["vision_tower.encoder.weight"] = ("F32", np.zeros(3, "<u4"))
    folder = edited("gemma3", tensors=wrap)
    json.dump({"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], "eos_token_id": [1, 106], "vision_config": {},
               "text_config": {k: v for k, v in text.items() if k != "architectures"}}, open(os.path.join(folder, "config.json"), "w"))
    same(folder)


def test_llama2c_files_become_the_recorded_bytes():
    folder = os.path.join(MODELS, "stories260K", "llama2c")
    need(folder)
    model = next(os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.startswith("stories") and n.endswith(".bin"))
    same(model)
    tokens = [os.path.join(folder, n) for n in os.listdir(folder) if n.startswith("tok")]
    if tokens:
        same(model, "--tokenizer", tokens[0])


def test_a_tokenizer_alone_becomes_the_same_bytes():
    """From its file, its folder, and a folder of weights, of which it has the tensors and the entry that the whole model file has."""
    folder = need(MODELS, "llama3-e2e")
    tokens = os.path.join(folder, "tokenizer.json")
    same(tokens)
    same(tokens, "--tokenizer-only")
    shutil.copytree(folder, temp("alone"), ignore=shutil.ignore_patterns("config.json", "*.safetensors"))
    same(temp("alone"))
    whole = converted(folder)
    for options in (["--tokenizer-only"], ["--tokenizer-only", "--tokenizer", folder]):
        done = tblock("convert", folder, "-o", temp("c.bin"), *options)
        assert done.returncode == 0 and done.stdout.endswith("only the tokenizer\n"), done
        m = harness.ModelFile(temp("c.bin"))
        assert [n for n in m.header if not n.startswith("pad.")] == [n for n in whole.header if n.startswith("tok.")]
        assert m.meta["tokenizer"] == whole.meta["tokenizer"] and "config" not in m.meta
        assert [s["file"] for s in json.loads(m.meta["source"])] == ["tokenizer.json", "tokenizer_config.json"]
        assert all(np.array_equal(m.bits(n), whole.bits(n)) for n in m.header if n.startswith("tok."))
    again = temp("again.bin")
    assert tblock("convert", temp("c.bin"), "-o", again, "-q").returncode == 0
    assert harness.ModelFile(again).data == m.data
    for options, status, part in ((["--tokenizer-only", "--no-tokenizer"], 2, "only one of"), (["--tokenizer-only", "--type", "q8"], 2, "type")):
        done = tblock("convert", folder, "-o", temp("x.bin"), *options)
        assert done.returncode == status and part in done.stderr and done.stderr.count("\n") == 1, done
    done = tblock("convert", made(), "-o", temp("x.bin"), "--tokenizer-only")
    assert done.returncode == 3 and "expected a tokenizer, found none" in done.stderr, done
    done = tblock("convert", tokens, "-o", temp("x.bin"), "--no-tokenizer")
    assert done.returncode == 3 and "only a tokenizer" in done.stderr, done


def test_a_tokenizer_that_is_not_used_may_be_wrong():
    folder = temp("wrong")
    shutil.copytree(need(MODELS, "llama3-e2e"), folder)
    os.chmod(folder, 0o755)
    tokens = os.path.join(folder, "tokenizer.json")
    shutil.copy(tokens, temp("good.json"))
    os.chmod(tokens, 0o644)
    open(tokens, "w").write("{")
    assert tblock("convert", folder, "-o", temp("x.bin"), "-q").returncode == 3
    for options in (["--no-tokenizer"], ["--tokenizer", temp("good.json")]):
        done = tblock("convert", folder, "-o", temp("x.bin"), "-q", *options)
        assert done.returncode == 0, done.stderr


def test_rows_become_the_recorded_bytes():
    for folder in filter(recorded.is_recorded, harness.known_models()):
        same(folder, "--layout", "rows")
    folder = need(MODELS, "llama-gqa")
    for options in (["--layout", "rows"], []):   # from panels to rows and back
        assert tblock("convert", folder, "-o", temp("model.bin"), "-q").returncode == 0
        assert tblock("convert", temp("model.bin"), "-o", temp("b.bin"), "-q", *options).returncode == 0
        expected = converted(folder, *options)
        got = harness.ModelFile(temp("b.bin"))
        assert got.data[got.start:] == expected.data[expected.start:]
        shutil.copy(temp("b.bin"), temp("model.bin"))


def test_a_chat_template_is_stored_as_it_was_given():
    folder, form = need(MODELS, "llama3-e2e"), "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}\n"
    for name, text in (("form", form), ("bad", "{% if %}"), ("none", "no template")):
        with open(temp(name), "w") as f:
            f.write(text)
    for given, stored in ((temp("form"), form), ("alpaca", "### Instruction")):
        done = tblock("convert", folder, "-o", temp("c.bin"), "-q", "--chat-format", given)
        assert done.returncode == 0, done.stderr
        meta = harness.ModelFile(temp("c.bin")).meta
        assert stored in meta["chat_template"] and "chat" not in meta
        again = tblock("convert", temp("c.bin"), "-o", temp("again.bin"), "-q", "--chat-format", temp("form"))
        assert again.returncode == 0 and harness.ModelFile(temp("again.bin")).meta["chat_template"] == form
    for given, options, status, word in ((temp("bad"), [], 3, "chat template: line 1"), (temp("none"), [], 3, "without a brace"),
                                         ("nothing", [], 2, "alpaca, "), ("alpaca", ["--no-tokenizer"], 2, "chat format")):
        done = tblock("convert", folder, "-o", temp("x.bin"), "--chat-format", given, *options)
        assert done.returncode == status and word in done.stderr and done.stderr.count("\n") == 1, done


def torch_file(path, tensors):
    """What torch.save writes of a state dict {name: (dtype, bits)}: a zip of a pickle and of the storages."""
    import struct
    import zipfile
    kinds = {"F32": "FloatStorage", "F16": "HalfStorage", "BF16": "BFloat16Storage"}

    def text(s):
        return b"X" + struct.pack("<I", len(s.encode())) + s.encode()

    def whole(n):
        return b"J" + struct.pack("<i", n)

    def size(shape):
        return b"(" + b"".join(whole(n) for n in shape) + b"t"
    out, data = b"\x80\x02}(", []
    for i, (name, (dtype, bits)) in enumerate(tensors.items()):
        strides = [int(np.prod(bits.shape[d + 1:], dtype=int)) for d in range(bits.ndim)]
        out += text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\n" + kinds[dtype].encode() + b"\n"
        out += text(str(i)) + text("cpu") + whole(bits.size) + b"tQ" + whole(0) + size(bits.shape) + size(strides) + b"\x89"
        out += b"ccollections\nOrderedDict\n)RtR"
        data.append(np.ascontiguousarray(bits).tobytes())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        z.writestr("archive/data.pkl", out + b"u.")
        z.writestr("archive/byteorder", "little")
        for i, d in enumerate(data):
            z.writestr("archive/data/%d" % i, d)


def test_files_of_pytorch_hold_the_same_weights():
    """pytorch_model.bin, its shards, and one such file alone."""
    for fixture in ("llama-gqa", "llama-bias"):
        source = need(MODELS, fixture)
        folder = temp(fixture)
        os.makedirs(folder)
        for name in ("config.json", "generation_config.json"):
            shutil.copy(os.path.join(source, name), folder)
        t = source_tensors(source)
        expected = converted(source)
        torch_file(os.path.join(folder, "pytorch_model.bin"), t)
        for path in (folder, os.path.join(folder, "pytorch_model.bin")):
            done = tblock("convert", path, "-o", temp("c.bin"), "-q")
            assert done.returncode == 0, done.stderr
            got = harness.ModelFile(temp("c.bin"))
            assert got.data[got.start:] == expected.data[expected.start:] and got.config == expected.config
        os.unlink(os.path.join(folder, "pytorch_model.bin"))
        names = sorted(t)
        index = {"weight_map": {n: "pytorch_model-0000%d-of-00002.bin" % (1 + (i % 2)) for i, n in enumerate(names)}}
        json.dump(index, open(os.path.join(folder, "pytorch_model.bin.index.json"), "w"))
        for k in (1, 2):
            torch_file(os.path.join(folder, "pytorch_model-0000%d-of-00002.bin" % k), {n: t[n] for n in names[k - 1::2]})
        done = tblock("convert", folder, "-o", temp("c.bin"), "-q")
        assert done.returncode == 0, done.stderr
        got = harness.ModelFile(temp("c.bin"))
        assert got.data[got.start:] == expected.data[expected.start:]
        assert [s["file"] for s in json.loads(got.meta["source"])][2:] == ["pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin",
                                                                        "pytorch_model-00002-of-00002.bin"]


def test_what_a_family_does_not_know_is_refused():
    for fixture, change, expected in (
            ("phi3", dict(config={"rope_scaling": {"type": "longrope", "short_factor": [1]}}), ("short_factor", "6 numbers")),
            ("gemma2", dict(config={"final_logit_softcapping": 0}), ("final_logit_softcapping", "above 0")),
            ("gemma2", dict(config={"use_bidirectional_attention": True}), ("use_bidirectional_attention", "true")),
            ("cohere", dict(config={"use_qk_norm": True}), ("self_attn.q_norm.weight", "no such tensor")),
            ("stablelm", dict(config={"partial_rotary_factor": 0.3}), ("partial_rotary_factor", "head_dim 12")),
            ("stablelm", dict(config={"head_dim": 12}), ("head_dim", "unknown")),
            ("qwen2", dict(config={"attention_bias": True}), ("attention_bias", "false")),
            ("qwen3-moe", dict(config={"num_experts": 5}), ("num_local_experts", "num_experts", "4")),
            ("qwen3-moe", dict(config={"use_sliding_window": True, "sliding_window": 8}), ("layer_types", "use_sliding_window")),
            ("mixtral", dict(config={"num_experts_per_tok": 5}), ("experts_used", "n_experts 4", "5")),
            ("gpt2", dict(config={"scale_attn_by_inverse_layer_idx": True}), ("scale_attn_by_inverse_layer_idx",)),
            ("gpt2", dict(config={"activation_function": "silu"}), ("gelu_new", "'silu'")),
            ("phi3", dict(tensors=lambda t: t.update({"model.layers.0.self_attn.qkv_proj.weight": ("BF16", np.zeros((143, 48), "<u2"))})),
             ("qkv_proj", "[144, 48]", "[143, 48]"))):
        if os.path.exists(os.path.join(MODELS, fixture)):
            refused(edited(fixture, **change), *expected)


def test_without_its_tokenizer_a_model_has_no_chat_template():
    folder = temp("chat")
    shutil.copytree(need(MODELS, "llama3-e2e"), folder)
    os.chmod(folder, 0o755)
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write("{% for m in messages %}{{ m['content'][::-1] }}{% endfor %}")
    assert tblock("convert", folder, "-o", temp("c.bin"), "-q").returncode == 0
    assert harness.ModelFile(temp("c.bin")).meta["chat_template"].startswith("{% for m")
    assert tblock("convert", folder, "-o", temp("n.bin"), "--no-tokenizer", "-q").returncode == 0
    m = harness.ModelFile(temp("n.bin"))
    assert "tokenizer" not in m.meta and "chat_template" not in m.meta and not any(n.startswith("tok.") for n in m.header)
    assert [s["file"] for s in json.loads(m.meta["source"])] == ["config.json", "generation_config.json", "model.safetensors"]


def test_a_tokenizer_larger_than_the_embedding_is_refused():
    """Its last ids would have no row. A smaller one is common: tables are padded."""
    tokens = need(TOKENIZERS, "bpe-gpt2", "tokenizer.json")
    file   = json.load(open(tokens, encoding="utf-8"))
    n      = 1 + max([*file["model"]["vocab"].values(), *(t["id"] for t in file["added_tokens"])])
    folder = edited("llama-gqa")
    vocab  = json.load(open(os.path.join(folder, "config.json")))["vocab_size"]
    expected = "tokenizer: expected at most vocab_size %d tokens, found %d" % (vocab, n)
    assert vocab < n
    refused(folder, expected, options=("--tokenizer", tokens))
    shutil.copy(tokens, folder)
    refused(folder, expected)


def test_configs_that_are_no_configs_are_refused():
    folder = made()
    path = os.path.join(folder, "config.json")
    text = open(path, "rb").read()
    for change in (text.replace(b"{", b'{"hidden_size": 8, ', 1), text.replace(b"1e-05", b"NaN"), text[:-1], b"\xff" + text, b"", b"[1]",
                   b"[" * 200000, text.replace(b"24", b"1e400"), text.replace(b'"num_hidden_layers": 2', b'"num_hidden_layers": -1'),
                   text.replace(b'"llama"', b'{"a": 1}'), text.replace(b'"llama"', b"null").replace(b"LlamaFor", b"OtherFor")):
        with open(path, "wb") as f:
            f.write(change)
        for command in (["info", folder], ["convert", folder, "-o", temp("x.bin")]):
            done = tblock(*command)
            assert done.returncode == 3 and "config.json" in done.stderr and done.stderr.count("\n") == 1, (change[:60], done)


def logits(path, out, *options):
    done = tblock("logits", path, "--ids", "5,6,7,8", "-o", temp(out), "-q", *options)
    assert done.returncode == 0, done.stderr
    return open(temp(out), "rb").read()


def test_a_folder_computes_what_its_model_file_does():
    """Bit for bit, also quantized while it is loaded; from the folder, its file of weights alone, and a file of PyTorch."""
    for folder in harness.known_models():
        converted(folder, out="model.bin")
        golden = temp("golden.safetensors")
        done = tblock("logits", temp("model.bin"), "--ids", "5,6,7,8,9", "-o", golden, "-q")
        assert done.returncode == 0, done.stderr
        done = tblock("verify", folder, golden, "--exact", "-q")
        assert done.returncode == 0, "%s: %s%s" % (folder, done.stdout, done.stderr)
    folder = os.path.join(MODELS, "llama-gqa")
    converted(folder, out="model.bin")
    logits(temp("model.bin"), "a", "--type", "q8")
    done = tblock("verify", folder, temp("a"), "--exact", "-q", "--type", "q8")
    assert done.returncode == 0, done.stdout + done.stderr
    alone = tblock("verify", os.path.join(folder, "model.safetensors"), temp("a"), "--exact", "-q", "--type", "q8")
    assert alone.returncode == 0, alone.stdout + alone.stderr


def test_quantize_takes_a_folder():
    folder = need(MODELS, "llama-gqa")
    converted(folder, out="model.bin")
    for command in (["quantize", temp("model.bin"), temp("a.bin"), "--type", "q4"], ["quantize", folder, temp("b.bin"), "--type", "q4"],
                    ["convert", folder, "-o", temp("c.bin"), "--type", "q4"]):
        done = tblock(*command)
        assert done.returncode == 0, done.stderr
    data = [harness.ModelFile(temp(n)) for n in ("a.bin", "b.bin", "c.bin")]
    assert data[0].data[data[0].start:] == data[1].data[data[1].start:] == data[2].data[data[2].start:]
    assert json.loads(data[2].meta["source"])[-1] == {"quantized": "q4"}


def test_info_of_a_config_alone_is_that_of_its_folder():
    for folder in harness.known_models():
        reports = [tblock("info", path, "--json") for path in (folder, os.path.join(folder, "config.json"))]
        whole, alone = [json.loads(r.stdout) for r in reports]
        # generation_config.json adds ends; only the tensors show whether the layer behind the last is there
        left = [{k: v for k, v in r["config"].items() if k not in ("eos", "mtp_layers")} for r in (whole, alone)]
        assert left[0] == left[1] and (whole["parameters"] == alone["parameters"]) != bool(whole["config"].get("mtp_layers")), folder
    path = temp("config.json")
    for config, part in (({"model_type": "mamba"}, "model_type"), ({"architectures": ["X"]}, "model_type"), ({"d_models": 1}, "d_model")):
        json.dump(config, open(path, "w"))
        done = tblock("info", path)
        assert done.returncode == 3 and part in done.stderr and done.stderr.count("\n") == 1, done


def test_a_folder_without_a_checkpoint_says_what_it_lacks():
    os.makedirs(temp("folder"))
    for command in (["info", temp("folder")], ["run", temp("folder"), "-p", "x"], ["convert", temp("folder"), "-o", temp("x.bin")]):
        done = tblock(*command)
        assert done.returncode == 3 and "config.json" in done.stderr and "none of these" in done.stderr, done
    shutil.copy(os.path.join(need(MODELS, "llama-gqa"), "model.safetensors"), temp("alone.safetensors"))
    done = tblock("info", temp("alone.safetensors"))
    assert done.returncode == 3 and "config.json beside" in done.stderr, done
    if os.path.exists(os.path.join(MODELS, "llama-sharded")):
        done = tblock("info", os.path.join(MODELS, "llama-sharded", "model-00001-of-00002.safetensors"))
        assert done.returncode == 3 and "give their folder" in done.stderr, done


def test_the_command_refuses_wrong_usage_and_its_own_source():
    folder = made()
    for args, part in ((["convert", folder], "--output"),
                       (["convert", folder, "-o", os.path.join(folder, "model.safetensors")], "model.safetensors"),
                       (["convert", folder, "-o", temp("x"), "--type", "q5"], "q5"), (["convert", folder, "-o", temp("x"), "--keep", "embed=f16"], "keep"),
                       (["convert", folder, "-o", temp("x"), "--pattern", "gpt2"], "--tokenizer")):
        done = tblock(*args)
        assert done.returncode == 2 and part in done.stderr and done.stderr.count("\n") == 1, (args, done.stderr)
    assert tblock("convert", temp("nowhere"), "-o", temp("x")).returncode == 3
    os.makedirs(temp("empty"))
    done = tblock("convert", temp("empty"), "-o", temp("x"))
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
