#!/usr/bin/env python3
"""Record what PyTorch and transformers compute, in float64, as gradients of the small models of tests/train/grads.py whose files have rows in
another order than ours: tests/data/grads/rows.safetensors, stored as F32. Needs torch and transformers (live.sh makes an environment with
them)."""
import pathlib
import sys
import tempfile

import torch
import transformers

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "train"))
import grads  # noqa: E402


def main():
    out = {}
    for name in grads.ROW_FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            tokens = torch.tensor(grads.make_row_model(name, pathlib.Path(folder))).long()
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").double()
        logits = model(tokens, use_cache=False).logits
        torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        parts = dict(model.named_parameters())
        out.update({f"{name}.{k}": parts[k].grad.float().numpy() for k in grads.row_tensors(parts)})
    grads.write_safetensors(grads.ROWS, out, {"torch": torch.__version__, "transformers": transformers.__version__})


if __name__ == "__main__":
    main()
