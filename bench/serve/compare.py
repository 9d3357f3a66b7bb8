#!/usr/bin/env python3
"""tblock serve beside llama-server under the same loads, in turns; rows in bench/results, and a table.

  bench/serve/compare.py --tblock MODEL.bin --gguf MODEL.gguf --llama-server PROGRAM [--loads NAME,NAME]
  bench/serve/compare.py --table

README.md here says how llama-server is built and where the models come from. Both programs have --threads threads and as many places as
the load has clients, each with room for its longest request, and draw greedily. Before the servers, bench_batch does the same work
without one: what the loads of one length could reach."""
import argparse
import csv
import datetime
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "peers")]
import load  # noqa: E402
from peer_table import cpu_file_name, cpu_name  # noqa: E402

MIXED = ["--prompt", "64:2048", "--answer", "16:256"]
# name: (places, words of load.py)
LOADS = {
    "1 client": (1, ["--clients", "1", "--requests", "1"]),
    "4 clients": (4, ["--clients", "4", "--requests", "4"]),
    "8 clients": (8, ["--clients", "8", "--requests", "8"]),
    "16 clients": (16, ["--clients", "16", "--requests", "16", "--answer", "128"]),
    "64 clients": (64, ["--clients", "64", "--requests", "64", "--answer", "32"]),
    "8 clients, mixed": (8, ["--clients", "8", "--requests", "8", *MIXED]),
    "open, 0.5 a second": (16, ["--rate", "0.5", "--requests", "16", "--answer", "16:64"]),
    "8 clients, prompts of 2048 beside": (9, ["--clients", "8", "--requests", "8", "--answer", "96", "--disturb", "2048"]),
}
BARE = 64   # tokens of an answer that bench_batch decodes
ENDS = "128001,128008,128009"   # of Llama 3's tokenizer
COLUMNS = ["date", "cpu", "threads", "load", "program", "version", "model", "requests", "errors", "seconds", "prompt_tokens", "tokens",
           "tokens_per_s", "first_p50", "first_p95", "first_p99", "gap_p50", "gap_p99", "gap_max", "rss_mb", "generator_cpu"]


class Server:
    """One of the two programs, for one load."""

    def __init__(self, args, program, places, room):
        n, self.program = str(args.threads), program
        port = free_port()
        words = {"tblock": [str(args.build / "tblock"), "serve", args.tblock, "--port", str(port), "--parallel", str(places), "--ctx",
                            str(room), "--threads", n, "--quiet"],
                 "llama-server": [args.llama_server, "-m", args.gguf, "--port", str(port), "-np", str(places), "-c", str(places * room),
                                  "-t", n, "-tb", n, "-cram", "0", "--no-webui"]}[program]
        self.url = "http://127.0.0.1:%d" % port
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.ready():
            if self.process.poll() is not None:
                raise SystemExit("compare: status %d of: %s" % (self.process.returncode, " ".join(words)))
            time.sleep(0.1)

    def ready(self):
        try:
            return urllib.request.urlopen(self.url + "/health", timeout=5).status == 200
        except OSError:   # not there, or 503: the model is being loaded
            return False

    def ask(self, words):
        words = [self.url, "--eos", ENDS, "--pid", str(self.process.pid), *words]
        if self.program == "llama-server":
            words += ["--extra", '{"samplers": ["temperature"], "cache_prompt": false}']
        return load.measure(load.read_args(words))

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def version(program):
    done = subprocess.run([program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return re.sub(r"^version: *", "", done.stdout.splitlines()[0])


def row(args, name, program, result):
    plain = {k: "%.4f" % v if isinstance(v, float) else v for k, v in result.items() if k in COLUMNS}
    return {"date": datetime.date.today().isoformat(), "cpu": cpu_name(), "threads": args.threads, "load": name, "program": program, **plain,
            "version": version(args.llama_server if program == "llama-server" else str(args.build / "tblock")),
            "model": pathlib.Path(args.gguf if program == "llama-server" else args.tblock).name}


def bare(args, places, shape):
    """The same tokens without a server, by the rates of a part of them. A mixed load has no such number: how many draw at once
    changes."""
    if shape.prompt[0] != shape.prompt[1] or shape.rate or shape.disturb:
        return None
    done = subprocess.run([str(args.build / "bench/serve/bench_batch"), args.tblock, "--threads", str(args.threads), "--sequences", str(places),
                           "--prompt", str(shape.prompt[0]), "--answer", str(min(shape.answer[0], BARE))], stdout=subprocess.PIPE, text=True, check=True)
    rates = json.loads(done.stdout)
    seconds = places * (shape.prompt[0] / rates["prefill_tok_per_s"] + shape.answer[0] / rates["decode_tok_per_s"])
    return {"seconds": seconds, "tokens": places * shape.answer[0], "tokens_per_s": places * shape.answer[0] / seconds}


def measure(args, name):
    places, words = LOADS[name]
    shape = load.read_args(["-", *words])
    room = max(shape.prompt[1], shape.disturb or 0) + shape.answer[1] + 8
    alone = bare(args, places, shape)
    if alone:
        yield row(args, name, "no server", alone)
    for program in ("tblock", "llama-server") if args.llama_server else ("tblock",):
        server = Server(args, program, places, room)
        try:
            server.ask(["--requests", "1", "--prompt", "64", "--answer", "4", "--seed", "0"])   # touches the pages
            yield row(args, name, program, server.ask(words))
        finally:
            server.close()


def say(r):
    ms = lambda key: "%6.0f" % (1000 * float(r[key])) if r.get(key) else "     -"
    print("%-34s %-13s %7.1f tokens/s  first %s %s ms  next %s %s %s ms  %s errors" % (
        r["load"], r["program"], float(r["tokens_per_s"]), ms("first_p50"), ms("first_p99"), ms("gap_p50"), ms("gap_p99"), ms("gap_max"),
        r.get("errors", "-")), flush=True)


def append(path, row):
    new = not path.exists()
    with open(path, "a", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tblock", metavar="MODEL", help="a model with Llama 3's tokenizer")
    parser.add_argument("--gguf", metavar="MODEL", help="the same for llama-server")
    parser.add_argument("--llama-server", metavar="PROGRAM", help="without it, tblock alone")
    parser.add_argument("--loads", default=";".join(LOADS), help="of: " + "; ".join(LOADS))
    parser.add_argument("--threads", type=int, default=2, help="computing threads of each program (default: %(default)s)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where tblock was built")
    parser.add_argument("--table", action="store_true", help="measure nothing: print the newest results of this processor")
    args = parser.parse_args()
    path = ROOT / "bench/results" / ("serve-%s.csv" % cpu_file_name())
    if args.table:
        newest = {(r["load"], r["program"]): r for r in csv.DictReader(open(path, newline=""))}
        for r in newest.values():
            say(r)
        return
    for name in args.loads.split(";"):
        for r in measure(args, name):
            say(r)
            append(path, r)


if __name__ == "__main__":
    main()
