#!/usr/bin/env python3
"""Answers: what a template writes of reasoning and calls is read back from its own renderings, whole, byte by byte, and cut after each byte.
$BUILD/tests/text/answer_tool reads, jinja_tool renders; the templates are those of answer_templates.py and of $TBLOCK_TEST_DATA."""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build/release")
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "text")]
from answer_templates import TEMPLATES  # noqa: E402
from test_jinja import CHAT, OWN, Tool, templates  # noqa: E402
from verdicts import Failure, Skip, attempt, need, option_only  # noqa: E402


def tool(name, **properties):
    return {"type": "function", "function": {"name": name, "description": "What it does.", "parameters": {
        "type": "object", "properties": {k: {"type": v, "description": "it"} for k, v in properties.items()}, "required": []}}}


TOOLS = [tool("get_weather", city="string", days="integer"), tool("write", path="string", text="string", lines="array", options="object",
                                                                 deep="boolean", zero="string")]
USER = {"role": "user", "content": "Go on."}
WEATHER = ("get_weather", {"city": "Köln", "days": 3})
WRITE = ("write", {"lines": [1, 2.5, None, "x"], "options": {"a": {"b": [True, "y, z"]}}, "path": "/tmp/a b", "zero": "5"})
TEXT = ("write", {"text": "  if a < b && \"c\" == '\\n':\n\treturn {\"k\": [1]}\n\n<x>é</x>", "deep": False})
NOTHING = ("write", {})
# special tokens, as a vocabulary would have them
SPECIAL = re.compile(r"<[|｜][^<>\s]*?[|｜]>|<\|[a-z_]+>|<[a-z_]+\|>|\[/?[A-Z_]+\]|</?tool_call>|</?think>|</s>")


class Reader(Tool):
    def __init__(self):
        self.process = subprocess.Popen([str(BUILD / "tests/text/answer_tool")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self, template, answer, specials=None, tools=TOOLS, cut=False, args=None):
        request = {"template": template, "own": OWN, "has_tools": bool(tools), "tools": tools, "answer": answer, "cut": cut, "args": args}
        if specials is not None:
            request["specials"] = specials
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def message(content="", reasoning=None, key=None, calls=(), text=False, no_content=""):
    m = {"role": "assistant", "content": content or no_content}
    if reasoning:
        m[key] = reasoning
    if calls:
        m["tool_calls"] = [{"id": "call%05d" % i, "type": "function",
                            "function": {"name": n, "arguments": json.dumps(a) if text else a}} for i, (n, a) in enumerate(calls)]
    return m


def rendered(jinja, template, m, **own):
    """What the model writes for this message; None: the template cannot say it behind its prompt."""
    given = {"messages": [USER], "tools": TOOLS, "add_generation_prompt": False}
    prompt = jinja.ask(template, {**given, "add_generation_prompt": True}, **OWN).get("text")
    answer = jinja.ask(template, {**given, "messages": [USER, m]}, **OWN).get("text")
    if prompt is None or answer is None or not answer.startswith(prompt):
        return None
    return answer[len(prompt):]


def summary(parts):
    """(content, reasoning, [(name, arguments)])"""
    content, reasoning, calls = "", "", []
    for kind, call, text in parts:
        if kind == "content":
            content += text
        elif kind == "reasoning":
            reasoning += text
        elif kind == "call":
            need(call == len(calls), "calls are not numbered: %r" % parts)
            calls.append([text, ""])
        elif kind == "arguments":
            calls[call][1] += text
    return content.strip(), reasoning, calls


def loads(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def check(reader, name, template, answer, expected, cut):
    """expected: (content, reasoning, calls) of the answer, read as bytes and with special tokens."""
    for specials in (None, sorted(set(SPECIAL.findall(template + answer)))):
        r = reader.read(template, answer, specials, cut=cut)
        for way in ("whole", "bytes"):
            content, reasoning, calls = summary(r[way])
            found = (content, reasoning, [(n, loads(a)) for n, a in calls])
            need(found == expected, "%s, %s, specials %s: %r: expected %r, found %r" % (name, way, specials, answer, expected, found))
        full = summary(r["whole"])
        for parts in r["cuts"]:
            _, reasoning, calls = summary(parts)
            need([c[0] for c in calls] == [c[0] for c in full[2]][:len(calls)], "%s: cut: %r" % (name, parts))
            need(all(a[1] == b[1] for a, b in zip(calls[:-1], full[2])), "%s: cut: %r" % (name, parts))
            need(reasoning.startswith(full[1]) or full[1].startswith(re.sub(r"\s*[\[<].{0,40}$", "", reasoning, flags=re.S).rstrip()),
                 "%s: cut: %r" % (name, parts))


def said(content="", reasoning="", calls=()):
    return (content, reasoning, [(n, a) for n, a in calls])


def ours_round_trip(name, cut):
    t, jinja, reader, n = TEMPLATES[name], Tool(), Reader(), 0
    key, most = t["reasoning"], t["calls"]
    facts = reader.read(t["template"], "")
    need(facts["calls"] == (most > 0) and facts["key"] == (key or "") and facts["text_arguments"] == t["text"], facts)
    variants = [([], "Plain <b>text</b>.\n\nTwo lines."), ([], "A <thing> [TOOL"), ([WEATHER], ""), ([WRITE], ""), ([TEXT], ""), ([NOTHING], ""),
                ([WEATHER], "I look."), ([WEATHER, WRITE], ""), ([NOTHING, TEXT, WEATHER], ""), ([WEATHER, WEATHER], "Both.\n\nNow:")]
    for calls, content in variants:
        if len(calls) > most or (calls and content and not t["content"]):
            continue
        for reasoning in ("", "Let me see.\n\nYes <x>."):
            if reasoning and not key:
                continue
            if name == "command_r" and reasoning and not calls:
                continue
            m = message(content, reasoning, key, calls, t["text"])
            answer = rendered(jinja, t["template"], m)
            need(answer is not None or name == "deepseek_r1", "%s: not rendered: %r" % (name, m))
            if answer is None:  # the prompt opens reasoning that the template never shows
                return
            ids = [("call%05d" % i if name == "id_only" else c, a) for i, (c, a) in enumerate(calls)]
            check(reader, name, t["template"], answer, said(content, reasoning, ids), cut)
            n += 1
    need(n >= (2 if not most else 4), "%d answers" % n)


def published_round_trip():
    if not CHAT.is_dir():
        raise Skip("no data")
    jinja, reader, found = Tool(), Reader(), {}
    for name, template in templates():
        facts = reader.read(template, "")
        found[name] = facts["calls"], facts["reasoning"]
        for calls in ([WEATHER], [WRITE], [TEXT], [WEATHER, WRITE]) if facts["calls"] else ():
            for no_content in ("", None):
                m = message("", None, None, calls, facts["text_arguments"], no_content)
                answer = rendered(jinja, template, m)
                if answer and calls[0][0] in answer and calls[-1][0] in answer and "None" not in answer:
                    check(reader, name, template, answer, said("", "", calls), False)
        for content in ("Plain *text*.", "One.\n\nTwo: 3 < 4."):
            answer = rendered(jinja, template, message(content))
            if answer:
                check(reader, name, template, answer, said(content), False)
        if facts["key"]:
            answer = rendered(jinja, template, message("C.", "Let me see.", facts["key"]))
            if answer:
                check(reader, name, template, answer, said("C.", "Let me see."), False)
    for name in ("Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct",
                 "mistralai-Mistral-Nemo-Instruct-2407", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B"):
        need(found[name + ".jinja"][0], "%s: no calls" % name)
    need(found["Qwen-Qwen3-0.6B.jinja"][1] and found["deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja"][1], "no reasoning")


def read_as(reader, name, answer, expected, **more):
    r = reader.read(TEMPLATES[name]["template"], answer, **more)
    for way in ("whole", "bytes"):
        content, reasoning, calls = summary(r[way])
        found = (content, reasoning, [(n, loads(a)) for n, a in calls])
        need(found == expected, "%s: %r: expected %r, found %r" % (name, answer, expected, found))


def what_models_write_beside_the_template():
    """Other white space, channels in another order, reasoning that the prompt opened or that never ends, calls without their end."""
    r, w = Reader(), [WEATHER]
    args = json.dumps(WEATHER[1], ensure_ascii=False)
    read_as(r, "hermes", '<tool_call>{"name":"get_weather","arguments":%s}</tool_call>' % args, said("", "", w))
    read_as(r, "hermes", 'So:\n\n<tool_call>\n\n{"name": "get_weather",\n "arguments": %s}' % args, said("So:", "", w))
    read_as(r, "hermes", '<tool_call>\n{"arguments": %s, "name": "get_weather"}\n</tool_call>' % args, said("", "", w))
    read_as(r, "hermes", '<tool_call>\n{"name": "get_weather"}\n</tool_call> Done', said("Done", "", [("get_weather", {})]))
    read_as(r, "hermes", '<tool_call> is a marker', said("<tool_call> is a marker"))
    read_as(r, "hermes", '<tool_call>\n{"name": 5}\n</tool_call>', said('<tool_call>\n{"name": 5}\n</tool_call>'))
    read_as(r, "llama31", '{"name": "get_weather", "parameters": %s}' % args, said("", "", w))
    read_as(r, "llama31", '{"city": "Ulm", "name": 4}', said('{"city": "Ulm", "name": 4}'))
    read_as(r, "llama31", '{"name": "Anna", "age": 4}', said('{"name": "Anna", "age": 4}'))
    read_as(r, "llama31", 'As JSON: {"name": "get_weather", "parameters": {}}', said('As JSON: {"name": "get_weather", "parameters": {}}'))
    read_as(r, "deepseek_r1", "I think.\n</think>\n\nSo.", said("So.", "I think."))
    read_as(r, "deepseek_r1", "I think and", said("", "I think and"))
    read_as(r, "qwen3_prompt_thinks", "Hm.\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": %s}" % args, said("", "Hm.", w))
    read_as(r, "qwen3", "No tags at all", said("No tags at all"))
    read_as(r, "qwen3", "Say <think> in text", said("Say <think> in text"))
    channel = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    read_as(r, "gpt_oss", channel + "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>%s<|call|>" % args, said("", "Hm.", w))
    read_as(r, "gpt_oss", channel + " to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>%s" % args, said("", "Hm.", w))
    read_as(r, "gpt_oss", channel + "<|channel|>commentary<|message|>Next.<|end|><|start|>assistant<|channel|>commentary to=functions."
            "get_weather json<|message|>%s<|call|>" % args, said("Next.", "Hm.", w))
    read_as(r, "coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n</parameter>\n<parameter=days>\n3\n</parameter>\n</func",
            said("", "", w))
    read_as(r, "coder", "<tool_call>\n<function=f>\n<parameter=a>\n{\"k\": [1, null]}\n</parameter>\n<parameter=b>\nTrue\n</parameter>\n<parameter=c>"
            "\nfive\n</parameter>\n</function>\n</tool_call>", said("", "", [("f", {"a": {"k": [1, None]}, "b": True, "c": "five"})]))
    read_as(r, "coder", "<tool_call>\n<function=write>\n<parameter=zero>\n5\n</parameter>", said("", "", [("write", {"zero": "5"})]))
    read_as(r, "python", "[get_weather(city='Köln', days=3), f(x={'a': (1, None)}, y=\"a, b)]\")]",
            said("", "", [WEATHER, ("f", {"x": {"a": [1, None]}, "y": "a, b)]"})]))
    read_as(r, "python", "[1] is a source (see there)", said("[1] is a source (see there)"))
    read_as(r, "mistral_v11", "[TOOL_CALLS]get_weather[CALL_ID]abc[ARGS]%s[TOOL_CALLS]f[CALL_ID]d[ARGS]{}" % args,
            said("", "", [WEATHER, ("f", {})]))
    read_as(r, "id_only", "<|call|>functions.get_weather:7<|args|>%s<|done|>" % args, said("", "", w))
    read_as(r, "plain", "<think>x</think><tool_call>{}", said("<think>x</think><tool_call>{}"))


def special_tokens_are_markers_and_words_are_not():
    reader, marker = Reader(), ["<tool_call>", "</tool_call>", "<|im_end|>", "<|other|>"]
    call = '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>'
    t = TEMPLATES["hermes"]["template"]
    found = summary(reader.read(t, call, marker)["bytes"])
    need(found[2] == [["get_weather", "{}"]], found)
    found = summary(reader.read(t, "Hi<|other|> there<|im_end|>", marker)["bytes"])
    need(found == ("Hi there", "", []), found)


def main():
    only = option_only(__doc__).parse_args().only
    failed = 0
    for name in TEMPLATES:
        if only in "round_trip_of_" + name:
            failed += attempt("round_trip_of_" + name, ours_round_trip, name, True)
    for claim in (published_round_trip, what_models_write_beside_the_template, special_tokens_are_markers_and_words_are_not):
        if only in claim.__name__:
            failed += attempt(claim.__name__, claim)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
