#!/usr/bin/env python3
"""A model that does not fit into the memory (docs/reliability.md): weights of GGUF stay as they are in the file, with the same bits, and what
must be made is refused before it is. A library that is loaded first says how much is available; one case has a real limit, of a control
group, where this user may make one. $TBLOCK is the program."""
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import sys

from faults import BUILD, DATA, ROOT, TBLOCK, TEMP, Skip, case, fails, main, not_sanitized, run, small_model, text_model, works

from embedders import write_safetensors  # faults names the folder

LIBRARY = BUILD / "tests/faults/failing_memory.so"
GGUF = DATA / "gguf/llama-kquants/model.gguf"
STAY = b"stay as they are in the file"
GROUPS = pathlib.Path("/sys/fs/cgroup")


def environment(kilobytes):
    if not LIBRARY.exists() or BUILD.name.endswith("san"):
        raise Skip("no failing_memory.so in this build")
    return dict(os.environ, LD_PRELOAD=str(LIBRARY), FAIL_AVAILABLE_KB=str(kilobytes))


def with_memory(kilobytes, *args):
    return run(*args, env=environment(kilobytes))


@case
def weights_stay_in_the_file_with_the_same_bits():
    ids = ["--ids", ",".join(str(7 * i % 256) for i in range(40))]
    for name, args in (("logits", ["logits", GGUF, *ids]), ("huge pages", ["logits", GGUF, *ids, "--pages", "huge"])):
        outputs = []
        for kilobytes in (1 << 20, 100):
            r = works(with_memory(kilobytes, *args, "-o", f"o{kilobytes}"), name)
            assert r.stderr.count(STAY) == (kilobytes == 100), f"{name}, {kilobytes} kB: {r.stderr}"
            outputs.append((TEMP / f"o{kilobytes}").read_bytes())
        assert outputs[0] == outputs[1], f"{name}: other bits"


def float_folder(dtype):
    """A folder whose 8 MB of rows are packed when it is opened. w_up has rows of 200 values, so that not every part of
    the scratch memory is whole panels."""
    folder = TEMP / f"floats-{dtype}"
    folder.mkdir(exist_ok=True)
    d, ff, vocab, layers = 256, 1000, 600, 3
    shapes = {"model.embed_tokens.weight": [vocab, d], "model.norm.weight": [d]}
    for i in range(layers):
        at = f"model.layers.{i}."
        shapes |= {f"{at}self_attn.{x}_proj.weight": [d, d] for x in "qkvo"}
        shapes |= {f"{at}mlp.gate_proj.weight": [ff, d], f"{at}mlp.up_proj.weight": [ff, d], f"{at}mlp.down_proj.weight": [d, ff]}
        shapes |= {f"{at}input_layernorm.weight": [d], f"{at}post_attention_layernorm.weight": [d]}
    numbers, tensors = random.Random(7), {}
    for name, shape in shapes.items():
        words = (struct.pack("<f", numbers.gauss(0, 0.05)) for _ in range(math.prod(shape)))
        tensors[name] = (dtype, shape, b"".join(w if dtype == "F32" else w[2:] for w in words))
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": d, "intermediate_size": ff, "num_attention_heads": 4,
        "num_hidden_layers": layers, "vocab_size": vocab, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
        "torch_dtype": "float32" if dtype == "F32" else "bfloat16"}))
    return folder


@case
def floats_that_do_not_fit_stay_in_the_file_with_the_same_bits():
    for dtype, math_ in (("F32", "f32"), ("BF16", "f32"), ("BF16", "bf16")):
        model, outputs = float_folder(dtype), []
        for kilobytes, stays in ((1 << 20, False), (1500, True)):
            what = f"{dtype}, math {math_}, {kilobytes} kB"
            r = works(with_memory(kilobytes, "logits", model, "--ids", ",".join(map(str, range(50))), "--math", math_, "-o", "o"), what)
            assert r.stderr.count(STAY) == stays, f"{what}: {r.stderr}"
            outputs.append((TEMP / "o").read_bytes())
            r = works(with_memory(kilobytes, "info", model), what)
            assert (b"less than the total" in r.stdout) == stays, f"{what}: {r.stdout}"
            r = works(with_memory(kilobytes, "run", model, "--ids", "1,2,3", "-n", "4", "--temp", "0", "--math", math_), what)
            outputs[-1] += r.stdout
        assert outputs[0] == outputs[1], f"{dtype}, math {math_}: other bits"


@case
def what_must_be_made_is_refused_before():
    """Matrices of another type than the file's are made when it is opened."""
    model = text_model()
    size = os.path.getsize(model)
    args = ["run", model, "-p", "ROMEO:", "-n", "2", "--temp", "0", "--type", "f32"]
    fails(with_memory(100, *args), 4, model, "out of memory", "MB are available")
    works(with_memory(16 * size // 1024, *args))


def long_model():
    """About 12 kB of KV cache for a position, 1.2 GB for a whole context."""
    return small_model("long.bin", d_model=256, heads=8, kv_heads=8, n_layers=6, d_ff=512, vocab_size=300, n_ctx=100000)


def refused(r, *words):
    """The context that the message says is enough."""
    fails(r, 4, "out of memory: a KV cache of", *words)
    return int(re.search(rb"enough for --ctx (\d+)", r.stderr).group(1))


@case
def a_chosen_context_must_fit():
    model, megabytes = long_model(), 200
    for options in ([], ["--kv-type", "q8"]):
        args = ["run", model, "--ids", "1", "-n", "1", *options, "--ctx"]
        enough = refused(with_memory(megabytes << 10, *args, 100000), model, "100000 positions", "MB are available")
        assert 5000 < enough < 100000, enough
        works(with_memory(megabytes << 10, *args, enough))
        assert refused(with_memory(megabytes << 10, *args, enough + 64)) == enough
    works(with_memory(megabytes << 10, "run", model, "--ids", "1", "-n", "1"), "what is not asked for is not reserved")


@case
def a_prompt_that_cannot_fit_is_refused_before_it_is_computed():
    model = long_model()
    for n, good in ((500, True), (12000, False)):
        r = with_memory(100 << 10, "run", model, "--ids", ",".join(["7"] * n), "-n", "1", "--json")
        if good:
            works(r)
        else:
            refused(r, f"{n} positions")
            assert not r.stdout, r.stdout


@case
def a_cache_that_grows_too_large_ends_the_run():
    """Nobody asked for so many positions at first. logits opens no generation, which would look at the whole prompt."""
    r = with_memory(1 << 10, "logits", long_model(), "--ids", ",".join(["7"] * 1200), "-o", "o")
    fails(r, 4, "out of memory for a KV cache of")


@case
def a_server_asks_for_its_context_and_bounds_its_cache():
    model = long_model()
    serve = ["serve", model, "--port", "0"]
    r = with_memory(200 << 10, *serve, "--ctx", "100000")
    if b"without libmicrohttpd" in r.stderr:
        raise Skip("built without libmicrohttpd")
    enough = refused(r, "100000 positions")
    for ctx, slots, bounded in ((enough // 2, 8, True), (64, 2, False), (None, 1, False)):
        length = ["--ctx", str(ctx)] if ctx else []
        with subprocess.Popen([TBLOCK, *map(str, serve), *length, "--parallel", str(slots), "--cache", "0"], cwd=TEMP, env=environment(200 << 10), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as p:
            assert p.stdout.readline().startswith(b"http://")
            p.terminate()
            said = p.stderr.read()
            assert p.wait(60) == 0, said
            assert (b"KV cache: at most" in said) == bounded, f"--ctx {ctx}: {said}"
            shorter = re.search(rb"context of (\d+) tokens: the memory has no room for the model's 100000", said)
            assert bool(shorter) == (not ctx), f"--ctx {ctx}: {said}"
            assert ctx or 0.7 * enough < int(shorter.group(1)) <= enough, f"{enough}: {said}"


def group():
    """A new control group for memory, its limit's file, or a case is skipped."""
    for folder, limit in ((GROUPS / "memory", "memory.limit_in_bytes"), (GROUPS, "memory.max")):
        new = folder / f"tblock-test-{os.getpid()}"
        try:
            new.mkdir()
        except OSError:
            continue
        if (new / limit).exists():
            return new, new / limit
        new.rmdir()
    raise Skip("no control group of memory can be made here")


@case
def a_control_group_has_the_last_word():
    not_sanitized()
    new, limit = group()
    try:
        model = "m.bin"
        works(run("synth", ROOT / "models/smollm2-135m.json", "-o", model))
        limit.write_text(str(384 << 20))
        args = ["run", model, "--ids", "1,2", "-n", "2", "--temp", "0", "--type", "f32", "--sandbox"]
        enter = f'echo $$ > {new}/cgroup.procs; exec "$@"'
        r = subprocess.run(["sh", "-c", enter, "sh", TBLOCK, *args], cwd=TEMP, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        fails(r, 4, model, "out of memory")
    finally:
        new.rmdir()


if __name__ == "__main__":
    sys.exit(main())
