#!/usr/bin/env python3
"""Adapters of the server (docs/lora.md): a request names the model or one of them, and each text, log-probability, vector and receipt is that of
`tblock run --lora` alone, whatever else runs beside it. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import save_file
from server import HELLO, MODEL, TBLOCK, TEMPLATE, Server, run
from verdicts import attempt_all, need

SHAPES = {"self_attn.q_proj": (192, 192), "self_attn.v_proj": (96, 192), "mlp.down_proj": (192, 512)}
PROMPT = "First Citizen:\nBefore we proceed any further, hear me speak. " * 3
FOLDER = tempfile.TemporaryDirectory()


def adapter(name, rank, seed):
    """An adapter of the shipped model with random numbers."""
    folder, rng, parts = pathlib.Path(FOLDER.name) / name, np.random.default_rng(seed), {}
    folder.mkdir()
    for layer in range(6):
        for module, (rows, k) in SHAPES.items():
            at = "base_model.model.model.layers.%d.%s.lora_" % (layer, module)
            parts[at + "A.weight"] = (rng.standard_normal((rank, k)) / k ** 0.5).astype("f4")
            parts[at + "B.weight"] = (rng.standard_normal((rows, rank)) * 0.3).astype("f4")
    save_file(parts, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": rank, "lora_alpha": rank}))
    return str(folder)


POET, LAWYER = adapter("poet", 4, 1), adapter("lawyer", 9, 2)
LORA = {"shakespeare": [], "poet": ["--lora", POET], "lawyer": ["--lora", LAWYER + ":0.5"]}


def server(*options):
    return Server("--lora", POET, "--lora", LAWYER + ":0.5", *options)


def said(s, model, seed, n=24):
    return s.post("/v1/completions", model=model, prompt=PROMPT, max_tokens=n, seed=seed, temperature=0.8, top_k=40, top_p=0.95)


def each_text_is_that_of_run():
    with server() as s:
        asked = [(model, seed) for seed in range(4) for model in LORA] * 2
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda a: said(s, *a), asked))
        texts = {}
        for (model, seed), answer in zip(asked, answers):
            need(answer["model"] == model, answer)
            alone = run("-n", "24", "--seed", str(seed), *LORA[model], prompt=PROMPT)["text"]
            texts[model, seed] = alone
            need(answer["choices"][0]["text"] == alone, (model, seed, answer, alone))
        need(len(set(texts.values())) > 6, "the adapters change nothing")
        need(len({a["system_fingerprint"] for a in answers}) == 3, "one fingerprint for each model")


def beginnings_are_shared_within_one_model():
    with server() as s:
        for model in LORA:
            first, second = (said(s, model, seed)["usage"]["prompt_tokens_details"]["cached_tokens"] for seed in (1, 2))
            need(first == 0 and second > 0, (model, first, second))


def models_are_listed():
    with server() as s:
        listed = s.get("/v1/models")["data"]
        need([m["id"] for m in listed] == list(LORA), listed)
        need([m.get("parent") for m in listed] == [None, "shakespeare", "shakespeare"], listed)
        need(s.get("/v1/models/lawyer") == listed[2] and s.get("/v1/models/shakespeare") == listed[0], listed)
        s.refused("/v1/completions", 404, "expected shakespeare, poet or lawyer, found nobody", model="nobody", prompt="A")
        need(s.ask("GET", "/v1/models/nobody")[0] == 404, "a model that is none")


def every_form_of_request_has_them():
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write(TEMPLATE)
        template.flush()
        with server("--chat-format", template.name) as s:
            given = {"max_tokens": 12, "seed": 3}
            for model in LORA:
                chat = s.post("/v1/chat/completions", model=model, messages=HELLO, **given)
                events = list(s.stream("/v1/chat/completions", model=model, messages=HELLO, **given))
                message = s.post("/v1/messages", model=model, messages=HELLO, **given)
                response = s.post("/v1/responses", model=model, input=HELLO[0]["content"], max_output_tokens=12, seed=3)
                need({chat["model"], message["model"], response["model"], *(e["model"] for e in events)} == {model}, (chat, message, response))
                text = chat["choices"][0]["message"]["content"]
                need(text == "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"]), (text, events))
                need(text == message["content"][0]["text"] == response["output"][0]["content"][0]["text"], (chat, message, response))
            vectors = [s.post("/v1/embeddings", model=model, input=PROMPT)["data"][0]["embedding"] for model in LORA]
            need(vectors[0] != vectors[1] != vectors[2], "the adapters change no vector")


def receipts_hold():
    with server() as s, concurrent.futures.ThreadPoolExecutor(6) as pool:
        models = [*LORA] * 2
        asked = [pool.submit(s.post, "/v1/completions", model=m, prompt=PROMPT, max_tokens=9, seed=1, receipt=True) for m in models]
        for model, answer in zip(models, asked):
            receipt = json.dumps(answer.result()["choices"][0]["receipt"])
            for other, options in LORA.items():
                done = subprocess.run([TBLOCK, "verify", MODEL, "-", *options], input=receipt, capture_output=True, text=True)
                need(done.returncode == (0 if other == model else 1), (model, other, done.stdout, done.stderr))


def names_are_unlike():
    for options in (["--lora", POET, "--lora", POET + ":2"], ["--alias", "poet", "--lora", POET]):
        done = subprocess.run([TBLOCK, "serve", MODEL, "--port", "0", *options], capture_output=True, text=True)
        if "without libmicrohttpd" not in done.stderr:
            need(done.returncode == 2 and "name of its own" in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(attempt_all(each_text_is_that_of_run, beginnings_are_shared_within_one_model, models_are_listed, every_form_of_request_has_them,
                         receipts_hold, names_are_unlike))
