#!/usr/bin/env python3
"""What the program says of each of the 1,112,064 characters, against what the library tokenizers said (tests/data/unicode.json,
recorded by record_unicode.py): which characters a pattern matches, what normal forms and lower case make of them, which ones a word or
a grapheme cluster takes in. $BUILD is the folder of the programs."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / os.environ.get("BUILD", "build/release") / "tests" / "text" / "unicode_tool"
# The patterns that steps of a pre_tokenizer become (src/tokenizer/hf_steps.c).
PUNCTUATION = (r"(?![\x{61D}\x{9FD}-\x{A76}\x{C77}-\x{C84}\x{1B4E}-\x{1B4F}\x{1B7D}-\x{1B7F}\x{2E43}-\x{2E5D}\x{10D6E}-\x{10F89}"
               r"\x{113D4}-\x{1145D}\x{11660}-\x{116B9}\x{1183B}-\x{11FFF}\x{12FF1}-\x{12FF2}\x{16D6D}-\x{16FE2}\x{1E5FF}-\x{1E95F}])"
               r"[!-/:-@\[-`{-~\p{P}\x{166D}\x{111C9}]")
DIGIT = r"[\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}]"   # Rust's is_numeric: \p{N} with that of Unicode 17
# \w of the Rust crate regex: Alphabetic, marks, decimal digits, connectors, joiners
WORD = (r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}"
        r"\x{200C}\x{200D}")
STEPS = {"Digits": DIGIT, "Punctuation": PUNCTUATION, "WhitespaceSplit": r"\s", "Whitespace": "[%s]" % WORD}
TWO_LETTERS = {"130": "130 69 307"}   # the one lower case of two characters, which text/normalize.c adds


def ask(*arguments):
    p = subprocess.run([str(TOOL), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        raise AssertionError(p.stderr.decode().strip())
    return p.stdout.decode()


def row(answer):
    return {"lines": answer.count("\n"), "sha256": hashlib.sha256(answer.encode()).hexdigest()}


def sets(patterns):
    """{pattern: answer}, by one run of the tool."""
    lines, out = ask("set", *patterns).splitlines(keepends=True), {}
    for line in lines:
        if line.rstrip("\n") in patterns and line.rstrip("\n") not in out:
            answer = out[line.rstrip("\n")] = []
        else:
            answer.append(line)
    return {name: "".join(answer) for name, answer in out.items()}


def lower():
    """The tool's simple mapping with the one that is longer."""
    return "".join(TWO_LETTERS.get(line.split()[0], line.rstrip("\n")) + "\n" for line in ask("map", "lower").splitlines())


def compare(name, recorded, found):
    wrong = [key for key in recorded if row(found[key]) != recorded[key]]
    if wrong:
        key = wrong[0]
        print("FAIL %s: %d of %d differ, first %s: expected %d lines, found %d, or others" % (
            name, len(wrong), len(recorded), key, recorded[key]["lines"], row(found[key])["lines"]))
    else:
        print("ok %s (%d answers for every character)" % (name, len(recorded)))
    return not wrong


def main():
    recorded = json.loads((ROOT / "tests/data/unicode.json").read_text())
    of_steps = sets(list(STEPS.values()))
    checks = [
        ("patterns_match_the_characters_that_the_library_matches", recorded["sets"], sets(list(recorded["sets"]))),
        ("steps_split_at_the_characters_that_the_library_splits_at", recorded["steps"], {name: of_steps[p] for name, p in STEPS.items()}),
        ("normal_forms_and_lower_case_are_the_library_s", recorded["maps"],
         {**{name: ask("map", name.lower()) for name in ("NFC", "NFD", "NFKC", "NFKD")}, "Lowercase": lower()}),
        ("words_and_clusters_are_the_library_s", {"word": recorded["steps"]["Whitespace"], "cluster": recorded["clusters"]},
         {"word": ask("word"), "cluster": ask("cluster", "after")}),
    ]
    return 0 if all([compare(*check) for check in checks]) else 1


if __name__ == "__main__":
    sys.exit(main())
