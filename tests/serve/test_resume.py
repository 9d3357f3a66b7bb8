#!/usr/bin/env python3
"""A stream that breaks goes on at another server: the client of docs/examples/serve, whose joined answers are those of streams that
never broke, wherever they break. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import http.client
import http.server
import json
import random
import sys
import threading

from server import HELLO, MODEL, ROOT, TOOLS, Server, run, talking
from verdicts import attempt_all

sys.path.insert(0, str(ROOT / "docs/examples/serve"))
import resume  # noqa: E402

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
SAID = '<think>hm</think>Well: <tool_call>{"name": "look_up", "arguments": {"word": "rose", "of": "spring"}}</tool_call>'


class Breaker:
    """A proxy that lets so many bytes of a stream through and hangs up; the next connection goes to the next server."""

    def __init__(self, *servers):
        self.servers, self.budgets, self.n = servers, [], 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(handler):
                self.relay(handler)

            def log_message(handler, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.http.server_port
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})

    def relay(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        to = self.servers[self.n % len(self.servers)]
        budget = self.budgets[self.n] if self.n < len(self.budgets) else None
        self.n += 1
        connection = to.connect()
        connection.request("POST", handler.path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        handler.send_response(answer.status)
        handler.end_headers()
        handler.wfile.write(answer.read(budget))   # None: all of it
        connection.close()

    def joined(self, request, budgets, answer=None):
        """The answer behind a break after each of so many bytes."""
        self.budgets, self.n, last = budgets, 0, None
        for last in resume.stream(self.url, request, answer):
            pass
        assert last.breaks == min(self.n, len(budgets)) == self.n - 1, (last.breaks, self.n)
        return last

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


def told(a):
    return a.text, a.reasoning, a.calls, a.ids, a.log_probs, a.reason, a.seed


def given(answer):
    """One that is there already."""
    if answer is None:
        return None
    a = resume.Answer()
    a.ids, a.seed = list(answer[0]), answer[1]
    return a


def goes_on(servers, path, request, answer=None, seed=1):
    """Break the stream of a request anywhere, several times: the joined answer is the same. Returns it."""
    rng = random.Random(seed)
    with Breaker(*servers) as breaker:
        whole = breaker.joined(request, [], given(answer))
        body = {**request, "stream": True, "return_token_ids": True}
        if answer:
            body.update(resume_ids=answer[0], seed=answer[1])
        _, _, data = servers[0].ask("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        for _ in range(12):
            # No budget may be the whole stream, nor so small that nothing is drawn: the seed comes with the first event.
            budgets = [rng.randrange(400, len(data) * 3 // 4)] + [rng.randrange(1, 2000) for _ in range(rng.randrange(3))]
            budgets = budgets[:1] if whole.ids and len(whole.ids) < 20 else budgets
            found = breaker.joined(request, budgets, given(answer))
            assert told(found) == told(whole), (budgets, told(found), told(whole))
    return whole


def completions_do():
    settings = dict(prompt="First Citizen:\nBefore we proceed", max_tokens=60, temperature=1, seed=7)
    with Server() as one, Server("--threads", "1") as other:
        plain = goes_on((one, other), COMPLETIONS, settings)
        expected = run("--predict", "60", "--temp", "1", "--seed", "7", "--top-k", "0", "--top-p", "1", "--min-p", "0",
                       "--repeat-penalty", "1", prompt=settings["prompt"])
        assert (plain.text, plain.ids) == (expected["text"], expected["ids"]), (plain.text, expected)
        goes_on((one, other), COMPLETIONS, dict(settings, presence_penalty=0.7, repetition_penalty=1.1, logit_bias={"10": 2}, top_k=40))
        probs = goes_on((one, other), COMPLETIONS, dict(settings, logprobs=2))
        assert probs.text == plain.text and len(probs.log_probs) == 60
        stop = plain.text[30:38]   # several tokens: breaks come between those that spell it
        stopped = goes_on((one, other), COMPLETIONS, dict(settings, stop=stop, logprobs=0))
        assert stopped.reason == "stop" and stopped.text == plain.text[:plain.text.index(stop)], (stopped.text, stop)


def offsets_count_from_the_beginning():
    settings = dict(prompt="ROMEO:", max_tokens=20, temperature=1, seed=3, logprobs=1, return_token_ids=True)
    with Server() as s:
        for echo in (False, True):
            whole = s.post(COMPLETIONS, echo=echo, **settings)["choices"][0]
            n = len(s.post("/tokenize", prompt="ROMEO:")["tokens"]) if echo else 0
            for cut in (1, 5, 19):
                rest = s.post(COMPLETIONS, echo=echo, resume_ids=whole["token_ids"][:cut], **settings)["choices"][0]
                assert rest["text"] == whole["text"] and rest["token_ids"] == whole["token_ids"][cut:], (echo, cut, rest)
                for key, values in whole["logprobs"].items():
                    assert rest["logprobs"][key] == values[:n] + values[n + cut:], (echo, cut, key, rest, whole)


def conversations_do():
    settings = dict(messages=HELLO, max_tokens=60, temperature=1, seed=5)
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}
    with talking() as one, talking("--threads", "1") as other:
        plain = goes_on((one, other), CHAT, settings)
        goes_on((one, other), CHAT, dict(settings, logprobs=True, top_logprobs=3, stop=plain.text[20:27]))
        fit = goes_on((one, other), CHAT, dict(settings, max_tokens=120, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}}))
        assert set(json.loads(fit.text)) == {"name", "age"} and fit.reason == "stop", fit.text
        ids = one.post("/tokenize", prompt=SAID)["tokens"]
        for n in (len(ids), len(ids) - 12, 8):   # behind a call, in its arguments, in reasoning
            said = goes_on((one, other), CHAT, dict(settings, tools=TOOLS, max_tokens=len(ids) + 20), (ids[:n], 5), n)
            assert said.reasoning and said.ids[:n] == ids[:n]
            if n == len(ids):
                assert said.reasoning == "hm" and said.calls[0]["name"] == "look_up" and len(said.calls[0]["id"]) == 9, told(said)
                assert json.loads(said.calls[0]["arguments"]) == {"word": "rose", "of": "spring"}


def one_that_has_ended_ends_again():
    """A stream that broke between its last token and its end."""
    with Server() as s:
        for settings in (dict(max_tokens=9), dict(max_tokens=60, stop=" the")):
            settings.update(prompt="ROMEO:", seed=2, temperature=1, return_token_ids=True)
            whole = s.post(COMPLETIONS, **settings)
            again = s.post(COMPLETIONS, resume_ids=whole["choices"][0]["token_ids"], **settings)
            assert dict(whole["choices"][0], token_ids=[]) == again["choices"][0], (whole, again)
            for key in ("prompt_tokens", "completion_tokens"):
                assert whole["usage"][key] == again["usage"][key], (whole, again)


def another_model_is_not_gone_on_with():
    with Server() as one, Server("--kv-type", "q8") as other, Breaker(one, other) as breaker:
        try:
            breaker.joined(dict(prompt="ROMEO:", max_tokens=60, seed=1), [2000])
        except RuntimeError as why:
            assert "another model" in str(why), why
        else:
            raise AssertionError("an answer of two models was joined")


sys.exit(attempt_all(completions_do, offsets_count_from_the_beginning, conversations_do, one_that_has_ended_ends_again,
                     another_model_is_not_gone_on_with))
