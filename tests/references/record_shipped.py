#!/usr/bin/env python3
"""Record what PyTorch and transformers compute for the model that ships: tests/data/models/shakespeare, after its weights changed.

    record_shipped.py      writes golden.safetensors (float64, stored as F32) and golden.json

models/shakespeare.bin becomes a Hugging Face folder by tools/export.py, which transformers loads as any other. Needs torch and transformers
(live.sh makes an environment with them). Tolerance: 8 times what torch's own float32 loses, at least 4e-6 of the largest logit.
"""
import importlib.metadata
import json
import os
import pathlib
import tempfile

import torch
import transformers
from safetensors.torch import save_file

from record import ROOT, exported

OUT = ROOT / "tests" / "data" / "models" / "shakespeare"
PROMPTS = [
    "ROMEO:",
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\n",
    "KING RICHARD III:\nNow is the winter of our discontent\nMade glorious summer by this sun of York;\nAnd all the clouds that lour'd upon "
    "our house\nIn the deep bosom of the ocean buried.\n\nDUKE OF YORK:\n",
]
N_GREEDY = 160
HIDDEN = 1  # the sequence whose hidden states are recorded


def load(folder, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def hidden_states(model, ids):
    """name: rows of d_model. What each layer gives on; the norm's output apart."""
    kept, hooks = {}, []
    parts = {"embed": model.model.embed_tokens, "final_norm": model.model.norm, **{f"layer{i}": m for i, m in enumerate(model.model.layers)}}
    for name, part in parts.items():
        hooks.append(part.register_forward_hook(
            lambda m, args, out, name=name: kept.__setitem__(name, (out[0] if isinstance(out, tuple) else out)[0])))
    model(torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return kept


def greedy(model, ids):
    """N_GREEDY tokens after ids, and the smallest gap between the best and the second logit on the way."""
    drawn, margin = [], float("inf")
    for _ in range(N_GREEDY):
        best = model(torch.tensor([ids + drawn])).logits[0, -1].topk(2)
        drawn.append(int(best.indices[0]))
        margin = min(margin, float(best.values[0] - best.values[1]))
    return drawn, margin


def record_folder(folder):
    exact, plain = load(folder, torch.float64), load(folder, torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tensors, sequences, texts, lost, largest, margin = {}, [], [], 0.0, 0.0, float("inf")
    for i, prompt in enumerate(PROMPTS):
        ids = tokenizer.encode(prompt, add_special_tokens=False)
        logits = exact(torch.tensor([ids])).logits[0]
        lost = max(lost, float((plain(torch.tensor([ids])).logits[0].double() - logits).abs().max()))
        largest = max(largest, float(logits.abs().max()))
        drawn, gap = greedy(exact, ids)
        margin = min(margin, gap)
        tensors[f"seq{i}.tokens"] = torch.tensor(ids, dtype=torch.int32)
        tensors[f"seq{i}.greedy"] = torch.tensor(drawn, dtype=torch.int32)
        tensors[f"seq{i}.logits_f64"] = logits.float()
        if i == HIDDEN:
            tensors.update({f"seq{i}.hidden.{name}": x.float().contiguous() for name, x in hidden_states(exact, ids).items()})
        sequences.append({"id": f"seq{i}", "length": len(ids), "tokens": ids, "greedy": drawn})
        texts.append(tokenizer.decode(drawn))
    return tensors, {
        "name": "shakespeare", "prompts": PROMPTS,
        "reference": {p: importlib.metadata.version(p) for p in ("torch", "transformers", "tokenizers")},
        "n_params": sum(p.numel() for p in exact.parameters()), "max_abs_f32_vs_f64": lost, "logit_absmax": largest,
        "suggested_tolerance": float(f"{max(8 * lost, 4e-6 * largest):.2g}"), "greedy_min_margin": margin, "sequences": sequences,
        "greedy_text": texts}


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with torch.no_grad(), tempfile.TemporaryDirectory() as temporary:
        tensors, facts = record_folder(exported(pathlib.Path(temporary) / "hf"))
    save_file(tensors, OUT / "golden.safetensors")
    (OUT / "golden.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"{OUT}: tolerance {facts['suggested_tolerance']}, smallest gap on a greedy path {facts['greedy_min_margin']:.4f}")
