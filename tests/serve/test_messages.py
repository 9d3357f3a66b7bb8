#!/usr/bin/env python3
"""/v1/messages and its count_tokens: conversations of Anthropic's form are those of /v1/chat/completions, and so are texts and
ids; blocks, events in their order, reasons to stop, errors. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import subprocess
import sys

from server import HELLO, MODEL, TBLOCK, TEMPLATE, TOOLS as OPENAI_TOOLS, Server, talking
from verdicts import attempt_all

PATH, CHAT = "/v1/messages", "/v1/chat/completions"
# Reasoning that the template can switch off.
SWITCH = TEMPLATE.replace("{{ '[assistant]' }}", "{{ '[assistant]' }}{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}")
PLAIN = """{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% endfor %}{% if add_generation_prompt %}{{ '[assistant]' }}{% endif %}"""
FUNCTION = OPENAI_TOOLS[0]["function"]
TOOLS = [{"name": FUNCTION["name"], "description": FUNCTION["description"], "input_schema": FUNCTION["parameters"],
          "cache_control": {"type": "ephemeral"}}]
SAID = '<think>hm</think>Well: <tool_call>{"name": "look_up", "arguments": {"word": "rose"}}</tool_call> Then'


def text(content):
    """A block of text."""
    return {"type": "text", "text": content}


def collected(events):
    """The message that a stream's events make; their order is checked on the way."""
    message, ids, open_block, over, partial = None, [], False, False, ""
    for event in events:
        kind = event["type"]
        if kind == "ping":
            ids += event["token_ids"]
            continue
        assert (message is None) == (kind == "message_start") and not over, event
        if kind == "message_start":
            message = event["message"]
            assert message["content"] == [] and message["stop_reason"] is None and message["usage"]["output_tokens"] == 0, event
        elif kind == "content_block_start":
            assert not open_block and message["stop_reason"] is None and event["index"] == len(message["content"]), event
            message["content"].append(event["content_block"])
            open_block, partial = True, ""
        elif kind == "content_block_delta":
            block, delta = message["content"][-1], event["delta"]
            assert open_block and event["index"] == len(message["content"]) - 1, event
            key = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}[delta["type"]]
            assert {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}[block["type"]] == key and delta[key], event
            if key == "partial_json":
                partial += delta[key]
            else:
                block[key] += delta[key]
        elif kind == "content_block_stop":
            assert open_block and event["index"] == len(message["content"]) - 1, event
            open_block = False
            if partial:
                try:
                    message["content"][-1]["input"] = json.loads(partial)
                except ValueError:
                    message["content"][-1]["partial_json"] = partial
        elif kind == "message_delta":
            assert not open_block and message["stop_reason"] is None, event
            message.update(event["delta"])
            message["usage"] = event["usage"]
        else:
            assert kind == "message_stop" and message["stop_reason"], event
            over = True
    assert over
    return message, ids


def same(whole, told):
    """But for ids, and for what was computed again."""
    for m in (whole, told):
        usage = m["usage"]
        usage["input_tokens"] += usage.pop("cache_read_input_tokens")
        for block in m["content"]:
            block.pop("id", None)
        m.pop("id"), m.pop("token_ids", None)
    assert whole == told, (whole, told)


def texts_and_ids_are_those_of_chat_and_of_run():
    """The same conversation in both forms: what is drawn depends on each token of the prompt."""
    call = {"id": "x", "type": "function", "function": {"name": "look_up", "arguments": {"word": "rose"}}}
    use = {"type": "tool_use", "id": "x", "name": "look_up", "input": {"word": "rose"}}
    result = {"type": "tool_result", "tool_use_id": "x", "content": [text("a "), text("flower")]}
    conversations = [
        (dict(messages=HELLO), dict(messages=HELLO)),
        (dict(messages=HELLO, system="Be brief."), dict(messages=[{"role": "system", "content": "Be brief."}] + HELLO)),
        (dict(messages=[{"role": "user", "content": [text("Who "), text("art thou?")]}], system=[text("Be "), text("brief.")]),
         dict(messages=[{"role": "system", "content": "Be brief."}] + HELLO)),
        (dict(messages=[{"role": "user", "content": "Who"}, {"role": "user", "content": "art thou?"}]),
         dict(messages=[{"role": "user", "content": "Who\nart thou?"}])),
        (dict(messages=HELLO, tools=TOOLS), dict(messages=HELLO, tools=OPENAI_TOOLS)),
        (dict(messages=HELLO, tools=TOOLS, tool_choice={"type": "none"}), dict(messages=HELLO)),
        (dict(tools=TOOLS, messages=HELLO + [
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, text("Well:"), use]},
            {"role": "user", "content": [result, text("Now?")]}]),
         dict(tools=OPENAI_TOOLS, messages=HELLO + [
             {"role": "assistant", "content": "Well:", "reasoning_content": "hm", "tool_calls": [call]},
             {"role": "tool", "tool_call_id": "x", "content": "a flower"}, {"role": "user", "content": "Now?"}])),
    ]
    with talking("--ctx", "512") as s:
        for ours, theirs in conversations:
            given = dict(max_tokens=12, seed=9, return_token_ids=True)
            whole = s.post(PATH, **ours, **given)
            told = collected(s.stream(PATH, **ours, **given))
            chat = s.post(CHAT, **theirs, **given)
            choice = chat["choices"][0]
            assert whole["token_ids"] == told[1] == choice["token_ids"] and len(told[1]) == 12, (whole, told, chat)
            assert "".join(b["text"] for b in whole["content"]) == choice["message"]["content"], (whole, chat)
            usage = whole["usage"]
            counted = s.post(PATH + "/count_tokens", **ours)["input_tokens"]
            assert usage["input_tokens"] + usage["cache_read_input_tokens"] == counted == chat["usage"]["prompt_tokens"]
            assert usage["output_tokens"] == 12 and whole["seed"] == 9 and whole["model"] == "shakespeare"
            same(whole, told[0])
            prompt = s.post("/apply-template", **theirs)["prompt"]
            ids = s.post("/tokenize", prompt=prompt)["tokens"]
            ran = subprocess.run([TBLOCK, "run", MODEL, "--ctx", "512", "--ids", ",".join(map(str, ids)), "--json", "--predict", "12",
                                  "--temp", "1", "--top-k", "0", "--top-p", "1", "--seed", "9"], capture_output=True, text=True)
            assert json.loads(ran.stdout)["ids"] == told[1], ran


def arguments_come_as_the_template_wants_them():
    with talking() as s:
        prompts = {s.post("/apply-template", messages=HELLO + [{"role": "assistant", "content": "", "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "f", "arguments": a}}]}])["prompt"] for a in ({"a": 1}, '{"a": 1}')}
        assert len(prompts) == 1 and '{"name": "f", "arguments": {"a": 1}}' in prompts.pop(), prompts


def answers_are_blocks_in_their_order():
    """The model is made to say it: as ids that it had drawn before."""
    with talking() as s:
        ids = s.post("/tokenize", prompt=SAID)["tokens"]
        given = {"messages": HELLO, "tools": TOOLS, "seed": 1}
        whole = s.post(PATH, resume_ids=ids, max_tokens=len(ids), **given)
        blocks = whole["content"]
        assert [b["type"] for b in blocks] == ["thinking", "text", "tool_use", "text"] and blocks[0]["thinking"] == "hm", blocks
        assert blocks[1]["text"].strip() == "Well:" and blocks[3]["text"].strip() == "Then" and blocks[0]["signature"] == "", blocks
        assert blocks[2]["name"] == "look_up" and blocks[2]["input"] == {"word": "rose"} and len(blocks[2]["id"]) == 9, blocks
        for cut in range(1, len(ids) + 1):   # an answer cut short still has what there is
            part = dict(given, resume_ids=ids[:cut], max_tokens=cut)
            same(s.post(PATH, **part), collected(s.stream(PATH, **part))[0])
        plain = s.post(PATH, **dict(given, tools=None), resume_ids=ids, max_tokens=len(ids))["content"]
        assert [b["type"] for b in plain] == ["thinking", "text"] and "<tool_call>" in plain[1]["text"], plain


def reasons_to_stop():
    with talking() as s:
        free = s.post(PATH, messages=HELLO, max_tokens=30, seed=1)
        assert free["stop_reason"] == "max_tokens" and free["stop_sequence"] is None, free
        word = free["content"][0]["text"][5:8]
        for path in (lambda **g: s.post(PATH, **g), lambda **g: collected(s.stream(PATH, **g))[0]):
            cut = path(messages=HELLO, max_tokens=30, seed=1, stop_sequences=["zzz", word])
            assert cut["stop_reason"] == "stop_sequence" and cut["stop_sequence"] == word, cut
            assert cut["content"][0]["text"] == free["content"][0]["text"].split(word)[0], (cut, free)
            fits = path(messages=HELLO, max_tokens=60, seed=1, output_config={"format": {"type": "json_schema", "schema": {"enum": ["a"]}}})
            assert fits["stop_reason"] == "end_turn" and fits["content"] == [text('"a"')], fits
            ids = s.post("/tokenize", prompt=SAID + "[/]\n[user]")["tokens"]   # the template's own end of an answer
            ends = dict(messages=HELLO, resume_ids=ids, max_tokens=len(ids) + 9)
            assert path(**ends)["stop_reason"] == "end_turn", path(**ends)
            assert path(**ends, tools=TOOLS)["stop_reason"] == "tool_use"
        none = s.post(PATH, messages=HELLO, max_tokens=0)
        assert none["content"] == [] and none["stop_reason"] == "max_tokens", none


def calls_come_where_they_are_required():
    """The same as in /v1/chat/completions, which tests what they must be."""
    schema = dict(FUNCTION["parameters"], required=["word"], additionalProperties=False, properties={"word": {"type": "string", "maxLength": 9}})
    tools, theirs = [dict(TOOLS[0], input_schema=schema, strict=True)], [{"type": "function", "function": dict(FUNCTION, parameters=schema)}]
    with talking("--ctx", "512") as s:
        for choice, other in (({"type": "any"}, "required"), ({"type": "tool", "name": "look_up"}, {"type": "function", "function": {"name": "look_up"}})):
            choice = dict(choice, disable_parallel_tool_use=True)
            ours = s.post(PATH, messages=HELLO, tools=tools, tool_choice=choice, max_tokens=200, seed=3, return_token_ids=True)
            chat = s.post(CHAT, messages=HELLO, tools=theirs, tool_choice=other, parallel_tool_calls=False, max_tokens=200, seed=3,
                          return_token_ids=True)["choices"][0]
            assert ours["token_ids"] == chat["token_ids"] and ours["stop_reason"] == "tool_use", (ours, chat)
            block, = ours["content"]
            assert block["type"] == "tool_use" and block["input"] == json.loads(chat["message"]["tool_calls"][0]["function"]["arguments"]), ours
        given = dict(messages=HELLO, max_tokens=9)
        s.refused(PATH, 400, "tool_choice.name: expected", **given, tools=TOOLS, tool_choice={"type": "tool"})
        s.refused(PATH, 400, "tools: expected one beside tool_choice", **given, tool_choice={"type": "any"})
        s.refused(PATH, 400, "only be ruled out where a call is required", **given, tools=TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": True})


def a_broken_stream_goes_on():
    with talking() as s:
        given = dict(messages=HELLO, max_tokens=20, seed=4)
        whole, ids = collected(s.stream(PATH, **given, return_token_ids=True))
        rest, more = collected(s.stream(PATH, **given, return_token_ids=True, resume_ids=ids[:7]))
        assert more == ids[7:] and rest["content"] == whole["content"], (whole, rest)


def thinking_is_what_the_template_can_do():
    def count(server, **given):
        return server.post(PATH + "/count_tokens", messages=HELLO, **given)["input_tokens"]
    with talking(template=SWITCH) as s:
        free = count(s)
        assert count(s, thinking={"type": "adaptive"}) == count(s, thinking={"type": "enabled"}) == free
        assert count(s, thinking={"type": "disabled"}) > free
        s.refused(PATH, 400, "thinking.budget_tokens: expected at least max_tokens", messages=HELLO, max_tokens=2000,
                  thinking={"type": "enabled", "budget_tokens": 1024})
        s.refused(PATH, 400, "thinking.display: expected summarized", messages=HELLO, max_tokens=9, thinking={"type": "adaptive", "display": "omitted"})
        s.refused(PATH, 400, "thinking.type: expected enabled", messages=HELLO, max_tokens=9, thinking={"type": "between_tools"})
    with talking(template=PLAIN) as s:
        assert count(s) == count(s, thinking={"type": "disabled"})
        s.refused(PATH, 400, "has no place", messages=HELLO, max_tokens=9, thinking={"type": "adaptive"})
    with talking() as s:
        s.refused(PATH, 400, "cannot switch it off", messages=HELLO, max_tokens=9, thinking={"type": "disabled"})


def what_is_wrong_is_named():
    with talking() as s:
        status, data = s.send(PATH, {"messages": HELLO})
        assert status == 400 and data["type"] == "error" and data["request_id"].startswith("req-"), data
        assert data["error"] == {"type": "invalid_request_error", "message": "max_tokens: expected an integer from 0 to 16777216, found none"}, data
        for words, given in (
                ("messages: expected an array", dict(messages="hello")),
                ("messages[0]: expected a JSON object", dict(messages=[1])),
                ("messages[0].role: expected user, assistant or system, found 'tool'", dict(messages=[{"role": "tool", "content": "a"}])),
                ("messages[0].content: expected one, found none", dict(messages=[{"role": "user"}])),
                ("messages[0].content: expected a text or an array of its parts", dict(messages=[{"role": "user", "content": 1}])),
                ("messages[0].name: unknown parameter", dict(messages=[dict(HELLO[0], name="x")])),
                ("messages[0].content[0].type: expected text or tool_result, found 'image'", dict(messages=[{"role": "user", "content": [
                    {"type": "image", "source": {}}]}])),
                ("messages[0].content[0].text: expected a string, found none", dict(messages=[{"role": "user", "content": [{"type": "text"}]}])),
                ("the last one to be the user's", dict(messages=HELLO + [{"role": "assistant", "content": "I am"}])),
                ("messages[0].content[0].citations: not supported", dict(messages=[{"role": "user", "content": [dict(text("a"), citations=[])]}])),
                ("system[0].annotations: unknown", dict(messages=HELLO, system=[dict(text("a"), annotations=[])])),
                ("system[0].citations: not supported", dict(messages=HELLO, system=[dict(text("a"), citations=[])])),
                ("system: expected a text or an array", dict(system=1)),
                ("tools: expected an array", dict(tools={})),
                ("tools[0].type: expected custom, found 'bash_20250124'", dict(tools=[{"type": "bash_20250124", "name": "bash"}])),
                ("tools[0].input_schema: expected one", dict(tools=[{"name": "a"}])),
                ("tools[0].input_schema: expected an object", dict(tools=[{"name": "a", "input_schema": 1}])),
                ("tools[0].strict: expected true or false, found 1", dict(tools=[dict(TOOLS[0], strict=1)])),
                ("stop_sequences: expected an array", dict(stop_sequences="a")),
                ("stop_sequences: expected none beside output_config", dict(stop_sequences=["a"], output_config={
                    "format": {"type": "json_schema", "schema": {}}})),
                ("output_config.format: expected type json_schema", dict(output_config={"format": {"type": "text"}})),
                ("the context holds 256 tokens, but prompt and max_tokens ask for", dict(max_tokens=256)),
                ("at most the 256 tokens", dict(messages=[{"role": "user", "content": "word " * 300}])),
                ("container: unknown parameter", dict(container="x")), ("n: unknown parameter", dict(n=2)),
                ("temperature: expected a number", dict(temperature=-1))):
            s.refused(PATH, 400, words, **{"messages": HELLO, "max_tokens": 5, **given})
        s.refused(PATH, 404, "expected shakespeare", messages=HELLO, max_tokens=5, model="other")
        for kind, status, path, body in (("not_found_error", 404, PATH, {"messages": HELLO, "max_tokens": 5, "model": "other"}),
                                         ("invalid_request_error", 400, PATH + "/count_tokens", {"messages": []})):
            found, data = s.send(path, body)
            assert found == status and data["error"]["type"] == kind, data
        status, headers, data = s.ask("GET", PATH)
        assert status == 405 and json.loads(data)["type"] == "error" and headers["request-id"] == json.loads(data)["request_id"], data
        s.post(PATH, messages=HELLO, max_tokens=2, metadata={"user_id": "u"}, service_tier="auto", cache_control={"type": "ephemeral"})
    with Server() as s:
        s.refused(PATH, 400, "chat", messages=HELLO, max_tokens=5)


sys.exit(attempt_all(texts_and_ids_are_those_of_chat_and_of_run, arguments_come_as_the_template_wants_them,
                     answers_are_blocks_in_their_order, reasons_to_stop, calls_come_where_they_are_required,
                     a_broken_stream_goes_on, thinking_is_what_the_template_can_do, what_is_wrong_is_named))
