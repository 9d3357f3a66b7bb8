#!/usr/bin/env python3
"""One server under a mixed load: all kinds of requests at once, whole and as streams, and clients that leave. Every answer is that of
the same request alone. Ends after --requests or --seconds, whichever comes first. For servers with sanitizers (sanitized.sh): a leak or
a race gives the server a status that fails the test. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import argparse
import random
import sys
import threading
import time

from server import HELLO, MODEL, Server, until
from verdicts import attempt_all

CLIENTS = 8
KV_MB = 4
CHANGING = ("id", "created", "created_at", "completed_at", "usage", "item_id")   # of an answer: not what it says
TEXTS = ["ROMEO:", "First Citizen:\nBefore we proceed", "KING RICHARD III:\nNow is the", "A", "To be, or not to be, that is the question: " * 3]


def kinds(rng, n):
    """Requests by path, each with a seed: the second answer is the first."""
    for i in range(n):
        drawn = {"temperature": rng.choice([0, 0.7, 1.2]), "seed": rng.randrange(1 << 40)}
        words, most, stream = rng.choice(TEXTS), rng.randint(1, 50), {"stream": True} if rng.random() < 0.5 else {}
        yield (
            ("/v1/completions", dict(drawn, **stream, prompt=words, max_tokens=most, return_token_ids=True, stop=rng.choice([None, "e", "\n"]))),
            ("/v1/completions", dict(drawn, prompt=[words, "JULIET:"], n=2, logprobs=3, echo=True, max_tokens=most)),
            ("/v1/chat/completions", dict(drawn, **stream, messages=HELLO, max_tokens=most, logprobs=True, top_logprobs=2)),
            ("/v1/chat/completions", dict(drawn, messages=HELLO, max_tokens=60, response_format={"type": "json_object"})),
            ("/v1/responses", dict(drawn, **stream, input=words, max_output_tokens=most)),
            ("/v1/messages", dict(drawn, **stream, messages=HELLO, max_tokens=most)),
            ("/v1/embeddings", {"input": [words, "A"], "pooling": rng.choice(["mean", "last"])}),
        )[i % 7]


def lasting(x):
    if isinstance(x, dict):
        return {k: lasting(v) for k, v in x.items() if k not in CHANGING}
    return [lasting(v) for v in x] if isinstance(x, list) else x


def texts(x):
    """All that events tell piece by piece: how it is cut may differ."""
    if isinstance(x, dict):
        return "".join(texts(v) for k, v in x.items() if k in ("choices", "delta", "text", "content", "partial_json"))
    return "".join(map(texts, x)) if isinstance(x, list) else x if isinstance(x, str) else ""


def ask(s, path, body, leave=None):
    if not body.get("stream"):
        return lasting(s.post(path, **body))
    found, last = "", None
    for i, event in enumerate(s.stream(path, **{k: v for k, v in body.items() if k != "stream"})):
        if i == leave:
            return None
        if event.get("type", "delta").rpartition(".")[2] in ("delta", "content_block_delta"):
            found += texts(event)
        last = event.get("type")
    return found, last


class Load:
    def __init__(self, server, requests, seconds):
        self.server, self.left, self.end = server, requests, time.monotonic() + seconds
        self.n = self.cut = 0
        self.lock, self.errors = threading.Lock(), []

    def client(self, which):
        rng = random.Random(which)
        while not self.errors and time.monotonic() < self.end:
            with self.lock:
                self.left -= 1
                if self.left < 0:
                    return
            (path, body), expected = rng.choice(self.alone)
            leave = rng.randint(0, 9) if rng.random() < 0.2 else None
            try:
                found = ask(self.server, path, body, leave)
                assert found is None or found == expected, "%s %s: expected %s, found %s" % (path, body, expected, found)
            except Exception as why:   # noqa: BLE001: the main thread says it
                self.errors.append(why)
            with self.lock:
                self.n, self.cut = self.n + 1, self.cut + (found is None)

    def run(self, requests):
        self.alone = [(r, ask(self.server, *r)) for r in requests]
        assert sum(len(found[0]) for (_, body), found in self.alone if body.get("stream")) > 300, "streams told nothing"
        clients = [threading.Thread(target=self.client, args=(i,)) for i in range(CLIENTS)]
        for c in clients:
            c.start()
        for c in clients:
            c.join()
        if self.errors:
            raise self.errors[0]


def answers_under_load_are_those_alone(args):
    begun = time.monotonic()
    with Server("--parallel", "6", "--cache", "3", "--kv-memory", str(KV_MB), "--chat-format", "alpaca", model=MODEL) as s:
        load = Load(s, args.requests, args.seconds)
        load.run(list(kinds(random.Random(args.seed), 42)))
        until("idle", lambda: s.metrics()["tblock_requests_running"] == s.metrics()["tblock_requests_waiting"] == 0)
        m = s.metrics()
        assert m["tblock_kv_bytes"] <= KV_MB << 20 and m["tblock_requests_total"] > 42, m
    print("   %d requests, %d left by their clients, %.0f s" % (load.n, load.cut, time.monotonic() - begun), file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300, help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    args = parser.parse_args()

    def mixed_load():
        answers_under_load_are_those_alone(args)

    sys.exit(attempt_all(mixed_load))


if __name__ == "__main__":
    main()
