#!/usr/bin/env python3
"""`tblock convert`: config.json in both dialects, defaults, and what is refused by name."""
import os
import sys

import harness
from harness import need, temp, convert, converted, refused, hf_name, made, expect_config, ModelFile, MODELS
import numpy as np


def test_fixture_configs_say_what_their_folders_say():
    expected = {
        "llama-bias": dict(qkv_bias=True, out_bias=True, ffn_bias=True, norm_eps=1e-5, head_dim=12),
        "llama-gqa": dict(kv_heads=2, heads=8, theta=10000.0, rope={"type": "default"}, qkv_bias=False),
        "llama-headdim": dict(head_dim=20, d_model=48, norm_eps=0.01),
        "llama-linear-scaled": dict(rope={"type": "linear", "factor": 4.0}),
        "llama-mqa": dict(kv_heads=1, norm_eps=1e-6),
        "llama-tied": dict(tied_embeddings=True, theta=100000.0),
        "llama-wide": dict(d_ff=1100, n_ctx=512, theta=500000.0),
        "llama-yarn": dict(rope={"type": "yarn", "factor": 4.0, "original_n_ctx": 32.0, "beta_fast": 32, "beta_slow": 1,
                                 "truncate": True}),
        "llama3-e2e": dict(bos=507, eos=[508, 511], rope={"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                                       "high_freq_factor": 4.0, "original_n_ctx": 64.0}),
        "mistral-window": dict(family="mistral", window=8, theta=1e6),
        "mistral-window100": dict(window=100), "mistral-window64": dict(window=64, kv_heads=1),
        "stories260K": dict(n_ctx=512, head_dim=8, eos=[2], bos=1),
    }
    for name, values in expected.items():
        if os.path.exists(os.path.join(need(MODELS), name)):
            expect_config(converted(os.path.join(MODELS, name)), **values)


def test_both_dialects_of_rope_give_the_same_config():
    llama3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    for kind, values in (("default", {}), ("linear", {"factor": 2}), ("llama3", llama3), ("yarn", {"factor": 2.0})):
        v4 = converted(made(config={"rope_theta": 5e5, "rope_scaling": dict(values, rope_type=kind)})).config
        old = converted(made(config={"rope_theta": 5e5, "rope_scaling": dict(values, type=kind)})).config
        v5 = converted(made(config={"rope_parameters": dict(values, rope_type=kind, rope_theta=5e5)}, drop=["rope_theta"])).config
        assert v4 == old == v5 and v5["theta"] == 5e5 and v5["rope"]["type"] == kind
    assert v5["rope"] == {"type": "yarn", "factor": 2.0, "original_n_ctx": 64.0, "beta_fast": 32, "beta_slow": 1, "truncate": True}


def test_absent_keys_mean_the_default_of_the_family():
    m = converted(made(drop=["rope_theta", "rms_norm_eps", "tie_word_embeddings", "max_position_embeddings", "hidden_act",
                             "bos_token_id", "eos_token_id", "torch_dtype", "architectures"]))
    expect_config(m, theta=10000.0, norm_eps=1e-6, tied_embeddings=False, n_ctx=2048, bos=1, eos=[2], window=0, head_dim=4)

    def all_heads(t):
        for n in range(2):
            for ours in ("wk", "wv"):
                t[hf_name("layers.%d.%s" % (n, ours))] = ("F32", np.zeros((24, 24), "<u4"))
    expect_config(converted(made(drop=["num_key_value_heads"], tensors=all_heads)), kv_heads=6)
    mistral = {"model_type": "mistral", "architectures": ["MistralForCausalLM"]}
    expect_config(converted(made(config=mistral, drop=["max_position_embeddings"])), window=4096, n_ctx=131072)
    expect_config(converted(made(config=dict(mistral, sliding_window=None))), window=0)
    refused(made(config=mistral, drop=["num_key_value_heads"]), "kv_heads", "8")
    expect_config(converted(made(config={"head_dim": None, "bos_token_id": None, "eos_token_id": None})), head_dim=4, bos=-1, eos=[])


def test_generation_config_adds_ends_of_text():
    m = converted(made(config={"eos_token_id": [2, 5]}, files={"generation_config.json": {"eos_token_id": [5, 7]}}))
    expect_config(m, eos=[2, 5, 7])
    status, _, err = convert(made(config={"bos_token_id": 50}, files={"generation_config.json": {"eos_token_id": [51]}}), out="o.bin")
    assert status == 0 and "eos_token_id: 51 is outside of vocab_size 50" in err and "bos_token_id: 50 is outside" in err
    expect_config(ModelFile(temp("o.bin")), bos=-1, eos=[2])


def test_harmless_keys_are_ignored():
    m = converted(made(config={"use_cache": True, "initializer_range": 0.02, "attention_dropout": 0.5, "pretraining_tp": 4,
                               "transformers_version": "4.1", "_name_or_path": "x", "pad_token_id": 0, "some_new_key": None,
                               "attention_bias": False, "mlp_bias": False, "layer_types": ["full_attention"] * 2}))
    expect_config(m, qkv_bias=False)


def test_what_may_change_the_result_is_refused_by_name():
    def case(config, *expected, **more):
        refused(made(config=config, **more), "config.json: ", *expected)
    case({"model_type": "mamba", "architectures": None}, "model_type", "docs/convert.md", "'mamba'")
    case({"model_type": None, "architectures": ["MambaForCausalLM"]}, "model_type", "null")
    case({"architectures": ["LlamaForTokenClassification"]}, "architectures", "LlamaForTokenClassification")
    case({"attention_sink": 4}, "'attention_sink'", "unknown")
    case({"hidden_act": "mish"}, "hidden_act", "silu", "'mish'")
    case({"quantization_config": {"quant_method": "hqq"}}, "quantization_config", "'hqq'")
    case({"partial_rotary_factor": 0.5}, "partial_rotary_factor", "0.5")
    case({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}, "partial_rotary_factor", "0.25")
    case({"rope_scaling": {"type": "dynamic", "factor": 0.5}}, "rope.factor", "from 1 to")
    case({"rope_scaling": {"type": "ntk", "factor": 2.0}}, "rope_type", "'ntk'")
    case({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "short_factor", "found 0")
    case({"rope_scaling": {"rope_type": "linear"}}, "rope_scaling.factor", "no such key")
    case({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "rope.factor", "from 1 to")
    case({"rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2}}, "rope type", "linear", "yarn")
    case({"rope_scaling": {"rope_type": "linear", "factor": 2, "gamma": 3}}, "rope_scaling.gamma", "unknown")
    case({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor", "no such key")
    case({"rope_scaling": 3}, "rope_scaling", "an object or null")
    case({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, "rope_theta", "7", "10000")
    for value in ({"rope_theta": 1.0}, ["x"], "x", 1):
        case({"rope_parameters": {"full_attention": value}}, "rope_parameters", "one set of values", "full_attention")
    case({"sliding_window": 4096}, "'sliding_window'", "unknown")
    case({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types[1]", "sliding_attention")
    case({"layer_types": ["full_attention"]}, "layer_types", "2 entries", "1")
    case({"num_key_value_heads": 4}, "kv_heads", "divisor of heads 6", "4")
    case({"num_attention_heads": 5}, "hidden_size", "multiple of num_attention_heads 5")
    case({"head_dim": 5}, "head_dim", "even")
    case({"hidden_size": 24.5}, "hidden_size", "an integer", "24.5")
    case({"hidden_size": "24"}, "hidden_size", "an integer", "string")
    case({"hidden_size": 1 << 40}, "hidden_size", "1 to")
    case({"num_hidden_layers": 0}, "num_hidden_layers", "0")
    case({"rms_norm_eps": 0}, "norm_eps", "1e-30 to 1")
    case({"tie_word_embeddings": 1}, "tie_word_embeddings", "true or false")
    case({"eos_token_id": "2"}, "eos_token_id", "string")
    case({"attention_bias": 1}, "attention_bias", "true or false")
    case({"is_encoder_decoder": True}, "is_encoder_decoder", "false", "true")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
