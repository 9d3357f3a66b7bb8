#!/usr/bin/env python3
"""/v1/chat/completions: prompts of the template, answers as fields, whole and as streams, constraints. Prints "ok NAME",
"FAIL NAME: why" or "skip NAME: why"."""
import json
import pathlib
import subprocess
import sys
import tempfile

from server import HELLO, MODEL, TBLOCK, TEMPLATE, TOOLS, Server, talking
from verdicts import attempt_all

PATH = "/v1/chat/completions"


def collected(events):
    """The message that a stream's deltas make, and why it ended."""
    message, reason, ids = {"content": ""}, None, []
    for event in events:
        assert event["object"] == "chat.completion.chunk"
        for choice in event["choices"]:
            delta, reason = choice["delta"], choice["finish_reason"]
            ids += choice.get("token_ids", [])
            for key in ("role", "content", "reasoning_content"):
                if key in delta:
                    message[key] = message.get(key, "") + delta[key]
            for call in delta.get("tool_calls", []):
                calls = message.setdefault("tool_calls", [])
                if call["index"] == len(calls):
                    calls.append({"id": call["id"], "type": call["type"], "function": {"name": call["function"]["name"], "arguments": ""}})
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return message, reason, ids


def prompts_are_those_of_the_template():
    conversation = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Look it up"}]},
                    {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "type": "function", "function": {
                        "name": "look_up", "arguments": {"word": "rose"}}}]}, {"role": "tool", "content": "a flower", "tool_call_id": "x"}]
    with talking() as s:
        plain = s.post("/apply-template", messages=HELLO)["prompt"]
        assert plain == "[user]Who art thou?[/]\n[assistant]", plain
        for messages, tools in ((HELLO, None), (conversation[:1] + HELLO, TOOLS)):
            given = {"messages": messages, **({"tools": tools} if tools else {})}
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder)
                (file / "m.json").write_text(json.dumps(messages))
                (file / "t.json").write_text(json.dumps(tools))
                done = subprocess.run([TBLOCK, "chat", MODEL, "--chat-format", s.template.name, "--show-prompt", "--messages",
                                       str(file / "m.json"), *(["--tools", str(file / "t.json")] if tools else [])],
                                      capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            expected = json.loads(done.stdout)
            assert s.post("/apply-template", **given) == {"prompt": expected["text"]}
            tokens = s.post("/apply-template", return_token_ids=True, **given)
            assert tokens["prompt"] == expected["text"] and tokens["token_ids"] == expected["ids"], tokens
            assert "".join(tokens["token_strs"]) == expected["text"], tokens
            ids = ",".join(map(str, expected["ids"]))
            ran = subprocess.run([TBLOCK, "run", MODEL, "--ids", ids, "--json", "--predict", "12", "--temp", "1", "--top-k", "0", "--top-p",
                                  "1", "--seed", "9"], capture_output=True, text=True)
            ran = json.loads(ran.stdout)["ids"]
            whole = s.post(PATH, max_tokens=12, seed=9, return_token_ids=True, **given)
            told = collected(s.stream(PATH, max_tokens=12, seed=9, return_token_ids=True, **given))
            assert whole["usage"]["prompt_tokens"] == len(expected["ids"])
            assert whole["choices"][0]["token_ids"] == told[2] == ran[:len(told[2])] and told[2], (whole, told, ran)
        s.post("/apply-template", messages=conversation, tools=TOOLS)
        for parts in (["Who", " art thou?"], ["Who art thou?"], ["", "Who art thou?", ""]):
            parts = [{"type": "text", "text": text} for text in parts]
            assert s.post("/apply-template", messages=[{"role": "user", "content": parts}])["prompt"] == plain, parts


def answers_come_back_as_they_were_meant():
    """The model is made to say it: as ids that it had drawn before."""
    said = '<think>hm</think>Well: <tool_call>{"name": "look_up", "arguments": {"word": "rose"}}</tool_call>'
    with talking() as s:
        ids = s.post("/tokenize", prompt=said)["tokens"]
        given = {"messages": HELLO, "tools": TOOLS, "resume_ids": ids, "max_tokens": len(ids), "seed": 1}
        for answer in (s.post(PATH, **given)["choices"][0], None):
            message, reason = (answer["message"], answer["finish_reason"]) if answer else collected(s.stream(PATH, **given))[:2]
            call = message["tool_calls"][0]
            assert message["reasoning_content"] == "hm" and message["content"].strip() == "Well:", message
            assert call["type"] == "function" and len(call["id"]) == 9 and call["function"]["name"] == "look_up", call
            assert json.loads(call["function"]["arguments"]) == {"word": "rose"} and len(message["tool_calls"]) == 1, call
            assert reason == "length", reason
        for cut in range(1, len(ids)):   # an answer cut short still has what there is
            part = dict(given, resume_ids=ids[:cut], max_tokens=cut)
            whole = s.post(PATH, **part)["choices"][0]["message"]
            told = collected(s.stream(PATH, **part))[0]
            for key in ("reasoning_content", "content"):
                assert (whole.get(key) or "") == (told.get(key) or ""), (cut, whole, told)
            found = [c["function"] for m in (whole, told) for c in m.get("tool_calls", [])]
            assert len(found) in (0, 2) and all(f == found[0] for f in found), (cut, whole, told)
        plain = s.post(PATH, **{**given, "tools": None})["choices"][0]["message"]
        assert "tool_calls" not in plain and "<tool_call>" in plain["content"], plain


def texts_fit_their_format():
    schema = {"type": "object", "properties": {"age": {"type": "integer", "minimum": 3, "maximum": 12}}, "required": ["age"],
              "additionalProperties": False}
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with talking() as s:
        for seed in range(5):
            whole = s.post(PATH, messages=HELLO, response_format=format, seed=seed)["choices"][0]
            assert 3 <= json.loads(whole["message"]["content"])["age"] <= 12 and whole["finish_reason"] == "stop", whole
            told = collected(s.stream(PATH, messages=HELLO, response_format=format, seed=seed))
            assert told[0]["content"] == whole["message"]["content"] and told[1] == "stop", (told, whole)
        many = s.post(PATH, messages=HELLO, response_format=format, seed=0, n=5)["choices"]
        assert all(3 <= json.loads(c["message"]["content"])["age"] <= 12 for c in many)
        s.refused(PATH, 400, "", "response_format", messages=HELLO, response_format={"type": "json_schema", "json_schema": {
            "schema": {"type": "strange"}}})
        s.refused(PATH, 400, "expected type text", "response_format", messages=HELLO, response_format={"type": "xml"})
        s.refused(PATH, 400, "beside response_format", "stop", messages=HELLO, response_format=format, stop="x")


def calls_come_where_they_are_required():
    """By the template's own form: read by the same reader, with arguments that fit the tool's schema."""
    schemas = {"look_up": {"type": "object", "properties": {"word": {"type": "string", "maxLength": 9}}, "required": ["word"],
                           "additionalProperties": False},
               "count": {"properties": {"n": {"type": "integer", "minimum": 3, "maximum": 12}}, "required": ["n"], "additionalProperties": False}}
    tools = [{"type": "function", "function": {"name": name, "parameters": p}} for name, p in schemas.items()]
    one = dict(messages=HELLO, tools=tools, parallel_tool_calls=False)

    def check(message, reason, allowed):
        assert reason == "tool_calls" and not message["content"], (message, reason)
        for call in (c["function"] for c in message["tool_calls"]):
            a = json.loads(call["arguments"])
            assert call["name"] in allowed and list(a) == [{"look_up": "word", "count": "n"}[call["name"]]], call
            assert len(a["word"]) <= 9 if "word" in a else 3 <= a["n"] <= 12, call

    with talking("--ctx", "512") as s:
        called = set()
        for seed in range(8):
            whole = s.post(PATH, **one, tool_choice="required", seed=seed)["choices"][0]
            check(whole["message"], whole["finish_reason"], schemas)
            assert len(whole["message"]["tool_calls"]) == 1, whole
            called.add(whole["message"]["tool_calls"][0]["function"]["name"])
            told = collected(s.stream(PATH, **one, tool_choice="required", seed=seed))
            assert told[0]["tool_calls"][0]["function"] == whole["message"]["tool_calls"][0]["function"], (told, whole)
            named = s.post(PATH, **one, tool_choice={"type": "function", "function": {"name": "count"}}, seed=seed)["choices"][0]
            check(named["message"], named["finish_reason"], ["count"])
        assert called == set(schemas), called
        many = s.post(PATH, messages=HELLO, tools=tools, tool_choice="required", seed=1, n=16, max_tokens=160)["choices"]
        for c in many:
            if c["finish_reason"] == "tool_calls":
                check(c["message"], c["finish_reason"], schemas)
        assert max(len(c["message"]["tool_calls"]) for c in many) > 1, many
        s.refused(PATH, 400, "the function other", "tool_choice", **one, tool_choice={"type": "function", "function": {"name": "other"}})
        s.refused(PATH, 400, "beside tool_choice", "stop", **one, tool_choice="required", stop="x")
        s.refused(PATH, 400, "beside tool_choice", "response_format", **one, tool_choice="required", response_format={"type": "json_object"})
        wrong = [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}]
        s.refused(PATH, 400, "f: parameters: expected a schema of type object", "tool_choice", messages=HELLO, tools=wrong, tool_choice="required")
    call = TEMPLATE[TEMPLATE.index("<tool_call>"):TEMPLATE.index("</tool_call>")]
    by_key = ("<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>\n{{ v }}\n"
              "</parameter>\n{% endfor %}</function>\n")
    for other, words in (("", "it shows none"), (by_key, "arguments are not an object"),
                         (call.replace("c.function.name", "c.function.name + '/' + c.function.name"), "it shows none")):
        with talking("--ctx", "512", template=TEMPLATE.replace(call, other)) as s:
            s.refused(PATH, 400, words, "tool_choice", **one, tool_choice="required")


def log_probabilities():
    with talking() as s:
        whole = s.post(PATH, messages=HELLO, max_tokens=6, seed=3, logprobs=True, top_logprobs=2, temperature=0)["choices"][0]
        content = whole["logprobs"]["content"]
        assert "".join(t["token"] for t in content) == whole["message"]["content"] and len(content) == 6, whole
        for t in content:
            assert len(t["top_logprobs"]) == 2 and t["logprob"] == t["top_logprobs"][0]["logprob"] < 0
            assert bytes(t["bytes"]).decode() == t["token"]
        told = [t for e in s.stream(PATH, messages=HELLO, max_tokens=6, seed=3, logprobs=True, top_logprobs=2, temperature=0)
                for c in e["choices"] for t in (c["logprobs"] or {"content": []})["content"]]
        assert told == content


def what_is_wrong_is_named():
    with talking() as s:
        s.refused(PATH, 400, "at least one message", "messages")
        s.refused(PATH, 400, "at least one message", "messages", messages=[])
        s.refused(PATH, 400, "at least one message", "messages", messages="hello")
        s.refused(PATH, 400, "expected an object, found 1", "messages[0]", messages=[1])
        s.refused(PATH, 400, "a text or an array of its parts, found 5", "messages[0].content", messages=[{"role": "user", "content": 5}])
        for part in ({"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "input_audio", "input_audio": {}}, {}, "text"):
            s.refused(PATH, 400, "expected text, found", "messages[1].content[1].type",
                      messages=[*HELLO, {"role": "user", "content": [{"type": "text", "text": "a"}, part]}])
        s.refused(PATH, 400, "at most the 256 tokens", "messages", messages=[{"role": "user", "content": "word " * 300}])
        s.refused(PATH, 400, "context holds 256", "max_tokens", messages=HELLO, max_tokens=500)
        s.refused(PATH, 400, "auto, none, required, or a function", "tool_choice", messages=HELLO, tools=TOOLS, tool_choice="always")
        s.refused(PATH, 400, "one beside tool_choice", "tools", messages=HELLO, tool_choice="required")
        s.refused(PATH, 400, "only be ruled out where", "parallel_tool_calls", messages=HELLO, tools=TOOLS, parallel_tool_calls=False)
        s.refused(PATH, 400, "expected an array", "tools", messages=HELLO, tools={"a": 1})
        s.refused(PATH, 400, "expected an object", "chat_template_kwargs", messages=HELLO, chat_template_kwargs=[1])
        s.refused(PATH, 400, "logprobs to be true", "top_logprobs", messages=HELLO, top_logprobs=1)
        s.refused(PATH, 400, "tools replaces it", "functions", messages=HELLO, functions=[])
        s.refused(PATH, 400, "unknown parameter", "funktions", messages=HELLO, funktions=[])
        s.post(PATH, messages=HELLO, max_completion_tokens=2, user="u", prediction=None, prompt_cache_key="k", safety_identifier="i", metadata={"a": "b"}, store=False, service_tier="auto",
               tool_choice="none", tools=TOOLS, reasoning_effort="low", chat_template_kwargs={"enable_thinking": False})
    with Server() as s:
        s.refused(PATH, 400, "chat", None, messages=HELLO)


def a_format_ignores_nothing():
    schema = {"type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"], "additionalProperties": False}
    forms = ({"type": "json_object", "schema": schema},
             {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "description": "d", "schema": schema}})
    asked = dict(messages=HELLO, max_tokens=40, temperature=2, seed=5)
    wrong = {"type": "json_object", "scheme": schema}
    with talking() as s:
        for form in forms:
            assert json.loads(s.post("/v1/chat/completions", **asked, response_format=form)["choices"][0]["message"]["content"]) == {"n": 7}, form
        s.refused("/v1/chat/completions", 400, "unknown parameter", "response_format.scheme", **asked, response_format=wrong)
        s.refused("/v1/chat/completions", 400, "unknown parameter", "response_format.json_schema.x", **asked,
                  response_format={"type": "json_schema", "json_schema": {"x": 1, "schema": schema}})
        s.refused("/v1/chat/completions", 400, "json_object", "response_format.schema", **asked, response_format={"type": "text", "schema": schema})
    with talking("--lenient") as s:
        s.post("/v1/chat/completions", **asked, response_format=wrong)


sys.exit(attempt_all(a_format_ignores_nothing, prompts_are_those_of_the_template, answers_come_back_as_they_were_meant, texts_fit_their_format,
                     calls_come_where_they_are_required, log_probabilities, what_is_wrong_is_named))
