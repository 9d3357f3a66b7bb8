#!/usr/bin/env python3
"""Record what transformers computes for the published model of `make real`: tests/real/answers.json.

    record_real.py      reads models/smollm2.gguf, writes tests/real/answers.json

The gguf package gives the values that the file's codes stand for, and transformers runs them in float64, with the
tokenizer and the chat template of the same file. A greedy text is the reference until two logits are nearly equal: each has
the smallest gap between the best and the second on its way. Needs torch, transformers and gguf.
"""
import importlib.metadata
import json
import math
import pathlib
import sys

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "real"))
from prompts import EVAL_TEXT, QUESTIONS, TEXTS  # noqa: E402

MODEL = ROOT / "models" / "smollm2.gguf"
OUT = ROOT / "tests" / "real" / "answers.json"
N_GREEDY = 40
TOP = 8


def load():
    folder, name = str(MODEL.parent), MODEL.name
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    return tokenizer, model.double().eval()


def greedy(model, ids, end):
    """Up to N_GREEDY ids after the prompt, without the end's, and the smallest gap of the two best logits on the way."""
    sampled, gap, cache = [], math.inf, None
    new = torch.tensor([ids])
    for _ in range(N_GREEDY):
        out = model(new, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        best = out.logits[0, -1].topk(2)
        gap = min(gap, float(best.values[0] - best.values[1]))
        token = int(best.indices[0])
        if token == end:
            break
        sampled.append(token)
        new = torch.tensor([[token]])
    return sampled, gap


def last_logits(model, ids):
    """Of the last position: the best ids with their log-probabilities, and the norm of all logits."""
    logits = model(torch.tensor([ids])).logits[0, -1]
    best = torch.log_softmax(logits, -1).topk(TOP)
    return {"ids": best.indices.tolist(), "logprobs": [round(float(x), 9) for x in best.values],
            "norm": round(float(logits.norm()), 6)}


def text_answer(tokenizer, model, text, ids):
    sampled, gap = greedy(model, ids, tokenizer.convert_tokens_to_ids("<|im_end|>"))
    return {"prompt": text, "ids": ids, "sampled": sampled, "text": tokenizer.decode(sampled), "gap": round(gap, 6),
            "last": last_logits(model, ids)}


def eval_answer(tokenizer, model):
    """Mean of -log p of each token of EVAL_TEXT but the first."""
    ids = tokenizer.encode(EVAL_TEXT, add_special_tokens=False)
    logits = torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1], -1)
    return {"n": len(ids) - 1, "nats": float(-logits[range(len(ids) - 1), ids[1:]].mean())}


@torch.no_grad()
def main():
    tokenizer, model = load()
    answers = {"reference": {p: importlib.metadata.version(p) for p in ("torch", "transformers", "tokenizers", "gguf")},
               "texts": [text_answer(tokenizer, model, t, tokenizer.encode(t, add_special_tokens=False)) for t in TEXTS],
               "chats": [text_answer(tokenizer, model, q, tokenizer.apply_chat_template(
                   [{"role": "user", "content": q}], add_generation_prompt=True, return_dict=False)) for q in QUESTIONS],
               "eval": eval_answer(tokenizer, model)}
    lines = ",\n".join("%s: [\n%s\n]" % (json.dumps(key), ",\n".join(map(json.dumps, answers[key]))) for key in ("texts", "chats"))
    OUT.write_text('{"reference": %s,\n%s,\n"eval": %s}\n' % (json.dumps(answers["reference"]), lines, json.dumps(answers["eval"])))


if __name__ == "__main__":
    main()
