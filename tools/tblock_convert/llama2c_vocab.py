"""tokenizer.bin of llama2.c (tokenizer.py, export): int32 longest piece, then for each id f32 score, int32 length, bytes.
The bytes have spaces for U+2581, and newlines around <s> and </s>; the settings are those that run.c builds in."""
import struct

from .errors import bad
from . import sentencepiece, vocab

BLANK = "\u2581".encode()


def looks_like(head):
    """The first piece is id 0, <unk>."""
    return head[12:17] == b"<unk>" and head[8:12] == b"\x05\0\0\0"


def load(file):
    data, path = file.read_small(), file.path
    longest = struct.unpack_from("<i", data)[0]
    v = vocab.Vocab(path, "spm")
    at = 4
    while at < len(data):
        i = v.size()
        if len(data) - at < 8:
            raise bad(path, "piece %d" % i, "a score and a length", "the end of the file")
        score, n = struct.unpack_from("<fi", data, at)
        at += 8
        if not 0 < n <= longest or n > len(data) - at or score != score:
            raise bad(path, "piece %d" % i, "1 to %d bytes" % max(1, min(longest, len(data) - at)), "%d" % n)
        _piece(v, i, data[at:at + n], score)
        at += n
    v.unk, v.bos, v.eos = 0, 1, 2
    v.prefix = [1]
    v.add_special(1)
    v.add_special(2)
    v.settings = {"add_dummy_prefix": True, "remove_extra_whitespaces": False, "escape_whitespaces": True,
                  "byte_fallback": vocab.BYTE in v.types}
    if v.size() < 3:
        raise bad(path, "", "at least <unk>, <s> and </s>", "%d pieces" % v.size())
    return v


def _piece(v, i, text, score):
    byte = sentencepiece.byte_of(text)
    if i == 0:
        v.add(i, text, vocab.UNKNOWN)
    elif i in (1, 2):
        v.add(i, text.strip(b"\n"), vocab.CONTROL)
    elif byte is not None:
        v.add(i, byte, vocab.BYTE)
    else:
        v.add(i, text.replace(b" ", BLANK), vocab.NORMAL)
        v.indexed.append(i)
    v.scores[i] = score
