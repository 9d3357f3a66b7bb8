#!/usr/bin/env python3
"""A response of tens of megabytes is written beside everything else: neither /health nor a stream waits for it. Prints "ok NAME",
"FAIL NAME: why" or "skip NAME: why"."""
import json
import sys
import threading
import time

from server import HELLO, sanitized, talking
from verdicts import Skip, attempt_all

CHAT = "/v1/chat/completions"
MANY = dict(messages=HELLO, n=128, max_tokens=150, logprobs=True, top_logprobs=20, seed=1)


def longest(times):
    return max(b - a for a, b in zip(times, times[1:]))


def nobody_waits_for_a_long_response():
    """Writing takes about half of all its time: the longest silence of others is a small part of that."""
    if sanitized():
        raise Skip("a sanitizer: writing takes no such part of the time")
    with talking() as s:
        found, healthy, told = [], [time.monotonic()], [time.monotonic()]

        def ask():
            begun = time.monotonic()
            status, _, data = s.ask("POST", CHAT, json.dumps(MANY).encode(), {"Content-Type": "application/json"})
            found.append((status, data, time.monotonic() - begun))

        def listen():
            while not found:
                told[-1] = time.monotonic()   # between two streams anything may come
                for _ in s.stream("/v1/completions", prompt="ROMEO:", max_tokens=200, seed=3):
                    told.append(time.monotonic())
        threads = [threading.Thread(target=f) for f in (ask, listen)]
        [t.start() for t in threads]
        while not found:
            assert s.ask("GET", "/health")[0] == 200
            healthy.append(time.monotonic())
            time.sleep(0.005)
        [t.join() for t in threads]
        status, data, seconds = found[0]
        assert status == 200 and len(data) > 20e6, (status, len(data))
        assert longest(healthy) < seconds / 5, (longest(healthy), seconds)
        assert longest(told) < seconds / 5, (longest(told), seconds)
        one = s.post(CHAT, **dict(MANY, n=2))["choices"]
        assert json.loads(data)["choices"][:2] == one, "the text depends on how many there are"


def who_leaves_while_it_is_written_costs_nothing():
    """Clients that hang up at any moment; the server goes on."""
    with talking() as s:
        body = json.dumps(dict(MANY, n=8, max_tokens=100)).encode()
        expected = s.post(CHAT, **dict(MANY, n=1, max_tokens=100))["choices"]
        for i in range(12):
            c = s.raw(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                      % (CHAT.encode(), len(body), body))
            time.sleep(0.03 * i)
            c.close()
        assert s.post(CHAT, **dict(MANY, n=1, max_tokens=100))["choices"] == expected
        assert s.metrics()["tblock_requests_running"] == 0


sys.exit(attempt_all(nobody_waits_for_a_long_response, who_leaves_while_it_is_written_costs_nothing))
