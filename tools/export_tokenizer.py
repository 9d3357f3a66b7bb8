"""The tokenizer of a model file (docs/format.md, Tokenizer) as the tokenizer.json and tokenizer_config.json of a Hugging Face folder."""
import json

# ByteLevel's own split (tokenizers, pre_tokenizers/byte_level.rs)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BLANK = "\u2581"
TYPES = {"bpe", "bpe_char"}
OTHER_TYPES = {"spm": "SentencePiece, BPE", "spm_unigram": "SentencePiece, unigram", "unigram": "Unigram of a tokenizer.json"}
BYTE = 6  # of tok.types


class LeftOut(Exception):
    """Why the folder has no tokenizer; the weights are written all the same."""


# ---- Spellings ----

def byte_characters():
    """The characters that stand for bytes in a byte-level vocabulary (GPT-2)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(others)) for b in range(256)]


def decoded(raw, i):
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise LeftOut(f"token {i}: expected UTF-8, found {raw!r}") from None


class Vocabulary:
    """spelled: the text that each id has in tokenizer.json, None where it has none; inside: the ids that model.vocab holds."""

    def __init__(self, m, settings):
        import numpy as np
        n, data, offsets = settings["size"], m.raw("tok.bytes")[1], np.frombuffer(m.raw("tok.offsets")[1], "<u4")
        self.raw = [data[offsets[i]:offsets[i + 1]] for i in range(n)]
        self.special = {s["id"]: s for s in settings.get("special", []) if self.raw[s["id"]]}
        self.indexed = set(np.frombuffer(m.raw("tok.index")[1], "<i4").tolist())
        if settings["type"] == "bpe":
            self.spelled = self.byte_level()
        else:
            types = m.raw("tok.types")[1]
            self.spelled = [f"<0x{b[0]:02X}>" if types[i] == BYTE else decoded(b, i) or None for i, b in enumerate(self.raw)]
        self.inside = range(self.first_outside(settings.get("unk", -1)))
        seen = {}
        for i, text in enumerate(self.spelled):
            if text is not None and seen.setdefault(text, i) != i:
                raise LeftOut(f"tokens {seen[text]} and {i}: expected spellings of their own, found '{text}' twice")

    def byte_level(self):
        stand_in, spelled = byte_characters(), []
        for i, raw in enumerate(self.raw):
            if i in self.indexed and i not in self.special:
                spelled.append("".join(stand_in[b] for b in raw))
                continue
            text = decoded(raw, i) if i in self.special else raw.decode(errors="replace")
            # What no text gives must not become the spelling of bytes: such an id stays without a token.
            spelled.append(text if i in self.special or not set(text) <= set(stand_in) else None)
        return spelled

    def first_outside(self, unk):
        """Special tokens behind a vocabulary without gaps are added to it. The library tokenizers numbers added tokens in turn, so
        that behind a gap only an entry of the vocabulary keeps its id."""
        n = len(self.raw)
        while n and n - 1 in self.special and n - 1 not in self.indexed and n - 1 != unk:
            n -= 1
        return n if n and None not in self.spelled[:n] else len(self.raw)

    def name(self, i, what):
        if not 0 <= i < len(self.spelled) or self.spelled[i] is None:
            raise LeftOut(f"{what}: expected a token, found id {i}, which has none")
        return self.spelled[i]

    def added_tokens(self):
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        return [{"id": i, "content": self.spelled[i], **{f: s.get(f, absent) for f, absent in flags.items()}}
                for i, s in sorted(self.special.items())]


# ---- The parts around the model ----

def sequence(parts, key):
    return None if not parts else parts[0] if len(parts) == 1 else {"type": "Sequence", key: parts}


def normalizer(settings):
    parts = []
    for step in settings.get("normalizer", []):
        kind = next(iter(step))
        if kind == "form":
            parts.append({"type": step["form"].upper()})
        elif kind == "prepend":
            parts.append({"type": "Prepend", "prepend": step["prepend"]})
        elif kind in ("replace", "replace_regex"):
            parts.append({"type": "Replace", "pattern": {"String" if kind == "replace" else "Regex": step[kind]}, "content": step["with"]})
        elif kind == "strip":
            parts.append({"type": "Strip", "strip_left": step["strip"] != "right", "strip_right": step["strip"] != "left"})
        elif kind == "lowercase":
            parts.append({"type": "Lowercase"})
        else:
            raise LeftOut(f"normalizer: expected form, prepend, replace, replace_regex, strip or lowercase, found {kind}")
    return sequence(parts, "normalizers")


def pretokenize_step(step):
    if "metaspace" in step:
        return {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": step["metaspace"], "split": step.get("split", False)}
    return {"type": "Split", "pattern": {"Regex": step["regex"]}, "invert": step.get("invert", False),
            "behavior": step.get("behavior", "isolated").title().replace("_", "")}


def pre_tokenizer(settings):
    steps = [pretokenize_step(s) for s in settings["pretokenize"]]
    if settings["type"] == "bpe":
        prefix = settings.get("add_prefix_space", False)
        own = prefix and steps == [pretokenize_step({"regex": GPT2})]  # with steps before it, ByteLevel would prefix each of their pieces
        if prefix and steps and not own:
            raise LeftOut("add_prefix_space: expected GPT-2's split or none beside it, found another")
        steps = [*(steps if not own else []), {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": own}]
    return sequence(steps, "pretokenizers")


def decoder(settings):
    strip = settings.get("decode_strip")
    if settings["type"] == "bpe":
        return {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    if strip == "first_piece":
        return {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always", "split": True}
    parts = [{"type": "Replace", "pattern": {"String": BLANK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    return sequence(parts + ([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if strip == "space" else []), "decoders")


def post_processor(settings, vocabulary):
    """prefix and suffix go around a text, and around each of two (as in Llama 3's own tokenizer.json)."""
    prefix, suffix = settings.get("prefix", []), settings.get("suffix", [])
    names = {i: vocabulary.name(i, "prefix or suffix") for i in [*prefix, *suffix]}

    def around(text, kind):
        def tokens(ids):
            return [{"SpecialToken": {"id": names[i], "type_id": kind}} for i in ids]
        return [*tokens(prefix), {"Sequence": {"id": text, "type_id": kind}}, *tokens(suffix)]
    return {"type": "TemplateProcessing", "single": around("A", 0), "pair": around("A", 0) + around("B", 1),
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for i, t in names.items()}} if names else None


# ---- The files ----

def merges(m, v):
    import numpy as np
    out = []
    for row, (a, b, both) in enumerate(np.frombuffer(m.raw("tok.merges")[1], "<u4").reshape(-1, 3).tolist()):
        left, right = v.name(a, f"merge {row}"), v.name(b, f"merge {row}")
        if left + right != v.name(both, f"merge {row}"):
            raise LeftOut(f"merge {row}: expected '{left + right}', found '{v.spelled[both]}'")
        out.append([left, right])
    return out


def tokenizer_json(m):
    settings = json.loads(m.meta["tokenizer"])
    if settings["type"] not in TYPES:
        kind = OTHER_TYPES.get(settings["type"])
        raise LeftOut(f"type: expected bpe or bpe_char, found {settings['type']}" + (f" ({kind})" if kind else ""))
    v = Vocabulary(m, settings)
    unk = settings.get("unk", -1) if settings.get("unk", -1) in v.inside else -1
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": v.added_tokens(), "normalizer": normalizer(settings),
            "pre_tokenizer": pre_tokenizer(settings), "post_processor": post_processor(settings, v), "decoder": decoder(settings),
            "model": {"type": "BPE", "dropout": None, "unk_token": v.spelled[unk] if unk >= 0 else None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": settings.get("fuse_unk", False),
                      "byte_fallback": settings.get("byte_fallback", False), "ignore_merges": settings.get("ignore_merges", False),
                      "vocab": {v.spelled[i]: i for i in v.inside if v.spelled[i] is not None}, "merges": merges(m, v)}}


def tokenizer_config(m, tokenizer):
    """No add_bos_token: transformers would make another template than that of tokenizer.json. Without a tokenizer, the chat template alone."""
    out = {}
    if tokenizer:
        settings, names = json.loads(m.meta["tokenizer"]), {t["id"]: t["content"] for t in tokenizer["added_tokens"]}
        out = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
               "model_max_length": m.config.get("n_ctx", 2048)}
        out.update({f"{key}_token": names[settings[key]] for key in ("bos", "eos", "unk") if settings.get(key, -1) in names})
        out.update(json.loads(m.meta.get("special_tokens", "{}")))
    templates = [{"name": name, "template": m.meta[key]} for name, key in (("default", "chat_template"), ("tool_use", "chat_template_tools"))
                 if key in m.meta]
    if templates:
        out["chat_template"] = templates[0]["template"] if [t["name"] for t in templates] == ["default"] else templates
    return out
