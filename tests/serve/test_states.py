#!/usr/bin/env python3
"""A model whose layers have a state, which cannot go back, in a server. Prints "ok NAME" or "FAIL NAME: why"."""
import concurrent.futures
import sys

from server import Server, run
from tokens_model import model_of
from verdicts import attempt_all

SHAPE = {"d_model": 48, "n_layers": 3, "heads": 4, "kv_heads": 2, "head_dim": 12, "d_ff": 64,
         "n_ctx": 512, "state_layers": [0, 2], "conv_taps": 3}
DELTA = {**SHAPE, "conv_taps": 4, "delta_heads": 4, "delta_key_heads": 2, "delta_key_dim": 8, "delta_value_dim": 20, "attn_gate": True}
ENDS = ("there", "there was", "we")
PROMPTS = ["Once upon a time " * n + end for n in (1, 4, 9) for end in ENDS]
SAMPLED = {"seed": 7, "temperature": 0.9, "max_tokens": 40, "return_token_ids": True}
SAME = "--seed 7 --temp 0.9 -n 40 --top-k 0 --top-p 1 --min-p 0".split()


def generate(s, prompt):
    """Ids, how much of the prompt was not computed again, and its length."""
    answer = s.post("/v1/completions", prompt=prompt, **SAMPLED)
    usage = answer["usage"]
    ids, details = answer["choices"][0]["token_ids"], usage["prompt_tokens_details"]
    return ids, details["cached_tokens"], usage["prompt_tokens"]


def company_and_beginnings_change_no_id():
    for shape in (SHAPE, DELTA):
        in_company(shape)


def in_company(shape):
    folder, model = model_of(["<end>"], shape=shape)
    with folder:
        alone = [run(*SAME, prompt=p, model=model)["ids"] for p in PROMPTS]
        for options in (("--parallel", "4"), ("--parallel", "2", "--cache", "0"),
                        ("--parallel", "3", "--kv-memory", "1")):
            with Server(*options, model=model) as s, concurrent.futures.ThreadPoolExecutor(6) as pool:
                found = pool.map(lambda p: generate(s, p)[0], PROMPTS * 3)
            for ids, expected, prompt in zip(found, alone * 3, PROMPTS * 3):
                assert ids == expected, (options, prompt, ids, expected)


def a_beginning_is_all_of_a_sequence_or_none():
    folder, model = model_of(["<end>"], shape=SHAPE)
    first = [1, 2, 3, 4, 5, 6]
    with folder, Server("--parallel", "2", model=model) as s:
        ids, _, _ = generate(s, first)
        _, cached, n = generate(s, [*first, *ids, 9, 9])
        assert n - 3 <= cached < n, "the next turn: %d of %d were there" % (cached, n)
        _, cached, n = generate(s, [1, 2, 3, 4, 5, 7, 7, 7])
        assert cached == 0, "another end: %d of %d were there" % (cached, n)


sys.exit(attempt_all(company_and_beginnings_change_no_id,
                     a_beginning_is_all_of_a_sequence_or_none))
