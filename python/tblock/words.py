"""The library's messages name options as the program has them; here they become what one writes in Python."""
from __future__ import annotations

import re

from ._c import ffi, lib

_PHRASES = [(re.compile(found), words) for found, words in (
    (r"--chat-format NAME or FILE", "format=NAME or the text of a template"),
    (r"tblock quantize --requantize", "tblock.quantize(..., requantize=True)"),
    (r"`tblock train -o OUT --resume`", "tblock.train(OUT, resume=True)"),
    (r"tblock eval --against", "Context.eval_against"),
    (r"\b(by|and) --lora\b", r"\1 model.load_lora(PATH)"),
    (r"give it to quantize by --imatrix", "tblock.quantize(..., imatrix=PATH) takes it"),
    (r"tblock synth CONFIG -o FILE", "tblock.synth(CONFIG, FILE)"),
    (r"use tblock info", "use tblock.info"),
    (r"\(tblock embed\)", "(Model.embed)"),
    (r" \(--ids\)", ""),
    (r"(?<![\w-])--resume\b", "resume=True"))]

# An option of the program in a sentence, and its value if it is one: a number, a type, or what stands for one.
_OPTION = re.compile(r"(?<![^\s`('])--([a-z]{2,}(?:-[a-z]+)*)\b(?: (?:(\d+|[A-Z]+)|(auto|[a-z]+\d+))\b)?")
_RENAMED = {"chat-format": "format", "ctx": "n_ctx"}


def _names() -> dict[str, str]:
    out, row = {"kv-type": "kv_type", "chat format": "format", "stop_texts": "stop", "stop texts": "stop"}, lib.tblock_sampling_rows()
    while row.field != ffi.NULL:
        name = ffi.string(row.name).decode()
        out.update({ffi.string(row.option).decode(): name, ffi.string(row.field).decode(): name})
        row += 1
    return out


#: What an error may be about, as the library says it and as it is called here.
NAMES = _names()


def in_python(message: str, usage: bool = False) -> str:
    """A message of the library in words of Python. usage: it begins with what it is about, which is no file."""
    if usage:
        about, colon, rest = message.partition(": ")
        message = re.sub(r"^stop text (\d+):", r"stop[\1]:", NAMES.get(about, about) + colon + rest)
    for found, words in _PHRASES:
        message = found.sub(words, message)

    def option(o: "re.Match[str]") -> str:
        name = _RENAMED.get(o[1], o[1].replace("-", "_"))
        return name + ("=" + o[2] if o[2] else '="%s"' % o[3] if o[3] else "")
    return _OPTION.sub(option, message)
