#!/usr/bin/env python3
"""What is drawn under a JSON Schema is valid, by jsonschema, and no object in it has a name twice: schemas of maskbench, tokens at random
of those that the mask allows, until the text may end.

    live_drawn.py [N [SEED]]     N schemas (300); prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"

Needs jsonschema. $BUILD/tests/text/constrain_tool answers, $TBLOCK_TEST_DATA names the folder of data. Schemas that jsonschema does not
take are left out; formats are annotations there."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "text")]
from jsonschema import exceptions, validators  # noqa: E402
from test_schemas import maskbench  # noqa: E402
from verdicts import attempt, need  # noqa: E402

TOOL = ROOT / os.environ.get("BUILD", "build/release") / "tests" / "text" / "constrain_tool"
TEXTS, STEPS = 4, 400
TOKENS = [bytes([byte]) for byte in range(32, 256)] + [token.encode() for token in (
    '":', '","', '",', '{"', '"a":', '"ab', 'a"', ', "', ',"a":', '"}', '"]', "}]", "null", "true", "10", ".5", "\\n", "\u00e9", "2024-", "-01-",
    "T10:", "00Z", "://", ".com")]
CLOSING = [TOKENS.index(token) for token in (b'"', b"}", b"]", b'":', b'"}', b'",', b'"]', b":", b"0", b",")]


class Tool:
    def __init__(self, folder):
        path = pathlib.Path(folder) / "pieces"
        path.write_text("".join(token.hex() + "\n" for token in TOKENS))
        self.process = subprocess.Popen([str(TOOL), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def draw(self, rng):
        """A text that may end; None if it has not come to an end in STEPS tokens."""
        text, line = b"", "."
        for step in range(STEPS):
            answer = self.ask(line)
            need(answer[:2] in ("0 ", "1 "), "after %r: %s" % (text[-80:], answer))
            mask = int.from_bytes(bytes.fromhex(answer[2:]), "little")
            allowed = [i for i in range(len(TOKENS)) if mask >> i & 1]
            if answer[0] == "1" and (not allowed or rng.random() < 0.5 or step > 150):
                return text
            need(allowed, "nothing goes on after %r" % text[-80:])
            closing = [i for i in CLOSING if i in allowed]
            i = rng.choice(closing if closing and (rng.random() < 0.35 or step > 60) else allowed)
            text, line = text + TOKENS[i], str(i)
        return None


def members(pairs):
    need(len(dict(pairs)) == len(pairs), "a name twice: %r" % pairs)
    return dict(pairs)


def validator(schema):
    """None: jsonschema does not take it."""
    kind = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except exceptions.SchemaError:
        return None
    return kind(schema)


def what_is_sampled_is_valid(n, seed):
    rng, n_schemas, n_texts, n_cut = random.Random(seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(folder)
        for row in rng.sample(maskbench(), n):
            judge = validator(row["schema"])
            if not judge or tool.ask(json.dumps(row["schema"])) != "ok":
                continue
            n_schemas += 1
            for _ in range(TEXTS):
                text = tool.draw(rng)
                n_texts += text is not None
                n_cut += text is None
                if text is not None:
                    need(judge.is_valid(json.loads(text, object_pairs_hook=members)), "%s: %s" % (row["name"], text[:300]))
                tool.ask(json.dumps(row["schema"]))
        tool.process.stdin.close()
        tool.process.wait()
    print("# %d schemas, %d texts drawn, %d more did not come to an end in %d tokens" % (n_schemas, n_texts, n_cut, STEPS))


def main():
    n, seed = [int(a) for a in sys.argv[1:]] + [300, 1][len(sys.argv) - 1:]
    return attempt("what is sampled is valid", what_is_sampled_is_valid, n, seed)


if __name__ == "__main__":
    sys.exit(main())
