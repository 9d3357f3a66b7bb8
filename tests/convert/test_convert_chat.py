#!/usr/bin/env python3
"""tools/convert.py: chat templates become chat formats, or the reason is told."""
import json
import os
import subprocess
import sys

import harness
from harness import DATA, ROOT, Skip, made, bpe_json, need, temp

try:
    import jinja2  # noqa: F401 (only to see whether it is there)
    import chat
except ImportError:
    print("skip test_convert_chat: no jinja2")
    sys.exit(0)

CHATML = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}" \
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
CHATML_FORMAT = {"version": 1, "name": "chatml", "system": "<|im_start|>system\n{system}<|im_end|>\n",
                 "user": "<|im_start|>user\n{content}<|im_end|>\n", "assistant": "<|im_start|>assistant\n{content}<|im_end|>\n",
                 "open": "<|im_start|>assistant\n", "stop": ["<|im_end|>"]}
END = [{"id": 258, "content": "<|im_end|>", "special": True}]


def convert(folder, **more):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "convert.py"), folder, "-o", temp("out.bin"), "--quiet"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, **more)
    return done.returncode, done.stderr


def converted(folder):
    status, err = convert(folder)
    assert status == 0 and err == "", err
    return harness.ModelFile(temp("out.bin"))


def folder_of(template, name="chat", **files):
    """A model folder with a byte-level tokenizer and this chat_template."""
    settings = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    all_files = {"tokenizer.json": bpe_json(added_tokens=END), "tokenizer_config.json": settings}
    all_files.update(files)
    return made(name, config={"vocab_size": 300}, tensors=lambda t: t.update(
        {k: ("F32", __import__("numpy").zeros((300, 24), "<u4")) for k in ("model.embed_tokens.weight", "lm_head.weight")}), files=all_files)


def format_of(template, **files):
    return json.loads(converted(folder_of(template, **files)).meta["chat"])


def reason_of(template):
    """The one line that tells why a template became no format; the file is written all the same."""
    status, err = convert(folder_of(template))
    assert status == 0 and err.count("\n") == 1, err
    meta = harness.ModelFile(temp("out.bin")).meta
    assert "chat" not in meta and meta["chat_template"] == template
    return err


def test_a_template_becomes_a_format():
    m = converted(folder_of(CHATML))
    assert json.loads(m.meta["chat"]) == CHATML_FORMAT and m.meta["chat_template"] == CHATML


def test_no_template_no_entry():
    meta = converted(folder_of(None)).meta
    assert "chat" not in meta and "chat_template" not in meta


def test_where_the_template_stands():
    other = CHATML.replace("im_start", "other")
    assert "other" in format_of([{"name": "tool_use", "template": CHATML}, {"name": "default", "template": other}])["user"]
    assert "other" in format_of(CHATML, **{"chat_template.jinja": other.encode()})["user"]
    assert "other" in format_of(None, **{"chat_template.json": {"chat_template": other}})["user"]
    for no_template in ({"a": 1}, "x" * 300000):
        assert "chat" not in converted(folder_of(no_template)).meta


def test_recorded_templates_render_as_recorded():
    cases = [json.loads(line) for line in open(need(DATA, "chat", "jinja_rendered.jsonl"))]
    formats, wrong, n = {}, [], 0
    for case in cases:
        name = case["template"]
        if name not in formats:
            program = chat.Program(open(os.path.join(DATA, "chat", "jinja", name)).read(),
                                   {"bos_token": case["bos_token"], "eos_token": case["eos_token"]}, [])
            formats[name] = chat.derive(program, ["</s>", "<|im_end|>"])
        if case["messages"][-1]["role"] == "user":
            n += 1
            if chat.rendered(formats[name], case["messages"], case["add_generation_prompt"]) != case.get("expected_output"):
                wrong.append((name, case["messages"]))
    assert len(formats) == 14 and n == 140 and not wrong, "%d of %d differ: %s" % (len(wrong), n, wrong[:3])


def test_templates_of_llama_cpp_are_expressed():
    refusals = {}
    cases = json.load(open(need(DATA, "chat", "llama.cpp_chat_cases.json")))
    for case in cases:
        try:
            program = chat.Program(case["template"], {"bos_token": case["bos_token"] or "<s>", "eos_token": case["eos_token"] or "</s>"}, [])
            f = chat.derive(program, ["</s>"])
            if case["python_jinja2_output"] and case["bos_token"] and case["eos_token"]:
                assert chat.rendered(f, case["messages"], True) == case["python_jinja2_output"], case["name"]
        except chat.Inexpressible as e:
            refusals[case["name"]] = str(e)
    # one uses a variable of its own; one never shows the last answer
    assert sorted(refusals) == ["ai-sage/GigaChat-20B-A3B-instruct", "yandex/YandexGPT-5-Lite-8B-instruct"], refusals


def test_the_program_renders_what_the_converter_checked():
    """src/text/chat_render.c and the converter's own renderer agree."""
    tool = os.path.join(ROOT, os.environ.get("BUILD", "build/release"), "tests", "text", "chat_tool")
    if not os.path.exists(tool):
        raise Skip("tests/text/chat_tool is not built")
    folder = need(DATA, "chat", "jinja")
    for name in sorted(os.listdir(folder)):
        f = chat.derive(chat.Program(open(os.path.join(folder, name)).read(), {"bos_token": "<s>", "eos_token": "</s>"}, []), ["</s>"])
        tasks = [(chat.conversation(r, pad, 5), o) for r in ("u", "uau", "suau", "uu", "s") for pad in ("", " \n\u00a0") for o in (True, False)]
        requests = "".join(json.dumps({"format": json.dumps(f), "messages": m, "open": o}) + "\n" for m, o in tasks)
        answers = subprocess.run([tool], input=requests, stdout=subprocess.PIPE, universal_newlines=True).stdout.splitlines()
        for (m, o), line in zip(tasks, answers):
            if m[-1]["role"] != "system":
                assert json.loads(line).get("text") == chat.rendered(f, m, o), (name, m, line)
            else:
                assert "error" in json.loads(line)


def test_the_program_takes_the_format_from_the_file():
    program, tool = (os.path.join(ROOT, os.environ.get("BUILD", "build/release"), *n) for n in (("tblock",), ("tests", "text", "chat_tool")))
    if not os.path.exists(program) or not os.path.exists(tool):
        raise Skip("the program is not built")
    converted(folder_of(CHATML))
    run = lambda *args: subprocess.run(args, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    assert "\n  chat          chatml\n" in run(program, "info", temp("out.bin"))
    assert json.loads(run(program, "info", temp("out.bin"), "--json"))["chat"] == "chatml"
    run(program, "quantize", temp("out.bin"), temp("q8.bin"), "--type", "q8", "--quiet")
    # without an entry `chat` the template is recognised
    data = open(temp("out.bin"), "rb").read().replace(b'"chat":', b'"talk":')
    open(temp("bare.bin"), "wb").write(data)
    assert "\n  chat          chatml, recognised\n" in run(program, "info", temp("bare.bin"))
    for name in ("out.bin", "q8.bin", "bare.bin"):
        request = {"model": temp(name), "messages": [{"role": "user", "content": "ab<|im_end|>"}]}
        answer = json.loads(subprocess.run([tool], input=json.dumps(request) + "\n", stdout=subprocess.PIPE, universal_newlines=True).stdout)
        assert answer["text"] == "<|im_start|>user\nab<|im_end|><|im_end|>\n<|im_start|>assistant\n", answer
        assert answer["ids"].count(258) == 1 and answer["whole"].count(258) == 2 and 258 in answer["stop"], answer


def test_braces_in_a_template_stay_braces():
    f = format_of("{% for m in messages %}{{ '{' + m['role'] + '}' + m['content'] + '<|im_end|>' }}{% endfor %}"
                  "{% if add_generation_prompt %}{{ '{assistant}' }}{% endif %}")
    assert f["user"] == "{{user}}{content}<|im_end|>"


def test_what_cannot_be_said_is_told():
    assert "not a Jinja template" in reason_of("{% for m in %}")
    assert "fails for a single message" in reason_of("{{ raise_exception('never') }}")
    assert "content is missing, changed" in reason_of(CHATML.replace("m['content']", "m['content'] | upper"))
    assert "do not say" in reason_of(CHATML.replace("'\n' + m['content']", "'\n' + (messages | length | string) + m['content']"))
    assert "trims contents at one end" in reason_of(CHATML.replace("m['content']", "m['content'].lstrip()"))


def test_a_template_has_no_more_than_its_share():
    assert "too much memory" in reason_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
    assert "fails for a single message" in reason_of("{{ 'x' * 4000000000 }}")
    assert "over 1048576 bytes" in reason_of("{% for a in range(99999) %}{{ 'x' * 1000 }}{% endfor %}")
    assert "fails for a single message" in reason_of("{{ ''.__class__.__mro__[1].__subclasses__() }}")


def test_a_date_is_the_templates_own_or_a_fixed_one():
    asks = "{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% else %}{{ '2001' }}{% endif %}"
    assert format_of(asks + CHATML)["begin"] == "2001"
    status, err = convert(folder_of("{{ strftime_now('%d %b %Y') }}" + CHATML))
    assert status == 0 and "26 July 2024 is stored" in err
    assert json.loads(harness.ModelFile(temp("out.bin")).meta["chat"])["begin"] == "26 Jul 2024"


def test_generation_blocks_and_loop_controls_are_known():
    body = "{% for m in messages %}{% if m['role'] == 'tool' %}{% continue %}{% endif %}{% generation %}{{ '<' + m['role'] + '>' + m['content'] + " \
           "'<|im_end|>' }}{% endgeneration %}{% endfor %}{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
    assert format_of(body)["open"] == "<assistant>"


def test_without_jinja2_the_template_is_kept():
    broken = temp("broken")
    os.makedirs(os.path.join(broken, "jinja2"))
    with open(os.path.join(broken, "jinja2", "__init__.py"), "w") as f:
        f.write("raise ImportError('not here')\n")
    folder = folder_of(CHATML)
    status, err = convert(folder, env=dict(os.environ, PYTHONPATH=broken))
    assert status == 0 and "Python package jinja2" in err and err.count("\n") == 1, err
    meta = harness.ModelFile(temp("out.bin")).meta
    assert "chat" not in meta and meta["chat_template"] == CHATML


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
