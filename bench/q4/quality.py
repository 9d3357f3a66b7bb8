#!/usr/bin/env python3
"""What q8 and q4 lose, next to ggml's types of the same weights: the table of docs/numerics.md, "Our quantized types".

    python3 -m venv V && V/bin/pip install numpy gguf tokenizers llama-cpp-python
    V/bin/python bench/q4/quality.py [--ggml LIBGGML] [--windows N] [--run BUILD/tblock]

With --mxfp4, what activations lose beside weights that are MXFP4 already: the parent is the model with all matrices rounded to it.
With --run, only q8 and q4 as the program itself computes them: converted, quantized, and `tblock logits` with its integer kernels.

Our codes come from src/quant/codes.c, compiled here; ggml's from ggml_quantize_chunk in llama-cpp-python's library (or
--ggml), without an importance matrix, read back by the gguf package. Rows that are not a multiple of a type's block are
filled with zeros (llama.cpp would take another type there). The models run in float64 (tests/golden/ref.py); ours with
activations rounded as docs/numerics.md says, ggml's with its Q8_0 activations (Q8_K for K types) and also without rounding.
"""
import argparse
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
sys.path.insert(0, str(ROOT / "tests/golden"))
import ref  # noqa: E402


# ---- Weight types: a function from a matrix [rows, k] to what it decodes to ----

def build_codes(folder):
    so = pathlib.Path(folder) / "codes.so"
    sources = [str(ROOT / f"src/{name}.c") for name in ("quant/codes", "base/half", "base/cpu")]
    subprocess.run([os.environ.get("CC", "cc"), "-std=c17", "-O2", "-fPIC", "-shared", "-fopenmp-simd", "-D_GNU_SOURCE", "-fno-math-errno",
                    "-ffp-contract=off", "-fno-trapping-math", f"-I{ROOT}/src", *sources, "-o", str(so), "-lm"], check=True)
    return ctypes.CDLL(str(so))


def pointer(a):
    return ctypes.c_void_p(a.ctypes.data)


def ours(lib, kind):
    def decode(m):
        out = np.zeros(m.shape, np.float64)
        book = np.array((ctypes.c_int8 * 16).in_dll(lib, "q4_codebook"), np.int32)
        magnitude = np.array((ctypes.c_int8 * 16).in_dll(lib, "q4_magnitude"), np.int32)
        code, sub, d = np.zeros(256, np.uint8), np.zeros(16, np.uint8), np.zeros(1, np.uint16)
        for r in range(m.shape[0]):
            for s in range(0, m.shape[1], 256):
                x = np.ascontiguousarray(m[r, s:s + 256], np.float32)
                if kind == "q8":
                    lib.q8_encode(pointer(x), len(x), pointer(code), pointer(d))
                    q = code.view(np.int8)[:len(x)].astype(np.int32)
                else:
                    lib.q4_encode(pointer(x), len(x), pointer(code), pointer(sub), pointer(d))
                    q = (book[code] * np.repeat(np.where(sub & 16, -1, 1) * magnitude[sub & 15], 16))[:len(x)]
                out[r, s:s + 256] = q * float(d.view(np.float16)[0])
        return out
    return decode


def theirs(lib, name):
    import gguf
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t

    def decode(m):
        rows, k = m.shape
        full = np.zeros((rows, -(-k // block) * block), np.float32)
        full[:, :k] = m
        out = np.zeros((rows, full.shape[1] // block * size), np.uint8)
        i64 = ctypes.c_int64
        n = lib.ggml_quantize_chunk(int(kind), pointer(full), pointer(out), i64(0), i64(rows), i64(full.shape[1]), None)
        assert n == out.size
        return gguf.quants.dequantize(out, kind)[:, :k].astype(np.float64)
    return decode


# ---- Activations: rounded along the last axis, as float64 ----

def rounded(block, top):
    def apply(x):
        out = np.empty_like(x)
        for s in range(0, x.shape[-1], block):
            b = x[..., s:s + block].astype(np.float32)
            d = np.abs(b).max(-1, keepdims=True) / np.float32(top)
            with np.errstate(divide="ignore", invalid="ignore"):
                q = np.where(d > 0, np.rint(b * (np.float32(1) / d)), 0)
            out[..., s:s + block] = q.astype(np.float64) * d
        return out
    return apply


def bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & np.uint32(0xffff0000)).view(np.float32).astype(np.float64)


EXACT = None
ACTIVATIONS = {"exact": EXACT, "8": rounded(256, 127), "8 by 32": rounded(32, 127), "16": rounded(256, 32512), "Q8_0": rounded(32, 127), "Q8_K": rounded(256, 127),
               "bf16": bf16}


class Model(ref.Reference):
    """The reference with some matrices replaced and the inputs of every product rounded."""
    activations = EXACT

    def linear(self, x, name):
        return super().linear(self.activations(x) if self.activations else x, name)


def matrices(model):
    return {n: w for n, w in model.w.items() if w.ndim == 2}


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def divergence(parent, texts, weights, activations):
    """Mean KL divergence in nats a token, and the share of tokens whose best continuation stays the same."""
    m = Model(parent.c, weights)
    m.activations = ACTIVATIONS[activations]
    kl, same, n = 0.0, 0, 0
    for tokens, p in texts:
        q = log_softmax(m(tokens)[0])
        kl += (np.exp(p) * (p - q)).sum()
        same += int((p.argmax(-1) == q.argmax(-1)).sum())
        n += len(tokens)
    return kl / n, same / n


# ---- The models and their texts ----

SOURCES = {"shakespeare": SHARED / "models/shakespeare", "stories260K": SHARED / "data/derived/stories260K/hf-f32"}


def shakespeare(windows):
    from tokenizers import Tokenizer
    folder = SOURCES["shakespeare"]
    text = (SHARED / "data/text/tinyshakespeare.txt").read_text()
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text[len(text) * 95 // 100:]).ids
    return Model.from_folder(folder), [ids[i * 255:i * 255 + 255] for i in range(windows) if len(ids) >= i * 255 + 255]


def stories(windows):
    """No text of its kind is at hand: it tells stories itself, drawn with a fixed seed, each from the start token."""
    model, rng, out = Model.from_folder(SOURCES["stories260K"]), np.random.default_rng(0), []
    ids = np.ones((windows, 1), np.int64)
    for w in range(windows):
        seq = [1]
        while len(seq) < 160:
            p = np.exp(log_softmax(model(seq)[0][-1]))
            seq.append(int(rng.choice(len(p), p=p / p.sum())))
        out.append(seq)
    return model, out


MODELS = {"shakespeare": shakespeare, "stories260K": stories}


# ---- What the program computes ----

def quantized_by(tblock, source, kind, folder):
    """The model as a file of ours, all matrices of the kind."""
    model, small = folder / "model.bin", folder / f"{kind}.bin"
    if not model.exists():
        subprocess.run([sys.executable, ROOT / "tools/convert.py", source, "-o", model, "--quiet"], check=True)
    subprocess.run([tblock, "quantize", model, small, "--type", kind, "--keep", f"embed={kind}", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    return small


def run_divergence(tblock, model, texts, bits, kv_type, folder):
    kl, same, n = 0.0, 0, 0
    for tokens, p in texts:
        out = folder / "logits.safetensors"
        subprocess.run([tblock, "logits", model, "--ids", ",".join(map(str, tokens)), "--activations", bits, "--kv-type", kv_type,
                        "--quiet", "-o", out], check=True)
        q = log_softmax(ref.read_safetensors(out)["logits"].astype(np.float64))
        kl += (np.exp(p) * (p - q)).sum()
        same += int((p.argmax(-1) == q.argmax(-1)).sum())
        n += len(tokens)
    return kl / n, same / n


def print_run(tblock, name, source, texts):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for kind in ("q8", "q4"):
            model = quantized_by(tblock, source, kind, folder)
            for bits, kv_type in (("16", "f32"), ("8", "f32"), ("16" if kind == "q8" else "8", "f16")):
                kl, same = run_divergence(tblock, model, texts, bits, kv_type, folder)
                print(f"  {name} {kind} as run: activations {bits:2} KV cache {kv_type} KL {kl:.6f}  same best {same:.4f}", flush=True)


def print_mxfp4(decode, windows):
    for name, make in MODELS.items():
        parent, ids = make(windows)
        weights = {**parent.w, **{n: decode(w) for n, w in matrices(parent).items()}}
        own = Model(parent.c, weights)
        texts = [(t, log_softmax(own(t)[0])) for t in ids]
        for a in ("8 by 32", "8", "16", "bf16"):
            kl, same = divergence(parent, texts, weights, a)
            print(f"  {name} MXFP4 activations {a:7} KL {kl:.10f}  same best {same:.4f}", flush=True)


def rms(pairs):
    e = sum(((a - b) ** 2).sum() for a, b in pairs)
    return np.sqrt(e / sum((a ** 2).sum() for a, _ in pairs))


def find_ggml(path):
    if path:
        return ctypes.CDLL(path)
    import importlib.util
    spec = importlib.util.find_spec("llama_cpp")
    if not spec:
        raise SystemExit("quality.py: expected llama-cpp-python or --ggml LIBRARY, found neither")
    return ctypes.CDLL(str(pathlib.Path(spec.origin).parent / "lib/libggml-base.so"), mode=ctypes.RTLD_GLOBAL)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--ggml", help="libggml-base.so; absent: that of llama-cpp-python")
    arguments.add_argument("--windows", type=int, default=6, help="texts of each model [6]")
    arguments.add_argument("--run", metavar="TBLOCK", help="measure only what this program computes")
    arguments.add_argument("--mxfp4", action="store_true", help="measure only activations beside MXFP4")
    options = arguments.parse_args()
    if options.mxfp4:
        return print_mxfp4(theirs(find_ggml(options.ggml), "MXFP4"), options.windows)
    if options.run:
        for name, make in MODELS.items():
            parent, ids = make(options.windows)
            print_run(options.run, name, SOURCES[name], [(t, log_softmax(parent(t)[0])) for t in ids])
        return
    with tempfile.TemporaryDirectory() as folder:
        codes, ggml = build_codes(folder), find_ggml(options.ggml)
        types = {"q8": ours(codes, "q8"), "q4": ours(codes, "q4")}
        for name in ("Q8_0", "Q4_0", "Q4_K", "IQ4_NL"):
            types[name] = theirs(ggml, name)
        rng = np.random.default_rng(1)
        samples = {"Gaussian": rng.standard_normal((1000, 1024)).astype(np.float32),
                   "Student t5": rng.standard_t(5, (1000, 1024)).astype(np.float32)}
        for sample, m in samples.items():
            m = m.astype(np.float64)
            print(sample, {t: float(f"{rms([(m, f(m))]):.5f}") for t, f in types.items()}, flush=True)
        for name, make in MODELS.items():
            parent, ids = make(options.windows)
            texts = [(t, log_softmax(parent(t)[0])) for t in ids]
            print(name, sum(len(t) for t in ids), "tokens")
            for t, f in types.items():
                decoded = {n: f(w) for n, w in matrices(parent).items()}
                error = rms([(w, decoded[n]) for n, w in matrices(parent).items()])
                widths = ("8 by 32", "16") if t == "q8" else ("8", "16") if t == "q4" else ("Q8_K",) if t == "Q4_K" else ("Q8_0",)
                for a in ("exact", *widths):
                    kl, same = divergence(parent, texts, {**parent.w, **decoded}, a)
                    print(f"  {t:7} rms {error:.5f}  activations {a:7} KL {kl:.6f}  same best {same:.4f}", flush=True)


if __name__ == "__main__":
    main()
