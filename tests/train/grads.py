#!/usr/bin/env python3
"""`tblock grad` against torch: loss, gradients of all parameters and three AdamW steps of the fixtures.

    grads.py [--only TEXT]

Tolerances are those that the fixtures' README justifies. Also: the same bits whatever the threads, and our names for a model file."""
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
from testdata import FIXTURES, OURS  # noqa: E402
from verdicts import Failure, attempt, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / os.environ.get("BUILD", "build/release") / "tblock"))
CASES = ["grad-llama-bias", "grad-llama-gqa", "grad-llama-tied"]
FAMILIES = ["gemma", "granite", "llama-headdim", "llama-mqa", "llama-yarn", "llama3-rope-scaled", "mistral-window", "olmo2", "phi3", "qwen2",
            "qwen3", "stablelm"]
REFUSED = {"gemma2": "attn_softcap", "mixtral": "n_experts", "gpt2": "positions", "cohere": "norm_placement"}
# Families whose files have the rows of q and k in another order than ours, or several of our tensors in one.
ROWS = OURS / "grads" / "rows.safetensors"
ROW_FAMILIES = {
    "glm4": ("Glm4ForCausalLM", {"attention_bias": True, "partial_rotary_factor": 0.5}, ["post_self_attn_layernorm", "post_mlp_layernorm"], True),
    "ernie4_5": ("Ernie4_5ForCausalLM", {"use_bias": False}, [], False),
    "helium": ("HeliumForCausalLM", {"attention_bias": False, "mlp_bias": False}, [], False),
    "phi3": ("Phi3ForCausalLM", {"original_max_position_embeddings": 64}, [], True),
}
GRADIENT, LOSS, PARAMETER = 2e-5, 1e-5, 1e-4


def run(*command, status=0):
    p = subprocess.run([TBLOCK, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode != status:
        raise Failure(f"{' '.join(map(str, command))}: status {p.returncode}: {p.stderr.decode(errors='replace').strip()}")
    return p


def compare(found, case):
    """found: the file that was written, under the checkpoint's names."""
    golden = read_safetensors(case / "golden.safetensors")
    facts = json.loads((case / "golden.json").read_text())
    expected = {k for k in golden if k.startswith("grad.")}
    names = {k for k in found if k.startswith("grad.")}
    if names != expected:
        raise Failure(f"names: {sorted(names ^ expected)[:4]} are not in both")
    if {k[7:] for k in found if k.startswith("after3.")} != {k[5:] for k in expected}:
        raise Failure("after3 does not have the names of the gradients")
    for name in sorted(names):
        a, b = found[name].astype(np.float64), golden[name].astype(np.float64)
        if a.shape != b.shape or not np.linalg.norm(a - b) <= GRADIENT * np.linalg.norm(b):
            raise Failure(f"{name}: relative L2 error {np.linalg.norm(a - b) / np.linalg.norm(b):.3g}")
    for name in (k for k in golden if k.startswith("after3.")):
        if not np.abs(found[name] - golden[name]).max() <= PARAMETER:
            raise Failure(f"{name}: differs by {np.abs(found[name] - golden[name]).max():.3g}")
    losses = np.array(facts["adamw"]["losses_f64"])
    if not np.abs(found["losses"] - losses).max() <= LOSS or not abs(float(found["loss"]) - losses[0]) <= LOSS:
        raise Failure(f"losses {found['losses']}, expected {losses}")


def check_case(name, folder):
    case = FIXTURES / "grads" / name
    model = (case / json.loads((case / "golden.json").read_text())["weights"]).resolve()
    out = folder / "grads.safetensors"
    run("grad", model, "--tokens", case / "golden.safetensors", "-o", out, "--adamw-steps", 3, "--threads", 1, "--quiet")
    compare(read_safetensors(out), case)
    first = out.read_bytes()
    for threads in (2, 3):
        run("grad", model, "--tokens", case / "golden.safetensors", "-o", out, "--adamw-steps", 3, "--threads", threads, "--quiet")
        if out.read_bytes() != first:
            raise Failure(f"other bytes with {threads} threads")


def check_model_file(folder):
    """The same model converted: the same numbers under our names."""
    case = FIXTURES / "grads" / CASES[0]
    source = FIXTURES / "models" / "llama-bias"
    model, ours, theirs = folder / "m.bin", folder / "ours.safetensors", folder / "theirs.safetensors"
    subprocess.run([sys.executable, ROOT / "tools" / "convert.py", source, "-o", model], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run("grad", model, "--tokens", case / "golden.safetensors", "-o", ours, "--quiet")
    run("grad", source, "--tokens", case / "golden.safetensors", "-o", theirs, "--quiet")
    a, b = read_safetensors(ours), read_safetensors(theirs)
    for x, y in (("grad.embed", "grad.model.embed_tokens.weight"), ("grad.layers.1.wk", "grad.model.layers.1.self_attn.k_proj.weight"),
                 ("grad.layers.0.w_down_bias", "grad.model.layers.0.mlp.down_proj.bias")):
        if a[x].tobytes() != b[y].tobytes():
            raise Failure(f"{x} is not {y}")


def make_row_model(name, folder):
    """A model of one layer with weights that numpy's oldest generator draws; returns its tokens."""
    d, heads, kv, head_dim, ff, vocab = 16, 2, 1, 8, 6, 16
    kind, keys, norms, fused = ROW_FAMILIES[name]
    config = {"architectures": [kind], "model_type": name, "hidden_size": d, "num_attention_heads": heads, "num_key_value_heads": kv,
              "intermediate_size": ff, "num_hidden_layers": 1, "vocab_size": vocab, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
              **keys}
    if name != "phi3":
        config["head_dim"] = head_dim
    shapes, layer, rows = {"model.embed_tokens.weight": (vocab, d)}, "model.layers.0.", (heads * head_dim, kv * head_dim, kv * head_dim)
    if name == "phi3":
        shapes[layer + "self_attn.qkv_proj.weight"] = (sum(rows), d)
    for letter, n in zip("qkv", rows) if name != "phi3" else ():
        shapes[f"{layer}self_attn.{letter}_proj.weight"] = (n, d)
        if keys.get("attention_bias"):
            shapes[f"{layer}self_attn.{letter}_proj.bias"] = (n,)
    shapes[layer + "self_attn.o_proj.weight"] = (d, rows[0])
    shapes.update({layer + "mlp.gate_up_proj.weight": (2 * ff, d)} if fused else
                  {layer + "mlp.gate_proj.weight": (ff, d), layer + "mlp.up_proj.weight": (ff, d)})
    shapes[layer + "mlp.down_proj.weight"] = (d, ff)
    shapes.update({f"{layer}{norm}.weight": (d,) for norm in ["input_layernorm", "post_attention_layernorm", *norms]})
    shapes.update({"model.norm.weight": (d,), "lm_head.weight": (vocab, d)})
    random = np.random.RandomState(len(name))
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", {
        k: (random.standard_normal(shape) * (0.4 if len(shape) > 1 else 0.2) + ("norm" in k)).astype(np.float32) for k, shape in shapes.items()},
        {"format": "pt"})
    return random.randint(0, vocab, (2, 6)).astype(np.int32)


def row_tensors(names):
    """Of a row model: the tensors whose gradients are recorded."""
    return [k for k in names if any(part in k for part in ("q_proj", "k_proj", "qkv_proj", "gate_up_proj", "norm"))]


def check_rows(name, folder):
    """Names and rows are those of the checkpoint, of fused tensors too."""
    golden, model, out = read_safetensors(ROWS), folder / "model", folder / "grads.safetensors"
    write_safetensors(folder / "tokens.safetensors", {"tokens": make_row_model(name, model)})
    run("grad", model, "--tokens", folder / "tokens.safetensors", "-o", out, "--adamw-steps", 1, "--quiet")
    found, weights = read_safetensors(out), read_safetensors(model / "model.safetensors")
    for kind in ("grad.", "after1."):
        if {k[len(kind):]: v.shape for k, v in found.items() if k.startswith(kind)} != {k: v.shape for k, v in weights.items()}:
            raise Failure(f"{kind}*: names and shapes are not those of the checkpoint")
    wanted = row_tensors(weights)
    for k in wanted:
        a, b = found["grad." + k].astype(np.float64), golden[f"{name}.{k}"].astype(np.float64)
        if not np.linalg.norm(a - b) <= GRADIENT * np.linalg.norm(b):
            raise Failure(f"{k}: relative L2 error {np.linalg.norm(a - b) / np.linalg.norm(b):.3g}")
    for k, v in ((k, weights[k]) for k in wanted):   # AdamW's first step is lr against the gradient's sign, and decay
        step = (found["after1." + k] - v * (1 - 1e-4)) * np.sign(found["grad." + k])
        if not np.median(step) < -0.9e-3:
            raise Failure(f"after1.{k}: has not its rows where the weights have them")


def check_family(name):
    """The weights of a family that training implements: every parameter's gradient against central differences."""
    run("train", "--grad-check", "--init", FIXTURES / "models" / name, "--quiet")


def check_refused(name):
    said = run("train", "--grad-check", "--init", FIXTURES / "models" / name, status=3).stderr.decode()
    if REFUSED[name] not in said:
        raise Failure(f"expected '{REFUSED[name]}' in: {said}")


def main():
    only = option_only(__doc__).parse_args().only
    if lacks_openblas():
        print("skip grads: no OpenBLAS")
        return 0
    failed = 0
    grads, models = FIXTURES / "grads", FIXTURES / "models"
    claims = [(name, grads / name, lambda f, name=name: check_case(name, f)) for name in CASES]
    claims += [("model_file_names", grads / CASES[0], check_model_file)]
    claims += [(f"rows_of_{name}", ROWS, lambda f, name=name: check_rows(name, f)) for name in ROW_FAMILIES]
    claims += [(f"gradients_of_{name}", models / name, lambda f, name=name: check_family(name)) for name in FAMILIES]
    claims += [(f"{name}_is_refused", models / name, lambda f, name=name: check_refused(name)) for name in REFUSED]
    for name, needed, check in claims:
        if only not in name:
            continue
        if not needed.exists():
            print(f"skip {name}: no data ({needed.name})")
            continue
        with tempfile.TemporaryDirectory() as folder:
            failed |= attempt(name, check, pathlib.Path(folder))
    return failed


if __name__ == "__main__":
    sys.exit(main())
