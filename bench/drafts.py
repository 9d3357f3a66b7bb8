#!/usr/bin/env python3
"""What drafts gain on real text: acceptance, calls, and the speed beside that without a draft.

    bench/drafts.py MODEL [--type TYPE] [--draft ngram|MODEL ...] [--repeats N] [-n N] [--temp T]

MODEL: one with the chat template of SmolLM2 (`make real`). Each prompt runs without a draft and
with each draft in turn, N times; a ratio is the median of those of neighbouring runs. The texts
must be equal. tok/call is the count beside the time: the same on every machine. `--temp 1.5
--draft-match 1` proposes what is nearly always rejected.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

CODE = '''def area(width, height):
    if width < 0:
        raise ValueError("width must not be negative")
    if height < 0:
        raise ValueError("height must not be negative")
    return width * height
'''
LOG = '''[step 1] tool: list_files {"path": "src"}
[step 1] result: {"files": ["src/main.c", "src/parse.c", "src/print.c"], "status": "ok"}
[step 2] tool: read_file {"path": "src/main.c"}
[step 2] result: {"lines": 120, "status": "ok"}
[step 3] tool: read_file {"path": "src/parse.c"}
[step 3] result: {"lines": 340, "status": "ok"}
[step 4] tool: read_file'''


def chat(question):
    """The question in the model's chat template."""
    return ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n" % question)


PROMPTS = {
    "chat": chat("Explain gravity to a child, and why the moon does not fall down."),
    "story": "She opened the door and saw",
    "code": 'def fibonacci(n):\n    """The n-th Fibonacci number."""\n',
    "edit": chat("Rename the parameter width to w in this code and repeat it whole:\n" + CODE),
    "agent": LOG,
}


def run(a, prompt, draft):
    """The JSON of one run."""
    return json.loads(subprocess.run(
        [a.tblock, "run", a.model, "--type", a.type, "-t", "1", "--temp", a.temp, "-n", str(a.n),
         "--special", "-p", prompt, "--draft", draft, "--draft-match", a.draft_match, "--json"],
        check=True, stdout=subprocess.PIPE).stdout)


def speed(answer):
    """Tokens a second of the decode."""
    return answer["stats"]["decode"]["tok_per_s"]


def measure(a, name, prompt, draft):
    """Prints a row."""
    ratios, plain, with_draft = [], [], []
    for i in range(a.repeats):
        pair = [run(a, prompt, d) for d in (("none", draft) if i % 2 else (draft, "none"))]
        none, drafted = pair if i % 2 else pair[::-1]
        if none["ids"] != drafted["ids"]:
            sys.exit("drafts.py: %s: the draft %s changes the text" % (name, draft))
        plain.append(speed(none))
        with_draft.append(speed(drafted))
        ratios.append(speed(drafted) / speed(none))
    d = drafted["stats"]["draft"]
    print("| %s | %s | %d of %d: %.0f%% | %.2f | %.0f | %.0f | %.2f |" % (
        name, pathlib.Path(draft).name, d["accepted"], d["proposed"], 100 * d["acceptance"],
        (len(drafted["ids"]) - 1) / d["calls"], statistics.median(plain),
        statistics.median(with_draft), statistics.median(ratios)), flush=True)


def main():
    """The table."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("model")
    p.add_argument("--type", default="auto")
    p.add_argument("--draft", action="append")
    p.add_argument("--repeats", type=int, default=7)
    p.add_argument("-n", type=int, default=150)
    p.add_argument("--temp", default="0")
    p.add_argument("--draft-match", default="2")
    p.add_argument("--tblock", default="build/release/tblock")
    a = p.parse_args()
    print("| text | draft | accepted | tok/call | none tok/s | draft tok/s | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, prompt in PROMPTS.items():
        for draft in a.draft or ["ngram"]:
            measure(a, name, prompt, draft)


if __name__ == "__main__":
    main()
