#!/usr/bin/env python3
"""Streams an answer of tblock serve, and goes on at another server where a stream breaks.

    resume.py URL REQUEST       the body of a request as JSON, with "messages" or a "prompt"

A stream tells the seed and the ids that were sampled. With both, any server with the same model samples
what the first one would have sampled, so the joined answer is that of a stream that never broke. URL
may be a proxy in front of several servers (haproxy.cfg). The standard library is enough."""
import http.client
import json
import sys
import time
import urllib.parse

BROKEN = (OSError, http.client.HTTPException)


class Answer:
    """What events add up to."""

    def __init__(self):
        self.ids, self.log_probs = [], []  # of all tokens, whichever server sampled them
        self.seed = self.fingerprint = self.reason = None
        self.breaks = 0
        self.begin()

    def begin(self):
        """Each stream tells the text from its beginning, in place of what the last one told."""
        self.text = self.reasoning = ""
        self.calls = []

    def take(self, event):
        if "error" in event:
            raise ConnectionError(event["error"]["message"])
        if self.fingerprint not in (None, event["system_fingerprint"]):
            raise RuntimeError("the other server has another model or other settings")
        self.seed, self.fingerprint = event["seed"], event["system_fingerprint"]
        for choice in event["choices"]:
            delta = choice.get("delta", choice)  # a completion has it all in the choice
            self.text += delta.get("content") or delta.get("text") or ""
            self.reasoning += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", []):
                self.take_call(call)
            self.ids += choice["token_ids"]
            probs = choice["logprobs"] or {}
            self.log_probs += probs.get("token_logprobs", [])
            self.log_probs += [token["logprob"] for token in probs.get("content", [])]
            self.reason = choice["finish_reason"]

    def take_call(self, delta):
        function = delta["function"]
        if delta["index"] == len(self.calls):
            self.calls.append({"id": delta["id"], "name": function["name"], "arguments": ""})
        self.calls[delta["index"]]["arguments"] += function["arguments"]


def events(url, request):
    """The events of one stream; an error where it breaks."""
    path = "/v1/chat/completions" if "messages" in request else "/v1/completions"
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=120)
    try:
        connection.request("POST", path, json.dumps(request), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status in (429, 502, 503, 504):  # full, about to stop, or a proxy found no server
            time.sleep(float(answer.headers.get("Retry-After", 1)))
            raise ConnectionError("status %d" % answer.status)
        if answer.status != 200:
            raise RuntimeError(answer.read().decode())
        for line in answer:
            if line == b"data: [DONE]\n":
                return
            if line.startswith(b"data: ") and line.endswith(b"\n"):
                yield json.loads(line[6:])
        raise ConnectionError("the stream broke")
    finally:
        connection.close()


def stream(url, request, answer=None, patience=30):
    """The answer so far, after each event, over as many streams as it takes; from one that is there
    already, if given. Gives up where no token came for so many seconds."""
    answer = answer or Answer()
    known, since = len(answer.ids), time.monotonic()
    while True:
        body = {**request, "stream": True, "return_token_ids": True}
        if answer.ids:
            body.update(resume_ids=answer.ids, seed=answer.seed)
        answer.begin()
        try:
            for event in events(url, body):
                answer.take(event)
                yield answer
            return
        except BROKEN:
            if len(answer.ids) > known:
                known, since = len(answer.ids), time.monotonic()
            if time.monotonic() > since + patience:
                raise
            answer.breaks += 1
            time.sleep(0.1)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    shown = 0
    try:
        for answer in stream(sys.argv[1], json.loads(sys.argv[2])):
            print(answer.text[shown:], end="", flush=True)
            shown = max(shown, len(answer.text))  # what is there already is not shown again
    except (RuntimeError, *BROKEN) as why:
        raise SystemExit("resume.py: %s" % why)
    print("\n%d tokens, %s, %d breaks" % (len(answer.ids), answer.reason, answer.breaks),
          file=sys.stderr)
