#!/usr/bin/env python3
"""Templates: what the interpreter renders against recorded renderings of Jinja2 in transformers' environment. Prints "ok NAME", "FAIL NAME:
why" or "skip NAME: why". $BUILD/tests/text/jinja_tool answers; tests/data/jinja.jsonl (tests/references/record_jinja.py) holds a snippet
for each part of the language, $TBLOCK_TEST_DATA whole templates, of whose renderings jinja_conversations.json has digests."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build/release")
sys.path.insert(0, str(ROOT / "tests"))
import testdata  # noqa: E402
from jinja_conversations import CONVERSATIONS  # noqa: E402

CHAT = testdata.MORE / "chat"
OWN = {"bos_token": "<s>", "eos_token": "</s>"}
failed = 0


def templates():
    """(name, text) of those of other people."""
    for path in sorted((CHAT / "jinja").glob("*.jinja")):
        yield path.name, open(path, newline="").read()
    if CHAT.is_dir():
        for c in json.load(open(CHAT / "llama.cpp_chat_cases.json")):
            yield c["name"], c["template"]
        for c in json.load(open(CHAT / "ollama_chat_cases.json"))[::3]:
            for i, text in enumerate(c["jinja_templates_recognised_as_this"]):
                yield "ollama %s %d" % (c["template"], i), text


def digest(text):
    """Of what a template renders; None: it fails."""
    return "-" if text is None else hashlib.sha256(text.encode()).hexdigest()[:10]


class Tool:
    def __init__(self):
        self.process = subprocess.Popen([str(BUILD / "tests/text/jinja_tool")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, template, given, **own):
        self.process.stdin.write(json.dumps({"template": template, "given": given, "own": own}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def claim(name, wrong):
    """wrong: a list of what differs, the first of which is told."""
    global failed
    failed += bool(wrong)
    print("FAIL %s: %d differ, first: %s" % (name, len(wrong), str(wrong[0])[:900]) if wrong else "ok %s" % name)


def differs(answer, expected, what):
    """expected: None for an error."""
    found = answer.get("text")
    return [] if found == expected else ["%r: expected %r, found %r" % (what, expected, found if found is not None else answer)]


def each_part_of_the_language_renders_as_in_python(tool):
    head, *cases = [json.loads(line) for line in open(ROOT / "tests/data/jinja.jsonl")]
    return [w for c in cases for w in differs(tool.ask(c["template"], head["given"]), c["text"], c["template"])]


def recorded_renderings_of_whole_templates(tool):
    wrong = []
    for line in open(CHAT / "jinja_rendered.jsonl"):
        c = json.loads(line)
        template = open(CHAT / "jinja" / c["template"], newline="").read()
        answer = tool.ask(template, {"messages": c["messages"], "add_generation_prompt": c["add_generation_prompt"]},
                          bos_token=c["bos_token"], eos_token=c["eos_token"])
        wrong += differs(answer, c.get("expected_output"), c["template"])
        wrong += [] if c.get("expected_error", "") in answer.get("error", "") else ["%s: %s" % (c["template"], answer)]
    return wrong


def llama_cpps_templates_as_python_renders_them(tool):
    return [w for c in json.load(open(CHAT / "llama.cpp_chat_cases.json"))
            for w in differs(tool.ask(c["template"], {"messages": c["messages"], "add_generation_prompt": c["add_generation_prompt"]},
                                      bos_token=c["bos_token"], eos_token=c["eos_token"]), c["python_jinja2_output"], c["name"])]


def fifty_conversations_for_each_template(tool):
    recorded = json.load(open(ROOT / "tests/data/jinja_conversations.json"))
    return ["%s: %s: expected %s, found %r" % (name, json.dumps(c)[:200], expected, answer)
            for name, text in templates() for c, expected in zip(CONVERSATIONS, recorded[name].split(), strict=True)
            for answer in [tool.ask(text, c, **OWN)] if digest(answer.get("text")) != expected]


def no_byte_of_a_message_is_marked(tool):
    """A message of letters that no template has: its bytes are data wherever they land."""
    wrong, letters = [], "\u05d0\u05d1\u05d2"
    for path in sorted((CHAT / "jinja").glob("*.jinja")):
        messages = [{"role": "user", "content": letters}, {"role": "assistant", "content": letters * 2}, {"role": "user", "content": letters}]
        answer = tool.ask(path.read_text(), {"messages": messages, "add_generation_prompt": True}, bos_token="<s>", eos_token="</s>")
        text = answer.get("text", "").encode()
        at = [i for i in range(len(text)) if text[i] in b"\xd7\x90\x91\x92"]
        if len(at) < 24 or any(answer["mark"][i] != "0" for i in at):
            wrong.append("%s: %s" % (path.name, answer))
        plain = [i for i in range(len(text)) if i not in at and answer["mark"][i] == "0"]
        if "date_string" not in path.read_text() and len(plain) > 0:
            wrong.append("%s: %r is not the template's" % (path.name, bytes(text[i] for i in plain)))
    return wrong


def main():
    tool = Tool()
    claim("each_part_of_the_language_renders_as_in_python", each_part_of_the_language_renders_as_in_python(tool))
    for case in (recorded_renderings_of_whole_templates, llama_cpps_templates_as_python_renders_them, fifty_conversations_for_each_template,
                 no_byte_of_a_message_is_marked):
        if CHAT.is_dir():
            claim(case.__name__, case(tool))
        else:
            print("skip %s: no data" % case.__name__)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
