"""A tiktoken rank file (lines of base64 and rank), with special_tokens.json beside it. The split pattern is not in the
file: it is Llama 3's (meta-llama/llama-models, models/llama3/tokenizer.py), the one model that is published this way."""
import base64
import binascii
import os

from .errors import bad, quoted
from . import bytelevel, jsonfile, vocab

LLAMA3_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
                  r"\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3_RANKS = 128000
SPECIAL = "special_tokens.json"
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"


def looks_like(head):
    """The first line is a short base64 word, a space and a number."""
    word, _, rank = head.split(b"\n")[0].rstrip(b"\r").partition(b" ")
    return bool(word) and len(word) % 4 == 0 and rank.isdigit()


def load(file, sources):
    """The Vocab of a rank file; special tokens from special_tokens.json in the same folder ({token: id})."""
    ranks = read_ranks(file)
    v = vocab.Vocab(file.path, "bpe")
    for piece, rank in ranks.items():
        v.add(rank, piece, vocab.NORMAL)
    v.indexed = sorted(ranks.values())
    if v.size() != len(ranks):
        raise bad(file.path, "", "ranks 0 to %d" % (len(ranks) - 1), "%d" % (v.size() - 1))
    v.merges = merges_of(ranks)
    beside = os.path.join(os.path.dirname(file.path), SPECIAL)
    special = jsonfile.parse_object(sources.open(beside).read_small(), beside) if os.path.exists(beside) else {}
    if len(ranks) != LLAMA3_RANKS and BOS not in special:
        raise bad(file.path, "split pattern", "Llama 3's file (%d ranks, or %s with %s)" % (LLAMA3_RANKS, SPECIAL, BOS),
                  "%d ranks" % len(ranks), "a rank file does not say how to split a text; tokenizer.json does")
    v.settings = {"pretokenize": [bytelevel.split(LLAMA3_PATTERN)], "add_prefix_space": False, "ignore_merges": True}
    if not special:
        v.warnings.append("%s: no %s beside it: no special tokens" % (file.path, SPECIAL))
    for content, i in sorted(special.items(), key=lambda item: str(item[1])):
        if isinstance(i, bool) or not isinstance(i, int) or i < len(ranks):
            raise bad(beside, "'%s'" % quoted(content), "an id from %d" % len(ranks), jsonfile.kind(i))
        bytelevel.add_token(v, i, {"content": content, "special": True}, {})
    v.bos, v.eos = special.get(BOS, -1), special.get(EOS, -1)
    v.prefix = [v.bos] if v.bos >= 0 else []
    return v


def read_ranks(file):
    ranks = {}
    for n, line in enumerate(file.read_small().split(b"\n"), 1):
        words = line.split()
        if not words:
            continue
        try:
            piece, rank = base64.b64decode(words[0], validate=True), int(words[1])
        except (binascii.Error, ValueError, IndexError):
            raise bad(file.path, "line %d" % n, "base64 and a rank", quoted(line[:60].decode("latin-1")))
        if not piece or len(words) != 2 or piece in ranks or not 0 <= rank < vocab.LARGEST_SIZE:
            raise bad(file.path, "line %d" % n, "a new piece and its rank", quoted(line[:60].decode("latin-1")))
        ranks[piece] = rank
    return ranks


def merges_of(ranks):
    """Every way to split a piece into two pieces is a merge, in the order of the rank of what it makes, then of the left
    and the right rank (as transformers' TikTokenConverter does)."""
    merges = []
    for piece, rank in ranks.items():
        for cut in range(1, len(piece)):
            left = ranks.get(piece[:cut])
            if left is None:
                continue
            right = ranks.get(piece[cut:])
            if right is not None:
                merges.append((rank, left, right))
    merges.sort()
    return [(left, right, rank) for rank, left, right in merges]
