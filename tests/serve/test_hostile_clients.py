#!/usr/bin/env python3
"""What strangers send to tblock serve: after each of it the server lives, and another's ids are those of `tblock run`.
  test_hostile_clients.py [--soak] [NAME...]
--soak: with 20,000 connections, which take a minute to make. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import http.client
import json
import pathlib
import re
import resource
import socket
import sys
import threading
import time

from server import PATIENCE, ROOT, Hasty, Server, run, sanitized, talking, until
from verdicts import attempt_all

PATH = "/v1/completions"
JSON = {"Content-Type": "application/json"}
LONG = json.dumps({"prompt": "wherefore" * 340000}).encode()   # one word of 3 MB: a third of a second to tokenize
ASKED = {"prompt": "ROMEO:", "seed": 7, "max_tokens": 24, "temperature": 1}
EXPECTED = run("--seed", "7", "--predict", "24", "--temp", "1", "--top-p", "1", "--top-k", "0", "--min-p", "0",
               "--repeat-penalty", "1", prompt="ROMEO:")


SOAK = "--soak" in sys.argv
NAMES = [word for word in sys.argv[1:] if word != "--soak"]


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
        for _ in range(20):   # a round in which this process was held up tells nothing
            found, ended = several(3, lambda: s.ask("POST", "/tokenize", LONG, JSON)[0])
            n = 0
            while not ended.is_set():
                s.get("/health")
                n += 1
            assert found == [200] * 3, found
            if n > 20:
                break
        assert n > 20, n
        alive(s)


def who_waits_to_be_read_has_a_time_limit():
    with Server("--timeout", "1") as s:
        for _ in range(20):   # until all nine come before this process is held up
            found, ended = several(9, lambda: s.ask("POST", "/tokenize", LONG, JSON))
            assert ended.wait(300)
            status = sorted(f[0] for f in found)
            assert set(status) <= {200, 503}, status
            if status[-1] == 503:
                break
        assert status[-1] == 503, status
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


# ---- What is not HTTP, or only just ------------------------------------------------------------------------------------

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = b'{"prompt": "ROMEO:"}'
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def said_to(s, data, pieces=1, wait=0.0, n=1):
    """The n first statuses of what it answers to these bytes, or all until it hangs up; what it did not read is no failure."""
    got = b""

    def statuses():
        return [int(m) for m in re.findall(rb"(?:^|\n)HTTP/1\.[01] (\d\d\d) ", got)]
    with s.raw() as c:
        c.settimeout(2 * PATIENCE)
        try:
            for i in range(pieces):
                c.sendall(data[len(data) * i // pieces:len(data) * (i + 1) // pieces])
                time.sleep(wait)
        except OSError:
            pass
        try:
            while len(statuses()) < n and (more := c.recv(1 << 16)):
                got += more
        except OSError:
            pass
    return statuses()


REQUESTS = (   # what is sent, and the statuses that may come back; 0: none, it hangs up
    (GET + b"\r\n", {200}), (GET + b"X: y\r\n" * 100000 + b"\r\n", {431, 0}), (GET + b"X: " + b"y" * 1000000 + b"\r\n\r\n", {431, 0}),
    (b"GET /" + b"x" * 1000000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", {414, 431, 0}),
    (b"GET /health?" + b"a=b&" * 2000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", {200, 414, 431, 0}),
    (b"GET /health HTTP/1.0\r\n\r\n", {403}), (b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n", {200}),
    (b"GET /health HTTP/1.1\r\n\r\n", {400, 403}), (b"GET /health\r\n\r\n", {400, 403, 0}), (b"GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n", {400, 505, 0}),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505, 0}), (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500, {400, 0}),
    (b"GET /he\0alth HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 404, 0}), (b"GET /%00health HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 404}),
    (b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", {404}), (b"GET /%2e%2e/health HTTP/1.1\r\nHost: localhost\r\n\r\n", {404}),
    (b"GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n", {400, 403, 404, 200}), (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", {404}),
    (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", {404, 405, 400}), (b"TRACE /health HTTP/1.1\r\nHost: localhost\r\n\r\n", {405}),
    (b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n", {200}), (b"HEAD /tokenize HTTP/1.1\r\nHost: localhost\r\n\r\n", {405}),
    (b"OPTIONS /tokenize HTTP/1.1\r\nHost: localhost\r\n\r\n", {204}), (b"\r\n" * 1000 + GET + b"\r\n", {200, 400, 0}), (b"\r\n", {0}),
    (GET + b"Content-Length: 5\r\n\r\nhello", {200}), (GET + b": y\r\n\r\n", {200, 400}), (GET + b"no colon\r\n\r\n", {200, 400}),
    (GET + b"Host: evil.example\r\n\r\n", {200, 400, 403}), (GET + b" folded: y\r\n\r\n", {200, 400, 403}),
    (POST + b"Content-Length: 20\r\n\r\n" + BODY, {200}), (POST + b"Content-Length: 19\r\n\r\n" + BODY, {400}), (POST + b"Content-Length: 21\r\n\r\n" + BODY, {0}),
    (POST + b"Content-Length: -1\r\n\r\n" + BODY, {400, 0}), (POST + b"Content-Length: +20\r\n\r\n" + BODY, {200, 400, 0}),
    (POST + b"Content-Length: 99999999999999999999999999\r\n\r\n" + BODY, {400, 413, 0}), (POST + b"Content-Length: 18446744073709551615\r\n\r\n", {400, 413, 0}),
    (POST + b"Content-Length: 104857600\r\n\r\n", {413}), (POST + b"Content-Length: twenty\r\n\r\n" + BODY, {400, 0}), (POST + b"\r\n" + BODY, {400}),
    (CHUNKED + b"14\r\n" + BODY + b"\r\n0\r\n\r\n", {200}), (CHUNKED + b"a;x=y\r\n" + BODY[:10] + b"\r\nA\r\n" + BODY[10:] + b"\r\n0\r\nX: y\r\n\r\n", {200}),
    (CHUNKED + b"zz\r\n" + BODY + b"\r\n0\r\n\r\n", {400, 0}), (CHUNKED + b"-14\r\n" + BODY + b"\r\n0\r\n\r\n", {400, 0}),
    (CHUNKED + b"FFFFFFFFFFFFFFFFFF\r\n" + BODY, {400, 413, 0}), (CHUNKED + b"FFFFFFFFFFFFFFFF\r\n" + BODY, {400, 413, 0}), (CHUNKED + b"13\r\n" + BODY + b"\r\n0\r\n\r\n", {400, 0}),
    (CHUNKED + b"14\r\n" + BODY, {0}), (CHUNKED + b"0\r\n\r\n", {400}), (CHUNKED + b"1" * 100000, {400, 413, 0}), (CHUNKED + b"1\r\n{\r\n" * 10000 + b"0\r\n\r\n", {400}),
    (POST + b"Transfer-Encoding: gzip\r\n\r\n" + BODY, {400, 501, 0}), (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n" + BODY + b"\r\n0\r\n\r\n", {200, 400, 0}),
    (CHUNKED + (b"100000\r\n" + b"x" * (1 << 20) + b"\r\n") * 100 + b"0\r\n\r\n", {413, 0}), (b"\xff" * 100000, {400, 414, 431, 0}), (b"", {0}),
    (POST.replace(b"POST", b"\xc3\x28"), {400, 405, 0}), (POST + b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n" + b"\x1f\x8b" + b"\0" * 18, {400}),
)


def requests_of_every_kind_are_answered_or_hung_up_on():
    wrong = []
    with Server() as patient, Hasty("--request-timeout", "1") as hasty:   # it hangs up on half ones soon
        for i, (data, expected) in enumerate(REQUESTS):
            s = hasty if 0 in expected else patient   # for between two pieces a busy machine may hold us up too
            found = said_to(s, data, 1 + i % 3 if len(data) < 1000 else 1, 0.002)
            if not set(found or [0]) <= expected:
                wrong.append((data[:120], len(data), found, expected))
            alive(s)
    assert not wrong, wrong


def requests_in_a_row_are_answered_in_order():
    """Pipelining: with bodies, which are read by other threads, between those without."""
    with Server() as s:
        whole = POST + b"Content-Length: 20\r\n\r\n" + BODY
        assert said_to(s, (whole + GET + b"\r\n" + b"HEAD /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n") * 20, 7,
                       n=60) == [200] * 60
        with s.raw() as c:
            c.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 20\r\n\r\n")
            assert c.recv(100).startswith(b"HTTP/1.1 100 "), "100 Continue"
            c.sendall(BODY)
            assert c.recv(100).startswith(b"HTTP/1.1 200 ")
        with s.raw() as c:   # nothing to wait for
            c.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 104857600\r\n\r\n")
            assert c.recv(100).startswith(b"HTTP/1.1 413 ")
        alive(s)


# ---- What is JSON, or nearly ------------------------------------------------------------------------------------------

def many_of(n, what):
    return b"[" + b",".join([what] * n) + b"]"


MILLION = 1000000
BODIES = (   # of /v1/completions
    b"[" * 100000, b'{"a":' * 100000, b'{"prompt": ' + b"[" * 100000 + b"]" * 100000 + b"}", b'{"prompt": "A", "prompt": "B"}', b"\xef\xbb\xbf{}", b"{}{}", b" " * MILLION,
    b'{"prompt": "A", "temperature": 1e999}', b'{"prompt": "A", "temperature": -1e999}', b'{"prompt": "A", "seed": 1' + b"0" * MILLION + b"}", b'{"prompt": "A", "top_p": NaN}',
    b'{"prompt": "A", "top_p": Infinity}', b'{"prompt": "A", "n": 01}', b'{"prompt": "A", "n": 1.}', b'{"prompt": "\\ud800"}', b'{"prompt": "\\udc00\\ud800"}',
    b'{"prompt": "\xed\xa0\x80"}', b'{"prompt": "\xc0\x80"}', b'{"prompt": "\xf4\x90\x80\x80"}', b'{"prompt": "a\0b"}', b'{"prompt": "\n"}', b"{'prompt': 'A'}", b'{"prompt": "A",}',
    b'{"prompt": "A", "stop": ' + many_of(MILLION, b'"never"') + b"}", b'{"prompt": ' + many_of(MILLION, b"1") + b"}", b'{"prompt": ' + many_of(MILLION, b'"A"') + b"}",
    b'{"prompt": ' + many_of(MILLION, b"[1]") + b"}", b'{"prompt": "A", "resume_ids": ' + many_of(MILLION, b"1") + b"}", b'{"prompt": "' + b"A" * 10 * MILLION + b'"}',
    b'{"prompt": "A", "logit_bias": {' + b",".join(b'"%d": 1' % i for i in range(MILLION)) + b"}}", b"{" + b",".join(b'"k%d": 1' % i for i in range(MILLION)) + b"}",
)


def json_of_every_kind_is_refused():
    with Server() as s:
        for body in BODIES:
            begun = time.monotonic()
            status, _, data = s.ask("POST", PATH, body, JSON)
            assert status == 400 and json.loads(data)["error"]["message"], (body[:100], len(body), status, data[:500])
            assert time.monotonic() - begun < 60, body[:100]
        alive(s)
        for body in (b'{"prompt": "\\u0000", "max_tokens": 1}', b'{"prompt": "A", "temperature": -0, "max_tokens": 1}',
                     b'{"prompt": "\\ud83d\\ude00", "max_tokens": 1, "seed": 3.0, "top_k": -0.0}'):
            assert s.ask("POST", PATH, body, JSON)[0] == 200, body
        messages = b'{"messages": ' + many_of(100000, b'{"role": "user", "content": "A"}') + b"}"
        assert s.ask("POST", "/v1/chat/completions", messages, JSON)[0] == 400
        alive(s)


def values_of_a_body_share_a_bound():
    """The worst bodies, against a bound of 16 bytes of --max-body for each value: refused at once; just below, their memory is bounded."""
    def peak(s):
        return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path("/proc/%d/status" % s.process.pid).read_text())[1]) / 1024

    def bodies(n):
        call = b'{"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "a", "arguments": "{\\"a\\": %s}"}}]}, ' \
               b'{"role": "user", "content": "A"}], "tools": [{"type": "function", "function": {"name": "a"}}], "max_tokens": 1}'
        for path, body in (("/v1/completions", b'{"prompt": %s}'), ("/v1/embeddings", b'{"input": %s}'), ("/v1/chat/completions", b'{"messages": %s}'),
                           ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "A", "x": %s}], "max_tokens": 1}'),
                           ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "A"}], "tools": %s}'),
                           ("/v1/chat/completions", b'{"messages": [{"role": "user", "content": "A"}], "chat_template_kwargs": {"a": %s}, "max_tokens": 1}'),
                           ("/v1/responses", b'{"input": %s}'), ("/v1/messages", b'{"max_tokens": 1, "messages": [{"role": "user", "content": %s}]}'),
                           ("/v1/chat/completions", call)):
            yield path, body % many_of(n, b"{}" if b'"messages": %' in body or b'"input": %' in body else b"1")

    most = 16 * MILLION // 16   # of --max-body, less than it has
    with talking() as s:
        for path, body in bodies(most):
            assert s.ask("POST", path, body, JSON)[0] in (200, 400), path
        assert 40 < peak(s) < 300 or sanitized(), peak(s)   # they keep what is freed
        held = peak(s)
        for path, body in bodies(5 * MILLION):
            begun = time.monotonic()
            status, _, data = s.ask("POST", path, body, JSON)
            said = json.loads(data)["error"]["message"]
            assert status == 400 and re.search("at most 1048576 values.*, found more", said), (path, status, data[:300])
        assert peak(s) < held + 60 or sanitized(), (peak(s), held)
        s.post(PATH, prompt="A", max_tokens=1)
    with Server("--max-body", "1") as s:
        s.refused(PATH, 400, "at most 65536 values", None, prompt=[1] * 70000)


SCHEMAS = ({"type": "string", "pattern": "((a|b){0,300}){0,300}"}, {"type": "string", "pattern": "(" * 50000}, {"type": "string", "pattern": "(a*)*b" * 2000},
           {"enum": ["x%d" % i for i in range(100000)]}, {"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
           {"type": "string", "minLength": 10**9, "maxLength": 10**9}, {"type": "array", "minItems": 10**9, "items": {}}, {"type": "integer", "minimum": 10**300},
           {"properties": {"k%d" % i: {"type": "string"} for i in range(3000)}, "type": "object"}, {"oneOf": [{"const": i} for i in range(20000)]}, True, False, {}, [], 3,
           {"anyOf": [{"type": "array", "items": {"$ref": "#"}}] * 50}, {"type": "object", "patternProperties": {"^(a+)+$": {}}}, {"not": {}})


def schemas_of_every_kind_take_bounded_time():
    with Server("--chat-format", "alpaca") as s:
        for schema in SCHEMAS:
            begun = time.monotonic()
            status, data = s.send("/v1/chat/completions", {"messages": [{"role": "user", "content": "A"}], "max_tokens": 2,
                                                           "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}})
            assert status in (200, 400), (str(schema)[:200], status, data)
            assert time.monotonic() - begun < 60, str(schema)[:200]
        alive(s)


VALUES = [json.loads(v) for v in ("-1", "-0.0", "0", "0.5", "1e308", "-1e308", "5e-324", "9007199254740993", "9223372036854775808", "-9223372036854775809",
                                  "18446744073709551616", "1" + "0" * 40, "2147483648", "true", '""', '"x"', '"\\u0000"', '"\\ud7ff\\ufffd"', "[]", "[[]]", "[null]",
                                  "[-1]", "[1e300]", "{}", '{"a": 1}', '{"0": 1e300}', '{"type": 1}', '["a", {"type": []}]', "[{}]")] + [[1] * 1000, "y" * 10000]
MESSAGES = [{"role": "user", "content": "A"}]
PATHS = {"/v1/completions": {"prompt": "A", "max_tokens": 1}, "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 1}, "/apply-template": {"messages": MESSAGES},
         "/tokenize": {"prompt": "A"}, "/detokenize": {"tokens": [1]}, "/v1/responses": {"input": "A", "max_output_tokens": 1}, "/v1/embeddings": {"input": "A"},
         "/v1/rerank": {"query": "A", "documents": ["A"]},
         "/v1/messages": {"messages": MESSAGES, "max_tokens": 1}, "/v1/messages/count_tokens": {"messages": MESSAGES}}


def every_value_of_every_field_has_a_clear_answer():
    """Fields are those of the tables in the sources; which of them a path knows, it says itself."""
    names = {name for f in (ROOT / "src/serve").glob("*.c") for name in re.findall(r'(?:\{ (?="\w+",\s*FIELD_)|FIELD\(|FIELD_IN\()"(\w+)"', f.read_text())}
    rows = re.sub(r"\s*\\\s*", " ", (ROOT / "src/base/sampling.h").read_text())
    sampling = re.findall(r'"(\w+)", "\w+", "[^"]*"\)', rows)
    assert "temperature" in sampling and "min_tokens" in sampling, sampling
    names = sorted(names | set(sampling))
    known = set(re.findall(r'\{ "POST", *"([^"]+)"', (ROOT / "src/serve/serve.c").read_text()))
    assert len(names) > 40 and known <= set(PATHS), (names, known)
    with Server("--chat-format", "alpaca") as s:
        c, n = s.connect(), 0

        def ask(path, body):
            c.request("POST", path, json.dumps(body).encode(), JSON)
            answer = c.getresponse()
            return answer.status, answer.read()
        for path in sorted(known):
            good = 400 if path == "/v1/rerank" else 200   # this model has none of the tokens that it needs
            assert ask(path, PATHS[path])[0] == good, (path, ask(path, PATHS[path]))
            for name in names:
                if b"unknown parameter" in ask(path, {**PATHS[path], name: None})[1]:
                    continue
                for value in VALUES:
                    status, data = ask(path, {**PATHS[path], name: value})
                    n += 1
                    assert status in (200, 400, 404), (path, name, value, status, data)
                    assert status == 200 or json.loads(data)["error"]["message"], (path, name, value, data)
        c.close()
        assert n > 1500, n
        alive(s)


# ---- Clients that come, stay and go -------------------------------------------------------------------------------------

def idle(s):
    m = s.metrics()
    return m["tblock_requests_running"] + m["tblock_requests_waiting"] + m["tblock_body_bytes"] == 0


def who_leaves_in_any_phase_is_forgotten():
    slow = {"prompt": "KING RICHARD III:\nNow is the winter", "max_tokens": 200, "temperature": 1, "n": 4, "logprobs": 5}
    texts = {kind: json.dumps(dict(slow, stream=kind == "stream")).encode() for kind in ("whole", "stream")}
    head = b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with Server("--parallel", "2") as s:
        for kind, body in texts.items():
            whole = head % len(body) + body
            for cut in (1, 30, len(whole) - len(body) - 1, len(whole) - len(body), len(whole) - 1):   # headers, body
                s.raw(whole[:cut]).close()
            for wait in (0, 0.001, 0.003, 0.01, 0.03, 0.1):   # to be read, queue, prefill, decode
                held = [s.raw(whole) for _ in range(6)]
                time.sleep(wait)
                for c in held:
                    c.close()
            for how in (socket.SHUT_WR, socket.SHUT_RDWR):
                with s.raw(whole) as c:
                    c.shutdown(how)
            with s.raw(whole) as c:   # in the answer
                c.recv(1)
            begun = time.monotonic()
            until("all are forgotten", lambda: idle(s))
            assert time.monotonic() - begun < 50, "only the time for a request did it"
            alive(s)
        with s.raw(GET + b"\r\n") as c:   # after it
            assert c.recv(1000).startswith(b"HTTP/1.1 200")
        alive(s)


def who_never_reads_keeps_no_place():
    """2 texts at once: both are of a client that takes nothing of megabytes."""
    body = json.dumps({"prompt": "A", "max_tokens": 250, "n": 100, "logprobs": 20, "stream": True, "temperature": 1}).encode()
    head = b"POST " + PATH.encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with Hasty("--parallel", "2", "--request-timeout", "2") as s:
        with socket.socket() as c:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.connect((s.host, s.port))
            c.sendall(head % len(body) + body)
            def begun(m):   # or over already, where this process was held up
                return m["tblock_requests_running"] == 2 or m["tblock_requests_cancelled_total"] > 0
            until("it has begun", lambda: begun(s.metrics()))
            alive(s)
            until("it is forgotten", lambda: idle(s))


def more_clients_than_descriptors():
    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 21000 if SOAK else 5000)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        for connections, n in (("1000", 3000), ("20000", most - 200)):   # fewer than descriptors, and more
            with Server("--connections", connections) as s:
                resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
                early = s.connect()
                early.request("GET", "/health")
                assert early.getresponse().read()
                held = []
                for _ in range(n):
                    c = socket.socket()
                    c.setblocking(False)
                    c.connect_ex((s.host, s.port))
                    held.append(c)
                early.request("POST", PATH, json.dumps({**ASKED, "return_token_ids": True}).encode(), JSON)
                found = json.loads(early.getresponse().read())
                assert found["choices"][0]["token_ids"] == EXPECTED["ids"], found
                for c in held:
                    c.close()
                alive(s)
                early.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


CLAIMS = (values_of_a_body_share_a_bound, who_reads_a_long_request_holds_no_one_up, who_waits_to_be_read_has_a_time_limit,
          who_leaves_while_it_waits_to_be_read_is_forgotten, bodies_share_a_bound,
          requests_of_every_kind_are_answered_or_hung_up_on, requests_in_a_row_are_answered_in_order, json_of_every_kind_is_refused,
          schemas_of_every_kind_take_bounded_time, every_value_of_every_field_has_a_clear_answer,
          who_leaves_in_any_phase_is_forgotten, who_never_reads_keeps_no_place, more_clients_than_descriptors)
sys.exit(attempt_all(*(claim for claim in CLAIMS if not NAMES or claim.__name__ in NAMES)))
