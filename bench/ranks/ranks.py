#!/usr/bin/env python3
"""What ranks cost (docs/ranks.md). Needs Open MPI and the plug-in (`make ranks`).

    bench/ranks/ranks.py local MODEL     2 ranks x 1 thread against 1 process x 2 threads, in turns
    bench/ranks/ranks.py network MODEL   as root: two ranks in network namespaces of their own, between which a token bucket
                                         filter limits the rate and the plug-in adds a delay to each exchange, against
                                         what `tblock info --ranks 2` predicts
    bench/ranks/ranks.py prefill MODEL   two ranks whose exchanges take as long as those of a network, which the plug-in sees
                                         to: a prompt that is run whole, and a long one, of which one half computes
                                         while the values of the other travel
    --program build/release/tblock, --rounds 7: timings of each row, of which the median counts; --tokens 32
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENV = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
RATES, DELAYS = (1, 10), (0, 100, 500)   # Gbit/s; us
PROMPTS = 127, 512                       # tokens: one that is run whole, and one in halves
NAMES, SUBNET = ("tblock-first", "tblock-second"), "10.77.0"


def out(*command, env=None):
    r = subprocess.run([str(c) for c in command], env={**ENV, **(env or {})}, capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"{command}: {r.stderr[-800:]}")
    return r.stdout


def bench(options, what, n, start, threads, env=None):
    """Tokens/s of one run of bench, "decode" or "prefill" of n tokens, and the GB/s that it read."""
    tokens = ["--prefill", n, "--decode", 0] if what == "prefill" else ["--prefill", 0, "--decode", n, "--depth", 16]
    text = out(*start, options.program, "bench", options.model, "--quiet", "--json", *tokens, "--repeats", 1, "--read-mb", 16,
               "--threads", threads, env=env)
    row = json.loads(text)[what]
    return row["tokens_per_s"], row["gb_per_s"]


def decode(options, start, threads, env=None):
    return bench(options, "decode", options.tokens, start, threads, env)


def in_turns(options, rows, run=decode):
    """The median tokens/s of each row of arguments of run, one run of each after the other."""
    found = [[] for _ in rows]
    for _ in range(options.rounds):
        for at, row in zip(found, rows):
            at.append(run(options, *row)[0])
    return [statistics.median(f) for f in found]


def local(options):
    one, two = in_turns(options, [((), 2), (("mpirun", "-n", "2"), 1)])
    print(f"1 process x 2 threads {one:.2f} tokens/s, 2 ranks x 1 thread {two:.2f}: {two / one:.2f}")


def prefill(options):
    for rate in RATES:
        rows = [("prefill", n, ("mpirun", "-n", "2"), 1, {"TBLOCK_RANKS_RATE": str(rate)}) for n in PROMPTS]
        whole, halves = in_turns(options, rows, bench)
        print(f"{rate:2d} Gbit/s: {whole:.0f} tokens/s whole, {halves:.0f} in halves: {halves / whole:.2f}", flush=True)


# ---- Two machines in one ---------------------------------------------------------------------------------------------

@contextlib.contextmanager
def namespaces():
    try:
        for name in NAMES:
            out("ip", "netns", "add", name)
        out("ip", "link", "add", "eth", "netns", NAMES[0], "type", "veth", "peer", "name", "eth", "netns", NAMES[1])
        for i, name in enumerate(NAMES):
            out("ip", "-n", name, "addr", "add", f"{SUBNET}.{i + 1}/24", "dev", "eth")
            for link in ("lo", "eth"):
                out("ip", "-n", name, "link", "set", link, "up")
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def limit(rate):
    for name in NAMES:
        out("tc", "-n", name, "qdisc", "replace", "dev", "eth", "root", "tbf", "rate", f"{rate}gbit", "burst", "64kb",
            "latency", "50ms")


ECHO = f"""
import socket, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if sys.argv[1] == "serve":
    s.bind(("{SUBNET}.2", 5000)); s.listen(); print(flush=True); s = s.accept()[0]
else:
    s.connect(("{SUBNET}.2", 5000))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.setblocking(False)
def get():
    while True:
        try:
            return s.recv(64)
        except BlockingIOError:
            pass
times = []
for i in range(2000):
    start = time.perf_counter()
    if sys.argv[1] == "serve": get(); s.send(b"x")
    else: s.send(b"x"); get()
    times.append(time.perf_counter() - start)
print(sorted(times)[1000] / 2 * 1e6)
"""


def latency():
    """Half of a round trip of TCP between the two, in microseconds."""
    here, there = (["ip", "netns", "exec", name, sys.executable, "-c", ECHO] for name in NAMES)
    server = subprocess.Popen([*there, "serve"], stdout=subprocess.PIPE)
    server.stdout.readline()
    try:
        return float(out(*here, "ask"))
    finally:
        server.communicate()


def two_machines(folder):
    """The start of a command of two ranks, of which each has a network and a host name of its own."""
    agent = pathlib.Path(folder) / "agent"   # what Open MPI calls instead of ssh: HOST COMMAND
    agent.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {NAMES[1]} unshare --uts sh -c "hostname {NAMES[1]}; $*"\n')
    agent.chmod(0o755)
    mpirun = ["mpirun", "--host", f"{SUBNET}.1:1,{SUBNET}.2:1", "-n", "2", "--bind-to", "none", "--mca", "plm_rsh_agent", str(agent),
              "--mca", "oob_tcp_if_include", f"{SUBNET}.0/24", "--mca", "btl", "self,tcp",
              "--mca", "btl_tcp_if_include", f"{SUBNET}.0/24", "-x", "TBLOCK_RANKS_DELAY"]
    return ["ip", "netns", "exec", NAMES[0], "unshare", "--uts", "sh", "-c", f'hostname {NAMES[0]}; exec "$@"', "sh", *mpirun]


def predicted(options, rate, us, gb_per_s):
    text = out(options.program, "info", options.model, "--ranks", 2, "--bandwidth", rate, "--latency", us, "--memory", gb_per_s, "--json")
    return json.loads(text)["ranks"]["tokens_per_s"]


def network(options):
    with tempfile.TemporaryDirectory() as folder, namespaces():
        start = two_machines(folder)
        memory = statistics.median(decode(options, (), 2)[1] for _ in range(options.rounds)) / 2   # each has half of it
        base = latency()
        print(f"memory of each rank {memory:.1f} GB/s, latency without a delay {base:.0f} us")
        for rate in RATES:
            limit(rate)
            rows = [(start, 1, {"TBLOCK_RANKS_DELAY": str(d)}) for d in DELAYS]
            for delay, found in zip(DELAYS, in_turns(options, rows)):
                told = predicted(options, rate, max(base, delay), memory)
                print(f"{rate:2d} Gbit/s, {delay:3d} us: {found:6.2f} tokens/s, predicted {told:6.2f}: {found / told:.2f}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["local", "network", "prefill"])
    p.add_argument("model", type=pathlib.Path)
    p.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/tblock")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--tokens", type=int, default=32)
    options = p.parse_args()
    options.program, options.model = options.program.resolve(), options.model.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))   # the namespaces end, too
    {"local": local, "network": network, "prefill": prefill}[options.what](options)


if __name__ == "__main__":
    main()
