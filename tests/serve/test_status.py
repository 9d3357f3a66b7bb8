#!/usr/bin/env python3
"""/metrics is in the form of Prometheus and counts what happened, under the names that vLLM has for it too; /props, /v1/models,
/health. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import math
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.parse

from server import MODEL, PATIENCE, TBLOCK, Server, until
from verdicts import attempt_all

# The names and types that vLLM publishes (its v1 metrics), and what we call the same.
VLLM = {"num_requests_running": ("gauge", "requests_running"), "num_requests_waiting": ("gauge", "requests_waiting"),
        "kv_cache_usage_perc": ("gauge", "kv_usage"), "request_success_total": ("counter", "requests_total"),
        "num_preemptions_total": ("counter", "preemptions_total"), "prompt_tokens_total": ("counter", "prompt_tokens_total"),
        "generation_tokens_total": ("counter", "generated_tokens_total"), "prefix_cache_hits_total": ("counter", "cached_tokens_total"),
        "prefix_cache_queries_total": ("counter", "prompt_tokens_total"),
        "spec_decode_num_draft_tokens_total": ("counter", "draft_tokens_total"),
        "spec_decode_num_accepted_tokens_total": ("counter", "accepted_tokens_total"),
        "time_to_first_token_seconds": ("histogram", "time_to_first_token_seconds"),
        "inter_token_latency_seconds": ("histogram", "inter_token_latency_seconds"),
        "e2e_request_latency_seconds": ("histogram", "request_seconds")}
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(r'(%s)(?:\{le="([^"\\\n]*)"\})? (\S+)' % NAME)


def number(text):
    assert re.fullmatch(r"[-+]?(\d+(\.\d*)?([eE][-+]?\d+)?|Inf)|NaN", text), text
    return float(text)


def parsed(text):
    """{name: (type, value)} of the text format 0.0.4; a histogram's value is ([(bound, count)], sum, count)."""
    families, kind, told, current = {}, {}, set(), None
    assert text.endswith("\n") and "\r" not in text
    for line in text[:-1].split("\n"):
        about = re.fullmatch(r"# (HELP|TYPE) (%s) (.+)" % NAME, line)
        if about:
            what, name, rest = about.groups()
            assert (what, name) not in told and name not in families, "%s %s: twice, or behind its samples" % (what, name)
            told.add((what, name))
            if what == "TYPE":
                assert rest in ("counter", "gauge", "histogram"), line
                kind[name] = rest
                current = name
            continue
        found = SAMPLE.fullmatch(line)
        assert found, "neither a comment nor a sample: %r" % line
        name, bound, value = found.groups()
        assert current and ("HELP", current) in told, "a sample before its HELP and TYPE: " + line
        if kind[current] != "histogram":
            assert name == current and bound is None and name not in families, line
            families[name] = number(value)
            continue
        part = name[len(current):]
        assert name.startswith(current) and part in ("_bucket", "_sum", "_count") and (part == "_bucket") == (bound is not None), line
        h = families.setdefault(current, {"_bucket": []})
        if part == "_bucket":
            h["_bucket"].append((number(bound), number(value)))
        else:
            assert part not in h, "twice: " + line
            h[part] = number(value)
    assert set(families) == set(kind)
    return {name: (kind[name], value) for name, value in families.items()}


def metrics(s):
    status, headers, data = s.ask("GET", "/metrics")
    assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers
    found = parsed(data.decode("ascii"))
    for name, (kind, value) in found.items():
        if kind == "counter":
            assert name.endswith("_total") and value >= 0 and value == int(value), (name, value)
        if kind == "histogram":
            bounds, counts = zip(*value["_bucket"])
            assert list(bounds) == sorted(set(bounds)) and bounds[-1] == math.inf, name
            assert list(counts) == sorted(counts) and counts[-1] == value["_count"] and value["_sum"] >= 0, (name, value)
    return found


def the_parser_refuses_what_is_wrong():
    good = "# HELP a_total x\n# TYPE a_total counter\na_total 1\n"
    assert parsed(good) == {"a_total": ("counter", 1.0)}
    for bad in (good[:-1], good + good, "a_total 1\n" + good, good.replace(" 1\n", " one\n"), good.replace("counter", "count"), good + "\n",
                good.replace("a_total 1", "b_total 1"), good.replace("a_total 1", "a_total  1"), good + "# TYPE b gauge\n"):
        try:
            parsed(bad)
        except AssertionError:
            continue
        raise AssertionError("taken: %r" % bad)


def vllms_names_say_the_same():
    with Server("--kv-memory", "8") as s:
        s.post("/v1/completions", prompt="ROMEO:", max_tokens=30)
        found = metrics(s)
        for theirs, (kind, ours) in VLLM.items():
            assert found["vllm:" + theirs] == found["tblock_" + ours] and found["vllm:" + theirs][0] == kind, theirs
        assert {n for n in found if n.startswith("vllm:")} == {"vllm:" + n for n in VLLM}
        assert found["tblock_kv_usage"][1] == found["tblock_kv_bytes"][1] / (8 << 20) > 0


def numbers_are_those_of_the_requests():
    with Server("--queue", "1", "--parallel", "2") as s:
        assert all(v == 0 for n, (k, v) in metrics(s).items() if k == "counter"), "before any request"
        long = "To be, or not to be, that is the question: " * 6
        n = len(s.post("/tokenize", prompt=long)["tokens"])
        whole = [s.post("/v1/completions", prompt=long, max_tokens=9)["usage"] for _ in range(2)]
        pieces = list(s.stream("/v1/completions", prompt="A", max_tokens=5))
        vector = s.post("/v1/embeddings", input=["A", "B"])["usage"]
        s.refused("/v1/completions", 400, "unknown", promt="A")
        cached = whole[1]["prompt_tokens_details"]["cached_tokens"]
        assert whole[0]["prompt_tokens"] == n and cached >= 64 and pieces
        found = metrics(s)
        expected = {"requests_total": 4, "requests_refused_total": 0, "requests_cancelled_total": 0, "requests_failed_total": 0,
                    "prompt_tokens_total": 2 * n + 1 + vector["prompt_tokens"], "cached_tokens_total": cached, "generated_tokens_total": 23,
                    "requests_running": 0, "requests_waiting": 0, "preemptions_total": 0}
        told = {name: found["tblock_" + name][1] for name in expected}
        assert told == expected, (told, expected)
        counts = {n: found["tblock_%s_seconds" % n][1]["_count"] for n in ("time_to_first_token", "inter_token_latency", "request")}
        assert counts == {"time_to_first_token": 3, "inter_token_latency": 20, "request": 4}, counts
        assert found["tblock_kv_bytes"][1] > 0 and found["tblock_kv_usage"][1] == 0 and found["tblock_steps_total"][1] >= 23


def what_it_says_of_itself():
    with Server("--alias", "verse", "--ctx", "128", "--parallel", "3") as s:
        p = s.get("/props")
        assert p["default_generation_settings"]["n_ctx"] == 128 and p["total_slots"] == 3 and p["model_alias"] == "verse", p
        assert p["model_ftype"].startswith("bf16") and not any(p["modalities"].values()) and p["is_sleeping"] is False, p
        assert p["bos_token"] is None and p["eos_token"] is None and p["endpoint_metrics"] is True, p
        d = p["default_generation_settings"]["params"]
        same = dict(prompt="ROMEO:", seed=3, max_tokens=40)
        given = {("repetition_penalty" if k == "repeat_penalty" else k): v for k, v in d.items()}
        assert s.post("/v1/completions", **same)["choices"] == s.post("/v1/completions", **same, **given)["choices"], d
        m, = s.get("/v1/models")["data"]
        assert m["id"] == "verse" and m["object"] == "model" and m["max_model_len"] == 128 and re.fullmatch("[0-9a-f]{64}", m["meta"]["hash"]), m
        assert s.get("/health") == {"status": "ok"}


def a_model_is_found_by_its_name():
    for name in ("verse", "a/b c%25{model}é", "x" * 300):
        with Server("--alias", name) as s:
            path = "/v1/models/" + urllib.parse.quote(name, safe="/")
            assert s.get(path) == s.get("/v1/models/" + urllib.parse.quote(name, safe="")) == s.get("/v1/models")["data"][0]
            for other, found in ((path[:-1], name[:-1]), (path + "/", name + "/"), ("/v1/models/%7Bmodel%7D", "{model}")):
                status, _, data = s.ask("GET", other)
                said = json.loads(data)["error"]
                assert status == 404 and said["code"] == "model_not_found" and said["param"] == "model", said
                assert name != "verse" or said["message"] == "model: expected verse, found " + found, said
            for other in ("/v1/models/", "/v1/models//", "/v1/modelsx"):
                assert s.ask("GET", other)[0] == 404, other
            status, _, data = s.ask("POST", path, b"{}", {"Content-Type": "application/json"})
            assert status == 405 and "expected GET" in json.loads(data)["error"]["message"], data


def check(port, *more):
    done = subprocess.run([TBLOCK, "serve", "--check", "--port", str(port), *more], capture_output=True, text=True, timeout=60)
    assert not done.stdout, done
    return done.returncode, done.stderr


def state(pid):
    return pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0]


def check_asks_a_server_for_its_health():
    with Server("--parallel", "128", "--threads", "1") as s:
        assert check(s.port) == (0, "")
        running = s.stream("/v1/completions", prompt="A", n=128, max_tokens=240)
        next(running)
        s.process.send_signal(signal.SIGTERM)
        until("it stops", lambda: any("stops" in line for line in s.log))
        status, said = check(s.port)
        assert status == 1 and "expected status 200, found 503" in said, said
        for _ in running:
            pass
    status, said = check(s.port)
    assert status == 1 and "Connection refused" in said, said
    assert check(1, "--host", "no address")[0] == 2


def check_goes_on_after_a_stop():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asks = subprocess.Popen([TBLOCK, "serve", "--check", "--port", str(listener.getsockname()[1])], stderr=subprocess.PIPE, text=True)
        with listener.accept()[0] as client:
            client.recv(1000)
            until("it waits for the answer", lambda: state(asks.pid) == "S")
            for number, then in ((signal.SIGSTOP, "T"), (signal.SIGCONT, "S")):
                asks.send_signal(number)
                until("it is in state " + then, lambda: asks.poll() is not None or state(asks.pid) == then)
            assert asks.poll() is None, asks.stderr.read()
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            assert asks.communicate(timeout=PATIENCE) == (None, "") and asks.returncode == 0


def check_believes_no_other_answer():
    """Neither another program's, nor one that does not come."""
    for answer, found in ((b"HTTP/1.1 204 No Content\r\n\r\n", "found 204"), (b"HTTP/1.1 2000 OK\r\n\r\n", "found 0, no answer in HTTP"),
                          (b"HTTP/1.1 200", "no answer in HTTP"), (b"SSH-2.0-OpenSSH_9.2 and more\r\n", "no answer in HTTP"),
                          (b"", "no answer in HTTP"), (None, "Connection timed out")):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def reply():
                with listener.accept()[0] as client:
                    client.recv(1000)
                    if answer is not None:
                        client.sendall(answer)
                        return
                    client.recv(1)  # until it hangs up
            thread = threading.Thread(target=reply)
            thread.start()
            status, said = check(listener.getsockname()[1])
            thread.join()
            assert status == 1 and found in said, (answer, said)
    for arguments, words in ((["--check", MODEL], "expected no MODEL"), ([], "expected MODEL")):
        done = subprocess.run([TBLOCK, "serve", *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and words in done.stderr, done


sys.exit(attempt_all(check_asks_a_server_for_its_health, check_goes_on_after_a_stop, check_believes_no_other_answer,
                     the_parser_refuses_what_is_wrong, vllms_names_say_the_same, numbers_are_those_of_the_requests,
                     what_it_says_of_itself, a_model_is_found_by_its_name))
