"""A tokenizer in memory, and its form in the model file: the metadata object and the tok.* tensors with their hash tables
(docs/format.md, section Tokenizer)."""
import json

import numpy as np

from .errors import bad
from . import trie

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
LARGEST_SIZE = 1 << 22


class Vocab:
    """type: spm, spm_unigram, bpe, bpe_char or unigram (docs/format.md). pieces: raw bytes by id; types, scores; merges
    [(left, right, merged)] of the bpe types. indexed: the ids whose bytes can be looked up. special: {id: flags}. charsmap:
    {bytes: replacement}. spelled: {text: id} of the base vocabulary as its file spells it, where that is not SentencePiece's.
    settings: the other keys of the metadata object."""

    def __init__(self, file, kind):
        self.file, self.type = file, kind
        self.pieces, self.types, self.scores, self.merges = [], [], [], []
        self.indexed = []
        self.special, self.charsmap, self.spelled = {}, {}, {}
        self.bos = self.eos = self.unk = -1
        self.prefix, self.suffix = [], []
        self.settings = {}
        self.warnings = []

    def size(self):
        return len(self.pieces)

    def add(self, i, piece, type_):
        """A token of a given id: at the end or in a hole. Ids that no token has are unused and without bytes."""
        if not 0 <= i < LARGEST_SIZE:
            raise bad(self.file, "token id", "0 to %d" % (LARGEST_SIZE - 1), i)
        while len(self.pieces) <= i:
            self.pieces.append(b"")
            self.types.append(UNUSED)
            self.scores.append(0.0)
        self.pieces[i], self.types[i] = piece, type_

    def add_special(self, i, special=True, **flags):
        """A token matched as a whole. The first word on an id holds, so that files may repeat each other."""
        if i not in self.special:
            self.special[i] = dict(flags, special=special)

    def find(self, piece):
        """The id of a token by its bytes, added tokens included; None."""
        if not hasattr(self, "_find"):
            self._find = {}
            for i, p in enumerate(self.pieces):
                if p:
                    self._find.setdefault(p, i)
        return self._find.get(piece)

    def changed(self):
        self.__dict__.pop("_find", None)

    def metadata(self):
        """The value of the metadata key `tokenizer`."""
        flags = ("lstrip", "rstrip", "single_word", "normalized")
        special = []
        for i in sorted(self.special):
            entry = {"id": i}
            entry.update((f, True) for f in flags if self.special[i].get(f))
            if not self.special[i]["special"]:
                entry["special"] = False
            special.append(entry)
        result = {"type": self.type, "size": self.size(), "bos": self.bos, "eos": self.eos, "unk": self.unk,
                  "prefix": self.prefix, "suffix": self.suffix, "special": special}
        result.update(self.settings)
        return json.dumps(result, separators=(",", ":"))

    def tensors(self):
        """[(name, dtype, array)] in file order."""
        offsets = np.zeros(self.size() + 1, np.int64)
        np.cumsum([len(p) for p in self.pieces], out=offsets[1:])
        if offsets[-1] >= 1 << 32:
            raise bad(self.file, "pieces", "less than 4 GiB of bytes", int(offsets[-1]))
        result = [("tok.bytes", "U8", np.frombuffer(b"".join(self.pieces), np.uint8)),
                  ("tok.offsets", "U32", offsets.astype("<u4")),
                  ("tok.types", "U8", np.array(self.types, np.uint8))]
        if not self.merging():
            result.append(self._scores())
        # of equal pieces the first, or the last where the library for Unigram reads the vocabulary into a map
        order = self.indexed if self.type == "unigram" else reversed(self.indexed)
        ids = list({self.pieces[i]: i for i in order if self.pieces[i]}.values())
        ids.sort()
        result.append(("tok.index", "I32", hash_table(fnv1a64([self.pieces[i] for i in ids]), ids)))
        if self.merging():
            merges = np.array(self.merges, "<u4").reshape(-1, 3)
            result.append(("tok.merges", "U32", merges))
            result.append(("tok.merge_index", "I32", hash_table(hash_pairs(merges), range(len(merges)))))
        if self.type in ("spm_unigram", "unigram"):
            result += _trie("tok.trie", {self.pieces[i]: i for i in ids})
        if self.charsmap:
            result += self._charsmap()
        return result

    def sentencepiece(self):
        """Does it go by SentencePiece's rules, not by those of the library tokenizers?"""
        return self.type in ("spm", "spm_unigram")

    def merging(self):
        """Does it merge by rank, or go by scores?"""
        return self.type in ("bpe", "bpe_char")

    def _scores(self):
        """F32, unless a unigram tokenizer.json has scores that need all of a double."""
        scores = np.array(self.scores, "<f8")
        with np.errstate(over="ignore"):
            short = scores.astype("<f4")
        if self.type == "unigram" and (short.astype("<f8") != scores).any():
            return "tok.scores", "F64", scores
        return "tok.scores", "F32", short

    def _charsmap(self):
        texts = sorted(set(self.charsmap.values()))
        number = {text: n for n, text in enumerate(texts)}
        offsets = np.cumsum([0] + [len(t) for t in texts]).astype("<u4")
        return _trie("tok.charsmap", {key: number[text] for key, text in self.charsmap.items()}) + [
            ("tok.charsmap_bytes", "U8", np.frombuffer(b"".join(texts), np.uint8)), ("tok.charsmap_offsets", "U32", offsets)]


def _trie(name, items):
    nodes, labels = trie.build(items)
    return [(name, "U32", nodes), (name + "_labels", "U8", labels)]


def fnv1a64(pieces):
    """FNV-1a of each piece, as uint64: one step for all pieces at once, byte by byte."""
    h = np.full(len(pieces), 0xCBF29CE484222325, np.uint64)
    lengths = np.array([len(p) for p in pieces], np.int64)
    data = np.frombuffer(b"".join(pieces), np.uint8)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1])) if len(pieces) else lengths
    alive = np.arange(len(pieces))
    step = 0
    while True:
        alive = alive[lengths[alive] > step]
        if not len(alive):
            return h
        h[alive] = (h[alive] ^ data[starts[alive] + step]) * np.uint64(0x100000001B3)
        step += 1


def hash_pairs(merges):
    left, right = merges[:, 0].astype(np.uint64), merges[:, 1].astype(np.uint64)
    h = left * np.uint64(0x9E3779B97F4A7C15) + right * np.uint64(0xC2B2AE3D27D4EB4F)
    return h ^ (h >> np.uint64(32))


def hash_table(hashes, values):
    """Open addressing with linear probing, inserted in the order given; keys are distinct."""
    slots = 16
    while slots < 2 * len(hashes):
        slots *= 2
    table = [-1] * slots
    for slot, value in zip((hashes & np.uint64(slots - 1)).tolist(), values):
        while table[slot] >= 0:
            slot = (slot + 1) & (slots - 1)
        table[slot] = value
    return np.array(table, "<i4")
