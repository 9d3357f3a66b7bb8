"""vocab.json with merges.txt, as GPT-2 published them: {spelling: id} and one merge a line. How a text is split is not in
the files: it follows from the tokenizer's class in tokenizer_config.json, or is named by --pattern."""
import os

from .errors import bad
from . import bytelevel, hf_tokenizer, jsonfile, vocab

VOCAB, MERGES, CONFIG = "vocab.json", "merges.txt", "tokenizer_config.json"
END = "<|endoftext|>"
CLASSES = {"GPT2Tokenizer": "gpt2", "GPT2TokenizerFast": "gpt2", "Qwen2Tokenizer": "qwen2", "Qwen2TokenizerFast": "qwen2"}


def is_vocab(root):
    return bool(root) and all(isinstance(i, int) for i in root.values())


def load(folder, sources, pattern=None):
    """The Vocab of a folder, without its added tokens."""
    path, merges_path, config_path = (os.path.join(folder, n) for n in (VOCAB, MERGES, CONFIG))
    v = vocab.Vocab(path, "bpe")
    settings = {}
    if os.path.exists(config_path):
        settings = jsonfile.parse_object(sources.open(config_path).read_small(), config_path)
    kind = settings.get("tokenizer_class")
    pattern = pattern or (CLASSES.get(kind) if isinstance(kind, str) else None)
    if pattern is None:
        raise bad(config_path, "tokenizer_class", ", ".join(CLASSES), jsonfile.kind(kind),
                  "%s does not say how to split a text: --pattern NAME does" % VOCAB)
    v.settings = dict(bytelevel.settings(pattern), ignore_merges=False)
    v.settings["add_prefix_space"] = bool(settings.get("add_prefix_space"))
    ids = jsonfile.parse_object(sources.open(path).read_small(), path)
    v.spelled = ids
    hf_tokenizer.read_vocab(v, ids, "")
    hf_tokenizer.read_merges(v, _merges(sources.open(merges_path)), ids, MERGES + " merge %d")
    if pattern == "gpt2" and END in ids:   # GPT2Tokenizer's default for all three
        v.bos = v.eos = v.unk = ids[END]
        v.add_special(v.eos)
    return v


def _merges(file):
    try:
        lines = file.read_small().decode("utf-8").split("\n")
    except UnicodeDecodeError as e:
        raise bad(file.path, "", "UTF-8", "other bytes at offset %d" % e.start)
    return [line.rstrip("\r") for line in lines if line.strip() and not line.startswith("#version")]
