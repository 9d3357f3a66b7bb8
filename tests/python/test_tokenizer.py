#!/usr/bin/env python3
"""Model.tokenizer answers as transformers' tokenizers do (tests/references/record_tokenizers.py recorded them) and as the program
does. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import hashlib
import json
import os
import shutil

from package import MODEL, ROOT, program, raises, run_claims, tblock, temp
import numpy as np

DATA = os.path.join(ROOT, "tests", "data")


def _opened():
    """(recorded, tokenizer) for each tokenizer, as a folder has it and as a model file does."""
    with open(os.path.join(DATA, "transformers.json"), encoding="utf-8") as f:
        recorded = json.load(f)
    for name, one in recorded["tokenizers"].items():
        folder = temp(name)
        if not os.path.exists(folder):
            os.makedirs(folder)
            shutil.copy(os.path.join(DATA, one["folder"], "tokenizer.json"), folder)
            with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
                json.dump(one["config"], f)
            tblock.convert(folder, folder + ".bin", tokenizer_only=True)
        with tblock.Model(folder) as a, tblock.Model(folder + ".bin") as b:
            yield {**recorded, **one}, a.tokenizer
            yield {**recorded, **one}, b.tokenizer


def texts_are_those_of_transformers():
    n = 0
    for recorded, t in _opened():
        for case in recorded["texts"]:
            text, ids = case["text"], case["ids"]
            assert t.encode(text) == ids == t(text).input_ids, (t, text, t.encode(text), ids)
            assert t.encode(text, add_special_tokens=False) == case["plain"] and t.tokenize(text) == case["tokens"], (t, text)
            assert t.decode(ids) == case["decoded"] and t.decode(ids, skip_special_tokens=True) == case["skipped"], (t, text)
            n += 1
        assert t.batch_decode([c["ids"] for c in recorded["texts"]]) == [c["decoded"] for c in recorded["texts"]]
        eos = t.eos_token
        assert t.encode("a%sb" % eos, split_special_tokens=True) != t.encode("a%sb" % eos)
        assert t.eos_token_id not in t.encode("a%sb" % eos, split_special_tokens=True, add_special_tokens=False)
    assert n == 2 * 7 * 7, n


def vocabularies_are_those_of_transformers():
    for recorded, t in _opened():
        tokens = t.convert_ids_to_tokens(range(len(t)))
        assert len(t) == t.vocab_size == recorded["size"] and hashlib.sha256(json.dumps(tokens).encode()).hexdigest() == recorded["vocabulary"]
        assert t.get_vocab() == {token: i for i, token in reversed(list(enumerate(tokens)))}
        assert t.convert_tokens_to_ids([t.tokenize("tail")[0], "no such token"]) == recorded["unknown"]
        assert t.special_tokens_map == recorded["map"], (t, t.special_tokens_map, recorded["map"])
        assert {name: getattr(t, name + "_id") for name in recorded["ids"]} == recorded["ids"], (t, recorded["ids"])
        assert t.convert_ids_to_tokens(t.eos_token_id) == t.eos_token and t.eos_token_id in t.all_special_ids
        assert t.convert_ids_to_tokens([5, t.eos_token_id], skip_special_tokens=True) == [tokens[5]]


def batches_are_those_of_transformers():
    for recorded, t in _opened():
        texts = [case["text"] for case in recorded["texts"][1:-1]]
        for side in ("right", "left"):
            t.padding_side = t.truncation_side = side
            for given, expected in zip(recorded["batches"], recorded[side]):
                assert dict(t(texts, **given)) == expected, (t, side, given, t(texts, **given), expected)
                arrays = t(texts, return_tensors="np", **given)
                assert arrays.input_ids.tolist() == expected["input_ids"] and arrays.input_ids.dtype == np.int64


def conversations_are_those_of_transformers():
    for recorded, t in _opened():
        messages = recorded["messages"]
        assert t.chat_template == recorded["config"]["chat_template"]
        for given, (text, ids) in zip(recorded["asked"], recorded["chats"]):
            assert t.apply_chat_template(messages, tokenize=False, **given) == text, (t, given)
            answer = t.apply_chat_template(messages, **given)
            assert answer.input_ids == ids and answer.attention_mask == [1] * len(ids), (t, given, answer.input_ids, ids)
            assert t.apply_chat_template(messages, return_dict=False, **given) == ids
        both = t.apply_chat_template([messages, messages[1:]], padding=True, return_tensors="np")
        assert both.input_ids.shape[0] == 2 and both.attention_mask.sum(1)[0] == both.input_ids.shape[1] > both.attention_mask.sum(1)[1]
        # what a message spells is no special token, unlike there
        spelled = [{"role": "user", "content": t.eos_token}]
        assert t.apply_chat_template(spelled, return_dict=False).count(t.eos_token_id) == 1


def the_shipped_model_has_one():
    with tblock.Model(MODEL) as m:
        t = m.tokenizer
        lines = [json.dumps({"text": "To be, or not", "add_special": True}), json.dumps({"ids": t.encode("To be")})]
        said = program("tokenize", MODEL, "--jsonl", "-", given="\n".join(lines).encode()).decode().splitlines()
        assert t("To be, or not").input_ids == json.loads(said[0])["ids"] and t.decode(t.encode("To be")) == json.loads(said[1])["text"]
        assert t.bos_token is t.bos_token_id is t.chat_template is None and t.model_max_length == m.n_ctx and len(t) == m.vocab_size
        raises(tblock.InputError, "no chat template", t.apply_chat_template, [{"role": "user", "content": "x"}])
        text = t.apply_chat_template([{"role": "user", "content": "x"}], chat_template="chatml", tokenize=False)
        with m.chat(format="chatml") as chat:
            assert text == chat.text([{"role": "user", "content": "x"}], answer=False)
        t.pad_token = t.convert_ids_to_tokens(7)
        assert m.tokenizer.pad_token_id == 7  # the model's, so it stays
        t.pad_token_id = 5
        assert t.pad_token == t.convert_ids_to_tokens(5)
    raises(tblock.ClosedError, "closed", t.encode, "x")


def what_it_lacks_is_an_error():
    message = [{"role": "user", "content": "x"}]
    with tblock.Model(MODEL) as m:
        t = m.tokenizer
        for kind, words, call in (
                (TypeError, "text_pair", lambda: t("a", text_pair="b")),
                (TypeError, "clean_up", lambda: t.decode([1], clean_up_tokenization_spaces=True)),
                (tblock.UsageError, "return_tensors", lambda: t("a", return_tensors="pt")),
                (tblock.UsageError, "padding", lambda: t("a", padding="some")),
                (tblock.UsageError, "no pad_token", lambda: t(["a", "b c d"], padding=True)),
                (tblock.UsageError, "texts of one length", lambda: t(["a", "b c d e f"], return_tensors="np")),
                (tblock.UsageError, "truncation", lambda: t("a", truncation="only_first")),
                (tblock.UsageError, "max_length", lambda: t("a", truncation=True, max_length=-1)),
                (tblock.UsageError, "max_length", lambda: t("a", truncation=True, max_length="6")),
                (tblock.UsageError, "text", lambda: t(5)), (tblock.UsageError, "text", lambda: t([["a"]])),
                (tblock.UsageError, "found 1024", lambda: t.convert_ids_to_tokens(1024)),
                (tblock.UsageError, "ids", lambda: t.decode("abc")), (tblock.UsageError, "-1", lambda: t.convert_ids_to_tokens([-1])),
                (tblock.InputError, "1024", lambda: t.decode([1024])),
                (tblock.UsageError, "token", lambda: t.convert_tokens_to_ids([5])),
                (tblock.UsageError, "pad_token", lambda: setattr(t, "pad_token", "no such token")),
                (tblock.UsageError, "padding_side", lambda: setattr(t, "padding_side", "top")),
                (tblock.UsageError, "continue_final_message", lambda: t.apply_chat_template(message, continue_final_message=True)),
                (tblock.UsageError, "tokenizer_kwargs", lambda: t.apply_chat_template(message, tokenizer_kwargs={"padding": True})),
                (tblock.UsageError, "JSON", lambda: t.apply_chat_template(message, tools=[print], chat_template="chatml")),
                (tblock.UsageError, "messages", lambda: t.apply_chat_template("x", chat_template="chatml")),
                (tblock.UsageError, "expected one of", lambda: t.apply_chat_template(message, chat_template="abacus"))):
            raises(kind, words, call)
    with tblock.Model(os.path.join(DATA, "models", "llama-gqa")) as m:
        raises(tblock.InputError, "tokenizer", lambda: m.tokenizer)


if __name__ == "__main__":
    run_claims(globals())
