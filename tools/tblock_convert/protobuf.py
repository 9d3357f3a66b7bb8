"""Just enough of the protocol buffer wire format to read tokenizer.model (sentencepiece_model.proto)."""
import struct

from .errors import bad

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a varint without end")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data, file):
    """Yield (field number, value): an int, or bytes for lengths and fixed sizes. Groups are refused (long out of use)."""
    at = 0
    try:
        while at < len(data):
            key, at = varint(data, at)
            wire = key & 7
            if wire == VARINT:
                value, at = varint(data, at)
            elif wire in (FIXED64, BYTES, FIXED32):
                n, at = varint(data, at) if wire == BYTES else (8 if wire == FIXED64 else 4, at)
                if n > len(data) - at:
                    raise ValueError("a field longer than the file")
                value, at = data[at:at + n], at + n
            else:
                raise ValueError("wire type %d" % wire)
            if key >> 3 == 0:
                raise ValueError("field number 0")
            yield key >> 3, value
    except ValueError as e:
        raise bad(file, "", "a SentencePiece model (protocol buffer)", str(e))


def message(data, file):
    """{field number: last value} of a message without repeated fields."""
    return dict(fields(data, file))


def float32(value):
    return struct.unpack("<f", value)[0]
