#!/usr/bin/env python3
"""`tblock convert`: tokenizer files, look-ups in the tables, ids, templates and added tokens."""
import json
import os
import re
import sys

import harness
from harness import (Skip, if_there, need, temp, convert, converted, refused, ModelFile, made, bpe_json, token_file,
                     MODELS, DATA, TOKENIZERS)
import testdata
import numpy as np


def fnv(piece):
    h = 0xCBF29CE484222325
    for b in piece:
        h = (h ^ b) * 0x100000001B3 % (1 << 64)
    return h


class Vocabulary:
    """The tokenizer of a model file, with look-ups as docs/format.md defines them."""

    def __init__(self, m):
        self.settings = m.tokenizer
        data, offsets = m.bits("tok.bytes").tobytes(), m.bits("tok.offsets").tolist()
        self.pieces = [data[a:b] for a, b in zip(offsets, offsets[1:])]
        self.types = m.bits("tok.types").tolist()
        self.index = m.bits("tok.index").tolist()
        if self.settings["type"] == "spm":
            self.scores = m.bits("tok.scores").view("<f4")
        else:
            self.merges, self.merge_index = m.bits("tok.merges").tolist(), m.bits("tok.merge_index").tolist()
        assert len(self.pieces) == len(self.types) == self.settings["size"] and offsets[-1] == len(data)

    def find(self, piece):
        at = fnv(piece) % len(self.index)
        while self.index[at] >= 0:
            if self.pieces[self.index[at]] == piece:
                return self.index[at]
            at = (at + 1) % len(self.index)
        return -1

    def find_merge(self, left, right):
        h = (left * 0x9E3779B97F4A7C15 + right * 0xC2B2AE3D27D4EB4F) % (1 << 64)
        at = (h ^ h >> 32) % len(self.merge_index)
        while self.merge_index[at] >= 0:
            if self.merges[self.merge_index[at]][:2] == [left, right]:
                return self.merge_index[at]
            at = (at + 1) % len(self.merge_index)
        return -1

    def encode_spm(self, text):
        """SentencePiece BPE, plainly: merge the best neighbours until there are none."""
        s = self.settings
        if s["remove_extra_whitespaces"]:
            text = b" ".join(w for w in text.split(b" ") if w)
        if s["add_dummy_prefix"] and text:
            text = b" " + text
        if s["escape_whitespaces"]:
            text = text.replace(b" ", "\u2581".encode())
        parts = [c.encode() for c in text.decode()]
        while True:
            best = None
            for i in range(len(parts) - 1):
                j = self.find(parts[i] + parts[i + 1])
                if j >= 0 and (best is None or self.scores[j] > best[0]):
                    best = (self.scores[j], i)
            if best is None:
                break
            parts[best[1]:best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]
        ids = []
        byte = {p: i for i, p in enumerate(self.pieces) if self.types[i] == 6}
        for p in parts:
            i = self.find(p)
            if i < 0 and s["byte_fallback"]:
                ids.extend(byte[bytes([b])] for b in p)
            else:
                ids.append(i if i >= 0 else s["unk"])
        return ids

    def encode_bpe(self, text, regex):
        pieces = [text]
        for step in self.settings["pretokenize"]:
            assert step["behavior"] == "isolated" and not step["invert"]
            pieces = [q for p in pieces for q in split_isolated(regex, step["regex"], p)]
        ids = []
        for p in pieces:
            p = p.encode()
            whole = self.find(p) if self.settings["ignore_merges"] else -1
            word = [whole] if whole >= 0 else [self.find(bytes([b])) for b in p]
            while len(word) > 1:
                rows = [(self.find_merge(a, b), i) for i, (a, b) in enumerate(zip(word, word[1:]))]
                rows = [r for r in rows if r[0] >= 0]
                if not rows:
                    break
                row, i = min(rows)
                word[i:i + 2] = [self.merges[row][2]]
            ids.extend(word)
        return ids


def split_isolated(regex, pattern, text):
    # Python spells a character by its code point in another way than Oniguruma
    pattern = re.sub(r"\\x\{([0-9A-F]+)\}", lambda m: "\\U%08X" % int(m.group(1), 16), pattern)
    result, at = [], 0
    for m in regex.finditer(pattern, text):
        result += [text[at:m.start()], m.group()]
        at = m.end()
    return [p for p in result + [text[at:]] if p]


def cases(name):
    for line in open(os.path.join(TOKENIZERS, name, "cases.jsonl")):
        case = json.loads(line)
        if "text" in case and "ids" in case and case["mode"] != "decode" and not case.get("add_special") and len(case["text"]) < 300:
            yield case


def test_sentencepiece_vocabularies_give_the_recorded_ids():
    for name in ("llama2-sp", "sp-bpe", "stories-sp512"):
        with if_there():
            v = Vocabulary(converted(need(TOKENIZERS, name, "tokenizer.model")))
            n = 0
            for case in cases(name):
                if "\x00" in case["text"] or "\u2581" in case["text"]:   # the library strips a written U+2581 like a space
                    continue
                got = v.encode_spm(case["text"].encode())
                assert got == case["ids"], "%s %r: %s, expected %s" % (name, case["text"], got, case["ids"])
                n += 1
            assert n > 100


def test_byte_level_vocabularies_give_the_recorded_ids():
    try:
        import regex
    except ImportError:
        raise Skip("no regex package (it knows \\p{L})")
    for name in ("bpe-gpt2", "bpe-llama3", "bpe-smollm", "llama3-tiktoken"):
        with if_there():
            file = "tokenizer.model" if name == "llama3-tiktoken" else "tokenizer.json"
            v = Vocabulary(converted(need(TOKENIZERS, name, file)))
            special = [v.pieces[s["id"]].decode() for s in v.settings["special"]]
            n = 0
            for case in cases(name):
                if any(s in case["text"] for s in special):
                    continue
                got = v.encode_bpe(case["text"], regex)
                assert got == case["ids"], "%s %r: %s, expected %s" % (name, case["text"], got, case["ids"])
                n += 1
            assert n > 100


def test_every_piece_and_merge_is_found_in_the_hash_tables():
    for path in (("llama3-e2e",), ("stories260K",)):
        with if_there():
            v = Vocabulary(converted(need(MODELS, *path)))
            slots = len(v.index)
            assert slots & (slots - 1) == 0 and 2 * sum(i >= 0 for i in v.index) <= slots
            for i, p in enumerate(v.pieces):
                if v.types[i] == 1:
                    assert v.find(p) >= 0 and v.pieces[v.find(p)] == p
            if v.settings["type"] == "bpe":
                for n, (a, b, c) in enumerate(v.merges):
                    assert v.find_merge(a, b) == n and v.pieces[a] + v.pieces[b] == v.pieces[c]


def test_templates_and_special_tokens():
    m = converted(need(MODELS, "llama3-e2e"))
    t = m.tokenizer
    assert (t["bos"], t["eos"], t["prefix"], t["suffix"]) == (507, 508, [507], [])
    assert [s["id"] for s in t["special"]] == [507, 508, 509, 510, 511] and t["ignore_merges"]
    v = Vocabulary(m)
    assert v.pieces[507] == b"<|begin_of_text|>" and v.types[507] == 3 and v.find(v.pieces[507]) < 0
    with if_there():
        t = converted(need(MODELS, "stories260K")).tokenizer
        assert (t["bos"], t["eos"], t["unk"], t["prefix"]) == (1, 2, 0, [1]) and t["remove_extra_whitespaces"]
    with if_there():
        t = converted(need(testdata.TEST_DATA, "models", "shakespeare")).tokenizer
        assert (t["size"], t["bos"], t["eos"], t["prefix"]) == (1024, 0, 1, [])


def test_byte_level_traps():
    v = Vocabulary(converted(token_file(bpe_json())))
    assert v.settings["special"] == [{"id": 258, "lstrip": True}] and v.pieces[258] == b"<|x|>"
    assert v.pieces[v.find(b"abc")] == b"abc" and v.merges[1] == [256, v.find(b"c"), 257]
    assert sorted(v.pieces[:256]) == [bytes([b]) for b in range(256)]
    v = Vocabulary(converted(token_file(bpe_json(added_tokens=[{"id": 300, "content": "<y>"}]))))   # a hole
    assert v.settings["size"] == 301 and v.types[299] == 5 and v.pieces[299] == b"" and v.settings["special"] == [
        {"id": 300, "special": False}]
    v = Vocabulary(converted(token_file(bpe_json(model__merges=["a b", "ab c", "a b"]))))   # the later of two holds
    assert [m[2] for m in v.merges] == [257, 256]
    split = {"type": "Split", "pattern": {"String": "a.b"}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    digits = {"type": "Digits", "individual_digits": True}
    v = converted(token_file(bpe_json(pre_tokenizer={"type": "Sequence", "pretokenizers": [split, digits, level]})))
    assert v.tokenizer["pretokenize"] == [{"regex": "a\\.b", "behavior": "isolated", "invert": False},
                                          {"regex": "[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]",
                                           "behavior": "isolated", "invert": False}]

    def case(expected, **changes):
        refused(token_file(bpe_json(**changes)), "tokenizer.json", *expected)
    unknown = json.loads(bpe_json())
    unknown["surprise"] = 1
    refused(token_file(json.dumps(unknown).encode()), "tokenizer.json", "unknown key surprise")
    assert converted(token_file(bpe_json(normalizer={"type": "NFC"}))).tokenizer["normalizer"] == [{"form": "nfc"}]
    case(("normalizer", "'StripAccents'"), normalizer={"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "StripAccents"}]})
    for change, expected in ({"behavior": "Torn"}, "'Torn'"), ({"pattern": {"x": "y"}}, "'x'"), ({"pattern": {"Regex": "a$"}}, "'$'"), \
            ({"pattern": {"Regex": "\\h"}}, "'\\h'"), ({"pattern": {"Regex": "[a&&b]"}}, "&&"), ({"pattern": {"Regex": "[a[b]]"}}, "[ in ["):
        case((expected,), pre_tokenizer={"type": "Sequence", "pretokenizers": [dict(split, **change), level]})
    case(("model.type", "'WordPiece'"), model__type="WordPiece")
    case(("pre_tokenizer", "'UnicodeScripts'"), pre_tokenizer={"type": "UnicodeScripts"})
    case(("decoder", "'ByteLevel'"), pre_tokenizer=None)
    case(("decoder", "'WordPiece'"), decoder={"type": "WordPiece"})
    case(("pre_tokenizer", "ByteLevel as the last"), pre_tokenizer={"type": "Sequence", "pretokenizers": [level, digits]})
    for kind in "BertProcessing", "RobertaProcessing":
        case(("post_processor", "'%s'" % kind), post_processor={"type": kind})
    case(("model.dropout", "0.1"), model__dropout=0.1)
    case(("continuing_subword_prefix", "'##'"), model__continuing_subword_prefix="##")
    case(("model.merges: entry 0", "'q?'"), model__merges=["q ?"])
    case(("model.merges: entry 0", "two pieces"), model__merges=["abc"])
    case(("vocab", "an id of its own"), model__vocab__ab=3)
    case(("an id of its own", "'ab'"), added_tokens=[{"id": 256, "content": "<z>"}])
    case(("half a surrogate",), added_tokens=[{"id": 258, "content": "\ud800"}])


def test_an_added_token_spelled_like_a_piece_does_not_take_its_bytes():
    """Ids and texts are those of the tokenizers library, where the token's content is only what is looked for in the text."""
    import tokenizers
    e9, newline = (json.loads(bpe_json())["model"]["vocab"][c] for c in ("\u00e9", "\u010a"))
    spelled = json.loads(bpe_json())["model"]["vocab"]
    spelled.update({"\u0120a": 258, "\u0120ab": 259})
    added = [{"id": e9, "content": "\u00e9", "special": True}, {"id": newline, "content": "\u010a"},
             {"id": 259, "content": "\u0120ab"}, {"id": 260, "content": "<|x|>", "special": True}]
    for a in added:
        for flag in ("special", "single_word", "lstrip", "rstrip", "normalized"):
            a.setdefault(flag, False)
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}
    data = bpe_json(added_tokens=added, pre_tokenizer=level, decoder=level, model__vocab=spelled, model__merges=["\u0120 a", "\u0120a b"])
    model = token_file(data)
    m = converted(model)
    v, library = Vocabulary(m), tokenizers.Tokenizer.from_str(data.decode())
    assert v.settings["special"][:3] == [{"id": e9, "text": "\u00e9"}, {"id": newline, "text": "\u010a", "special": False},
                                         {"id": 259, "text": "\u0120ab", "special": False}], v.settings["special"]
    assert v.pieces[e9] == b"\xe9" and v.pieces[newline] == b"\n" and v.pieces[259] == b" ab" and v.find(b"\xe9") == e9
    texts = ["\u9000", "\u00e9", "e\u00e9\u9000\u00e9", "\n", "\u010a", "a\n\u010a\nb", "ab ab", "x\u0120ab ab",
             "<|x|>\u00e9 <|x|>", "\u9003\u9fff ab\n"]
    rng = np.random.default_rng(3)
    texts += ["".join(rng.choice(["\u00e9", "\u010a", "\n", "\u9000", "\u9fa5", " ab", "\u0120ab", "a", " ", "<|x|>", "\u00c3"], 12))
              for _ in range(300)]
    for mode in "special", "plain":
        library.encode_special_tokens = mode == "plain"
        want = [library.encode(t, add_special_tokens=False).ids for t in texts]
        for source in model, temp("out.bin"):
            lines = [json.dumps({"text": t, "mode": mode, "add_special": False}) for t in texts] + [json.dumps({"ids": ids}) for ids in want]
            with open(temp("lines"), "w") as f:
                f.write("\n".join(lines) + "\n")
            done = harness.tblock("tokenize", source, "--jsonl", temp("lines"))
            assert done.returncode == 0, done.stderr
            answers = [json.loads(line) for line in done.stdout.splitlines()]
            assert [a["ids"] for a in answers[:len(texts)]] == want, [x for x in zip(texts, want, answers) if x[1] != x[2]["ids"]][:3]
            shown = [bytes.fromhex(a["bytes_hex"]).decode(errors="replace") for a in answers[len(texts):]]
            assert shown == [library.decode(ids, skip_special_tokens=False) for ids in want]
    assert library.encode("\u9000").ids[0] == e9


def test_vocab_json_and_merges_txt():
    root = json.loads(bpe_json())["model"]
    merges = "#version: 0.2\n" + "".join((m if isinstance(m, str) else " ".join(m)) + "\n" for m in root["merges"])
    folder = temp("gpt2")
    os.makedirs(folder)
    for name, text in ("vocab.json", json.dumps(root["vocab"])), ("merges.txt", merges):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    refused(folder, "tokenizer_class", "--pattern NAME")
    whole = Vocabulary(converted(token_file(bpe_json())))
    for src in folder, os.path.join(folder, "vocab.json"):
        v = Vocabulary(converted(src, "--pattern", "qwen2"))
        assert v.merges == whole.merges and v.settings["normalizer"] == [{"form": "nfc"}]
    refused(token_file(bpe_json()), "pattern", options=("--pattern", "gpt2"), status=2)
    for name, text in ("tokenizer_config.json", json.dumps({"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": True})), \
            ("merges.txt", "a\n"):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
        if name == "tokenizer_config.json":
            assert converted(folder).tokenizer["add_prefix_space"]
    refused(folder, "merges.txt merge 0", "two pieces")


def test_sentencepiece_vocabularies_in_tokenizer_json():
    source = need(TOKENIZERS, "spjson-legacy", "tokenizer.json")
    v = Vocabulary(converted(source))
    assert v.settings["type"] == "bpe_char" and v.settings["byte_fallback"] and v.settings["decode_strip"] == "space"
    assert v.settings["normalizer"] == [{"prepend": "\u2581"}, {"replace": " ", "with": "\u2581"}] and v.types.count(6) == 256
    root = json.load(open(source))

    def changed(**parts):
        return token_file(json.dumps(dict(root, **parts)).encode())
    fewer = {k: i for k, i in root["model"]["vocab"].items() if k != "<0x41>"}
    refused(changed(model=dict(root["model"], vocab=fewer)), "byte_fallback", "255")
    refused(changed(decoder=None), "decoder", "null")
    refused(changed(decoder={"type": "BPEDecoder"}), "decoder", "'BPEDecoder'")
    refused(changed(pre_tokenizer={"type": "Metaspace", "replacement": "_"}), "replacement")
    for scores, dtype in ((-1.5, -2.25), "F32"), ((-1.1, -2.2), "F64"):
        m = converted(changed(model={"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", scores[0]], ["\u2581", scores[1]]]},
                              added_tokens=[], post_processor=None))
        assert m.tokenizer["type"] == "unigram" and m.header["tok.scores"]["dtype"] == dtype
    # of equal pieces the last, as the library tokenizers 0.23.3 has it: "ab" is [3, 2]
    m = converted(changed(model={"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -1.0], ["b", -1.5], ["a", -2.0]]},
                          added_tokens=[], post_processor=None))
    index = m.bits("tok.index").view("<i4")
    assert sorted(index[index >= 0]) == [0, 2, 3]
    refused(changed(model={"type": "Unigram", "unk_id": 9, "vocab": [["a", 0]]}), "unk_id")
    refused(changed(model={"type": "Unigram", "vocab": [["a", "b"]]}), "model.vocab: entry 0")


def test_sentencepiece_unigram_traps():
    unigram = need(DATA, "tokenizers", "small", "m.model")
    m = converted(unigram)
    assert m.tokenizer["type"] == "spm_unigram" and m.tokenizer["charsmap"]
    data = open(unigram, "rb").read()
    suffix, word = b"\x12\x03\xc0\x01\x01", b"\x12\x02\x18\x03"   # later trainer specs
    refused(token_file(data + suffix, "suffix.model"), "treat_whitespace_as_suffix")
    refused(token_file(data + word, "word.model"), "model type", "word")
    refused(token_file(data + b"\x2a\x0b\x12\x09\x04\0\0\0abcde", "denormalizer.model"), "denormalizer")
    refused(token_file(data + b"\x1a\x0b\x12\x09\x08\0\0\0abcde", "charsmap.model"), "precompiled_charsmap")


def test_sentencepiece_traps():
    good = open(need(TOKENIZERS, "sp-bpe", "tokenizer.model"), "rb").read()
    for at in range(0, len(good), 97):
        with open(temp("cut.model"), "wb") as f:
            f.write(good[:at])
        status, _, err = convert(temp("cut.model"))
        assert status == 3 and err.count("\n") == 1 or status == 0, err   # cut between two pieces it is a unigram model
    surface = b"\x12\x09\x18\x02\xe2\x02\x04 ?? "   # a later trainer_spec: BPE, unk_surface " ?? "
    assert converted(token_file(good + surface, "surface.model")).tokenizer["unk_surface"] == " ?? "
    path = token_file(b"!!! 0\n", "ranks.model")
    refused(path, "expected a model")
    refused(token_file(b"IQ== 0\nIQ== 1\n", "ranks.model"), "line 2")
    refused(token_file(b"IQ== 0\nIg== 1\n", "ranks.model"), "split pattern")


def test_added_tokens_of_a_folder_are_merged():
    ids = json.loads(bpe_json())["model"]["vocab"]
    files = {"tokenizer.json": bpe_json(added_tokens=[{"id": 258, "content": "<|x|>", "special": True}]),
             "tokenizer_config.json": {"bos_token": "<|x|>", "eos_token": {"content": "<|end|>"}, "add_bos_token": True,
                                       "tokenizer_class": "LlamaTokenizerFast",
                                       "added_tokens_decoder": {"259": {"content": "<|end|>", "special": True}}},
             "added_tokens.json": {"<y>": 260}}

    def grown(t):
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            t[name] = ("F32", np.zeros((261, 24), "<u4"))
    m = converted(made(config={"vocab_size": 261}, tensors=grown, files=files))
    t = m.tokenizer
    assert (t["bos"], t["eos"], t["prefix"], t["suffix"], t["size"]) == (258, 259, [258], [], 261)
    assert [(s["id"], s.get("special", True)) for s in t["special"]] == [(258, True), (259, True), (260, False)] and len(ids) == 258
    status, _, err = convert(made(files=files))
    assert status == 3 and "tokenizer: expected at most vocab_size 50 tokens, found 261" in err, err


def test_a_token_named_null_or_empty_is_none():
    """tests/text/test_make_tokenizers.py compares such folders with recorded ones."""
    token = {"tokenizer.json": bpe_json(added_tokens=[{"id": 49, "content": "<|x|>", "special": True}],
                                        model__vocab={chr(97 + i): i for i in range(20)}, model__merges=[])}

    def ids(settings, special_map=None):
        files = dict(token, **{"tokenizer_config.json": settings}, **({"special_tokens_map.json": special_map} if special_map else {}))
        t = converted(made(config={"bos_token_id": 1, "eos_token_id": 2}, files=files)).tokenizer
        return t["bos"], t["eos"]
    assert ids({}) == (1, 2)
    for none in None, "", {"content": ""}, {"content": None}:
        assert ids({"bos_token": none}) == (-1, 2) and ids({"eos_token": none}) == (1, -1), none
        assert ids({"bos_token": none, "eos_token": "<|x|>"}, {"bos_token": "<|x|>", "eos_token": none}) == (-1, 49), none
        assert ids({}, {"bos_token": none}) == (-1, 2), none
    assert ids({"bos_token": "no such piece", "eos_token": 5}) == (1, 2)
    m = converted(made(files=dict(token, **{"tokenizer_config.json": {"bos_token": None, "add_bos_token": True,
                                                                      "tokenizer_class": "LlamaTokenizerFast"}})))
    assert (m.tokenizer["bos"], m.tokenizer["prefix"]) == (-1, [])


def test_a_folder_without_a_tokenizer_converts():
    status, out, err = convert(made())
    assert status == 0 and not err and ModelFile(temp("out.bin")).tokenizer is None
    status, out, err = convert(made(files={"tekken.json": {}}))
    assert status == 0 and "tekken.json: not read" in err
    refused(made(files={"vocab.json": {}, "merges.txt": b""}), "tokenizer_class", "--pattern NAME")


if __name__ == "__main__":
    sys.exit(harness.main(globals()))
