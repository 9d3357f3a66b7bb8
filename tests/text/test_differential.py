#!/usr/bin/env python3
"""Generated texts, encoded by the program and by the reference libraries (tokenizers, sentencepiece, tiktoken), must have the
same ids; what the libraries decode the ids to, likewise. The texts are made from a fixed seed.

  tests/text/test_differential.py [NAME ...]     names as printed; all without
  TBLOCK_DIFFERENTIAL=20000                      texts for each vocabulary (default 400)
"""
import base64
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import testdata  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", ROOT / "build" / "release" / "tblock")
N_TEXTS = int(os.environ.get("TBLOCK_DIFFERENTIAL", "400"))
SEED = 20240229
import protobuf  # noqa: E402
# meta-llama/llama-models, models/llama3/tokenizer.py; tiktoken's cl100k cuts the same (tiktoken_ext/openai_public.py)
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                  r"\s*[\r\n]+|\s+(?!\S)|\s+")
# transformers, models/qwen2/tokenization_qwen2.py; the text is in NFC
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")

FIXTURES, DATA = testdata.FIXTURES / "tokenizers", testdata.MORE / "tokenizers"
# name: (file, library, options of convert.py)
VOCABULARIES = {
    "llama3-e2e": (ROOT / "tests/data/models/llama3-e2e/tokenizer.json", "tokenizers", ()),
    "bpe-gpt2": (FIXTURES / "bpe-gpt2/tokenizer.json", "tokenizers", ()),
    "bpe-llama3": (FIXTURES / "bpe-llama3/tokenizer.json", "tokenizers", ()),
    "bpe-qwen2": (FIXTURES / "bpe-qwen2/tokenizer.json", "tokenizers", ()),
    "bpe-smollm": (FIXTURES / "bpe-smollm/tokenizer.json", "tokenizers", ()),
    "spjson-legacy": (FIXTURES / "spjson-legacy/tokenizer.json", "tokenizers", ()),
    "spjson-metaspace": (FIXTURES / "spjson-metaspace/tokenizer.json", "tokenizers", ()),
    "spjson-gemma": (FIXTURES / "spjson-gemma/tokenizer.json", "tokenizers", ()),
    "gpt2": (DATA / "gpt2/tokenizer.json", "tokenizers", ()),
    "llama2-json": (DATA / "llama2/tokenizer.json", "tokenizers", ()),
    "qwen2": (DATA / "qwen2/vocab.json", "tokenizers", ()),
    "tiny-bpe": (DATA / "small/tiny_bpe_tokenizer.json", "tokenizers", ()),
    "torchtitan": (DATA / "small/torchtitan_tokenizer.json", "tokenizers", ()),
    "mini-llama": (DATA / "small/mini_llama.json", "tokenizers", ()),
    "sp-bpe": (FIXTURES / "sp-bpe/tokenizer.model", "sentencepiece", ()),
    "llama2": (DATA / "llama2/tokenizer.model", "sentencepiece", ()),
    "mistral-v1": (DATA / "mistral/tokenizer.model.v1", "sentencepiece", ()),
    "mistral-v3": (DATA / "mistral/mistral_instruct_tokenizer_240323.model.v3", "sentencepiece", ()),
    "stories-sp512": (FIXTURES / "stories-sp512/tokenizer.model", "sentencepiece", ()),
    "unigram-nmt-nfkc": (DATA / "small/m.model", "sentencepiece", ()),
    "unigram-nfkc": (DATA / "small/sentencepiece_unigram.model", "sentencepiece", ()),
    "llama3": (DATA / "llama3/tokenizer.model", "tiktoken", ()),
    "gpt2-ranks": (DATA / "gpt2/gpt2.tiktoken", "tiktoken", ()),
    "small-ranks-cl100k": (DATA / "small/tiktoken_small.model", "tiktoken", ("--pattern", "cl100k")),
    "small-ranks-o200k": (DATA / "small/tiktoken_small.model", "tiktoken", ("--pattern", "o200k")),
}


# ---- texts ----

def code_points():
    """Those of the planes that have characters, assigned or not, in whatever version: each library is to agree on all."""
    return [chr(c) for c in (*range(0x80, 0xD800), *range(0xF900, 0x32400), *range(0xE0000, 0xE01F0))]


def generate(n, extra):
    """n texts; extra: pieces of the vocabulary and special tokens, to be mixed in."""
    rng = random.Random(SEED)
    characters = code_points()
    common = [c for c in characters if c < "\u3200"]
    marks = [c for c in characters if unicodedata.combining(c)]
    spaces = [" ", " ", " ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\u0085", "   ", "\n\n"]
    words = ("the of and to in a is that was he for it with as his on be at by had not are but from or have an they which one you "
             "were her all she there would their we him been has when who will more no if out so said what up its about into than "
             "them can only other new some could time these two may then do first any my now such like our over man me even most "
             "made after also did many before must through back years where much your way well down should because each just "
             "I'm don't we'll THEY'RE It'S o'clock naïve Straße façade été ÉCOLE Москва привет 你好 世界 こんにちは カタカナ 한국어 "
             "ñandú \u0130stanbul ﬁne ①② ½ ２０２４ ⅷ x² 12345678 3.14159 0x1F http://a.b/c?d=e&f=g foo_bar fooBar __init__ "
             "👍🏽 👨‍👩‍👧‍👦 🇩🇪 e\u0301 A\u030a \u1100\u1161\u11a8 ｶﾞ क्षि ที่ ▁ ▁▁ ▁a").split(" ")
    for _ in range(n):
        parts = []
        for _ in range(rng.choice((1, 1, 2, 3, 5, 8, 13, 30))):
            kind = rng.random()
            if kind < 0.30:
                parts.append(rng.choice(words))
            elif kind < 0.50:
                parts.append(rng.choice(spaces))
            elif kind < 0.60:
                parts.append("".join(chr(rng.randrange(0x20, 0x7F)) for _ in range(rng.randrange(1, 6))))
            elif kind < 0.70:
                parts.append("".join(rng.choice(common) for _ in range(rng.randrange(1, 4))))
            elif kind < 0.78:
                parts.append("".join(rng.choice(characters) for _ in range(rng.randrange(1, 3))))
            elif kind < 0.83:
                parts.append(rng.choice(words) + "".join(rng.choice(marks) for _ in range(rng.randrange(1, 4))))
            elif kind < 0.86:
                parts.append(rng.choice(words[:40]) * rng.randrange(1, 8))
            elif kind < 0.88:
                parts.append(rng.choice(" \n.-=a中\u0301") * rng.randrange(1, 40))
            elif kind < 0.90:
                parts.append(chr(rng.randrange(0, 0x20)))
            else:
                parts.append(rng.choice(extra))
        yield "".join(parts)


# ---- the libraries ----

class Tokenizers:
    def __init__(self, file, options):
        import tokenizers
        if file.name == "vocab.json":   # as transformers builds Qwen2's
            from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers
            t = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(str(file), str(file.parent / "merges.txt")))
            t.normalizer = normalizers.NFC()
            t.pre_tokenizer = pre_tokenizers.Sequence([
                pre_tokenizers.Split(Regex(QWEN2_PATTERN), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
            t.decoder = tokenizers.decoders.ByteLevel()
            added = json.loads((file.parent / "tokenizer_config.json").read_text())["added_tokens_decoder"]
            t.add_special_tokens([AddedToken(a["content"], normalized=False) for a in added.values()])
        else:
            root = json.loads(file.read_text())
            root.setdefault("version", "1.0")
            for entry in root.get("added_tokens", []):
                for flag in ("single_word", "lstrip", "rstrip", "normalized"):
                    entry.setdefault(flag, False)
            t = tokenizers.Tokenizer.from_str(json.dumps(root))
        self.t = t
        declared = {} if file.name == "vocab.json" else {a["content"]: a["id"] for a in root.get("added_tokens", [])}
        self.renumbers = any(t.token_to_id(content) != i for content, i in declared.items())   # the library has its own idea
        self.unigram = isinstance(t.model, tokenizers.models.Unigram)
        # the library shows these in their normalized form, the program as they are
        self.changed = {i for i, a in t.get_added_tokens_decoder().items() if a.normalized and t.normalizer}
        self.extra = list(t.get_vocab())[::max(1, t.get_vocab_size() // 3000)] + [a.content for a in t.get_added_tokens_decoder().values()]
        if self.unigram:   # likewise the names of byte pieces
            self.extra = [e for e in self.extra if not e.startswith("<0x")]

    def modes(self):
        # in plain mode the library finds the special tokens of a Unigram vocabulary as ordinary pieces; the program does not
        return ("plain",) if self.renumbers else ("special",) if self.unigram else ("special", "plain")

    def encode(self, texts, mode):
        self.t.encode_special_tokens = mode == "plain"
        return [e.ids for e in self.t.encode_batch(texts, add_special_tokens=False)]

    def decode(self, ids):
        return [None if self.changed & set(row) else text
                for row, text in zip(ids, self.t.decode_batch(ids, skip_special_tokens=False))]


class SentencePiece:
    def __init__(self, file, options):
        import sentencepiece
        self.t = sentencepiece.SentencePieceProcessor(model_file=str(file))
        n = self.t.vocab_size()
        self.extra = [self.t.id_to_piece(i).replace("\u2581", " ") for i in range(0, n, max(1, n // 3000))]

    def modes(self):
        return ("plain",)

    def encode(self, texts, mode):
        return self.t.encode(texts)

    def decode(self, ids):
        control = [any(self.t.is_control(i) for i in row) for row in ids]   # the program shows control pieces
        return [None if c else text for c, text in zip(control, self.t.decode(ids))]


# tiktoken_ext/openai_public.py of tiktoken 0.14
TIKTOKEN = {
    "gpt2": r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s""",
    "cl100k": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    "o200k": "|".join([
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""\p{N}{1,3}""", r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""", r"""\s*[\r\n]+""", r"""\s+(?!\S)""", r"""\s+"""]),
}


class Tiktoken:
    def __init__(self, file, options):
        import tiktoken
        ranks = {base64.b64decode(word): int(rank) for word, rank in (line.split() for line in file.read_bytes().splitlines() if line)}
        name = options[1] if options else {50256: "gpt2"}.get(len(ranks), "llama3")
        pattern = TIKTOKEN.get(name, LLAMA3_PATTERN)
        self.t = tiktoken.Encoding(name="test", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        self.extra = [p.decode("utf-8", "ignore") for p in list(ranks)[::max(1, len(ranks) // 3000)]]

    def modes(self):
        return ("plain",)

    def encode(self, texts, mode):
        return self.t.encode_ordinary_batch(texts, num_threads=1)

    def decode(self, ids):
        return [self.t.decode(row) for row in ids]


LIBRARIES = {"tokenizers": Tokenizers, "sentencepiece": SentencePiece, "tiktoken": Tiktoken}


# ---- the comparison ----

def ask(model, requests, folder):
    lines = folder / "requests.jsonl"
    lines.write_text("".join(json.dumps(r) + "\n" for r in requests))
    p = subprocess.run([str(TBLOCK), "tokenize", str(model), "--jsonl", str(lines)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        raise AssertionError("status %d: %s" % (p.returncode, p.stderr.decode(errors="replace").strip()[-300:]))
    return [json.loads(line) for line in p.stdout.decode().splitlines()]


def first_difference(texts, expected, found):
    wrong = [i for i in range(len(texts)) if expected[i] is not None and expected[i] != found[i]]
    if wrong:
        i = min(wrong, key=lambda i: len(texts[i]))
        raise AssertionError("%d of %d differ, shortest %a: expected %a, found %a" % (
            len(wrong), len(texts), texts[i][:200], expected[i][:60], found[i][:60]))


def made(folder):
    """Vocabularies made here, for the parts that no published one of ours has: like VOCABULARIES."""
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join((ROOT / "docs" / n).read_text() for n in ("format.md", "numerics.md", "design.md")))
    yield from made_with_sentencepiece(folder, corpus)
    yield from made_with_tokenizers(folder, corpus)


def made_with_sentencepiece(folder, corpus):
    import sentencepiece
    common = dict(input=str(corpus), vocab_size=600, minloglevel=2, num_threads=1, hard_vocab_limit=False)
    symbols = ["<|user|>", "the ", "\u00e9t", "--", "123"]
    for name, options in {
        "made-unigram-symbols": dict(model_type="unigram", user_defined_symbols=symbols, normalization_rule_name="nmt_nfkc_cf"),
        "made-unigram-bytes": dict(model_type="unigram", byte_fallback=True, normalization_rule_name="identity", vocab_size=900,
                                   remove_extra_whitespaces=False, add_dummy_prefix=False),
        "made-unigram-across": dict(model_type="unigram", split_by_whitespace=False, user_defined_symbols=symbols),
        "made-bpe-nfkc-symbols": dict(model_type="bpe", user_defined_symbols=symbols, normalization_rule_name="nmt_nfkc"),
        "made-bpe-across": dict(model_type="bpe", split_by_whitespace=False, byte_fallback=True, vocab_size=900,
                                normalization_rule_name="nfkc_cf", control_symbols=["<c>"]),
    }.items():
        sentencepiece.SentencePieceTrainer.train(**{**common, **options, "model_prefix": str(folder / name)})
        yield name, folder / (name + ".model"), "sentencepiece", ()


def made_with_tokenizers(folder, corpus):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers as n, pre_tokenizers as p, trainers
    level = p.ByteLevel(add_prefix_space=False, use_regex=False)
    split = p.Split
    byte_level = {
        "removed": p.Sequence([split(Regex(r"\s+"), "removed"), level]),
        "previous": p.Sequence([split(" ", "merged_with_previous"), level]),
        "next": p.Sequence([split(Regex(r"[ .]"), "merged_with_next"), level]),
        "contiguous": p.Sequence([split(Regex(r"\p{P}"), "contiguous"), level]),
        "invert": p.Sequence([split(Regex(r"\w+"), "removed", invert=True), level]),
        "invert-previous": p.Sequence([split(Regex(r"\w"), "merged_with_previous", invert=True), level]),
        "digits": p.Sequence([p.Digits(individual_digits=True), p.Punctuation("merged_with_next"), level]),
        "punctuation": p.Sequence([p.Digits(), p.Punctuation("contiguous"), p.WhitespaceSplit(), level]),
        "whitespace": p.Sequence([p.Whitespace(), level]),
        "bert": p.Sequence([p.BertPreTokenizer(), p.CharDelimiterSplit("e"), level]),
        "prefix-space": p.ByteLevel(add_prefix_space=True),
    }
    texts = corpus.read_text().splitlines()
    precompiled = None
    for name, pre in byte_level.items():
        t = Tokenizer(models.BPE())
        t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
        t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=500, initial_alphabet=p.ByteLevel.alphabet(), show_progress=False))
        t.add_special_tokens([AddedToken("<|a|>", lstrip=True), AddedToken("<|b|>", rstrip=True), AddedToken("the", single_word=True)])
        t.add_tokens([AddedToken("FORMAT", normalized=False, single_word=True), AddedToken("ab c", normalized=True, rstrip=True, lstrip=True)])
        yield save(t, folder, "made-bpe-" + name)
    forms = {"nfd": n.NFD(), "nfkd": n.NFKD(), "nfkc-strip": n.Sequence([n.NFKC(), n.Strip()]), "lower": n.Sequence([n.Strip(right=False), n.Lowercase()]),
             "replace": n.Sequence([n.Replace(Regex(r"\s{2,}|a(?=b)"), "<>"), n.Replace("e", "ee")])}
    for name, normalizer in forms.items():
        t = Tokenizer(models.BPE())
        t.normalizer, t.pre_tokenizer, t.decoder = normalizer, p.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
        t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=500, initial_alphabet=p.ByteLevel.alphabet(), show_progress=False))
        t.add_tokens([AddedToken("Table", normalized=True), AddedToken("\u00e9t\u00e9 x", normalized=True), AddedToken("naïve ", normalized=False)])
        yield save(t, folder, "made-bpe-" + name)
    for scheme in ("first", "always", "never"):
        for whole in (False, True):
            t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=whole, byte_fallback=False))
            t.pre_tokenizer = p.Metaspace(prepend_scheme=scheme, split=not whole)
            t.decoder = decoders.Metaspace(prepend_scheme=scheme)
            t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=500, special_tokens=["<unk>"], show_progress=False))
            t.add_special_tokens([AddedToken("<|a|>", lstrip=True), AddedToken("<|b|>")])
            yield save(t, folder, "made-metaspace-%s%s" % (scheme, "-whole" if whole else ""))
    import sentencepiece
    for name in ("made-unigram-symbols", "made-unigram-bytes"):
        model = folder / (name + ".model")
        sp = sentencepiece.SentencePieceProcessor(model_file=str(model))
        pieces = [(sp.id_to_piece(i), sp.get_score(i)) for i in range(sp.vocab_size())]
        t = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=name.endswith("bytes")))
        normalizer = protobuf.message(protobuf.message(model.read_bytes())[3])
        steps = [n.Precompiled(normalizer[2])] if normalizer.get(2) else []
        t.normalizer = n.Sequence(steps + [n.Strip(left=False), n.Replace(Regex(" {2,}"), "\u2581")])
        t.pre_tokenizer = p.Sequence([p.WhitespaceSplit(), p.Metaspace()]) if steps else p.Metaspace(prepend_scheme="first", split=False)
        t.decoder = decoders.Metaspace() if steps else decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
        t.add_special_tokens(["<unk>", "<s>", "</s>"])
        yield save(t, folder, name.replace("made-", "made-json-"))


def save(t, folder, name):
    path = folder / (name + ".json")
    t.save(str(path))
    return name, path, "tokenizers", ()


def check(file, library, options):
    """Number of answers compared."""
    reference, n = LIBRARIES[library](file, options), 0
    texts = list(generate(N_TEXTS, reference.extra))
    texts.append("".join(texts)[:200000])   # a long one: word caches, sums of many scores
    with tempfile.TemporaryDirectory(prefix="tblock-test-") as name:
        folder = pathlib.Path(name)
        model = folder / "tokenizer.bin"
        p = subprocess.run([sys.executable, str(ROOT / "tools" / "convert.py"), str(file), "-o", str(model), "--quiet", *options],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if p.returncode:
            raise AssertionError(p.stderr.decode().strip())
        for mode in reference.modes():
            ids = reference.encode(texts, mode)
            answers = ask(model, [{"text": t, "mode": mode} for t in texts], folder)
            first_difference(texts, ids, [a["ids"] for a in answers])
            n += len(texts)
        answers = ask(model, [{"ids": i} for i in ids], folder)
        first_difference(texts, reference.decode(ids), [a["text"] for a in answers])
        return n + len(texts)


def compare(name, file, library, options):
    """Print the line of one vocabulary; false where an answer differs."""
    if sys.argv[1:] and name not in sys.argv[1:]:
        return True
    if not file.exists():
        print("skip differential_%s: no data (%s)" % (name, file))
        return True
    try:
        print("ok differential_%s (%s, %d answers)" % (name, library, check(file, library, options)))
    except ImportError as why:
        print("skip differential_%s: %s" % (name, why))
    except AssertionError as why:
        print("FAIL differential_%s: %s" % (name, str(why).replace("\n", " ")))
        return False
    finally:
        sys.stdout.flush()
    return True


def main():
    ok = all([compare(name, *row) for name, row in VOCABULARIES.items()])
    with tempfile.TemporaryDirectory(prefix="tblock-test-") as folder:
        try:
            ok &= all([compare(*row) for row in made(pathlib.Path(folder))])
        except ImportError as why:
            print("skip differential_made: %s" % why)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
