#!/usr/bin/env python3
"""Records what the library tokenizers says of every character, for tests/text/test_unicode.py: tests/data/unicode.json.

  tests/text/record_unicode.py      with the release of tokenizers to record, and sentencepiece, which makes the rules for clusters

Each answer is a text, of which the sha256 is kept: for a set, a line "first last" (hexadecimal) for each run of it among the 1,112,064
scalar values; for a mapping, a line "character becomes ..." for each character that is changed.
"""
import hashlib
import json
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "data" / "unicode.json"
sys.path.insert(0, str(ROOT / "tools"))
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn L M N P S Z C LC Letter Mark Number "
              "Punctuation Symbol Separator Other").split()
BINARY = ("Alphabetic Uppercase Lowercase White_Space Ideographic Emoji Emoji_Presentation Emoji_Modifier Emoji_Modifier_Base "
          "Emoji_Component Extended_Pictographic Any ASCII Assigned").split()
OTHERS = [r"\d", r"\D", r"\s", r"\S", r"\w", r"\W", r".", r"[^\s\p{L}\p{N}]", r"[^\r\n\p{L}\p{N}]", r"\p{^Lu}", r"\P{Greek}", r"[\P{L}\d]",
          r"(?i:s)", r"(?i:k)", r"(?i)[k-så]", r"(?i)\p{Lu}", r"(?i)[\p{Lu}]", r"(?i)[^\p{Lu}]", r"(?i)[^σж]", r"(?i:ǆ)", r"(?i)[ა-ჰꭰ-ꮿ]",
          r"[一-鿿豈-﫿𠀀-𪛟]", r"\x{1F600}", r"[[:digit:]]", r"[\x{80}-\x{10FFFF}]"]


def runs(holds):
    """The answer for a set, from one truth for each character."""
    out, start = [], None
    for i, value in enumerate([*holds, 0]):
        if value and start is None:
            start = i
        if not value and start is not None:
            out.append("%x %x\n" % (ord(CHARACTERS[start]), ord(CHARACTERS[i - 1])))
            start = None
    return "".join(out)


def changes(mapping):
    """The answer for a mapping, from what each character becomes."""
    return "".join(" ".join("%x" % ord(x) for x in c + to) + "\n" for c, to in zip(CHARACTERS, mapping) if to != c)


def row(answer):
    return {"lines": answer.count("\n"), "sha256": hashlib.sha256(answer.encode()).hexdigest()}


def removed(pre_tokenizer):
    holds = bytearray(b"\1") * len(CHARACTERS)
    for _, (start, end) in pre_tokenizer.pre_tokenize_str("".join(CHARACTERS)):
        holds[start:end] = bytes(end - start)
    return runs(holds)


def alone(pre_tokenizer, before, after):
    """Is a character in a piece with what is before it?"""
    text = "".join(before + c + after for c in CHARACTERS)
    holds, step = bytearray(len(CHARACTERS)), 1 + len(before + after)
    for _, (start, end) in pre_tokenizer.pre_tokenize_str(text):
        holds[start // step] |= start % step == 0 and end - start > 1
    return runs(holds)


def precompiled(rules, folder):
    """The normalizer that replaces texts: {from: to}."""
    import sentencepiece
    from tokenizers import normalizers
    import protobuf
    codes = lambda text: " ".join("%X" % ord(c) for c in text)   # noqa: E731
    (folder / "rules.tsv").write_text("".join("%s\t%s\n" % (codes(a), codes(b)) for a, b in rules.items()))
    (folder / "corpus.txt").write_text("some words to train on\n" * 50)
    sentencepiece.SentencePieceTrainer.train(input=str(folder / "corpus.txt"), model_prefix=str(folder / "m"), vocab_size=30, minloglevel=2,
                                             normalization_rule_tsv=str(folder / "rules.tsv"), hard_vocab_limit=False)
    model = (folder / "m.model").read_bytes()
    return normalizers.Precompiled(protobuf.message(protobuf.message(model)[3])[2])


def clusters():
    """What goes on with the cluster that "a" begins: a short cluster is replaced as a whole."""
    with tempfile.TemporaryDirectory(prefix="tblock-record-") as name:
        normalizer = precompiled({"a": "X"}, pathlib.Path(name))
        return runs([c != "\0" and normalizer.normalize_str("a" + c) == "X" for c in CHARACTERS])


def script_names():
    """The longest of each."""
    table = re.search(r"SCRIPT_NAMES\[\] = \{(.*?)\n\};", (ROOT / "src/tokenizer/unicode_data.inc").read_text(), re.S)[1]
    rows = re.findall(r'\{"(\w+)", (\d+)\}', table)
    return sorted({script: name for name, script in sorted(rows, key=lambda row: len(row[0]))}.values())


def main():
    import tokenizers
    from tokenizers import Regex, normalizers, pre_tokenizers as pre
    sets, maps = {}, {}
    names = ["\\p{%s}" % n for n in (*CATEGORIES, *BINARY, *script_names())]
    for pattern in (*names, *OTHERS):
        try:
            sets[pattern] = row(removed(pre.Split(Regex(pattern), "removed")))
        except Exception as why:   # Oniguruma has no name for a few scripts
            print("left out: %s (%s)" % (pattern, why), file=sys.stderr)
    steps = {"Digits": alone(pre.Digits(individual_digits=False), "1", "-"), "Punctuation": removed(pre.Punctuation("removed")),
             "WhitespaceSplit": removed(pre.WhitespaceSplit()), "Whitespace": alone(pre.Whitespace(), "a", "-")}
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        normalizer = getattr(normalizers, name)()
        maps[name] = row(changes([normalizer.normalize_str(c) for c in CHARACTERS]))
    OUT.write_text(json.dumps({"tokenizers": tokenizers.__version__, "sets": sets, "steps": {k: row(v) for k, v in steps.items()}, "maps": maps,
                               "clusters": row(clusters())}, indent=0) + "\n")


if __name__ == "__main__":
    main()
