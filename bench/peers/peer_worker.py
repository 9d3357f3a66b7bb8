"""What the workers of the peers share: the commands of bench_peer.c over standard input, answered by one line of JSON each.

A worker has: version, system (text), modes (its ways of running, of which the faster counts), tokens(start, n), prefill(mode, n)
-> seconds, context(mode, start), decode(mode, start, n) -> seconds, logits(mode, ids) -> f32 array."""
import argparse
import json
import os
import resource
import sys
import time

FIRST = list(range(100, 116))  # the prompt of the first token
SHORT = 256  # contexts up to here are one cache, longer ones another, so that a long one survives the short measurements


def tokens(start, n, vocab):
    """The same tokens for the same positions in every program."""
    return [(start + i) * 7919 % vocab for i in range(n)]


def answer(value, out):
    print(json.dumps(value), file=out, flush=True)


def claim_stdout():
    """Libraries print to standard output too: they get standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def serve(worker, out):
    answer({"version": worker.version, "system": worker.system, "modes": worker.modes}, out)
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "quit":
            return
        mode = rest.pop(0)
        if command == "prefill":
            answer({"seconds": worker.prefill(mode, int(rest[0]))}, out)
        elif command == "context":
            worker.context(mode, int(rest[0]))
            answer({}, out)
        elif command == "decode":
            answer({"seconds": worker.decode(mode, int(rest[0]), int(rest[1]))}, out)
        elif command == "logits":
            worker.logits(mode, [int(i) for i in rest[1:]]).astype("<f4").tofile(rest[0])
            answer({}, out)
        else:
            raise SystemExit("unknown command: " + command)


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def time_first_token(first_token, out):
    """Seconds from a started interpreter with its imports done to the logits of a short prompt, and what memory grew by."""
    before, start = peak_mb(), time.perf_counter()
    first_token()
    answer({"seconds": time.perf_counter() - start, "peak_mb": peak_mb(), "peak_mb_before": before}, out)


def options(about):
    """The options of every worker. A model need not be named: some have another use."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--first-token", action="store_true")
    return parser


def work(make, mode, args, out):
    """Be the worker that make(model, threads) is; mode is the way in which the first token is timed."""
    if args.first_token:
        time_first_token(lambda: make(args.model, args.threads).logits(mode, FIRST), out)
    else:
        serve(make(args.model, args.threads), out)
