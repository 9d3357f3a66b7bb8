"""A tblock serve of a test's own: started, asked, ended."""
import functools
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import Skip  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
MODEL = str(ROOT / "models/shakespeare.bin")
PATIENCE = 300   # seconds; a busy machine is no failure

# Reasoning and calls as several published families write them, in small.
TEMPLATE = """{%- if tools %}Tools: {{ tools | tojson }}
{% endif %}{%- for m in messages %}{{ '[' + m.role + ']' }}
{%- if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}
{%- for c in m.tool_calls or [] %}<tool_call>{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}</tool_call>{% endfor %}\
{{ '[/]' }}
{% endfor %}{% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}"""
TOOLS = [{"type": "function", "function": {"name": "look_up", "description": "Looks.",
                                           "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}}]
HELLO = [{"role": "user", "content": "Who art thou?"}]


class Server:
    """with Server("--parallel", "4") as s: s.post("/v1/completions", prompt="A")"""

    def __init__(self, *options, model=MODEL, env=None, port=0, stderr=subprocess.PIPE):
        self.process = subprocess.Popen([TBLOCK, "serve", model, "--port", str(port), *options], text=True, env=env,
                                        stdout=subprocess.PIPE, stderr=stderr, errors="surrogateescape")
        line = self.process.stdout.readline()
        if not line:
            said = self.process.stderr.read() if self.process.stderr else ""
            self.process.wait(PATIENCE)
            if "without libmicrohttpd" in said:
                raise Skip("built without libmicrohttpd")
            raise AssertionError("serve: %s" % said)
        self.host, port = re.fullmatch(r"http://(\S+):(\d+)\n", line).groups()
        self.port, self.log = int(port), []
        self.reader = threading.Thread(target=lambda: self.log.extend(self.process.stderr or []))
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        self.reader.join()
        self.process.stdout.close()
        if self.process.stderr:
            self.process.stderr.close()
        if kind is None:
            assert status == 0, "serve ended with %d: %s" % (status, "".join(self.log[-5:]))

    def connect(self):
        return http.client.HTTPConnection(self.host.strip("[]"), self.port, timeout=PATIENCE)

    def ask(self, method, path, body=None, headers=None):
        """Status, headers and body."""
        c = self.connect()
        c.request(method, path, body, headers or {})
        answer = c.getresponse()
        data = answer.read()
        c.close()
        return answer.status, answer.headers, data

    def get(self, path):
        status, _, data = self.ask("GET", path)
        assert status == 200, (path, status, data)
        return json.loads(data)

    def send(self, path, body, **headers):
        """Status and what the JSON says."""
        status, _, data = self.ask("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
        return status, json.loads(data)

    def post(self, path, **body):
        status, data = self.send(path, body)
        assert status == 200, (status, data)
        return data

    def refused(self, path, status, words, param=None, **body):
        found, data = self.send(path, body)
        said = data.get("error", {})
        assert found == status and words in said.get("message", "") and (param is None or said["param"] == param), \
            "expected %d '%s' (%s), found %d %s" % (status, words, param, found, data)

    def stream(self, path, **body):
        """The events of a stream, as they come."""
        c = self.connect()
        c.request("POST", path, json.dumps(dict(body, stream=True)).encode(), {"Content-Type": "application/json"})
        answer = c.getresponse()
        assert answer.status == 200, (answer.status, answer.read())
        assert answer.headers["Content-Type"].startswith("text/event-stream"), answer.headers
        yield from events(answer)
        c.close()

    def metrics(self):
        _, _, data = self.ask("GET", "/metrics")
        return {name: float(value) for name, value in (line.split(" ") for line in data.decode().splitlines()
                                                       if not line.startswith("#"))}

    def raw(self, data=b""):
        """A socket to it, to which these bytes were sent."""
        s = socket.create_connection((self.host.strip("[]"), self.port), PATIENCE)
        s.sendall(data)
        return s


class Hasty(Server):
    """One with a short --request-timeout. It hangs up on a client that a busy machine holds up before it has sent anything: that one asks again."""

    def ask(self, *given, **more):
        for left in reversed(range(10)):
            try:
                return super().ask(*given, **more)
            except (OSError, http.client.HTTPException):
                if not left or self.process.poll() is not None:
                    raise


@functools.cache
def sanitized():
    """Whether the program has a sanitizer in it: many times the time and the memory."""
    program = pathlib.Path(TBLOCK).read_bytes()
    return b"__asan_init" in program or b"__tsan_init" in program


def until(what, truth):
    end = time.monotonic() + PATIENCE
    while not truth():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def events(answer):
    """What data: lines say; an event with a name says it too."""
    name = None
    for line in answer:
        if line.startswith(b"data: ") and line != b"data: [DONE]\n":
            event, given = json.loads(line[6:]), name
            name = None
            assert given in (None, event.get("type")), (given, event)
            yield event
        elif line.startswith(b"event: "):
            name = line[7:-1].decode()
        else:
            assert line in (b"\n", b"data: [DONE]\n"), line


def run(*options, prompt, model=MODEL):
    """What tblock run says to the same, a text or ids: its JSON."""
    words = ["--special", "--prompt", prompt] if isinstance(prompt, str) else ["--ids", ",".join(map(str, prompt))]
    done = subprocess.run([TBLOCK, "run", model, "--json", *words, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def talking(*options, template=TEMPLATE, model=MODEL):
    """A server whose model talks by a template."""
    file = tempfile.NamedTemporaryFile("w", suffix=".jinja")
    file.write(template)
    file.flush()
    s = Server("--chat-format", file.name, *options, model=model)
    s.template = file
    return s
