#!/usr/bin/env python3
"""Anthropic's own client in Python, and LangChain with it, against /v1/messages of tblock serve: its texts are those of plain HTTP.
Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import os
import sys

os.environ["NO_PROXY"] = "*"
os.environ["LANGSMITH_TRACING"] = "false"
import anthropic  # noqa: E402
import langchain_anthropic  # noqa: E402

from made_to_say import CHAT, NAME, SAID, made_to_say  # noqa: E402
from server import HELLO, TOOLS, talking  # noqa: E402
from verdicts import attempt_all  # noqa: E402

TOOL = [{"name": "look_up", "description": "Looks.", "input_schema": TOOLS[0]["function"]["parameters"]}]
SAMPLED = {"seed": 3, "temperature": 0.8, "top_p": 0.9, "top_k": 40} # the client has no parameters for these


def url(s):
    return "http://%s:%d" % (s.host, s.port)


def client(s):
    return anthropic.Anthropic(base_url=url(s), api_key="a key", max_retries=0)


def said(s):
    """As of /v1/chat/completions, for /v1/messages."""
    given = made_to_say(s, SAID)
    more = {k: given[k] for k in ("logit_bias", "seed")}
    return dict(messages=HELLO, max_tokens=given["max_tokens"], stop_sequences=["@"], tools=TOOL, extra_body={**given["extra_body"], **more})


def conversations():
    given = dict(messages=HELLO, max_tokens=16, system="Be brief.", stop_sequences=["zz"])
    with talking() as s:
        api = client(s).messages
        expected = s.post("/v1/messages", **SAMPLED, **given)
        of_chat = s.post(CHAT, messages=[{"role": "system", "content": "Be brief."}] + HELLO, max_tokens=16, stop=["zz"], **SAMPLED)
        found = api.create(model=NAME, extra_body=SAMPLED, **given)
        assert found.content[0].text == expected["content"][0]["text"] == of_chat["choices"][0]["message"]["content"], (found, expected)
        assert found.stop_reason == "max_tokens" and found.usage.output_tokens == 16 and found.role == "assistant", found
        with api.stream(model=NAME, extra_body=SAMPLED, **given) as events:
            assert "".join(events.text_stream) == found.content[0].text
            last = events.get_final_message()
            assert last.stop_reason == "max_tokens" and last.usage.output_tokens == 16, last
        counted = api.count_tokens(model=NAME, messages=HELLO, system="Be brief.").input_tokens
        assert counted == of_chat["usage"]["prompt_tokens"], (counted, of_chat["usage"])


def calls_and_reasoning():
    with talking() as s:
        api, given = client(s).messages, said(s)
        found = api.create(model=NAME, **given)
        assert [b.type for b in found.content] == ["thinking", "text", "tool_use"] and found.stop_reason == "stop_sequence", found
        assert found.content[0].thinking == "hm" and found.content[1].text.strip() == "Well:"
        assert found.content[2].name == "look_up" and found.content[2].input == {"word": "rose"}, found.content[2]
        with api.stream(model=NAME, **given) as events:
            told = events.get_final_message()
        assert [b.model_dump() for b in told.content] == [b.model_dump() for b in found.content], (told, found)
        again = HELLO + [{"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in found.content]},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": found.content[2].id, "content": "a flower"}]}]
        assert api.create(model=NAME, messages=again, tools=TOOL, max_tokens=4).usage.output_tokens == 4


def errors_are_those_of_the_client():
    with talking() as s:
        for given, kind, words in ((dict(extra_body={"temperature": -1}), anthropic.BadRequestError, "from 0 to 100"),
                                   (dict(model="other"), anthropic.NotFoundError, "shakespeare")):
            try:
                client(s).messages.create(**{"model": NAME, "messages": HELLO, "max_tokens": 4, **given})
            except kind as why:
                assert words in str(why) and why.request_id, why
            else:
                raise AssertionError("nothing was raised")


def langchain():
    with talking() as s:
        m = langchain_anthropic.ChatAnthropic(base_url=url(s), api_key="a key", model=NAME, max_tokens=16, temperature=0.8, max_retries=0)
        expected = s.post("/v1/messages", messages=HELLO, max_tokens=16, temperature=0.8, seed=3)["content"][0]["text"]
        found = m.bind(extra_body={"seed": 3}).invoke("Who art thou?")
        assert found.content == expected and found.usage_metadata["output_tokens"] == 16, (found, expected)
        assert "".join(piece.text for piece in m.bind(extra_body={"seed": 3}).stream("Who art thou?")) == expected
        given = said(s)
        asked = m.bind_tools(TOOLS).bind(max_tokens=given["max_tokens"], stop_sequences=["@"], extra_body=given["extra_body"])
        called = asked.invoke("Who art thou?")
        assert [(c["name"], c["args"]) for c in called.tool_calls] == [("look_up", {"word": "rose"})], called


sys.exit(attempt_all(conversations, calls_and_reasoning, errors_are_those_of_the_client, langchain))
