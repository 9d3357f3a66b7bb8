#!/usr/bin/env python3
"""OpenAI's own client in Python against tblock serve: what it sends, what it understands and how it fails. Its texts are those of
plain HTTP. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import os
import sys

os.environ["NO_PROXY"] = "*"
import openai  # noqa: E402
import pydantic  # noqa: E402

from made_to_say import CHAT, NAME, SAID, made_to_say, plain  # noqa: E402
from server import HELLO, TEMPLATE, TOOLS, Server, talking  # noqa: E402
from verdicts import attempt_all  # noqa: E402


def client(s, **options):
    return openai.OpenAI(base_url="http://%s:%d/v1" % (s.host, s.port), api_key="a key", **{"max_retries": 0, **options})


def models_are_listed():
    with Server() as s:
        found = client(s).models.list().data
        assert [m.id for m in found] == [NAME] and found[0].object == "model" and found[0].owned_by == "tblock", found
        assert client(s).models.retrieve(NAME) == found[0]
        try:
            client(s).models.retrieve("other")
        except openai.NotFoundError as e:
            assert e.code == "model_not_found" and e.param == "model", e
        else:
            raise AssertionError("another name was found")


def completions():
    given = dict(prompt=["ROMEO:", "A"], max_tokens=12, seed=5, n=2, logprobs=2, stop=["e e"], temperature=0.9, top_p=0.8,
                 presence_penalty=0.5, frequency_penalty=0.1, logit_bias={"10": 1}, user="someone")
    with Server() as s:
        expected = s.post("/v1/completions", **given)
        found = client(s).completions.create(model=NAME, **given)
        assert [c.model_dump() for c in found.choices] == expected["choices"], (found, expected)
        for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert getattr(found.usage, key) == expected["usage"][key], found.usage
        texts = [""] * 4
        for event in client(s).completions.create(model=NAME, stream=True, stream_options={"include_usage": True}, **given):
            for choice in event.choices:
                texts[choice.index] += choice.text
            usage = event.usage
        assert texts == [c["text"] for c in expected["choices"]] and usage.completion_tokens == found.usage.completion_tokens
        assert found._request_id.startswith("req-"), found._request_id


def conversations():
    given = dict(messages=HELLO, max_completion_tokens=16, seed=3, n=2, logprobs=True, top_logprobs=2, stop=["zz"])
    with talking() as s:
        expected = s.post(CHAT, **given)
        found = client(s).chat.completions.create(model=NAME, **given)
        assert [c.message.content for c in found.choices] == [c["message"]["content"] for c in expected["choices"]]
        for mine, theirs in zip(expected["choices"], found.choices):
            assert theirs.finish_reason == mine["finish_reason"] and theirs.index == mine["index"]
            assert theirs.logprobs.model_dump(exclude_none=True) == mine["logprobs"], theirs
        texts, probs = ["", ""], [[], []]
        for event in client(s).chat.completions.create(model=NAME, stream=True, **given):
            for choice in event.choices:
                texts[choice.index] += choice.delta.content or ""
                probs[choice.index] += choice.logprobs.content if choice.logprobs else []
        assert texts == [c["message"]["content"] for c in expected["choices"]], (texts, expected)
        assert probs == [c.logprobs.content for c in found.choices]


def calls_and_reasoning():
    with talking() as s:
        given = made_to_say(s, SAID, tools=TOOLS)
        expected = s.post(CHAT, **plain(given))["choices"][0]["message"]
        api = client(s).chat.completions
        found = api.create(model=NAME, **given).choices[0].message
        assert found.content == expected["content"] and found.reasoning_content == expected["reasoning_content"] == "hm"
        assert [c.model_dump() for c in found.tool_calls] == expected["tool_calls"], (found, expected)
        assert json.loads(found.tool_calls[0].function.arguments) == {"word": "rose"} and found.tool_calls[0].type == "function"
        with api.stream(model=NAME, **given) as events:   # puts deltas together by itself
            kinds = {e.type for e in events}
            told = events.get_final_completion().choices[0].message
        assert "tool_calls.function.arguments.delta" in kinds and "content.delta" in kinds, kinds
        assert told.content == found.content and len(told.tool_calls) == 1, (told, found)
        assert told.tool_calls[0].function.name == "look_up" and told.tool_calls[0].id == found.tool_calls[0].id
        assert json.loads(told.tool_calls[0].function.arguments) == {"word": "rose"}
        # What came back is taken as what goes in, with the answer of the tool behind it.
        messages = HELLO + [found.model_dump(exclude_none=True),
                            {"role": "tool", "tool_call_id": found.tool_calls[0].id, "content": "a flower"}]
        again = dict(messages=messages, tools=TOOLS, max_tokens=8, seed=2)
        assert api.create(model=NAME, **again).choices[0].message.content == s.post(CHAT, **again)["choices"][0]["message"]["content"]


def calls_without_text_go_back_as_they_came():
    """Their content is null, and a template like Qwen3's takes nothing but a text."""
    with talking(template=TEMPLATE.replace("{{ m.content }}", "{{ m.content + '' }}")) as s:
        api = client(s).chat.completions
        found = api.create(model=NAME, **made_to_say(s, SAID[SAID.index("<tool_call>"):], tools=TOOLS)).choices[0].message
        assert found.content is None and found.tool_calls, found
        result = {"role": "tool", "tool_call_id": found.tool_calls[0].id, "content": "a flower"}
        for form in (found, found.model_dump(), found.model_dump(exclude_none=True)):
            assert api.create(model=NAME, messages=HELLO + [form, result], tools=TOOLS, max_tokens=8).usage.completion_tokens == 8


class Age(pydantic.BaseModel):
    years: int = pydantic.Field(ge=3, le=12)
    old: bool


def answers_that_fit_a_class():
    with talking() as s:
        api = client(s).chat.completions
        given = dict(messages=HELLO, seed=4, temperature=1.2)
        found = api.parse(model=NAME, response_format=Age, **given).choices[0].message
        assert isinstance(found.parsed, Age) and json.loads(found.content) == found.parsed.model_dump(), found
        with api.stream(model=NAME, response_format=Age, **given) as events:
            told = events.get_final_completion().choices[0].message
        assert told.content == found.content and told.parsed == found.parsed, (told, found)
        tools = [{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}]
        called = api.parse(model=NAME, **made_to_say(s, SAID, tools=tools, parallel_tool_calls=False)).choices[0].message.tool_calls
        assert called[0].function.parsed_arguments == {"word": "rose"}, called


def responses():
    given = dict(input="Who art thou?", max_output_tokens=16, temperature=0.8, seed=3)
    with talking() as s:
        api = client(s).responses
        mine = {k: v for k, v in given.items() if k != "seed"}   # the client has no parameter for it
        expected = s.post("/v1/responses", **given)["output"][0]["content"][0]["text"]
        found = api.create(model=NAME, extra_body={"seed": 3}, **mine)
        assert found.output_text == expected and found.status == "incomplete", found
        assert found.incomplete_details.reason == "max_output_tokens" and found.usage.output_tokens == 16, found
        with api.stream(model=NAME, extra_body={"seed": 3}, **mine) as events:   # checks the order of events by itself
            told = list(events)
            assert "".join(e.delta for e in told if e.type == "response.output_text.delta") == expected
            assert told[-1].type == "response.incomplete" and told[-1].response.output_text == expected, told[-1]
        said = made_to_say(s, SAID)
        asked = dict(input="Who art thou?", max_output_tokens=said["max_tokens"], extra_body={**said["extra_body"], "logit_bias": said["logit_bias"], "stop": "@", "seed": 1},
                     tools=[{"type": "function", "strict": False, **TOOLS[0]["function"]}])
        found = api.create(model=NAME, **asked)
        assert [o.type for o in found.output] == ["reasoning", "message", "function_call"], found.output
        call = found.output[2]
        assert found.output_text.strip() == "Well:" and call.name == "look_up" and json.loads(call.arguments) == {"word": "rose"}, found.output
        with api.stream(model=NAME, **asked) as events:
            done = [e for e in events if e.type == "response.function_call_arguments.done"]
            assert [json.loads(e.arguments) for e in done] == [{"word": "rose"}] and done[0].name == "look_up", done
            assert [o.type for o in events.get_final_response().output] == ["reasoning", "message", "function_call"]
        again = [{"role": "user", "content": "Who art thou?"}, *(o.model_dump(exclude_none=True) for o in found.output),
                 {"type": "function_call_output", "call_id": call.call_id, "output": "a flower"}]
        assert api.create(model=NAME, input=again, max_output_tokens=8).usage.output_tokens == 8
        parsed = api.parse(model=NAME, input="Who art thou?", text_format=Age, extra_body={"seed": 4}).output_parsed
        assert isinstance(parsed, Age), parsed
        why = raised(openai.BadRequestError, api.create, model=NAME, input="A", previous_response_id="resp_1")
        assert why.param == "previous_response_id", why


def embeddings():
    """The client asks for base64 and gives numbers."""
    with Server() as s:
        given = dict(input=["ROMEO:", "A flower"])
        expected = [d["embedding"] for d in s.post("/v1/embeddings", **given)["data"]]
        found = client(s).embeddings.create(model=NAME, **given)
        assert [list(d.embedding) for d in found.data] == expected and found.usage.prompt_tokens > 2, found.usage
        plain = client(s).embeddings.create(model=NAME, encoding_format="float", **given)
        assert [d.embedding for d in plain.data] == expected


def raised(kind, call, **given):
    try:
        call(**given)
    except kind as why:
        return why
    raise AssertionError("expected %s, and nothing was raised" % kind.__name__)


def errors_are_those_of_the_client():
    with talking() as s:
        api = client(s)
        why = raised(openai.BadRequestError, api.chat.completions.create, model=NAME, messages=HELLO, temperature=-1)
        assert why.param == "temperature" and "from 0 to 100" in why.message and why.request_id.startswith("req-"), why
        assert why.type == "invalid_request_error", why.type
        why = raised(openai.NotFoundError, api.completions.create, model="gpt-4", prompt="A")
        assert why.param == "model" and why.status_code == 404, why
        why = raised(openai.BadRequestError, api.completions.create, model=NAME, prompt="A", suffix="B")
        assert why.param == "suffix", why


def who_is_refused_comes_again():
    """A full queue is 429 with Retry-After, which the client takes for a reason to try once more."""
    given = dict(model=NAME, prompt="ROMEO:", max_tokens=240, temperature=0)
    with Server("--parallel", "1", "--queue", "1") as s:
        expected = s.post("/v1/completions", **given)["choices"][0]["text"]
        patient, tries, why = client(s, max_retries=50).completions.with_raw_response, 0, None
        while not tries:
            while not why:
                try:
                    client(s).completions.create(stream=True, **given)
                except openai.RateLimitError as refused:
                    why = refused
            assert why.status_code == 429 and why.response.headers["Retry-After"] == "1" and "queue" in why.message, why
            answer = patient.create(**given)
            tries, why = answer.retries_taken, None
            assert answer.parse().choices[0].text == expected


def who_takes_too_long_is_told():
    given = dict(model=NAME, prompt="ROMEO:", max_tokens=240, temperature=0, n=100)
    with Server("--timeout", "1", "--queue", "100") as s:
        why = raised(openai.InternalServerError, client(s).completions.create, **given)
        assert why.status_code == 503 and "took more than" in why.message and why.response.headers["Retry-After"] == "1", why
    with Server() as s:
        raised(openai.APITimeoutError, client(s, timeout=0.02).completions.create, **given)


sys.exit(attempt_all(models_are_listed, completions, conversations, calls_and_reasoning, calls_without_text_go_back_as_they_came,
                     answers_that_fit_a_class, responses, embeddings, errors_are_those_of_the_client, who_is_refused_comes_again, who_takes_too_long_is_told))
