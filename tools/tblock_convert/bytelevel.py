"""tokenizer.json: byte-level BPE as written by the tokenizers library (0.23). Everything in the file that would change ids
and that the model file cannot say is refused by name."""
from .errors import bad, quoted
from . import jsonfile, vocab

# ByteLevel's own split (tokenizers: pre_tokenizers/byte_level.rs), which GPT-2 wrote.
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BEHAVIORS = {"Isolated": "isolated"}    # of Split; the words of the library and of the model file
NORMALIZERS = {"NFC": "nfc"}
STEPS_MAX = 16


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


def utf8(file, thing, text):
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise bad(file, thing, "text", "half a surrogate pair")


def from_json(path, root):
    """The Vocab of a parsed tokenizer.json."""
    v = vocab.Vocab(path, "bpe")
    model = root.get("model")
    if not isinstance(model, dict):
        raise bad(path, "model", "an object", jsonfile.kind(model))
    if model.get("type", "BPE") != "BPE":
        raise bad(path, "model.type", "'BPE'", jsonfile.kind(model["type"]))
    _check_model(path, model)
    normalizer = root.get("normalizer")
    if normalizer is not None and (not isinstance(normalizer, dict) or normalizer.get("type") not in list(NORMALIZERS)):
        raise bad(path, "normalizer", "none or " + ", ".join(NORMALIZERS), _type(normalizer))
    steps, add_prefix_space = pre_tokenizer(path, root.get("pre_tokenizer"))
    v.settings = {"pretokenize": steps, "add_prefix_space": add_prefix_space,
                  "ignore_merges": bool(model.get("ignore_merges"))}
    if normalizer is not None:
        v.settings["normalizer"] = NORMALIZERS[normalizer["type"]]
    ids = _read_vocab(v, model)
    _read_merges(v, model, ids)
    added_tokens(v, jsonfile.member(root, "added_tokens", list, path), ids)
    if isinstance(model.get("unk_token"), str):
        v.unk = ids.get(model["unk_token"], -1)
    v.prefix, v.suffix = post_processor(path, root.get("post_processor"), v)
    return v


def _type(value):
    return jsonfile.kind(value.get("type") if isinstance(value, dict) else value)


def _check_model(path, model):
    """Settings of BPE that a byte-level vocabulary does not use."""
    for key, allowed in (("dropout", (None, 0)), ("continuing_subword_prefix", (None, "")),
                         ("end_of_word_suffix", (None, "")), ("byte_fallback", (None, False))):
        if model.get(key) not in allowed:
            raise bad(path, "model.%s" % key, "none", jsonfile.kind(model[key]))


def _read_vocab(v, model):
    """Fill in the base vocabulary; returns {spelling: id}."""
    ids = model.get("vocab")
    if not isinstance(ids, dict) or not ids:
        raise bad(v.file, "model.vocab", "an object of ids", jsonfile.kind(ids))
    used = {}
    for piece, i in sorted(ids.items(), key=lambda item: item[1] if isinstance(item[1], int) else -1):
        if isinstance(i, bool) or not isinstance(i, int):
            raise bad(v.file, "model.vocab '%s'" % quoted(piece), "an id", jsonfile.kind(i))
        if i in used:
            raise bad(v.file, "model.vocab '%s'" % quoted(piece), "an id of its own", "%d, as '%s'" % (i, quoted(used[i])))
        used[i] = piece
        raw = raw_bytes(piece)
        v.add(i, utf8(v.file, "model.vocab", piece) if raw is None else raw, vocab.NORMAL)
        if raw:   # another entry can never be met: no text gives such a piece
            v.indexed.append(i)
    return dict(ids)


def _read_merges(v, model, ids):
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise bad(v.file, "model.merges", "an array", jsonfile.kind(merges))
    rows = {}
    for n, merge in enumerate(merges):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(p, str) for p in pair):
            raise bad(v.file, "model.merges[%d]" % n, "two pieces", quoted(merge))
        left, right = pair
        row = (ids.get(left), ids.get(right), ids.get(left + right))
        if None in row:
            missing = (left, right, left + right)[row.index(None)]
            raise bad(v.file, "model.merges[%d]" % n, "pieces of the vocabulary", "'%s'" % quoted(missing))
        rows.pop(row[:2], None)   # of two merges of one pair the library keeps the later
        rows[row[:2]] = row
    v.merges = list(rows.values())


def added_tokens(v, entries, ids, add=None):
    """The array added_tokens: tokens matched as a whole, in or beyond the base vocabulary. add: add_token or like it."""
    for n, entry in enumerate(entries):
        if not isinstance(entry, dict) or not isinstance(entry.get("content"), str) or \
                not isinstance(entry.get("id"), int) or not entry["content"]:
            raise bad(v.file, "added_tokens[%d]" % n, "an id and a content", jsonfile.kind(entry))
        (add or add_token)(v, entry["id"], entry, ids)


def add_token(v, i, entry, ids):
    """One added token; `ids` are the spellings of the base vocabulary."""
    content, special = entry["content"], bool(entry.get("special"))
    known = ids.get(content)
    if known is not None:
        i = known   # the library looks a token up before it gives it an id
    elif 0 <= i < v.size() and v.types[i] != vocab.UNUSED and v.pieces[i] != utf8(v.file, "added token", content):
        raise bad(v.file, "added token '%s'" % quoted(content), "an id of its own", "%d, which is '%s'" %
                  (i, quoted(v.pieces[i].decode("utf-8", "replace"))))
    v.add(i, utf8(v.file, "added token", content), vocab.CONTROL if special else vocab.USER_DEFINED)
    v.add_special(i, special, **{f: bool(entry.get(f)) for f in ("lstrip", "rstrip", "single_word", "normalized")})


def pre_tokenizer(path, node):
    """(steps, add_prefix_space). The last step has to be ByteLevel."""
    nodes = [node]
    if isinstance(node, dict) and node.get("type") == "Sequence":
        nodes = jsonfile.member(node, "pretokenizers", list, path)
    if not nodes or not isinstance(nodes[-1], dict) or nodes[-1].get("type") != "ByteLevel":
        raise bad(path, "pre_tokenizer", "ByteLevel, alone or last", _type(nodes[-1] if nodes else None),
                  "not a byte-level vocabulary")
    steps = []
    for n in nodes[:-1]:
        steps.append(_step(path, n))
    last = nodes[-1]
    if last.get("use_regex", True):
        steps.append(split(GPT2_PATTERN))
    if len(steps) > STEPS_MAX:
        raise bad(path, "pre_tokenizer", "at most %d steps" % STEPS_MAX, len(steps))
    add_prefix_space = bool(last.get("add_prefix_space", True))
    if add_prefix_space and len(nodes) > 1:   # there it would prefix every piece of the steps before
        raise bad(path, "pre_tokenizer ByteLevel add_prefix_space", "false after other steps", "true")
    return steps, add_prefix_space


def split(regex, behavior="isolated"):
    return {"regex": regex, "behavior": behavior, "invert": False}


def _step(path, node):
    kind = node.get("type") if isinstance(node, dict) else None
    if kind == "Digits":   # Rust's is_numeric is \p{N}
        return split(r"\p{N}" if node.get("individual_digits") else r"\p{N}+")
    if kind != "Split":
        raise bad(path, "pre_tokenizer", "Split, Digits and ByteLevel", _type(node))
    pattern = node.get("pattern")
    if not isinstance(pattern, dict) or len(pattern) != 1 or not isinstance(next(iter(pattern.values())), str):
        raise bad(path, "pre_tokenizer Split", "a pattern", jsonfile.kind(pattern))
    word, text = next(iter(pattern.items()))
    if word not in ("Regex", "String"):
        raise bad(path, "pre_tokenizer Split", "a Regex or a String", "'%s'" % quoted(word))
    if node.get("behavior") not in list(BEHAVIORS):
        raise bad(path, "pre_tokenizer Split behavior", ", ".join(BEHAVIORS), jsonfile.kind(node.get("behavior")))
    if node.get("invert"):
        raise bad(path, "pre_tokenizer Split invert", "false", "true")
    return split(text if word == "Regex" else literal(text), BEHAVIORS[node["behavior"]])


def literal(text):
    """A regex for exactly this text."""
    return "".join("\\" + c if c in "\\^$.[]|()?*+{}#- " else c for c in text)


def post_processor(path, node, v):
    """(prefix, suffix) ids of the template for one text. ByteLevel only moves offsets."""
    if node is None:
        return [], []
    kind = node.get("type") if isinstance(node, dict) else None
    if kind == "Sequence":
        prefix, suffix = [], []
        for n in jsonfile.member(node, "processors", list, path):
            before, after = post_processor(path, n, v)
            prefix, suffix = before + prefix, suffix + after
        return prefix, suffix
    if kind == "ByteLevel":
        return [], []
    if kind != "TemplateProcessing":
        raise bad(path, "post_processor", "TemplateProcessing", _type(node))
    sides, at = ([], []), 0
    for item in jsonfile.member(node, "single", list, path, "post_processor"):
        if isinstance(item, dict) and "Sequence" in item:
            at += 1
            continue
        ids = template_ids(node, item)
        if ids is None or at > 1 or not all(0 <= i < v.size() for i in ids):
            raise bad(path, "post_processor", "a template of special tokens around one text", quoted(item))
        sides[at].extend(ids)
    return sides


def template_ids(node, item):
    try:
        name = item["SpecialToken"]["id"]
        ids = node["special_tokens"][name]["ids"]
        return ids if all(isinstance(i, int) for i in ids) else None
    except (KeyError, TypeError):
        return None
