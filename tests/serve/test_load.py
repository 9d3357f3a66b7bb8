#!/usr/bin/env python3
"""bench/serve/load.py against a server of our own: it counts what it sent, says what went wrong, and sends the same again with the same
seed. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import subprocess
import sys

from server import ROOT, Server
from verdicts import attempt_all

LOAD = [sys.executable, str(ROOT / "bench/serve/load.py")]
LENGTHS = ["--prompt", "3:60", "--answer", "2:30", "--vocab", "1024"]
ENDS = ["--eos", "0,1,2"]   # of the model: with a bias on these an answer has its length


def load(server, *words, status=0):
    done = subprocess.run([*LOAD, "http://%s:%d" % (server.host, server.port), "--json", *words], capture_output=True, text=True)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


def both_loops_count_what_the_server_counts():
    found = []
    with Server("--parallel", "4") as s:
        for words in (["--clients", "6"], ["--rate", "200"], ["--clients", "1"]):
            before = s.metrics()
            found.append(load(s, "--requests", "20", *words, *LENGTHS, *ENDS, "--pid", str(s.process.pid)))
            after = s.metrics()
            for name, key in (("requests", "tblock_requests_total"), ("tokens", "tblock_generated_tokens_total"),
                              ("prompt_tokens", "tblock_prompt_tokens_total")):
                assert found[-1][name] == after[key] - before[key], (words, key, found[-1])
            assert found[-1]["errors"] == 0 and found[-1]["rss_mb"] > 1, found[-1]
            assert 0 < found[-1]["first_p50"] <= found[-1]["first_p99"] < found[-1]["seconds"], found[-1]
            assert found[-1]["gap_p50"] <= found[-1]["gap_p99"] <= found[-1]["gap_max"], found[-1]
    assert len({(f["tokens"], f["prompt_tokens"]) for f in found}) == 1, found


def texts_make_prompts_too():
    with Server() as s:
        found = load(s, "--requests", "3", "--text", str(ROOT / "README.md"), *LENGTHS, *ENDS)
        assert found["requests"] == 3 and found["prompt_tokens"] > 9, found


def what_goes_wrong_is_told():
    with Server() as s:
        short = load(s, "--requests", "5", "--answer", "200", "--prompt", "5", "--vocab", "1024", "--extra", '{"stop": ["e"]}', status=1)
        assert short["errors"] > 0 and "expected 200 tokens, found" in short["error"], short
        refused = load(s, "--requests", "2", "--extra", '{"best_of": 0}', *LENGTHS, status=1)
        assert refused["errors"] == 2 and refused["tokens"] == 0 and "best_of" in refused["error"], refused
        gone = subprocess.run([*LOAD, "http://127.0.0.1:9", "--requests", "1"], capture_output=True, text=True)
        assert gone.returncode == 1 and "http://127.0.0.1:9" in gone.stderr, gone


def a_cut_ends_it_and_one_more_client_does_not_count():
    with Server("--parallel", "4", "--threads", "1") as s:
        for cut in (1.5, 10, 40):   # on a busy machine the first may end before anything came
            before = s.metrics()["tblock_prompt_tokens_total"]
            found = load(s, "--requests", "100000", "--clients", "3", "--cut", str(cut), "--disturb", "150", "--every", "0.1", *LENGTHS, *ENDS)
            assert cut - 0.1 < found["seconds"] < cut + 60 and found["errors"] == 0, found
            disturbed = s.metrics()["tblock_prompt_tokens_total"] - before >= found["prompt_tokens"] + 150
            if found["tokens"] > 0 and disturbed:
                break
        assert found["tokens"] > 0 and disturbed, found


def streams_that_wait_are_told_by_their_memory():
    with Server("--parallel", "1", "--threads", "1") as s:
        found = load(s, "--idle", "50", "--pid", str(s.process.pid), "--settle", "0.1", "--prompt", "5", "--answer", "240", "--vocab", "1024",
                     *ENDS, "--extra", '{"n": 64}')   # a minute's work: none has ended, however late they are looked at
        assert found["idle"] == 50 and found["ended"] < 50 and found["after_mb"] > 1, found


sys.exit(attempt_all(both_loops_count_what_the_server_counts, texts_make_prompts_too, what_goes_wrong_is_told,
                     a_cut_ends_it_and_one_more_client_does_not_count, streams_that_wait_are_told_by_their_memory))
