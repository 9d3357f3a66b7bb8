#!/usr/bin/env python3
"""The text parts of models with several kinds of input, and rotations that depend on a length: transformers makes small models
of random weights, writes their folders as it does, and computes the logits of a text in float64; `tblock logits` of the folder
is near them. Qwen2-VL gives each token three positions (mrope): for text they are equal.

    live_text_parts.py"""
import os
import pathlib
import subprocess
import sys
import tempfile

import record

sys.path.insert(0, str(record.ROOT / "tests" / "golden"))
from ref import read_safetensors  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(record.ROOT / os.environ.get("BUILD", "build/release") / "tblock"))
IDS = [7, 9, 250, 31, 4, 77, 123, 8, 201, 55, 90, 17, 3, 3, 44, 61, 280, 19, 5, 100]
TEXT = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 300, "max_position_embeddings": 128, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
CLIP = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
MARKS = {"image_token_id": 290, "video_token_id": 291, "vision_start_token_id": 292, "vision_end_token_id": 293}
MROPE = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [3, 2, 1]}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 32, "mrope_section": [3, 2, 1]}
LONG = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1, 1.1, 1.2, 1.3, 1.4, 1.5], "long_factor": [1, 2, 3, 4, 5, 6],
        "original_max_position_embeddings": 16}


def models(t):
    """(name, model, options of `tblock logits`)"""
    seen = {"depth": 1, "num_heads": 2, "patch_size": 14}
    for name, rope in (("", MROPE), ("_yarn", YARN)):
        text = dict(TEXT, rope_parameters=rope)
        yield "qwen2_vl" + name, t.Qwen2VLForConditionalGeneration(t.Qwen2VLConfig(
            text_config=text, vision_config=dict(seen, embed_dim=32, hidden_size=48, mlp_ratio=2), **MARKS)), ()
        yield "qwen2_5_vl" + name, t.Qwen2_5_VLForConditionalGeneration(t.Qwen2_5_VLConfig(
            text_config=text, vision_config=dict(seen, hidden_size=32, out_hidden_size=48, intermediate_size=64), **MARKS)), ()
        yield "qwen3_vl" + name, t.Qwen3VLForConditionalGeneration(t.Qwen3VLConfig(
            text_config=dict(text, head_dim=12, rope_parameters=dict(rope, mrope_interleaved=True)),
            vision_config=dict(seen, hidden_size=32, out_hidden_size=48, intermediate_size=64, deepstack_visual_indexes=[0]), **MARKS)), ()
    for kind, config in (("llama", t.LlamaConfig), ("mistral", t.MistralConfig), ("qwen2", t.Qwen2Config)):
        parts = {"text_config": config(**TEXT), "vision_config": t.CLIPVisionConfig(**CLIP), "image_token_index": 299}
        yield "llava_" + kind, t.LlavaForConditionalGeneration(t.LlavaConfig(**parts)), ()
        yield "llava_next_" + kind, t.LlavaNextForConditionalGeneration(t.LlavaNextConfig(**parts)), ()
    many = dict(TEXT, num_hidden_layers=6, sliding_window=5, embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.3,
                logits_scaling=2.0)
    for name, more in (("", {}), ("_thetas", {"layer_rope_theta": [5e4, 1e3, 1e3, 0, 5e4, 1e3]}),
                       ("_full", {"layer_types": ["full_attention"] * 6, "layer_rope_theta": [0, 1e3, 1e3, 0, 1e3, 1e3]})):
        yield "granite_swa" + name, t.GraniteSWAForCausalLM(t.GraniteSWAConfig(**many, **more)), ()
    short = dict(TEXT, max_position_embeddings=8)
    for kind, model, config in (("llama", t.LlamaForCausalLM, t.LlamaConfig), ("granite", t.GraniteForCausalLM, t.GraniteConfig),
                                ("qwen3", t.Qwen3ForCausalLM, t.Qwen3Config), ("nemotron", t.NemotronForCausalLM, t.NemotronConfig)):
        head = {"head_dim": 12} if kind == "qwen3" else {}
        yield kind + "_dynamic", model(config(**short, **head, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 3.0})), \
            ("--ctx", 64, "--rope-length", len(IDS))
        if kind != "nemotron":  # it rotates half of a head
            yield kind + "_longrope", model(config(**TEXT, **head, rope_parameters=dict(LONG))), ("--rope-length", len(IDS))


def check(torch, model, folder, options):
    torch.manual_seed(3)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3 if p.dim() > 1 else 1.0)
    with torch.no_grad():
        want = model.double().eval()(input_ids=torch.tensor([IDS])).logits[0].numpy()
    model.float().save_pretrained(folder / "model")
    done = subprocess.run([TBLOCK, "logits", folder / "model", "--ids", ",".join(map(str, IDS)), "-o", folder / "out", "--quiet",
                           *map(str, options)], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    worst, largest = abs(read_safetensors(folder / "out")["logits"] - want).max(), abs(want).max()
    return "" if worst <= 1e-5 * largest else f"expected logits within {1e-5 * largest:.1e}, found {worst:.1e}"


def main():
    import torch
    import transformers
    failed = 0
    for name, model, options in models(transformers):
        with tempfile.TemporaryDirectory() as folder:
            why = check(torch, model, pathlib.Path(folder), options)
        failed |= why != ""
        print(f"FAIL live_part_{name}: {why}" if why else f"ok live_part_{name}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
