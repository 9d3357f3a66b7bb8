#!/usr/bin/env python3
"""Model files of our own for every part that a config can ask for, with golden logits computed here in float64.

    shapes.py OUT [NAME...]     writes OUT/NAME.rows.bin (layout rows) and OUT/shapes/NAME/{golden.safetensors, golden.json}
    shapes.py --measure         prints the float32 error of each shape, and how far wrong formulas would be from its tolerance

The reference reads a config and tensors as docs/format.md names them and shares no code with the program or the converter.
Published families, by way of the converter, are compared with recorded answers in golden.py; here the parts meet in other
combinations, with odd sizes, and long enough for windows and several tiles of the cache.
"""
import json
import math
import os
import pathlib
import sys

import numpy as np

from make_cases import hash_uniform
from ref import write_safetensors

BASE = {"family": "test", "d_model": 48, "n_layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 16, "d_ff": 80, "vocab_size": 64,
        "n_ctx": 512, "norm_eps": 1e-3}

SEEDS = {"delta": 90, "deltaodd": 91, "conv": 80, "convodd": 81, "convmix": 82, "latent": 70, "latentodd": 71, "xielu": 61, "grouped": 40, "latentmax": 44, "biased": 41, "sinks": 42, "limited": 43, "byposition": 60, "chunked": 62, "chunkfew": 63}
SHAPES = {  # the place in this list is the seed of the weights, unless SEEDS has one: a new shape goes to the end
    "gpt": {"d_model": 45, "head_dim": 10, "kv_heads": 4, "norm": "layer", "norm_bias": True, "ffn": "gelu_tanh", "positions": "learned",
            "qkv_bias": True, "out_bias": True, "ffn_bias": True, "tied_embeddings": True, "n_ctx": 200},
    "neox": {"head_dim": 20, "rotary_dim": 12, "norm": "layer", "norm_bias": True, "norm_placement": "parallel2", "ffn": "gelu",
             "qkv_bias": True, "out_bias": True, "ffn_bias": True},
    "cohere": {"norm": "layer", "norm_placement": "parallel", "qk_norm": "heads", "logit_scale": 0.25, "tied_embeddings": True},
    "bothsides": {"n_layers": 4, "norm_placement": "both", "ffn": "geglu", "window": 65, "full_layers": [1, 3], "attn_softcap": 2.0,
                  "logit_softcap": 5.0, "attn_scale": 0.3, "embed_scale": 6.928203, "tied_embeddings": True},
    "tworopes": {"n_layers": 3, "norm_placement": "both", "ffn": "geglu", "qk_norm": "head", "window": 20, "full_layers": [2],
                 "theta": 1e6, "theta_window": 1e4, "rope": {"type": "linear", "factor": 8}, "head_dim": 12, "kv_heads": 1},
    "behind": {"norm_placement": "output", "qk_norm": "vector", "head_dim": 12, "kv_heads": 4, "window": 64, "d_model": 50},
    "scales": {"ffn": "geglu_erf", "embed_scale": 6.0, "residual_scale": 0.7, "logit_scale": 0.3333333, "attn_scale": 0.2,
               "ffn_bias": True, "d_ff": 320},
    "relu": {"ffn": "relu", "norm": "layer", "window": 70, "full_layers": [0], "rotary_dim": 4, "qk_norm": "head", "theta_window": 500.0},
    "factors": {"rope": {"type": "factors"}, "rotary_dim": 8, "qk_norm": "vector", "norm": "layer"},
    "experts": {"d_model": 272, "n_experts": 24, "experts_used": 5, "expert_d_ff": 264, "renormalize": True, "qk_norm": "head"},
    "shared": {"n_layers": 3, "n_experts": 7, "experts_used": 2, "expert_d_ff": 40, "shared_d_ff": 300, "shared_router": True,
               "dense_layers": [1], "window": 66, "full_layers": [0], "qkv_bias": True},
    "manyexperts": {"norm_placement": "both", "ffn": "geglu", "n_experts": 70, "experts_used": 9, "expert_d_ff": 17, "shared_d_ff": 33,
                    "residual_scale": 0.5},
    "oneexpert": {"norm_placement": "parallel", "n_experts": 3, "experts_used": 1, "expert_d_ff": 48, "shared_d_ff": 20, "window": 1},
    "gptodd": {"d_model": 35, "head_dim": 7, "kv_heads": 2, "norm": "layer", "norm_bias": True, "ffn": "gelu", "positions": "learned",
               "qkv_bias": True, "out_bias": True, "qk_norm": "head", "n_ctx": 200},
    "neoxodd": {"head_dim": 17, "rotary_dim": 6, "kv_heads": 1, "window": 66, "qk_norm": "heads"},
    "clipped": {"qk_norm": "vector", "kv_heads": 4, "head_dim": 12, "qkv_clip": 0.9},
    "norope": {"n_layers": 4, "window": 66, "full_layers": [1, 3], "no_rope_layers": [0, 3], "theta_window": 300.0, "qk_norm": "head",
               "rope": {"type": "linear", "factor": 4}},
    "normlate": {"qk_norm": "head", "qk_norm_after_rope": True, "ffn": "relu2", "head_dim": 12, "d_ff": 100},
    "normlatest": {"qk_norm": "vector", "qk_norm_after_rope": True, "ffn": "relu2", "norm": "layer", "kv_heads": 1, "rotary_dim": 6,
                   "window": 40, "full_layers": [0], "no_rope_layers": [1], "qkv_bias": True},
    "grouped": {"n_layers": 3, "n_experts": 24, "experts_used": 5, "expert_d_ff": 40, "shared_d_ff": 48, "router_score": "sigmoid",
                "choice_bias": True, "expert_groups": 6, "groups_used": 3, "renormalize": True, "renormalize_min": 1e-20,
                "expert_scale": 2.5, "dense_layers": [0]},
    "sinks": {"n_layers": 4, "n_experts": 6, "experts_used": 3, "expert_d_ff": 40, "renormalize": True, "router_bias": True, "expert_bias": True,
              "attn_sinks": True, "gate_limit": 1.5, "gate_alpha": 1.702, "qkv_bias": True, "out_bias": True, "window": 20, "full_layers": [1, 3],
              "shared_d_ff": 24, "kv_heads": 1},
    "limited": {"gate_limit": 0.7, "gate_alpha": 1.2, "attn_sinks": True, "ffn_bias": True, "head_dim": 12, "kv_heads": 4, "attn_softcap": 3.0},
    "biased": {"n_experts": 9, "experts_used": 4, "expert_d_ff": 33, "choice_bias": True, "renormalize": True, "renormalize_min": 0.7},
    "xielu": {"ffn": "xielu", "qk_norm": "head", "d_ff": 90, "ffn_bias": True},
    "latent": {"kv_heads": 1, "kv_lora": 40, "q_lora": 24, "nope_dim": 20, "v_dim": 12, "rotary_dim": 8, "head_dim": 48, "n_experts": 12,
               "experts_used": 3, "expert_d_ff": 40, "shared_d_ff": 24, "dense_layers": [0], "qkv_bias": True, "out_bias": True,
               "attn_scale": 0.25, "attn_sinks": True},
    "latentodd": {"heads": 5, "kv_heads": 1, "kv_lora": 37, "nope_dim": 7, "v_dim": 50, "rotary_dim": 6, "head_dim": 43, "window": 70,
                  "full_layers": [1], "query_scale": 0.4, "query_scale_length": 24},
    "byposition": {"query_scale": 0.4, "query_scale_length": 24, "qk_norm": "heads", "head_dim": 10, "window": 65, "full_layers": [1]},
    "chunked": {"n_layers": 4, "window": 72, "window_chunked": True, "full_layers": [1, 3], "no_rope_layers": [1], "qk_norm": "plain",
                "qk_norm_after_rope": True, "query_scale": 0.5, "query_scale_length": 24, "query_scale_unrotated": True, "n_experts": 6,
                "experts_used": 2, "expert_d_ff": 40, "shared_d_ff": 24, "router_score": "sigmoid", "expert_input_scaled": True,
                "dense_layers": [0], "rope": {"type": "linear", "factor": 2}},
    "chunkfew": {"window": 20, "window_chunked": True, "qk_norm": "plain", "n_experts": 5, "experts_used": 3, "expert_d_ff": 33,
                 "expert_input_scaled": True, "renormalize": True, "norm": "layer", "kv_heads": 1, "head_dim": 12, "expert_bias": True},
    "conv": {"n_layers": 4, "state_layers": [0, 1, 3], "conv_taps": 3, "qk_norm": "head", "tied_embeddings": True},
    "convodd": {"n_layers": 4, "d_model": 45, "head_dim": 12, "state_layers": [1, 3], "conv_taps": 5, "conv_bias": True, "qkv_bias": True,
                "norm_placement": "both", "window": 66, "full_layers": [2], "residual_scale": 0.7, "n_experts": 6, "experts_used": 2,
                "expert_d_ff": 40, "dense_layers": [0, 1]},
    "convmix": {"n_layers": 3, "state_layers": [0, 2], "conv_taps": 2, "n_experts": 5, "experts_used": 2, "expert_d_ff": 33,
                "router_score": "sigmoid", "choice_bias": True, "renormalize": True, "renormalize_add": 0.3, "expert_scale": 1.5},
    "delta": {"n_layers": 4, "state_layers": [0, 1, 3], "conv_taps": 4, "delta_heads": 4, "delta_key_heads": 2, "delta_key_dim": 12,
              "delta_value_dim": 16, "delta_tiled": True, "attn_gate": True, "qk_norm": "head", "rotary_dim": 4},
    "deltaodd": {"n_layers": 3, "d_model": 45, "head_dim": 12, "state_layers": [1], "conv_taps": 2, "delta_heads": 3, "delta_key_heads": 3,
                 "delta_key_dim": 7, "delta_value_dim": 85, "attn_gate": True, "qkv_bias": True, "norm_placement": "both", "window": 66,
                 "full_layers": [2], "n_experts": 6, "experts_used": 2, "expert_d_ff": 40, "shared_d_ff": 24, "shared_router": True,
                 "dense_layers": [0]},
    "latentmax": {"kv_heads": 1, "kv_lora": 24, "nope_dim": 12, "v_dim": 16, "rotary_dim": 10, "head_dim": 34, "latent_norm_eps": 0.2,
                  "n_experts": 12, "experts_used": 3, "expert_d_ff": 40, "shared_d_ff": 40, "expert_groups": 4, "groups_used": 2,
                  "group_by_largest": True, "expert_scale": 1.5},
}
LENGTHS = (1, 5, 130)
N_GREEDY = 24
TOLERANCE = 2e-5  # share of the largest logit, as in make_cases.py; --measure shows what it is made of

DEFAULTS = {"theta": 10000.0, "tied_embeddings": False, "norm": "rms", "norm_placement": "pre", "ffn": "swiglu", "qkv_bias": False,
            "out_bias": False, "ffn_bias": False, "norm_bias": False, "qk_norm": "none", "window": 0, "full_layers": [],
            "qkv_clip": 0.0, "no_rope_layers": [], "qk_norm_after_rope": False, "query_scale": 0.0, "query_scale_length": 0,
            "query_scale_unrotated": False, "window_chunked": False, "expert_input_scaled": False,
            "theta_window": 0.0, "positions": "rope", "rope": {"type": "default"}, "embed_scale": 1.0, "residual_scale": 1.0,
            "logit_scale": 1.0, "attn_scale": 0.0, "attn_softcap": 0.0, "logit_softcap": 0.0, "n_experts": 0, "experts_used": 0,
            "expert_d_ff": 0, "shared_d_ff": 0, "renormalize": False, "renormalize_min": 0.0, "renormalize_add": 0.0, "shared_router": False,
            "router_bias": False, "expert_bias": False, "attn_sinks": False, "gate_limit": 0.0, "gate_alpha": 0.0,
            "kv_lora": 0, "q_lora": 0, "nope_dim": 0, "v_dim": 0, "latent_norm_eps": 0, "state_layers": [], "conv_taps": 0, "conv_bias": False,
            "attn_gate": False, "delta_heads": 0, "delta_key_heads": 0, "delta_key_dim": 0, "delta_value_dim": 0, "delta_tiled": False,
            "router_score": "softmax", "choice_bias": False, "expert_groups": 0, "groups_used": 0, "group_by_largest": False, "expert_scale": 1.0, "dense_layers": []}


def config_of(name):
    return {**BASE, **SHAPES[name]}


def seed_of(name):
    return SEEDS.get(name, list(SHAPES).index(name))


def make(name):
    """{tensor: float32 array} in file order."""
    c = {**DEFAULTS, **config_of(name)}
    d, q, kv, hd = c["d_model"], c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"], c["head_dim"]
    if c["kv_lora"]:
        q = c["heads"] * (c["rotary_dim"] + c["nope_dim"])
    tensors, seed = {}, 5000 + 1000 * seed_of(name)

    def put(tensor, shape, spread, centre=0.0):
        values = centre + spread * hash_uniform(seed + len(tensors), int(np.prod(shape)))
        tensors[tensor] = values.astype("<f4").reshape(shape)

    def matrix(tensor, rows, k, bias=False, gain=1.0, stack=None):
        put(tensor, (rows, k) if stack is None else (stack, rows, k), gain * (3.0 / k) ** 0.5)
        if bias:
            put(tensor + "_bias", (rows if stack is None else stack * rows,), 0.5)

    def norm(tensor, width=d, bias=None):
        put(tensor, (width,), 0.5, 1.0)
        if c["norm_bias"] if bias is None else bias:
            put(tensor + "_bias", (width,), 0.3)

    def convolution(at):
        for name in ("conv_b", "conv_c", "conv_x"):
            matrix(at + name, d, d, c["conv_bias"], gain=1.5)
        put(at + "conv", (d * c["conv_taps"],), (3.0 / c["conv_taps"]) ** 0.5)
        if c["conv_bias"]:
            put(at + "conv_shift", (d,), 0.5)
        matrix(at + "conv_out", d, d, c["conv_bias"])

    def delta(at):
        heads, values = c["delta_heads"], c["delta_heads"] * c["delta_value_dim"]
        channels = 2 * c["delta_key_heads"] * c["delta_key_dim"] + values
        matrix(at + "delta_qkv", channels, d, gain=1.5)
        matrix(at + "delta_z", values, d)
        matrix(at + "delta_b", heads, d, gain=2.0)
        matrix(at + "delta_a", heads, d, gain=2.0)
        put(at + "conv", (channels * c["conv_taps"],), (3.0 / c["conv_taps"]) ** 0.5)
        put(at + "delta_dt", (heads,), 1.0, -1.0)
        put(at + "delta_rate", (heads,), 0.4, -0.5)
        norm(at + "delta_norm", c["delta_value_dim"], False)
        matrix(at + "delta_out", d, values)

    def attention(at):
        q_lora, latent = c["q_lora"], c["kv_lora"]
        if q_lora:
            matrix(at + "wq_a", q_lora, d, c["qkv_bias"])
            norm(at + "q_a_norm", q_lora, False)
            matrix(at + "wq_b", q, q_lora, gain=1.5)
        else:
            matrix(at + "wq", q, d, c["qkv_bias"] and not latent, 1.5)
        matrix(at + "wk", kv, d, c["qkv_bias"], 1.5)
        if latent:
            norm(at + "latent_norm", latent, False)
            matrix(at + "w_uk", latent, c["nope_dim"], gain=(c["nope_dim"] / latent) ** 0.5, stack=c["heads"])
            matrix(at + "w_uv", c["v_dim"], latent, stack=c["heads"])
        else:
            matrix(at + "wv", kv, d, c["qkv_bias"])
        if c["qk_norm"] not in ("none", "plain"):
            norm(at + "q_norm", hd if c["qk_norm"] == "head" else q, False)
            norm(at + "k_norm", hd if c["qk_norm"] == "head" else kv, False)
        if c["attn_sinks"]:
            put(at + "attn_sinks", (c["heads"],), 1.0)
        if c["attn_gate"]:
            matrix(at + "attn_gate", q, d, c["qkv_bias"], 1.5)
        matrix(at + "wo", d, c["heads"] * c["v_dim"] if latent else q, c["out_bias"])

    def block(at, place, gated, layer):
        if place != "output":
            norm(at + "attn_norm")
        (attention if layer not in c["state_layers"] else delta if c["delta_heads"] else convolution)(at)
        if place in ("both", "output"):
            norm(at + "attn_post_norm")
        if place not in ("output", "parallel"):
            norm(at + "ffn_norm")
        if c["n_experts"] and layer not in c["dense_layers"]:
            e, f, s = c["n_experts"], c["expert_d_ff"], c["shared_d_ff"]
            matrix(at + "router", e, d, c["router_bias"], gain=2.0)
            if c["choice_bias"]:
                put(at + "choice_bias", (e,), 0.3)
            matrix(at + "expert_gate", f, d, c["expert_bias"], gain=1.5, stack=e)
            matrix(at + "expert_up", f, d, c["expert_bias"], stack=e)
            matrix(at + "expert_down", d, f, c["expert_bias"], gain=3.0, stack=e)
            if s and c["shared_router"]:
                matrix(at + "shared_router", 1, d)
            if s:
                matrix(at + "shared_gate", s, d, gain=1.5)
                matrix(at + "shared_up", s, d)
                matrix(at + "shared_down", d, s)
        else:
            if gated:
                matrix(at + "w_gate", c["d_ff"], d, c["ffn_bias"], 1.5)
            matrix(at + "w_up", c["d_ff"], d, c["ffn_bias"])
            if c["ffn"] == "xielu":
                tensors[at + "xielu"] = np.array([0.8 + 0.3 * layer, 1.1, 0.5, -1e-6], "<f4")
            matrix(at + "w_down", d, c["d_ff"], c["ffn_bias"])
        if place in ("both", "output"):
            norm(at + "ffn_post_norm")

    put("embed", (c["vocab_size"], d), 1.0)
    if c["positions"] == "learned":
        put("pos_embed", (c["n_ctx"], d), 0.5)
    if c["rope"]["type"] == "factors":
        put("rope_factors", (c["rotary_dim"] // 2,), 0.9, 2.0)
    for i in range(c["n_layers"]):
        block(f"layers.{i}.", c["norm_placement"], c["ffn"] in ("swiglu", "geglu", "geglu_erf"), i)
    norm("final_norm")
    if not c["tied_embeddings"]:
        matrix("lm_head", c["vocab_size"], d, gain=3.0)
    return tensors


erf = np.vectorize(math.erf, otypes=[np.float64])
ACTS = {"swiglu": lambda x: x / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0), "relu2": lambda x: np.maximum(x, 0) ** 2,
        "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
        "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))}
ACTS["geglu"], ACTS["geglu_erf"] = ACTS["gelu_tanh"], ACTS["gelu"]


class Reference:
    """The forward pass of a config, in the precision of its weights."""

    def __init__(self, config, tensors, dtype=np.float64):
        self.c = {**DEFAULTS, **config}
        self.c.setdefault("rotary_dim", self.c["head_dim"])
        self.dtype, self.w = dtype, {k: v.astype(dtype) for k, v in tensors.items()}

    def linear(self, x, name):
        y = x @ self.w[name].T
        return y + self.w[name + "_bias"] if name + "_bias" in self.w else y

    def norm(self, x, name, weight=None):
        w = self.w[name] if weight is None else weight
        if self.c["norm"] == "layer":
            x = x - x.mean(-1, keepdims=True)
        eps = name.endswith(("q_a_norm", "latent_norm")) and self.c["latent_norm_eps"] or self.c["norm_eps"]
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.dtype(eps)) * w
        return y + self.w[name + "_bias"] if weight is None and name + "_bias" in self.w else y

    def rope(self, x, layer):
        """[heads, T, head_dim]; pairs (i, i + rotary_dim / 2)."""
        c, rot, windowed = self.c, self.c["rotary_dim"], self.windowed(layer)
        if not self.rotates(layer):
            return x
        own = windowed and c["theta_window"]
        f = 1.0 / (own or c["theta"]) ** (np.arange(0, rot, 2) / rot)
        if not own and c["rope"]["type"] == "linear":
            f = f / c["rope"]["factor"]
        if not own and c["rope"]["type"] == "factors":
            f = f / self.w["rope_factors"].astype(np.float64)
        angle = np.arange(x.shape[1])[:, None] * f
        cos, sin, half = np.cos(angle), np.sin(angle), rot // 2
        a, b = x[..., :half], x[..., half:rot]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., rot:]], -1).astype(self.dtype)

    def rotates(self, layer):
        return self.c["positions"] == "rope" and layer not in self.c["no_rope_layers"]

    def windowed(self, layer):
        return self.c["window"] > 0 and layer not in self.c["full_layers"]

    def attention(self, x, at, layer):
        c, kind, windowed, late = self.c, self.c["qk_norm"], self.windowed(layer), self.c["qk_norm_after_rope"]

        def split(y, n):
            return y.reshape(len(y), n, c["head_dim"]).transpose(1, 0, 2)

        def normed(y, n, name):
            """[n, T, head_dim]"""
            w = self.w.get(name)
            if kind == "plain":
                return self.norm(y, name, self.dtype(1)) if self.rotates(layer) else y
            if kind == "vector":
                return split(self.norm(y.transpose(1, 0, 2).reshape(y.shape[1], -1), name, w), n)
            return y if kind == "none" else self.norm(y, name, w if kind == "head" else w.reshape(n, 1, c["head_dim"]))

        def heads(y, n, name):
            y = split(y, n)
            if name and not late:
                y = normed(y, n, name)
            if c["qkv_clip"]:
                y = np.clip(y, -c["qkv_clip"], c["qkv_clip"])
            if name:
                y = self.rope(y, layer)
            return normed(y, n, name) if name and late else y

        def by_position(y):
            steps = (np.arange(len(x)) + c["query_scale_unrotated"]) // (c["query_scale_length"] or 1)
            scaled = c["query_scale"] and not (c["query_scale_unrotated"] and self.rotates(layer))
            return (y * (1 + c["query_scale"] * np.log(1 + steps))[:, None]).astype(self.dtype) if scaled else y

        def of_latent():
            """q, k and v of each head, k and v made of the latent vector."""
            rot = c["rotary_dim"]
            q = self.linear(self.norm(self.linear(x, at + "wq_a"), at + "q_a_norm"), at + "wq_b") if c["q_lora"] else self.linear(x, at + "wq")
            kv = self.linear(x, at + "wk")
            latent = self.norm(kv[:, rot:], at + "latent_norm")
            k = np.einsum("hrn,tr->htn", self.w[at + "w_uk"], latent)
            rotated = np.broadcast_to(self.rope(kv[None, :, :rot], layer), (c["heads"], len(x), rot))
            return (self.rope(q.reshape(len(x), c["heads"], -1).transpose(1, 0, 2), layer), np.concatenate([rotated, k], -1),
                    np.einsum("hvr,tr->htv", self.w[at + "w_uv"], latent))

        if c["kv_lora"]:
            q, k, v = of_latent()
            q = by_position(q)
        else:
            q = by_position(heads(self.linear(x, at + "wq"), c["heads"], at + "q_norm"))
            k = heads(self.linear(x, at + "wk"), c["kv_heads"], at + "k_norm")
            v = heads(self.linear(x, at + "wv"), c["kv_heads"], None)
        share = c["heads"] // len(k)
        s = q @ np.repeat(k, share, 0).transpose(0, 2, 1) * self.dtype(c["attn_scale"] or 1 / math.sqrt(q.shape[-1]))
        if c["attn_softcap"]:
            s = c["attn_softcap"] * np.tanh(s / self.dtype(c["attn_softcap"]))
        query, key = np.arange(len(x))[:, None], np.arange(len(x))
        near = key // c["window"] == query // c["window"] if windowed and c["window_chunked"] else key > query - c["window"]
        visible = (key <= query) & (near if windowed else True)
        s = np.where(visible, s, -np.inf)
        if c["attn_sinks"]:
            s = np.concatenate([s, np.broadcast_to(self.w[at + "attn_sinks"][:, None, None], (*s.shape[:2], 1))], -1)
        p = np.exp(s - s.max(-1, keepdims=True))
        p = (p / p.sum(-1, keepdims=True))[..., :len(x)]
        y = (p @ np.repeat(v, share, 0)).transpose(1, 0, 2).reshape(len(x), -1).astype(self.dtype)
        if c["attn_gate"]:
            y = y / (1 + np.exp(-self.linear(x, at + "attn_gate")))
        return self.linear(y, at + "wo")

    def before(self, u, at):
        """The weighted sum of each channel's last values."""
        taps, w = self.c["conv_taps"], self.w[at + "conv"].reshape(u.shape[1], -1)
        u = np.concatenate([np.zeros((taps - 1, u.shape[1]), self.dtype), u])
        return sum(w[:, j] * u[j:j + len(u) - taps + 1] for j in range(taps))

    def delta(self, x, at):
        c, one = self.c, self.dtype(1)
        heads, keys, dk, dv = c["delta_heads"], c["delta_key_heads"], c["delta_key_dim"], c["delta_value_dim"]
        u = ACTS["swiglu"](self.before(self.linear(x, at + "delta_qkv"), at))
        of = np.arange(heads) % keys if c["delta_tiled"] else np.arange(heads) * keys // heads
        q, k = (y.reshape(len(x), keys, dk)[:, of] for y in (u[:, :keys * dk], u[:, keys * dk:2 * keys * dk]))
        q, k = (y / np.sqrt((y * y).sum(-1, keepdims=True) + self.dtype(1e-6)) for y in (q, k))
        v = u[:, 2 * keys * dk:].reshape(len(x), heads, dv)
        beta = one / (one + np.exp(-self.linear(x, at + "delta_b")))
        fade = np.exp(self.w[at + "delta_rate"] * np.logaddexp(0, self.linear(x, at + "delta_a") + self.w[at + "delta_dt"]))
        memory, out = np.zeros((heads, dk, dv), self.dtype), []
        for t in range(len(x)):
            memory = memory * fade[t][:, None, None]
            wrong = v[t] - np.einsum("hkv,hk->hv", memory, k[t])
            memory = memory + np.einsum("hk,hv->hkv", k[t], wrong * beta[t][:, None])
            out.append(np.einsum("hkv,hk->hv", memory, q[t]) / self.dtype(math.sqrt(dk)))
        o = np.stack(out)
        o = o / np.sqrt((o * o).mean(-1, keepdims=True) + self.dtype(c["norm_eps"])) * self.w[at + "delta_norm"]
        return self.linear(o.reshape(len(x), -1) * ACTS["swiglu"](self.linear(x, at + "delta_z")), at + "delta_out")

    def convolution(self, x, at):
        b, c, y = (self.linear(x, at + "conv_" + n) for n in "bcx")
        seen = self.before(b * y, at) + self.w.get(at + "conv_shift", self.dtype(0))
        return self.linear(c * seen, at + "conv_out")

    def xielu(self, at):
        p, n, beta, eps = self.w[at + "xielu"]
        return lambda x: np.where(x > 0, p * x * x, n * (np.expm1(np.minimum(x, eps)) - x)) + beta * x

    def network(self, x, gate, up, down, bias=lambda n: 0, act=None):
        act = act or ACTS[self.c["ffn"]]
        h = x @ up.T + bias("w_up")
        if self.c["gate_limit"]:
            most, g = self.c["gate_limit"], np.minimum(x @ gate.T + bias("w_gate"), self.c["gate_limit"])
            h = g / (1 + np.exp(-self.c["gate_alpha"] * g)) * (np.clip(h, -most, most) + 1)
        else:
            h = act(x @ gate.T + bias("w_gate")) * h if gate is not None else act(h)
        return (h.astype(self.dtype) @ down.T + bias("w_down")).astype(self.dtype)

    def expert_bias(self, name, e):
        b = self.w.get(name + "_bias")
        return 0 if b is None else b.reshape(self.c["n_experts"], -1)[e]

    def experts(self, x, at):
        c, w, y = self.c, self.w, np.zeros_like(x)
        logits = self.linear(x, at + "router")
        p = np.exp(logits - logits.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        if c["router_score"] == "sigmoid":
            p = 1 / (1 + np.exp(-logits))
        v = p + w[at + "choice_bias"] if c["choice_bias"] else p.copy()
        if c["expert_groups"]:
            groups = v.reshape(len(v), c["expert_groups"], -1)
            best = np.argsort(-np.sort(groups)[..., -1 if c["group_by_largest"] else -2:].sum(-1), kind="stable")[:, :c["groups_used"]]
            for t in range(len(v)):
                groups[t, np.setdiff1d(np.arange(c["expert_groups"]), best[t])] = -np.inf
        for t in range(len(x)):
            chosen = sorted(np.argsort(-v[t], kind="stable")[:c["experts_used"]])
            total = max(p[t, chosen].sum(), c["renormalize_min"]) + c["renormalize_add"] if c["renormalize"] else 1
            for e in chosen:
                share, before = p[t, e] / total * self.dtype(c["expert_scale"]), c["expert_input_scaled"]
                y[t] += (1 if before else share) * self.network(x[t] * share if before else x[t], *(w[at + "expert_" + n][e] for n in ("gate", "up", "down")),
                                                                lambda n, e=e: self.expert_bias(at + "expert_" + n[2:], e))
        if c["shared_d_ff"]:
            weight = 1 / (1 + np.exp(-x @ w[at + "shared_router"].T)) if c["shared_router"] else 1
            y = y + weight * self.network(x, *(w[at + "shared_" + n] for n in ("gate", "up", "down")))
        return y

    def feed_forward(self, x, at, layer):
        if self.c["n_experts"] and layer not in self.c["dense_layers"]:
            return self.experts(x, at)
        return self.network(x, self.w.get(at + "w_gate"), self.w[at + "w_up"], self.w[at + "w_down"],
                            lambda n: self.w.get(at + n + "_bias", 0), self.xielu(at) if at + "xielu" in self.w else None)

    def block(self, x, i):
        c, at, place = self.c, f"layers.{i}.", self.c["norm_placement"]
        m = self.dtype(c["residual_scale"])
        before = (lambda y, n: y) if place == "output" else (lambda y, n: self.norm(y, at + n))
        after = (lambda y, n: self.norm(y, at + n)) if place in ("both", "output") else (lambda y, n: y)
        n = before(x, "attn_norm")
        mixed = (self.attention(n, at, i) if i not in c["state_layers"] else self.delta(n, at) if c["delta_heads"]
                 else self.convolution(n, at))
        y = x + m * after(mixed, "attn_post_norm")
        if place == "parallel2":
            n = before(x, "ffn_norm")
        elif place != "parallel":
            n = before(y, "ffn_norm")
        return y + m * after(self.feed_forward(n, at, i), "ffn_post_norm")

    def __call__(self, tokens):
        c, ids = self.c, np.asarray(tokens)
        x = self.w["embed"][ids] * self.dtype(c["embed_scale"])
        if c["positions"] == "learned":
            x = x + self.w["pos_embed"][:len(ids)]
        for i in range(c["n_layers"]):
            x = self.block(x, i)
        logits = self.linear(self.norm(x, "final_norm"), "embed" if c["tied_embeddings"] else "lm_head") * self.dtype(c["logit_scale"])
        return c["logit_softcap"] * np.tanh(logits / c["logit_softcap"]) if c["logit_softcap"] else logits

    def greedy(self, tokens, n):
        ids, margin = list(tokens), math.inf
        for _ in range(n):
            last = self(ids)[-1]
            second, best = np.partition(last, -2)[-2:]
            margin = min(margin, best - second)
            ids.append(int(last.argmax()))
        return ids[len(tokens):], margin


def sequences(name):
    vocab, start = config_of(name)["vocab_size"], 0
    for i, n in enumerate(LENGTHS):
        u = hash_uniform(2000 + seed_of(name), start + n)[start:]
        yield f"seq{i}", ((u + 1) / 2 * vocab).astype("<i4")
        start += n


def place(path, write_to):  # at once: other tests may be reading the same files
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    write_to(temporary)
    os.replace(temporary, path)


def write(out, name):
    tensors, config = make(name), config_of(name)
    ref, golden, largest = Reference(config, tensors), {}, 0.0
    for prefix, tokens in sequences(name):
        golden[prefix + ".tokens"] = tokens
        golden[prefix + ".logits_f64"] = ref(tokens).astype("<f4")
        largest = max(largest, np.abs(golden[prefix + ".logits_f64"]).max())
        if len(tokens) < 10:
            ids, margin = ref.greedy(tokens, N_GREEDY)
            if margin > 0.005:
                golden[prefix + ".greedy"] = np.array(ids, "<i4")
    folder = pathlib.Path(out) / "shapes" / name
    folder.mkdir(parents=True, exist_ok=True)
    place(pathlib.Path(out) / f"{name}.rows.bin", lambda p: write_model(p, config, tensors))
    place(folder / "golden.json", lambda p: p.write_text(json.dumps({"suggested_tolerance": float(f"{TOLERANCE * largest:.2g}")}) + "\n"))
    place(folder / "golden.safetensors", lambda p: write_safetensors(p, golden))


def write_model(path, config, tensors):
    write_safetensors(path, tensors, {"format": "tblock", "version": "1", "config": json.dumps(config)})


NUMBERS = ("attn_scale", "residual_scale", "embed_scale", "logit_scale", "attn_softcap", "logit_softcap", "window", "theta_window",
           "renormalize", "rotary_dim", "full_layers", "norm", "theta", "qkv_clip",
           "no_rope_layers", "qk_norm_after_rope", "router_score", "expert_scale", "expert_groups",
           "query_scale", "gate_limit", "delta_tiled", "group_by_largest", "latent_norm_eps")
OTHER_FFN = {"geglu": "geglu_erf", "geglu_erf": "geglu", "gelu": "gelu_tanh", "gelu_tanh": "gelu", "relu": "gelu", "relu2": "relu"}


def wrong_formulas(name):
    """(what is wrong, config): keys that a shape sets left out, where that does not change the tensors; the other form of GELU."""
    config = config_of(name)
    for key in SHAPES[name]:
        if key in NUMBERS and not (key == "rotary_dim" and (name == "factors" or "kv_lora" in config or config["head_dim"] % 2)):
            without = {"expert_groups": ("expert_groups", "groups_used", "group_by_largest"), "gate_limit": ("gate_limit", "gate_alpha")}.get(key, (key,))
            yield "no " + key, {k: v for k, v in config.items() if k not in without}
    if config.get("ffn") in OTHER_FFN:
        yield OTHER_FFN[config["ffn"]], {**config, "ffn": OTHER_FFN[config["ffn"]]}


def measure():
    print("shape: largest logit, 8 x float32 error as a share of it; then the distance of wrong formulas in tolerances")
    for name in SHAPES:
        tensors, tokens = make(name), dict(sequences(name))["seq2"]
        right = Reference(config_of(name), tensors)(tokens)
        largest = np.abs(right).max()
        error = np.abs(Reference(config_of(name), tensors, np.float32)(tokens) - right).max()
        wrong = [f"{what} {np.abs(Reference(c, tensors)(tokens) - right).max() / largest / TOLERANCE:.0f}" for what, c in wrong_formulas(name)]
        print(f"{name}: {largest:.1f}, {8 * error / largest:.1e}; {', '.join(wrong)}")


def main(args):
    if args == ["--measure"]:
        return measure()
    if not args or args[0].startswith("-"):
        sys.exit(__doc__)
    for name in args[1:] or SHAPES:
        if name not in SHAPES:
            sys.exit(f"shapes.py: no shape {name}; there are {', '.join(SHAPES)}")
        write(args[0], name)


if __name__ == "__main__":
    main(sys.argv[1:])
