"""A tiktoken rank file (lines of base64 and rank), with special_tokens.json beside it. The split pattern is not in the file:
it is known for the published rank files by their number of ranks, or named by --pattern."""
import base64
import binascii
import os

from .errors import bad, quoted
from . import bytelevel, hf_tokenizer, jsonfile, vocab

LLAMA3_RANKS = 128000
# ranks: (pattern, special tokens); tiktoken_ext/openai_public.py, and meta-llama/llama-models models/llama3/tokenizer.py
# (only the tokens that Llama 3 and 3.1 share)
END = "<|endoftext|>"
KNOWN = {
    50256: ("gpt2", {END: 50256}),
    50280: ("gpt2", {END: 50256}),
    100256: ("cl100k", {END: 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260,
                        "<|endofprompt|>": 100276}),
    199998: ("o200k", {END: 199999, "<|endofprompt|>": 200018}),
    LLAMA3_RANKS: ("llama3", {"<|begin_of_text|>": 128000, "<|end_of_text|>": 128001, "<|start_header_id|>": 128006,
                              "<|end_header_id|>": 128007, "<|eot_id|>": 128009}),
}
SPECIAL = "special_tokens.json"
BOS, EOS = "<|begin_of_text|>", ("<|end_of_text|>", END)


def looks_like(head):
    """The first line is a short base64 word, a space and a number."""
    word, _, rank = head.split(b"\n")[0].rstrip(b"\r").partition(b" ")
    return bool(word) and len(word) % 4 == 0 and rank.isdigit()


def load(file, sources, pattern=None):
    """The Vocab of a rank file; special tokens from special_tokens.json in the same folder ({token: id})."""
    ranks = read_ranks(file)
    v = vocab.Vocab(file.path, "bpe")
    for piece, rank in ranks.items():
        v.add(rank, piece, vocab.NORMAL)
    v.indexed = sorted(ranks.values())
    v.merges = merges_of(ranks)
    known, special = KNOWN.get(len(ranks), (None, {}))
    beside = os.path.join(os.path.dirname(file.path), SPECIAL)
    if os.path.exists(beside):
        special = jsonfile.parse_object(sources.open(beside).read_small(), beside)
    elif known == "llama3":
        v.warnings.append("%s: no %s beside it: so only the special tokens that Llama 3 and 3.1 share are known" % (file.path, SPECIAL))
    elif not special:
        v.warnings.append("%s: no %s beside it: no special tokens" % (file.path, SPECIAL))
    pattern = pattern or known or ("llama3" if BOS in special else None)
    if pattern is None:
        raise bad(file.path, "split pattern", "a published rank file (%s ranks)" % ", ".join(str(n) for n in sorted(KNOWN)),
                  "%d ranks" % len(ranks), "a rank file does not say how to split a text: --pattern NAME does")
    v.settings = dict(bytelevel.settings(pattern), ignore_merges=True)
    taken = set(v.indexed)
    for content, i in sorted(special.items(), key=lambda item: str(item[1])):
        if isinstance(i, bool) or not isinstance(i, int) or i in taken:
            raise bad(beside, "'%s'" % quoted(content), "an id that no rank has", jsonfile.kind(i))
        hf_tokenizer.add_token(v, i, {"content": content, "special": True}, {})
    v.bos = special.get(BOS, -1)
    v.eos = next((special[e] for e in EOS if e in special), -1)
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
    if len(set(ranks.values())) != len(ranks):
        raise bad(file.path, "", "every rank once", "a rank twice")
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
