#!/usr/bin/env python3
"""The templates that tblock makes itself: of a model file's entry `chat`, against what the chat formats of tblock's first versions rendered
(tests/data/chat_entries.json), and the built-in ones, against published templates in $TBLOCK_TEST_DATA. Prints "ok NAME", "FAIL NAME: why"
or "skip NAME: why". $BUILD/tests/text/jinja_tool answers."""
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
import verdicts  # noqa: E402

RECORDED = json.load(open(ROOT / "tests" / "data" / "chat_entries.json"))
PUBLISHED = testdata.MORE / "chat" / "jinja"
# A built-in template, the published one of its family, and the system texts for which they are equal.
FAMILIES = [("alpaca", "ct-alpaca", True), ("chatml", "ct-chatml", True), ("chatml", "Qwen-Qwen2.5-7B-Instruct", "always"),
            ("chatml", "Qwen-Qwen3-0.6B", True), ("gemma", "google-gemma-2-2b-it", True), ("gemma3", "google-gemma-2-2b-it", False),
            ("llama2", "ct-llama-2-chat", True), ("llama3", "ct-llama-3-instruct", True),
            ("mistral-v3-tekken", "mistralai-Mistral-Nemo-Instruct-2407", True), ("phi-3", "microsoft-Phi-3.5-mini-instruct", True),
            ("vicuna", "ct-vicuna", True), ("zephyr", "ct-zephyr", True)]
tool = subprocess.Popen([str(BUILD / "tests/text/jinja_tool")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(conversation, opening=True, bos="<s>", eos="</s>", given=None, **what):
    messages = [m if isinstance(m, dict) else {"role": m[0], "content": m[1]} for m in conversation]
    request = dict(what, given=dict({"messages": messages, "add_generation_prompt": opening}, **given or {}), own={"bos_token": bos, "eos_token": eos})
    tool.stdin.write(json.dumps(request) + "\n")
    tool.stdin.flush()
    return json.loads(tool.stdout.readline())


def pieces(answer):
    """The text, cut where its marks change: the template's, a message's, the template's, ... None: refused."""
    if "error" in answer:
        return None
    cut, mark = [b""], "1"
    for byte, m in zip(answer["text"].encode(), answer["mark"]):
        if m != mark:
            cut.append(b"")
            mark = m
        cut[-1] += bytes([byte])
    return [p.decode() for p in cut]


def digest(p):
    return "-" if p is None else hashlib.sha256(json.dumps(p).encode()).hexdigest()[:8]


def entries_render_as_they_did():
    for e in RECORDED["entries"]:
        entry, name = json.dumps(e["entry"]), e["entry"].get("name")
        for i, expected in e["whole"].items():
            found = pieces(ask(RECORDED["conversations"][int(i)], entry=entry))
            verdicts.need(found == expected, "%s: expected %r, found %r" % (name, expected, found))
        for opening, digests in zip((True, False), e["digests"]):
            for conversation, expected in zip(RECORDED["conversations"], digests.split()):
                answer = ask(conversation, opening, entry=entry)
                verdicts.need(digest(pieces(answer)) == expected, "%s: %s, opening %s: found %s" % (name, conversation, opening, answer))


def entries_refuse_what_they_have_no_place_for():
    plain = {"version": 1, "name": "a 'b' \"c\"", "user": "{content}", "assistant": "{content}", "open": ""}
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
    for entry, conversation, given, word in [
            (plain, [("system", "s"), ("user", "q")], {}, "no place for a system text"),
            (plain, [], {}, "expected a message of the user"),
            (plain, [("user", "q")], {"tools": [{"type": "function"}]}, "no place for tools"),
            (plain, [("user", "q"), call], {}, "no place for tool calls"),
            (plain, [("user", "q"), ("tool", "4")], {}, "expected turns of user and assistant"),
            (plain, [("user", [{"type": "text", "text": "q"}])], {}, "content of a message as one text"),
            (plain, [{"role": "user"}], {}, "content of a message as one text"),
            (dict(plain, system="{system}"), [("system", None), ("user", "q")], {}, "system text as one text"),
            (dict(plain, alternate=True), [("user", "q"), ("user", "r")], {}, "roles must alternate"),
            (dict(plain, colour="red"), [("user", "q")], {}, "colour: unknown key")]:
        error = ask(conversation, given=given, entry=json.dumps(entry)).get("error", "none")
        verdicts.need(word in error and ("a 'b' \"c\"" in error or "colour" in error), "expected %r, found %s" % (word, error))


def a_large_entry_makes_a_template_that_runs():
    entry = {"version": 1, "begin": "{bos}x" * 5000, "user": "{trim}" + "\"{content}" + "{eos}'" * 3000 + "{/trim}", "assistant": "{content}", "open": ""}
    found = ask([("user", "q")], entry=json.dumps(entry)).get("text")
    verdicts.need(found == "<s>x" * 5000 + "\"q" + "</s>'" * 3000, "found %.200s" % found)


def builtins_render_as_the_entries_of_their_names():
    """But that phi-3 leaves out an empty system text and closes with eos_token, as the published one."""
    entries = {e["entry"].get("name"): e for e in RECORDED["entries"]}
    for name in ask([], builtin=None)["names"]:
        for opening, digests in zip((True, False), entries[name]["digests"]):
            for conversation, expected in zip(RECORDED["conversations"], digests.split()):
                if expected == "-" or (name == "phi-3" and (not opening or ("system", "") in map(tuple, conversation))):
                    continue
                answer = ask(conversation, opening, builtin=name)
                verdicts.need(digest(pieces(answer)) == expected, "%s: %s, opening %s: found %s" % (name, conversation, opening, answer))


def builtins_refuse_what_they_have_no_place_for():
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
    for name in ask([], builtin=None)["names"]:
        for conversation, given, word in [([("user", "q")], {"tools": [{"type": "function"}]}, "no place for tools"),
                                          ([("user", "q"), call], {}, "no place for tool calls"),
                                          ([("user", "q"), ("tool", "4")], {}, "no place for roles"),
                                          ([("user", [{"type": "text", "text": "q"}])], {}, "as one text")]:
            error = ask(conversation, given=given, builtin=name).get("error", "none")
            verdicts.need(word in error, "%s: expected %r, found %s" % (name, word, error))
    for name in ("gemma", "mistral"):
        verdicts.need("no place for a system text" in ask([("system", "s"), ("user", "q")], builtin=name).get("error", ""), name)
    for name in ("gemma", "gemma3", "llama2", "mistral", "mistral-v3", "mistral-v3-tekken"):
        verdicts.need("roles must alternate" in ask([("user", "q"), ("user", "r")], builtin=name).get("error", ""), name)


def builtins_render_as_published_templates():
    """For plain conversations. The files that are laid out for readers are taken without their line breaks, as they are meant."""
    if not PUBLISHED.is_dir():
        raise verdicts.Skip("no data")
    turns = [("user", "q1"), ("assistant", "a\n\nb"), ("user", "caf\u00e9 {{ x }}"), ("assistant", "<s>"), ("user", "r")]
    for name, family, system in FAMILIES:
        template = open(PUBLISHED / (family + ".jinja"), newline="").read()
        if family.startswith("ct-"):
            template = "".join(line.strip() for line in template.splitlines())
        for n in (1, 3, 5):
            for head in ([], [("system", "Be brief.")]):
                if head and not system or not head and system == "always":
                    continue
                for opening in (True, False):
                    bos = "" if name == "chatml" else "<s>"
                    ours, theirs = (ask(head + turns[:n], opening, bos=bos, **t) for t in ({"builtin": name}, {"template": template}))
                    verdicts.need(pieces(ours) == pieces(theirs), "%s: %d, %s: expected %s, found %s" % (name, n, head, theirs, ours))


failed = [verdicts.attempt(claim.__name__, claim) for claim in (
    entries_render_as_they_did, entries_refuse_what_they_have_no_place_for, a_large_entry_makes_a_template_that_runs,
    builtins_render_as_the_entries_of_their_names, builtins_refuse_what_they_have_no_place_for, builtins_render_as_published_templates)]
sys.exit(any(failed))
