"""Fifty conversations, as the variables that a chat template gets: tools, tool calls, parts, reasoning, empty and missing keys, Unicode."""

TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The \"weather\" of a <city>",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Ort"}, "unit": {"type": "string", "enum": ["c", "f"]}, "n": {"type": ["integer", "null"]},
        "days": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "number"}}}}}},
    "return": {"type": "object", "description": "what it is like"}}}
OTHER = {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def call(arguments, **more):
    return {"id": "call12345", "type": "function", "function": {"name": "get_weather", "arguments": arguments}, **more}


def answer(text, **more):
    return {"role": "tool", "content": text, **more}


CALLED = assistant("", tool_calls=[call({"city": "Köln", "n": 1, "f": 1.0, "z": None, "t": True})])
PLAIN = [
    [user("Hi")], [system("Be brief."), user("Hi")], [user("a"), assistant("b"), user("c")], [user("")], [assistant("x")], [], [system("s")],
    [system(" s "), user("\n x\u00e9 "), assistant("<think>\nr\n</think>\n\nans"), user("y")], [user("a"), user("b")], [{"role": "user"}],
    [user("a"), assistant("b", reasoning_content="why"), user("c")], [user("q"), assistant("", reasoning="r", thinking="t"), user("z")],
    [user("\U0001F642 <|im_end|> </s> [INST]"), assistant("  sp  ")], [user("q"), assistant(None)], [{"role": "weird", "content": "q"}],
    [{"role": "developer", "content": "d"}, user("x")], [user([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])],
    [user([{"type": "image"}, {"type": "text", "text": "see"}])], [system([{"type": "text", "text": "sys"}]), user("x")],
    [user("1"), assistant("2"), user("3"), assistant("4"), user("5"), assistant("</think>6"), user("7")],
]
CALLS = [
    [user("w?"), CALLED, answer("{\"t\": 5}", tool_call_id="call12345", name="get_weather"), assistant("5"), user("ok")],
    [user("w?"), assistant("", tool_calls=[call("{\"city\": \"X\"}")]), answer("5", tool_call_id="call12345")],
    [system("s"), user("w?"), assistant(None, tool_calls=[call({"a": [1, {"b": True}]})]), answer("5"), answer("6")],
    [user("w"), {"role": "assistant", "tool_calls": [call({}), call({"city": "é"})]}, answer({"r": [1, 2]}), user("k")],
    [user("w"), assistant("I look.", reasoning_content="hm", tool_calls=[call({"city": "Z"})]), answer([{"type": "text", "text": "9"}])],
]
WITH_TOOLS = [
    {"tools": [TOOL]}, {"tools": [TOOL, OTHER], "enable_thinking": False}, {"tools": [OTHER], "enable_thinking": True, "custom_tools": [TOOL]},
    {"tools": [TOOL], "date_string": "01 Jan 2025", "builtin_tools": ["code_interpreter"], "tools_in_user_message": False},
]
VARIABLES = [
    {"enable_thinking": True, "documents": [{"title": "T", "text": "doc", "id": 1}]}, {"add_generation_prompt": False}, {"tools": None},
    {"controls": {"length": "short"}, "reasoning_effort": "high", "keep_past_thinking": True, "thinking": True},
    {"builtin_tools": ["browser", "python"], "model_identity": "me", "add_vision_id": True}, {"tools": [TOOL, TOOL]},
]
CONVERSATIONS = [{"messages": m, "add_generation_prompt": True, **more} for m, more in (
    [(m, {}) for m in PLAIN] + [(m, v) for m in CALLS for v in WITH_TOOLS] + [(PLAIN[7], v) for v in VARIABLES] + [(m, {}) for m in CALLS[:4]])]
assert len(CONVERSATIONS) == 50
