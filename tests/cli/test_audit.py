#!/usr/bin/env python3
"""`tblock audit` (docs/audit.md): texts of `tblock run` as logs of another engine, honest and not. What it says of each token is
computed here a second time, in float64, from goldens of `tblock logits`. $TBLOCK is the program."""
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import attempt_all, need, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
MODEL = str(ROOT / "models/shakespeare.bin")
TEMP = None
LONG = 245  # tokens of a text where a verdict counts
DEFAULT = {"temp": 0.8, "top_k": 40, "top_p": 0.95}
PLAIN = {"temp": 1, "top_k": 0, "top_p": 1}


def tblock(*args, status=0, text=None):
    done = subprocess.run([TBLOCK, *map(str, args)], input=text, capture_output=True, encoding="utf-8", errors="replace", check=False)
    need(done.returncode == status, "%s: status %d, expected %d: %s" % (" ".join(map(str, args)), done.returncode, status, done.stderr))
    return done


def sampled(sampling, *options, n=LONG, seed=7, prompt="ROMEO:"):
    """A line of a log: what run draws with these options."""
    path = TEMP / "receipt.json"
    named = [part for key, value in sampling.items() for part in ("--" + key.replace("_", "-"), value)]
    tblock("run", MODEL, "--prompt", prompt, "-n", n, "--seed", seed, "--quiet", "--trust-hash", "--receipt", path, *named, *options)
    receipt = json.loads(path.read_text())
    return {"prompt": receipt["prompt"], "drawn": receipt["drawn"], "sampling": receipt["sampling"]}


def claims(line, seeded=True, **sampling):
    """The line with another claim."""
    said = dict(line["sampling"], **sampling)
    if not seeded:
        said.pop("seed")
    return dict(line, sampling=said)


def audit(*lines, options=(), model=MODEL, from_log=True):
    """What audit says of them, as JSON; what they claim counts, or what options says alone."""
    log = TEMP / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run([TBLOCK, "audit", model, "--tokens", str(log), "--json", "--each", "--quiet", *map(str, options),
                           *["--claims-from-log"] * from_log], capture_output=True, encoding="utf-8", check=False)
    need(done.stdout, done.stderr)
    answer = json.loads(done.stdout)
    bad = {t["verdict"] for t in answer["texts"]} - {"fits"}
    need(done.returncode == (0 if not bad else 5 if bad == {"no power"} else 1), "status %d of %s" % (done.returncode, bad))
    need(answer["ok"] == all(t["verdict"] == "fits" for t in answer["texts"]), "ok")
    return answer


def logits_of(ids):
    golden = TEMP / "golden.safetensors"
    tblock("logits", MODEL, "--ids", ",".join(map(str, ids)), "-o", golden)
    data = golden.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensor = json.loads(data[8:8 + size])["logits"]
    start, vocab = 8 + size + tensor["data_offsets"][0], tensor["shape"][1]
    return [struct.unpack_from("<%df" % vocab, data, start + i * 4 * vocab) for i in range(len(ids))]


# ---- What is honest ----

def its_own_samples_fit_to_the_token():
    table = [DEFAULT, PLAIN, {"temp": 0}, dict(PLAIN, top_k=5), dict(PLAIN, top_p=0.7), dict(PLAIN, min_p=0.05),
             dict(DEFAULT, repeat_penalty=1.3, presence_penalty=0.4, frequency_penalty=0.2)]
    lines = [sampled(sampling, n=60) for sampling in table] + [sampled(DEFAULT, "--logit-bias", "10=-3.5", "--logit-bias", "58=2", n=60)]
    answer = audit(*lines)
    for line, text in zip(lines, answer["texts"]):
        need(text["verdict"] == "fits" and text["other"] == 0 and text["ruled_out"] == 0 and text["difference"] == 0, "%s: %s" % (line["sampling"], text))
        need((text["given"], text["drawn"]) == (len(line["prompt"]), len(line["drawn"])), "counts")
    need(len(answer["tokens"]) == sum(len(line["drawn"]) for line in lines), "tokens")
    need(all(t["id"] == t["expected"] and t["prob"] > 0 for t in answer["tokens"]), "a token")


def other_roundings_are_honest():
    for options in (["--math", "bf16"], ["--kv-type", "f16"], ["--math", "bf16", "--kv-type", "q8"]):
        for sampling in (DEFAULT, PLAIN, {"temp": 0}):
            text = audit(sampled(sampling, *options))["texts"][0]
            need(text["verdict"] == "fits", "%s, %s: %s" % (options, sampling, text))


def each_number_is_what_the_page_says():
    line = claims(sampled(dict(DEFAULT, temp=0.7), n=40), seeded=False)
    line["drawn"][7] = 3
    logits = logits_of(line["prompt"] + line["drawn"])
    answer = audit(line)
    surprise = variance = 0.0
    for i, token in enumerate(answer["tokens"]):
        x = [v / 0.7 for v in logits[len(line["prompt"]) + i - 1]]
        order = sorted(range(len(x)), key=lambda j: (-x[j], j))
        kept = order[:40]
        weight = [math.exp(x[j] - x[order[0]]) for j in kept]
        total, n, at = sum(weight), 0, 0.0
        while at < 0.95 * total:
            at, n = at + weight[n], n + 1
        share = {j: w / at for j, w in zip(kept[:n], weight)}
        entropy = -sum(p * math.log(p) for p in share.values())
        all_weights = [math.exp(v - x[order[0]]) for v in x]
        want = {"position": len(line["prompt"]) + i, "id": line["drawn"][i], "rank": order.index(line["drawn"][i]) + 1,
                "prob": share.get(line["drawn"][i], 0), "margin": 0.7 * (x[order[0]] - x[line["drawn"][i]]), "entropy": entropy,
                "tail": sum(w for w, v in zip(all_weights, x) if v <= x[line["drawn"][i]]) / sum(all_weights)}
        for key, value in want.items():
            need(abs(token[key] - value) <= 1e-5 * max(1, abs(value)), "token %d: %s: expected %r, found %r" % (i, key, value, token[key]))
        if want["prob"]:
            surprise += -math.log(want["prob"]) - entropy
            variance += sum(p * math.log(p) ** 2 for p in share.values()) - entropy ** 2
    text = answer["texts"][0]
    z = surprise / math.sqrt(variance)
    need(abs(text["surprise"] - z) < 1e-4, "surprise: expected %r, found %r" % (z, text["surprise"]))
    need(abs(text["likelihood"] - math.erfc(abs(z) / math.sqrt(2))) < 1e-4, "likelihood: %r" % text["likelihood"])


def the_tails_are_those_of_a_normal_variable():
    """Over a range of surprises, of texts that were drawn with other temperatures."""
    lines = [claims(sampled(dict(PLAIN, temp=temp), n=n, seed=n), seeded=False, temp=1) for temp in (0.4, 0.7, 1, 1.5) for n in (3, 30, 200)]
    for text in audit(*lines)["texts"]:
        want = math.erfc(abs(text["surprise"]) / math.sqrt(2))
        need(abs(text["likelihood"] - want) <= 1e-9 * want + 1e-14, "%r: expected %r, found %r" % (text["surprise"], want, text["likelihood"]))


def the_same_bytes_everywhere():
    lines = [sampled(DEFAULT, n=50), claims(sampled(PLAIN, n=90), temp=1.3), sampled({"temp": 0}, n=20)]
    want = audit(*lines)
    for options in (["--threads", 1], ["--threads", 3], ["--isa", "scalar"]):
        need(audit(*lines, options=options) == want, str(options))


# ---- What is not ----

def q4_is_told_from_its_parent():
    for sampling in (DEFAULT, PLAIN):
        for seed in range(3):
            text = audit(sampled(sampling, "--type", "q4", seed=seed))["texts"][0]
            need(text["verdict"] == "differs" and "the seed samples" in text["why"], "%s: %s" % (sampling, text))


def a_wrong_temperature_is_found():
    for sampling in (DEFAULT, PLAIN):
        for temp in (0.75 * sampling["temp"], 1.25 * sampling["temp"]):
            text = audit(claims(sampled(dict(sampling, temp=temp)), temp=sampling["temp"]))["texts"][0]
            need(text["verdict"] == "differs", "seed, %g for %g: %s" % (temp, sampling["temp"], text))
    for temp in (0.6, 1.6):
        text = audit(claims(sampled(dict(PLAIN, temp=temp)), seeded=False, temp=1))["texts"][0]
        need(text["verdict"] == "differs" and text["surprise"] * (temp - 1) > 0 and "difference" not in text, "no seed, %g: %s" % (temp, text))


def another_seed_is_found():
    line = sampled(DEFAULT)
    need(audit(claims(line, seed="8"))["texts"][0]["verdict"] == "differs", "another seed")
    need(audit(claims(line, seeded=False))["texts"][0]["verdict"] == "fits", "no seed")


def a_tampered_token_is_found():
    for sampling, seeded in ((DEFAULT, True), (PLAIN, False), ({"temp": 0}, True)):
        line = claims(sampled(sampling), seeded=seeded)
        row = logits_of(line["prompt"] + line["drawn"][:100])[-1]
        line["drawn"][100] = row.index(min(row))
        answer = audit(line)
        token = answer["tokens"][100]
        need(token["rank"] == len(row) and token["margin"] > 10, str(token))
        need(not seeded or token["expected"] != token["id"], str(token))
        need(answer["texts"][0]["verdict"] == "differs", "%s: %s" % (sampling, answer["texts"][0]))


def options_that_rule_tokens_out():
    text = audit(claims(sampled(PLAIN), seeded=False, top_k=10))["texts"][0]
    need(text["verdict"] == "differs" and text["ruled_out"] > 10 and "cannot come" in text["why"], str(text))


# ---- Whoever writes the log may lie ----

def the_claim_is_the_command_line_s():
    """Whatever a line says of itself."""
    line = sampled(dict(PLAIN, temp=1.5))
    for said in (line, claims(line, seeded=False), claims(line, temp=1e9), claims(line, temp=0), openai(line), {"prompt": line["prompt"], "drawn": line["drawn"]}):
        for temp, verdict in ((1.5, "fits"), (0.8, "differs")):
            text = audit(said, from_log=False, options=["--temp", temp, "--top-k", 0, "--top-p", 1])["texts"][0]
            need(text["verdict"] == verdict and "difference" not in text, "%g: %s" % (temp, text))
            need(text["judged_by"] == "--temp %g --top-k 0 --top-p 1 --min-p 0 --repeat-penalty 1 --presence-penalty 0 --frequency-penalty 0 "
                 "--min-tokens 0" % temp, str(text))
    own = ["--temp", 1.5, "--top-k", 0, "--top-p", 1, "--shared-seed"]
    for seed, verdict in ((7, "fits"), (8, "differs")):
        text = audit(line, from_log=False, options=[*own, "--seed", seed, "--logit-bias", "3=0"])["texts"][0]
        need(text["verdict"] == verdict and text["judged_by"].endswith(" --logit-bias 3=0 --shared-seed --seed %d" % seed), str(text))
    log = TEMP / "two.jsonl"
    log.write_text((json.dumps(line) + "\n") * 2)
    told = tblock("audit", MODEL, "--tokens", log, status=1).stdout
    need(told.count("judged by --temp 0.8 --top-k 40 --top-p 0.95 ") == 1, told)


def random_ids_never_fit():
    chance = random.Random(5)
    lines = [{"prompt": [910, 27], "drawn": [chance.randrange(1024) for _ in range(n)]} for n in (2, 20, LONG)]
    for temp in (0, 1, 2, 5, 50, 100):
        for more in (["--top-k", 0, "--top-p", 1], ["--top-k", 1 << 24, "--top-p", 1, "--logit-bias", "9=3"], ["--top-k", 900], []):
            for text in audit(*lines, from_log=False, options=["--temp", temp, *more])["texts"]:
                need(text["verdict"] != "fits", "temp %g %s: %s" % (temp, more, text))
                need(text["drawn"] < LONG or text["verdict"] == ("no power" if temp >= 50 and more and "900" not in str(more) else "differs")
                     or temp >= 5, "temp %g %s: %s" % (temp, more, text))
            seeded = audit(*lines[1:], from_log=False, options=["--temp", temp, *more, "--shared-seed", "--seed", 5])["texts"]
            need(all(t["verdict"] == "differs" and t["blind"] < 0.01 for t in seeded), "temp %g %s with a seed: %s" % (temp, more, seeded))
    log = TEMP / "random.jsonl"
    log.write_text(json.dumps(dict(lines[2], sampling={"temp": 1e9})) + "\n")
    need("--temp: expected a number from 0 to 100" in tblock("audit", MODEL, "--tokens", log, "--temp", 1e9, status=2).stderr, "1e9")
    need("temp: expected a number from 0 to 100" in tblock("audit", MODEL, "--tokens", log, "--claims-from-log", status=1).stderr, "1e9 in the log")
    told = tblock("audit", MODEL, "--tokens", log, "--temp", 100, "--top-k", 0, "--top-p", 1, status=5)
    need("no power" in told.stdout and "text 1: no power: with these options and %d tokens" % LONG in told.stderr, told.stderr)


def an_honest_text_has_power_or_says_not():
    """From how many tokens on; a text of none never."""
    line = sampled(PLAIN, seed=3)
    for n, options, verdict in ((0, DEFAULT, "no power"), (1, DEFAULT, "no power"), (5, DEFAULT, "fits"), (1, PLAIN, "no power"), (40, PLAIN, "fits"),
                                (LONG, dict(PLAIN, temp=100), "no power")):
        text = sampled(options, seed=3) if n else line
        text = audit(claims(dict(text, drawn=text["drawn"][:n]), seeded=False, **options))["texts"][0]
        need(text["verdict"] == verdict and (text["blind"] > 0.01) == (verdict == "no power"), "%d tokens: %s" % (n, text))
    text = dict(line, drawn=[])
    need(audit(text, claims(line, seed="9"))["texts"][1]["verdict"] == "differs", "status 1 beside one without power")


# ---- Forms of a log ----

def openai(line, **choice):
    names = {"temp": "temperature", "top_k": "top_k", "top_p": "top_p"}
    request = {"model": "m", "prompt": line["prompt"], **{names[k]: v for k, v in line["sampling"].items() if k in names}, "seed": int(line["sampling"]["seed"])}
    return {"request": request, "response": {"object": "text_completion", "choices": [choice or {"index": 0, "token_ids": line["drawn"]}]}}


def spelled(ids):
    """Each token's text, where it is the only token of that text."""
    out = []
    for token in ids:
        out.append(tblock("tokenize", MODEL, "--ids", token).stdout)
    return out


def openai_s_forms_are_read():
    line = sampled(DEFAULT, n=30)
    want = audit(line)
    pair = openai(line)
    texts = spelled(line["drawn"])
    forms = {
        "ids": pair,
        "prompt as text": dict(pair, request=dict(pair["request"], prompt="ROMEO:")),
        "answer's prompt": {"request": {k: v for k, v in pair["request"].items() if k != "prompt"} | {"messages": [{"role": "user", "content": "x"}]},
                            "response": dict(pair["response"], prompt_token_ids=line["prompt"])},
        "tokens": openai(line, logprobs={"tokens": texts}),
        "tokens as ids": openai(line, logprobs={"tokens": ["token_id:%d" % i for i in line["drawn"]]}),
        "content": openai(line, logprobs={"content": [{"token": t, "bytes": list(t.encode())} for t in texts]}),
    }
    for name, form in forms.items():
        need(audit(form, options=["--shared-seed"]) == want, name)
    answer = dict(pair["response"], prompt_token_ids=line["prompt"])
    flags = ["--temp", 0.8, "--top-k", 40, "--top-p", 0.95, "--seed", 7, "--shared-seed"]
    need(audit(answer, options=flags) == want, "an answer alone, claims on the command line")
    need("expected" not in audit(pair)["tokens"][0], "a seed that is not shared")
    plain = sampled(PLAIN, n=30)
    bare = openai(plain)
    bare["request"] = {"prompt": plain["prompt"], "seed": 7}
    need(audit(bare, options=["--shared-seed"]) == audit(plain), "what a request leaves out")
    biased = sampled(DEFAULT, "--logit-bias", "10=-3.5", n=30)
    pair = openai(biased)
    pair["request"]["logit_bias"] = {"10": -3.5}
    need(audit(pair, options=["--shared-seed"]) == audit(biased), "bias")
    need(audit(openai(line, token_ids=[]))["texts"][0]["drawn"] == 0, "no token")
    need(audit(pair, from_log=False) == audit({k: v for k, v in biased.items() if k != "sampling"}, from_log=False), "a request that claims")


def messages_are_written_by_the_template():
    model = TEMP / "chat.bin"
    tblock("convert", MODEL, "-o", model, "--chat-format", "llama2")
    messages = [{"role": "user", "content": "Who is there?"}, {"role": "assistant", "content": "The king."}, {"role": "user", "content": "Speak!"}]
    conversation = TEMP / "talk.json"
    conversation.write_text(json.dumps({"messages": messages}))
    shown = json.loads(tblock("chat", model, "--messages", conversation, "--show-prompt").stdout)
    pair = {"request": {"messages": messages, "temperature": 0.5}, "response": {"object": "chat.completion", "choices": [{"token_ids": [5, 6, 7]}]}}
    own = {"prompt": shown["ids"], "drawn": [5, 6, 7], "sampling": {"temp": 0.5, "top_k": 0, "top_p": 1}}
    need(audit(pair, model=str(model)) == audit(own, model=str(model)), "the prompt")
    log = TEMP / "no-template.jsonl"
    log.write_text(json.dumps(pair) + "\n")
    need("template" in tblock("audit", MODEL, "--tokens", log, status=3).stderr, "a model without template")


def many_texts_are_one_log():
    lines = [sampled(DEFAULT, n=10 + i, seed=i) for i in range(20)]
    want = [audit(line, from_log=False)["texts"][0] for line in lines]
    log = TEMP / "many.jsonl"
    log.write_text("\n\n".join(json.dumps(line) for line in lines))
    got = json.loads(tblock("audit", MODEL, "--tokens", log, "--json").stdout)["texts"]
    need([dict(t, text=1) for t in got] == want, "20 texts")
    need(tblock("audit", MODEL, "--tokens", "-", text=log.read_text()).stdout.endswith("20 of 20 texts fit\n"), "standard input")
    two = openai(lines[0])
    two["response"]["choices"] *= 2
    need(len(audit(two)["texts"]) == 2, "two choices")


# ---- What is refused ----

def bad_lines_are_refused_by_name():
    line = sampled(DEFAULT, n=5)
    pair = openai(line)
    ask = pair["request"]
    bad = [
        ("{", "line 1"), ("[]", "line: expected an object"), ({"prompt": [1]}, "drawn: expected an array"),
        (dict(line, prompt=[]), "prompt of at least one token"), (dict(line, drawn="x"), "drawn: expected an array of ids, found 'x'"),
        (dict(line, drawn=[1.5]), "drawn: expected an integer"), (dict(line, drawn=[-1]), "drawn: expected an integer from 0"),
        (dict(line, more=1), 'unknown field "more"'), (claims(line, typical_p=1), 'sampling: unknown field "typical_p"'),
        (claims(line, temp="x"), "sampling.temp: expected a number"), (claims(line, seed=7), "sampling.seed: expected a text"),
        (claims(line, top_k=-1), "sampling.top_k: expected an integer"), (claims(line, bias=[[1]]), "sampling.bias: expected pairs"),
        (dict(pair, request=dict(ask, response_format={"type": "json_object"})), 'request: "response_format"'),
        (dict(pair, request=dict(ask, logit_bias={"x": 1})), 'logit_bias: expected ids of tokens, found "x"'),
        (dict(pair, request=dict(ask, seed=-1)), "request: seed: expected an integer"),
        (dict(pair, request={"temperature": 1}), "expected prompt_token_ids"),
        (dict(pair, request=dict(ask, prompt=["a", "b"])), "request: prompt: expected an integer"),
        ({"request": ask, "response": {"choices": []}}, "choices: expected an array"),
        (openai(line, text="no ids"), "choices: expected token_ids, or logprobs"),
        (openai(line, logprobs={"tokens": ["no such token"]}), "found 'no such token'"),
        (openai(line, logprobs={"content": [{"token": "a", "bytes": [256]}]}), "logprobs: bytes: expected an integer from 0 to 255"),
        ({"request": ask, "response": pair["response"], "id": 1}, 'unknown field "id"'),
    ]
    for wrong, why in bad:
        log = TEMP / "bad.jsonl"
        log.write_text((wrong if isinstance(wrong, str) else json.dumps(wrong)) + "\n")
        told = tblock("audit", MODEL, "--tokens", log, "--claims-from-log", status=3).stderr
        need(why in told and "line 1" in told and told.count("\n") == 1, "%s: %s" % (why, told))


def what_cannot_be_computed_says_so():
    line = sampled(DEFAULT, n=5)
    for wrong, why in ((dict(line, drawn=[5000]), "expected 0 to 1023"), (dict(line, drawn=[1] * 300), "do not fit into the context of 256"),
                       (claims(line, temp=-1), "temp: expected"), (claims(line, top_p=2), "top-p: expected"),
                       (claims(line, temp=1e9), "temp: expected a number from 0 to 100, found 1e+09"), (claims(line, temp=1e-7), "temp: expected"),
                       (claims(line, repeat_penalty=0.009), "repeat-penalty: expected"), (claims(line, presence_penalty=101), "presence-penalty: expected"),
                       (claims(line, bias=[[5, -1001]]), "logit bias: expected a number from -1000 to 1000"),
                       (claims(line, bias=[[5000, 1]]), "logit bias: token")):
        texts = audit(wrong, line)["texts"]
        need(texts[0]["verdict"] == "failed" and why in texts[0]["why"], "%s: %s" % (why, texts[0]))
        need(texts[1]["verdict"] == "fits", "the next one")


def junit_has_a_case_for_each():
    line = sampled(DEFAULT, n=20)
    log, out = TEMP / "junit.jsonl", TEMP / "junit.xml"
    log.write_text(json.dumps(line) + "\n" + json.dumps(claims(line, seed="8")) + "\n")
    said = tblock("audit", MODEL, "--tokens", log, "--junit", out, "--claims-from-log", status=1).stderr
    root = xml.etree.ElementTree.parse(out).getroot()
    cases = root.findall("testsuite/testcase")
    need((root.get("tests"), root.get("failures"), root.get("errors")) == ("2", "1", "0"), str(root.attrib))
    need([c.get("name") for c in cases] == ["text 1", "text 2"] and cases[0].find("failure") is None, "names")
    need(cases[1].find("failure").get("message") in said and cases[1].find("system-out").text == "2 tokens given, 20 drawn", said)
    before = log.read_bytes()
    tblock("audit", MODEL, "--tokens", log, "--junit", log, status=2)
    need(log.read_bytes() == before, "a report over a log")
    log.write_text("{}\n")
    tblock("audit", MODEL, "--tokens", log, "--junit", out, status=3)
    need(xml.etree.ElementTree.parse(out).getroot().get("errors") == "1", "errors")


def usage_is_told():
    log = TEMP / "one.jsonl"
    log.write_text(json.dumps(sampled(DEFAULT, n=5)) + "\n")
    need("--tokens" in tblock("audit", MODEL, status=2).stderr, "no log")
    need("found 'random'" in tblock("audit", MODEL, "--tokens", log, "--seed", "random", status=2).stderr, "a random seed")
    need("none" in tblock("audit", MODEL, "--tokens", os.devnull, status=3).stderr, "an empty log")
    need("no-such" in tblock("audit", MODEL, "--tokens", TEMP / "no-such", status=3).stderr, "no file")
    told = subprocess.run([TBLOCK, "audit", MODEL, "--tokens", str(log), "--sandbox"], capture_output=True, encoding="utf-8", check=False)
    need(told.returncode == 0 or (told.returncode == 4 and "sandbox" in told.stderr), told.stderr)


def main():
    global TEMP
    claims_of_it = (its_own_samples_fit_to_the_token, other_roundings_are_honest, each_number_is_what_the_page_says,
                    the_tails_are_those_of_a_normal_variable, the_same_bytes_everywhere, q4_is_told_from_its_parent,
                    a_wrong_temperature_is_found, another_seed_is_found, a_tampered_token_is_found, options_that_rule_tokens_out,
                    the_claim_is_the_command_line_s, random_ids_never_fit, an_honest_text_has_power_or_says_not,
                    openai_s_forms_are_read, messages_are_written_by_the_template, many_texts_are_one_log, bad_lines_are_refused_by_name, what_cannot_be_computed_says_so,
                    junit_has_a_case_for_each, usage_is_told)
    only = option_only(__doc__).parse_args().only
    with tempfile.TemporaryDirectory() as folder:
        TEMP = pathlib.Path(folder)
        sys.exit(attempt_all(*claims_of_it, only=only))


if __name__ == "__main__":
    main()
