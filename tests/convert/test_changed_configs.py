#!/usr/bin/env python3
"""config.json, changed key by key to odd values: `tblock convert` accepts and refuses what was recorded (tests/recorded.py), and
writes the same bytes. The program: $TBLOCK."""
import itertools
import json
import os
import random
import shutil
import sys

import harness
import recorded
from harness import ROOT, tblock, temp

CASES = 2000   # of some 60,000; recorded
MODELS = os.path.join(ROOT, "tests", "data", "models")
FIXTURES = "cohere gemma2 gemma3 gpt-neox gpt2 llama-gqa llama-yarn mistral-window phi3 qwen2 qwen2-moe qwen3-moe stablelm".split()
DROP = object()
FULL, SLIDING = "full_attention", "sliding_attention"

# Keys of any family, also in those that do not have them.
KEYS = """hidden_act hidden_activation activation_function rope_scaling rope_parameters rope_theta rope_local_base_freq sliding_window
    layer_types num_key_value_heads head_dim tie_word_embeddings use_qk_norm qk_norm quantization_config vocab_size max_window_layers
    eos_token_id bos_token_id mlp_only_layers decoder_sparse_step scale_attn_by_inverse_layer_idx scale_attn_weights
    use_bidirectional_attention use_sliding_window sliding_window_pattern _sliding_window_pattern partial_rotary_factor rotary_pct
    rotary_emb_base attention_bias mlp_bias qkv_bias use_qkv_bias norm_topk_prob num_experts num_local_experts num_experts_per_tok
    moe_intermediate_size shared_expert_intermediate_size query_pre_attn_scalar attn_logit_softcapping final_logit_softcapping
    logit_scale logits_scaling embedding_multiplier residual_multiplier attention_multiplier use_parallel_residual qk_layernorm
    rms_norm_eps layer_norm_eps layer_norm_epsilon max_position_embeddings n_positions n_ctx n_inner original_max_position_embeddings
    architectures model_type torch_dtype is_decoder is_encoder_decoder pruned_heads pad_to_multiple_of use_mrope rope_type
    some_unknown_key text_config hidden_size num_hidden_layers num_attention_heads intermediate_size rotary_scaling_factor bias
    add_cross_attention""".split()
VALUES = [DROP, None, True, False, 0, 1, -1, 2, 3, 1.0, 1.5, 0.5, 0.25, 4.0, 1e-6, 1e308, 1 << 40, 2**31, 2**53 + 1, -0.0, 16777216, 16777217,
          "", "silu", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "swish", "default", "none", "true", [], {}, [1], [1, 2],
          [2, 2, 5], ["a"], [None], [True], [1.0], {"a": 1}, {FULL: None}, "\0x", "\u00e9" * 50]
LLAMA3 = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}
ROPES = [
    {"rope_type": "linear", "factor": 2.0}, {"type": "linear", "factor": 2}, {"rope_type": "linear"}, {"rope_type": "linear", "factor": "2"},
    {"rope_type": "linear", "factor": None}, {"rope_type": "dynamic", "factor": 2.0}, {"type": "su"}, {"rope_type": "mrope"},
    {"rope_type": "longrope", "short_factor": [1], "long_factor": [2]}, {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16, "mscale": 1, "mscale_all_dim": 0}, {"rope_type": "yarn", "truncate": 0},
    {"rope_type": "yarn", "truncate": None, "factor": 0.5}, {"rope_type": "yarn", "factor": 8, "attention_factor": -1},
    {"rope_type": "yarn", "factor": 8, "attention_factor": 0}, {"rope_type": "yarn", "original_max_position_embeddings": 0},
    {"rope_type": "yarn", "original_max_position_embeddings": 32.5}, {"rope_type": "yarn", "original_max_position_embeddings": 16, "rope_theta": 5.0},
    LLAMA3, dict(LLAMA3, low_freq_factor=4), dict(LLAMA3, low_freq_factor=5, original_max_position_embeddings=64), {"rope_type": None},
    {"type": None}, {"rope_type": ""}, {"rope_type": "default", "type": "default"}, {"rope_type": "default", "factor": 2.0}, {"rope_type": 3},
    {"rope_type": []}, {"factor": 2.0}, {"rope_theta": 1e4}, {"rope_theta": 12345.678}, {"rope_theta": None}, {"rope_theta": "x"},
    {"rope_theta": 0}, {"rope_theta": True}, {"rope_theta": -1.0}, {"partial_rotary_factor": 0.5}, {"partial_rotary_factor": 1},
    {"partial_rotary_factor": None}, {FULL: {"rope_theta": 5e4}, SLIDING: {"rope_theta": 2e4}}, {FULL: {"rope_type": "linear", "factor": 8}},
    {SLIDING: {"rope_type": "linear", "factor": 8}}, {FULL: 3}, {SLIDING: None}, {FULL: None, SLIDING: None}, {FULL: {}, "rope_theta": 3.0},
    {FULL: {"rope_theta": 1.5}, "x": {}}, {"chunked": {}}, {"mscale": 1}, {"rope_type": "default", "x": {}},
    {"rope_type": "default", "x": {"y": 1}, "z": {}}]


def changes(config):
    """Dictionaries of what to set, or to drop, in a config."""
    n = config.get("num_hidden_layers", config.get("n_layer", 2))
    for key in dict.fromkeys(list(config) + KEYS):
        for value in VALUES:
            yield {key: value}
        if type(config.get(key)) is int:
            yield {key: float(config[key])}
    for one, other in (("rope_scaling", "rope_parameters"), ("rope_parameters", "rope_scaling")):
        for rope in ROPES:
            yield {one: rope}
            yield {one: rope, other: DROP}
    for types in ([FULL] * n, [SLIDING] * n, [FULL] * (n - 1) + [SLIDING], [SLIDING] * (n - 1) + [FULL], [FULL] * (n + 1), ["full"] * n, [1] * n,
                  [None] * n, FULL):
        for more in ({}, {"sliding_window": 4}, {"sliding_window": 4, "use_sliding_window": True}):
            yield dict(more, layer_types=types)
    for window, first in itertools.product((None, 0, 4), (0, 1, n)):
        yield {"use_sliding_window": True, "sliding_window": window, "max_window_layers": first, "layer_types": DROP}
    for step, dense in itertools.product((1, 2, 3), ([], [0], [0, 0, 9])):
        yield {"decoder_sparse_step": step, "mlp_only_layers": dense}


def link(fixture):
    """A folder with the weights of a fixture, whose config is written anew for each case."""
    folder = temp(fixture)
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(os.path.join(MODELS, fixture)):
        path = os.path.join(folder, name)
        if name.startswith("model") and not os.path.exists(path):
            os.symlink(os.path.abspath(os.path.join(MODELS, fixture, name)), path)
    return folder


def difference(fixture, config, change):
    """Why this is not what was recorded, or None."""
    folder, out = link(fixture), temp("c.bin")
    config = dict(config, **change)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({k: v for k, v in config.items() if v is not DROP}, f)
    if os.path.exists(out):
        os.unlink(out)
    key = recorded.digest(recorded.contents(folder))
    done = tblock("convert", folder, "-o", out, "-q")
    if done.returncode == 0 and harness.ModelFile(out).config["rope"]["type"] in recorded.LATER_ROPES:
        return None if recorded.RECORDED.get(key) == "3" else "expected a recorded refusal"
    why = recorded.difference(key, done.returncode, open(out, "rb").read() if done.returncode == 0 else b"")
    return why and "%s (%s)" % (why, done.stderr.strip() or harness.ModelFile(out).config)


def test_a_changed_config_is_read_as_recorded():
    cases = [(f, config, change) for f in FIXTURES for config in [harness.config_of(os.path.join(MODELS, f))] for change in changes(config)]
    cases = random.Random(6).sample(cases, CASES)
    found = []
    for fixture, config, change in cases:
        why = difference(fixture, config, change)
        if why:
            found.append("%s %s: %s" % (fixture, {k: "absent" if v is DROP else v for k, v in change.items()}, why))
    shutil.rmtree(temp(), ignore_errors=True)
    os.makedirs(temp())
    assert not found, "%d of %d cases: %s" % (len(found), len(cases), " | ".join(found[:5]))


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
