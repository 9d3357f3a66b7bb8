"""Which tokenizer a file or a folder holds, and what the small JSON files beside it add: added tokens, names of bos and eos,
the template that goes around a text."""
import os

from .errors import USAGE, ConvertError, bad, quoted
from . import gpt2_files, hf_tokenizer, jsonfile, llama2c_vocab, sentencepiece, tiktoken, vocab

JSON, MODEL, CONFIG, ADDED, SPECIAL = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "added_tokens.json",
                                       "special_tokens_map.json")
OTHERS = ("tekken.json", "tokenizer.model.v3", "tokenizer.model.v7", "spiece.model")
# Classes whose template is made from add_bos_token and add_eos_token; others take post_processor as it is.
LLAMA_CLASSES = ("LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast")


def from_file(path, sources, pattern=None):
    """The Vocab of a tokenizer file; None if the file is no tokenizer. pattern: a name in bytelevel.PATTERNS, for files that
    do not say how to split a text; an error with others."""
    if os.path.isdir(path):
        return from_folder(path, sources, (-1, []), pattern)
    file = sources.open(path)
    head = file.read(0, min(file.size, 256))
    if head.lstrip()[:1] == b"{":
        root = jsonfile.parse_object(file.read_small(), path)
        if gpt2_files.is_vocab(root):
            return from_folder(os.path.dirname(path), sources, (-1, []), pattern, gpt2=True)
        return from_json(path, root, pattern)
    if tiktoken.looks_like(head) and not llama2c_vocab.looks_like(head):
        return tiktoken.load(file, sources, pattern)
    load = llama2c_vocab.load if llama2c_vocab.looks_like(head) else sentencepiece.load if sentencepiece.looks_like(head) else None
    if load:
        no_pattern(path, pattern)
    return load and load(file)


def no_pattern(path, pattern):
    if pattern:
        raise ConvertError(USAGE, "--pattern: expected a file that does not hold its split pattern, found %s" % path)


def from_json(path, root, pattern=None):
    """The Vocab of a parsed tokenizer.json."""
    if "model" not in root:
        raise bad(path, "", "a tokenizer.json", "a JSON object without the key 'model'")
    no_pattern(path, pattern)
    return hf_tokenizer.from_json(path, root)


def is_sentencepiece(root):
    """Is it a SentencePiece vocabulary in tokenizer.json's clothes: spaces become U+2581?"""
    def mentions(node):
        if isinstance(node, dict):
            return any(mentions(v) for v in node.values())
        if isinstance(node, list):
            return any(mentions(v) for v in node)
        return node == "\u2581"
    model = root.get("model")
    return isinstance(model, dict) and model.get("type", "BPE") == "BPE" and \
        (mentions(root.get("normalizer")) or mentions(root.get("pre_tokenizer")))


def from_folder(folder, sources, config_ids, pattern=None, gpt2=False):
    """The Vocab of a Hugging Face folder; None if it has none. config_ids: (bos, [eos]) of the model's config. gpt2: its
    vocab.json, whatever else there is."""
    json_path, model_path = os.path.join(folder, JSON), os.path.join(folder, MODEL)
    has_gpt2 = all(os.path.exists(os.path.join(folder, n)) for n in (gpt2_files.VOCAB, gpt2_files.MERGES))
    v = root = None
    if not gpt2 and os.path.exists(json_path):
        file = sources.open(json_path)
        root = jsonfile.parse_object(file.read_small(), json_path)
        if not (os.path.exists(model_path) and is_sentencepiece(root)):
            v = from_json(json_path, root, pattern)
    if not gpt2 and v is None and os.path.exists(model_path):
        v = from_file(model_path, sources, pattern)
        if v is None:
            raise bad(model_path, "", "a SentencePiece model or a tiktoken rank file", "something else")
    if v is None and (has_gpt2 or gpt2):
        v = gpt2_files.load(folder, sources, pattern)
    if v is None:
        return None
    ids = spellings(v)
    if v.sentencepiece() and root:
        hf_tokenizer.added_tokens(v, jsonfile.member(root, "added_tokens", list, json_path), ids, add_known)
    settings = _read(folder, CONFIG, sources)
    _merge_added(v, folder, settings, ids, sources)
    v.changed()
    _name_ids(v, folder, settings, config_ids, sources)
    _template(v, settings, folder)
    return v


def not_read(folder):
    """A line for the user if a folder has tokenizer files of a kind that is not read, or nothing."""
    found = [n for n in OTHERS if os.path.exists(os.path.join(folder, n))]
    return ["%s: %s: not read; %s or %s is" % (folder, ", ".join(found), JSON, MODEL)] if found else []


def spellings(v):
    """{text: id} of the base vocabulary, as the files beside it spell its entries."""
    if not v.sentencepiece():
        return v.spelled
    ids = {}
    for i, p in enumerate(v.pieces):
        if v.types[i] != vocab.BYTE:
            ids.setdefault(p.decode("utf-8", "replace"), i)
    return ids


def _read(folder, name, sources):
    path = os.path.join(folder, name)
    return jsonfile.parse_object(sources.open(path).read_small(), path) if os.path.exists(path) else {}


def _merge_added(v, folder, settings, ids, sources):
    """added_tokens_decoder ({id: token}) and added_tokens.json ({content: id}), each where it exists."""
    path = os.path.join(folder, CONFIG)
    for key, entry in jsonfile.member(settings, "added_tokens_decoder", dict, path).items():
        if not key.isdigit() or not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            raise bad(path, "added_tokens_decoder", "{id: {content: ...}}", "'%s': %s" % (quoted(key), jsonfile.kind(entry)))
        add_known(v, int(key), entry, ids)
    for content, i in _read(folder, ADDED, sources).items():
        if isinstance(i, bool) or not isinstance(i, int):
            raise bad(os.path.join(folder, ADDED), "'%s'" % quoted(content), "an id", jsonfile.kind(i))
        if i not in v.special:
            add_known(v, i, {"content": content}, ids)


def add_known(v, i, entry, ids):
    """An added token over a piece keeps the piece's type: SentencePiece's types say how plain text is read."""
    if v.sentencepiece() and 0 <= i < v.size() and v.pieces[i] == entry["content"].encode("utf-8", "replace"):
        v.add_special(i, bool(entry.get("special")),
                      **{f: bool(entry.get(f)) for f in ("lstrip", "rstrip", "single_word", "normalized")})
    else:
        hf_tokenizer.add_token(v, i, entry, ids)


def _name_ids(v, folder, settings, config_ids, sources):
    """bos, eos, unk: by name from tokenizer_config.json, else from special_tokens_map.json, else from the model's config. A name
    given as null or "" says that the model has no such token; an unknown token the vocabulary itself has or has not."""
    names = dict(_read(folder, SPECIAL, sources), **settings)
    none = set()
    for key in ("bos", "eos", "unk"):
        name = names.get(key + "_token", 0)
        name = name.get("content", 0) if isinstance(name, dict) else name
        if name is None or name == "":
            none.add(key)
        i = v.find(name.encode("utf-8", "replace")) if isinstance(name, str) and name else None
        if i is not None:
            setattr(v, key, i)
            v.add_special(i)
    if "bos" in none and v.sentencepiece():  # whose library puts it in front of a text
        v.prefix = []
    for key, i in (("bos", config_ids[0]), ("eos", config_ids[1][0] if config_ids[1] else -1)):
        if key in none:
            setattr(v, key, -1)
        elif getattr(v, key) < 0 and 0 <= i < v.size():
            setattr(v, key, i)


def _template(v, settings, folder):
    """add_bos_token and add_eos_token rule the Llama classes; elsewhere they are only compared with the template."""
    bos, eos = settings.get("add_bos_token"), settings.get("add_eos_token")
    rules = v.sentencepiece() or settings.get("tokenizer_class") in LLAMA_CLASSES
    if rules and isinstance(bos, bool):
        v.prefix = [v.bos] if bos and v.bos >= 0 else []
    if rules and isinstance(eos, bool):
        v.suffix = [v.eos] if eos and v.eos >= 0 else []
    if not rules and isinstance(bos, bool) and bos != bool(v.prefix):
        v.warnings.append("%s: add_bos_token is %s, but the template of %s %s a token before the text: the template holds" %
                          (os.path.join(folder, CONFIG), jsonfile.kind(bos), JSON, "puts" if v.prefix else "does not put"))
