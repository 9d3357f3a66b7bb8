#!/usr/bin/env python3
"""Models that were made to embed texts: attention in both directions, no head. What transformers recorded (tests/references/
record_embedders.py), from folders, GGUF and converted files; the same bits whatever runs them; what they cannot do is refused by name.
$TBLOCK is the program."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/format"), str(ROOT / "tests/serve")]
import embedders  # noqa: E402
import make_gguf  # noqa: E402
from verdicts import attempt_all, need  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
BOTH = ("gemma-both", "qwen2-both", "llama-bidirec")
TEMP, ANSWERS = None, {}


def tblock(*args, status=0, text=None, env=None):
    done = subprocess.run([TBLOCK, *map(str, args)], input=text, capture_output=True, encoding="utf-8", check=False,
                          env={**os.environ, **(env or {})})
    need(done.returncode == status, "%s: status %d, expected %d: %s" % (" ".join(map(str, args)), done.returncode, status, done.stderr))
    return done


def folder(name):
    if name not in ANSWERS:
        ANSWERS[name] = embedders.unpack(name, TEMP / name)
    return TEMP / name


def changed(name, out, **keys):
    """A copy with other keys in its config.json."""
    embedders.unpack(name, TEMP / out)
    config = TEMP / out / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **keys}))
    return TEMP / out


def vectors(model, texts, *options, raw=True, **how):
    text = "".join(json.dumps([int(i) for i in t]) + "\n" for t in texts)
    done = tblock("embed", model, "--jsonl", "-", *["--raw"] * raw, *options, text=text, **how)
    return np.array([json.loads(line)["embedding"] for line in done.stdout.splitlines()]).astype(np.float32)


def recorded_texts(name):
    folder(name)
    return [ANSWERS[name]["seq%d.tokens" % i] for i in range(5)]


def info(path, key):
    return json.loads(tblock("info", path, "--json").stdout)["config"].get(key)


def near(found, name, key, what):
    """The largest value is 2 or so; a mask that is off by one moves it by 0.05 and more."""
    expected = np.array([ANSWERS[name]["seq%d.%s" % (i, key)] for i in range(5)])
    worst = np.abs(found - expected).max()
    need(found.shape == expected.shape and worst <= 1e-5, "%s, %s, %s: off by %g" % (name, key, what, worst))


def same(found, expected, what):
    need(found.shape == expected.shape and found.tobytes() == expected.tobytes(), "%s: other vectors" % (what,))


def recorded_vectors_agree_from_folders_and_converted_files():
    for name in BOTH:
        texts = recorded_texts(name)
        tblock("convert", folder(name), "-o", TEMP / (name + ".bin"))
        for pool in ("mean", "last", "cls"):
            found = vectors(folder(name), texts, "--pool", pool)
            near(found, name, pool, "folder")
            same(vectors(TEMP / (name + ".bin"), texts, "--pool", pool), found, "converted")


def modules_and_heads_agree_with_the_reference():
    """A vector through two Dense modules; one label, whose sigmoid is the score; the logits of three."""
    for name, key, through in (("gemma-both", "vector", lambda x: x), ("qwen3-score", "labels", lambda x: 1 / (1 + np.exp(-x.astype(float)))),
                               ("llama-labels", "labels", lambda x: x)):
        texts = recorded_texts(name)
        tblock("convert", folder(name), "-o", TEMP / "m.bin")
        found = vectors(folder(name), texts, raw=False)
        for i, one in enumerate(found):
            worst = np.abs(one - through(ANSWERS[name]["seq%d.%s" % (i, key)])).max()
            need(worst <= 1e-5, "%s: text %d: off by %g" % (name, i, worst))
        for options in (("--threads", 1, "--isa", "scalar"), ("--threads", 3)):
            same(vectors(TEMP / "m.bin", texts, *options, raw=False), found, (name, options))
        near(vectors(folder(name), texts, "--pool", "last"), name, "last", "without what is behind it")
    need(np.allclose(np.linalg.norm(vectors(folder("gemma-both"), [[1, 2]], raw=False), axis=1), 1, atol=1e-6), "1 long")
    raw = vectors(changed("qwen3-score", "raw", sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"}), [recorded_texts("qwen3-score")[1]])
    need(abs(raw[0, 0] - ANSWERS["qwen3-score"]["seq1.labels"][0]) <= 1e-5, "a score that is the logit")


def what_is_behind_pooling_is_kept_or_named():
    def broken(name, path, **keys):
        at = TEMP / ("broken" + str(len(list(TEMP.glob("broken*")))))
        embedders.unpack(name, at)
        (at / path).write_text(json.dumps({**json.loads((at / path).read_text()), **keys}))
        return at
    for keys, said in (({"activation_function": "torch.nn.modules.activation.GELU"}, "expected Identity, Tanh, ReLU or Sigmoid"),
                       ({"in_features": 17}, "in_features: expected 16, found 17"), ({"use_residual": True}, "key 'use_residual': not kept"),
                       ({"module_input_name": "token_embeddings"}, "key 'module_input_name': not kept"), ({"bias": 1}, "bias: expected")):
        at = broken("gemma-both", "2_Dense/config.json", **keys)
        done = tblock("embed", at, "--jsonl", "-", status=3, text="[1]")
        need(said in done.stderr and done.stderr.count("\n") == 1, (keys, done.stderr))
        need(len(vectors(at, [[1]], "--pool", "mean")) == 1, "the states all the same")
    at = broken("gemma-both", "2_Dense/config.json", use_residual=False, module_input_name="sentence_embedding")
    same(vectors(at, [[1, 2]]), vectors(folder("gemma-both"), [[1, 2]]), "the defaults, written out")
    done = tblock("embed", broken("gemma-both", "3_Dense/config.json", out_features=13), "--jsonl", "-", status=3, text="[1]")
    need("tensor dense2.linear.weight: expected [13, 24], found [12, 24]" in done.stderr, done.stderr)
    for keys, said in (({"temperature": 0.5}, "temperature: expected 1 with a head of labels"),
                       ({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}, "expected Sigmoid or Identity")):
        done = tblock("info", changed("qwen3-score", "act", **keys), status=3)
        need(said in done.stderr, done.stderr)


def gguf_of(name, **own):
    """As convert_hf_to_gguf.py lays these out."""
    ours = {key: info(folder(name), key) for key in ("theta", "head_dim", "norm_eps")}
    arch = {"gemma-both": "gemma-embedding", "qwen2-both": "qwen2", "llama-bidirec": "llama"}[name]
    theirs = json.loads((folder(name) / "config.json").read_text())
    m = make_gguf.Model(arch, d=16, layers=0, heads=2, kv_heads=1, d_ff=24, vocab=40, n_ctx=256)
    m.own.update({"block_count": (make_gguf.U32, 2), "rope.freq_base": (make_gguf.F32, ours["theta"]),
                  "rope.dimension_count": (make_gguf.U32, ours["head_dim"]), "attention.key_length": (make_gguf.U32, ours["head_dim"]),
                  "attention.value_length": (make_gguf.U32, ours["head_dim"]), "pooling_type": (make_gguf.U32, 1),
                  "attention.layer_norm_rms_epsilon": (make_gguf.F32, ours["norm_eps"])})
    if name == "gemma-both":
        m.own.update({"attention.sliding_window": (make_gguf.U32, theirs["sliding_window"]),
                      "attention.sliding_window_pattern": (make_gguf.ARRAY, (make_gguf.BOOL, [True, False]))})
    else:
        m.own["attention.causal"] = (make_gguf.BOOL, False)
    m.own.update(own)
    m.tensors = {}
    parts = {"embed_tokens": "token_embd", "norm": "output_norm", "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q",
             "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
             "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
             "post_attention_layernorm": "post_attention_norm" if name == "gemma-both" else "ffn_norm",
             "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
    for full, (dtype, shape, data) in embedders.raw_tensors(folder(name) / "model.safetensors").items():
        at, _, end = full.rpartition(".")
        layer = at.split(".")[1] + "." if at.startswith("layers.") else ""
        part = parts[at.split(".", 2)[2] if layer else at]
        x = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
        if part in ("attn_q", "attn_k") and arch == "llama":   # neighbouring dimensions rotate there
            x = x.reshape(-1, 2, ours["head_dim"] // 2, shape[1]).swapaxes(1, 2).reshape(shape)
        if "norm" in part and name == "gemma-both":
            x = x + np.float32(1)
        m.tensors[("blk." + layer if layer else "") + part + "." + end] = np.ascontiguousarray(x)
    return m


def gguf_files_compute_what_the_folder_does():
    for name in BOTH:
        path = gguf_of(name).write(str(TEMP / (name + ".gguf")))
        texts = recorded_texts(name)
        for pool in ("mean", "last"):
            same(vectors(path, texts, "--pool", pool), vectors(folder(name), texts, "--pool", pool), (name, pool))
    m = gguf_of("gemma-both")
    for part, file in (("dense_2", "2_Dense"), ("dense_3", "3_Dense")):
        w = embedders.raw_tensors(folder("gemma-both") / file / "model.safetensors")["linear.weight"]
        m.tensors[part + ".weight"] = np.frombuffer(w[2], "<f4").reshape(w[1])
    found = vectors(m.write(str(TEMP / "dense.gguf")), recorded_texts("gemma-both"))
    at = TEMP / "plain"   # llama.cpp has neither biases nor activations there
    embedders.unpack("gemma-both", at)
    (at / "3_Dense/config.json").write_text(json.dumps({"in_features": 24, "out_features": 12, "bias": False,
                                                        "activation_function": "torch.nn.modules.linear.Identity"}))
    w = embedders.raw_tensors(at / "3_Dense/model.safetensors")
    embedders.write_safetensors(at / "3_Dense/model.safetensors", {"linear.weight": w["linear.weight"]})
    same(found, vectors(at, recorded_texts("gemma-both")), "Dense of GGUF")
    path = gguf_of("llama-bidirec", **{"attention.sliding_window": (make_gguf.U32, 8)}).write(str(TEMP / "w.gguf"))
    done = tblock("info", path, status=3)
    need("attention.sliding_window: expected none where attention goes in both directions" in done.stderr, done.stderr)


def nothing_changes_a_bit():
    """Lengths around tiles of 64, and some that no step of 512 tokens holds together. Which kernels there are, the processor says."""
    draw = random.Random(3)
    texts = [[draw.randrange(40) for _ in range(n)] for n in (1, 200, 3, 63, 64, 65, 66, 127, 130, 250, 7, 1, 40, 255, 9)]
    for name in BOTH:
        for kv in ("f32", "f16", "q8"):
            some = texts if kv == "f32" else texts[3:9]
            alone = np.concatenate([vectors(folder(name), [t], "--kv-type", kv, "--pool", "mean", "--threads", 1, "--isa", "scalar") for t in some])
            for options in ((), ("--threads", 2), ("--threads", 7), ("--threads", 3, "--isa", "scalar"), ("--threads", 3, "--isa", "avx2")):
                if options[-1:] != ("avx2",) or "avx2" in pathlib.Path("/proc/cpuinfo").read_text():
                    same(vectors(folder(name), some, "--kv-type", kv, "--pool", "mean", *options), alone, (name, kv, options))
    for kind in ("q8", "bf16"):
        tblock("convert", folder("gemma-both"), "-o", TEMP / "typed.bin", "--type", kind)
        alone = np.concatenate([vectors(TEMP / "typed.bin", [t], "--pool", "last", "--threads", 1, "--isa", "scalar") for t in texts[6:10]])
        same(vectors(TEMP / "typed.bin", texts[6:10], "--pool", "last", "--threads", 3), alone, kind)


def what_follows_counts():
    """The first token's state is another one if the last token is. Half of a window of 9 is 4 positions, and the second layer sees all;
    with windows only, two layers carry a change over 8 positions and no further."""
    for name in BOTH:
        a, b = vectors(folder(name), [[5, 6, 7], [5, 6, 8]], "--pool", "cls")
        need(not np.array_equal(a, b), name)
    windows = changed("gemma-both", "windows", layer_types=["sliding_attention"] * 2)
    texts = [[3] * 30, [3] * 8 + [4] + [3] * 21, [3] * 9 + [4] + [3] * 20]
    same_, near_, far = vectors(windows, texts, "--pool", "cls")
    need(not np.array_equal(same_, near_) and np.array_equal(same_, far), "the window")


def texts_are_read_whole_or_refused():
    long = changed("qwen2-both", "long", max_position_embeddings=20000)
    text = [n % 40 for n in range(8193)]
    done = tblock("embed", long, "--jsonl", "-", status=2, text=json.dumps(text))
    need("expected at most the 8192 tokens that are computed at once" in done.stderr, done.stderr)
    at_once = changed("qwen2-both", "short", max_position_embeddings=700)
    same(vectors(at_once, [text[:700], [1, 2]]), vectors(long, [text[:700], [1, 2]]), "more than a step of 512")
    need(len(vectors(long, [text[:1500]], "--ctx", 1500)) == 1, "a context that was asked for")


def what_they_cannot_do_is_refused_by_name():
    for name in BOTH:
        said = "attention in both directions (bidirectional)"
        for command in (("run", folder(name), "--ids", "1,2", "-n", "1"), ("logits", folder(name), "--ids", "1,2", "-o", TEMP / "x"),
                        ("bench", folder(name))):
            done = tblock(*command, status=3)
            need(said in done.stderr and done.stderr.count("\n") == 1, done.stderr)
        done = tblock("attn", folder(name), "--ids", "1,2", "-o", TEMP / "x.json", status=2)
        need(said in done.stderr, done.stderr)
    causal = changed("qwen2-both", "causal", is_causal=True)
    done = tblock("run", causal, "--ids", "1,2", "-n", "1", status=3)
    need("without a head (headless)" in done.stderr, done.stderr)
    need(len(vectors(causal, [[1, 2]], "--pool", "last")) == 1, "it embeds")
    for keys, said in (({"use_sliding_window": True, "max_window_layers": 0}, "sliding_window: expected none where attention goes in both"),
                       ({"pooling": 3}, "pooling: expected a string"), ({"is_causal": "no"}, "is_causal: expected true or false")):
        done = tblock("info", changed("qwen2-both", "wrong", **keys), status=3)
        need(said in done.stderr, (keys, done.stderr))
    other = changed("llama-bidirec", "weighted", pooling="weighted_avg")
    tblock("embed", other, "--jsonl", "-", text="[1, 2]", status=3)
    need(len(vectors(other, [[1, 2]], "--pool", "mean")) == 1, "a way that is kept")


def the_server_gives_the_same_bits():
    from server import Server
    for name in BOTH[:2]:
        texts = [[int(i) for i in t] for t in recorded_texts(name)]
        with Server("--parallel", "3", model=str(folder(name))) as s:
            answer = s.post("/v1/embeddings", input=texts, pooling="mean", normalize=False)
            found = np.array([d["embedding"] for d in answer["data"]]).astype(np.float32)
            same(found, vectors(folder(name), texts, "--pool", "mean"), name)
            answer = s.post("/v1/embeddings", input=texts, normalize=False)
            same(np.array([d["embedding"] for d in answer["data"]]).astype(np.float32), vectors(folder(name), texts), (name, "auto"))


with tempfile.TemporaryDirectory() as temporary:
    TEMP = pathlib.Path(temporary)
    result = attempt_all(recorded_vectors_agree_from_folders_and_converted_files, modules_and_heads_agree_with_the_reference,
                         what_is_behind_pooling_is_kept_or_named, gguf_files_compute_what_the_folder_does, nothing_changes_a_bit,
                         what_follows_counts, texts_are_read_whole_or_refused, what_they_cannot_do_is_refused_by_name, the_server_gives_the_same_bits)
sys.exit(result)
