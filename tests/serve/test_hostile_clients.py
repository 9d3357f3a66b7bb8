#!/usr/bin/env python3
"""What strangers send to tblock serve: after each of it the server lives, and another's ids are those of `tblock run`.
Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import sys
import threading

from server import Server, run, until
from verdicts import attempt

PATH = "/v1/completions"
JSON = {"Content-Type": "application/json"}
LONG = json.dumps({"prompt": "ROMEO wherefore art thou? " * 240000}).encode()   # 6 MB: a second to tokenize
ASKED = {"prompt": "ROMEO:", "seed": 7, "max_tokens": 24, "temperature": 1}
EXPECTED = run("--seed", "7", "--predict", "24", "--temp", "1", "--top-p", "1", "--top-k", "0", "--min-p", "0",
               "--repeat-penalty", "1", prompt="ROMEO:")


def alive(s):
    """It answers, and with the ids of tblock run."""
    choice = s.post(PATH, **ASKED, return_token_ids=True)["choices"][0]
    assert choice["token_ids"] == EXPECTED["ids"] and choice["text"] == EXPECTED["text"], (choice, EXPECTED)


def several(n, what):
    """The results of what(), called n times at once; and an event for their end."""
    found, ended = [], threading.Event()

    def one():
        found.append(what())
        if len(found) == n:
            ended.set()
    threads = [threading.Thread(target=one, daemon=True) for _ in range(n)]
    for t in threads:
        t.start()
    return found, ended


def who_reads_a_long_request_holds_no_one_up():
    with Server() as s:
        found, ended = several(3, lambda: s.ask("POST", "/tokenize", LONG, JSON)[0])
        n = 0
        while not ended.is_set():
            s.get("/health")
            n += 1
        assert found == [200] * 3 and n > 20, (found, n)
        alive(s)


def who_waits_to_be_read_has_a_time_limit():
    with Server("--timeout", "1") as s:
        found, ended = several(6, lambda: s.ask("POST", "/tokenize", LONG, JSON))
        assert ended.wait(300)
        status = sorted(f[0] for f in found)
        assert status[-1] == 503 and set(status) <= {200, 503}, status
        late = [f for f in found if f[0] == 503][0]
        assert b"more than 1 seconds" in late[2] and late[1]["Retry-After"] == "1", late
        alive(s)


def who_leaves_while_it_waits_to_be_read_is_forgotten():
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with Server("--max-body", "11") as s:
        for _ in range(3):
            held = [s.raw(head % len(LONG) + LONG) for _ in range(10)]
            for c in held:
                c.close()
        alive(s)


def bodies_share_a_bound():
    """16 bodies of the greatest size: 16 MB here."""
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with Server("--max-body", "1") as s:
        body = b'{"prompt": "' + b"x" * ((1 << 20) - 14) + b'"}'
        assert len(body) == 1 << 20
        held = [s.raw(head % len(body) + body[:-2]) for _ in range(16)]
        until("the bodies are there", lambda: s.metrics()["tblock_body_bytes"] == 16 * (len(body) - 2))
        status, headers, data = s.ask("POST", "/tokenize", b'{"prompt": "%s"}' % (b"y" * 1000), JSON)
        assert status == 503 and headers["Retry-After"] == "1" and b"at most 16 MB" in data, (status, data)
        for c in held:
            c.sendall(body[-2:])
        for c in held:
            assert c.recv(12) == b"HTTP/1.1 200"
            c.close()
        alive(s)


for test in (who_reads_a_long_request_holds_no_one_up, who_waits_to_be_read_has_a_time_limit,
             who_leaves_while_it_waits_to_be_read_is_forgotten, bodies_share_a_bound):
    attempt(test.__name__, test)
sys.exit(0)
