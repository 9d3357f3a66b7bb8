#!/usr/bin/env python3
"""Records where tokenizers 0.23.3 finds special tokens that are made of letters and must stand alone (single_word), in a BPE of
characters: tests/data/tokenizers/single-word/. Inside a word such a token is ordinary text, which the vocabulary has as well."""
import json
import pathlib

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "data/tokenizers/single-word"
PIECES = ["<unk>", "\u2581", *"abcde", "ab", "cd", "abcd"]
NEIGHBOURS = ["", " ", "_", "-", "c", "\u00e9", "\u0301", "\u200d", "\u200b", "\u4e2d", "\u0663", "\u2460", "\u00b7", "\U0001f642"]


def main():
    t = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(PIECES)}, merges=[("a", "b"), ("c", "d"), ("ab", "cd")], unk_token="<unk>"))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.Fuse()])
    t.add_special_tokens([AddedToken("a", single_word=True), AddedToken("cd", single_word=True, rstrip=True)])
    texts = [left + word + right for word in ("a", "cd") for left in NEIGHBOURS for right in ("", left, "c" if left else "b")]
    texts += ["a ab a", "abcd cd  a", "aa a.a", "ea\u00e9 cd", "cdcd cd"]
    FOLDER.mkdir(exist_ok=True)
    t.save(str(FOLDER / "tokenizer.json"))
    with open(FOLDER / "cases.jsonl", "w") as f:
        for text in dict.fromkeys(texts):
            f.write(json.dumps({"mode": "special", "text": text, "ids": t.encode(text, add_special_tokens=False).ids}) + "\n")


if __name__ == "__main__":
    main()
