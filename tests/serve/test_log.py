#!/usr/bin/env python3
"""The log of tblock serve: what is in it and what never is, files that are moved away, and places without room.
Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from server import MODEL, TBLOCK, Server, until
from verdicts import attempt_all

PATH = "/v1/completions"
JSON = {"Content-Type": "application/json"}
LINE = re.compile(r"(\S+) \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (.*)\n")
SECRET = 'a secret\n\x1b[2Jreq-0 GET / 200'


def ask(s, **headers):
    body = json.dumps({"prompt": SECRET, "max_tokens": 3, "user": "someone"}).encode()
    status, answer, _ = s.ask("POST", PATH, body, {**JSON, **headers})
    return status, answer["X-Request-Id"]


def lines_tell_what_was_asked_and_not_what_was_said():
    with tempfile.TemporaryDirectory() as d:
        keys = pathlib.Path(d, "keys")
        keys.write_text("the-key\n")
        with Server("--key-file", str(keys)) as s:
            good = ask(s, Authorization="Bearer the-key")
            bad = ask(s, Authorization="Bearer a-wrong-one")
            c = s.raw(b"GE\x1bT /he\xff\x1blth HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            odd = c.recv(9999)
            c.close()
    found = {m[1]: m[2] for m in map(LINE.fullmatch, s.log)}
    text = "".join(s.log)
    assert re.fullmatch(r"POST /v1/completions 200 \d+\.\d{3}s prompt \d+ cached \d+ drawn \d+", found[good[1]]), s.log
    assert bad[0] == 401 and re.fullmatch(r"POST /v1/completions 401 \d+\.\d{3}s", found[bad[1]]), s.log
    assert not any(word in text for word in ("secret", "key", "wrong", "someone", "\x1b", "\x7f")), text
    assert b"HTTP/1.1 400" in odd or re.search(r" GE\\x1bT /he\\xff\\x1blth 4\d\d ", text), (odd, text)
    with Server("--log-prompts") as s:
        asked = ask(s)[1]
    line = [m[2] for m in map(LINE.fullmatch, s.log) if m[1] == asked]
    assert len(line) == 1 and r' body {"prompt": "a secret\n\u001b[2Jreq-0 GET / 200"' in line[0], s.log


def a_file_is_opened_again():
    with tempfile.TemporaryDirectory() as d:
        log, moved = pathlib.Path(d, "log"), pathlib.Path(d, "log.1")
        log.write_text("before\n")
        with Server("--log", str(log), "--quiet") as s:
            first = ask(s)[1]
            until("the first line", lambda: log.read_text().count("\n") == 2)
            log.rename(moved)
            second = ask(s)[1]
            until("the second line", lambda: moved.read_text().count("\n") == 3)
            s.process.send_signal(signal.SIGHUP)
            until("the new file", log.exists)
            assert log.stat().st_mode & 0o777 == 0o600
            asked = ["before", first, second]

            def in_the_new_file():   # it is there a moment before lines go to it
                asked.append(ask(s)[1])
                until("its line", lambda: (moved.read_text() + log.read_text()).count("\n") == len(asked))
                return log.read_text()
            until("a line in the new file", in_the_new_file)
            assert [line.split()[0] for line in (moved.read_text() + log.read_text()).splitlines()] == asked
            shutil.rmtree(d)
            s.process.send_signal(signal.SIGHUP)   # nowhere to: it goes on in the old one
            assert ask(s)[0] == 200
            os.mkdir(d)
    assert s.log == [], s.log


def where_there_is_no_room_answers_go_on():
    with open("/dev/full", "w") as full, Server(stderr=full) as s:
        assert ask(s)[0] == 200 and ask(s)[0] == 200
    with Server("--log", "/dev/full") as s:
        assert ask(s)[0] == 200
    read, write = os.pipe()   # nobody reads until it is full
    with os.fdopen(read, "rb", buffering=0) as out:   # a text file cannot be read where nothing is there yet
        with Server(stderr=write) as s:
            os.close(write)
            for i in range(700):
                assert s.ask("GET", "/health")[0] == 200
                s.ask("GET", "/" + "x" * 120)
            os.set_blocking(read, False)
            text = out.read()
            assert 1000 < len(text) <= 1 << 16, len(text)

            def more():
                nonlocal text
                ask(s)
                text += out.read() or b""
                return re.search(rb"\n\d+ lines of the log are lost\n", text)
            until("the lost ones are counted", more)


def what_cannot_be_a_log_is_refused():
    with tempfile.TemporaryDirectory() as d:
        model = shutil.copy(MODEL, d)
        fifo = os.path.join(d, "fifo")
        os.mkfifo(fifo)
        before = pathlib.Path(model).read_bytes()
        for status, words, options in ((2, "same file", ["--log", model]), (2, "--sandbox", ["--log", "x", "--sandbox"]),
                                       (4, "--log", ["--log", d + "/none/log"]), (4, "--log", ["--log", d]),
                                       (4, "--log", ["--log", fifo])):
            done = subprocess.run([TBLOCK, "serve", model, "--port", "0", *options], capture_output=True, text=True)
            assert done.returncode == status and words in done.stderr, (options, done)
        assert pathlib.Path(model).read_bytes() == before


sys.exit(attempt_all(lines_tell_what_was_asked_and_not_what_was_said, a_file_is_opened_again, where_there_is_no_room_answers_go_on,
                     what_cannot_be_a_log_is_refused))
