#!/usr/bin/env python3
"""Chat formats: what recognised templates and named formats render, against recorded renderings, and the token ids of conversations
against those of the whole text. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why". $BUILD/tests/text/chat_tool answers;
recorded renderings lie in $TBLOCK_TEST_DATA, data/chat; tokenizers in the fixtures."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build/release")
sys.path.insert(0, str(ROOT / "tests"))
import testdata  # noqa: E402

CHAT, TOKENIZERS = testdata.MORE / "chat", testdata.FIXTURES / "tokenizers"
failed = 0

# Laid out for readers, with line breaks that Jinja leaves in the text: refused, with a line that names --chat-format.
REFUSED = {"ct-alpaca.jinja", "ct-chatml.jinja", "ct-llama-2-chat.jinja", "ct-llama-3-instruct.jinja", "ct-vicuna.jinja",
           "ct-zephyr.jinja"}
# Cases with roles that only tools have.
TOOLS = {"ibm-granite/granite-3.x (tool call)", "ibm-granite/granite-4.1 (tool call)"}
# Ollama's own templates, by our names; where its text is another than that of transformers, ours is the latter.
OLLAMA = {"alpaca": "alpaca", "chatml": "chatml", "gemma-instruct": "gemma3", "llama2-chat": "llama2", "llama3-instruct": "llama3",
          "mistral-instruct": "mistral-v3", "openchat": "openchat", "phi-3": "phi-3", "vicuna": "vicuna", "zephyr": "zephyr"}
OLLAMA_DIFFERS = {
    "gemma-instruct": "one line end after the system text",
    "llama2-chat": "an empty system part in each turn", "mistral-instruct": "the system text in the first turn"}


class Tool:
    def __init__(self):
        self.process = subprocess.Popen([str(BUILD / "tests/text/chat_tool")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def claim(name, wrong, note=""):
    """wrong: a list of what differs, the first of which is told."""
    global failed
    failed += bool(wrong)
    print("FAIL %s: %d differ, first: %s" % (name, len(wrong), str(wrong[0])[:600]) if wrong else "ok %s" % name)
    if note:
        print("    " + note)


def differs(answer, expected, what):
    found = answer.get("text")
    return [] if found == expected else ["%s: expected %r, found %r" % (what, expected, found if found is not None else answer)]


def recorded_renderings(tool):
    wrong, same, refused = [], 0, set()
    for line in open(CHAT / "jinja_rendered.jsonl"):
        case = json.loads(line)
        name = case["template"]
        answer = tool.ask(template=(CHAT / "jinja" / name).read_text(), messages=case["messages"], open=case["add_generation_prompt"],
                          bos=case["bos_token"], eos=case["eos_token"])
        if name in REFUSED:
            refused.add(name)
            wrong += [] if "--chat-format" in answer.get("error", "") and not answer["format"] else ["%s is not refused" % name]
        elif "expected_error" in case:
            wrong += [] if "error" in answer else ["%s: expected an error, found %r" % (name, answer["text"])]
            same += 1
        else:
            wrong += differs(answer, case["expected_output"], name)
            same += 1
    claim("templates_recognised_render_as_recorded", wrong, "%d renderings of 8 templates as recorded, %d templates refused" % (same, len(refused)))


def llama_cpp_cases(tool):
    wrong, same = [], 0
    for case in json.load(open(CHAT / "llama.cpp_chat_cases.json")):
        answer = tool.ask(template=case["template"], messages=case["messages"], bos=case["bos_token"], eos=case["eos_token"])
        expected = case["python_jinja2_output"]
        if case["name"] in TOOLS:
            wrong += [] if answer["format"] else ["%s is not recognised" % case["name"]]
        elif expected is None:
            wrong += [] if "error" in answer else ["%s: expected an error, found %r" % (case["name"], answer["text"])]
        else:
            wrong += differs(answer, expected, case["name"])
            same += 1
    claim("cases_of_llama_cpp_render_as_jinja_does", wrong, "%d of 24 as Jinja renders them, 2 that it cannot, 2 with roles of tools" % same)


def ollama_cases(tool):
    wrong, same, other = [], 0, set()
    for case in json.load(open(CHAT / "ollama_chat_cases.json")):
        answer = tool.ask(named=OLLAMA[case["template"]], messages=case["messages"], bos="", eos="" if case["template"] == "alpaca" else "</s>")
        if answer.get("text") == case["expected_output"]:
            same += 1
        elif case["template"] in OLLAMA_DIFFERS:
            other.add(case["template"])
        else:
            wrong += differs(answer, case["expected_output"], case["template"])
    claim("named_formats_render_as_ollama_does_or_as_transformers", wrong,
          "%d of 30; others: %s" % (same, "; ".join("%s (%s)" % (t, OLLAMA_DIFFERS[t]) for t in sorted(other))))


def jinja():
    """The converter's renderer, or None without jinja2."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import jinja2  # noqa: F401 (only to see whether it is there)
        import chat_child
    except ImportError:
        return None
    def render(template, messages, bos, eos):
        program = chat_child.environment(False).from_string(template)
        return chat_child.render(program, {"bos_token": bos, "eos_token": eos}, {"messages": messages, "open": True}).get("text")
    return render


def templates_beside_ollama(tool):
    """24 real templates that the Ollama cases name; recorded nowhere, so Jinja renders them now."""
    render = jinja()
    if not render:
        return print("skip templates_of_the_ollama_cases_render_as_jinja_does: no jinja2")
    templates = {t for case in json.load(open(CHAT / "ollama_chat_cases.json")) for t in case["jinja_templates_recognised_as_this"]}
    texts = (("user", " Hi there"),), (("system", " Sys X "), ("user", " q1 "), ("assistant", " a1\n"), ("user", "q2")), \
        (("user", "q1"), ("assistant", "a1"), ("user", " q2\n"))
    wrong, n = [], 0
    for template in sorted(templates):
        for turns in texts:
            messages = [{"role": r, "content": c} for r, c in turns]
            expected, answer = render(template, messages, "<s>", "</s>"), tool.ask(template=template, messages=messages, bos="<s>", eos="</s>")
            n += 1
            if expected is None:
                wrong += [] if "error" in answer else ["%s: expected an error" % template[:80]]
            else:
                wrong += differs(answer, expected, template[:80])
    claim("templates_of_the_ollama_cases_render_as_jinja_does", wrong, "%d renderings of %d templates" % (n, len(templates)))


# ---- ids ----

ORDINARY = [("user", "Hello, how are you?"), ("assistant", " I am fine.  \n"), ("user", "caf\u00e9 \U0001f600\n\n  x = {1}  ")]


def messages_of(turns):
    return [{"role": r, "content": c} for r, c in turns]


def converted(folder, out, *options):
    done = subprocess.run([sys.executable, str(ROOT / "tools/convert.py"), str(folder), "-o", str(out), "--quiet", *options],
                          capture_output=True, text=True)
    return done.returncode == 0


def own_format(folder):
    """A format of the tokenizer's own special tokens, at all places; None without any."""
    path = folder / "tokenizer.json"
    added = [t["content"] for t in json.load(open(path)).get("added_tokens", []) if t.get("special")] if path.exists() else ["<s>", "</s>"]
    if not added:
        return None
    a, b = (t.replace("{", "{{").replace("}", "}}") for t in (added[0], added[-1]))
    return json.dumps({"version": 1, "begin": a, "system": "%s sys\n{system}%s\n" % (b, a), "user": "%suser\n{content}%s\n" % (a, b),
                       "assistant": "%s {content} %s" % (a, b), "open": a})


def conversations_have_the_ids_of_the_whole(tool, temp):
    wrong, n = [], 0
    formats = ["chatml", "llama2", "llama3", "mistral-v1", "mistral-v3", "vicuna", "alpaca", "gemma3", "phi-3", "deepseek3", "zephyr"]
    for folder in sorted(TOKENIZERS.iterdir()):
        model = temp / (folder.name + ".bin")
        if not converted(folder, model, *(["--pattern", "llama3"] if folder.name == "llama3-tiktoken" else [])) and \
                not converted(folder, model):
            wrong.append("%s is not converted" % folder.name)
            continue
        for name in formats + [f for f in [own_format(folder)] if f]:
            for turns in (ORDINARY, [("user", "a b")], [("system", "Be brief. ")] + ORDINARY):
                answer = tool.ask(model=str(model), chat=name, messages=messages_of(turns))
                n += 1
                if answer.get("ids") != answer.get("whole") or "error" in answer:
                    wrong.append("%s, %s: %s" % (folder.name, name, answer))
    claim("ids_of_ordinary_conversations_are_those_of_the_whole_text", wrong, "%d conversations" % n)


def a_model_with_bos_begins_with_it(tool, temp):
    folder, model = ROOT / "tests" / "data" / "models" / "llama3-e2e", temp / "e2e.bin"
    if not converted(folder, model):
        return claim("a_model_with_bos_begins_with_it", ["convert.py failed"])
    bos = json.load(open(folder / "config.json"))["bos_token_id"]
    wrong = []
    for name in ("llama3", "llama2", "mistral-v1", "vicuna"):
        answer = tool.ask(model=str(model), chat=name, messages=messages_of(ORDINARY))
        if answer.get("ids", [None])[0] != bos or answer["ids"] != answer["whole"]:
            wrong.append("%s: %s" % (name, answer))
    claim("a_model_with_bos_begins_with_it", wrong)


def special_tokens_in_contents_stay_text(tool, temp):
    wrong, n = [], 0
    for folder in sorted(TOKENIZERS.iterdir()):
        model = temp / (folder.name + ".bin")
        tokenizer = folder / "tokenizer.json"
        if not model.exists() or not tokenizer.exists():
            continue
        added = [t for t in json.load(open(tokenizer)).get("added_tokens", []) if t.get("special")]
        for t in added[:40]:
            text = t["content"]
            plain = tool.ask(model=str(model), chat="vicuna", messages=messages_of([("user", "say it")]))["ids"]
            for content in (text, "a%sb" % text, text * 3, "x" + text[:-1]):
                ids = tool.ask(model=str(model), chat="vicuna", messages=messages_of([("user", content)])).get("ids", [t["id"]])
                n += 1
                if ids.count(t["id"]) > plain.count(t["id"]):
                    wrong.append("%s: %r gives %s" % (folder.name, content, ids))
            # half of it in the content, half in the format
            form = json.dumps({"version": 1, "user": text[:2] + "{content}" + text[-1:], "assistant": "{content}", "open": ""})
            ids = tool.ask(model=str(model), chat=form, messages=messages_of([("user", text[2:-1])])).get("ids", [t["id"]])
            if len(text) > 3 and t["id"] in ids:
                wrong.append("%s: %r is put together from content and format" % (folder.name, text))
            # and as a part of the format it counts
            form = json.dumps({"version": 1, "user": "u{content}" + text.replace("{", "{{").replace("}", "}}"), "assistant": "{content}",
                               "open": "o"})
            ids = tool.ask(model=str(model), chat=form, messages=messages_of([("user", "hi")])).get("ids", [])
            if t["id"] not in ids:
                wrong.append("%s: %r in the format gives %s" % (folder.name, text, ids))
    claim("special_tokens_that_contents_spell_stay_text", wrong, "%d contents" % n)


def drawn_answers_keep_their_tokens(tool, temp):
    model = temp / "bpe-llama3.bin"
    if not model.exists():
        return print("skip drawn_answers_keep_their_tokens: no model")
    token = next(t for t in json.load(open(TOKENIZERS / "bpe-llama3" / "tokenizer.json"))["added_tokens"] if t.get("special"))
    end = token["content"]
    form = json.dumps({"version": 1, "user": end + "{content}" + end, "assistant": "{content}" + end, "open": "", "stop": [end]})
    letters = subprocess.run([str(BUILD / "tblock"), "tokenize", str(model), "--jsonl", "-"], input="".join(
        json.dumps({"text": c}) + "\n" for c in "there"), capture_output=True, text=True).stdout.split("\n")
    ids = [i for line in letters if line for i in json.loads(line)["ids"]]
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "there", "ids": ids}, {"role": "user", "content": "so"}]
    answer = tool.ask(model=str(model), chat=form, messages=turns)
    kept = answer["ids"]
    at = kept.index(ids[0], 2)
    wrong = [] if kept[at:at + 5] == ids and kept != answer["whole"] else ["%s in %s" % (ids, answer)]
    turns[1]["content"] = "There"   # edited: the tokens no longer spell it
    answer = tool.ask(model=str(model), chat=form, messages=turns)
    wrong += [] if answer["ids"] == answer["whole"] else ["an edited answer keeps its tokens"]
    wrong += [] if answer["stop"] == [token["id"]] and answer["stop_texts"] == 0 else ["stops: %s" % answer]
    claim("drawn_answers_keep_their_tokens", wrong)


def main():
    tool = Tool()
    if CHAT.is_dir():
        recorded_renderings(tool)
        llama_cpp_cases(tool)
        ollama_cases(tool)
        templates_beside_ollama(tool)
    else:
        print("skip recorded chat renderings: no data")
    if not TOKENIZERS.is_dir():
        print("skip ids of conversations: no data")
        return
    with tempfile.TemporaryDirectory() as folder:
        conversations_have_the_ids_of_the_whole(tool, pathlib.Path(folder))
        a_model_with_bos_begins_with_it(tool, pathlib.Path(folder))
        special_tokens_in_contents_stay_text(tool, pathlib.Path(folder))
        drawn_answers_keep_their_tokens(tool, pathlib.Path(folder))


main()
sys.exit(1 if failed else 0)
