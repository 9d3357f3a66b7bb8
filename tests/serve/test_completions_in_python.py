#!/usr/bin/env python3
"""Model.create_chat_completion of the Python package: its dicts are the responses of `tblock serve` to the same requests, also as streams;
calls, schemas, log-probabilities, several choices and receipts too. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import asyncio
import json
import re
import sys

from server import HELLO, MODEL, ROOT, TEMPLATE, TOOLS, talking
from tokens_model import model_of
from verdicts import attempt_all

sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tests" / "text")]
from answer_templates import TEMPLATES  # noqa: E402
from package import raises, tblock  # noqa: E402

PATH = "/v1/chat/completions"
FORMS = {name: TEMPLATES[name]["template"] for name in ("hermes", "mistral_v3", "llama31", "gpt_oss", "qwen3", "command_r")}
MARKER = re.compile(r"<\|[^|<>]*\|>|\[/?[A-Z_]+\]|</?(?:think|tool_call)>|</?s>|<\|[a-z\"]+>|<[a-z_]+\|>")
CALLED = [{"type": "function", "function": {"name": name, "description": "d", "parameters": {
    "type": "object", "properties": {"word": {"type": "string", "maxLength": 5}, "n": {"enum": [1, 2, 3]}}, "required": ["word", "n"],
    "additionalProperties": False}}} for name in ("look_up", "count")]
OWN = "id", "created", "system_fingerprint"  # of one response


def _same(data):
    data = {k: v for k, v in data.items() if k not in OWN}
    if "usage" in data:
        assert data["usage"].pop("prompt_tokens_details")["cached_tokens"] >= 0
    return data


def _told(events):
    """What a stream says of each choice; how its text is cut into events may differ."""
    out = {}
    for event in events:
        assert set(event) >= {"id", "object", "created", "model", "seed", "choices"}, event
        assert event["object"] == "chat.completion.chunk"
        for c in event["choices"]:
            said = out.setdefault(c["index"], {"logprobs": [], "token_ids": [], "calls": {}})
            assert said.get("finish_reason") is None, "an event after the last"
            said["finish_reason"] = c["finish_reason"]
            said["logprobs"] += (c["logprobs"] or {"content": []})["content"]
            said["token_ids"] += c.get("token_ids", [])
            said.setdefault("receipt", c.get("receipt"))
            for key, value in c["delta"].items():
                for call in value if key == "tool_calls" else []:
                    known = said["calls"].setdefault(call["index"], {"arguments": ""})
                    known["arguments"] += call["function"]["arguments"]
                    known.update({k: v for k, v in (("id", call.get("id")), ("name", call["function"].get("name"))) if v})
                if key != "tool_calls":
                    said[key] = said.get(key, "") + value
    return out


def _compare(s, model, template, **asked):
    """The same request, whole and as a stream."""
    theirs, ours = s.post(PATH, **asked), model.create_chat_completion(format=template, **asked)
    assert set(ours) == set(theirs) - {"system_fingerprint"} and _same(ours) == _same(theirs), (asked, ours, theirs)
    json.dumps(ours)
    usage = {"stream_options": {"include_usage": True}}
    theirs, ours = list(s.stream(PATH, **asked, **usage)), list(model.create_chat_completion(format=template, stream=True, **asked, **usage))
    assert ours[-1]["choices"] == [] and ours[-1]["usage"]["completion_tokens"] == theirs[-1]["usage"]["completion_tokens"]
    assert _told(ours) == _told(theirs), (asked, _told(ours), _told(theirs))
    return ours


def dicts_are_the_responses_of_the_server():
    with talking() as s, tblock.Model(MODEL) as m:
        talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Who "}, {"type": "text", "text": "art thou?"}]}]
        for more in ({"temperature": 0, "seed": 1}, {"seed": 5}, {"seed": 5, "n": 3}, {"seed": 7, "top_p": 0.5, "top_k": 9, "min_p": 0.01, "repetition_penalty": 1.2},
                     {"seed": 7, "stop": ["e", "zz"]}, {"seed": 7, "logprobs": True}, {"seed": 7, "logprobs": True, "top_logprobs": 3, "n": 2},
                     {"seed": 7, "logit_bias": {"10": -100, "44": 3}, "presence_penalty": 1, "frequency_penalty": 0.5, "return_token_ids": True},
                     {"seed": 9, "receipt": True, "min_tokens": 4}, {"seed": 9, "top_k": -1, "user": "me", "metadata": {}, "max_completion_tokens": 4},
                     {"seed": 2, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["Romeo", "Juliet"]}}}},
                     {"seed": 2, "response_format": {"type": "text"}, "chat_template_kwargs": {"x": 1}, "reasoning_effort": "low"}):
            _compare(s, m, TEMPLATE, messages=talk, **{"max_tokens": 15, **more})


def calls_are_those_of_the_server():
    folder, path = model_of(sorted({mark for form in FORMS.values() for mark in MARKER.findall(form)}),
                            ends=("<|im_end|>", "<|END_OF_TURN_TOKEN|>", "<|call|>", "<|return|>"))
    called = 0
    with folder, tblock.Model(path) as m:
        asked = dict(messages=HELLO, tools=CALLED, max_tokens=300)
        for form in FORMS.values():
            with talking(template=form, model=path) as s:
                for more in ({"tool_choice": "required", "seed": 1}, {"tool_choice": {"type": "function", "function": {"name": "count"}}, "seed": 2},
                             {"tool_choice": "none", "seed": 3}, {"tool_choice": "required", "seed": 4, "n": 2, "parallel_tool_calls": False}):
                    _compare(s, m, form, **asked, **more)
                whole = m.create_chat_completion(format=form, tool_choice="required", seed=1, **asked)["choices"][0]
                if whole["finish_reason"] == "tool_calls":  # the conversation goes on, with arguments as OpenAI has them
                    called += 1
                    answers = [{"role": "tool", "tool_call_id": c["id"], "name": c["function"]["name"], "content": "3"}
                               for c in whole["message"]["tool_calls"]]
                    _compare(s, m, form, messages=[*HELLO, whole["message"], *answers], tools=CALLED, max_tokens=9, seed=5)
    assert called >= 4, called


def a_stream_may_be_awaited_left_and_closed():
    asked = dict(messages=HELLO, format=TEMPLATE, seed=3)
    with tblock.Model(MODEL) as m:
        want = _told(m.create_chat_completion(max_tokens=9, stream=True, **asked))

        async def one():
            return [chunk async for chunk in m.create_chat_completion(max_tokens=9, stream=True, **asked)]

        async def both():
            return await asyncio.gather(one(), one())
        assert [_told(events) for events in asyncio.run(both())] == [want, want]
        for _ in range(3):
            stream = m.create_chat_completion(stream=True, n=2, **asked)
            next(stream)
            stream.close()
            assert list(stream) == []
        assert _told(m.create_chat_completion(max_tokens=9, stream=True, **asked)) == want


def wrong_requests_say_why():
    with tblock.Model(MODEL) as m:
        def refused(words, kind=tblock.UsageError, messages=HELLO, **given):
            raises(kind, words, m.create_chat_completion, messages, **{"format": TEMPLATE, "max_tokens": 3, **given})
        refused("n: expected 1 to 128, found 0", n=0)
        refused("tool_choice: expected auto, none, required", tool_choice="always", tools=TOOLS)
        refused("tools: expected one beside tool_choice", tool_choice="required")
        refused("several calls can only be ruled out", parallel_tool_calls=False, tools=TOOLS)
        refused("top_logprobs: expected logprobs to be True", top_logprobs=2)
        refused("response_format: expected type text, json_object, or json_schema", response_format={"type": "xml"})
        refused("stop: expected none beside response_format", response_format={"type": "json_object"}, stop="x")
        refused("messages[0].content[0]: expected a part of type text", messages=[{"role": "user", "content": [{"type": "image_url"}]}])
        refused("messages[1]: content: expected a text, found none", messages=[*HELLO, {"role": "user"}])
        refused("messages: expected a list of dicts, found str", messages="Who?")
        refused("logit_bias: expected ids and numbers", logit_bias={"x": 1})
        refused("there is no option 'max_new_tokens'; write max_tokens", tblock.OptionError, max_new_tokens=4)
        refused("there is no option 'functions'", tblock.OptionError, functions=[])
        assert m.create_chat_completion(HELLO, format=TEMPLATE, max_tokens=3, temperature=None, tools=[], stop=None)["choices"][0]["finish_reason"]


if __name__ == "__main__":
    sys.exit(attempt_all(dicts_are_the_responses_of_the_server, calls_are_those_of_the_server, a_stream_may_be_awaited_left_and_closed,
                         wrong_requests_say_why))
