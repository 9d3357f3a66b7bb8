#!/usr/bin/env python3
"""How often `tblock audit` calls an honest text false, and a false one honest (docs/audit.md). Texts are drawn by `tblock run`
with the shipped model, and audited with the claim that each line of the table makes. An honest engine computes with other
roundings than the auditor: here bf16 products of bf16 weights and activations (--math bf16), or an f16 KV cache.

    bench/audit/audit.py [--program build/release/tblock] [--runs 1000] [--false-runs 200] [--tokens 250]
                         [--first-seed 0] [--save DIR]
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/shakespeare.bin"
PROMPTS = ["ROMEO:", "The king", "O, what a", "First Citizen:\n", "To be, or", "My lord,", "JULIET:\nI", "Enter"]

DEFAULT = {"temp": 0.8, "top_k": 40, "top_p": 0.95}
PLAIN = {"temp": 1, "top_k": 0, "top_p": 1}
GREEDY = {"temp": 0, "top_k": 40, "top_p": 0.95}
# name, how the drawer computes, what it draws with, what it claims, and is it honest? One honest row in four is exact.
HONEST = [[], ["--math", "bf16"], ["--kv-type", "f16"], ["--math", "bf16", "--kv-type", "q8"]]
ROWS = [
    ("honest", HONEST, DEFAULT, DEFAULT),
    ("honest", HONEST, PLAIN, PLAIN),
    ("honest", HONEST, GREEDY, GREEDY),
    ("q8 weights", [["--type", "q8"]], DEFAULT, DEFAULT),
    ("q4 weights", [["--type", "q4"]], DEFAULT, DEFAULT),
    ("q4 weights", [["--type", "q4"]], PLAIN, PLAIN),
    ("q4 weights", [["--type", "q4"]], GREEDY, GREEDY),
    ("temp 0.7", [[]], dict(DEFAULT, temp=0.7), DEFAULT),
    ("temp 0.6", [[]], dict(DEFAULT, temp=0.6), DEFAULT),
    ("temp 1", [[]], dict(DEFAULT, temp=1), DEFAULT),
    ("temp 0.8", [[]], dict(PLAIN, temp=0.8), PLAIN),
    ("temp 1.2", [[]], dict(PLAIN, temp=1.2), PLAIN),
    ("no top-k, top-p", [[]], dict(PLAIN, temp=0.8), DEFAULT),
]


def draw(program, options, sampling, seed, n, work):
    """The prompt's ids and those drawn."""
    path = work / ("%d-%d.json" % (os.getpid(), seed))
    path = path.with_name("%s-%x.json" % (path.stem, hash((str(options), str(sampling))) & 0xffffffff))
    arguments = [str(part) for key, value in sampling.items() for part in ("--" + key.replace("_", "-"), value)]
    subprocess.run([program, "run", str(MODEL), "--prompt", PROMPTS[seed % len(PROMPTS)], "-n", str(n), "--seed", str(seed), "--quiet",
                    "--threads", "1", "--trust-hash", "--receipt", str(path), *arguments, *options], check=True, stdout=subprocess.DEVNULL)
    receipt = json.loads(path.read_text())
    path.unlink()
    return receipt["prompt"], receipt["drawn"]


def kept(path, make):
    """What the file holds; else what is made, and then it holds that."""
    if path and path.exists():
        return json.loads(path.read_text())
    made = make()
    if path:
        path.write_text(json.dumps(made))
    return made


def audit(program, lines, work, options=()):
    log = work / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run([program, "audit", str(MODEL), "--tokens", str(log), "--json", "--quiet", "--claims-from-log", *options], capture_output=True,
                          encoding="utf-8", check=False)
    if done.returncode not in (0, 1, 5):
        sys.exit(done.stderr)
    return json.loads(done.stdout)["texts"]


def figures(texts):
    def high(key, share):
        found = sorted(abs(t[key]) for t in texts if t.get(key) is not None)
        return found[min(len(found) - 1, int(share * len(found)))] if found else float("nan")
    n_false = sum(t["verdict"] != "fits" for t in texts)
    spread = ["%9.2g %9.2g %9.2g" % tuple(high(key, s) for s in (0.01, 0.5, 0.999)) for key in ("difference", "surprise", "ruled_out")]
    return "%5d of %5d  %s" % (n_false, len(texts), "  ".join(spread))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", default=str(ROOT / "build/release/tblock"))
    parser.add_argument("--runs", type=int, default=1000, help="of honest engines")
    parser.add_argument("--false-runs", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=250)
    parser.add_argument("--first-seed", type=int, default=0, help="texts are drawn with this seed and those after it")
    parser.add_argument("--save", type=pathlib.Path, help="keep the texts drawn there, and write their rows")
    a = parser.parse_args()
    print("%-18s %-8s %-9s %14s  %-29s  %-29s  %-29s" % ("drawn with", "claim", "seed", "called false", "difference: 1%, 50%, 99.9%",
                                                          "|surprise|", "ruled out"))
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        work = pathlib.Path(folder)
        for number, (name, engines, drawn_with, claim) in enumerate(ROWS):
            def one(seed, engines=engines, drawn_with=drawn_with):
                return draw(a.program, engines[seed // len(PROMPTS) % len(engines)], drawn_with, seed, a.tokens, work)
            drawn = kept(a.save and a.save / ("%02d-drawn.json" % number),
                         lambda: list(pool.map(one, range(a.first_seed, a.first_seed + (a.runs if engines is HONEST else a.false_runs)))))
            for shared in ((False,) if claim["temp"] == 0 else (True, False)):
                lines = [{"prompt": p, "drawn": d, "sampling": dict(claim, **({"seed": str(seed)} if shared else {}))}
                         for seed, (p, d) in enumerate(drawn, a.first_seed)]
                texts = audit(a.program, lines, work)
                said = {0.8: "default", 1: "plain", 0: "greedy"}[claim["temp"]]
                print("%-18s %-8s %-9s %s" % (name, said, "shared" if shared else "none", figures(texts)), flush=True)
                if a.save:
                    (a.save / ("%02d-%s.json" % (number, "seed" if shared else "none"))).write_text(json.dumps(texts))


if __name__ == "__main__":
    main()
