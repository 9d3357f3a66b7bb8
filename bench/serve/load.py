#!/usr/bin/env python3
"""A load for a server in OpenAI's form (tblock serve, llama-server): streams of /v1/completions, and what their clients saw.

  load.py URL --clients 8 --requests 32 --prompt 64 --answer 256      closed loop: each client asks again when it has its answer
  load.py URL --rate 0.5 --requests 32 --prompt 64:2048               open loop: requests come when they come (Poisson)
  load.py URL --idle 1000 --pid PID                                   what streams cost that only wait

Request i is the same in every run with the same --seed, whoever sends it. A length A:B is drawn so that its logarithm is even. Prompts
are arrays of random ids, or pieces of --text FILE. An answer has exactly its length when no token may end it: --eos names those, and
gets a bias of -1000 on each; usage in the last event is checked. With --disturb N, one more client sends prompts of N tokens, and its
tokens do not count. --cut ends a closed loop after so many seconds, whatever is under way; tokens count as they came.

Plain sockets and one thread: at 200 tokens/s it takes about 2% of a processor ("generator_cpu" says)."""
import argparse
import asyncio
import json
import math
import pathlib
import random
import sys
import time
import urllib.parse

FIRST_ID = 1000   # random prompts have ids from here on: no special tokens in the known vocabularies


# ---- Requests ------------------------------------------------------------------------------------------------------

def length(text):
    """"N" or "A:B"."""
    low, _, high = text.partition(":")
    low, high = int(low), int(high or low)
    if not 1 <= low <= high:
        raise argparse.ArgumentTypeError("expected N or A:B, from 1 on, found '%s'" % text)
    return low, high


def draw(rng, bounds):
    return round(math.exp(rng.uniform(math.log(bounds[0]), math.log(bounds[1]))))


class Requests:
    """The bodies of a load, by number."""

    def __init__(self, args):
        self.args, self.text = args, args.text.read_bytes().decode("utf-8", "replace") if args.text else None

    def prompt(self, rng, n):
        if self.text is None:
            return [rng.randrange(FIRST_ID, self.args.vocab) for _ in range(n)]
        at = rng.randrange(max(1, len(self.text) - 4 * n))
        return self.text[at:at + 4 * n]   # a token has about four characters

    def body(self, i, prompt=None, answer=None):
        """(the body, the length of its answer)."""
        rng = random.Random("%d/%d" % (self.args.seed, i))
        n = answer or draw(rng, self.args.answer)
        body = {"prompt": self.prompt(rng, prompt or draw(rng, self.args.prompt)), "max_tokens": n, "stream": True,
                "stream_options": {"include_usage": True}, "temperature": self.args.temperature, "seed": i, **self.args.extra}
        if self.args.eos:
            body["logit_bias"] = {id: -1000 for id in self.args.eos}
        return json.dumps(body, separators=(",", ":")).encode(), n


# ---- One request on the wire ---------------------------------------------------------------------------------------

class Stream(asyncio.Protocol):
    """Sends a request, and notes when each piece of the answer came."""

    def __init__(self, head, body):
        self.request, self.over = head % len(body) + body, asyncio.get_running_loop().create_future()
        self.begun, self.times, self.usage, self.error = time.perf_counter(), [], None, None
        self.raw, self.text, self.status, self.chunked, self.left = b"", b"", None, False, 0

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data):
        self.raw += data
        if self.status is None and not self.read_head():
            return
        if self.chunked:
            self.read_chunks()
        else:
            self.text, self.raw = self.text + self.raw, b""
        while self.status == 200 and b"\n\n" in self.text:
            event, _, self.text = self.text.partition(b"\n\n")
            self.take(event, time.perf_counter())

    def read_head(self):
        head, end, rest = self.raw.partition(b"\r\n\r\n")
        if end:
            self.status, self.raw, self.chunked = int(head.split(b" ", 2)[1]), rest, b"chunked" in head.lower()
        return bool(end)

    def read_chunks(self):
        while self.raw:
            if self.left > 2:   # data, and the line end behind it
                part = self.raw[:self.left - 2]
                self.text, self.raw, self.left = self.text + part, self.raw[len(part):], self.left - len(part)
            elif self.left:
                part = self.raw[:self.left]
                self.raw, self.left = self.raw[len(part):], self.left - len(part)
            else:
                size, end, rest = self.raw.partition(b"\r\n")
                if not end:
                    return
                self.raw, self.left = rest, int(size.split(b";")[0], 16) + 2

    def take(self, event, now):
        if not event.startswith(b"data: "):
            return   # a comment, or an error in a form of its own
        if event == b"data: [DONE]":
            self.end()
            return
        said = json.loads(event[6:])
        if "error" in said:
            self.end(said["error"].get("message", "an error without message"))
            return
        self.usage = said.get("usage") or self.usage
        if any(c.get("finish_reason") is None for c in said.get("choices", [])):
            self.times.append(now)

    def end(self, error=None):
        if not self.over.done():
            self.error = error
            self.over.set_result(None)
            self.transport.close()

    def connection_lost(self, why):
        said = self.text[:200].decode("utf-8", "replace")
        self.end("status %s: %s" % (self.status, said) if self.status != 200 else "the stream broke: %s" % (why or "no [DONE]"))


class Load:
    """One run: what was sent, and what came of it."""

    def __init__(self, args):
        url = urllib.parse.urlsplit(args.url)
        self.args, self.requests, self.host, self.port = args, Requests(args), url.hostname, url.port or 80
        key = "Authorization: Bearer %s\r\n" % args.key if args.key else ""
        self.head = ("POST /v1/completions HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/json\r\nConnection: close\r\n"
                     "%sContent-Length: %%d\r\n\r\n" % (self.host, self.port, key)).encode()
        self.done, self.errors, self.next = [], [], 0

    async def connect(self, body):
        _, stream = await asyncio.get_running_loop().create_connection(lambda: Stream(self.head, body), self.host, self.port)
        return stream

    async def one(self, i, counts=True, **shape):
        body, wanted = self.requests.body(i, **shape)
        stream = await self.connect(body)
        if counts:
            self.done.append(stream)
        late = asyncio.get_running_loop().call_later(self.args.patience, stream.end, "no end after %g seconds" % self.args.patience)
        try:
            await stream.over
        finally:
            late.cancel()
            stream.transport.abort()
        found = (stream.usage or {}).get("completion_tokens")
        if stream.error or found != wanted:
            self.errors.append(stream.error or "expected %d tokens, found %s" % (wanted, found))

    async def client(self):
        while self.next < self.args.requests:
            self.next += 1
            await self.one(self.next - 1)

    async def disturb(self):
        for i in range(1 << 30):
            await asyncio.sleep(self.args.every)
            await self.one((1 << 30) + i, counts=False, prompt=self.args.disturb, answer=1)

    async def poisson(self):
        rng, tasks = random.Random(self.args.seed), []
        for i in range(self.args.requests):
            tasks.append(asyncio.create_task(self.one(i)))
            await asyncio.sleep(rng.expovariate(self.args.rate))
        await asyncio.gather(*tasks)

    async def run(self):
        self.begun, cpu = time.perf_counter(), time.process_time()
        load = [self.poisson()] if self.args.rate else [self.client() for _ in range(self.args.clients)]
        other = asyncio.create_task(self.disturb()) if self.args.disturb else None
        try:
            await asyncio.wait_for(asyncio.gather(*load), self.args.cut or None)
        except asyncio.TimeoutError:
            pass
        self.seconds, self.cpu = time.perf_counter() - self.begun, time.process_time() - cpu
        if other:
            other.cancel()
            await asyncio.gather(other, return_exceptions=True)
        return self.result()

    def result(self):
        """What one reads; times in seconds."""
        whole = [s for s in self.done if s.usage and not s.error]
        # of a stream that was cut, the events that came: a token each, as far as servers tell them one by one
        tokens = sum(s.usage["completion_tokens"] if s.usage else len(s.times) for s in self.done)
        first = sorted(s.times[0] - s.begun for s in self.done if s.times)
        gaps = sorted(b - a for s in self.done for a, b in zip(s.times, s.times[1:]))
        return {"requests": len(whole), "errors": len(self.errors), "error": self.errors[0] if self.errors else None,
                "seconds": self.seconds, "prompt_tokens": sum(s.usage["prompt_tokens"] for s in whole), "tokens": tokens,
                "tokens_per_s": tokens / self.seconds,
                "first_p50": share(first, 0.5), "first_p95": share(first, 0.95), "first_p99": share(first, 0.99),
                "gap_p50": share(gaps, 0.5), "gap_p99": share(gaps, 0.99), "gap_max": share(gaps, 1),
                "generator_cpu": self.cpu / self.seconds, "rss_mb": rss_mb(self.args.pid)}


def share(sorted_values, part):
    """The nearest-rank quantile; None of nothing."""
    return sorted_values[max(0, math.ceil(part * len(sorted_values)) - 1)] if sorted_values else None


def rss_mb(pid):
    if not pid:
        return None
    lines = pathlib.Path("/proc/%d/status" % pid).read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


# ---- Streams that wait ---------------------------------------------------------------------------------------------

async def idle(load, n):
    """Megabytes of n streams that wait: in the queue, or for a place."""
    before, streams = rss_mb(load.args.pid), []
    for i in range(n):
        streams.append(await load.connect(load.requests.body(i)[0]))
    await asyncio.sleep(load.args.settle)
    after = rss_mb(load.args.pid)
    lost = sum(s.over.done() for s in streams)
    for s in streams:
        s.transport.abort()
    return {"idle": n, "ended": lost, "before_mb": before, "after_mb": after, "mb": after - before, "kb_each": 1024 * (after - before) / n}


# ---- The command ---------------------------------------------------------------------------------------------------

def say(r):
    if "idle" in r:
        return "%(idle)d streams wait: %(before_mb).1f MB before, %(after_mb).1f MB with them, %(kb_each).1f kB each; %(ended)d ended" % r
    ms = {k: "-" if v is None else "%.0f" % (1000 * v) for k, v in r.items() if k[:5] == "first" or k[:3] == "gap"}
    return ("%(requests)d requests, %(errors)d errors, %(tokens)d tokens in %(seconds).1f s: %(tokens_per_s).1f tokens/s\n" % r
            + "first token   p50 %(first_p50)s  p95 %(first_p95)s  p99 %(first_p99)s ms\n" % ms
            + "between       p50 %(gap_p50)s  p99 %(gap_p99)s  max %(gap_max)s ms\n" % ms
            + "this program  %.1f%% of a processor" % (100 * r["generator_cpu"]) + ("\nfirst error   %s" % r["error"] if r["error"] else ""))


def read_args(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="as http://127.0.0.1:8080")
    parser.add_argument("--clients", type=int, default=8, help="of a closed loop (default: %(default)s)")
    parser.add_argument("--rate", type=float, help="requests a second of an open loop")
    parser.add_argument("--requests", type=int, default=32, help="(default: %(default)s)")
    parser.add_argument("--cut", type=float, help="seconds")
    parser.add_argument("--prompt", type=length, default=(64, 64), help="tokens: N or A:B (default: 64)")
    parser.add_argument("--answer", type=length, default=(256, 256), help="tokens: N or A:B (default: 256)")
    parser.add_argument("--disturb", type=int, metavar="N", help="prompts of N tokens from one more client")
    parser.add_argument("--every", type=float, default=1, help="seconds between them (default: %(default)s)")
    parser.add_argument("--idle", type=int, metavar="N", help="open N streams and measure the memory of --pid")
    parser.add_argument("--settle", type=float, default=2, help="seconds before memory is read again (default: %(default)s)")
    parser.add_argument("--pid", type=int, help="of the server: its memory is told")
    parser.add_argument("--vocab", type=int, default=100000, help="ids of prompts are below it (default: %(default)s)")
    parser.add_argument("--text", type=pathlib.Path, metavar="FILE", help="prompts are pieces of it")
    parser.add_argument("--eos", type=lambda s: s.split(","), default=[], metavar="ID,ID", help="tokens that must not end an answer")
    parser.add_argument("--temperature", type=float, default=0, help="(default: %(default)s)")
    parser.add_argument("--extra", type=json.loads, default={}, metavar="JSON", help="more members of each request")
    parser.add_argument("--key", help="that the server asks for")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--patience", type=float, default=600, help="seconds for a request (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(words)
    if args.idle and not args.pid:
        parser.error("--idle: expected --pid beside it")
    return args


def measure(args):
    async def task():
        load = Load(args)
        return await (idle(load, args.idle) if args.idle else load.run())
    return asyncio.run(task())


def main():
    args = read_args()
    try:
        result = measure(args)
    except OSError as why:
        sys.exit("load: %s: %s" % (args.url, why))
    print(json.dumps(result) if args.json else say(result), flush=True)
    sys.exit(1 if result.get("errors") else 0)


if __name__ == "__main__":
    main()
