#!/usr/bin/env python3
"""What real weights lose in each type: KL from the parent and perplexity, tblock beside llama.cpp on the same files. Prints a table.

  bench/type_loss.py [MODEL.gguf] [--text FILE ...] [--windows N] [--kv]

MODEL is the parent (default: models/smollm2.gguf, from `make real`), its weights as floats, computed with `--math f32 --kv-type f32`.
llama.cpp's own quantizer makes the GGUF types from it, without an importance matrix, and tblock its own; they lie in build/type_loss and are
found again. Each text gives N windows of 256 tokens. KL and perplexity are means over all positions but the first of a window. `codes`: what the
codes alone lose (--math f32). --kv: instead, what types of the KV cache lose beside those floats. Needs numpy and llama_cpp (bench/peers
says how)."""
import argparse
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
WINDOW = 256
GGUF = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0")
OWN = {"q8": "q8", "q4": "q4", "q4, calibrated": "q4"}


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


class Tblock:
    def __init__(self, program):
        self.program = str(program)

    def run(self, *words):
        return subprocess.run([self.program, *map(str, words)], check=True, capture_output=True, text=True).stdout

    def logits(self, model, windows, *options):
        """log-probabilities [window][position][vocab_size]"""
        out = []
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "logits.safetensors"
            for ids in windows:
                self.run("logits", model, "--ids", ",".join(map(str, ids)), "-o", path, "--quiet", *options)
                raw = path.read_bytes()
                start = 8 + int.from_bytes(raw[:8], "little")
                name, t = next((n, t) for n, t in json.loads(raw[8:start]).items() if n.endswith("logits"))
                first, end = t["data_offsets"]
                out.append(log_softmax(np.frombuffer(raw[start + first:start + end], "<f4").reshape(t["shape"])))
        return out


class Llama:
    def __init__(self):
        import llama_cpp
        self.c = llama_cpp
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, user: None)
        self.c.llama_log_set(self.quiet, None)
        self.c.llama_backend_init()

    def quantize(self, source, target, kind):
        p = self.c.llama_model_quantize_default_params()
        p.ftype, p.allow_requantize, p.nthread = getattr(self.c, "LLAMA_FTYPE_MOSTLY_" + kind), True, 1
        if self.c.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(p)) != 0:
            raise SystemExit(f"{source}: llama.cpp cannot quantize it to {kind}")

    def logits(self, model, windows):
        m = self.c.llama_model_load_from_file(str(model).encode(), self.c.llama_model_default_params())
        size = self.c.llama_vocab_n_tokens(self.c.llama_model_get_vocab(m))
        p = self.c.llama_context_default_params()
        p.n_ctx = p.n_batch = p.n_ubatch = WINDOW
        context, batch, out = self.c.llama_init_from_model(m, p), self.c.llama_batch_init(WINDOW, 0, 1), []
        for ids in windows:
            self.c.llama_memory_clear(self.c.llama_get_memory(context), True)
            batch.n_tokens = len(ids)
            for i, token in enumerate(ids):
                batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i], batch.seq_id[i][0] = int(token), i, 1, True, 0
            if self.c.llama_decode(context, batch) != 0:
                raise SystemExit(f"{model}: llama_decode failed")
            out.append(log_softmax(np.array([np.ctypeslib.as_array(self.c.llama_get_logits_ith(context, i), (size,)) for i in range(len(ids))])))
        self.c.llama_batch_free(batch)
        self.c.llama_free(context)
        self.c.llama_model_free(m)
        return out


def kl(parent, found):
    return np.mean([np.mean((np.exp(p) * (p - f)).sum(axis=1)[1:]) for p, f in zip(parent, found)])


def perplexity(found, windows):
    return np.exp(np.mean([-f[np.arange(len(w) - 1), w[1:]].mean() for f, w in zip(found, windows)]))


def read_windows(tblock, model, texts, n):
    windows = []
    for path in texts:
        text = path.read_text()
        ids = json.loads(tblock.run("tokenize", model, "--json", "--text", text[len(text) // 3:][:n * WINDOW * 8]))["ids"]
        windows += [np.array(ids[i * WINDOW:(i + 1) * WINDOW]) for i in range(n)]
    return windows


def rows_of_types(tblock, parent_file, calibrate_text, folder):
    """(name, file) of each type, made where it is not there yet."""
    llama, rows = Llama(), [("as it is", parent_file)]
    for kind in GGUF:
        path = folder / f"{kind}.gguf"
        path.exists() or llama.quantize(parent_file, path, kind)
        rows.append((kind, path))
    floats = folder / "f32.bin"
    floats.exists() or tblock.run("convert", parent_file, "--type", "f32", "-o", floats, "--quiet")
    for name, kind in OWN.items():
        path = folder / (name.replace(", ", "-") + ".bin")
        calibrate = ["--calibrate", calibrate_text] if "calibrated" in name else []
        path.exists() or tblock.run("quantize", floats, "-o", path, "--type", kind, "--quiet", *calibrate)
        rows.append((name, path))
    return llama, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", type=pathlib.Path, default=ROOT / "models/smollm2.gguf")
    parser.add_argument("--text", nargs="+", type=pathlib.Path, default=[ROOT / "models/as-you-like-it.txt"])
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--calibrate-text", type=pathlib.Path, default=ROOT / "README.md", help="for tblock quantize --calibrate (default: README.md)")
    parser.add_argument("--kv", action="store_true")
    parser.add_argument("--tblock", type=pathlib.Path, default=ROOT / "build/release/tblock")
    args = parser.parse_args()
    tblock, folder = Tblock(args.tblock), ROOT / "build/type_loss" / args.model.stem
    folder.mkdir(parents=True, exist_ok=True)
    windows = read_windows(tblock, args.model, args.text, args.windows)
    parent = tblock.logits(args.model, windows, "--math", "f32", "--kv-type", "f32")
    print(f"{args.model.name}, {len(windows)} windows of {WINDOW} tokens; perplexity of the parent {perplexity(parent, windows):.3f}")
    if args.kv:
        print("| KV cache | KL | perplexity |\n|---|---|---|")
        for kind in ("f16", "q8"):
            found = tblock.logits(args.model, windows, "--math", "f32", "--kv-type", kind)
            print(f"| {kind} | {kl(parent, found):.7f} | {perplexity(found, windows):.3f} |", flush=True)
        return
    llama, rows = rows_of_types(tblock, args.model, args.calibrate_text, folder)
    print("| weights | bits | codes: KL | tblock: KL | llama.cpp: KL | tblock: perplexity | llama.cpp |\n|---|---|---|---|---|---|---|")
    for name, path in rows:
        info = json.loads(tblock.run("info", path, "--json"))
        bits = 8 * path.stat().st_size / info["parameters"]["total"]
        codes, ours = (tblock.logits(path, windows, *options) for options in (("--math", "f32", "--kv-type", "f32"), ()))
        theirs = llama.logits(path, windows) if path.suffix == ".gguf" else None
        print(f"| {name} | {bits:.2f} | {kl(parent, codes):.5f} | {kl(parent, ours):.5f} | {'' if theirs is None else f'{kl(parent, theirs):.5f}'} "
              f"| {perplexity(ours, windows):.3f} | {'' if theirs is None else f'{perplexity(theirs, windows):.3f}'} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
