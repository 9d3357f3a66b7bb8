"""The parts of a tokenizer.json around its model, as the library tokenizers (0.23) runs them: normalizer, pre_tokenizer,
decoder and post_processor become what the model file can say; what it cannot is refused by name."""
import base64
import binascii
import re

from .errors import bad, quoted
from . import bytelevel, charsmap, jsonfile
from .bytelevel import split

STEPS_MAX = 16
META = "\u2581"
FORMS = {"NFC": "nfc", "NFD": "nfd", "NFKC": "nfkc", "NFKD": "nfkd"}
BEHAVIORS = {"Isolated": "isolated", "Removed": "removed", "MergedWithPrevious": "merged_with_previous",
             "MergedWithNext": "merged_with_next", "Contiguous": "contiguous"}
# char::is_ascii_punctuation, or category P as the Rust crate unicode_categories knows it, of Unicode 8: without what came later
PUNCTUATION = (r"(?![\x{61D}\x{9FD}-\x{A76}\x{C77}-\x{C84}\x{1B4E}-\x{1B4F}\x{1B7D}-\x{1B7F}\x{2E43}-\x{2E5D}\x{10D6E}-\x{10F89}"
               r"\x{113D4}-\x{1145D}\x{11660}-\x{116B9}\x{1183B}-\x{11FFF}\x{12FF1}-\x{12FF2}\x{16D6D}-\x{16FE2}\x{1E5FF}-\x{1E95F}])"
               r"[!-/:-@\[-`{-~\p{P}\x{166D}\x{111C9}]")
DIGIT = r"[\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}]"   # Rust's is_numeric: \p{N} with that of Unicode 17
# \w of the Rust crate regex: Alphabetic, marks, decimal digits, connectors, joiners
WORD = (r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}"
        r"\x{200C}\x{200D}")


def kind_of(node):
    kind = node.get("type") if isinstance(node, dict) else None
    return kind if isinstance(kind, str) else None


def shown(node):
    return jsonfile.kind(node.get("type") if isinstance(node, dict) else node)


def flat(path, node, what, key):
    """The parts of a Sequence, Sequences inside it too; a single part; nothing."""
    if node is None:
        return []
    if kind_of(node) == "Sequence":
        return [part for n in jsonfile.member(node, key, list, path) for part in flat(path, n, what, key)]
    if not isinstance(node, dict):
        raise bad(path, what, "an object", jsonfile.kind(node))
    return [node]


def string(path, what, node, key):
    value = node.get(key)
    if not isinstance(value, str) or "\0" in value:
        raise bad(path, what, "%s: a text without NUL" % key, jsonfile.kind(value))
    return value


def pattern_of(path, what, node):
    """("String" or "Regex", text) of a pattern."""
    pattern = node.get("pattern")
    if not isinstance(pattern, dict) or len(pattern) != 1:
        raise bad(path, what, "a pattern", jsonfile.kind(pattern))
    word = next(iter(pattern))
    if word not in ("Regex", "String"):
        raise bad(path, what, "a Regex or a String", "'%s'" % quoted(word))
    text = string(path, what, pattern, word)
    if word == "Regex":
        check_syntax(path, what, text)
    return word, text


def check_syntax(path, what, regex):
    """Refuse what Oniguruma, which runs these patterns for the library, and PCRE2 read differently."""
    def refuse(part):
        raise bad(path, what, "", "'%s' in the regex '%s' is not supported" % (part, quoted(regex)))
    outside = re.sub(r"\\[xo]\{[0-9A-Fa-f]*\}|\\[^hHKGRXyYOkgvV]", "e", regex)       # escapes that both know
    escape = re.search(r"\\.", outside)
    if escape:
        refuse(escape.group())
    for members in re.findall(r"\[\^?\]?((?:\[:\^?\w+:\]|[^\]])*)\]", outside):
        if "&&" in members:
            refuse("&&")
        named = [c for c in re.findall(r"\[:\^?\w+:\]", members) if c != "[:digit:]"]
        if named:
            refuse(named[0])                                 # sets of their own in each
        if "[" in re.sub(r"\[:\^?\w+:\]", "", members):
            refuse("[ in [")
    outside = re.sub(r"\[\^?\]?(?:\[:\^?\w+:\]|[^\]])*\]", "", outside)
    for part in ("^", "$"):                                  # lines there, the text here
        if part in outside:
            refuse(part)
    option = re.search(r"\(\?[a-z]*[mx][a-z-]*[:)]", outside)   # m is the dot's there
    if option:
        refuse(option.group())
    # text in PCRE2; and where the last character repeats what is before it in Oniguruma, and in PCRE2 says how
    repeat = re.search(r"\{(,[0-9]+\}[+?]?|[0-9]+(,[0-9]*)?\}\+|[0-9]+\}\?)", outside)
    if repeat:
        refuse(repeat.group())


def literal(text):
    """A regex for exactly this text."""
    return "".join("\\" + c if c in "\\^$.[]|()?*+{}#- " else c for c in text)


# ---- normalizer ----

def normalizer(path, node, v):
    """[steps]; a Precompiled step's rules go to v.charsmap."""
    steps = [_normalizer_step(path, n, v) for n in flat(path, node, "normalizer", "normalizers")]
    if len(steps) > STEPS_MAX:
        raise bad(path, "normalizer", "at most %d steps" % STEPS_MAX, len(steps))
    return [s for s in steps if s]


def _normalizer_step(path, node, v):
    kind = kind_of(node)
    if kind in FORMS:
        return {"form": FORMS[kind]}
    if kind == "Prepend":
        return {"prepend": string(path, "normalizer Prepend", node, "prepend")}
    if kind == "Replace":
        word, text = pattern_of(path, "normalizer Replace", node)
        content = string(path, "normalizer Replace", node, "content")
        if not text:
            raise bad(path, "normalizer Replace", "a pattern", "an empty one")
        return {"replace" if word == "String" else "replace_regex": text, "with": content}
    if kind == "Strip":
        sides = (bool(node.get("strip_left")), bool(node.get("strip_right")))
        return {"strip": {(True, True): "both", (True, False): "left", (False, True): "right"}[sides]} if any(sides) else None
    if kind == "Lowercase":
        return {"lowercase": True}
    if kind == "Precompiled":
        text = node.get("precompiled_charsmap")
        if v.charsmap:
            raise bad(path, "normalizer", "one Precompiled", "two")
        try:
            blob = base64.b64decode(text or "", validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise bad(path, "normalizer Precompiled", "base64", jsonfile.kind(text))
        v.charsmap = charsmap.rules(blob, path, "normalizer Precompiled") if blob else {}
        return {"charsmap": True} if v.charsmap else None
    raise bad(path, "normalizer", ", ".join(list(FORMS) + ["Prepend", "Replace", "Strip", "Lowercase", "Precompiled"]), shown(node))


# ---- pre_tokenizer ----

def pre_tokenizer(path, node):
    """(steps, is byte-level, add_prefix_space). ByteLevel has to be the last."""
    nodes = flat(path, node, "pre_tokenizer", "pretokenizers")
    bytes_last = bool(nodes) and kind_of(nodes[-1]) == "ByteLevel"
    steps, add_prefix_space = [], False
    for n in nodes[:-1] if bytes_last else nodes:
        steps += _step(path, n)
    if bytes_last:
        if nodes[-1].get("use_regex", True):
            steps.append(split(bytelevel.GPT2_PATTERN))
        add_prefix_space = bool(nodes[-1].get("add_prefix_space", True))
        if add_prefix_space and len(nodes) > 1:   # there it would prefix every piece of the steps before
            raise bad(path, "pre_tokenizer ByteLevel add_prefix_space", "false after other steps", "true")
    if len(steps) > STEPS_MAX:
        raise bad(path, "pre_tokenizer", "at most %d steps" % STEPS_MAX, len(steps))
    return steps, bytes_last, add_prefix_space


def _step(path, node):
    kind, what = kind_of(node), "pre_tokenizer %s" % kind_of(node)
    if kind == "Split":
        word, text = pattern_of(path, what, node)
        return [split(text if word == "Regex" else literal(text), behavior(path, what, node, None), bool(node.get("invert")))]
    if kind == "Digits":
        return [split(DIGIT if node.get("individual_digits") else DIGIT + "+")]
    if kind == "Punctuation":
        return [split(PUNCTUATION, behavior(path, what, node, "Isolated"))]
    if kind == "Whitespace":
        return [split(r"[%s]+|[^%s\s]+" % (WORD, WORD), "removed", True)]
    if kind == "WhitespaceSplit":
        return [split(r"\s", "removed")]
    if kind == "BertPreTokenizer":
        return [split(r"\s", "removed"), split(PUNCTUATION)]
    if kind == "CharDelimiterSplit":
        return [split(literal(string(path, what, node, "delimiter")), "removed")]
    if kind == "Metaspace":
        step = {"metaspace": prepend_scheme(path, what, node)}
        if node.get("split", True) is not False:
            step["split"] = True
        return [step]
    if kind == "ByteLevel":
        raise bad(path, "pre_tokenizer", "ByteLevel as the last step", "another after it")
    raise bad(path, "pre_tokenizer", "Split, Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit, "
              "Metaspace and ByteLevel", shown(node))


def behavior(path, what, node, default):
    value = node.get("behavior", default)
    if value not in list(BEHAVIORS):
        raise bad(path, what + " behavior", ", ".join(BEHAVIORS), jsonfile.kind(value))
    return BEHAVIORS[value]


def prepend_scheme(path, what, node):
    if node.get("replacement", META) != META:
        raise bad(path, what + " replacement", "U+2581", jsonfile.kind(node["replacement"]))
    scheme = node.get("prepend_scheme", "never" if node.get("add_prefix_space") is False else "always")
    if scheme not in ("first", "always", "never"):
        raise bad(path, what + " prepend_scheme", "first, always or never", jsonfile.kind(scheme))
    return scheme


# ---- decoder ----

def decoder(path, node, byte_level):
    """decode_strip of the model file, or None. The parts that turn U+2581 into spaces and byte pieces into bytes are the
    model file's way anyhow."""
    nodes = flat(path, node, "decoder", "decoders")
    kinds = [kind_of(n) for n in nodes]
    if byte_level:
        if kinds not in ([], ["ByteLevel"]):
            raise bad(path, "decoder", "ByteLevel", ", ".join(shown(n) for n in nodes))
        return None
    if kinds == ["Metaspace"]:
        return None if prepend_scheme(path, "decoder Metaspace", nodes[0]) == "never" else "first_piece"
    if not kinds or kinds not in [["Replace"] + [k for k in ("ByteFallback", "Fuse", "Strip") if k in kinds]] or \
            ("Strip" in kinds and "Fuse" not in kinds):
        raise bad(path, "decoder", "Metaspace, or Replace with ByteFallback, Fuse and Strip",
                  ", ".join(shown(n) for n in nodes) or "null")
    if pattern_of(path, "decoder Replace", nodes[0]) != ("String", META) or nodes[0].get("content") != " ":
        raise bad(path, "decoder Replace", "U+2581 by a space", "another replacement")
    if "Strip" not in kinds:
        return None
    strip = nodes[-1]
    if (strip.get("content"), strip.get("start"), strip.get("stop")) != (" ", 1, 0):
        raise bad(path, "decoder Strip", "one space at the start", "another strip")
    return "space"


# ---- post_processor ----

def post_processor(path, node, v):
    """(prefix, suffix) ids of the template for one text. ByteLevel only moves offsets."""
    prefix, suffix = [], []
    for n in flat(path, node, "post_processor", "processors"):
        if kind_of(n) == "ByteLevel":
            continue
        if kind_of(n) != "TemplateProcessing":
            raise bad(path, "post_processor", "TemplateProcessing", shown(n))
        before, after = _template(path, n, v)
        prefix, suffix = before + prefix, suffix + after
    return prefix, suffix


def _template(path, node, v):
    sides, at = ([], []), 0
    for item in jsonfile.member(node, "single", list, path, "post_processor"):
        if isinstance(item, dict) and "Sequence" in item:
            at += 1
            continue
        ids = _template_ids(node, item)
        if ids is None or at > 1 or not all(0 <= i < v.size() for i in ids):
            raise bad(path, "post_processor", "a template of special tokens around one text", quoted(item))
        sides[at].extend(ids)
    if at != 1:
        raise bad(path, "post_processor", "a template of special tokens around one text", "%d texts" % at)
    return sides


def _template_ids(node, item):
    try:
        name = item["SpecialToken"]["id"]
        ids = node["special_tokens"][name]["ids"]
        return ids if all(isinstance(i, int) for i in ids) else None
    except (KeyError, TypeError):
        return None
