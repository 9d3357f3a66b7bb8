#!/usr/bin/env python3
"""/v1/completions: the texts and ids of tblock run with the same settings, alone and under load, whole and as streams; its
parameters. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import concurrent.futures
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from server import MODEL, ROOT, TBLOCK, Server, run
from rope_model import rotating
from verdicts import attempt_all

PATH = "/v1/completions"
PROMPTS = ["ROMEO:", "First Citizen:\nBefore we proceed", "KING RICHARD III:\nNow is the", "A", "JULIET:\nO Romeo, Romeo",
           "First Citizen:\nBefore we go", "\n", "To be, or not to be, that is the question: " * 3]


def options(settings):
    """Settings of a request as options of tblock run."""
    names = {"max_tokens": "--predict", "temperature": "--temp", "top_p": "--top-p", "top_k": "--top-k", "min_p": "--min-p",
             "repetition_penalty": "--repeat-penalty", "presence_penalty": "--presence-penalty",
             "frequency_penalty": "--frequency-penalty", "seed": "--seed", "stop": "--stop"}
    settings = {"top_k": 0, "min_p": 0, "repetition_penalty": 1, "top_p": 1, **settings}
    bias = settings.pop("logit_bias", {})
    return [word for key, value in settings.items() for word in (names[key], str(value))] + \
        ["--logit-bias=%s=%s" % pair for pair in bias.items()]


def any_settings(rng):
    settings = {"max_tokens": rng.randint(1, 60), "temperature": rng.choice([0, 0.5, 1, 1.3]), "seed": rng.randint(0, 2**53 - 1),
                "top_p": rng.choice([0.3, 0.9, 1])}
    if rng.random() < 0.5:
        settings.update(top_k=rng.randint(1, 50), min_p=0.05, repetition_penalty=1.2)
    if rng.random() < 0.4:
        settings.update(presence_penalty=0.7, frequency_penalty=-0.3, logit_bias={"10": 2.5, "101": -100})
    if rng.random() < 0.3:
        settings["stop"] = rng.choice(["e", "\n", "the", "never in it"])
    return settings


def joined(pieces):
    choice = {"text": "", "token_ids": []}
    for event in pieces:
        for part in event["choices"]:
            choice["text"] += part["text"]
            choice["token_ids"] += part["token_ids"]
            choice["finish_reason"] = part["finish_reason"]
    return choice


def compare(server, prompt, settings, stream):
    if stream:
        found = joined(server.stream(PATH, prompt=prompt, return_token_ids=True, **settings))
    else:
        found = server.post(PATH, prompt=prompt, return_token_ids=True, **settings)["choices"][0]
    expected = run(*options(settings), prompt=prompt)
    reason = "length" if expected["stop_reason"] in ("length", "context") else "stop"
    assert (found["text"], found["token_ids"], found["finish_reason"]) == (expected["text"], expected["ids"], reason), \
        (prompt, settings, found, expected)


def many(server, n, workers, seed):
    rng = random.Random(seed)
    jobs = [(rng.choice(PROMPTS), any_settings(rng), rng.random() < 0.5) for _ in range(n)]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(compare, server, *job) for job in jobs]:
            done.result()


def texts_are_those_of_run():
    with Server("--parallel", "4", "--cache", "4") as s:
        many(s, 12, 1, 1)


def a_rope_length_is_that_of_run():
    with tempfile.TemporaryDirectory() as folder:
        model, prints, texts = rotating(pathlib.Path(folder, "m.bin"), type="dynamic", factor=8, original_n_ctx=32), set(), set()
        for length in ([], ["--rope-length", "32"], ["--rope-length", "100"]):
            expected = run(*options({"max_tokens": 60, "temperature": 0}), *length, prompt="ROMEO:\n", model=model)
            with Server(*length, model=model) as s:
                found = s.post(PATH, prompt="ROMEO:\n", max_tokens=60, temperature=0, return_token_ids=True)
            assert found["choices"][0]["token_ids"] == expected["ids"], (length, found, expected)
            texts.add(expected["text"])
            prints.add(found["system_fingerprint"])
        assert len(texts) == len(prints) == 3, (texts, prints)


def under_load_too():
    with Server("--parallel", "6", "--cache", "3") as s:
        many(s, 60, 16, 2)
        assert s.metrics()["tblock_cached_tokens_total"] > 0


def texts_that_give_way_go_on_as_if_nothing_had_happened():
    with Server("--parallel", "8", "--kv-memory", "4") as s:
        # All of one request begin together, and grow beyond what there was then: while nothing else is kept.
        settings = dict(max_tokens=200, temperature=1, seed=4)
        grown = s.post(PATH, prompt="A king", n=8, return_token_ids=True, **settings)["choices"]
        for i, choice in enumerate(grown):
            assert choice["token_ids"] == run(*options(settings | {"seed": 4 + i}), prompt="A king")["ids"], (i, choice)
        assert s.metrics()["tblock_preemptions_total"] > 0, "nothing gave way"
        many(s, 60, 16, 3)
        probed = dict(prompt=PROMPTS[1], seed=4, max_tokens=60, logprobs=1, echo=True, return_token_ids=True)
        alone = s.post(PATH, **probed)["choices"]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            assert all(done["choices"] == alone for done in pool.map(lambda _: s.post(PATH, **probed), range(16)))
        kept = s.metrics()["tblock_kv_bytes"]
        assert kept <= 4 << 20, kept


def a_broken_stream_goes_on_at_another_server():
    settings = dict(prompt=PROMPTS[1], max_tokens=40, temperature=1, seed=7, return_token_ids=True)
    with Server() as one, Server("--threads", "1") as other:
        whole = one.post(PATH, **settings)["choices"][0]
        for cut in (1, 7, 39):
            text, ids = "", []
            for event in one.stream(PATH, **settings):
                text += event["choices"][0]["text"]
                ids += event["choices"][0]["token_ids"]
                if len(ids) >= cut:
                    break
            rest = joined(other.stream(PATH, resume_ids=ids, **settings))
            told = other.post(PATH, resume_ids=ids, **settings)["choices"][0]
            assert ids + rest["token_ids"] == whole["token_ids"], cut
            assert rest["text"].endswith(whole["text"][len(text):]) and told["text"] == whole["text"], (cut, rest, whole)
            assert rest["finish_reason"] == told["finish_reason"] == "length"


def prompts_and_choices():
    with Server() as s:
        one = s.post(PATH, prompt="ROMEO:", seed=5, max_tokens=9)
        assert one["seed"] == 5 and one["usage"] == {"prompt_tokens": 2, "completion_tokens": 9, "total_tokens": 11,
                                                      "prompt_tokens_details": {"cached_tokens": 0}}, one
        ids = s.post("/tokenize", prompt="ROMEO:")["tokens"]
        assert s.post(PATH, prompt=ids, seed=5, max_tokens=9)["choices"] == one["choices"]
        assert s.post(PATH, prompt=[ids], seed=5, max_tokens=9)["choices"] == one["choices"]
        both = s.post(PATH, prompt=["ROMEO:", "A"], n=2, seed=5, max_tokens=9)["choices"]
        assert [c["index"] for c in both] == [0, 1, 2, 3] and both[0]["text"] == one["choices"][0]["text"]
        for i, c in enumerate(both):
            alone = s.post(PATH, prompt=["ROMEO:", "A"][i // 2], seed=5 + i, max_tokens=9)["choices"][0]
            assert alone["text"] == c["text"], (i, alone, c)
        assert s.post(PATH, prompt="A", max_tokens=0, echo=True)["choices"][0]["text"] == "A"
        assert [c["text"] for e in s.stream(PATH, prompt="A", max_tokens=0, echo=True) for c in e["choices"]] == ["A"]
        seed = s.post(PATH, prompt="A")["seed"]
        assert s.post(PATH, prompt="A", seed=seed)["choices"] == s.post(PATH, prompt="A", seed=seed)["choices"]
        best = s.post(PATH, prompt="A", seed=1, best_of=4, max_tokens=8)["choices"]
        each = s.post(PATH, prompt="A", seed=1, n=4, max_tokens=8, logprobs=0)["choices"]
        mean = [sum(c["logprobs"]["token_logprobs"]) / 8 for c in each]
        assert len(best) == 1 and best[0]["text"] == each[mean.index(max(mean))]["text"], (best, each)


def log_probabilities():
    with Server() as s:
        whole = s.post(PATH, prompt="ROMEO:\nI", max_tokens=5, temperature=0, logprobs=3, echo=True)["choices"][0]
        p = whole["logprobs"]
        assert "".join(p["tokens"]) == whole["text"] and p["token_logprobs"][0] is None and p["top_logprobs"][0] is None
        assert p["text_offset"] == [len("".join(p["tokens"][:i])) for i in range(len(p["tokens"]))]
        one = s.post(PATH, prompt=[5], max_tokens=2, logprobs=0, echo=True)["choices"][0]["logprobs"]
        assert len(one["tokens"]) == 3 and one["token_logprobs"][0] is None, one
        n = len(s.post("/tokenize", prompt="ROMEO:\nI")["tokens"])
        for i in range(n, len(p["tokens"])):   # greedy: the most probable
            assert p["token_logprobs"][i] == max(p["top_logprobs"][i].values()), i
            assert p["tokens"][i] in p["top_logprobs"][i] and len(p["top_logprobs"][i]) == 3
        again = s.post(PATH, prompt=whole["text"], max_tokens=0, logprobs=3, echo=True)["choices"][0]["logprobs"]
        assert again["tokens"] == p["tokens"] and again["token_logprobs"] == p["token_logprobs"]
        pieces = list(s.stream(PATH, prompt="ROMEO:\nI", max_tokens=5, temperature=0, logprobs=3, echo=True))
        told = [x for e in pieces for c in e["choices"] for x in c["logprobs"]["token_logprobs"]]
        assert told == p["token_logprobs"] and "".join(c["text"] for e in pieces for c in e["choices"]) == whole["text"]


def tokens_without_a_tokenizer_have_their_ids():
    """Log-probabilities of a model that has ids alone, whole and as a stream."""
    with tempfile.TemporaryDirectory() as folder:
        shape, model = pathlib.Path(folder) / "shape.json", pathlib.Path(folder) / "m.bin"
        shape.write_text(json.dumps({"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 16, "vocab_size": 40, "n_ctx": 64}))
        subprocess.run([TBLOCK, "synth", shape, "-o", model, "--quiet"], check=True)
        with Server(model=model) as s:
            asked = dict(prompt=[1, 2, 3], max_tokens=4, temperature=0, logprobs=2, echo=True, return_token_ids=True)
            whole = s.post(PATH, **asked)["choices"][0]
            p, ids = whole["logprobs"], [1, 2, 3, *whole["token_ids"]]
            assert whole["text"] == "" and p["tokens"] == [f"token_id:{i}" for i in ids] and len(ids) == 7, whole
            assert p["text_offset"] == [0] * 7 and p["token_logprobs"][0] is None, p
            for token, log_prob, top in list(zip(p["tokens"], p["token_logprobs"], p["top_logprobs"]))[1:]:
                assert top[token] == log_prob and all(re.fullmatch(r"token_id:\d+", t) for t in top), (token, top)
            told = [t for e in s.stream(PATH, **asked) for c in e["choices"] for t in c["logprobs"]["tokens"]]
            assert told == p["tokens"], told


def log_likelihoods_are_those_of_eval():
    rows = [{"context": "ROMEO:\nI love", "choices": [" thee", " you", " the king", "."], "answer": 0},
            {"context": "To be, or not to", "choices": [" be", " die"], "answer": 0}]
    done = subprocess.run([TBLOCK, "eval", MODEL, "--choices", "-", "--delimiter", "", "--json", "--each"], text=True, capture_output=True,
                          input="\n".join(map(json.dumps, rows)))
    assert done.returncode == 0, done.stderr
    expected = json.loads(done.stdout)
    with Server() as s:
        for row, sums in zip(rows, expected["each"]):
            context = s.post("/tokenize", prompt=row["context"])["tokens"]
            for choice, score in zip(row["choices"], (c["sum"] for c in sums["choices"])):
                ids = s.post("/tokenize", prompt=row["context"] + choice)["tokens"]
                shared = next((i for i, (a, b) in enumerate(zip(context, ids)) if a != b), len(context))
                p = s.post(PATH, prompt=ids, max_tokens=1, logprobs=1, echo=True, temperature=0)["choices"][0]["logprobs"]
                total = 0.0
                for x in p["token_logprobs"][shared:-1]:
                    total += x
                assert len(p["token_logprobs"]) == len(ids) + 1 and total == score, (choice, total, score)


def what_is_wrong_is_named():
    with Server() as s:
        s.refused(PATH, 400, "found none", "prompt")
        s.refused(PATH, 400, "unknown parameter", "promt", promt="A")
        s.refused(PATH, 400, "context holds 256", "max_tokens", prompt="A", max_tokens=1000)
        s.refused(PATH, 400, "at most the 256 tokens of the context, found 257", "prompt", prompt=[1] * 257)
        s.refused(PATH, 400, "token 1: expected 0 to 1023, found 1024", "prompt", prompt=[1, 1024])
        s.refused(PATH, 400, "at least one token", "prompt", prompt=[])
        s.refused(PATH, 400, "expected a number from 0 to 100, found -1", "temperature", prompt="A", temperature=-1)
        s.refused(PATH, 400, "found 'hot'", "temperature", prompt="A", temperature="hot")
        s.refused(PATH, 400, "an integer", "n", prompt="A", n=1.5)
        s.refused(PATH, 400, "only continue", "suffix", prompt="A", suffix="B")
        s.refused(PATH, 400, "at least n", "best_of", prompt="A", n=3, best_of=2)
        s.refused(PATH, 400, "stream to be true", "stream_options", prompt="A", stream_options={"include_usage": True})
        s.refused(PATH, 400, "stop", "stop", prompt="A", stop=[""])
        s.refused(PATH, 400, "at most 64", "stop", prompt="A", stop=["x"] * 65)
        s.refused(PATH, 400, "expected 0 to 1023, found 1024", "logit_bias", prompt="A", logit_bias={"1024": 1})
        s.refused(PATH, 400, "found ab", "logit_bias", prompt="A", logit_bias={"ab": 1})
        s.refused(PATH, 400, "from -1000 to 1000", "logit_bias", prompt="A", logit_bias={"1": 1e6})
        s.refused(PATH, 404, "expected shakespeare", "model", prompt="A", model="gpt-4")
        s.refused(PATH, 400, "at most 128", "prompt", prompt=["A"] * 129)
        for field in ("max_tokens", "n", "seed", "top_k", "temperature", "logprobs"):
            for value in (-5, 1e300, 2**63, "x", [], {}, True):
                status, data = s.send(PATH, {"prompt": "A", field: value})
                assert status == 400 and data["error"]["param"] == field, (field, value, status, data)
        s.post(PATH, prompt="A", user="someone", max_tokens=None, model="shakespeare")
    with Server("--lenient", "--alias", "other") as s:
        s.post(PATH, prompt="A", model="any", promt="B")
        assert s.get("/v1/models")["data"][0]["id"] == "other"


def tokens_and_back():
    with Server() as s:
        for text in ("ROMEO: hello", "", "żółć \U0001f600\n\t", "a\x00b"):
            ids = s.post("/tokenize", prompt=text, return_token_strs=True)
            assert s.post("/detokenize", tokens=ids["tokens"])["prompt"] == text and ids["count"] == len(ids["tokens"])
        s.refused("/tokenize", 400, "expected a string", "prompt", prompt=[1])
        s.refused("/detokenize", 400, "expected 0 to 1023", "tokens", tokens=[4000])


def examples_of_the_page_work():
    page = (ROOT / "docs/serve.md").read_text()
    shell = "".join(re.findall(r"```sh\n(.*?)```", page, re.S)).replace("tblock serve models/shakespeare.bin --chat-format alpaca\n", "")
    with Server("--chat-format", "alpaca") as s:
        done = subprocess.run(["bash", "-e", "-c", 'curl() { command curl --fail-with-body "$@"; }\n' + shell.replace("127.0.0.1:8080", "127.0.0.1:%d" % s.port)], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.count("\"id\": \"cmpl-") > 2 and "\"error\": {" not in done.stdout, done
        assert shell.count("curl") >= 6 and "\"embedding\": [" in done.stdout and "chat.completion" in done.stdout and "\"resp_" in done.stdout and "\"msg_" in done.stdout and "data: [DONE]" in done.stdout and "\"tokens\": [" in done.stdout, done.stdout


def paths_and_parameters_are_documented():
    page = (ROOT / "docs/serve.md").read_text()
    routes = re.findall(r'\{ "(?:GET|POST)", +"(/[^"]*)"', (ROOT / "src/serve/serve.c").read_text())
    fields = [f for file in (ROOT / "src/serve").glob("*.c") for f in re.findall(r'\{ "(\w+)", +FIELD_', file.read_text())]
    missing = [x for x in routes if "`%s`" % x not in page and " %s`" % x not in page] + [x for x in fields if x not in page]
    assert len(routes) > 5 and len(fields) > 15 and not missing, missing


if __name__ == "__main__":
    sys.exit(attempt_all(texts_are_those_of_run, a_rope_length_is_that_of_run, under_load_too,
                         texts_that_give_way_go_on_as_if_nothing_had_happened,
                         a_broken_stream_goes_on_at_another_server, prompts_and_choices, log_probabilities,
                         tokens_without_a_tokenizer_have_their_ids, log_likelihoods_are_those_of_eval, what_is_wrong_is_named, tokens_and_back, examples_of_the_page_work,
                         paths_and_parameters_are_documented))
