#!/usr/bin/env python3
"""Which prompt is read first, over a model that is slow enough to see it. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import concurrent.futures
import re
import sys

from server import Server, until
from tokens_model import model_of
from verdicts import attempt_all

SHAPE = {"d_model": 512, "n_layers": 8, "heads": 8, "kv_heads": 2, "head_dim": 64, "d_ff": 2048, "n_ctx": 4096}
LONG, SHORT = 2500, 100


def ids(n, seed):
    return [(seed * 7919 + i * 104729) % 251 for i in range(n)]


def generate(s, prompt):
    return s.post("/v1/completions", prompt=prompt, max_tokens=2, temperature=0, return_token_ids=True)["choices"][0]["token_ids"]


def ended(s):
    """The lengths of prompts, in the order in which their answers ended: what the server's log has, however late a client is."""
    return [int(m[1]) for m in map(re.compile(r" prompt (\d+) ").search, s.log) if m]


def a_short_prompt_overtakes_a_long_one():
    folder, model = model_of(["<end>"], shape=SHAPE)
    with folder, concurrent.futures.ThreadPoolExecutor(1) as pool:
        with Server("--parallel", "2", "--threads", "1", "--cache", "0", model=model) as s:
            generate(s, ids(SHORT, 9))   # what a token costs is known
            for attempt in range(20):   # where this process is held up, the long one has been read before the short one is asked for
                long = pool.submit(generate, s, ids(LONG, 1))
                until("the long one is read", lambda: s.metrics()["tblock_requests_running"] or long.done())
                found = [generate(s, ids(SHORT, 2)), long.result()]
                until("both are in the log", lambda: len(ended(s)) == 3 + 2 * attempt)
                if ended(s)[-2:] == [SHORT, LONG]:
                    break
            assert ended(s)[-2:] == [SHORT, LONG], "the long prompt was read first"
            assert found == [generate(s, ids(SHORT, 2)), generate(s, ids(LONG, 1))], "other ids than alone"


sys.exit(attempt_all(a_short_prompt_overtakes_a_long_one))
