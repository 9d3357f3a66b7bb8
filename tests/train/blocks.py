#!/usr/bin/env python3
"""`tblock block` against torch: outputs, probabilities and all gradients of the fixtures; and what is wrong is named.

    blocks.py [--only TEXT]

Tolerances are those that the fixtures' README justifies. Also: the same bytes whatever the threads, the page within 80 columns, its
JSON, gradients checked in double, and the layer of a model."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "golden"), str(ROOT / "tests" / "faults")]
from faults import lacks_openblas  # noqa: E402
from ref import read_safetensors, write_safetensors  # noqa: E402
from testdata import FIXTURES  # noqa: E402
from verdicts import Failure, attempt, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / os.environ.get("BUILD", "build/release") / "tblock"))
BLOCKS = FIXTURES / "blocks"
OUTPUT, GRADIENT, N_CASES = 1e-5, 1e-4, 17
LARGEST = {"y": OUTPUT, "attn": OUTPUT, "dx": GRADIENT}


def run(*command, status=0):
    p = subprocess.run([TBLOCK, "block", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode != status:
        raise Failure(f"{' '.join(map(str, command))}: status {p.returncode}: {p.stderr.decode(errors='replace').strip()}")
    return p


def check_case(case, folder):
    tensors, out = case.with_suffix(".safetensors"), folder / "out.safetensors"
    page = run(case, "--tensors", tensors, "-o", out, "--threads", 1, "--grad-check").stdout.decode()
    golden, found = read_safetensors(tensors), read_safetensors(out)
    expected = set(LARGEST) | {k for k in golden if k.startswith("grad.")}
    if set(found) != expected:
        raise Failure(f"names: {sorted(set(found) ^ expected)} are not in both")
    for name in sorted(expected):
        error = np.abs(found[name] - golden[name]).max() if found[name].shape == golden[name].shape else np.inf
        if not error <= LARGEST.get(name, GRADIENT):
            raise Failure(f"{name} differs by {error:.3g}")
    wide = [line for line in page.splitlines()[1:] if len(line) > 80]
    if wide:
        raise Failure(f"a line of the page is {len(wide[0])} wide: {wide[0]}")
    first = out.read_bytes()
    run(case, "--tensors", tensors, "-o", out, "--threads", 3, "--quiet")
    if out.read_bytes() != first:
        raise Failure("other bytes with 3 threads")
    check_json(case, tensors, golden)


def check_json(case, tensors, golden):
    facts = json.loads(case.read_text())
    page = json.loads(run(case, "--tensors", tensors, "--json", "--grad-check").stdout)
    steps = {s["symbol"]: s for s in page["steps"]}
    if page["parameters"]["block"] != facts["n_params"] or page["parameters"]["block"] != sum(t["parameters"] for t in page["tensors"]):
        raise Failure(f"parameters: {page['parameters']}, expected {facts['n_params']}")
    for symbol, name in (("x", "x"), ("y", "y"), ("p", "attn")):
        expected = float(np.sqrt((golden[name] ** 2).mean()))
        if steps[symbol]["shape"] != list(golden[name].shape) or abs(steps[symbol]["rms"] - expected) > 1e-5:
            raise Failure(f"step {symbol}: {steps[symbol]}, expected RMS {expected}")
    for symbol, name in (("x", "dx"), ("y", "dy")):
        expected = float(np.sqrt((golden[name] ** 2).mean()))
        if abs(steps[symbol]["gradient_rms"] - expected) > 1e-4:
            raise Failure(f"gradient of {symbol}: RMS {steps[symbol]['gradient_rms']}, expected {expected}")
    if not max(t["error"] for t in page["gradient_check"]["tensors"]) <= 1e-4:
        raise Failure("gradient check")
    if not (page["fused"]["forward_same"] and page["fused"]["backward_same"] and page["not_finite"] is None):
        raise Failure(f"{page['fused']}, {page['not_finite']}")
    own = "pre" if facts["norm_first"] else "post"
    ratio = float(np.linalg.norm(golden["dx"]) / np.linalg.norm(golden["dy"]))
    one = json.loads(run(case, "--tensors", tensors, "--json", "--stack", 1).stdout)["stack"][own]["gradient_ratio"][0]
    if abs(one / ratio - 1) > 1e-4 or abs(page["gradient_ratio"] / ratio - 1) > 1e-4:
        raise Failure(f"|dx| / |dy|: {one}, {page['gradient_ratio']}, expected {ratio}")


def complaint(expected, *command, status=3):
    text = run(*command, status=status).stderr.decode()
    if text.count("\n") != 1 or expected not in text:
        raise Failure(f"expected '{expected}', found '{text.strip()}'")


def check_bad_input(folder):
    """A tensor that is missing, of another shape or type, not finite; a case that contradicts itself; nothing is left behind."""
    case, out = BLOCKS / "pre-rmsnorm-swiglu-gqa.json", folder / "out.safetensors"
    golden = {k: v.astype(np.float32) for k, v in read_safetensors(case.with_suffix(".safetensors")).items()}
    out.write_text("old")

    def with_tensors(**changes):
        changed = {k: v for k, v in {**golden, **changes}.items() if v is not None}
        write_safetensors(folder / "t.safetensors", changed)
        return [case, "--tensors", folder / "t.safetensors", "-o", out]

    def spoiled(name, place, value):
        a = golden[name].copy()
        a[place] = value
        return {name: a}

    complaint("tensor wk: expected F32 [12, 24], found no such tensor", *with_tensors(wk=None))
    complaint("tensor dy: expected F32 [2, 6, 24], found no such tensor", *with_tensors(dy=None))
    complaint("tensor wv: expected F32 [12, 24], found F32 [24, 12]", *with_tensors(wv=golden["wv"].T.copy()))
    complaint("tensor x: expected F32 [2, 6, 24], found F32 [2, 5, 24]", *with_tensors(x=golden["x"][:, :5].copy()))
    complaint("tensor w_up: expected F32 [40, 24], found I32 [40, 24]", *with_tensors(w_up=golden["w_up"].astype(np.int32)))
    complaint("tensor bq: expected no such tensor", *with_tensors(bq=golden["norm1_weight"]))
    complaint("tensor x: expected finite numbers, found nan at [1, 3, 5]", *with_tensors(**spoiled("x", (1, 3, 5), np.nan)))
    complaint("tensor wo: expected finite numbers, found inf at [2, 7]", *with_tensors(**spoiled("wo", (2, 7), np.inf)))
    if out.read_text() != "old":
        raise Failure("a failure replaced the output")
    facts = json.loads(case.read_text())
    for key, value, expected in (("n_kv_heads", 3, "kv_heads: expected a divisor of heads 4, found 3"), ("ffn", "glu", "ffn: expected swiglu"),
                                 ("norm", None, "norm: expected a value, found no such key"), ("d_model", "24", "d_model: expected an integer"),
                                 ("head_dim", 5, "head_dim: expected an even number, found 5"), ("batch", 3, "tensor x: expected F32 [3, 6, 24]")):
        other = folder / "other.json"
        other.write_text(json.dumps({k: v for k, v in {**facts, key: value}.items() if v is not None}))
        complaint(expected, other, "--tensors", case.with_suffix(".safetensors"))


def check_not_finite(folder):
    """What overflows on the way is named, status 1, and the page stands."""
    case = BLOCKS / "pre-rmsnorm-swiglu-gqa.json"
    golden = {k: v.astype(np.float32) for k, v in read_safetensors(case.with_suffix(".safetensors")).items()}
    golden["w_up"] = golden["w_up"] * np.float32(1e38)
    write_safetensors(folder / "t.safetensors", golden)
    p = run(case, "--tensors", folder / "t.safetensors", status=1)
    if b"first NaN or infinity: u[" not in p.stdout or b": u[" not in p.stderr:
        raise Failure(f"{p.stderr}")
    golden["w_up"] = golden["w_up"] / np.float32(1e38)
    golden["dy"] = golden["dy"] * np.float32(1e38)
    write_safetensors(folder / "t.safetensors", golden)
    p = run(case, "--tensors", folder / "t.safetensors", status=1)
    if b": gradient of " not in p.stderr:
        raise Failure(f"{p.stderr}")
    golden["dy"] = golden["dy"] / np.float32(1e38)
    golden["x"] = golden["x"] * np.float32(1e29)  # its square is infinite: norms before each half make that 0, norms behind the sum
    write_safetensors(folder / "t.safetensors", golden)
    run(case, "--tensors", folder / "t.safetensors", "--stack", 0)
    p = run(case, "--tensors", folder / "t.safetensors", "--stack", 3, status=1)
    if b"stack of 3, post-norm: the gradient after block 0" not in p.stderr:
        raise Failure(f"{p.stderr}")


def check_model_layer(folder):
    """A layer of a model on given input: no seed matters, and another layer is another block."""
    model, out = ROOT / "models" / "shakespeare.bin", [folder / "a.safetensors", folder / "b.safetensors"]
    x = np.random.default_rng(1).standard_normal((1, 9, 192)).astype(np.float32)
    write_safetensors(folder / "x.safetensors", {"x": x, "dy": x[:, ::-1].copy()})
    for seed in (0, 1):
        run(model, "--layer", 3, "--tensors", folder / "x.safetensors", "-o", out[seed], "--seed", seed, "--stack", 0, "--quiet")
    if out[0].read_bytes() != out[1].read_bytes():
        raise Failure("a seed changes a block whose weights and input are given")
    a = read_safetensors(out[0])
    run(model, "--layer", 2, "--tensors", folder / "x.safetensors", "-o", out[1], "--quiet")
    b = read_safetensors(out[1])
    if np.allclose(a["y"], b["y"]):
        raise Failure("layers 2 and 3 are the same")
    complaint("layer: expected 0 to 5", model, "--layer", 6, status=2)
    write_safetensors(folder / "w.safetensors", {"x": x, "dy": x, "wq": np.eye(192, dtype=np.float32)})
    complaint("tensor wq: expected no such tensor, because the block of " + str(model) + " has its own weights", model, "--tensors", folder / "w.safetensors")


def check_layer_with_state(folder):
    """Of a model with short convolutions, the layers with attention are blocks like any other."""
    shape = {"d_model": 16, "n_layers": 3, "heads": 2, "kv_heads": 1, "d_ff": 24, "n_ctx": 32, "vocab_size": 9, "state_layers": [0, 2], "conv_taps": 3,
             "conv_bias": True}
    (folder / "shape.json").write_text(json.dumps(shape))
    subprocess.run([TBLOCK, "synth", folder / "shape.json", "-o", folder / "m.bin"], check=True, capture_output=True)
    run(folder / "m.bin", "--layer", 1, "--stack", 0, "--quiet", "--grad-check")
    for layer in (0, 2):
        complaint("state_layers: expected none", folder / "m.bin", "--layer", layer)


def main():
    only = option_only(__doc__).parse_args().only
    if lacks_openblas():
        print("skip blocks: no OpenBLAS")
        return 0
    cases = sorted(BLOCKS.glob("*.json"))
    claims = [(c.stem, lambda f, c=c: check_case(c, f)) for c in cases]
    claims += [("bad_input", check_bad_input), ("not_finite", check_not_finite), ("model_layer", check_model_layer),
               ("layer_with_state", check_layer_with_state)]
    failed = False
    if len(cases) < N_CASES:
        print(f"skip other_blocks: no data ({len(cases)} of {N_CASES} blocks)")
    for name, check in claims:
        if only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            failed |= attempt(name, check, pathlib.Path(folder))
    return failed


if __name__ == "__main__":
    sys.exit(main())
