"""tokenizer.json as written by the library tokenizers (0.23): BPE of bytes or of characters, and Unigram. Everything in the
file that would change ids and that the model file cannot say is refused by name."""
import math

from .errors import bad, quoted
from . import bytelevel, hf_steps, jsonfile, sentencepiece, vocab


# truncation and padding act on batches, version is the format's.
KNOWN_KEYS = {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder",
              "model"}


def from_json(path, root):
    """The Vocab of a parsed tokenizer.json."""
    for key in sorted(set(root) - KNOWN_KEYS):
        raise bad(path, "", "the keys of a tokenizer.json", "unknown key %s" % quoted(key))
    model = root.get("model")
    if not isinstance(model, dict):
        raise bad(path, "model", "an object", jsonfile.kind(model))
    kind = model.get("type", "Unigram" if isinstance(model.get("vocab"), list) else "BPE")
    if kind not in ("BPE", "Unigram"):
        raise bad(path, "model.type", "BPE or Unigram", jsonfile.kind(kind))
    steps, byte_level, add_prefix_space = hf_steps.pre_tokenizer(path, root.get("pre_tokenizer"))
    if kind == "Unigram" and byte_level:
        raise bad(path, "pre_tokenizer", "none of bytes with Unigram", "'ByteLevel'")
    v = vocab.Vocab(path, "unigram" if kind == "Unigram" else "bpe" if byte_level else "bpe_char")
    v.settings = {"pretokenize": steps}
    if byte_level:
        v.settings["add_prefix_space"] = add_prefix_space
    normalizer = hf_steps.normalizer(path, root.get("normalizer"), v)
    if normalizer:
        v.settings["normalizer"] = normalizer
    strip = hf_steps.decoder(path, root.get("decoder"), byte_level)
    if strip:
        v.settings["decode_strip"] = strip
    ids = v.spelled = _unigram(v, model) if kind == "Unigram" else _bpe(v, model)
    added_tokens(v, jsonfile.member(root, "added_tokens", list, path), ids)
    if not byte_level:   # special tokens are found by their name, byte pieces by their byte, never as ordinary text
        v.indexed = [i for i in v.indexed if v.types[i] not in (vocab.CONTROL, vocab.BYTE)]
    v.prefix, v.suffix = hf_steps.post_processor(path, root.get("post_processor"), v)
    return v


def utf8(file, thing, text):
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise bad(file, thing, "text", "half a surrogate pair")


# ---- BPE ----

def _bpe(v, model):
    """Settings, base vocabulary and merges; returns {spelling: id}."""
    for key, allowed in (("dropout", (None, 0)), ("continuing_subword_prefix", (None, "")), ("end_of_word_suffix", (None, ""))):
        if model.get(key) not in allowed:
            raise bad(v.file, "model.%s" % key, "none", jsonfile.kind(model[key]))
    if v.type == "bpe" and model.get("byte_fallback"):
        raise bad(v.file, "model.byte_fallback", "false in a byte-level vocabulary", "true")
    v.settings["ignore_merges"] = bool(model.get("ignore_merges"))
    ids = model.get("vocab")
    if not isinstance(ids, dict) or not ids:
        raise bad(v.file, "model.vocab", "an object of ids", jsonfile.kind(ids))
    read_vocab(v, ids, "model.vocab")
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise bad(v.file, "model.merges", "an array", jsonfile.kind(merges))
    read_merges(v, merges, ids, "model.merges[%d]")
    if isinstance(model.get("unk_token"), str):
        v.unk = ids.get(model["unk_token"], -1)
    if v.type == "bpe_char":
        v.settings["fuse_unk"] = bool(model.get("fuse_unk"))
        if model.get("byte_fallback"):
            v.settings["byte_fallback"] = byte_pieces(v)
    _drop_unknown(v)
    return dict(ids)


def _drop_unknown(v):
    """Without an unknown token the library leaves out what it has no piece for: do so too, and say it."""
    if v.unk >= 0 or v.settings.get("byte_fallback"):
        return
    lacking = 256 - len({p for p in v.pieces if len(p) == 1}) if v.type == "bpe" else 0
    if lacking or v.type == "bpe_char":
        v.settings["drop_unknown"] = True
        v.warnings.append("%s: no unknown token: %s are silently dropped from a text" % (
            v.file, "the %d bytes that no piece stands for" % lacking if lacking else "characters that no piece stands for"))


def read_vocab(v, ids, thing):
    """Fill in the base vocabulary from {spelling: id}."""
    used = {}
    for piece, i in sorted(ids.items(), key=lambda item: item[1] if isinstance(item[1], int) else -1):
        if isinstance(i, bool) or not isinstance(i, int):
            raise bad(v.file, "%s '%s'" % (thing, quoted(piece)), "an id", jsonfile.kind(i))
        if i in used:
            raise bad(v.file, "%s '%s'" % (thing, quoted(piece)), "an id of its own", "%d, as '%s'" % (i, quoted(used[i])))
        used[i] = piece
        raw = bytelevel.raw_bytes(piece) if v.type == "bpe" else None
        v.add(i, utf8(v.file, thing, piece) if raw is None else raw, vocab.NORMAL)
        if raw or v.type != "bpe":   # another entry can never be met: no text gives such a piece
            v.indexed.append(i)


def read_merges(v, merges, ids, thing):
    rows = {}
    for n, merge in enumerate(merges):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(p, str) for p in pair):
            raise bad(v.file, thing % n, "two pieces", quoted(merge))
        left, right = pair
        row = (ids.get(left), ids.get(right), ids.get(left + right))
        if None in row:
            missing = (left, right, left + right)[row.index(None)]
            raise bad(v.file, thing % n, "pieces of the vocabulary", "'%s'" % quoted(missing))
        rows.pop(row[:2], None)   # of two merges of one pair the library keeps the later
        rows[row[:2]] = row
    v.merges = list(rows.values())


def byte_pieces(v):
    """Make <0xNN> byte pieces. True if there is one for each byte, False if there is none: then nothing falls back."""
    found = {}
    for i, piece in enumerate(v.pieces):
        byte = sentencepiece.byte_of(piece)
        if byte is not None and byte not in found:
            found[byte] = i
    if found and len(found) < 256:
        raise bad(v.file, "model.byte_fallback", "256 byte pieces <0xNN>", len(found))
    for byte, i in found.items():
        v.add(i, byte, vocab.BYTE)
    return bool(found)


# ---- Unigram ----

def _unigram(v, model):
    pieces, unk = model.get("vocab"), model.get("unk_id")
    if not isinstance(pieces, list) or not pieces:
        raise bad(v.file, "model.vocab", "an array of pieces and scores", jsonfile.kind(pieces))
    for i, entry in enumerate(pieces):
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str) or isinstance(entry[1], bool) or \
                not isinstance(entry[1], (int, float)) or not math.isfinite(entry[1]):
            raise bad(v.file, "model.vocab[%d]" % i, "a piece and a score", quoted(entry))
        v.add(i, utf8(v.file, "model.vocab[%d]" % i, entry[0]), vocab.NORMAL)
        v.scores[i] = float(entry[1])
        if entry[0]:
            v.indexed.append(i)
    if unk is not None and (isinstance(unk, bool) or not isinstance(unk, int) or not 0 <= unk < len(pieces)):
        raise bad(v.file, "model.unk_id", "an id below %d" % len(pieces), jsonfile.kind(unk))
    v.unk = -1 if unk is None else unk
    v.settings["byte_fallback"] = bool(model.get("byte_fallback")) and byte_pieces(v)
    return {entry[0]: i for i, entry in enumerate(pieces)}


# ---- added tokens ----

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
