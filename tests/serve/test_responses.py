#!/usr/bin/env python3
"""/v1/responses: the same texts and ids as /v1/chat/completions, whole and as events, items both ways, and names for all that
is refused. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import sys
import threading

from server import HELLO, TOOLS, Server, talking
from verdicts import attempt_all

PATH, CHAT = "/v1/responses", "/v1/chat/completions"
FLAT = [{"type": "function", "strict": False, **TOOLS[0]["function"]}]
SAID = '<think>hm</think>Well: <tool_call>{"name": "look_up", "arguments": {"word": "rose"}}</tool_call>'
# What the published description of a response has, but for what is only there with built-in tools.
MEMBERS = {"id", "object", "created_at", "completed_at", "status", "error", "incomplete_details", "instructions", "metadata", "model",
           "output", "parallel_tool_calls", "temperature", "tool_choice", "tools", "top_p", "background", "max_output_tokens",
           "max_tool_calls", "previous_response_id", "prompt_cache_key", "reasoning", "safety_identifier", "service_tier", "text",
           "top_logprobs", "truncation", "usage", "user", "store", "presence_penalty", "frequency_penalty", "seed"}


def text_of(response):
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])


def add_item(output, event):
    assert event["output_index"] == len(output) and (not output or output[-1]["status"] != "in_progress"), event
    item = event["item"]
    assert item["status"] == "in_progress" and item.get("content", []) == [] and not item.get("arguments"), item
    output.append(dict(item))


def change_item(output, kind, event):
    """What an event says of the last item, which is the one that is open."""
    assert event["output_index"] == len(output) - 1 and event["item_id"] == output[-1]["id"], event
    item = output[-1]
    if kind == "response.content_part.added":
        assert event["part"]["text"] == "" and not item["content"]
        item["content"].append(dict(event["part"]))
    elif kind == "response.content_part.done":
        assert event["part"] == item["content"][0], (event, item)
    elif kind.startswith("response.function_call_arguments"):
        if kind.endswith("delta"):
            item["arguments"] += event["delta"]
        else:
            assert event["arguments"] == item["arguments"] and event["name"] == item["name"], (event, item)
    else:
        part = item["content"][event["content_index"]]
        assert kind in ("response.%s.delta" % part["type"], "response.%s.done" % part["type"]), (kind, part)
        if kind.endswith("delta"):
            part["text"] += event["delta"]
            if "logprobs" in part:
                part["logprobs"] = part["logprobs"] + event["logprobs"]
        else:
            assert event["text"] == part["text"] and event.get("logprobs") == part.get("logprobs"), (event, part)


def followed(events):
    """The response that a stream's events make step by step, which must be the one at its end; and the ids that they tell."""
    events, output, ids = list(events), [], []
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert [e["type"] for e in events[:2]] == ["response.created", "response.in_progress"], events[:2]
    for e in events[:2]:
        assert e["response"]["status"] == "in_progress" and e["response"]["output"] == [] and e["response"]["usage"] is None, e
        assert set(e["response"]) == MEMBERS, set(e["response"]) ^ MEMBERS
    for event in events[2:-1]:
        ids += event.get("token_ids", [])
        if event["type"] == "response.output_item.added":
            add_item(output, event)
        elif event["type"] == "response.output_item.done":
            output[-1]["status"] = event["item"]["status"]
            assert event["item"] == output[-1] and event["output_index"] == len(output) - 1, (event, output)
            assert event["item"]["status"] in ("completed", "incomplete"), event
        else:
            change_item(output, event["type"], event)
    last = events[-1]["response"]
    if last["status"] == "failed" and output and output[-1]["status"] == "in_progress":
        output[-1]["status"] = "incomplete"
    assert events[-1]["type"] == "response.%s" % last["status"], events[-1]
    assert last["output"] == output and last["id"] == events[0]["response"]["id"], (last, output)
    return last, ids


def same(whole, told):
    """Both say the same, but for ids of their own and times."""
    def bare(response):
        response = json.loads(json.dumps(response))
        for item in response["output"]:
            item["id"] = item["id"].split("_")[0]
            if "call_id" in item:
                item["call_id"] = len(item["call_id"])
        response["usage"]["input_tokens_details"] = None
        return {**response, "id": None, "created_at": None, "completed_at": None}
    assert bare(whole) == bare(told), (whole, told)


def texts_and_ids_are_those_of_chat():
    chat = [{"role": "system", "content": "Be brief."}] + HELLO
    with talking() as s:
        for i, more in enumerate(({"seed": 9}, {"seed": 4, "temperature": 0.7, "top_p": 0.9, "top_k": 30, "min_p": 0.01},
                                  {"temperature": 0, "repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.25},
                                  {"seed": 3, "logit_bias": {"5": -100}, "stop": ["\n", "e"]})):
            expected = s.post(CHAT, messages=chat, max_tokens=24, return_token_ids=True, logprobs=True, top_logprobs=2, **more)
            given = {"instructions": "Be brief.", "input": HELLO[0]["content"], "max_output_tokens": 24, "return_token_ids": True,
                     "include": ["message.output_text.logprobs"], "top_logprobs": 2, **more}
            whole = s.post(PATH, **given)
            told, ids = followed(s.stream(PATH, **given))
            choice, usage = expected["choices"][0], expected["usage"]
            if "seed" in more:
                same(whole, told)
            for r in (whole, told):
                assert set(r) == MEMBERS | {"token_ids"}, set(r) ^ MEMBERS
                assert text_of(r) == choice["message"]["content"] and text_of(r), (r, expected)
                assert r["token_ids"] == choice["token_ids"], (r, expected)
                assert r["output"][0]["content"][0]["logprobs"] == choice["logprobs"]["content"]
                assert (r["usage"]["input_tokens"], r["usage"]["output_tokens"], r["usage"]["total_tokens"]) == (
                    usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"])
                details = r["usage"]["input_tokens_details"]
                assert details["cached_tokens"] == usage["prompt_tokens"] - 1 == r["usage"]["input_tokens"] - details["cache_write_tokens"]
                assert r["usage"]["output_tokens_details"] == {"reasoning_tokens": 0}
                cut = choice["finish_reason"] == "length"
                assert r["status"] == ("incomplete" if cut else "completed") == r["output"][-1]["status"], r
                assert r["incomplete_details"] == ({"reason": "max_output_tokens"} if cut else None)
                assert r["error"] is None and r["completed_at"] >= r["created_at"], r
            assert ids == whole["token_ids"], (ids, whole)
            plain = s.post(PATH, **{**given, "include": [], "top_logprobs": 0, "return_token_ids": False})
            assert text_of(plain) == text_of(whole) and plain["output"][0]["content"][0]["logprobs"] == [] and set(plain) == MEMBERS


def items_become_messages():
    """What is read is what chat reads: all of it is found in the cache, and the same is drawn."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}'}
    function = {"name": "f", "parameters": {"type": "object"}}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    answer = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
              "content": [{"type": "output_text", "text": "Well:", "annotations": [], "logprobs": []}]}
    output = {"type": "function_call_output", "call_id": "c", "output": "a flower"}
    for items, messages in (
            (HELLO, HELLO),
            ([{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}] + HELLO,
             [{"role": "developer", "content": "Be brief."}] + HELLO),
            (HELLO + [thought, answer, item, item, output], HELLO + [
                {"role": "assistant", "content": "Well:", "reasoning_content": "hm", "tool_calls": [call, call]},
                {"role": "tool", "content": "a flower", "tool_call_id": "c"}]),
            (HELLO + [item, dict(output, output=[{"type": "input_text", "text": "a flower"}])] + HELLO, HELLO + [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "content": "a flower", "tool_call_id": "c"}] + HELLO),
            (HELLO + [answer, answer, thought, dict(answer, content="So.")] + HELLO, HELLO + [
                {"role": "assistant", "content": "Well:"}, {"role": "assistant", "content": "Well:"},
                {"role": "assistant", "content": "So.", "reasoning_content": "hm"}] + HELLO)):
        with talking() as s:
            for tools, functions in (([], []), ([{"type": "function", "function": function}], [{"type": "function", **function}])):
                expected = s.post(CHAT, messages=messages, tools=tools, seed=5, max_tokens=6, return_token_ids=True)
                found = s.post(PATH, input=items, tools=functions, seed=5, max_output_tokens=6, return_token_ids=True)
                assert found["token_ids"] == expected["choices"][0]["token_ids"], (items, found, expected)
                assert found["usage"]["input_tokens"] == expected["usage"]["prompt_tokens"], (items, found, expected)
                assert found["usage"]["input_tokens_details"]["cached_tokens"] == expected["usage"]["prompt_tokens"] - 1, (items, found)
                hidden = s.post(PATH, input=items, tools=functions, tool_choice="none", seed=5, max_output_tokens=6)
                bare = s.post(CHAT, messages=messages, seed=5, max_tokens=6)
                assert hidden["usage"]["input_tokens"] == bare["usage"]["prompt_tokens"], (items, hidden, bare)


def answers_are_items_in_their_order():
    """The model is made to say it: as ids that it had drawn before."""
    with talking() as s:
        ids = s.post("/tokenize", prompt=SAID)["tokens"]
        given = {"input": HELLO, "tools": FLAT, "seed": 1, "resume_ids": ids, "max_output_tokens": len(ids)}
        chat = s.post(CHAT, messages=HELLO, tools=TOOLS, seed=1, resume_ids=ids, max_tokens=len(ids))["choices"][0]["message"]
        for r in (s.post(PATH, **given), followed(s.stream(PATH, **given))[0]):
            thought, said, call = r["output"]
            assert [i["type"] for i in r["output"]] == ["reasoning", "message", "function_call"], r
            assert thought["content"] == [{"type": "reasoning_text", "text": chat["reasoning_content"]}] and thought["summary"] == []
            assert said["content"][0]["text"] == chat["content"] and said["role"] == "assistant", (said, chat)
            assert call["name"] == "look_up" and call["arguments"] == chat["tool_calls"][0]["function"]["arguments"], (call, chat)
            assert len(call["call_id"]) == 9 and len({i["id"] for i in r["output"]}) == 3, r
            assert r["tools"] == FLAT and r["status"] == "incomplete" and {i["status"] for i in r["output"]} == {"completed"}, r
            again = s.post(PATH, input=HELLO + r["output"] + [{"type": "function_call_output", "call_id": call["call_id"], "output": "x"}],
                           tools=FLAT, max_output_tokens=2)
            assert again["usage"]["output_tokens"] == 2, again
        plain = s.post(PATH, **{**given, "tools": []})
        assert "<tool_call>" in text_of(plain) and [i["type"] for i in plain["output"]] == ["reasoning", "message"], plain


def answers_may_be_cut_anywhere():
    with talking() as s:
        ids = s.post("/tokenize", prompt=SAID)["tokens"]
        thoughts = []
        for cut in range(1, len(ids)):
            given = {"input": HELLO, "tools": FLAT, "seed": 1, "resume_ids": ids[:cut], "max_output_tokens": cut}
            whole, (told, _) = s.post(PATH, **given), followed(s.stream(PATH, **given))
            same(whole, told)
            message = s.post(CHAT, messages=HELLO, tools=TOOLS, seed=1, resume_ids=ids[:cut], max_tokens=cut)["choices"][0]["message"]
            assert text_of(whole) == (message["content"] or ""), (cut, whole, message)
            calls = [i["arguments"] for i in whole["output"] if i["type"] == "function_call"]
            assert calls == [c["function"]["arguments"] for c in message.get("tool_calls", [])], (cut, whole, message)
            assert whole["output"] and all(i["status"] == "completed" for i in whole["output"][:-1]), (cut, whole)
            count = whole["usage"]["output_tokens_details"]["reasoning_tokens"]
            if whole["output"][-1]["type"] == "reasoning":
                assert count == cut and whole["output"][-1]["status"] == "incomplete", (cut, whole)
            elif whole["output"][0]["type"] == "reasoning":
                thoughts.append(count)
        assert len(thoughts) > 10 and len(set(thoughts)) == 1 and 0 < thoughts[0] < len(ids), thoughts


def a_broken_stream_goes_on_elsewhere():
    """From the ids that came so far: the text that is there already, and then the rest."""
    given = {"input": HELLO, "seed": 8, "max_output_tokens": 30, "return_token_ids": True}
    with talking() as s, talking() as other:
        events = list(s.stream(PATH, **given))
        whole, ids = followed(events)
        got = [e for e in events if e["type"] == "response.output_text.delta"][:11]
        kept = [i for e in got for i in e["token_ids"]]
        rest, more = followed(other.stream(PATH, **given, resume_ids=kept))
        assert text_of(rest) == text_of(whole) and text_of(rest).startswith("".join(e["delta"] for e in got)), (rest, whole)
        assert kept + more == ids and 0 < len(kept) < len(ids), (kept, more, ids)
        assert rest["usage"]["output_tokens"] == whole["usage"]["output_tokens"]


def texts_fit_their_format():
    schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 3, "maximum": 12}}, "required": ["age"],
              "additionalProperties": False}
    text = {"format": {"type": "json_schema", "name": "x", "strict": True, "schema": schema}}
    with talking() as s:
        for seed in range(4):
            whole = s.post(PATH, input=HELLO, text=text, seed=seed)
            told, _ = followed(s.stream(PATH, input=HELLO, text=text, seed=seed))
            chat = s.post(CHAT, messages=HELLO, response_format={"type": "json_schema", "json_schema": {"schema": schema}}, seed=seed)
            same(whole, told)
            assert text_of(whole) == chat["choices"][0]["message"]["content"] and whole["status"] == "completed", (whole, chat)
            assert 3 <= json.loads(text_of(whole))["age"] <= 12 and whole["text"] == text, whole
        cut = s.post(PATH, input=HELLO, text=text, seed=1, max_output_tokens=2)
        assert text_of(cut).lstrip().startswith("{") and cut["status"] == cut["output"][0]["status"] == "incomplete", cut
        assert text_of(s.post(PATH, input=HELLO, text={"format": {"type": "json_object"}}, seed=1))[:1] == "{"


def calls_come_where_they_are_required():
    schema = {"properties": {"n": {"type": "integer", "minimum": 3, "maximum": 12}}, "required": ["n"], "additionalProperties": False}
    names = ("f", "g")
    flat = [{"type": "function", "name": name, "strict": True, "parameters": schema} for name in names]
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}} for name in names]
    with talking("--ctx", "512") as s:
        for choice, chosen in (("required", "required"), ({"type": "function", "name": "g"},
                                                          {"type": "function", "function": {"name": "g"}})):
            for seed in range(3):
                given = dict(input=HELLO, tools=flat, tool_choice=choice, parallel_tool_calls=False, seed=seed)
                whole, (told, _) = s.post(PATH, **given), followed(s.stream(PATH, **given))
                chat = s.post(CHAT, messages=HELLO, tools=tools, tool_choice=chosen, parallel_tool_calls=False, seed=seed)["choices"][0]
                same(whole, told)
                assert [i["type"] for i in whole["output"]] == ["function_call"] and whole["status"] == "completed", whole
                call, expected = whole["output"][0], chat["message"]["tool_calls"][0]["function"]
                assert (call["name"], call["arguments"]) == (expected["name"], expected["arguments"]), (call, chat)
                assert 3 <= json.loads(call["arguments"])["n"] <= 12 and call["name"] in names, call
                assert call["name"] == "g" or choice == "required", call
                assert whole["tool_choice"] == choice and whole["parallel_tool_calls"] is False, whole


def under_load_each_is_as_alone():
    with talking("--parallel", "4") as s:
        given = [{"input": "Word %d?" % i, "seed": i, "max_output_tokens": 20 + i} for i in range(12)]
        alone, found = [s.post(PATH, **g) for g in given], [None] * len(given)

        def ask(i):
            found[i] = followed(s.stream(PATH, **given[i]))[0] if i % 2 else s.post(PATH, **given[i])
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(given))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for a, f in zip(alone, found):
            same(a, f)


def a_failure_is_an_event():
    """Of many texts that are drawn one after another, the last ones take too long."""
    streams, wholes = [], []

    def ask(i):
        if i % 2:
            streams.append(list(s.stream(PATH, input=HELLO, max_output_tokens=220, ignore=i)))
        else:
            wholes.append(s.send(PATH, {"input": HELLO, "max_output_tokens": 220, "ignore": i}))
    with talking("--timeout", "1", "--parallel", "1", "--queue", "100", "--lenient") as s:
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(60)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    failed = [e for e in streams if e[-1]["type"] == "response.failed"]
    assert failed and any(status == 503 for status, _ in wholes), ([e[-1]["type"] for e in streams], [w[0] for w in wholes])
    for events in failed:
        assert followed(events)[0]["error"] == {"code": "server_error", "message": "the request took more than 1 seconds"}, events[-1]
    for status, answer in wholes:
        assert status == 200 or (status == 503 and answer["error"]["type"] == "server_error"), (status, answer)


def the_request_is_repeated():
    given = {"instructions": "Be \"brief\".", "metadata": {"a": "b"}, "user": "u", "prompt_cache_key": "k", "safety_identifier": "i",
             "temperature": 0.5, "top_p": 0.25, "max_output_tokens": 3, "tool_choice": "none", "tools": FLAT,
             "reasoning": {"effort": "low"}, "text": {"format": {"type": "text"}}, "presence_penalty": 1, "frequency_penalty": 2}
    with talking() as s:
        r = s.post(PATH, input=HELLO, store=True, service_tier="auto", parallel_tool_calls=True, truncation="disabled",
                   background=False, previous_response_id=None, stream_options=None, max_tool_calls=None, seed=2 ** 53 - 1, **given)
        assert {key: r[key] for key in given} == given and r["seed"] == 2 ** 53 - 1, r
        assert r["object"] == "response" and r["id"].startswith("resp_") and r["model"] == s.get("/v1/models")["data"][0]["id"], r
        assert r["store"] is False and r["background"] is False and r["truncation"] == "disabled" and r["service_tier"] == "default", r
        followed(s.stream(PATH, input=HELLO, max_output_tokens=2, stream_options={"include_obfuscation": False}))


def what_is_wrong_is_named():
    message = {"role": "user", "content": "x"}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    thought = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "s"}]}
    with talking() as s:
        for words, param, body in (
                ("list of at least one item, found none", "input", {}), ("at least one item", "input", {"input": []}),
                ("a text or a list", "input", {"input": 7}), ("expected a JSON object", "input[0]", {"input": ["x"]}),
                ("expected a string", "instructions", {"input": "x", "instructions": ["y"]}),
                ("user, assistant, system or developer", "input[1].role", {"input": [message, {"role": "tool", "content": "x"}]}),
                ("expected one", "input[0].content", {"input": [{"role": "user"}]}),
                ("found none", "input[0].role", {"input": [{"type": "message", "content": "x"}]}),
                ("array of its parts", "input[0].content", {"input": [{"role": "user", "content": {"a": 1}}]}),
                ("input_text or output_text, found 'input_image'", "input[0].content[0].type",
                 {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}),
                ("found 'input_file'", "input[0].content[1].type", {"input": [{"role": "user", "content": [
                    {"type": "input_text", "text": "x"}, {"type": "input_file", "file_id": "x"}]}]}),
                ("found 'refusal'", "input[0].content[0].type",
                 {"input": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "x"}]}]}),
                ("found 'item_reference'", "input[0].type", {"input": [{"type": "item_reference", "id": "x"}]}),
                ("unknown parameter", "input[0].file", {"input": [dict(message, file="x")]}),
                ("found none", "input[0].call_id", {"input": [{"type": "function_call_output", "output": "x"}]}),
                ("expected a string", "input[0].arguments", {"input": [dict(call, arguments={})]}),
                ("not supported", "input[0].namespace", {"input": [dict(call, namespace="x")]}),
                ("not supported", "input[0].encrypted_content", {"input": [dict(thought, encrypted_content="x")]}),
                ("beside a summary", "input[0].content", {"input": [thought]}),
                ("reasoning_text", "input[0].content[0].type", {"input": [dict(thought, content=[{"type": "text", "text": "x"}])]}),
                ("at most the 256 tokens", "input", {"input": "word " * 300}),
                ("context holds 256", "max_output_tokens", {"input": "x", "max_output_tokens": 500}),
                ("an integer from 1", "max_output_tokens", {"input": "x", "max_output_tokens": 0}),
                ("expected a list", "tools", {"input": "x", "tools": {}}),
                ("expected function, found 'web_search'", "tools[0].type", {"input": "x", "tools": [{"type": "web_search"}]}),
                ("expected function", "tools[0].type", {"input": "x", "tools": [{"name": "f"}]}),
                ("found none", "tools[1].name", {"input": "x", "tools": FLAT + [{"type": "function"}]}),
                ("true or false", "tools[0].strict", {"input": "x", "tools": [dict(FLAT[0], strict="yes")]}),
                ("unknown parameter", "tools[0].function", {"input": "x", "tools": [dict(TOOLS[0], name="x")]}),
                ("required, or a function", "tool_choice", {"input": "x", "tools": FLAT, "tool_choice": "any"}),
                ("required, or a function", "tool_choice", {"input": "x", "tools": FLAT, "tool_choice": {"type": "web_search"}}),
                ("beside tool_choice", "tools", {"input": "x", "tool_choice": "required"}),
                ("only be ruled out where", "parallel_tool_calls", {"input": "x", "tools": FLAT, "parallel_tool_calls": False}),
                ("found 'xml'", "text.format.type", {"input": "x", "text": {"format": {"type": "xml"}}}),
                ("expected one", "text.format.name", {"input": "x", "text": {"format": {"type": "json_schema", "schema": {}}}}),
                ("expected one", "text.format.schema", {"input": "x", "text": {"format": {"type": "json_schema", "name": "x"}}}),
                ("", "text.format", {"input": "x", "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "odd"}}}}),
                ("not supported", "text.verbosity", {"input": "x", "text": {"verbosity": "low"}}),
                ("beside text.format", "stop", {"input": "x", "stop": "y", "text": {"format": {"type": "json_object"}}}),
                ("not supported", "reasoning.summary", {"input": "x", "reasoning": {"summary": "auto"}}),
                ("expected message.output_text.logprobs", "include", {"input": "x", "include": ["reasoning.encrypted_content"]}),
                ("in include beside it", "top_logprobs", {"input": "x", "top_logprobs": 2}),
                ("nothing is stored", "previous_response_id", {"input": "x", "previous_response_id": "resp_1"}),
                ("nothing is stored", "conversation", {"input": "x", "conversation": "c"}),
                ("nothing is stored", "prompt", {"input": "x", "prompt": {"id": "x"}}),
                ("nothing is stored", "background", {"input": "x", "background": True}),
                ("expected disabled", "truncation", {"input": "x", "truncation": "auto"}),
                ("built-in tools", "max_tool_calls", {"input": "x", "max_tool_calls": 2}),
                ("an object", "metadata", {"input": "x", "metadata": "a"}),
                ("one answer", "n", {"input": "x", "n": 2}),
                ("expected false", "stream_options.include_obfuscation",
                 {"input": "x", "stream": True, "stream_options": {"include_obfuscation": True}}),
                ("unknown parameter", "stream_options.include_usage",
                 {"input": "x", "stream": True, "stream_options": {"include_usage": True}}),
                ("unknown parameter", "messages", {"messages": HELLO})):
            s.refused(PATH, 400, words, param, **body)
        s.refused(PATH, 404, "expected shakespeare", "model", input="x", model="y")
    with Server() as s:
        s.refused(PATH, 400, "chat", None, input="x")


sys.exit(attempt_all(texts_and_ids_are_those_of_chat, items_become_messages, answers_are_items_in_their_order,
                     answers_may_be_cut_anywhere, a_broken_stream_goes_on_elsewhere, texts_fit_their_format,
                     calls_come_where_they_are_required, under_load_each_is_as_alone, a_failure_is_an_event,
                     the_request_is_repeated, what_is_wrong_is_named))
