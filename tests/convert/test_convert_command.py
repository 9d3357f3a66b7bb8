#!/usr/bin/env python3
"""convert.py as a command: exit status, one-line errors, full disk, interruption, memory."""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time

import harness
from harness import Skip, temp, convert, refused, hf_name, made, bpe_json, token_file, NAMES, ROOT
import numpy as np


def command(*args, **more):
    return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "convert.py")] + list(args), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, **more)


def test_usage_errors_have_status_2_and_one_line():
    folder = made()
    for args, expected in (([], "SRC"), ([folder], "-o"), ([folder, "-o", temp("o.bin"), "--dtype", "f64"], "f64"),
                           ([folder, "-o", temp("o.bin"), "--frob"], "--frob"), ([folder, "-o", temp()], "a folder"),
                           ([folder, "-o", "/dev/null"], "something else")):
        done = command(*args)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and expected in done.stderr, (args, done.stderr)
        assert done.stdout == ""
    done = command("--help")
    assert done.returncode == 0 and "--layout" in done.stdout and done.stderr == ""
    source = token_file(bpe_json())
    done = command(source, "-o", source)
    assert done.returncode == 2 and "one of the sources" in done.stderr and os.path.getsize(source) == len(bpe_json())
    folder = made("spared", files={"tokenizer.json": bpe_json(), "merges.txt": b"kept"})
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"}
    small = token_file(json.dumps({"added_tokens": [], "pre_tokenizer": meta, "decoder": meta, "model": {
        "type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0]]}}).encode(), "small.json")
    for name in ("tokenizer.json", "merges.txt"):   # which are not read
        done = command(folder, "--tokenizer", small, "-o", os.path.join(folder, name))
        assert done.returncode == 2 and "one of the sources" in done.stderr, (name, done.stderr)
        assert os.path.getsize(os.path.join(folder, name)) < 1 << 16, name


def test_missing_and_unknown_sources_have_status_3():
    refused(temp("nowhere"), "no such file")
    refused(token_file(b"GGUF" + bytes(60), "x.gguf"), "GGUF")
    refused(token_file(b"PK\3\4" + bytes(60), "x.bin"), "PyTorch")
    refused(token_file(b"", "empty"), "none of these")
    refused(os.path.join(made(), "model.safetensors"), "give its folder")
    os.makedirs(temp("bare"), exist_ok=True)
    refused(temp("bare"), "config.json", "no such file")
    status, _, err = convert(made(), out="no/such/folder.bin")
    assert status == 4 and "no folder" in err


def test_a_full_disk_leaves_the_old_file_whole():
    import resource
    folder, out = made(), temp("old.bin")
    with open(out, "wb") as f:
        f.write(b"old")
    done = command(folder, "-o", out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
    assert done.returncode == 4 and "cannot be written" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert open(out, "rb").read() == b"old" and not [n for n in os.listdir(temp()) if n.endswith(".tmp")]


def sparse_folder(name, n_layers):
    """A folder whose weights are holes in a sparse file: 16 MB a layer, in the largest tensor 4 MB."""
    folder = temp(name)
    os.makedirs(folder, exist_ok=True)
    d, ff = 1024, 1024
    json.dump({"model_type": "llama", "hidden_size": d, "num_hidden_layers": n_layers, "num_attention_heads": 16,
               "intermediate_size": ff, "vocab_size": 64, "tie_word_embeddings": True}, open(os.path.join(folder, "config.json"), "w"))
    header, at = {}, 0
    shapes = {"model.embed_tokens.weight": [64, d], "model.norm.weight": [d]}
    for n in range(n_layers):
        for ours in NAMES:
            shapes[hf_name("layers.%d.%s" % (n, ours))] = [d] if "norm" in ours else [d, d]
    for key, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    return folder, at


def need_space():
    if shutil.disk_usage(temp()).free < 600 << 20:
        raise Skip("less than 600 MB in %s" % temp())


def test_memory_stays_under_256_MB_whatever_the_size():
    need_space()
    folder, n_bytes = sparse_folder("sparse", 16)
    assert n_bytes > 400 << 20
    code = ("import os,resource,sys; os.spawnv(os.P_WAIT, sys.executable, [sys.executable] + sys.argv[1:]);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    done = subprocess.run([sys.executable, "-c", code, os.path.join(ROOT, "tools", "convert.py"), folder, "-o", temp("out.bin"),
                           "--dtype", "bf16", "--quiet"], stdout=subprocess.PIPE, universal_newlines=True, check=True)
    most = int(done.stdout) << 10
    assert os.path.getsize(temp("out.bin")) > n_bytes // 2
    shutil.rmtree(folder)
    os.unlink(temp("out.bin"))
    assert most < 256 << 20, "%d MB" % (most >> 20)


def test_interrupted_it_removes_what_it_wrote():
    need_space()
    folder, _ = sparse_folder("sparse", 16)
    for number in (signal.SIGINT, signal.SIGTERM):
        child = subprocess.Popen([sys.executable, os.path.join(ROOT, "tools", "convert.py"), folder, "-o", temp("gone.bin")],
                                 stderr=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        for _ in range(6000):
            if any("gone.bin" in n for n in os.listdir(temp())) or child.poll() is not None:
                break
            time.sleep(0.01)
        child.send_signal(number)
        out, err = child.communicate()
        assert child.returncode == 130 and err == "convert.py: interrupted, nothing written\n" and out == "", (child.returncode, err)
        assert not [n for n in os.listdir(temp()) if "gone" in n]
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
