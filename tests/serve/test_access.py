#!/usr/bin/env python3
"""Who may ask tblock serve, and what it does with those who mean no good: hosts, origins, keys, bodies, half requests, clients that
leave, signals. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from server import MODEL, PATIENCE, ROOT, TBLOCK, Hasty, Server, sanitized, until
from verdicts import Skip, attempt_all

PATH = "/v1/completions"
JSON = {"Content-Type": "application/json"}


def texts_still_right(server):
    """The server lives, and its texts are what they were."""
    return server.post(PATH, prompt="ROMEO:", temperature=0, max_tokens=8)["choices"][0]["text"]


def another_name_or_page_is_refused():
    with Server("--allow-host", "models.example", "--allow-origin", "https://ok.example") as s:
        for host, status in (("127.0.0.1:%d" % s.port, 200), ("localhost:1", 200), ("[::1]:80", 200), ("models.example", 200),
                             ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("localhost.evil.example", 403), ("", 403)):
            assert s.ask("GET", "/v1/models", headers={"Host": host})[0] == status, repr(host)
        here = "127.0.0.1:%d" % s.port
        for origin, status in (("http://" + here, 200), ("https://ok.example", 200), ("https://evil.example", 403), ("null", 403)):
            found, headers, _ = s.ask("GET", "/v1/models", headers={"Host": here, "Origin": origin})
            assert found == status and headers["Access-Control-Allow-Origin"] == (origin if status == 200 else None), origin
        status, headers, _ = s.ask("OPTIONS", PATH, headers={"Origin": "https://ok.example", "Access-Control-Request-Method": "POST"})
        assert status == 204 and "Content-Type" in headers["Access-Control-Allow-Headers"], (status, headers)
    with Server("--allow-origin", "*") as s:
        assert s.ask("GET", "/v1/models", headers={"Origin": "https://any.example"})[0] == 200


def keys_are_asked_for():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write("# ours\nfirst-key\n\nsecond-key\r\n" + "k" * 600)
        f.flush()
        with Server("--key-file", f.name) as s:
            assert s.ask("GET", "/health")[0] == s.ask("GET", "/")[0] == 200 and s.ask("GET", "/props")[0] == 401
            for headers, status in (({}, 401), ({"Authorization": "Bearer first-key"}, 200), ({"x-api-key": "second-key"}, 200),
                                    ({"x-api-key": "k" * 600}, 200), ({"x-api-key": "k" * 511}, 401), ({"x-api-key": "k" * 89}, 401),
                                    ({"Authorization": "Bearer first-ke"}, 401), ({"Authorization": "Bearer first-keyfirst-key"}, 401),
                                    ({"Authorization": "Bearer "}, 401), ({"Authorization": "Basic first-key"}, 401),
                                    ({"Authorization": "Bearer # ours"}, 401), ({"x-api-key": ""}, 401)):
                found, answer, _ = s.ask("GET", "/v1/models", headers=headers)
                assert found == status, (headers, found)
                assert status != 401 or answer["WWW-Authenticate"] == "Bearer"
    done = subprocess.run([TBLOCK, "serve", MODEL, "--port", "0", "--host", "0.0.0.0"], capture_output=True, text=True)
    assert done.returncode == 2 and "--key-file" in done.stderr, done
    done = subprocess.run([TBLOCK, "serve", MODEL, "--port", "0", "--key-file", os.devnull], capture_output=True, text=True)
    assert done.returncode == 3 and "expected a key" in done.stderr, done


def bodies_are_checked():
    with Server("--max-body", "1") as s:
        for body, headers, status in ((b"{}", {}, 415), (b"{}", {"Content-Type": "text/plain"}, 415),
                                      (b"{}", {"Content-Type": "application/jsonx"}, 415), (b"", JSON, 400), (b"{", JSON, 400),
                                      (b"[]", JSON, 400), (b'{"prompt": "\xff"}', JSON, 400), (b"{}" * 5, JSON, 400),
                                      (b'{"a": 1, "a": 2}', JSON, 400), (b"[" * 100000, JSON, 400),
                                      (b'{"prompt": "' + b"x" * (1 << 20) + b'"}', JSON, 413),
                                      (b'{"stop": [' + b'"a",' * 200000 + b'"a"], "prompt": "A"}', JSON, 400)):
            try:
                found, _, data = s.ask("POST", PATH, body, headers)
            except OSError:   # it did not wait for all of a body that is too long
                assert status == 413, body[:40]
                continue
            assert found == status and "message" in json.loads(data)["error"], (body[:40], headers, found, data)
        status, _, data = s.ask("POST", PATH, b'{"prompt": "A", "max_tokens": 1}', {"Content-Type": "application/json; charset=utf-8"})
        assert status == 200, data
        assert s.ask("GET", PATH)[0] == 405 and s.ask("GET", "/no/such")[0] == 404 and s.ask("DELETE", "/health")[0] == 405
        status, _, data = s.ask("HEAD", "/health")
        assert status == 200 and data == b""
        chunks = s.connect()
        try:
            chunks.request("POST", PATH, iter([b'{"prompt": "', b"x" * (1 << 19), b"x" * (1 << 19), b'"}']), JSON, encode_chunked=True)
            assert chunks.getresponse().status == 413
        except OSError:
            pass
        chunks.close()
        assert texts_still_right(s)


def half_requests_hold_nothing_up():
    with Server("--connections", "40") as s:
        text = texts_still_right(s)
        held = [s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Ty") for _ in range(8)]
        held += [s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Content-Length: 100\r\n\r\n{") for _ in range(8)]
        garbage = [b"\0" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"A" * 100000, b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 100000,
                   b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"z" * 60000 + b"\r\n\r\n", b"\xff\xfe\r\n\r\n"]
        for data in garbage:
            try:
                one = s.raw(data)
                one.close()
            except OSError:
                pass   # it hung up before all of that was sent
        assert texts_still_right(s) == text
        for one in held:
            one.close()
        assert texts_still_right(s) == text


def who_sends_too_slowly_is_hung_up_on():
    with Hasty("--request-timeout", "1") as s:
        slow = s.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
        body = s.raw(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
        for c in (slow, body):
            c.settimeout(0.2)
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                try:
                    c.sendall(b"x")
                    if c.recv(1000) == b"":
                        break
                except socket.timeout:
                    continue
                except OSError:
                    break
            assert time.monotonic() < end, "still there"
            c.close()
        texts_still_right(s)


def who_leaves_is_forgotten():
    """In every phase: before the answer, in its middle, while waiting."""
    with Server("--parallel", "1") as s:
        text = texts_still_right(s)
        body = json.dumps({"prompt": "A", "max_tokens": 200, "temperature": 1, "seed": 1}).encode()
        streamed = json.dumps({"prompt": "A", "max_tokens": 200, "temperature": 1, "seed": 1, "stream": True}).encode()
        for i in range(60):
            one = body if i % 2 else streamed
            c = s.raw(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                      % (PATH.encode(), len(one), one))
            if i % 3 == 1:
                c.recv(100)
            c.close()
        until("the clients are forgotten", lambda: s.metrics()["tblock_requests_running"] + s.metrics()["tblock_requests_waiting"] == 0)
        assert s.metrics()["tblock_requests_cancelled_total"] > 0
        assert texts_still_right(s) == text


def a_full_queue_says_so():
    with Server("--parallel", "1", "--queue", "1") as s:
        slow = {"prompt": "A", "max_tokens": 250, "temperature": 1}
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(s.ask("POST", PATH, json.dumps(slow), JSON))) for _ in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        found = sorted(a[0] for a in answers)
        assert set(found) <= {200, 429} and 200 in found, found
        for status, headers, data in answers:
            assert status == 200 or (headers["Retry-After"] == "1" and "queue" in json.loads(data)["error"]["message"])


def more_connections_than_it_takes_wait():
    with Server("--connections", "20") as s:
        text, held = texts_still_right(s), []
        for _ in range(18):
            held.append(s.raw())
        assert texts_still_right(s) == text
        for _ in range(100):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex((s.host, s.port))
            held.append(one)
        for one in held:
            one.close()
        until("it answers again", lambda: texts_still_right(s) == text)


def it_stops_when_told():
    with Server() as s:
        events = s.stream(PATH, prompt="A", max_tokens=200, temperature=0)
        first = next(events)["choices"][0]["text"]
        s.process.send_signal(signal.SIGTERM)
        text = first + "".join(c["text"] for e in events for c in e["choices"])
        assert s.process.wait(PATIENCE) == 0
    with Server() as s:
        whole = s.post(PATH, prompt="A", max_tokens=200, temperature=0)["choices"][0]["text"]
        assert text == whole, (text, whole)
    with Server("--threads", "1", "--parallel", "64") as s:
        streams = [s.stream(PATH, prompt="A", max_tokens=250, temperature=1) for _ in range(64)]
        for events in streams:
            next(events)
        s.process.send_signal(signal.SIGINT)
        s.process.send_signal(signal.SIGTERM)   # status 0, too, where all streams have ended and the server is about to
        for events in streams:
            try:
                for _ in events:
                    pass
            except (OSError, AssertionError, ValueError, Exception):  # noqa: BLE001: cut in the middle, as told
                pass
        assert s.process.wait(PATIENCE) == 0


def given_a_socket(*options, host="127.0.0.1", listens=True, n=1):
    """Started as by systemd: the process, and the socket that it was given as descriptor 3."""
    given = socket.socket()
    given.bind((host, 0))
    if listens:
        given.listen(16)
    script = 'export LISTEN_PID=$$ LISTEN_FDS=%d; exec 3<&%d; exec "$0" "$@"' % (n, given.fileno())
    return given, subprocess.Popen(["bash", "-c", script, TBLOCK, *options], pass_fds=[given.fileno()], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)


def health(address):
    with socket.create_connection(address, PATIENCE) as c:
        c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: c.recv(1000), b""))


def it_takes_the_socket_it_is_given():
    given, p = given_a_socket("serve", MODEL, "--port", "0")
    with given:
        line, answer = p.stdout.readline(), health(given.getsockname())
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=PATIENCE)
        assert p.returncode == 0 and answer.startswith(b"HTTP/1.1 200"), answer
        assert line == "http://127.0.0.1:%d\n" % given.getsockname()[1], line
    for words, how in (("--key-file", {"host": "0.0.0.0"}),   # reached by other machines: a key is asked for
                       ("expected one socket, found 2", {"n": 2}), ("expected a socket that listens", {"listens": False})):
        given, p = given_a_socket("serve", MODEL, "--port", "0", **how)
        with given:
            _, said = p.communicate(timeout=PATIENCE)
            assert p.returncode == 2 and words in said, said


def not_sanitized():
    if sanitized():
        raise Skip("sanitizers make calls that the sandbox refuses")


def the_units_of_systemd_work():
    """The command of the service, as its socket starts it; and systemd's own opinion of the files where it is installed."""
    not_sanitized()
    folder = ROOT / "docs/examples/systemd"
    command = [line[10:] for line in (folder / "tblock.service").read_text().splitlines() if line.startswith("ExecStart=")]
    assert len(command) == 1, command
    with tempfile.TemporaryDirectory() as d:
        pathlib.Path(d, "keys").write_text("a key\n")
        name, *words = command[0].replace("%d", d).replace("/var/lib/models/model.bin", MODEL).split()
        assert name == "/usr/local/bin/tblock", name
        given, p = given_a_socket(*words)
        with given:
            line = p.stdout.readline()
            if not line and "without libseccomp" in p.stderr.read():
                raise Skip("built without libseccomp")
            answer = health(given.getsockname())
            p.send_signal(signal.SIGTERM)
            p.communicate(timeout=PATIENCE)
            assert p.returncode == 0 and answer.startswith(b"HTTP/1.1 200"), (answer, p.returncode)
    if shutil.which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *map(str, sorted(folder.glob("tblock.*")))], capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if "tblock" in line and "is not executable" not in line]
        assert not said, done.stderr


def in_the_sandbox_it_answers_alike():
    not_sanitized()
    asked = {"prompt": "ROMEO:", "seed": 3, "max_tokens": 40, "logprobs": 2}
    messages = [{"role": "user", "content": "Who art thou?"}]
    answers = []
    for options in ((), ("--sandbox",)):
        with Server("--chat-format", "alpaca", *options) as s:
            status = pathlib.Path("/proc/%d/task" % s.process.pid)
            filters = [(t / "status").read_text().split("\nSeccomp:\t")[1][0] for t in status.iterdir()]
            assert set(filters) == {"2" if options else "0"}, filters
            files = [os.readlink(f) for f in pathlib.Path("/proc/%d/fd" % s.process.pid).iterdir()]
            assert not [f for f in files if f.startswith("/proc/")], files   # such as maps: where what lies in memory
            events = [e["choices"] for e in s.stream(PATH, **asked)]
            form = {"type": "json_schema", "json_schema": {"schema": {"enum": ["yes", "no"]}}}
            answers.append((events, s.post(PATH, **asked)["choices"], s.post("/v1/chat/completions", messages=messages, seed=1,
                                                                               response_format=form)["choices"]))
    assert answers[0] == answers[1], answers


def what_cannot_listen_says_why():
    with Server() as s:
        for words, options in (("in use", ["--port", str(s.port)]), ("--host", ["--port", "0", "--host", "no.such.host.invalid"]),
                               ("--kv-memory", ["--port", "0", "--kv-memory", "1"])):
            done = subprocess.run([TBLOCK, "serve", MODEL, *options], capture_output=True, text=True)
            assert done.returncode == 2 and words in done.stderr and done.stdout == "", done


sys.exit(attempt_all(another_name_or_page_is_refused, keys_are_asked_for, bodies_are_checked, half_requests_hold_nothing_up,
                     who_sends_too_slowly_is_hung_up_on, who_leaves_is_forgotten, a_full_queue_says_so,
                     more_connections_than_it_takes_wait, it_stops_when_told, it_takes_the_socket_it_is_given,
                     the_units_of_systemd_work, in_the_sandbox_it_answers_alike, what_cannot_listen_says_why))
