#!/usr/bin/env python3
"""Every model folder of the fixtures with a few keys of its config.json changed and new random weights: torch in float64 against
`tblock verify`.

    live_changed.py [--seed N] [--each N] [NAME...]

What transformers or tblock refuses is counted: tblock may refuse what it does not know, but must not compute something else.
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import subprocess
import sys
import warnings

import live_logits
from live_logits import OUT, TBLOCK

FLAGS = {"add_bias_linear", "attention_bias", "conv_bias", "mlp_bias", "norm_topk_prob", "qk_layernorm", "qk_norm", "rope_interleave",
         "scale_attn_weights", "tie_word_embeddings", "use_bias", "use_parallel_residual", "use_qk_norm", "use_qkv_bias"}
CHOICES = {"attention_chunk_size": (3, 5, 9), "conv_L_cache": (2, 3, 4, 5), "first_k_dense_replace": (0, 1, 2), "head_dim": (4, 6, 8, 10, 16),
           "linear_conv_kernel_dim": (2, 3, 4, 5), "moe_k": (1, 2, 3), "moe_num_shared_experts": (0, 1, 2), "n_group": (1, 2, 4),
           "n_shared_experts": (0, 1, 2), "num_dense_layers": (0, 1, 2), "num_experts_per_tok": (1, 2, 3), "partial_rotary_factor": (0.25, 0.5, 0.75, 1.0),
           "query_pre_attn_scalar": (5, 9, 40), "rope_local_base_freq": (100.0, 777.0, 5e5), "rope_theta": (100.0, 777.0, 5e5),
           "rotary_pct": (0.25, 0.5, 1.0), "sliding_window": (2, 3, 5, 17), "topk_group": (1, 2, 4),
           **{k: (1, 2, 3) for k in ("_sliding_window_pattern", "decoder_sparse_step", "full_attention_interval", "interleave_moe_layer_step",
                                     "no_rope_layer_interval", "sliding_window_pattern")}}
SUMS = {**{k: (-8, 1, 7, 8) for k in ("block_ff_dim", "intermediate_size", "intermediate_size_mlp", "moe_intermediate_size", "n_inner",
                                     "shared_expert_intermediate_size")},
        **{k: (-2, 3, 4) for k in ("kv_lora_rank", "linear_key_head_dim", "linear_value_head_dim", "q_lora_rank", "qk_nope_head_dim", "v_head_dim")},
        **{k: (-1, 1, 2) for k in ("moe_num_experts", "n_routed_experts", "num_experts", "num_local_experts")}}
LISTS = ("layer_types", "mlp_layer_types", "no_rope_layers")


def changed(key, value, config, rng):
    """Another value of a key; None: it stays."""
    heads = config.get("num_attention_heads") or config.get("n_head") or 1
    if isinstance(value, bool):
        return not value if key in FLAGS else None
    if key in LISTS and isinstance(value, list):
        return [rng.choice(sorted(set(value), key=str)) for _ in value] if len(set(value)) > 1 else None
    if isinstance(value, dict):
        return {**value, "factor": value["factor"] * rng.choice((1.5, 2))} if "factor" in value else None
    if not value or not isinstance(value, (int, float)) or (key == "head_dim" and "kv_lora_rank" in config):
        return None
    if "eps" in key:
        return rng.choice((1e-3, 1e-2, 0.1))
    if key in CHOICES:
        return rng.choice(CHOICES[key])
    if key in SUMS:
        return max(1, value + rng.choice(SUMS[key]))
    if key == "num_key_value_heads" and "kv_lora_rank" not in config:
        return rng.choice([n for n in range(1, heads + 1) if heads % n == 0])
    if key in ("hidden_size", "n_embd"):
        return value + heads * rng.choice((-2, 1, 2))
    of_scale = isinstance(value, float) and any(part in key for part in ("alpha", "limit", "multiplier", "scal", "softcap"))
    return value * rng.choice((0.5, 1.7, 2)) if of_scale else None


def change(config, rng):
    """Changes one to four keys in place and says which."""
    keys, most, done = list(config), rng.randint(1, 4), {}
    rng.shuffle(keys)
    for key in keys:
        new = changed(key, config[key], config, rng) if len(done) < most else None
        if new is not None and new != config[key]:
            config[key] = done[key] = new
    return done


def fill(model, seed):
    """Weights of spreads that make every part count, in bf16's values."""
    import torch
    g, plus = torch.Generator().manual_seed(seed), not model.config.model_type.startswith(("gemma", "nemotron", "qwen3_next", "qwen3_5"))
    with torch.no_grad():
        for name, p in [*model.named_parameters(), *(b for b in model.named_buffers() if "bias" in b[0])]:
            norm = ("norm" in name or ".ln_" in name) and "bias" not in name
            spread = 0.2 if "norm" in name else 0.3 if p.ndim == 1 else 0.5 if "embed" in name else 1.5 / p.shape[-1] ** 0.5
            w = spread * torch.randn(p.shape, generator=g) + (norm and plus) - 0.5 * ("A_log" in name)
            p.copy_(w.to(torch.bfloat16).to(p.dtype))


def reference(folder, config, seed):
    """Writes the folder and its golden.safetensors; the tolerance and the number of tokens."""
    import safetensors.torch
    import torch
    import transformers
    text = json.dumps(config)
    (folder / "config.json").write_text(text)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(folder), attn_implementation="eager")
    fill(model, seed)
    model.save_pretrained(folder)
    (folder / "config.json").write_text(text)  # as published folders have it
    tokens, logits = live_logits.logits_of(folder, torch.float64, seed)
    _, plain = live_logits.logits_of(folder, torch.float32, seed)
    if not torch.isfinite(logits).all():
        raise ValueError("logits that are not finite")
    safetensors.torch.save_file({"tokens": tokens, "logits_f64": logits.contiguous()}, folder / "golden.safetensors")
    return max(8 * float((plain - logits).abs().max()), 4e-6 * float(logits.abs().max())), tokens.shape[1]


def check(name, config, seed, totals):
    """A line that says what differs, or None."""
    folder = OUT / "changed"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        tolerance, n = reference(folder, config, seed)
    except Exception:  # whatever transformers says of it: it is not ours to judge
        totals["refused by transformers"] += 1
        return None
    made = subprocess.run([TBLOCK, "convert", folder, "-o", folder / "model.bin", "--quiet"], capture_output=True, text=True)
    if made.returncode:
        totals["refused by tblock"] += 1
        return None
    command = [TBLOCK, "verify", folder / "model.bin", folder / "golden.safetensors", "--tol", str(tolerance)]
    done = subprocess.run(command, capture_output=True, text=True)
    if "--rope-length" in done.stderr or any(word in json.dumps(config) for word in ("longrope", '"su"')):
        done = subprocess.run([*command, "--rope-length", str(n)], capture_output=True, text=True)
    totals["compared"] += 1
    return f"{name}: {done.stderr.strip()[-200:]}" if done.returncode else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=5)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rng, totals, wrong = random.Random(args.seed), collections.Counter(), 0
    for name, folder in live_logits.folders().items():
        base = json.loads((pathlib.Path(folder) / "config.json").read_text())
        if (args.names and name not in args.names) or "quantization_config" in base or "text_config" in base:
            continue
        for i in range(args.each):
            config = json.loads(json.dumps(base))
            done = change(config, rng)
            why = check(name, config, args.seed * 1000 + i, totals) if done else None
            if why:
                wrong += 1
                print(f"FAIL changed_{why}\nnote: {done}", flush=True)
    print(f"{'FAIL' if wrong or not totals['compared'] else 'ok'} changed_configs: {dict(totals)}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
