#!/usr/bin/env python3
"""`serve --draft`: texts, receipts and vectors are those of a server without drafts, alone and under load, where texts give way and
where they go on; what was guessed is counted. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import pathlib
import subprocess
import sys
import tempfile

from server import HELLO, MODEL, TBLOCK, Server, run
from test_completions import PATH, many, options
from verdicts import attempt_all, need

TEMP = tempfile.TemporaryDirectory()
SMALL = str(pathlib.Path(TEMP.name, "q4.bin"))
DRAFT, ACCEPTED = "tblock_draft_tokens_total", "tblock_accepted_tokens_total"


def guessed(server):
    m = server.metrics()
    need(m[DRAFT] == m["vllm:spec_decode_num_draft_tokens_total"] and m[ACCEPTED] == m["vllm:spec_decode_num_accepted_tokens_total"], "other names")
    return m[DRAFT], m[ACCEPTED]


def texts_are_those_of_run():
    for by in ("ngram", SMALL):
        with Server("--draft", by, "--parallel", "6", "--cache", "3") as s:
            many(s, 15, 1, 1)
            alone = guessed(s)
            many(s, 40, 16, 2)
            need(0 < alone[1] < alone[0] < guessed(s)[0], "%s: %s, then %s" % (by, alone, guessed(s)))


def a_model_is_always_right_for_itself():
    with Server("--draft", MODEL, "--draft-max", "3") as s:
        for temperature in (0, 1.2):
            found = s.post(PATH, prompt="ROMEO:", max_tokens=81, temperature=temperature, seed=5, return_token_ids=True)
            expected = run(*options({"max_tokens": 81, "temperature": temperature, "seed": 5}), prompt="ROMEO:")
            need(found["choices"][0]["token_ids"] == expected["ids"], "temperature %s" % temperature)
        proposed, accepted = guessed(s)
        need(proposed == accepted == 120, "%d of %d" % (accepted, proposed))
    need(any("draft: " + MODEL in line and "5.27 MB" in line and "KV cache" in line for line in s.log), str(s.log[:3]))


def texts_that_give_way_go_on_as_if_nothing_had_happened():
    with Server("--parallel", "8", "--kv-memory", "8", "--draft", SMALL) as s:
        settings = dict(max_tokens=200, temperature=1, seed=4)
        for i, choice in enumerate(s.post(PATH, prompt="A king", n=8, return_token_ids=True, **settings)["choices"]):
            need(choice["token_ids"] == run(*options(settings | {"seed": 4 + i}), prompt="A king")["ids"], "choice %d" % i)
        many(s, 40, 12, 3)
        m = s.metrics()
        need(m["tblock_preemptions_total"] > 0, "nothing gave way")
        need(m["tblock_kv_bytes"] <= 8 << 20, str(m["tblock_kv_bytes"]))


def everything_else_is_the_same():
    whole = dict(prompt="JULIET:", max_tokens=60, seed=11, return_token_ids=True)
    schema = {"type": "object", "properties": {"a": {"enum": ["one", "two"]}, "b": {"type": "string", "maxLength": 30}}, "required": ["a", "b"]}
    asked = [(PATH, dict(whole, receipt=True)), (PATH, dict(whole, logprobs=3, echo=True)), (PATH, dict(whole, stop=["e "])),
             ("/v1/chat/completions", dict(messages=HELLO, max_tokens=60, seed=2, receipt=True,
                                           response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})),
             ("/v1/embeddings", dict(input=["ROMEO:", "A rose"]))]

    def answers(*more):
        with Server("--chat-format", "alpaca", *more) as s:
            found = [s.post(path, **body) for path, body in asked]
            ids = found[0]["choices"][0]["token_ids"]
            events = [e["choices"][0] for e in s.stream(PATH, **whole, resume_ids=ids[:23]) if e["choices"]]
            need([i for e in events for i in e["token_ids"]] == ids[23:], "%s: goes on otherwise" % (more,))
            return [{key: value for key, value in f.items() if key not in ("id", "created")} for f in found]

    plain = answers()
    for by in ("ngram", SMALL):
        for was, now in zip(plain, answers("--draft", by)):
            need(was == now, "%s: %s, without %s" % (by, now, was))


def wrong_drafters_are_refused():
    config, other = pathlib.Path(TEMP.name, "other.json"), str(pathlib.Path(TEMP.name, "other.bin"))
    config.write_text('{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 64}')
    subprocess.run([TBLOCK, "synth", str(config), "-o", other, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    for by, words in ((other, "draft: expected a tokenizer as"), ("mtp", "draft mtp: expected a layer that predicts"), (other + ".no", "cannot open")):
        done = subprocess.run([TBLOCK, "serve", MODEL, "--port", "0", "--draft", by], capture_output=True, text=True, check=False)
        need(done.returncode in (2, 3) and words in done.stderr, "%s: %d %s" % (by, done.returncode, done.stderr))
    config.write_text('{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 64, "state_layers": [0], "conv_taps": 3}')
    subprocess.run([TBLOCK, "synth", str(config), "-o", other, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run([TBLOCK, "serve", other, "--port", "0", "--draft", "ngram"], capture_output=True, text=True, check=False)
    need(done.returncode == 3 and "expected a model that can forget a wrong guess" in done.stderr, done.stderr)
    done = subprocess.run([TBLOCK, "serve", MODEL, "--port", "0", "--draft", MODEL, "--kv-memory", "4"], capture_output=True, text=True, check=False)
    need(done.returncode == 2 and "--kv-memory: expected at least 7 MB" in done.stderr, done.stderr)


subprocess.run([TBLOCK, "quantize", MODEL, "-o", SMALL, "--type", "q4", "--quiet"], check=True, stdout=subprocess.DEVNULL)
sys.exit(attempt_all(texts_are_those_of_run, a_model_is_always_right_for_itself, texts_that_give_way_go_on_as_if_nothing_had_happened,
                     everything_else_is_the_same, wrong_drafters_are_refused))
