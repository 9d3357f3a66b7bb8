#!/usr/bin/env python3
"""Two servers behind HAProxy with the settings of docs/examples/serve: one is killed in mid-stream, and the client of the examples
goes on at the other. The joined text and ids are those of tblock run. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
from server import HELLO, PATIENCE, ROOT, Server, run  # noqa: E402
from verdicts import Skip, attempt_all  # noqa: E402

sys.path.insert(0, str(ROOT / "docs/examples/serve"))
import resume  # noqa: E402

HAPROXY = shutil.which("haproxy") or shutil.which("/usr/sbin/haproxy")
OPTIONS = "--chat-format", "alpaca"
LONG = dict(prompt="ROMEO:", max_tokens=240, temperature=1, seed=11)
TALK = dict(messages=HELLO, max_tokens=200, temperature=1, seed=12, logprobs=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Replica:
    """A server that may be killed, and come back at the same port."""

    def __init__(self):
        self.server = Server(*OPTIONS)

    def end(self, how):
        s = self.server
        s.process.send_signal(how)
        s.process.wait(PATIENCE)
        s.reader.join()
        s.process.stdout.close()
        s.process.stderr.close()

    def again(self):
        self.server = Server(*OPTIONS, port=self.server.port)

    def runs(self):
        return self.server.metrics()["tblock_requests_running"] > 0


class Proxied:
    """Two servers and HAProxy in front of them."""

    def __enter__(self):
        if not HAPROXY:
            raise Skip("no haproxy (tools/setup.sh clients installs it)")
        self.replicas = Replica(), Replica()
        self.port = free_port()
        settings = (ROOT / "docs/examples/serve/haproxy.cfg").read_text()
        for port, of in ((8080, self.port), *zip((8081, 8082), (r.server.port for r in self.replicas))):
            assert settings.count("127.0.0.1:%d" % port) == 1
            settings = settings.replace("127.0.0.1:%d" % port, "127.0.0.1:%d" % of)
        self.file = tempfile.NamedTemporaryFile("w", suffix=".cfg")
        self.file.write(settings)
        self.file.flush()
        self.process = subprocess.Popen([HAPROXY, "-db", "-f", self.file.name], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.url = "http://127.0.0.1:%d" % self.port
        end = time.monotonic() + PATIENCE
        while socket.socket().connect_ex(("127.0.0.1", self.port)):
            assert time.monotonic() < end and self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        self.process.stderr.close()
        self.file.close()
        for replica in self.replicas:
            replica.end(signal.SIGTERM)

    def asked(self, request, n):
        """The joined answer of a stream whose server is killed when n tokens have come, and whether that broke it."""
        victim, answer = None, None
        for answer in resume.stream(self.url, request):
            if not victim and len(answer.ids) >= n:
                victim = next((r for r in self.replicas if r.runs()), None)
                if victim:
                    victim.end(signal.SIGKILL)
        if victim:
            victim.again()
        return answer


def told(a):
    return a.text, a.reasoning, a.calls, a.ids, a.log_probs, a.reason


def a_killed_server_breaks_no_answer():
    """The stream of a small model may have come whole before the kill, so as often as it takes."""
    expected = run("--predict", "240", "--temp", "1", "--seed", "11", "--top-k", "0", "--top-p", "1", "--min-p", "0",
                   "--repeat-penalty", "1", prompt=LONG["prompt"])
    with Proxied() as p:
        for request in (LONG, TALK):
            *_, whole = resume.stream(p.url, request)
            assert whole.breaks == 0 and whole.reason, told(whole)
            if request is LONG:
                assert (whole.text, whole.ids) == (expected["text"], expected["ids"]), (whole.text, expected)
            broken = 0
            for attempts in range(40):
                found = p.asked(request, 1 + 7 * (attempts % 5))
                assert told(found) == told(whole), (found.breaks, told(found), told(whole))
                broken += found.breaks > 0
                if broken == 3:
                    break
            assert broken == 3, "of 40 streams, only %d broke" % broken


def one_that_is_told_to_stop_ends_what_it_began():
    """New requests go to the other one, and no answer needs a second stream."""
    with Proxied() as p:
        *_, whole = resume.stream(p.url, LONG)
        stopped, attempts = None, 0
        while not stopped:
            attempts += 1
            assert attempts <= 40, "no stream of 40 was still drawn when its first tokens came"
            for answer in resume.stream(p.url, LONG):
                if not stopped and (stopped := next((r for r in p.replicas if r.runs()), None)):
                    stopped.server.process.send_signal(signal.SIGTERM)
            assert answer.breaks == 0 and told(answer) == told(whole), (stopped, answer.breaks)
        for _ in range(5):
            *_, answer = resume.stream(p.url, LONG)
            assert answer.breaks == 0 and told(answer) == told(whole), answer.breaks
        stopped.end(signal.SIGTERM)
        stopped.again()


def the_program_prints_the_text():
    with Proxied() as p:
        *_, whole = resume.stream(p.url, LONG)
        done = subprocess.run([sys.executable, str(ROOT / "docs/examples/serve/resume.py"), p.url, json.dumps(LONG)],
                              capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout == whole.text and "240 tokens, length, 0 breaks" in done.stderr, done
        done = subprocess.run([sys.executable, str(ROOT / "docs/examples/serve/resume.py"), p.url, json.dumps({"promt": "A"})],
                              capture_output=True, text=True)
        assert done.returncode == 1 and "promt: unknown parameter" in done.stderr and "Traceback" not in done.stderr, done


sys.exit(attempt_all(a_killed_server_breaks_no_answer, one_that_is_told_to_stop_ends_what_it_began, the_program_prints_the_text))
