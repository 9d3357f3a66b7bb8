#!/usr/bin/env python3
"""What a server said in a conversation is taken as what comes before the next turn, with every template: our own, and the published ones of
$TBLOCK_TEST_DATA. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import sys

from server import HELLO, ROOT, TOOLS, talking
from tokens_model import model_of
from verdicts import Skip, attempt_all

sys.path.insert(0, str(ROOT / "tests/text"))
sys.path.insert(0, str(ROOT / "tests"))
from answer_templates import TEMPLATES  # noqa: E402
from testdata import MORE  # noqa: E402

CHAT, RENDER = "/v1/chat/completions", "/apply-template"
FOLDER, MODEL = model_of(["<|im_end|>", "<tool_call>", "</tool_call>"], ends=("<|im_end|>",))
MORE_VARIABLES = {"chat_template_kwargs": {"bos_token": "<s>", "eos_token": "</s>"}}   # the model has none
MADE = {"role": "assistant", "content": None, "refusal": None, "annotations": None, "audio": None, "function_call": None, "tool_calls": [
    {"id": "abcdefghi", "type": "function", "function": {"name": "look_up", "arguments": "{\"word\": \"quince\"}"}}]}


def server_of(template):
    return talking(template=template, model=MODEL)


def rendered(s, messages):
    """Status and prompt, or why there is none."""
    status, said = s.send(RENDER, dict(MORE_VARIABLES, messages=messages, tools=TOOLS))
    return status, said["prompt"] if status == 200 else said["error"]["message"]


def goes_on(s, name, message):
    """The message with calls, as each SDK gives it back, and a result; the template's own refusal is none of ours."""
    results = [{"role": "tool", "tool_call_id": c["id"], "content": "a flower"} for c in message["tool_calls"]]
    absent = {k: v for k, v in message.items() if v is not None}
    forms = [rendered(s, HELLO + [form] + results) for form in (message, absent, dict(message, content=""))]
    if forms[2][0] != 200 and "the template says" in forms[2][1]:
        return False
    assert forms[0] == forms[1] and forms[0][0] == 200, (name, message, forms)
    assert "None" not in forms[0][1], (name, forms[0])
    if forms[2] != forms[0]:   # it tells null from an empty text
        assert forms[0][1].count("look_up") > rendered(s, HELLO + results)[1].count("look_up"), (name, forms)
    return True


def talk(name, template):
    """Whether it has a place for the result of a call."""
    with server_of(template) as s:
        given = dict(MORE_VARIABLES, messages=HELLO, max_tokens=6, seed=1)
        said = s.post(CHAT, **given)["choices"][0]["message"]
        s.post(CHAT, **dict(given, messages=HELLO + [said] + HELLO))
        status, calls = s.send(CHAT, dict(given, tools=TOOLS, tool_choice="required", max_tokens=900))
        own = calls["choices"][0] if status == 200 else {"finish_reason": "none"}
        took = [goes_on(s, name, own["message"])] if own["finish_reason"] == "tool_calls" else []
        return all([*took, goes_on(s, name, MADE)])


def our_templates_take_their_own_answers():
    took = [name for name, t in TEMPLATES.items() if talk(name, t["template"])]
    assert len(took) >= len(TEMPLATES) - 2, sorted(set(TEMPLATES) - set(took))


def published_templates_take_their_own_answers():
    files = sorted((MORE / "chat/jinja").glob("*.jinja"))
    if not files:
        raise Skip("no data")
    took = [f.stem for f in files if talk(f.stem, f.read_text())]
    assert {"Qwen-Qwen3-0.6B", "Qwen-Qwen2.5-7B-Instruct", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B"} <= set(took), took


def other_endpoints_give_the_same_prompt():
    """A template that looks for null beside calls finds it, whichever way the conversation came."""
    template = ("{% for m in messages %}{% if m['content'] is none %}[null{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}]"
                "{% else %}{{ '[' + m['content'] + ']' }}{% endif %}{% endfor %}")
    with server_of(template) as s:
        body = {"max_tokens": 1, "seed": 3, "return_token_ids": True}
        result = {"role": "tool", "tool_call_id": "abcdefghi", "content": "a flower"}
        assert rendered(s, HELLO + [MADE, result]) == (200, "[Who art thou?][nulllook_up][a flower]")
        chat = s.post(CHAT, **body, messages=HELLO + [MADE, result])
        items = s.post("/v1/responses", seed=3, max_output_tokens=1, input=HELLO + [
            {"type": "function_call", "call_id": "abcdefghi", "name": "look_up", "arguments": "{\"word\": \"quince\"}"},
            {"type": "function_call_output", "call_id": "abcdefghi", "output": "a flower"}])
        blocks = s.post("/v1/messages", **body, messages=HELLO + [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "abcdefghi", "name": "look_up", "input": {"word": "quince"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "abcdefghi", "content": "a flower"}]}])
        tokens = {chat["usage"]["prompt_tokens"], items["usage"]["input_tokens"],
                  blocks["usage"]["input_tokens"] + blocks["usage"]["cache_read_input_tokens"]}
        assert len(tokens) == 1, (chat, items, blocks)


sys.exit(attempt_all(our_templates_take_their_own_answers, published_templates_take_their_own_answers, other_endpoints_give_the_same_prompt))
