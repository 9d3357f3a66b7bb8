#!/usr/bin/env python3
"""Chat templates in the program: what a model's own template makes of conversations, as text and as ids, against recorded renderings; where
answers end; and that nothing in a message becomes a special token. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why".
$BUILD/tests/text/chat_tool answers; recorded renderings lie in $TBLOCK_TEST_DATA, data/chat; tokenizers in the fixtures."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build/release")
TBLOCK = os.environ.get("TBLOCK", str(BUILD / "tblock"))
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "format")]
import testdata  # noqa: E402
import make_gguf  # noqa: E402
from make_gguf import ARRAY, F32, I32, STRING, U32  # noqa: E402,F401
from verdicts import Skip, attempt, need  # noqa: E402

CHAT, TOKENIZERS = testdata.MORE / "chat", testdata.FIXTURES / "tokenizers"
TEMP = None
# Special tokens of the published templates.
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "[INST]", "[/INST]",
           "<|begin_of_text|>", "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>",
           "<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<pad>"]
USER, ANSWER = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "there"}


class Tool:
    def __init__(self):
        self.process = subprocess.Popen([str(BUILD / "tests/text/chat_tool")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, model, messages, **request):
        self.process.stdin.write(json.dumps(dict(request, model=str(model), messages=messages)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


TOOL = Tool()


def data():
    if not CHAT.is_dir():
        raise Skip("no data")


# ---- Models that have nothing but a tokenizer ----

def pieces():
    """The bytes as GPT-2 spells them, two merges, and the special tokens."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(c) for c in plain + list(range(256, 512 - len(plain)))] + ["ab", "abc"] + SPECIAL


def folder_of(name, template=None, **more):
    folder, all_ = TEMP / name, pieces()
    folder.mkdir()
    first = len(all_) - len(SPECIAL)
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [{"id": first + i, "content": t, "special": True} for i, t in enumerate(SPECIAL)],
        "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(all_[:first])}, "merges": ["a b", ["ab", "c"]]}}))
    config = dict({"bos_token": "<s>", "eos_token": "</s>"}, **more)
    (folder / "tokenizer_config.json").write_text(json.dumps(dict(config, chat_template=template) if template is not None else config))
    return folder


def gguf_of(path, template, **more):
    all_ = pieces()
    first = len(all_) - len(SPECIAL)
    keys = {"general.architecture": (STRING, "llama"), "tokenizer.ggml.model": (STRING, "gpt2"), "tokenizer.ggml.pre": (STRING, "gpt-2"),
            "tokenizer.ggml.tokens": (ARRAY, (STRING, all_)), "tokenizer.ggml.merges": (ARRAY, (STRING, ["a b", "ab c"])),
            "tokenizer.ggml.token_type": (ARRAY, (I32, [1] * first + [3] * len(SPECIAL))),
            "tokenizer.ggml.bos_token_id": (U32, first), "tokenizer.ggml.eos_token_id": (U32, first + 1),
            "tokenizer.chat_template": (STRING, template)}
    make_gguf.write(path, dict(keys, **more), {})
    return path


def converted(source, out, *options):
    done = subprocess.run([TBLOCK, "convert", str(source), "-o", str(out), "-q", *options], capture_output=True, text=True)
    need(done.returncode == 0, "convert %s: %s" % (source, done.stderr))
    return out


def differs(answer, expected, what):
    """expected: None for an error."""
    found = answer.get("text")
    need(found == expected, "%s: expected %r, found %r" % (what, expected, found if found is not None else answer))


# ---- claims ----

def recorded_renderings_come_from_folder_gguf_and_model_file():
    data()
    forms, n = {}, 0
    for line in open(CHAT / "jinja_rendered.jsonl"):
        case = json.loads(line)
        name = case["template"]
        if name not in forms:
            template = open(CHAT / "jinja" / name, newline="").read()
            folder, gguf = folder_of(name, template), gguf_of(TEMP / (name + ".gguf"), template)
            forms[name] = [folder, gguf, converted(folder, TEMP / (name + ".bin")), converted(gguf, TEMP / (name + ".gguf.bin"))]
        ids = set()
        for model in forms[name]:
            answer = TOOL.ask(model, case["messages"], open=case["add_generation_prompt"])
            differs(answer, case.get("expected_output"), model)
            need(case.get("expected_error", "") in answer.get("error", ""), answer)
            spells = any(t in json.dumps(case["messages"], ensure_ascii=False) for t in SPECIAL)
            need(spells or answer.get("ids") == answer.get("whole"), "%s: ids %s" % (model, answer))
            ids.add(str(answer.get("ids")))
            n += 1
        need(len(ids) == 1, "%s: ids differ" % name)
    need(n == 4 * 140, n)
    path = TEMP / "asked.json"
    for forms in forms.values():
        path.write_text(json.dumps([USER]))
        shown = [subprocess.run([TBLOCK, "chat", str(m), "--messages", str(path), "--show-prompt"], capture_output=True).stdout for m in forms]
        answer = TOOL.ask(forms[0], [USER])
        need(len(set(shown)) == 1 and json.loads(shown[0]) == {k: answer[k] for k in ("text", "ids")}, shown)


def llama_cpps_templates_as_python_renders_them():
    data()
    model = folder_of("plain")
    for case in json.load(open(CHAT / "llama.cpp_chat_cases.json")):
        own = json.dumps({"bos_token": case["bos_token"], "eos_token": case["eos_token"]})
        differs(TOOL.ask(model, case["messages"], chat=case["template"], args=own), case["python_jinja2_output"], case["name"])


# Ollama's own templates, and built-in ones for them; where its text is another than that of transformers, ours is the latter.
OLLAMA = {"alpaca": "alpaca", "chatml": "chatml", "gemma-instruct": "gemma3", "llama2-chat": "llama2", "llama3-instruct": "llama3",
          "mistral-instruct": "mistral-v3", "phi-3": "phi-3", "vicuna": "vicuna", "zephyr": "zephyr",
          "openchat": "openchat"}
OLLAMA_DIFFERS = {"gemma-instruct": "one line end after the system text", "llama2-chat": "an empty system part in each turn",
                  "mistral-instruct": "the system text in the first turn"}


def builtin_templates_render_as_ollama_does_or_as_transformers():
    data()
    model, same, other = folder_of("plain"), 0, {}
    for case in json.load(open(CHAT / "ollama_chat_cases.json")):
        name = case["template"]
        own = json.dumps({"bos_token": "", "eos_token": "" if name == "alpaca" else "</s>"})
        answer = TOOL.ask(model, case["messages"], chat=OLLAMA[name], args=own)
        if answer.get("text") == case["expected_output"]:
            same += 1
            continue
        other[name] = other.get(name, 0) + 1
        need(name in OLLAMA_DIFFERS, "%s: expected %r, found %r" % (name, case["expected_output"], answer))
    print("    %d of 30; others: %s" % (same, "; ".join("%d %s (%s)" % (n, t, OLLAMA_DIFFERS[t]) for t, n in sorted(other.items()))))
    need(same == 25, "%d of 30 are equal" % same)


def answers_end_where_the_templates_say():
    data()
    ends = {"Qwen": "<|im_end|>", "ct-chatml": "<|im_end|>", "meta": "<|eot_id|>", "ct-llama-3": "<|eot_id|>", "google": "<end_of_turn>",
            "microsoft": "<|end|>", "deepseek": "<\uff5cend\u2581of\u2581sentence\uff5c>", "mistral": "</s>", "ct-llama-2": "</s>", "ct-zephyr": "</s>",
            "ct-alpaca": "</s>", "ct-vicuna": "</s>"}
    for path in sorted((CHAT / "jinja").glob("*.jinja")):
        answer = TOOL.ask(folder_of("e" + path.name, open(path, newline="").read()), [USER])
        expected = [pieces().index(t) for name, t in ends.items() if path.name.startswith(name)]
        need(answer["stop"] == expected, "%s: expected %s, found %s" % (path.name, expected, answer))
        need(not answer["stop_texts"], "%s: %s" % (path.name, answer))


def habits_are_found_by_rendering():
    model = folder_of("habits")
    asked = "{% for m in messages %}{{ m.role ~ ': ' ~ m.content ~ E }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"
    for template, stop, texts, prefix, system in (
            (asked.replace("E", "'\n'"), [], ["\nuser:"], " ", 0), (asked.replace("E", "'<|end|>\n'"), [pieces().index("<|end|>")], [], " ", 0),
            (asked.replace("m.role", "''").replace("E", "'\n'").replace("': '", "''").replace("assistant:", ""), [], [], "", 0),
            ("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + asked.replace("E", "''"), [], ["user:"], " ", 2),
            ("{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}", [], [], "", 1),
            ("{{ messages[3].content }}", [], [], "", 0),                   # shows no answer
            ("{{ raise_exception('never') }}", [], [], "", 0),
            # parts of an answer: what ends one of them ends no answer
            ("{% for m in messages %}<|im_start|>{{ m.role }}{{ '<|user|>' if m.role == 'assistant' }}{{ m.content }}<|end|>{% endfor %}"
             "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}", [], [], "", 0)):
        answer = TOOL.ask(model, [USER, ANSWER, USER, ANSWER], chat=template)
        if "never" in template:
            need("never" in answer["error"], answer)
            continue
        found = (answer["stop"], answer["stop_texts"], answer["prefix"], answer["system"])
        need(found == (stop, texts, prefix, system), "%s: expected %s, found %s" % (template, (stop, texts, prefix, system), found))


def templates_see_what_transformers_passes():
    model = folder_of("seen", pad_token=None, unk_token="", sep_token={"content": "<pad>"})
    for template, expected, request in (
            ("{{ bos_token ~ eos_token ~ sep_token }}|{{ unk_token is defined }}{{ pad_token is defined }}", "<s></s><pad>|TrueFalse", {}),
            ("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ strftime_now is defined }}", "TrueTrueTrueFalse", {}),
            ("{{ tools[0].a }}{{ x }}{{ documents }}{{ bos_token }}", "1[2]dy", {"tools": '[{"a": 1}]', "args": '{"x": [2], "documents": "d", "bos_token": "y"}'}),
            ("{{ tools }}", "t", {"args": '{"tools": "t"}'}), ("{{ strftime_now('%d %B %Y') }}", "05 March 2025", {"date": "2025-03-05"})):
        differs(TOOL.ask(model, [USER], chat=template, **request), expected, template)
    shown = "{% for t in [bos_token, image_token, sound_token, number_token, _token, voice] %}{{ t }}|{% endfor %}"
    added = {"__type": "AddedToken", "content": "]"}
    for i, (settings, expected) in enumerate((
            ({"image_token": "[", "sound_token": added, "number_token": 5, "_token": "b", "voice": "x"}, "<s>|[|]||b||"),
            ({"image_token": "[", "sound_token": {"content": "x"}, "extra_special_tokens": {"image_token": "v", "voice": added}}, "<s>|v||||]|"),
            ({"extra_special_tokens": {"bos_token": "no"}}, "no||||||"), ({"extra_special_tokens": ["<pad>"]}, "<s>||||||"),
            ({"model_specific_special_tokens": {"image_token": "["}}, "<s>|[|||||"),
            ({"model_specific_special_tokens": {"image_token": "["}, "sound_token": "]"}, "<s>||]||||"))):
        own = folder_of("own%d" % i, shown, **settings)
        for model in (own, converted(own, TEMP / ("own%d.bin" % i))):
            differs(TOOL.ask(model, [USER]), expected, settings)
    model = TEMP / "seen"
    for message, expected in (
            ({"content": None, "x": 1}, ["role", "x"]), ({"reasoning": "r"}, ["thinking", "role", "reasoning", "reasoning_content"]),
            ({"thinking": "t", "content": "c"}, ["thinking", "role", "content", "reasoning_content"])):
        answer = TOOL.ask(model, [dict({"role": "assistant"}, **message)], chat="{{ messages[0] | list | join(',') }}")
        differs(answer, ",".join(expected), message)
    for wrong in ({"args": "[]"}, {"args": "{"}, {"args": '{"messages": []}'}, {"tools": "{}"}, {"tools": "[1]"}, {"date": "26 July"}, {"date": "2024-13-01"}):
        need("expected" in TOOL.ask(model, [USER], chat="{{ 1 }}", **wrong).get("error", ""), wrong)


def null_is_dropped_unless_a_template_asks_for_it():
    """transformers from 5.23 on drops keys with null, up to 5.22 it passed them: a template that fails without is asked again with them."""
    model = folder_of("null")
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    talk = [USER, {"role": "assistant", "content": None, "tool_calls": [call, call]}, {"role": "tool", "content": "5"}]
    asks = ("{% for m in messages %}{{ m.role }}:{% if m['content'] is none %}{% for c in m['tool_calls'] %}<{{ c.function.name }}>{% endfor %}"
            "{% else %}{{ '' + m['content'] }}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}")
    told = "user:Hi<|end|>assistant:<f><f><|end|>tool:5<|end|>assistant:"
    for chat, expected in (
            (asks, told), (asks.replace("'' + ", ""), told.replace("<f><f>", "")),              # this one does not fail
            ("{{ messages[1] | list | join(',') }}", "role,tool_calls"),
            ("{{ messages[1].content is none }}{{ '' + (messages[1].content or '') }}", "False"),
            ("{{ messages[1].content + '' if messages[1].content is not none else messages[1] | list | join(',') }}", "role,content,tool_calls")):
        differs(TOOL.ask(model, talk, chat=chat), expected, chat)
    thought = [{"role": "assistant", "content": None, "thinking": "t", "reasoning_content": None}]
    ask = "{{ messages[0].content is none or raise_exception('no') }} {{ messages[0].items() | list }}"
    differs(TOOL.ask(model, thought, chat=ask), "True [('thinking', 't'), ('role', 'assistant'), ('content', None), ('reasoning_content', 't')]", thought)
    both = "{{ raise_exception('null' if messages[1].content is none else 'absent') }}"
    need(TOOL.ask(model, talk, chat=both)["error"].endswith("absent"), "the first error is the template's")
    need("error" in TOOL.ask(model, [USER, {"role": "assistant"}], chat=asks), "what the message does not say is not null")
    # The same by the program, and an answer keeps its ids.
    (TEMP / "asks.jinja").write_text(asks)
    (TEMP / "talk.json").write_text(json.dumps(talk))
    shown = subprocess.run([TBLOCK, "chat", str(model), "--chat-format", str(TEMP / "asks.jinja"), "--messages", str(TEMP / "talk.json"),
                            "--show-prompt"], capture_output=True)
    need(shown.returncode == 0 and json.loads(shown.stdout)["text"] == told, shown)
    abc = [USER, dict(talk[1], tool_calls=[{"function": {"name": "abc"}}])]
    spelled = [pieces().index(c) for c in "<abc>"]
    for ids in (spelled, None):
        answer = TOOL.ask(model, abc, chat=asks, ids=[None, ids], open=False)
        need((answer["ids"] == answer["whole"]) == (ids is None), answer)
    data()
    published = open(CHAT / "jinja" / "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja", newline="").read()
    text = TOOL.ask(model, talk, chat=published).get("text", "")
    need("calls\u2581begin" in text and "<\uff5ctool\u2581sep\uff5c>f\n```json\n{}\n```" in text, text)


def named_templates_are_chosen_as_transformers_chooses():
    both = [{"name": "default", "template": "{{ 'plain' }}"}, {"name": "tool_use", "template": "{{ 'tools' }}"}, {"name": "rag", "template": "{{ 'rag' }}"}]
    gguf = gguf_of(TEMP / "named.gguf", "{{ 'plain' }}", **{"tokenizer.chat_template.tool_use": (STRING, "{{ 'tools' }}")})
    files = folder_of("files", "{{ 'unused' }}")
    (files / "chat_template.jinja").write_text("{{ 'plain' }}")
    (files / "additional_chat_templates").mkdir()
    (files / "additional_chat_templates" / "tool_use.jinja").write_text("{{ 'tools' }}")
    for source in (folder_of("named", both), gguf, files):
        for model in (source, converted(source, TEMP / (source.name + ".bin"))):
            differs(TOOL.ask(model, [USER]), "plain", model)
            differs(TOOL.ask(model, [USER], tools="[]"), "tools", model)
    only = folder_of("only", both[1:])
    differs(TOOL.ask(only, [USER], tools="[]"), "tools", only)
    need("no chat template without tools" in TOOL.ask(only, [USER])["error"], "a template from nowhere")


def an_old_entry_still_works():
    """A model file of tblock's first versions: its entry is a template, unless there is one."""
    body = converted(folder_of("old", "{{ 'a template' }}"), TEMP / "new.bin").read_bytes()
    n = int.from_bytes(body[:8], "little")
    entry = {"version": 1, "name": "mine", "begin": "{bos}", "user": "<|user|>{content}", "assistant": "A{content}", "open": "A", "stop": ["<|end|>", "U"]}
    for key in ("chat_template", "chat_template_tools"):
        header = json.loads(body[8:8 + n])
        meta = header["__metadata__"]
        meta.update({key: meta.pop("chat_template"), "chat": json.dumps(entry)})
        if key != "chat_template":
            del meta[key]
        text = json.dumps(header).encode()
        text += b" " * (-(8 + len(text)) % 4096)
        model = TEMP / (key + ".bin")
        model.write_bytes(len(text).to_bytes(8, "little") + text + body[8 + n:])
        differs(TOOL.ask(model, [USER]), "a template" if key == "chat_template" else "<s><|user|>HiA", key)
    answer = TOOL.ask(model, [USER])
    need(answer["stop"] == [pieces().index("<|end|>")] and answer["stop_texts"] == ["U"], answer)
    shown = subprocess.run([TBLOCK, "info", str(model)], capture_output=True, text=True).stdout
    need("an entry chat" in shown, shown)


def the_script_stores_what_the_program_does():
    """Where a template stands, and the same entries by tools/convert.py."""
    other = folder_of("other", {"no": "template"})
    (other / "chat_template.json").write_text(json.dumps({"chat_template": "{{ 'a processor' }}"}))
    differs(TOOL.ask(other, [USER]), "a processor", other)
    folder = TEMP / "model"
    shutil.copytree(ROOT / "tests" / "data" / "models" / "llama3-e2e", folder)
    (folder / "chat_template.jinja").write_text("{{ 'x' * 100000 }}{# " + "long " * 40000 + "#}")
    metas = []
    for program in ([sys.executable, str(ROOT / "tools" / "convert.py")], [TBLOCK, "convert"]):
        out = TEMP / "out.bin"
        done = subprocess.run([*program, str(folder), "-o", str(out), "-q"], capture_output=True, text=True, env=dict(os.environ, TBLOCK=TBLOCK))
        need(done.returncode == 0 and not done.stderr, done.stderr)
        body = out.read_bytes()
        metas.append(json.loads(body[8:8 + int.from_bytes(body[:8], "little")])["__metadata__"])
    need(metas[0] == metas[1], "%s: %s" % tuple(sorted(m) for m in metas))
    need(len(metas[0]["chat_template"]) > 200000 and "bos_token" in json.loads(metas[0]["special_tokens"]), sorted(metas[0]))


# ---- ids ----

ORDINARY = [{"role": "user", "content": "Hello, how are you?"}, {"role": "assistant", "content": " I am fine.  \n"},
            {"role": "user", "content": "caf\u00e9 \U0001f600\n\n  x = {1}  "}]


def tokenizers():
    """Not single-word, whose special tokens are ordinary letters: what stands beside them decides, in the content as well."""
    return sorted(folder for folder in TOKENIZERS.iterdir() if folder.name != "single-word")


def special_of(folder):
    path = folder / "tokenizer.json"
    return [t for t in json.load(open(path)).get("added_tokens", []) if t.get("special")] if path.exists() else []


def quoted(text):
    """As a string of Jinja; a line end would do as it is."""
    return json.dumps(text, ensure_ascii=False)


def model_of(folder):
    out = TEMP / (folder.name + ".bin")
    if not out.exists():
        converted(folder, out, *(["--pattern", "llama3"] if folder.name == "llama3-tiktoken" else []))
    return out


def ids_are_those_of_the_whole_text():
    formats = ["alpaca", "chatml", "gemma3", "llama2", "llama3", "mistral-v3", "vicuna", "phi-3", "zephyr"]
    n = 0
    for folder in tokenizers():
        special = [t["content"] for t in special_of(folder)] or ["<s>", "</s>"]
        a, b = quoted(special[0]), quoted(special[-1])
        own = "{%% for m in messages %%}{{ %s ~ m.role ~ '\\n' ~ m.content ~ %s ~ ' ' }}{%% endfor %%}{{ %s }}" % (a, b, a)
        for chat in formats + [own]:
            for messages in (ORDINARY, [{"role": "user", "content": "a b"}], [{"role": "system", "content": "Be brief. "}] + ORDINARY):
                answer = TOOL.ask(model_of(folder), messages, chat=chat)
                n += 1
                need("no place for a system" in answer.get("error", "") or "error" not in answer and answer["ids"] == answer["whole"],
                     "%s, %s: %s" % (folder.name, chat, answer))
    print("    %d conversations" % n)


def special_tokens_in_messages_stay_text():
    n = 0
    for folder in tokenizers():
        for t in special_of(folder)[:40]:
            text, model = t["content"], model_of(folder)
            plain = TOOL.ask(model, [{"role": "user", "content": "say it"}], chat="vicuna")["ids"]
            for content in (text, "a%sb" % text, text * 3, "x" + text[:-1]):
                ids = TOOL.ask(model, [{"role": "user", "content": content}], chat="vicuna").get("ids", [t["id"]])
                n += 1
                need(ids.count(t["id"]) <= plain.count(t["id"]), "%s: %r gives %s" % (folder.name, content, ids))
            # half of it in the content, half in the template
            form = "{{ %s ~ messages[0].content ~ %s }}" % (quoted(text[:2]), quoted(text[-1:]))
            ids = TOOL.ask(model, [{"role": "user", "content": text[2:-1]}], chat=form).get("ids", [t["id"]])
            need(len(text) <= 3 or t["id"] not in ids, "%s: %r is put together from content and template" % (folder.name, text))
            # and as a part of the template it counts
            ids = TOOL.ask(model, [{"role": "user", "content": "hi"}], chat="u{{ messages[0].content ~ %s }}" % quoted(text)).get("ids", [])
            need(t["id"] in ids, "%s: %r in the template gives %s" % (folder.name, text, ids))
    print("    %d contents" % n)


def sampled_replies_keep_their_tokens():
    model = folder_of("drawn")
    letters = [pieces().index(c) for c in "abc"]   # "abc" is one token
    end, form = pieces().index("<|end|>"), "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}"
    talk = [USER, {"role": "assistant", "content": "abc"}, USER]
    def kept(messages=talk, chat=form, sampled=letters):
        answer = TOOL.ask(model, messages, chat=chat, ids=[None, sampled, None])
        need("ids" in answer, answer)
        ids, at = answer["ids"], answer["ids"].index(end) + 1
        need(ids[at:at + len(sampled) + 1] == sampled + [end] or ids == answer["whole"], answer)
        return ids[at:at + len(sampled)] == sampled and ids != answer["whole"]
    need(kept(), "the template puts the answer back where it was drawn")
    need(not kept([USER, {"role": "assistant", "content": "Abc"}, USER]), "an edited answer keeps its tokens")
    need(not kept(chat=form.replace("m.content", "m.content ~ ' '")), "what goes on without a special token keeps its tokens")
    need(not kept(chat=form.replace("m.content }}", "'c' if m.role == 'assistant' and loop.length > 2 else m.content }}")), "the template drops it")
    shown = "{% for m in messages %}{{ '<think>' ~ m.thinking ~ '</think>' if m.thinking }}{{ m.content }}<|end|>{% endfor %}"
    spelled = [pieces().index(c) for c in "<think>t</think>abc"]
    need(kept([USER, {"role": "assistant", "content": "abc", "thinking": "t"}, USER], shown, spelled), "of more than its content")


def a_tokenizer_that_does_not_find_bos_still_gets_it():
    folder = ROOT / "tests" / "data" / "models" / "llama3-e2e"
    bos = json.load(open(folder / "config.json"))["bos_token_id"]
    for name in ("llama3", "llama2", "vicuna"):
        answer = TOOL.ask(folder, ORDINARY, chat=name)
        need(answer.get("ids", [None])[0] == bos and answer["ids"] == answer["whole"], "%s: %s" % (name, answer))


CLAIMS = [recorded_renderings_come_from_folder_gguf_and_model_file, llama_cpps_templates_as_python_renders_them,
          builtin_templates_render_as_ollama_does_or_as_transformers, answers_end_where_the_templates_say, habits_are_found_by_rendering,
          templates_see_what_transformers_passes, null_is_dropped_unless_a_template_asks_for_it, named_templates_are_chosen_as_transformers_chooses, an_old_entry_still_works, the_script_stores_what_the_program_does,
          ids_are_those_of_the_whole_text, special_tokens_in_messages_stay_text, sampled_replies_keep_their_tokens,
          a_tokenizer_that_does_not_find_bos_still_gets_it]


def main():
    global TEMP
    failed = 0
    for claim in CLAIMS:
        if len(sys.argv) > 1 and claim.__name__ not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            TEMP = pathlib.Path(folder)
            failed += attempt(claim.__name__, claim)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
