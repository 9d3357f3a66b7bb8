#!/usr/bin/env python3
"""tools/convert.py: a Llama folder that it writes itself has the bytes that `tblock convert` writes, and everything else is
handed over to `tblock convert`. The program: $TBLOCK."""
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

import harness
from harness import MODELS, ROOT, made, need, need_space, sparse_folder, temp, tblock
import convert as script
from test_changed_configs import DROP, changes

PLAIN = ("llama-gqa", "llama-headdim", "llama-mqa", "llama-sharded", "llama-tied", "llama3-e2e")
CASES = int(os.environ.get("TBLOCK_CASES", "600"))


def command(*args, **more):
    return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "convert.py")] + list(args), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, **more)


def alone(**more):
    return dict(os.environ, TBLOCK=temp("no-such-program"), **more)


def same_bytes(what):
    a, b = (open(temp(name), "rb").read() for name in ("script.bin", "tblock.bin"))
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    assert a == b, "%s: byte %d of %d and %d: %r, %r" % (what, at, len(a), len(b), a[max(0, at - 40):at + 40], b[max(0, at - 40):at + 40])


def written_alike(folder, layout="rows16"):
    """The script writes this folder itself, without a tokenizer, and as tblock does."""
    script.convert(folder, temp("script.bin"), layout, None)
    done = tblock("convert", folder, "-o", temp("tblock.bin"), "-q", "--layout", layout, "--no-tokenizer")
    assert done.returncode == 0, done.stderr
    same_bytes(folder)


def test_a_llama_folder_has_the_bytes_of_the_program():
    for name in PLAIN:
        for layout in ("rows16", "rows"):
            written_alike(need(MODELS, name), layout)


def test_every_type_and_odd_values_have_the_bytes_of_the_program():
    """Three types in one file, odd sizes, an embedding of several pieces; subnormals, NaN, what is under 2^-50."""
    import numpy as np
    ends = np.array([1, 0x80000001, 0x33000000, 0x26800000, 0xA67F0000, 0x267F0000, 0x80000000, 0, 0x7FC00001, 0xFF800000], "<u4")

    def change(t):
        t[harness.Q] = ("BF16", np.resize((ends >> 16).astype("<u2"), (24, 24)).copy())
        t[harness.K] = ("F16", np.resize((ends >> 16).astype("<u2"), (8, 24)).copy())
        t["model.layers.0.mlp.down_proj.weight"] = ("BF16", np.resize((ends >> 16).astype("<u2"), (24, 37)).copy())
        t["model.norm.weight"] = ("BF16", np.arange(24, dtype="<u2") * np.uint16(900))
        t["model.layers.0.input_layernorm.weight"] = ("F16", np.arange(24, dtype="<u2") * np.uint16(900))
    written_alike(made(tensors=change))

    def large(t):
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            t[name] = ("F32", np.random.default_rng(7).integers(0, 1 << 31, (70001, 24), dtype=np.uint32))
    written_alike(made(config={"vocab_size": 70001}, tensors=large))


def test_a_changed_config_is_written_alike_or_not_at_all():
    """Each of some hundred odd values of config.json: the script writes what tblock writes, or hands it over."""
    folder = made()
    config = harness.config_of(folder)
    n_written = 0
    for change in random.Random(4).sample(list(changes(config)), CASES):
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({k: v for k, v in dict(config, **change).items() if v is not DROP}, f)
        try:
            script.convert(folder, temp("script.bin"), "rows16", None)
        except (script.handover.HandOver, LookupError, TypeError, ValueError):
            continue
        done = tblock("convert", folder, "-o", temp("tblock.bin"), "-q")
        assert done.returncode == 0, "%s: the script writes what tblock refuses: %s" % (change, done.stderr)
        same_bytes(change)
        n_written += 1
    assert n_written > CASES // 20, n_written


def test_a_tokenizer_and_a_chat_format_come_from_the_program():
    folder = need(MODELS, "llama3-e2e")
    for options in ([], ["--layout", "rows"]):
        done = command(folder, "-o", temp("script.bin"), *options)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert tblock("convert", folder, "-o", temp("tblock.bin"), "-q", *options).returncode == 0
        same_bytes(folder)
        assert done.stdout.startswith(temp("script.bin") + ": Hugging Face folder, "), done.stdout
    assert command(folder, "-o", temp("script.bin"), "--quiet").stdout == ""


def test_what_is_not_known_is_handed_over():
    """Other families and formats, other types, errors: the output, the messages and the status are those of the program."""
    good = made()
    cases = [[need(MODELS, name)] for name in ("gpt2", "llama-bias", "mistral-window", "qwen2")]
    cases += [[good, "--type", "q8"], [good, "--type", "bf16", "--threads", "1"], [good, "--no-tokenizer"], [temp("nowhere")],
              [good, "--frob"], [good, "--layout", "columns"], [os.path.join(good, "model.safetensors")],
              [made("extra", config={"attention_sink": 4})], [made("mamba", config={"model_type": "mamba"})],
              [made("missing", tensors=lambda t: t.pop(harness.Q))]]
    for args in cases:
        results = []
        for program, out in (command, "script.bin"), (lambda *a: tblock("convert", *a), "tblock.bin"):
            if os.path.exists(temp("out.bin")):
                os.unlink(temp("out.bin"))
            done = program(*args, "-o", temp("out.bin"))
            data = open(temp("out.bin"), "rb").read() if os.path.exists(temp("out.bin")) else None
            results.append((done.returncode, done.stdout, done.stderr, data))
        assert results[0] == results[1], (args, results[0][:3], results[1][:3])


def test_without_the_program_a_llama_folder_gets_no_tokenizer():
    folder = need(MODELS, "llama3-e2e")
    done = command(folder, "-o", temp("script.bin"), env=alone())
    assert done.returncode == 0 and "no tokenizer" in done.stderr and "make" in done.stderr and done.stderr.count("\n") == 1, done
    assert tblock("convert", folder, "-o", temp("tblock.bin"), "-q", "--no-tokenizer").returncode == 0
    same_bytes(folder)
    for args in ([need(MODELS, "gpt2")], [folder, "--type", "q8"], [os.path.dirname(folder)]):
        done = command(*args, "-o", temp("out.bin"), env=alone())
        assert done.returncode == 4 and "run make" in done.stderr and done.stderr.count("\n") == 1, done
        assert not os.path.exists(temp("out.bin"))


def test_without_the_program_a_place_that_is_not_there_is_named():
    done = command(temp("nowhere"), "-o", temp("out.bin"), env=alone())
    assert done.returncode == 3 and done.stderr == "convert.py: %s: no such file or folder\n" % temp("nowhere"), done
    out = os.path.join(temp("nowhere"), "out.bin")
    done = command(need(MODELS, "llama-gqa"), "-o", out, env=alone())
    assert done.returncode == 4 and done.stderr == "convert.py: %s: cannot write: no such folder\n" % out, done


def test_no_source_and_no_device_is_replaced():
    folder = made("spared", files={"generation_config.json": {"eos_token_id": 3}})
    before = {n: open(os.path.join(folder, n), "rb").read() for n in os.listdir(folder)}
    for name in before:
        done = command(folder, "-o", os.path.join(folder, name))
        assert done.returncode == 2 and done.stderr.count("\n") == 1, (name, done)
    for out in (temp(), "/dev/null"):
        assert command(folder, "-o", out).returncode == tblock("convert", folder, "-o", out).returncode, out
    assert not os.path.isfile("/dev/null")
    assert before == {n: open(os.path.join(folder, n), "rb").read() for n in os.listdir(folder)}


def test_no_file_behind_a_link_is_replaced():
    """As in a cache of downloads: the folder has links, and its files lie elsewhere under other names."""
    folder, blobs = made("links"), temp("blobs")
    os.mkdir(blobs)
    for name in os.listdir(folder):
        os.rename(os.path.join(folder, name), os.path.join(blobs, name + ".blob"))
        os.symlink(os.path.join(blobs, name + ".blob"), os.path.join(folder, name))
    before = {n: open(os.path.join(blobs, n), "rb").read() for n in os.listdir(blobs)}
    os.symlink(os.path.join(blobs, "model.safetensors.blob"), temp("link.bin"))
    os.link(os.path.join(blobs, "model.safetensors.blob"), temp("hard.bin"))
    for out in [os.path.join(blobs, n) for n in before] + [temp("link.bin"), temp("hard.bin")]:
        done = command(folder, "-o", out)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "same file" in done.stderr, (out, done)
    assert before == {n: open(os.path.join(blobs, n), "rb").read() for n in os.listdir(blobs)}


def test_an_output_keeps_its_link_and_its_mode():
    folder = made()
    for name in ("mode.bin", "aim.bin"):
        open(temp(name), "w").close()
        os.chmod(temp(name), 0o640)
    os.symlink(temp("aim.bin"), temp("arrow.bin"))
    for name in ("mode.bin", "arrow.bin"):
        assert command(folder, "-o", temp(name), "-q").returncode == 0
    assert os.path.islink(temp("arrow.bin"))
    for name in ("mode.bin", "aim.bin"):
        assert os.path.getsize(temp(name)) > 0 and os.stat(temp(name)).st_mode & 0o777 == 0o640, name


# Headers of safetensors that the program refuses: the text of a good one, and what stands there instead.
ODD_HEADERS = (("{", " {"), ("{", "[{"), ('"dtype"', '"more": 1, "dtype"'), ('"data_offsets": [0, ', '"data_offsets": [false, '),
               ('"data_offsets": [0, ', '"data_offsets": [-4, '),
               ('"shape": [', '"shape": [true, '), ("{", '{"__metadata__": [], '), ("{", '{"__metadata__": {"a": null}, '),
               ("{", '{"__metadata__": {"a": "\\ud800"}, '), ("{", '{"__metadata__": {"a": "1", "a": "2"}, '))
ODD_CONFIGS = ("[" * 70 + "]" * 70, "1" + "0" * 400, "1e999", "NaN", '"\\ud800"', '"\\u0000"', "01")


def test_what_the_program_refuses_to_read_is_not_written():
    folder = made("odd")
    weights, config = (os.path.join(folder, name) for name in ("model.safetensors", "config.json"))
    data, text = open(weights, "rb").read(), open(config).read()
    n = 8 + int.from_bytes(data[:8], "little")

    def refused(what):
        done = tblock("convert", folder, "-o", temp("refused.bin"), "-q")
        same = command(folder, "-o", temp("refused.bin"), "-q")
        assert (same.returncode, same.stderr) == (done.returncode, done.stderr) == (3, done.stderr), (what, same, done)
        assert same.stderr.count("\n") == 1 and not os.path.exists(temp("refused.bin")), (what, same)
    for before, after in ODD_HEADERS:
        header = json.dumps(json.loads(data[8:n])).replace(before, after, 1).encode()
        with open(weights, "wb") as f:
            f.write(len(header).to_bytes(8, "little") + header + data[n:])
        refused(after)
    with open(weights, "wb") as f:
        f.write(data)
    for value in ODD_CONFIGS:
        with open(config, "w") as f:
            f.write(text.replace("{", '{"_name_or_path": %s, ' % value, 1))
        refused(value[:20])
    with open(config, "w") as f:
        f.write(text)
    os.rename(weights, os.path.join(folder, "shard"))
    for index in ("[]", '{"weight_map": []}', '{"weight_map": "x"}', '{"weight_map": null}', '{"weight_map": {"a": ".."}}'):
        with open(weights + ".index.json", "w") as f:
            f.write(index)
        refused(index)


def test_a_full_disk_leaves_the_old_file_whole():
    folder, out = made(), temp("old.bin")
    with open(out, "wb") as f:
        f.write(b"old")
    done = command(folder, "-o", out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    assert done.returncode == 4 and done.stderr.count("\n") == 1, done.stderr
    assert open(out, "rb").read() == b"old" and not [n for n in os.listdir(temp()) if n.endswith(".tmp")]


def test_memory_stays_under_256_MB_whatever_the_size():
    need_space()
    folder, n_bytes = sparse_folder("sparse", 16)
    code = ("import os,resource,sys; os.spawnv(os.P_WAIT, sys.executable, [sys.executable] + sys.argv[1:]);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    done = subprocess.run([sys.executable, "-c", code, os.path.join(ROOT, "tools", "convert.py"), folder, "-o", temp("out.bin"),
                           "--quiet"], stdout=subprocess.PIPE, universal_newlines=True, check=True)
    assert n_bytes > 400 << 20 and os.path.getsize(temp("out.bin")) > n_bytes
    assert int(done.stdout) << 10 < 256 << 20, "%s KB" % done.stdout


def test_interrupted_it_removes_what_it_wrote():
    need_space()
    folder, _ = sparse_folder("sparse", 16)
    for number in (signal.SIGINT, signal.SIGTERM):
        for attempt in range(20):   # once more where it ended before the signal came
            child = subprocess.Popen([sys.executable, os.path.join(ROOT, "tools", "convert.py"), folder, "-o", temp("gone.bin")],
                                     stderr=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
            for _ in range(6000):
                if any("gone.bin" in n for n in os.listdir(temp())) or child.poll() is not None:
                    break
                time.sleep(0.01)
            child.send_signal(number)
            out, err = child.communicate()
            if child.returncode != 0:
                break
            os.unlink(temp("gone.bin"))
        assert child.returncode == 130 and err == "convert.py: interrupted, nothing written\n" and out == "", (child.returncode, err)
        assert not [n for n in os.listdir(temp()) if "gone" in n]
    shutil.rmtree(folder)


def test_interrupted_at_once_it_removes_what_it_wrote():
    """The moment that a signal seldom finds: the temporary file is there, and open has not returned. Another's file stays."""
    code = ("import builtins, runpy, sys; usual = builtins.open\n"
            "def interrupted(path, mode='r', *more, **named):\n"
            "    f = usual(path, mode, *more, **named)\n"
            "    if mode == 'xb':\n"
            "        f.close()\n"
            "        raise %s\n"
            "    return f\n"
            "builtins.open = interrupted\n"
            "sys.argv[0] = %r\n"
            "sys.path[0] = %r\n"
            "runpy.run_path(sys.argv[0], run_name='__main__')")
    folder, _ = sparse_folder("sparse", 1)
    tools = os.path.join(ROOT, "tools")
    for error, status, left in (("KeyboardInterrupt", 130, 0), ("FileExistsError(17, 'File exists')", 4, 1)):
        done = subprocess.run([sys.executable, "-c", code % (error, os.path.join(tools, "convert.py"), tools), folder, "-o", temp("gone.bin")],
                              stderr=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        found = [n for n in os.listdir(temp()) if "gone" in n]
        assert done.returncode == status and done.stdout == "" and len(found) == left, (done, found)
        for n in found:
            os.unlink(temp(n))
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
