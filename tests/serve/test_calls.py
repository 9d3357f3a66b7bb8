#!/usr/bin/env python3
"""Calls that must come, in the forms of published families: with special tokens, behind reasoning that the prompt opens, with ids behind
the arguments. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from server import HELLO, ROOT, TBLOCK, TOOLS as TALK_TOOLS, Server, talking
from tokens_model import model_of
from verdicts import attempt_all

sys.path.insert(0, str(ROOT / "tests/text"))
from answer_templates import TEMPLATES  # noqa: E402

PATH = "/v1/chat/completions"
MARKER = re.compile(r"<\|[^|<>]*\|>|<｜[^｜]*｜>|\[/?[A-Z_]+\]|</?(?:think|tool_call|arg_key|arg_value)>|</?s>|<\|[a-z\"]+>|<[a-z_]+\|>")
TOKENS = sorted({m for t in TEMPLATES.values() for m in MARKER.findall(t["template"])})
FOLDER, MODEL = model_of(TOKENS, ends=("<|im_end|>", "<|END_OF_TURN_TOKEN|>", "<|call|>", "<|return|>"))
SCHEMA = {"type": "object", "properties": {"word": {"type": "string", "maxLength": 5}, "n": {"enum": [1, 2, 3]}},
          "required": ["word", "n"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": name, "description": "d", "parameters": SCHEMA}} for name in ("look_up", "count")]
ASKED = dict(messages=HELLO, tools=TOOLS, max_tokens=600, return_token_ids=True)
# What a call begins with, where it is one special token; which have a place for several calls.
BEGINS = {"hermes": "<tool_call>", "mistral_v3": "[TOOL_CALLS]", "mistral_v11": "[TOOL_CALLS]", "phi4_mini": "<|tool_call|>",
          "granite": "<|tool_call|>", "deepseek_v3": "<｜tool▁calls▁begin｜>", "section": "<|section_begin|>", "named_key": "<|tools|>",
          "command_r": "<|START_ACTION|>", "qwen3": "<tool_call>"}
OTHERS = ("llama31", "llama_functions", "gpt_oss", "openai")
REFUSED = {"coder": "arguments are not an object", "typed": "arguments are not an object", "python": "arguments are not an object",
           "id_only": "the name does not stand once", "plain": "it shows none", "deepseek_r1": "it shows none"}


def speaking(template):
    file = tempfile.NamedTemporaryFile("w", suffix=".jinja")
    file.write(template)
    file.flush()
    s = Server("--chat-format", file.name, model=MODEL)
    s.template = file
    return s


def id_of(token):
    return 256 + TOKENS.index(token)


def fitting(calls, names=("look_up", "count")):
    for call in calls:
        arguments = json.loads(call["function"]["arguments"])
        assert call["function"]["name"] in names and set(arguments) == {"word", "n"} and arguments["n"] in (1, 2, 3), call
        assert len(arguments["word"]) <= 5 and call["id"], call
    assert len({c["id"] for c in calls}) == len(calls), calls
    return len(calls)


def streamed(s, **given):
    """Ids and text of a stream."""
    ids, said = [], {"content": "", "reasoning_content": "", "arguments": ""}
    for event in s.stream(PATH, **given):
        for choice in event["choices"]:
            ids += choice.get("token_ids", [])
            for key in ("content", "reasoning_content"):
                said[key] += choice["delta"].get(key) or ""
            for call in choice["delta"].get("tool_calls", []):
                said["arguments"] += call["function"].get("arguments", "")
    return ids, said


def every_form_writes_its_own_tokens():
    several = set()
    for name in [*BEGINS, *OTHERS]:
        with speaking(TEMPLATES[name]["template"]) as s:
            whole = [s.post(PATH, **ASKED, tool_choice="required", seed=seed)["choices"][0] for seed in range(4)]
            ended = [c for c in whole if c["finish_reason"] == "tool_calls"]
            assert len(ended) >= 3, (name, whole)
            for c in ended:
                several.update([name] if fitting(c["message"]["tool_calls"]) > 1 else [])
                assert c["message"]["content"] is None and "reasoning_content" not in c["message"], (name, c)
                assert name not in BEGINS or id_of(BEGINS[name]) in c["token_ids"], (name, c["token_ids"])
            ids, said = streamed(s, **ASKED, tool_choice="required", seed=0)
            told = "".join(t["function"]["arguments"] for t in whole[0]["message"]["tool_calls"])
            assert ids == whole[0]["token_ids"] and said["arguments"] == told, (name, said, whole[0])
            again = s.post(PATH, **ASKED, tool_choice="required", seed=0, resume_ids=ids[:len(ids) // 2])["choices"][0]
            assert again["message"] == whole[0]["message"] and ids[len(ids) // 2:] == again["token_ids"], (name, again)
            named = s.post(PATH, **ASKED, seed=5, tool_choice={"type": "function", "function": {"name": "count"}}, parallel_tool_calls=False)
            assert fitting(named["choices"][0]["message"]["tool_calls"], ["count"]) == 1, named
    assert several >= {"hermes", "mistral_v3", "phi4_mini"}, several


def its_receipts_hold():
    """Calls that must come, and those that need not, behind reasoning or at once."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []

        def keep(answer, what, calls=1):
            paths.append("%s/%s.json" % (folder, what))
            receipt = answer["receipt"]
            said = json.loads(receipt["constraint"]["text"])
            assert receipt["constraint"]["kind"] == "calls" and [t["name"] for t in said["tools"]] == ["look_up", "count"][-calls:], said
            assert all(t["parameters"] == SCHEMA for t in said["tools"]), said
            pathlib.Path(paths[-1]).write_text(json.dumps(receipt))
        for name in [*BEGINS, *OTHERS]:
            with speaking(TEMPLATES[name]["template"]) as s:
                keep(s.post(PATH, **ASKED, tool_choice="required", seed=1, receipt=True)["choices"][0], name, 2)
                if name in BEGINS:   # the first token or a later one is the marker
                    strict_ = s.post(PATH, **ASKED | {"tools": strict()}, seed=2, receipt=True, logit_bias={str(id_of(BEGINS[name])): 7})["choices"][0]
                    assert id_of(BEGINS[name]) in strict_["token_ids"], (name, strict_)
                    keep(strict_, name + "-strict", 2)
        with speaking(TEMPLATES["qwen3_prompt_thinks"]["template"]) as s:
            given = dict(input=HELLO, tools=[dict(t["function"], type="function") for t in TOOLS], max_output_tokens=600,
                         logit_bias={str(id_of("</think>")): 7}, seed=3, receipt=True)
            keep(s.post("/v1/responses", **given, tool_choice={"type": "function", "name": "count"}, parallel_tool_calls=False), "thinks")
        done = subprocess.run([TBLOCK, "verify", MODEL, *paths, "--json"], capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0 and json.loads(done.stdout)["ok"], done.stdout + done.stderr


def what_cannot_be_kept_is_named():
    for name, words in REFUSED.items():
        with speaking(TEMPLATES[name]["template"]) as s:
            s.refused(PATH, 400, words, "tool_choice", **ASKED, tool_choice="required")
    hermes = TEMPLATES["hermes"]["template"]
    with speaking(hermes.replace("<tool_call>", "<|im_end|><tool_call>")) as s:
        s.refused(PATH, 400, "the token <|im_end|>, which ends answers", "tool_choice", **ASKED, tool_choice="required")


def other_tokens_never_come():
    with speaking(TEMPLATES["hermes"]["template"]) as s:
        allowed = {id_of("<tool_call>"), id_of("</tool_call>")}
        for seed in range(4):
            ids = s.post(PATH, **ASKED, tool_choice="required", seed=seed, logit_bias={str(id_of("[INST]")): 1000})["choices"][0]["token_ids"]
            assert {i for i in ids if i >= 256} == allowed, ids
        text = s.post("/v1/chat/completions", messages=HELLO, max_tokens=40, seed=1, return_token_ids=True, temperature=5,
                      response_format={"type": "json_object"}, logit_bias={str(id_of("<tool_call>")): 1000})["choices"][0]
        assert all(i < 256 for i in text["token_ids"]), text


def reasoning_that_the_prompt_opens_comes_first():
    thoughts = 'Hm. {"a": 1, "a": 2, [ "x <tool_call> </tool_cal'
    for name, open_ in (("qwen3_prompt_thinks", "<|im_start|>assistant\n<think>\n"), ("drops", None)):
        template = TEMPLATES["qwen3_prompt_thinks"]["template"]
        if name == "drops":   # earlier reasoning is left out, as several do
            template = template.replace("<think>\n{{ m.reasoning_content or '' }}\n</think>\n\n", "{{ (m.content or '').split('</think>')[-1] }}").replace(
                "{{ m.content or '' }}{% for c", "{% for c")
        with speaking(template) as s:
            prompt = s.post("/apply-template", messages=HELLO, tools=TOOLS)["prompt"]
            assert prompt.endswith("<think>\n"), prompt
            spelled = s.post("/tokenize", prompt=thoughts, parse_special=False)["tokens"]
            ends = {"token": [id_of("</think>")], "spelled": s.post("/tokenize", prompt="</think>", parse_special=False)["tokens"]}
            for how, end in ends.items():
                c = s.post(PATH, **ASKED, tool_choice="required", seed=2, resume_ids=spelled + end)["choices"][0]
                assert c["message"]["reasoning_content"].strip() == thoughts, (name, how, c)
                assert c["finish_reason"] == "tool_calls" and fitting(c["message"]["tool_calls"]), (name, how, c)
                ids, said = streamed(s, **ASKED, tool_choice="required", seed=2, resume_ids=spelled + end)
                assert ids == c["token_ids"] and said["reasoning_content"].strip() == thoughts, (name, how, said)
            cut = s.post(PATH, **dict(ASKED, max_tokens=len(spelled) + 9), tool_choice="required", seed=2, resume_ids=spelled,
                         logit_bias={str(end): -1000 for end in ends["token"]})["choices"][0]
            assert cut["finish_reason"] == "length" and cut["message"]["reasoning_content"].startswith(thoughts), (name, cut)
            assert "tool_calls" not in cut["message"], cut
            drawn = s.post(PATH, **ASKED, tool_choice="required", seed=3, logit_bias={str(id_of("</think>")): 4, str(id_of("<|im_end|>")): 900})["choices"][0]
            assert drawn["finish_reason"] == "tool_calls" and fitting(drawn["message"]["tool_calls"]), (name, drawn)


def other_endpoints_have_the_same():
    for name in ("mistral_v3", "qwen3_prompt_thinks"):
        with speaking(TEMPLATES[name]["template"]) as s:
            ids = s.post("/tokenize", prompt="Hm</think>")["tokens"] if "thinks" in name else []
            same = dict(seed=4, return_token_ids=True, resume_ids=ids)
            chat = s.post(PATH, **same, messages=HELLO, tools=TOOLS, tool_choice="required", max_tokens=600)["choices"][0]
            flat = [dict(t["function"], type="function") for t in TOOLS]
            items = s.post("/v1/responses", **same, input=HELLO[0]["content"], tools=flat, tool_choice="required", max_output_tokens=600)
            blocks = s.post("/v1/messages", **same, messages=HELLO, max_tokens=600, tool_choice={"type": "any"},
                            tools=[{"name": f["name"], "description": "d", "input_schema": SCHEMA} for f in flat])
            calls = [json.loads(c["function"]["arguments"]) for c in chat["message"]["tool_calls"]]
            assert calls == [json.loads(i["arguments"]) for i in items["output"] if i["type"] == "function_call"], (chat, items)
            assert calls == [b["input"] for b in blocks["content"] if b["type"] == "tool_use"], (chat, blocks)
            assert [i["type"] for i in items["output"]][0] == ("reasoning" if ids else "function_call"), items


def strict(tools=TOOLS):
    return [{"type": "function", "function": dict(t["function"], strict=True)} for t in tools]


def a_strict_call_fits_when_the_model_begins_it():
    begun = {"hermes": "Well:\n", "qwen3": "<think>\n<tool_call> [\n</think>\n\nWell:", "mistral_v3": "", "phi4_mini": "a", "granite": "",
             "mistral_v11": "[", "qwen3_prompt_thinks": "Hm <tool_call> [\n</think>\n\n", "section": "x", "named_key": "", "command_r": "",
             "llama_functions": "So: "}
    for name, before in begun.items():
        with speaking(TEMPLATES[name]["template"]) as s:
            marker = BEGINS.get(name, "<tool_call>" if "thinks" in name else "<function=")
            drawn = s.post("/tokenize", prompt=before + marker)["tokens"]
            given = dict(ASKED, tools=strict(), resume_ids=drawn, stop=['"', "{"])
            whole = [s.post(PATH, **given, seed=seed)["choices"][0] for seed in range(3)]
            ended = [c for c in whole if c["finish_reason"] == "tool_calls"]
            assert len(ended) >= 2 and all(fitting(c["message"]["tool_calls"]) for c in ended), (name, whole)
            ids, said = streamed(s, **given, seed=0)
            assert ids == whole[0]["token_ids"], name
            one = s.post(PATH, **given, seed=1, parallel_tool_calls=False)["choices"][0]["message"]["tool_calls"]
            assert fitting(one) == 1, one
            free = s.post(PATH, **dict(given, tools=TOOLS, stop=None, max_tokens=len(drawn) + 60), seed=1)["choices"][0]
            assert free["token_ids"] != whole[1]["token_ids"][:60], (name, "nothing was constrained")


def a_strict_call_changes_nothing_before_it():
    """In reasoning none begins; a text without one is what it is without strict; stop texts end it."""
    with speaking(TEMPLATES["qwen3"]["template"]) as s:
        ids = s.post("/tokenize", prompt="<think>\n<tool_call> x")["tokens"]
        fixed = dict(input="A", resume_ids=ids, max_output_tokens=len(ids) + 40, return_token_ids=True,
                     logit_bias={str(i): -1000 for i in range(94, 256 + len(TOKENS))})
        for seed in range(3):
            a, b = (s.post("/v1/responses", **fixed, seed=seed, tools=[dict(t["function"], type="function", strict=flag) for t in TOOLS])
                    for flag in (False, True))
            assert a["output"][0]["content"] == b["output"][0]["content"] and a["output"][0]["type"] == "reasoning", (a, b)
            assert a["token_ids"] == b["token_ids"] and len(a["token_ids"]) == 40, (a, b)
    with talking("--ctx", "1024") as s:
        n_ended = 0
        for seed in range(6):
            asked = dict(messages=HELLO, max_tokens=60, seed=seed, return_token_ids=True, stop=["e the", "I"] if seed % 2 else None)
            flat = [dict(t["function"], type="function") for t in TALK_TOOLS]
            plain, held = (s.post("/v1/responses", input=HELLO[0]["content"], max_output_tokens=60, seed=seed, return_token_ids=True,
                                  stop=asked["stop"], tools=[dict(f, strict=flag) for f in flat]) for flag in (False, True))
            assert plain["output"][0]["content"] == held["output"][0]["content"] and plain["token_ids"] == held["token_ids"], (plain, held)
            n_ended += plain["status"] == "completed"
        assert n_ended, "no stop text was met"


def strict_that_cannot_be_kept_is_named():
    for name, words in {**REFUSED, "llama31": "no marker", "gpt_oss": "no marker", "openai": None}.items():
        with speaking(TEMPLATES[name]["template"]) as s:
            if words:
                s.refused(PATH, 400, words, "tools", **dict(ASKED, tools=strict()))
            else:
                s.post(PATH, **dict(ASKED, tools=strict(), max_tokens=3))
    with speaking(TEMPLATES["hermes"]["template"]) as s:
        wrong = [{"type": "function", "function": dict(TOOLS[0]["function"], strict="yes")}]
        s.refused(PATH, 400, "expected true or false", "tools[0].function.strict", **dict(ASKED, tools=wrong))
        odd = [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object", "$ref": "https://a/b"}}}]
        s.refused(PATH, 400, "f: parameters", "tools", **dict(ASKED, tools=odd))


sys.exit(attempt_all(every_form_writes_its_own_tokens, its_receipts_hold, what_cannot_be_kept_is_named, other_tokens_never_come,
                     reasoning_that_the_prompt_opens_comes_first, other_endpoints_have_the_same, a_strict_call_fits_when_the_model_begins_it,
                     a_strict_call_changes_nothing_before_it, strict_that_cannot_be_kept_is_named))
