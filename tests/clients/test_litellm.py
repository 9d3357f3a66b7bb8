#!/usr/bin/env python3
"""LiteLLM against tblock serve, as an endpoint in OpenAI's form: its texts are those of plain HTTP. Prints "ok NAME",
"FAIL NAME: why" or "skip NAME: why"."""
import asyncio
import json
import os
import sys

os.environ["NO_PROXY"] = "*"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"   # else it fetches prices when it is imported
import litellm  # noqa: E402

from made_to_say import CHAT, NAME, SAID, made_to_say, plain  # noqa: E402
from server import HELLO, TOOLS, Server, talking  # noqa: E402
from verdicts import attempt_all  # noqa: E402

litellm.suppress_debug_info = True


def where(s, kind="openai"):
    return dict(model="%s/%s" % (kind, NAME), api_base="http://%s:%d/v1" % (s.host, s.port), api_key="a key", num_retries=0, max_retries=0)


def conversations():
    given = dict(messages=HELLO, max_tokens=16, temperature=0.8, top_p=0.9, seed=3, presence_penalty=0.3, n=2, user="someone")
    with talking() as s:
        expected = [c["message"]["content"] for c in s.post(CHAT, **given)["choices"]]
        found = litellm.completion(**where(s), **given)
        assert [c.message.content for c in found.choices] == expected, (found, expected)
        assert found.usage.completion_tokens == 32 and found.choices[0].finish_reason == "length", found
        texts, usage = ["", ""], None
        for event in litellm.completion(**where(s), stream=True, stream_options={"include_usage": True}, **given):
            for choice in event.choices:
                texts[choice.index] += choice.delta.content or ""
            usage = getattr(event, "usage", None) or usage
        assert texts[0] == expected[0] and usage.completion_tokens == 32, (texts, expected, usage)
        assert [c.message.content for c in asyncio.run(litellm.acompletion(**where(s), **given)).choices] == expected
        probed = litellm.completion(**where(s), **dict(given, n=1), logprobs=True, top_logprobs=1).choices[0]
        assert probed.message.content == expected[0] and len(probed.logprobs["content"]) == 16, probed


def calls():
    with talking() as s:
        given = made_to_say(s, SAID, tools=TOOLS, tool_choice="auto")
        expected = s.post(CHAT, **plain(given))["choices"][0]["message"]
        found = litellm.completion(**where(s), **given).choices[0]
        assert found.finish_reason == "tool_calls" and found.message.reasoning_content == "hm", found
        assert found.message.content == expected["content"], found
        assert [c.model_dump() for c in found.message.tool_calls] == expected["tool_calls"], (found, expected)
        pieces = list(litellm.completion(**where(s), stream=True, **given))
        told = litellm.stream_chunk_builder(pieces, messages=HELLO).choices[0]
        assert told.message.content == expected["content"] and told.message.reasoning_content == "hm", told
        assert json.loads(told.message.tool_calls[0].function.arguments) == {"word": "rose"} and len(told.message.tool_calls) == 1, told
        assert told.message.tool_calls[0].function.name == "look_up"


def answers_that_fit_a_schema():
    schema = {"type": "object", "properties": {"years": {"type": "integer", "minimum": 3, "maximum": 12}}, "required": ["years"],
              "additionalProperties": False}
    given = dict(messages=HELLO, seed=4, response_format={"type": "json_schema", "json_schema": {"name": "age", "schema": schema}})
    with talking() as s:
        found = litellm.completion(**where(s), **given).choices[0].message.content
        assert found == s.post(CHAT, **given)["choices"][0]["message"]["content"] and 3 <= json.loads(found)["years"] <= 12, found


def texts():
    given = dict(prompt="ROMEO:", max_tokens=12, temperature=0.7, seed=6)
    with Server() as s:
        expected = s.post("/v1/completions", **given)["choices"][0]["text"]
        to = where(s, "text-completion-openai")
        assert litellm.text_completion(**to, **given).choices[0].text == expected
        told = [c.text or "" for event in litellm.text_completion(**to, stream=True, **given) for c in event.choices]
        assert "".join(told) == expected, (told, expected)


def errors_are_those_of_the_client():
    with talking() as s:
        for given, kind in ((dict(messages=HELLO, temperature=-1), litellm.BadRequestError),
                            (dict(messages=HELLO, max_tokens=1000), litellm.BadRequestError)):
            try:
                litellm.completion(**where(s), **given)
            except kind as why:
                assert "expected" in str(why) or "the context holds" in str(why), why
            else:
                raise AssertionError("nothing was raised")


sys.exit(attempt_all(conversations, calls, answers_that_fit_a_schema, texts, errors_are_those_of_the_client))
