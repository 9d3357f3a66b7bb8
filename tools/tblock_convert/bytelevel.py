"""What byte-level BPE vocabularies share: the printable stand-ins of the bytes, and the split patterns that are known by a
name, for files that do not hold their own."""

# ByteLevel's own split (tokenizers: pre_tokenizers/byte_level.rs), which GPT-2 wrote; tiktoken's r50k and p50k.
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# meta-llama/llama-models, models/llama3/tokenizer.py; tiktoken's cl100k cuts the same (tiktoken_ext/openai_public.py)
LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                  r"\s*[\r\n]+|\s+(?!\S)|\s+")
# transformers, models/qwen2/tokenization_qwen2.py; the text is in NFC
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
# tiktoken_ext/openai_public.py, o200k_base
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K_PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _ENDING +
                 r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _ENDING +
                 r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = {"gpt2": GPT2_PATTERN, "llama3": LLAMA3_PATTERN, "cl100k": LLAMA3_PATTERN, "o200k": O200K_PATTERN, "qwen2": QWEN2_PATTERN}


def byte_characters():
    """{character: byte}: the printable stand-ins of the 256 bytes (openai/gpt-2, encoder.py, bytes_to_unicode)."""
    plain = list(range(0x21, 0x7F)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    other = [b for b in range(256) if b not in plain]
    table = {chr(b): b for b in plain}
    table.update((chr(256 + n), b) for n, b in enumerate(other))
    return table


BYTE_OF = byte_characters()


def raw_bytes(piece):
    """The bytes that a vocabulary entry stands for; None if it holds a character that stands for no byte."""
    try:
        return bytes([BYTE_OF[c] for c in piece])
    except KeyError:
        return None


def split(regex, behavior="isolated", invert=False):
    """A pretokenize step of the model file."""
    return {"regex": regex, "behavior": behavior, "invert": invert}


def settings(name):
    """The settings of a vocabulary whose pattern is known by name."""
    result = {"pretokenize": [split(PATTERNS[name])], "add_prefix_space": False}
    if name == "qwen2":
        result["normalizer"] = [{"form": "nfc"}]
    return result
