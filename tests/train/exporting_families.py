#!/usr/bin/env python3
"""tools/export.py on every recorded checkpoint: its folder computes the same bits, or the model is refused and what it has is named.

    exporting_families.py [--live] [--only TEXT]"""
import json
import sys

from exporting import TBLOCK, Failure, compare_live, export, logits, run, run_claims
from testdata import FIXTURES

# Words of the messages: keys of the config, or how to widen quantized weights.
REFUSED = ("widens", *(f"config: {key}" for key in ("norm", "norm_placement", "ffn", "qk_norm", "window", "positions", "attn_scale", "embed_scale", "logit_scale", "residual_scale", "rope",
           "rotary_dim", "qkv_bias", "n_experts", "kv_lora", "attn_sinks", "gate_limit", "state_layers", "attn_gate", "norm_bias", "qkv_clip")))
# What must be written, where the data has it; the others may be.
WRITTEN = ("llama-", "smollm3", "ministral3", "helium", "ernie45")
NOT_WRITTEN = ("llama-dynamic-ntk", "llama-awq", "llama-ct-w4a16", "ernie45-moe")


def claim(name):
    def check(folder, live):
        model, exported = folder / "m.bin", folder / "hf"
        run(TBLOCK, "convert", FIXTURES / "models" / name, "-o", model, "--quiet")
        must = name.startswith(WRITTEN) and name not in NOT_WRITTEN
        try:
            export(model, exported)
        except Failure as why:
            text = str(why)
            if must or "status 3" not in text or not any(word in text for word in REFUSED):
                raise
            return
        if logits(model, folder).tobytes() != logits(exported, folder).tobytes():
            raise Failure("the folder computes other bits")
        if live:
            compare_live(model, exported, folder)
    return check


def names():
    return sorted(p.name for p in (FIXTURES / "models").iterdir()
                  if (p / "config.json").exists() and json.loads((p / "config.json").read_text()).get("model_type"))


if __name__ == "__main__":
    sys.exit(run_claims({f"export_of_{name}": claim(name) for name in names()}, lambda name: None, __doc__))
