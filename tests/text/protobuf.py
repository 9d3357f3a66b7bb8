"""Just enough of the protocol buffer wire format to read a SentencePiece model."""


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def message(data):
    """{field number: last value}: an int, or bytes."""
    result, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            result[key >> 3], at = varint(data, at)
            continue
        n, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
        result[key >> 3], at = data[at:at + n], at + n
    return result
