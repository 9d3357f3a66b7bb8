#!/usr/bin/env python3
"""Record what PyTorch and transformers compute for small models that make vectors or scores of texts, of random weights:
tests/data/embedders.

    record_embedders.py [NAME...]   writes NAME.json, the small files of the folder by their paths, and NAME.safetensors: tensor T of
                                    the folder's file F is F/T. tests/embedders.py makes the folder of them

answers/seqN.tokens [T] i32; mean, last, cls [d] f32 (float64, rounded): of the states behind the final norm, not normalized; vector: what
the modules of sentence-transformers make of a text, to the last; labels [n]: the logits of a classification head.

gemma-both is what EmbeddingGemma is: Gemma 3 with use_bidirectional_attention, saved without its head, with two Dense modules
(their arithmetic is a line of this script: Linear, then the activation). qwen2-both has is_causal false, as gte-Qwen2 has, and no head.
llama-bidirec has the model_type of nvidia's embedders, whose own code is that of is_causal false. qwen3-score is a reranker with one label,
llama-labels has three.
Needs torch and transformers (live.sh makes an environment with them).
"""
import importlib.metadata
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "embedders"
COMMON = {"bos_token_id": 1, "eos_token_id": 7, "pad_token_id": 0, "vocab_size": 40, "max_position_embeddings": 256, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 16, "intermediate_size": 24, "torch_dtype": "bfloat16"}
LLAMA = {"rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False}
MODELS = {
    "gemma-both": {"architectures": ["Gemma3TextModel"], "model_type": "gemma3_text", "head_dim": 8, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
                   "rope_local_base_freq": 10000.0, "query_pre_attn_scalar": 8, "sliding_window": 9, "use_bidirectional_attention": True,
                   "hidden_activation": "gelu_pytorch_tanh", "layer_types": ["sliding_attention", "full_attention"]},
    "qwen2-both": {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "is_causal": False, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
                   "tie_word_embeddings": False, "use_sliding_window": False, "sliding_window": 64, "max_window_layers": 2},
    "llama-bidirec": {**LLAMA, "architectures": ["LlamaBidirectionalModel"], "model_type": "llama_bidirec", "pooling": "avg", "temperature": 1.0},
    "qwen3-score": {"architectures": ["Qwen3ForSequenceClassification"], "model_type": "qwen3", "head_dim": 8, "rms_norm_eps": 1e-06,
                    "rope_theta": 1000000.0, "tie_word_embeddings": True, "num_labels": 1, "id2label": {"0": "LABEL_0"},
                    "label2id": {"LABEL_0": 0}, "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "5.0.0"}},
    "llama-labels": {**LLAMA, "architectures": ["LlamaForSequenceClassification"], "model_type": "llama",
                     "id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2}},
}
HEADLESS = ("gemma-both", "qwen2-both", "llama-bidirec")
MODULES = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"), ("Dense", "3_Dense"), ("Normalize", "4_Normalize")]
DENSE = {"2_Dense": (16, 24, False, "torch.nn.modules.linear.Identity"), "3_Dense": (24, 12, True, "torch.nn.modules.activation.Tanh")}
LENGTHS = (1, 7, 64, 65, 150)


def load(config, labels):
    other = {"model_type": "llama", "is_causal": False} if config["model_type"] == "llama_bidirec" else {}
    kind = transformers.AutoModelForSequenceClassification if labels else transformers.AutoModel
    return kind.from_config(transformers.AutoConfig.for_model(**{**config, **other}), attn_implementation="eager").double().eval()


def weights(model, seed):
    """Of spreads that make every part count, rounded to bf16, put into the model and returned."""
    g, out = torch.Generator().manual_seed(seed), {}
    for name, p in model.named_parameters():
        spread = 0.2 if "norm" in name else 0.3 if p.ndim == 1 else 0.5 if "embed" in name else 1.5 / p.shape[-1] ** 0.5
        centre = 1.0 if "norm" in name and model.config.model_type != "gemma3_text" else 0.0
        out[name] = (spread * torch.randn(p.shape, generator=g) + centre).to(torch.bfloat16)
        p.copy_(out[name])
    return out


def write_modules(files, tensors, seed):
    files["modules.json"] = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                             for i, (kind, path) in enumerate(MODULES)]
    files["1_Pooling/config.json"] = {"word_embedding_dimension": 16, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
                                      "include_prompt": True}
    g, dense = torch.Generator().manual_seed(seed), []
    for path, (k, rows, bias, act) in DENSE.items():
        files[path + "/config.json"] = {"in_features": k, "out_features": rows, "bias": bias, "activation_function": act}
        w = {"linear.weight": torch.randn(rows, k, generator=g) / k ** 0.5}
        if bias:
            w["linear.bias"] = 0.1 * torch.randn(rows, generator=g)
        tensors.update({f"{path}/model.safetensors/{name}": x for name, x in w.items()})
        dense.append((w, torch.tanh if act.endswith("Tanh") else lambda x: x))
    return dense


def through(dense, x):
    for w, act in dense:
        x = act(x @ w["linear.weight"].double().T + w.get("linear.bias", torch.zeros(1)).double())
    return x / x.norm()


def record(name, seed):
    OUT.mkdir(parents=True, exist_ok=True)
    files, labels = {"config.json": {**COMMON, **MODELS[name]}}, "score" in name or "labels" in name
    model = load(files["config.json"], labels)
    w = weights(model, seed)
    kept = {f"model.safetensors/{k}": v for k, v in w.items()}
    dense = write_modules(files, kept, seed + 2) if name == "gemma-both" else []
    (OUT / f"{name}.json").write_text(json.dumps(files, indent=1) + "\n")
    g, tensors = torch.Generator().manual_seed(seed + 1), {}
    for i, n in enumerate(LENGTHS):
        ids = torch.randint(1, COMMON["vocab_size"], (1, n), generator=g)
        tensors[f"seq{i}.tokens"] = ids[0].int()
        x = (model.model if labels else model)(ids, use_cache=False).last_hidden_state[0]
        tensors.update({f"seq{i}.mean": x.mean(0), f"seq{i}.last": x[-1], f"seq{i}.cls": x[0]})
        if labels:
            tensors[f"seq{i}.labels"] = model(ids, use_cache=False).logits[0]
        if dense:
            tensors[f"seq{i}.vector"] = through(dense, x.mean(0))
    versions = ", ".join(f"{p} {importlib.metadata.version(p).split('+')[0]}" for p in ("transformers", "torch"))
    kept.update({f"answers/{k}": v.contiguous() if v.dtype == torch.int32 else v.float().contiguous() for k, v in tensors.items()})
    save_file(kept, OUT / f"{name}.safetensors", {"reference": versions})
    (OUT / f"{name}.safetensors").chmod(0o644)
    assert name not in HEADLESS or not any("lm_head" in k or k.startswith("model.") for k in w), list(w)[:3]


if __name__ == "__main__":
    with torch.no_grad():
        for number, model_name in enumerate(MODELS):
            if model_name in (sys.argv[1:] or MODELS):
                record(model_name, 340 + number)
