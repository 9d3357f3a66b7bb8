#!/usr/bin/env python3
"""Receipts of the server (docs/receipts.md): the same as those of `tblock run`, in any company, and `tblock verify` computes them again."""
import concurrent.futures
import json
import subprocess
import sys

from server import HELLO, MODEL, ROOT, TBLOCK, Server

sys.path.insert(0, str(ROOT / "tests"))
from verdicts import attempt_all, need  # noqa: E402

CHAT = ("--chat-format", "alpaca")


def holds(receipt, *options):
    done = subprocess.run([TBLOCK, "verify", MODEL, "-", *options], input=json.dumps(receipt), capture_output=True, encoding="utf-8", check=False)
    need(done.returncode == 0 and "every token and every bit" in done.stdout, done.stdout + done.stderr)


def of_run(ids, n, *options):
    """What `tblock run` writes."""
    done = subprocess.run([TBLOCK, "run", MODEL, "--ids", ",".join(map(str, ids)), "-n", str(n), "--quiet", "--receipt", "/dev/stderr", *map(str, options)],
                          capture_output=True, encoding="utf-8", check=False)
    need(done.returncode == 0, done.stderr)
    return json.loads(done.stderr)


def answers_have_the_receipts_of_run():
    with Server() as s:
        ids = s.post("/tokenize", prompt="ROMEO:")["tokens"]
        given = {"prompt": "ROMEO:", "max_tokens": 20, "seed": 3, "temperature": 0.75, "top_k": 20, "top_p": 0.5, "min_p": 0.125, "repetition_penalty": 1.5,
                 "presence_penalty": 0.25, "frequency_penalty": 0.5, "min_tokens": 7, "logit_bias": {"10": -2.5}, "receipt": True}
        options = ["--temp", 0.75, "--top-k", 20, "--top-p", 0.5, "--min-p", 0.125, "--repeat-penalty", 1.5, "--presence-penalty", 0.25, "--frequency-penalty", 0.5,
                   "--min-tokens", 7, "--logit-bias", "10=-2.5"]
        choices = s.post("/v1/completions", **given, n=3)["choices"]
        for i, choice in enumerate(choices):
            need(choice["receipt"] == of_run(ids, 20, *options, "--seed", 3 + i), "choice %d" % i)
        holds(choices[0]["receipt"])
        events = [e for e in s.stream("/v1/completions", **given) if e["choices"]]
        need([("receipt" in e["choices"][0]) for e in events] == [False] * (len(events) - 1) + [True], "in the last event alone")
        need(events[-1]["choices"][0]["receipt"] == choices[0]["receipt"], "of a stream")
        echo = s.post("/v1/completions", **given, echo=True, logprobs=1)["choices"][0]
        need(echo["receipt"] == choices[0]["receipt"], "with an echo")
        best = s.post("/v1/completions", **given, best_of=3)["choices"][0]
        need(best["receipt"] in [c["receipt"] for c in choices], "best_of")
        need("receipt" not in s.post("/v1/completions", **dict(given, receipt=False))["choices"][0], "not asked for")


def company_changes_no_receipt():
    """Texts that share steps and give way to each other when the memory is full."""
    given = [{"prompt": [1 + i, 5, 9], "max_tokens": 120 + 7 * i, "seed": i, "temperature": 1, "receipt": True} for i in range(8)]
    many = {"prompt": "A king", "max_tokens": 200, "temperature": 1, "receipt": True}   # as choices of one request they begin together
    with Server() as s:
        alone = [s.post("/v1/completions", **g)["choices"][0]["receipt"] for g in given]
        apart = [s.post("/v1/completions", **many, seed=4 + i)["choices"][0]["receipt"] for i in range(8)]
    with Server("--parallel", "6", "--kv-memory", "4") as s, concurrent.futures.ThreadPoolExecutor(8) as pool:
        need([c["receipt"] for c in s.post("/v1/completions", **many, seed=4, n=8)["choices"]] == apart, "as choices")
        for _ in range(3):
            together = list(pool.map(lambda g: s.post("/v1/completions", **g)["choices"][0]["receipt"], given))
            need(together == alone, "together")
        need(s.metrics()["tblock_preemptions_total"] > 0, "none gave way")
    holds(together[5], "--threads", "1", "--isa", "scalar")


def conversations_have_them():
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "string", "maxLength": 8}}, "required": ["a", "b"], "additionalProperties": False}
    with Server(*CHAT) as s:
        for more in ({}, {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}):
            given = {"messages": HELLO, "max_tokens": 30, "seed": 4, "receipt": True, **more}
            choice = s.post("/v1/chat/completions", **given)["choices"][0]
            receipt = choice["receipt"]
            need(len(receipt["chat"]["sha256"]) == 64 and (receipt["constraint"] is not None) == bool(more), str(receipt)[:300])
            holds(receipt)
            events = [e["choices"][0] for e in s.stream("/v1/chat/completions", **given) if e["choices"]]
            need(events[-1]["finish_reason"] and events[-1]["receipt"] == receipt and not any("receipt" in e for e in events[:-1]), "of a stream")


def answers_in_other_forms_have_them():
    """The same conversation has the same receipt, whatever the form."""
    many = {"role": "user", "content": "Who art thou?"}
    with Server(*CHAT) as s:
        receipt = s.post("/v1/chat/completions", messages=[many], max_tokens=30, seed=4, receipt=True)["choices"][0]["receipt"]
        holds(receipt)
        for path, given, of_event in (("/v1/responses", {"input": [many], "max_output_tokens": 30}, lambda e: e.get("response", {})),
                                      ("/v1/messages", {"messages": [many], "max_tokens": 30}, lambda e: e)):
            given.update(seed=4, receipt=True)
            need(s.post(path, **given)["receipt"] == receipt, path)
            events = [of_event(e) for e in s.stream(path, **given)]
            need(events[-1]["receipt"] == receipt and not any("receipt" in e for e in events[:-1]), "a stream of " + path)
            need("receipt" not in s.post(path, **dict(given, receipt=False)), "not asked for")


def what_has_no_receipt_is_refused():
    with Server() as s:
        s.refused("/v1/completions", 400, "receipt: expected none beside resume_ids", param="receipt", prompt="A", resume_ids=[1], receipt=True)


sys.exit(attempt_all(answers_have_the_receipts_of_run, company_changes_no_receipt, conversations_have_them, answers_in_other_forms_have_them,
                     what_has_no_receipt_is_refused))
