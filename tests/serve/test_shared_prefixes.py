#!/usr/bin/env python3
"""Whose cached prefixes a request reuses: those of its own key and cache_salt. Nobody finds out by counters or by waiting what another
key sent. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import contextlib
import sys
import tempfile
import threading

from server import HELLO, Server, talking
from verdicts import attempt_all

PATH = "/v1/completions"
SECRET = "The PIN of my card is 7351; keep it. " * 2
ENDPOINTS = {PATH: {"prompt": SECRET}, "/v1/chat/completions": {"messages": [{"role": "user", "content": SECRET}]},
             "/v1/responses": {"input": SECRET}, "/v1/messages": {"messages": [{"role": "user", "content": SECRET}]}}


@contextlib.contextmanager
def two_keys(*options, server=talking):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write("alice-key\nbob-key\n")
        f.flush()
        with server("--key-file", f.name, *options) as s:
            yield s


def asked(s, key, path, **body):
    """The response to a request with that key."""
    limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    status, said = s.send(path, {limit: 1, "seed": 1, **body}, Authorization="Bearer " + key)
    assert status == 200, (status, said)
    return said


def cached(s, key, path, **body):
    """The tokens of its prompt that were cached, and all of them."""
    u = asked(s, key, path, **body)["usage"]
    if "prompt_tokens" in u:
        return u["prompt_tokens_details"]["cached_tokens"], u["prompt_tokens"]
    if "input_tokens_details" in u:
        return u["input_tokens_details"]["cached_tokens"], u["input_tokens"]
    return u["cache_read_input_tokens"], u["input_tokens"] + u["cache_read_input_tokens"]


def a_key_sees_only_what_it_sent():
    for path, body in ENDPOINTS.items():
        with two_keys() as s:
            assert cached(s, "alice-key", path, **body)[0] == 0, path
            assert cached(s, "bob-key", path, **body)[0] == 0, path
            for key in ("alice-key", "bob-key"):
                n, most = cached(s, key, path, **body)
                assert n == most - 1, (path, key, n, most)


def a_pin_is_not_found_digit_by_digit():
    """Each guess is a prompt that shares one more byte if it is right: the counters are those of a server that never had the secret."""
    def guesses(s, secret):
        asked(s, "alice-key", PATH, prompt=secret)
        return [cached(s, "bob-key", PATH, prompt="The PIN of my card is " + digit) for digit in "0123456789"]
    found = []
    for secret in (SECRET, "Nothing of that kind. " * 3):
        with two_keys(server=Server) as s:
            found.append(guesses(s, secret))
    assert found[0] == found[1], found


def prefixes_are_shared_if_asked():
    with two_keys("--share-cache") as s:
        path, body = next(iter(ENDPOINTS.items()))
        asked(s, "alice-key", path, **body)
        n, most = cached(s, "bob-key", path, **body)
        assert n == most - 1, (n, most)
        assert cached(s, "bob-key", path, cache_salt="s", **body)[0] == 0


def a_salt_separates_too():
    with talking() as s:
        for path, body in ENDPOINTS.items():
            assert cached(s, "", path, cache_salt="one" + path, **body)[0] == 0
            assert cached(s, "", path, cache_salt="two" + path, **body)[0] == 0
            n, most = cached(s, "", path, cache_salt="one" + path, **body)
            assert n == most - 1, (path, n, most)
        s.refused(PATH, 400, "not empty", "cache_salt", prompt="A", cache_salt="")
        s.refused(PATH, 400, "a string", "cache_salt", prompt="A", cache_salt=7)
    with two_keys() as s:   # the same salt of another key is another's
        asked(s, "alice-key", PATH, prompt=SECRET, cache_salt="s")
        assert cached(s, "bob-key", PATH, prompt=SECRET, cache_salt="s")[0] == 0


def nobody_waits_for_anothers_prefix():
    """A prompt that another key is still computing is computed anew; one of the same key waits for it. The texts are the same."""
    long = {"prompt": [ord(c) % 90 + 1 for c in SECRET] * 3, "max_tokens": 4, "temperature": 0}
    for keys, shared in ((("alice-key", "bob-key"), False), (("bob-key", "bob-key"), True)):
        with two_keys(server=Server) as s:
            found = [None, None]

            def ask(i):
                found[i] = asked(s, keys[i], PATH, **long)
            threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            assert found[0]["choices"][0]["text"] == found[1]["choices"][0]["text"], found
            n = sum(f["usage"]["prompt_tokens_details"]["cached_tokens"] for f in found)
            assert (n > 0) == shared, (keys, n)


def other_texts_change_no_bit():
    with two_keys() as s:
        given = dict(messages=HELLO, max_tokens=12, return_token_ids=True)
        ids = [asked(s, key, "/v1/chat/completions", **given, **salt)["choices"][0]["token_ids"]
               for key in ("alice-key", "bob-key", "alice-key") for salt in ({}, {"cache_salt": "s"})]
        assert all(i == ids[0] for i in ids), ids


sys.exit(attempt_all(a_key_sees_only_what_it_sent, a_pin_is_not_found_digit_by_digit, prefixes_are_shared_if_asked, a_salt_separates_too,
                     nobody_waits_for_anothers_prefix, other_texts_change_no_bit))
