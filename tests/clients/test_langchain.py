#!/usr/bin/env python3
"""LangChain against tblock serve: what it sends by itself, and that its texts are those of plain HTTP. Prints "ok NAME",
"FAIL NAME: why" or "skip NAME: why"."""
import asyncio
import json
import os
import sys

os.environ["NO_PROXY"] = "*"
os.environ["LANGSMITH_TRACING"] = "false"
import langchain_core.messages as messages  # noqa: E402
import langchain_openai  # noqa: E402
import pydantic  # noqa: E402

from made_to_say import CHAT, NAME, SAID, made_to_say, plain  # noqa: E402
from server import HELLO, TEMPLATE, TOOLS, Server, talking  # noqa: E402
from verdicts import attempt_all  # noqa: E402


def model(s, **given):
    return langchain_openai.ChatOpenAI(base_url="http://%s:%d/v1" % (s.host, s.port), api_key="a key", model=NAME, max_retries=0, **given)


def text_of(s, **given):
    return s.post(CHAT, **given)["choices"][0]["message"]["content"]


def conversations():
    with talking() as s:
        given = dict(temperature=0.8, seed=3, max_tokens=16)
        expected = text_of(s, messages=HELLO, **given)
        m = model(s, **given)
        found = m.invoke("Who art thou?")
        assert found.content == expected and found.response_metadata["finish_reason"] == "length", found
        assert found.usage_metadata["output_tokens"] == 16, found.usage_metadata
        assert "".join(piece.content for piece in m.stream("Who art thou?")) == expected
        assert asyncio.run(m.ainvoke("Who art thou?")).content == expected
        several = [[messages.SystemMessage("Be brief."), messages.HumanMessage(text)] for text in ("Hail!", "Farewell.", "Who goes there?")]
        for asked, answer in zip(several, m.batch(several)):
            assert answer.content == text_of(s, messages=[{"role": "system", "content": "Be brief."},
                                                          {"role": "user", "content": asked[1].content}], **given)
        probed = m.bind(logprobs=True, top_logprobs=2).invoke("Who art thou?")
        assert probed.content == expected and len(probed.response_metadata["logprobs"]["content"]) == 16
        stopped = m.invoke("Who art thou?", stop=[expected[6:9]])
        assert stopped.content == expected[:expected.index(expected[6:9])], (stopped, expected)


def calls():
    with talking() as s:
        given = made_to_say(s, SAID)
        asked = {k: given[k] for k in given if k != "messages"}
        m = model(s).bind_tools(TOOLS).bind(**asked)
        found = m.invoke("Who art thou?")
        assert found.content == text_of(s, **plain(dict(given, tools=TOOLS))) == "Well:", found
        assert [(c["name"], c["args"]) for c in found.tool_calls] == [("look_up", {"word": "rose"})], found
        told = None
        for piece in m.stream("Who art thou?"):
            told = piece if told is None else told + piece
        assert told.content == found.content and [c["args"] for c in told.tool_calls] == [{"word": "rose"}], told
        assert told.tool_calls[0]["id"] == found.tool_calls[0]["id"]
        talk = [messages.HumanMessage("Who art thou?"), found, messages.ToolMessage("a flower", tool_call_id=found.tool_calls[0]["id"])]
        expected = text_of(s, messages=HELLO + [
            {"role": "assistant", "content": "Well:", "tool_calls": [{"id": found.tool_calls[0]["id"], "type": "function", "function": {
                "name": "look_up", "arguments": "{\"word\": \"rose\"}"}}]},
            {"role": "tool", "tool_call_id": found.tool_calls[0]["id"], "content": "a flower"}], max_tokens=8, seed=2)
        assert model(s, max_tokens=8, seed=2).invoke(talk).content == expected


class Age(pydantic.BaseModel, extra="forbid"):
    years: int = pydantic.Field(ge=3, le=12)


def calls_that_must_be_made():
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 12}}, "required": ["a"],
              "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": name, "description": "", "parameters": schema}} for name in ("f", "g")]
    names_only = TEMPLATE.replace("tools | tojson", "tools | map(attribute='function.name') | join")   # its context is short
    assert names_only != TEMPLATE
    with talking(template=names_only) as s:
        given = dict(temperature=1.2, seed=4)
        for choice, sent in (("any", "required"), ("g", {"type": "function", "function": {"name": "g"}})):
            found = model(s, **given).bind_tools(tools, tool_choice=choice).invoke("Who art thou?")
            expected = s.post(CHAT, messages=HELLO, tools=tools, tool_choice=sent, **given)["choices"][0]["message"]["tool_calls"]
            assert expected and [(c["name"], c["args"]) for c in found.tool_calls] == [
                (c["function"]["name"], json.loads(c["function"]["arguments"])) for c in expected], (found, expected)
            assert found.tool_calls[0]["name"] in ("f", "g")[choice == "g":] and 3 <= found.tool_calls[0]["args"]["a"] <= 12, found
        m = model(s, **given).with_structured_output(Age, method="function_calling")
        assert 3 <= m.invoke("Who art thou?").years <= 12


def answers_that_fit_a_class():
    with talking() as s:
        m = model(s, temperature=1.2, seed=4)
        found = m.with_structured_output(Age, include_raw=True).invoke("Who art thou?")
        assert isinstance(found["parsed"], Age) and 3 <= found["parsed"].years <= 12, found
        assert Age.model_validate_json(found["raw"].content) == found["parsed"]
        assert m.with_structured_output(Age.model_json_schema(), method="json_schema").invoke("Who art thou?") == found["parsed"].model_dump()


def texts():
    with Server() as s:
        given = dict(temperature=0.7, seed=6, max_tokens=12)
        m = langchain_openai.OpenAI(base_url="http://%s:%d/v1" % (s.host, s.port), api_key="a key", model=NAME, max_retries=0, **given)
        expected = [s.post("/v1/completions", prompt=p, **given)["choices"][0]["text"] for p in ("ROMEO:", "A")]
        assert m.invoke("ROMEO:") == expected[0] and "".join(m.stream("ROMEO:")) == expected[0]
        assert m.invoke("A") == expected[1]


sys.exit(attempt_all(conversations, calls, calls_that_must_be_made, answers_that_fit_a_class, texts))
