#!/usr/bin/env python3
"""Tokenizers made by the program itself (src/tokenizer/tokmake.h): byte for byte what was recorded, or refused where that was
(tests/recorded.py); and the ids of GGUF vocabularies. BUILD is the folder of the test programs, TBLOCK the program."""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build/release")
TBLOCK = os.environ.get("TBLOCK", BUILD / "tblock")
MAKE = BUILD / "tests" / "text" / "make_tokenizer"
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "convert"), str(ROOT / "tests")]
import recorded  # noqa: E402
from harness import bpe_json  # noqa: E402
from testdata import FIXTURES, MORE as DATA  # noqa: E402

N_BROKEN = 60   # mutations of each file; recorded


class Failure(Exception):
    pass


# ---- the same bytes ----

def of_c(path, pattern, folder):
    out = folder / "made.bin"
    p = subprocess.run([str(MAKE), str(path), str(out)] + ([pattern] if pattern else []), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=600)
    if p.returncode not in (0, 2, 3) or (p.returncode and p.stderr.count(b"\n") != 1):
        raise Failure("%s: status %d, %s" % (path, p.returncode, p.stderr.decode(errors="replace")[-300:]))
    if p.returncode:
        return p.returncode, p.stderr.decode(errors="replace"), None, None
    data = out.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    metadata = header.pop("__metadata__")["tokenizer"]
    tensors = {name: (e["dtype"], e["shape"], data[8 + n + e["data_offsets"][0]:8 + n + e["data_offsets"][1]]) for name, e in header.items()}
    files = [line[5:] for line in p.stdout.decode().splitlines() if line.startswith("read ")]
    return 0, metadata, tensors, files


def flat(made):
    _, metadata, tensors, files = made
    return [metadata, [(name, *t[:2]) for name, t in tensors.items()], *[t[2] for t in tensors.values()],
            [os.path.basename(f) for f in files]]


def compare(path, folder, pattern=None):
    """Returns the status, which has to be the recorded one, as what was made (tests/recorded.py)."""
    key = recorded.digest("tokenizer", recorded.contents(str(path)), pattern)
    made = of_c(path, pattern, folder)
    status = made[0]
    why = recorded.difference(key, status, *([] if status else flat(made)))
    if why:
        raise Failure("%s: %s (%s)" % (path, why, str(made[1])[:300]))
    return status


def published():
    """(name, path, pattern)"""
    for folder in ("bpe-gpt2", "bpe-llama3", "bpe-qwen2", "bpe-smollm", "llama2-sp", "llama3-tiktoken", "sp-bpe", "spjson-gemma",
                   "spjson-legacy", "spjson-metaspace", "stories-sp512"):
        yield folder, FIXTURES / "tokenizers" / folder, None
    yield "llama3-e2e", ROOT / "tests/data/models/llama3-e2e/tokenizer.json", None
    for path in ("tokenizers/gpt2", "tokenizers/gpt2/gpt2.tiktoken", "tokenizers/llama2", "tokenizers/llama2/tokenizer.json",
                 "tokenizers/llama2/tokenizer.bin", "tokenizers/llama3", "tokenizers/mistral/tokenizer.model.v1",
                 "tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3", "tokenizers/qwen2", "tokenizers/qwen2/vocab.json",
                 "tokenizers/small/m.model", "tokenizers/small/mini_llama.json", "tokenizers/small/sentencepiece_unigram.model",
                 "tokenizers/small/tiny_bpe_tokenizer.json", "tokenizers/small/torchtitan_tokenizer.json",
                 "models/stories260K/tok512.bin", "models/babyllama105/tok105.model"):
        yield path.replace("tokenizers/", ""), DATA / path, None
    for pattern in ("cl100k", "o200k", "gpt2", "qwen2", "llama3"):
        yield "tiktoken_small as %s" % pattern, DATA / "tokenizers/small/tiktoken_small.model", pattern


# ---- variations of a tokenizer.json, most of them refused ----

META = "\u2581"
SPLIT = {"type": "Split", "pattern": {"Regex": "[^a]?b+"}, "behavior": "Isolated", "invert": False}
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
REPLACE = {"type": "Replace", "pattern": {"String": META}, "content": " "}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def template(*single):
    return {"type": "TemplateProcessing", "single": list(single), "pair": [], "special_tokens": {"<|x|>": {"id": "<|x|>", "ids": [258],
            "tokens": ["<|x|>"]}}}


A, X = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<|x|>", "type_id": 0}}


def variations():
    yield bpe_json()
    for steps in ([SPLIT, LEVEL], [{"type": "Digits", "individual_digits": True}, LEVEL], [{"type": "Digits"}, LEVEL],
                  [{"type": "Punctuation"}, LEVEL], [{"type": "Punctuation", "behavior": "Contiguous"}, LEVEL], [{"type": "Whitespace"}, LEVEL],
                  [{"type": "WhitespaceSplit"}, LEVEL], [{"type": "BertPreTokenizer"}, LEVEL], [None, LEVEL], [LEVEL, LEVEL],
                  [{"type": "CharDelimiterSplit", "delimiter": "."}, LEVEL], [{"type": "Metaspace"}, LEVEL], [sequence("pretokenizers", SPLIT), LEVEL],
                  [{"type": "Metaspace", "replacement": "_"}, LEVEL], [{"type": "Metaspace", "prepend_scheme": "first", "split": False}, LEVEL],
                  [{"type": "Metaspace", "add_prefix_space": False}, LEVEL], [{"type": "Metaspace", "prepend_scheme": "odd"}, LEVEL],
                  [dict(SPLIT, invert=True, behavior="Removed"), LEVEL], [dict(SPLIT, behavior="MergedWithNext"), LEVEL], [SPLIT] * 17 + [LEVEL],
                  [dict(SPLIT, pattern={"String": "a.b(\\)# -"}), LEVEL], [dict(SPLIT, pattern={"String": "a\0b"}), LEVEL], [5, LEVEL],
                  [SPLIT, dict(LEVEL, add_prefix_space=True)], [SPLIT, {"type": "ByteLevel"}], [{"type": "UnicodeScripts"}, LEVEL], [{}, LEVEL]):
        yield bpe_json(pre_tokenizer=sequence("pretokenizers", *steps))
    for regex in ("\\\\h", "a\\h", "a$", "^a", "[^a$]", "[a&&b]", "[a[b]]", "[[:alpha:]]", "[[:alpha:]b&&c]", "(?i:a)", "(?x:a)", "(?m)a",
                  "(?i-m:a)", "(?im-s:a)", "[]a]", "[^]a]", "[]", "[", "[[:alpha:]", "\\[^", "a\\", "[\\]]^", "[a]]$", "(?=a)", "\\G", "\u00e9+", "\x7f\u2028",
                  "[[:^alpha:]x[]", "[]]^", "[&&]", "&&", "(?<x>a)", "\\\\\\h", "[[:digit:]a]+", "[[:^digit:]]", "[[:word:]]", "\\p{N}{1,3}+", "a{,2}b",
                  "a{2}?", "a{2,}+", "a{2,3}?", "a{2,}?", "\\x{41}+", "\\x{41}?b", "{,}", "{}+", "a{2", "[a{2}?]", "\\{2}?", "\\p{Han}+", "\\P{Han}",
                  "[\\p{^Latin}\\p{L}]"):
        yield bpe_json(pre_tokenizer=sequence("pretokenizers", dict(SPLIT, pattern={"Regex": regex}), LEVEL))
    for node in ({"type": "NFC"}, {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "Prepend", "prepend": META}, {"type": "Prepend"}, [], "x", REPLACE,
                 {"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}, {"type": "Replace", "pattern": {"String": ""}, "content": "a"},
                 {"type": "Replace", "pattern": {"String": "a"}}, {"type": "Replace", "pattern": {}, "content": "a"},
                 {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Strip", "strip_right": True}, {"type": "Strip"},
                 {"type": "StripAccents"}, {"type": "Precompiled", "precompiled_charsmap": ""}, {"type": "Precompiled"},
                 {"type": "Precompiled", "precompiled_charsmap": "AAA"}, {"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="},
                 {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAABhAA=="}, {"type": "Precompiled", "precompiled_charsmap": 7},
                 sequence("normalizers", {"type": "NFC"}, {"type": "Lowercase"}), sequence("normalizers"), sequence("other"),
                 sequence("normalizers", *[{"type": "NFC"}] * 17)):
        yield bpe_json(normalizer=node)
    for node in (None, {"type": "ByteLevel"}, {"type": "WordPiece"}, sequence("decoders", {"type": "ByteLevel"}), sequence("decoders"), STRIP, [1]):
        yield bpe_json(decoder=node)
    for node in (template(X, A), template(A, X), template(X, X, A), template(A, A), template(A, X, A), template(X), {"type": "ByteLevel"},
                 template({"SpecialToken": {"id": "<y>"}}, A), template(5, A), sequence("processors", template(X, A), template(X, A, X)),
                 {"type": "BertProcessing"}, {"type": "TemplateProcessing"}, {"type": "TemplateProcessing", "single": 5}):
        yield bpe_json(post_processor=node)
    for key, values in {"dropout": (0, 0.0, None, False, 0.1, "x"), "continuing_subword_prefix": ("", "##", 5), "end_of_word_suffix": ("</w>",),
                        "byte_fallback": (True, 0), "ignore_merges": (True, None, 1), "unk_token": ("ab", "nothing", 5), "type": ("BPE", "Unigram", "X", None),
                        "merges": ([], ["q ?"], ["a b", "ab c", "a b"], ["abc"], ["a  b"], [["a"]], [["a", 5]], [5], {}, ["a b", ["ab", "c"], ["a", "b"]]),
                        "vocab": ({}, [], {"a": 1.5}, {"a": True, "b": "x"}, {"a": -1}, {"a": 1 << 22}, {"a": 1 << 70}, {"a": 3}, {"a": 0, "": 1, "\u4e00": 2})}.items():
        for value in values:
            yield bpe_json(**{"model__" + key: value})
    for tokens in ([], [{"id": 300, "content": "<y>"}], [{"id": 256, "content": "<z>"}], [{"id": 7, "content": "ab", "special": True, "rstrip": True}], [5],
                   [{"id": 258, "content": "a\0b"}], [{"id": 258, "content": ""}], [{"id": "x", "content": "y"}], {}, [{"id": -1, "content": "y"}],
                   [{"id": 258, "content": "y", "normalized": True, "single_word": 1}, {"id": 258, "content": "z"}], [{"content": "y"}],
                   [{"id": 258, "content": "y", "special": True}, {"id": 258, "content": "y"}], [{"id": 1 << 40, "content": "y"}]):
        yield bpe_json(added_tokens=tokens)
    yield bpe_json(pre_tokenizer=None, decoder=sequence("decoders", REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"}, STRIP))
    yield bpe_json(pre_tokenizer=None, decoder=sequence("decoders", REPLACE, {"type": "Fuse"}), model__byte_fallback=True)
    yield bpe_json(pre_tokenizer=None, decoder=sequence("decoders", REPLACE, STRIP))
    yield bpe_json(pre_tokenizer=None, decoder=sequence("decoders", REPLACE, {"type": "Fuse"}, dict(STRIP, start=2)))
    yield bpe_json(pre_tokenizer=None, decoder=sequence("decoders", {"type": "Fuse"}, REPLACE))
    yield bpe_json(pre_tokenizer={"type": "Metaspace"}, decoder={"type": "Metaspace"}, model__fuse_unk=True, model__unk_token="ab")
    yield bpe_json(pre_tokenizer={"type": "Metaspace"}, decoder={"type": "Metaspace", "prepend_scheme": "never"})
    fallback = {"<0x%02X>" % b: b for b in range(256)}
    fallback.update({"a": 256, "b": 257, "ab": 258, "<0x+A>": 259, "<0xgg>": 260})
    for vocab in (fallback, {k: v for k, v in fallback.items() if k != "<0x41>"}, dict(fallback, **{"<0x0a>": 261})):
        yield bpe_json(pre_tokenizer={"type": "Metaspace"}, decoder={"type": "Metaspace"}, model__byte_fallback=True, model__vocab=vocab,
                       model__merges=["a b"], added_tokens=[])
    for pieces, unk in (([["a", -1.5], [META, 2]], 0), ([["a", -1.1], ["", 0], ["a", 3], ["ab", 1e300]], None), ([["a", "b"]], None), ([], None), ([["a"]], 0),
                        ([["a", 0.1], ["b", True]], 0), ([["a", 1]], 1), ([["a", 1]], "x"), ([["u", 0], ["a", -1], ["b", -2], ["a", -3]], 0), ([["\u00e9", 1], ["e", 2], ["\u00e8", -0.0]], -1), ([[1, 2]], 0)):
        yield bpe_json(pre_tokenizer={"type": "Metaspace"}, decoder={"type": "Metaspace"}, added_tokens=[], model__vocab=pieces, model__type="Unigram",
                       model__unk_id=unk)
    for text in (b"{}", b'{"model": 5}', b'{"model": {}, "x": 1}', b"[]", b"", b"{", b'{"model": {"type": "BPE"}, "model": 1}', b'{"a": 1, "b": 2}',
                 b'{"a": 1, "b": "c"}', b'{"model": NaN}', b'{"a": 01}', b'\xef\xbb\xbf{}', b'{"\xff": 1}', b"{" * 5000, b'{"model": "\\ud800"}', b"\n\t {}"):
        yield text


def folders():
    """{file: content} of folders"""
    json_file = bpe_json()
    spm = (FIXTURES / "tokenizers/sp-bpe/tokenizer.model")
    legacy = (FIXTURES / "tokenizers/spjson-legacy/tokenizer.json")
    for config in ({}, {"bos_token": "<|x|>", "eos_token": {"content": "ab"}, "add_bos_token": True}, {"bos_token": None, "add_bos_token": False},
                   {"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<|x|>", "add_bos_token": True, "add_eos_token": True, "eos_token": "abc"},
                   {"added_tokens_decoder": {"259": {"content": "<|end|>", "special": True}, "258": {"content": "<|x|>"}}}, {"bos_token": 5},
                   {"added_tokens_decoder": {"x": {"content": "y"}}}, {"added_tokens_decoder": {"5": {}}}, {"added_tokens_decoder": []},
                   {"added_tokens_decoder": {"99999999999": {"content": "y"}}}, {"added_tokens_decoder": {"3": {"content": "yy"}}}, [],
                   {"bos_token": "", "eos_token": None, "unk_token": None}, {"bos_token": {"content": ""}, "eos_token": {"content": None}, "unk_token": ""},
                   {"bos_token": None, "add_bos_token": True}, {"eos_token": "", "bos_token": "none of these", "add_eos_token": True}):
        files = {"tokenizer.json": json_file, "tokenizer_config.json": config}
        yield files
        yield dict(files, **{"added_tokens.json": {"<y>": 260, "ab": 3}, "special_tokens_map.json": {"unk_token": "<y>", "eos_token": "c"}})
        if spm.exists():
            more = dict(files, **{"tokenizer.model": spm.read_bytes(), "added_tokens.json": {"<y>": 2000, "</s>": 2}})
            yield more
            if legacy.exists():
                yield dict(more, **{"tokenizer.json": legacy.read_bytes()})
    yield {"tokenizer.json": json_file, "added_tokens.json": {"<y>": "x"}}
    yield {"tokenizer.model": b"rubbish"}
    yield {"tokenizer.model": b"IQ== 0\nIg== 1\nISI= 2\n", "special_tokens.json": {"<|begin_of_text|>": 5, "<|end_of_text|>": 3}}
    yield {"tokenizer.model": b"IQ== 0\nIg== 1\n\nISI= 7\r\n", "special_tokens.json": {"<|begin_of_text|>": 5, "<|x|>": 5}}
    yield {"tokenizer.model": b"IQ== 0\nIg== 1\n", "special_tokens.json": {"<|begin_of_text|>": 1}}
    yield {"tokenizer.model": b"IQ== 0\nIg== 1\n", "special_tokens.json": {"<|begin_of_text|>": "x"}}
    for lines in (b"IQ== 0\nIQ== 1\n", b"IQ== 0\nIg== 0\n", b"IQ== 0\nIg=\n", b"IQ== 0\n!!!! 1\n", b"IQ== 0\nIg== 5000000\n", b"IQ== 0\nIg== 1 2\n"):
        yield {"tokenizer.model": lines, "special_tokens.json": {"<|begin_of_text|>": 9}}
    root = json.loads(json_file)["model"]
    merges = "#version: 0.2\n" + "".join((m if isinstance(m, str) else " ".join(m)) + "\n" for m in root["merges"])
    gpt2 = {"vocab.json": root["vocab"], "merges.txt": merges.encode()}
    yield gpt2
    yield {"vocab.json": root["vocab"]}
    for name in "GPT2Tokenizer", "Qwen2TokenizerFast", "Other", 5:
        yield dict(gpt2, **{"tokenizer_config.json": {"tokenizer_class": name, "add_prefix_space": True}})
    config = {"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"}}
    yield dict(gpt2, **config, **{"vocab.json": dict(root["vocab"], **{"<|endoftext|>": 258})})
    for text in (b"a\n", b"a b c\n", b"\n \na b\r\n", b"\xff b\n", b"q r\n", b"", b"a b"):
        yield dict(gpt2, **config, **{"merges.txt": text})
    yield {}


def write(folder, files):
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return folder


def all_variations(temp):
    agreed = [0, 0]
    for n, text in enumerate(variations()):
        path = temp / ("v%d.json" % n)
        path.write_bytes(text)
        agreed[compare(path, temp) != 0] += 1
    for n, files in enumerate(folders()):
        agreed[compare(write(temp / ("f%d" % n), files), temp) != 0] += 1
    if min(agreed) < 60:
        raise Failure("%d made, %d refused: too few of one kind" % tuple(agreed))
    return "%d made, %d refused" % tuple(agreed)


# ---- broken files ----

def mutations(data, rng):
    for _ in range(N_BROKEN):
        kind, at = rng.randrange(4), rng.randrange(len(data))
        if kind == 0:
            yield data[:at]
        elif kind == 1:
            yield data[:at] + bytes([rng.randrange(256)]) + data[at + 1:]
        elif kind == 2:
            yield data[:at] + data[min(len(data), at + rng.randrange(1, 40)):]
        else:
            yield data[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(1, 6))) + data[at:]


def broken(temp):
    """Files cut or changed at random places become what was recorded, or are refused."""
    rng, n, made = random.Random(7), 0, 0
    files = [("m.json", bpe_json()), ("v.bin", llama2c_file()), ("r.model", b"".join(b"%s %d\n" % (w, i) for i, w in enumerate(
        (b"IQ==", b"Ig==", b"ISI=", b"ISEh", b"Iw=="))))]
    for path in (FIXTURES / "tokenizers/sp-bpe/tokenizer.model", FIXTURES / "tokenizers/spjson-gemma/tokenizer.json",
                 DATA / "tokenizers/small/sentencepiece_unigram.model"):
        if path.exists():
            files.append((path.name, path.read_bytes()))
    for name, data in files:
        for text in mutations(data, rng):
            path = temp / ("broken-" + name)
            path.write_bytes(text)
            made += compare(path, temp, "llama3" if name == "r.model" else None) == 0
            n += 1
    return "%d files, %d still sound" % (n, made)


def llama2c_file():
    pieces = [(0.0, b"<unk>"), (0.0, b"\n<s>\n"), (0.0, b"\n</s>\n"), (0.0, b"<0x0A>"), (-1.5, b" a"), (-2.5, b"b c"), (0.25, "é".encode())]
    return struct.pack("<i", 16) + b"".join(struct.pack("<fi", score, len(p)) + p for score, p in pieces)


# ---- GGUF ----

def ask(model, requests, folder):
    lines = folder / "requests.jsonl"
    lines.write_text("".join(json.dumps(r) + "\n" for r in requests))
    p = subprocess.run([str(TBLOCK), "tokenize", str(model), "--jsonl", str(lines)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode:
        raise Failure("status %d: %s" % (p.returncode, p.stderr.decode(errors="replace")[-300:]))
    return [json.loads(line) for line in p.stdout.splitlines()]


def expect(model, requests, expected, folder):
    answers = [a["ids"] for a in ask(model, requests, folder)]
    wrong = [(r, e, a) for r, e, a in zip(requests, expected, answers) if e != a]
    if wrong or len(answers) != len(requests):
        raise Failure("%d of %d differ, first %s: expected %s, found %s" % ((len(wrong), len(answers)) + tuple(str(x)[:200] for x in wrong[0])))
    return "%d answers" % len(answers)


def pairs(model, folder):
    texts = pathlib.Path(str(model) + ".inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    ids = [[int(i) for i in line.split()] for line in pathlib.Path(str(model) + ".out").read_text().splitlines()]
    return expect(model, [{"text": t, "mode": "special"} for t in texts[:len(ids)]], ids, folder)


def reference(model, name, folder):
    rows = [json.loads(line) for line in (DATA / "tokenizer-tests/reference_ids.jsonl").read_text().splitlines()]
    return expect(model, [{"bytes_hex": r["utf8_hex"]} for r in rows], [r["ids"][name] for r in rows], folder)


def same_as(model, other, folder):
    """The GGUF file gives the ids of the tokenizer that it was made of, with and without the template."""
    texts = [r["text"] for r in map(json.loads, (DATA / "tokenizer-tests/reference_ids.jsonl").read_text().splitlines())]
    requests = [{"text": t, "mode": m, "add_special": s} for t in texts for m, s in (("plain", False), ("special", True))]
    return expect(model, requests, [a["ids"] for a in ask(other, requests, folder)], folder)


def gguf_file(path, values):
    """A GGUF file of key-values alone."""
    def string(s):
        s = s if isinstance(s, bytes) else s.encode()
        return struct.pack("<Q", len(s)) + s

    def value(v):
        if isinstance(v, bool):
            return 7, struct.pack("<?", v)
        if isinstance(v, int):
            return 4, struct.pack("<I", v)
        if isinstance(v, float):
            return 6, struct.pack("<f", v)
        if isinstance(v, (str, bytes)):
            return 8, string(v)
        item = 5 if v and isinstance(v[0], int) else value(v[0])[0] if v else 5
        return 9, struct.pack("<IQ", item, len(v)) + b"".join(struct.pack("<i", x) if item == 5 else value(x)[1] for x in v)
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(values))
    for key, v in values.items():
        kind, packed = value(v)
        data += string(key) + struct.pack("<I", kind) + packed
    path.write_bytes(data)
    return path


def byte_level_values(**changes):
    root = json.loads(bpe_json())["model"]
    tokens = sorted(root["vocab"], key=root["vocab"].get) + ["<|x|>", "<y>"]
    values = {"general.name": "test", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
              "tokenizer.ggml.token_type": [1] * 258 + [3, 4], "tokenizer.ggml.merges": ["a b", "ab c"], "tokenizer.ggml.bos_token_id": 258,
              "tokenizer.ggml.eos_token_id": 259}
    values.update(("tokenizer.ggml." + k if "." not in k else k, v) for k, v in changes.items())
    return {k: v for k, v in values.items() if v is not None}


def spm_values(**changes):
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + [META, META + "a", "a", "b", "ab", "<|user|>", "<|endoftext|>", "<u>"]
    values = {"general.name": "test", "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
              "tokenizer.ggml.scores": [0.0] * 259 + [-1.0, -2.0, -3.0, -4.0, -5.0, 0.0, 0.0, 0.0],
              "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * 5 + [3, 3, 4], "tokenizer.ggml.bos_token_id": 1,
              "tokenizer.ggml.eos_token_id": 2}
    values.update(("tokenizer.ggml." + k if "." not in k else k, v) for k, v in changes.items())
    return {k: v for k, v in values.items() if v is not None}


def gguf_settings(temp):
    """What the keys do. Ids of llama.cpp's rules, worked out by hand."""
    n = 0

    def case(values, text, ids, mode="special", add=True):
        nonlocal n
        n += 1
        found = ask(gguf_file(temp / "case.gguf", values), [{"text": text, "mode": mode, "add_special": add}], temp)[0]["ids"]
        if found != ids:
            raise Failure("case %d, %r: expected %s, found %s" % (n, text, ids, found))
    level = {t: i for i, t in enumerate(byte_level_values()["tokenizer.ggml.tokens"])}
    case(byte_level_values(), "abc<|x|>ab<y>", [257, 258, 256, 259])
    case(byte_level_values(), "<|x|>", [level[c] for c in "<|x|>"], "plain")
    case(byte_level_values(), "a<y>", [level["a"], 259], "plain")
    case(byte_level_values(add_bos_token=True, add_eos_token=True), "ab", [258, 256, 259])
    case(byte_level_values(pre="llama-bpe"), "ab", [258, 256])                       # adds bos unless told otherwise
    case(byte_level_values(pre="llama-bpe", add_bos_token=False), "ab", [256])
    case(byte_level_values(pre=None), "abc", [257])
    case(byte_level_values(token_type=None), "ab<|x|>", [256, 258])                    # bos is special by its id
    case(byte_level_values(pre="smollm"), "12", [level["1"], level["2"]])
    spm = {t: i for i, t in enumerate(spm_values()["tokenizer.ggml.tokens"])}
    a, blank, ab = spm["a"], spm[META], spm["ab"]
    case(spm_values(), "ab", [1, spm[META + "a"], spm["b"]])
    case(spm_values(add_space_prefix=False, add_bos_token=False), "ab", [ab])
    case(spm_values(add_eos_token=True), "a", [1, spm[META + "a"], 2])
    case(spm_values(add_bos_token=False), "\n", [blank, spm["<0x0A>"]])
    case(spm_values(add_bos_token=False), "a<|user|> a", [spm[META + "a"], spm["<|user|>"], blank, spm[META + "a"]])
    case(spm_values(add_bos_token=False), "a<u>a", [spm[META + "a"], spm["<u>"], spm[META + "a"]], "plain")
    phi = {"general.name": "Phi-3 mini"}
    case(spm_values(add_bos_token=False, **phi), "a<|user|>  \na", [spm[META + "a"], spm["<|user|>"], spm[META + "a"]])
    case(spm_values(add_bos_token=False, **phi), "<|endoftext|> a", [spm["<|endoftext|>"], blank, spm[META + "a"]])
    case(spm_values(add_bos_token=False, token_type=None, unknown_token_id=0), "a\n", [spm[META + "a"], spm["<0x0A>"]])
    case(spm_values(add_bos_token=False, remove_extra_whitespaces=True), " a  a ", [spm[META + "a"], spm[META + "a"]])
    case(spm_values(bos_token_id=9999), "a", [spm[META + "a"]])
    for values, words in ((byte_level_values(pre="nonsense"), "nonsense"), (byte_level_values(model="bert"), "bert"), (byte_level_values(merges=["a q?"]), "q?"),
                          (byte_level_values(merges=["ab"]), "two pieces"), (byte_level_values(token_type=[1]), "token_type"), (byte_level_values(merges=None), "merges"),
                          (byte_level_values(tokens=5), "tokens"), (byte_level_values(tokens=[]), "tokens"), (spm_values(scores=[0.0]), "scores"),
                          (spm_values(scores=[float("nan")] * 267), "NaN"), (spm_values(token_type=[6] * 267), "<0xNN>"), (byte_level_values(add_bos_token=5), "add_bos_token"),
                          (byte_level_values(model="no_vocab"), "neither")):
        n += 1
        p = subprocess.run([str(TBLOCK), "tokenize", str(gguf_file(temp / "bad.gguf", values)), "--text", "a"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if p.returncode != 3 or p.stderr.count(b"\n") != 1 or words.encode() not in p.stderr or b"bad.gguf" not in p.stderr:
            raise Failure("case %d: expected one line with '%s', found status %d: %s" % (n, words, p.returncode, p.stderr.decode(errors="replace")))
    return "%d cases" % n


def gguf_broken(temp):
    """Cut or changed at random places: a tokenizer, or one line that names the file."""
    rng, sound = random.Random(11), 0
    for data in gguf_file(temp / "level.gguf", byte_level_values()).read_bytes(), gguf_file(temp / "spm.gguf", spm_values()).read_bytes():
        for text in mutations(data, rng):
            (temp / "broken.gguf").write_bytes(text)
            p = subprocess.run([str(TBLOCK), "tokenize", str(temp / "broken.gguf"), "--text", "ab c"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               timeout=600)
            if p.returncode not in (0, 3) or p.stderr.count(b"\n") != (p.returncode == 3):
                raise Failure("status %d: %s" % (p.returncode, p.stderr.decode(errors="replace")[-300:]))
            sound += p.returncode == 0
    return "%d files, %d still sound" % (2 * N_BROKEN, sound)


def all_names(temp):
    """Every way to split a text that is known by a name compiles and gives back the text."""
    source_text = (ROOT / "src/tokenizer/gguf_pre.c").read_text()
    names = [line.split('"')[1] for part in source_text.split("known[] =")[1].split("bool ")[0].split("{ \"")[1:] for line in ['"' + part]]
    text = "Hello, World's 12345 \u00e9t\u00e9 \u4e16\u754c\n\n  x_y \u0e01\u0e33 '\u0301 \u3042\u3044 ABCdef\t!"
    for name in names:
        model = gguf_file(temp / "name.gguf", byte_level_values(pre=name, add_bos_token=False))
        ids = ask(model, [{"text": text}], temp)[0]["ids"]
        if ask(model, [{"ids": ids}], temp)[0]["text"] != text:
            raise Failure("%s: the text does not come back" % name)
    if len(names) < 40:
        raise Failure("only %d names" % len(names))
    return "%d names" % len(names)


# ---- all ----

def tests():
    """(name, what has to be there, function of a folder)"""
    for name, path, pattern in published():
        yield "same_%s" % name.replace(" ", "_"), path, lambda t, p=path, q=pattern: compare(p, t, q) and (_ for _ in ()).throw(Failure("refused"))
    yield "variations", MAKE, all_variations
    yield "broken_files", MAKE, broken
    yield "gguf_settings", MAKE, gguf_settings
    yield "gguf_broken", MAKE, gguf_broken
    yield "gguf_names", MAKE, all_names
    for name in "falcon", "deepseek-coder", "gpt-2", "llama-spm":
        model = DATA / "tokenizer-tests" / ("ggml-vocab-%s.gguf" % name)
        yield "gguf_pairs_%s" % name, model, lambda t, m=model: pairs(m, t)
    for file, name in ("gpt-2", "gpt2"), ("llama-spm", "llama2"):
        model = DATA / "tokenizer-tests" / ("ggml-vocab-%s.gguf" % file)
        yield "gguf_reference_%s" % name, model, lambda t, m=model, n=name: reference(m, n, t)
    model = FIXTURES / "gguf/llama3-e2e-bf16/model.gguf"
    yield "gguf_as_llama3-e2e", model, lambda t, m=model: same_as(m, ROOT / "tests/data/models/llama3-e2e/tokenizer.json", t)


def main():
    failed = False
    for name, needed, run in tests():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        if not needed.exists():
            print("skip %s: no data (%s)" % (name, needed))
            continue
        try:
            with tempfile.TemporaryDirectory(prefix="tblock-test-") as folder:
                note = run(pathlib.Path(folder))
            print("ok %s%s" % (name, " (%s)" % note if isinstance(note, str) else ""))
        except Failure as why:
            failed = True
            print("FAIL %s: %s" % (name, str(why).replace("\n", " ")))
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
