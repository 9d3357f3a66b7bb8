#!/usr/bin/env python3
"""/v1/embeddings: the vectors that docs/numerics.md defines, from the hidden states that tblock logits writes, equal in both
encodings, alone and under load, whatever was computed before. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import base64
import concurrent.futures
import json
import random
import subprocess
import sys
import tempfile
import time

import numpy as np
from safetensors.numpy import load_file
from server import MODEL, TBLOCK, Server, run, sanitized  # and tests/ in sys.path
from pooled import pooled
from verdicts import attempt_all

PATH = "/v1/embeddings"
WIDTH = 192
TEXTS = ["ROMEO:", "First Citizen:\nBefore we proceed any further, hear me speak.", "A", "\n", "żółć \U0001f600",
         "To be, or not to be, that is the question: " * 6, "First Citizen:\nBefore we go"]


def decoded(text):
    return np.frombuffer(base64.b64decode(text, validate=True), "<f4")


def vectors(answer):
    assert [d["index"] for d in answer["data"]] == list(range(len(answer["data"]))), answer
    return [decoded(d["embedding"]) for d in answer["data"]]


def states(ids, *options):
    """hidden.final_norm of these ids, as tblock logits writes it: float32 [n, d_model]."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([TBLOCK, "logits", MODEL, "--ids", ",".join(map(str, ids)), "--hidden", "-o", folder + "/g", *options],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return load_file(folder + "/g")["hidden.final_norm"]


def vectors_are_those_of_the_hidden_states():
    with Server() as s:
        for text in TEXTS:
            ids = s.post("/tokenize", prompt=text)["tokens"]
            x = states(ids)
            assert x.shape == (len(ids), WIDTH), x.shape
            for pooling in ("mean", "last", "cls"):
                for normalize in (True, False):
                    found, = vectors(s.post(PATH, input=text, encoding_format="base64", pooling=pooling, normalize=normalize))
                    expected = pooled(x, pooling, normalize)
                    assert found.tobytes() == expected.tobytes(), (text, pooling, normalize, found[:3], expected[:3])
                    if pooling == "last" and not normalize:
                        assert (found == x[-1]).all()
                    if normalize:   # roundings to float32, of 2^-25 of a value each at most
                        assert abs(np.linalg.norm(found.astype(np.float64)) - 1) < 2.0**-24, text


def a_reference_in_numpy_agrees():
    """Another order of sums: pairwise, in double. n terms of at most max |x| differ by n * 2^-53 of it, then one rounding."""
    with Server() as s:
        ids = s.post("/tokenize", prompt=TEXTS[5])["tokens"]
        m = states(ids).astype(np.float64).mean(axis=0)
        expected = m / np.linalg.norm(m)
        found, = vectors(s.post(PATH, input=TEXTS[5], encoding_format="base64"))
        assert np.abs(found - expected).max() <= 2.0**-24 * np.abs(expected).max(), np.abs(found - expected).max()


def both_encodings_are_equal():
    with Server() as s:
        for pooling in ("mean", "last"):
            numbers = s.post(PATH, input=TEXTS, pooling=pooling)
            same = s.post(PATH, input=TEXTS, pooling=pooling, encoding_format="float")
            packed = vectors(s.post(PATH, input=TEXTS, pooling=pooling, encoding_format="base64"))
            for one, other, bits in zip(numbers["data"], same["data"], packed):
                assert one == other and one["object"] == "embedding" and one["embedding"] == bits.astype(np.float64).tolist(), one["index"]


def the_form_is_openais():
    with Server("--alias", "verse") as s:
        n = len(s.post("/tokenize", prompt="ROMEO:")["tokens"])
        a = s.post(PATH, input="ROMEO:", model="verse", dimensions=WIDTH, user="me", encoding_format=None)
        assert a["object"] == "list" and a["model"] == "verse" and len(a["data"]) == 1 and "seed" not in a, a
        assert a["usage"]["prompt_tokens"] == a["usage"]["total_tokens"] == n, a["usage"]
        assert set(a["data"][0]) == {"object", "index", "embedding"} and len(a["data"][0]["embedding"]) == WIDTH


def texts_and_ids_are_the_same():
    with Server() as s:
        ids = [s.post("/tokenize", prompt=t)["tokens"] for t in TEXTS]
        expected = s.post(PATH, input=TEXTS, encoding_format="base64")["data"]
        assert s.post(PATH, input=ids, encoding_format="base64")["data"] == expected
        assert s.post(PATH, input=ids[0], encoding_format="base64")["data"][0]["embedding"] == expected[0]["embedding"]
        plain = s.post("/tokenize", prompt="ROMEO:", add_special_tokens=False)["tokens"]
        a, b = (s.post(PATH, encoding_format="base64", **k)["data"] for k in (dict(input="ROMEO:", add_special_tokens=False), dict(input=plain)))
        assert a == b


def what_was_computed_before_changes_nothing():
    """Reuse of a beginning (last), threads, batches, instruction sets and memory that is short."""
    long = TEXTS[5]
    with Server("--threads", "1", "--isa", "scalar", "--cache", "0", "--parallel", "1") as s:
        expected = {(p, t): s.post(PATH, input=t, pooling=p, encoding_format="base64")["data"][0]["embedding"]
                    for p in ("mean", "last") for t in (long, long + "!", long[:100])}
    for options in ((), ("--threads", "2"), ("--parallel", "2", "--kv-memory", "4")):
        with Server(*options) as s:
            s.post("/v1/completions", prompt=long, max_tokens=20)
            for again in range(2):
                for (pooling, text), vector in expected.items():
                    a = s.post(PATH, input=text, pooling=pooling, encoding_format="base64")
                    cached = a["usage"]["prompt_tokens_details"]["cached_tokens"]
                    assert a["data"][0]["embedding"] == vector, (options, pooling, text)
                    assert pooling == "last" or cached == 0, "states of what is cached are not there"
                    assert pooling == "mean" or cached > 0 or options, "nothing was reused"


def under_load_too():
    """With texts that are drawn beside them, and memory for few of them at a time."""
    rng = random.Random(4)
    with Server("--cache", "0") as s:
        expected = {(p, t): s.post(PATH, input=t, pooling=p, encoding_format="base64")["data"][0]["embedding"]
                    for p in ("mean", "last") for t in TEXTS}

    def ask(s, i):
        if i % 2 == 0:
            found = s.post("/v1/completions", prompt=TEXTS[i % 7], max_tokens=120, temperature=0)["choices"][0]["text"]
            assert found == run("--predict", "120", "--temp", "0", prompt=TEXTS[i % 7])["text"], i
            return
        pooling, texts = rng.choice(("mean", "last")), rng.sample(TEXTS, rng.randint(1, 7))
        found = s.post(PATH, input=texts, pooling=pooling, encoding_format="base64")["data"]
        assert [d["embedding"] for d in found] == [expected[pooling, t] for t in texts], (pooling, texts)

    with Server("--parallel", "8", "--kv-memory", "4") as s:
        with concurrent.futures.ThreadPoolExecutor(13) as pool:
            # Texts of one request begin together, and grow beyond the memory on a machine of any speed:
            # the others come when they do, since beside them the eight might never run together.
            grown = pool.submit(s.post, "/v1/completions", prompt="A king", n=8, max_tokens=200, seed=4)
            while not s.metrics()["tblock_preemptions_total"] and not grown.done():
                time.sleep(0.01)
            for done in [pool.submit(ask, s, i) for i in range(90)]:
                done.result()
            assert len(grown.result()["choices"]) == 8
        m = s.metrics()
        assert m["tblock_preemptions_total"] > 0, "nothing gave way"
        assert m["tblock_kv_bytes"] <= 4 << 20, m["tblock_kv_bytes"]


def many_inputs_are_one_request():
    texts = ["%d" % i for i in range(1000)]
    with Server("--queue", "4", "--parallel", "4") as s:
        whole = s.post(PATH, input=texts, encoding_format="base64")["data"]
        assert len(whole) == 1000
        for i in (0, 500, 999):
            assert s.post(PATH, input=texts[i], encoding_format="base64")["data"][0]["embedding"] == whole[i]["embedding"], i
        s.refused(PATH, 400, "at most 2048, found 2049", "input", input=["a"] * 2049)
        assert s.metrics()["tblock_time_to_first_token_seconds_count"] == 0, "nothing was drawn"


def a_client_that_leaves_is_forgotten():
    body = json.dumps({"input": [[1] * 256] * 2048}).encode()
    with Server() as s:
        gone = s.raw(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                     % (PATH.encode(), len(body)) + body)
        while not s.metrics()["tblock_requests_running"]:
            time.sleep(0.01)
        gone.close()
        while s.metrics()["tblock_requests_running"]:
            time.sleep(0.01)
        assert s.metrics()["tblock_requests_cancelled_total"] == 1
    with Server("--timeout", "1") as s:
        s.refused(PATH, 503, "took more than 1 seconds", None, input=[[1] * 256] * 2048)


def who_comes_later_does_not_wait_for_a_thousand_inputs():
    n, length = (200, 32) if sanitized() else (1000, 256)
    with Server("--parallel", "4") as s:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            long = pool.submit(s.post, PATH, input=[[i] * length for i in range(n)], encoding_format="base64")
            while s.metrics()["tblock_requests_running"] < 4:
                time.sleep(0.01)
            for prompt in (TEXTS[1], TEXTS[5]):
                expected = run("--predict", "8", "--temp", "0", prompt=prompt)["text"]
                assert s.post("/v1/completions", prompt=prompt, max_tokens=8, temperature=0)["choices"][0]["text"] == expected
            assert not long.done() and s.metrics()["tblock_requests_waiting"] > 100, "the thousand came first"
            found = long.result()["data"]
        assert len(found) == n
        assert found[7]["embedding"] == s.post(PATH, input=[7] * length, encoding_format="base64")["data"][0]["embedding"]


def what_is_wrong_is_named():
    with Server() as s:
        s.refused(PATH, 400, "found none", "input")
        s.refused(PATH, 400, "at least one token", "input", input=[])
        s.refused(PATH, 400, "found an object", "input", input={"a": 1})
        s.refused(PATH, 400, "found 1", "input", input=["a", 1])
        s.refused(PATH, 400, "token 0: expected 0 to 1023, found 1024", "input", input=[1024])
        s.refused(PATH, 400, "at most the 256 tokens of the context, found 257", "input", input=[[1], [1] * 257])
        s.refused(PATH, 400, "expected 192, all that the model has, found 64", "dimensions", input="a", dimensions=64)
        s.refused(PATH, 400, "an integer", "dimensions", input="a", dimensions=0)
        s.refused(PATH, 400, "expected float or base64", "encoding_format", input="a", encoding_format="int8")
        s.refused(PATH, 400, "expected mean, last or cls, found 'max'", "pooling", input="a", pooling="max")
        s.refused(PATH, 400, "expected mean, last or cls", "pooling", input="a", pooling="mean\0")
        s.refused(PATH, 400, "true or false", "normalize", input="a", normalize=1)
        s.refused(PATH, 400, "unknown parameter", "stream", input="a", stream=True)
        s.refused(PATH, 404, "expected shakespeare", "model", input="a", model="ada")
        assert s.post(PATH, input="a")["data"], "it goes on"


sys.exit(attempt_all(vectors_are_those_of_the_hidden_states, a_reference_in_numpy_agrees, both_encodings_are_equal,
                     the_form_is_openais, texts_and_ids_are_the_same, what_was_computed_before_changes_nothing, under_load_too,
                     many_inputs_are_one_request, a_client_that_leaves_is_forgotten,
                     who_comes_later_does_not_wait_for_a_thousand_inputs, what_is_wrong_is_named))
