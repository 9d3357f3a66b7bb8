"""SentencePiece's precompiled_charsmap: u32 length, a double-array trie of that many bytes (s-yata/darts-clone), then the
replacements, each ended by NUL; the trie's values are their offsets (sentencepiece: src/normalizer.cc)."""
import struct

import numpy as np

from .errors import bad

LONGEST_RULE, MOST_RULES = 128, 1 << 20


def rules(blob, file, thing):
    """{bytes: replacement} of a blob."""
    n = struct.unpack_from("<I", blob)[0] if len(blob) > 4 else 0
    if not n or n % 4 or n >= len(blob) - 4:
        raise bad(file, thing, "a trie of 4 to %d bytes" % max(4, len(blob) - 5), "%d bytes" % n)
    units = np.frombuffer(blob, "<u4", n // 4, 4).astype(np.int64)
    texts = blob[4 + n:]
    if texts[-1:] != b"\0":
        raise bad(file, thing, "replacements that end with NUL", "other bytes")
    result = {}
    for key, at in _keys(units, file, thing):
        if at >= len(texts):
            raise bad(file, thing, "offsets under %d" % len(texts), at)
        result[key] = texts[at:texts.index(b"\0", at)]
    return result


def _offset(units):
    return (units >> 10) << ((units & (1 << 9)) >> 6)


def _keys(units, file, thing):
    """Yield (key, value): all nodes of one depth at once."""
    found, labels = 0, np.arange(1, 256)
    keys, at = [b""], _offset(units[:1])
    for _ in range(LONGEST_RULE):
        if not len(keys):
            return
        next_keys, next_at = [], []
        for first in range(0, len(keys), 4096):
            part = at[first:first + 4096, None] ^ labels
            if (part >= len(units)).any():
                part = np.where(part < len(units), part, 0)   # past the end: label 0 of the root is no child
            child = units[part]
            row, column = np.nonzero((child & (1 << 31 | 0xFF)) == labels)
            child = child[row, column]
            place = part[row, column] ^ _offset(child)
            if (place >= len(units)).any():
                raise bad(file, thing, "a trie whose nodes lie inside", "a node past its end")
            names = [keys[first + r] + bytes([c + 1]) for r, c in zip(row.tolist(), column.tolist())]
            leaf = (child >> 8) & 1
            values = (units[place] & 0x7FFFFFFF).tolist()
            for i in np.nonzero(leaf)[0].tolist():
                yield names[i], values[i]
            found += len(names)
            if found > MOST_RULES:
                raise bad(file, thing, "at most %d nodes" % MOST_RULES, "more")
            next_keys += names
            next_at.append(place)
        keys, at = next_keys, np.concatenate(next_at)
    raise bad(file, thing, "rules of at most %d bytes" % LONGEST_RULE, "longer ones")
