#!/usr/bin/env python3
r"""The masks of JSON Schemas against those of llguidance, token by token: schemas of maskbench, three vocabularies, random tokens. Both
take the same tokens: some of a valid instance's, then random ones of those that both allow; at each step all tokens are compared.

    live_masks.py [N]     N schemas (100) with each vocabulary; prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"

White space is the same on both sides: none, or one space after `:` and `,`. Tokens that are left out, because their spelling differs
by design: those with a backslash (llguidance has more escapes) or U+007F (it writes that one as an escape); numbers that llguidance
has not (1.0 as an integer, -0 as a number of at least 0, 0.10 between bounds); and beyond ASCII in schemas with a pattern, where
`.` and `\s` are those of ECMA-262 only here; and those that would end the name of a second property of that name. A mask of llguidance holds one token alone where the next bytes are sure; there it
is asked whether it would take ours. Schemas that are left out: with a format (the local part of an email
has at most 64 characters here, any number there); those of draft 7 or before with
$ref, beside which such drafts ignore other keywords and llguidance does not; and those with properties beside allOf, anyOf, oneOf
or if: here the outer ones come first, there the inner ones.

Needs llguidance. $BUILD/tests/text/constrain_tool answers, $TBLOCK_TEST_DATA names the folder of data."""
import base64
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "text")]
from llguidance import LLMatcher, LLTokenizer  # noqa: E402
from test_schemas import maskbench, spelled  # noqa: E402
from testdata import MORE  # noqa: E402
from verdicts import Skip, attempt, need  # noqa: E402

TOOL = ROOT / os.environ.get("BUILD", "build/release") / "tests" / "text" / "constrain_tool"
SPACING = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
STEPS = 12
MERGED = ["allOf", "anyOf", "oneOf", "if"]


def vocabulary(name):
    folder = MORE / "tokenizers" / name
    if not folder.is_dir():
        raise Skip("no data")
    if (folder / "tokenizer.json").is_file():
        return LLTokenizer(str(folder / "tokenizer.json"))
    ranks = {base64.b64decode(a): int(b) for a, b in map(str.split, (folder / "tokenizer.model").read_text().splitlines())}
    return LLTokenizer.from_tiktoken(encoder=ranks, special_tokens={"<|end|>": len(ranks)}, eos_token=len(ranks),
                                     pattern=r"\p{L}+|\p{N}{1,3}|[^\p{L}\p{N}\s]+|\s+")


class Tool:
    def __init__(self, tokens, folder):
        path = pathlib.Path(folder) / "pieces"
        path.write_text("".join(t.hex() + "\n" for t in tokens))
        self.process = subprocess.Popen([str(TOOL), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def mask(self, line):
        """(may the text end, the ids that may come next)"""
        answer = self.ask(line)
        need(answer[:2] in ("0 ", "1 "), answer)
        return answer[0] == "1", bits(bytes.fromhex(answer[2:]))


def bits(mask):
    return int.from_bytes(mask, "little")


def ids(mask):
    return [i for i, bit in enumerate(reversed(bin(mask))) if bit == "1"]


def many(chosen):
    """The opposite of ids, in time that does not grow with the square."""
    table = bytearray(max(chosen, default=0) // 8 + 1)
    for i in chosen:
        table[i // 8] |= 1 << i % 8
    return bits(bytes(table))


def repeats_a_name(text):
    """Does an object in this beginning of a JSON text have a name twice? Names alone decide, in whatever state the rest is."""
    names, wants_name, start = [], [], None   # for each open object and array
    i = 0
    while i < len(text):
        c = text[i:i + 1]
        if start is not None:
            if c == b"\\":
                i += 1
            elif c == b'"':
                name, start = json.loads(text[start:i + 1]), None
                if names and wants_name[-1]:
                    if name in names[-1]:
                        return True
                    names[-1].add(name)
        elif c == b'"':
            start = i
        elif c in b"{[":
            names.append(set())
            wants_name.append(c == b"{")
        elif c in b"}]" and names:
            names.pop(), wants_name.pop()
        elif c == b":":
            wants_name[-1] = False
        elif c == b"," and names:
            wants_name[-1] = bool(names[-1])   # of an array it is empty
        i += 1
    return False


def merges_properties(value):
    if isinstance(value, list):
        return any(map(merges_properties, value))
    if not isinstance(value, dict):
        return False
    return "properties" in value and not value.keys().isdisjoint(MERGED) or any(map(merges_properties, value.values()))


def same_meaning(row):
    text = json.dumps(row["schema"])
    return '"format"' not in text and not ('"$ref"' in text and "/draft-0" in text) and not merges_properties(row["schema"])


class Vocabulary:
    def __init__(self, name, folder):
        self.tokenizer = vocabulary(name)
        n = range(self.tokenizer.vocab_size)
        self.tokens = [b"" if self.tokenizer.is_special_token(i) else self.tokenizer.decode_bytes([i]) for i in n]
        self.tool = Tool(self.tokens, folder)
        self.comparable = many([i for i in n if self.tokens[i] and not set(self.tokens[i]) & set(b"\\\x7f")])
        self.ascii = many([i for i in n if self.tokens[i].isascii()])
        self.numbers = many([i for i in n if set(self.tokens[i]) & set(b"-.0") and set(self.tokens[i]) <= set(b"0123456789-.:, []{}\"")])

    def difference(self, matcher, ours, compared, text):
        """The ids on which the two do not agree."""
        theirs = bits(matcher.compute_bitmask())
        more, fewer = ours & ~theirs & compared & ~self.numbers, theirs & ~ours & compared
        return many([i for i in ids(fewer) if not repeats_a_name(text + self.tokens[i])]
                    + [i for i in ids(more) if matcher.validate_tokens([i]) != 1])

    def walk(self, row, rng):
        """How many masks of a schema were compared."""
        matcher = LLMatcher(self.tokenizer, LLMatcher.grammar_from_json_schema(json.dumps(row["schema"]), defaults=SPACING), log_level=0)
        if matcher.is_error() or self.tool.ask(json.dumps(row["schema"])) != "ok":
            return 0
        compared = self.comparable & (self.ascii if "pattern" in json.dumps(row["schema"]) else self.comparable)
        valid = [spelled(t["data"]) for t in row["tests"] if t["valid"]]
        given = self.tokenizer.tokenize_str(rng.choice(valid)) if valid else []
        given, line, text = given[:rng.randrange(len(given) + 1)], ".", b""
        for step in range(len(given) + STEPS):
            end, ours = self.tool.mask(line)
            differ = self.difference(matcher, ours, compared, text)
            wrong, wrong_here = [self.tokens[i] for i in ids(differ)], (ours & differ) != 0
            where = "%s: after %r" % (row["name"], text[-60:])
            need(not wrong, "%s: %d tokens, such as %r, allowed here: %s" % (where, len(wrong), wrong[:5], wrong_here))
            need(end == matcher.is_accepting(), "%s: the text may%s end" % (where, "" if end else " not"))
            both = [given[step]] if step < len(given) else ids(ours & compared)
            token = rng.choice(both) if both else None
            if step < len(given) and not ours & compared & (1 << token):
                token = None
            if token is None or not matcher.consume_token(token):
                return step + 1
            text, line = text + self.tokens[token], str(token)
        return len(given) + STEPS


def masks_are_those_of_llguidance(name, n):
    rng = random.Random(7)
    rows = rng.sample([row for row in maskbench() if same_meaning(row)], n)
    with tempfile.TemporaryDirectory() as folder:
        v = Vocabulary(name, folder)
        compared = [v.walk(row, rng) for row in rows]
        v.tool.process.stdin.close()
        v.tool.process.wait()
    print("# %s: %d masks of %d tokens equal, %d schemas; %d are refused here or there" % (
        name, sum(compared), len(v.tokens), n, compared.count(0)))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    return any([attempt("masks, " + name, masks_are_those_of_llguidance, name, n) for name in ("gpt2", "llama2", "llama3")])


if __name__ == "__main__":
    sys.exit(main())
