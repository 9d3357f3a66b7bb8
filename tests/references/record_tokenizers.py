#!/usr/bin/env python3
"""Records what transformers' tokenizers answer, for tests/python/test_tokenizer.py: tests/data/transformers.json. Needs transformers
and jinja2: `record_tokenizers.py` writes the file again."""
import hashlib
import json
import os
import shutil
import tempfile

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")
TEXTS = ["", "Hello, world", "  two  spaces\n", "na\u00efve \U0001f642 \u4f60", "don't 12345", "tail"]
# Templates as published models write them: with tools, with an opened answer, with variables of their own.
TEMPLATE = ("{{ bos_token }}{% if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}</tools>{% endif %}"
            "{% if style is defined %}[{{ style }}]{% endif %}{% for d in documents or [] %}<{{ d.title }}: {{ d.text }}>{% endfor %}"
            "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}{{ eos_token }}{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Who art thou? "}]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Look.", "parameters": {
    "type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}]
CHATS = [{}, {"add_generation_prompt": True}, {"tools": TOOLS, "add_generation_prompt": True}, {"style": "plain"},
         {"documents": [{"title": "a", "text": "b"}]}]
BATCHES = [{"padding": True}, {"padding": "max_length", "truncation": True, "max_length": 6}]
# name: (folder in tests/data, bos_token, eos_token and pad_token, unk_token)
SOURCES = {"bpe-gpt2": ("tokenizers/bpe-gpt2", None, "<|endoftext|>", None),
           "bpe-llama3": ("tokenizers/bpe-llama3", "<|begin_of_text|>", "<|end_of_text|>", None),
           "bpe-qwen2": ("tokenizers/bpe-qwen2", None, "<|im_end|>", None),
           "bpe-smollm": ("tokenizers/bpe-smollm", "<|im_start|>", "<|im_end|>", None),
           "spjson-gemma": ("tokenizers/spjson-gemma", "<s>", "</s>", "<unk>"),
           "spjson-legacy": ("tokenizers/spjson-legacy", "<s>", "</s>", "<unk>"),
           "spjson-metaspace": ("tokenizers/spjson-metaspace", "<s>", "</s>", "<unk>")}


def config_of(bos, eos, unk):
    """A tokenizer_config.json that names special tokens of a tokenizer.json."""
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE, "model_max_length": 1000}
    return {**config, **{k: v for k, v in (("bos_token", bos), ("eos_token", eos), ("pad_token", eos), ("unk_token", unk)) if v}}


def record(folder, config):
    from transformers import AutoTokenizer
    with tempfile.TemporaryDirectory() as temp:
        shutil.copy(os.path.join(folder, "tokenizer.json"), temp)
        with open(os.path.join(temp, "tokenizer_config.json"), "w") as f:
            json.dump(config, f)
        t = AutoTokenizer.from_pretrained(temp)
    texts = [{"text": text, "ids": t.encode(text), "plain": t.encode(text, add_special_tokens=False), "tokens": t.tokenize(text),
              "decoded": t.decode(t.encode(text)), "skipped": t.decode(t.encode(text), skip_special_tokens=True)} for text in TEXTS + ["a%sb" % config["eos_token"]]]
    out = {"config": config, "texts": texts, "size": len(t), "map": dict(t.special_tokens_map),
           "ids": {n: getattr(t, n + "_id") for n in ("bos_token", "eos_token", "unk_token", "pad_token")},
           "vocabulary": hashlib.sha256(json.dumps(t.convert_ids_to_tokens(range(len(t)))).encode()).hexdigest(),
           "unknown": t.convert_tokens_to_ids([t.tokenize("tail")[0], "no such token"])}
    for side in ("right", "left"):
        t.padding_side = t.truncation_side = side
        out[side] = [{k: answer[k] for k in ("input_ids", "attention_mask")} for answer in (t(TEXTS[1:], **given) for given in BATCHES)]
    out["chats"] = [[t.apply_chat_template(MESSAGES, tokenize=False, **given),
                     list(t.apply_chat_template(MESSAGES, **given)["input_ids"])] for given in CHATS]
    return out


def main():
    out = {}
    for name, (folder, *marks) in SOURCES.items():
        path = os.path.join(DATA, folder)
        out[name] = {"folder": folder, **record(path, config_of(*marks))}
    with open(os.path.join(DATA, "transformers.json"), "w") as f:
        json.dump({"messages": MESSAGES, "asked": CHATS, "batches": BATCHES, "tokenizers": out}, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
