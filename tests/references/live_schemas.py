#!/usr/bin/env python3
"""What `tblock constrain` accepts, against others who know: instances of maskbench's schemas against llguidance, random patterns against
Python's re, and the official JSON Schema test suite.

    live_schemas.py             compare; prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"
    live_schemas.py --record    write tests/data/schemas.json, which tests/text/test_schemas.py reads

Needs llguidance. $TBLOCK is the program, $TBLOCK_TEST_DATA names the folder with data/maskbench, $JSON_SCHEMA_TEST_SUITE a checkout
of github.com/json-schema-org/JSON-Schema-Test-Suite, or the folder json of the source archive of jsonschema on PyPI, which has it."""
import argparse
import collections
import importlib.metadata
import itertools
import json
import os
import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "text")]
from test_schemas import RECORDED, ask, count, maskbench, reason, spelled  # noqa: E402
from verdicts import Skip, attempt, need  # noqa: E402

# ---- Instances, against llguidance ---------------------------------------------------------------------------------------


def llguidance_right():
    """The names of the schemas on which llguidance is fully right, with white space anywhere (its default)."""
    from llguidance import LLMatcher, LLTokenizer
    tokenizer, right = LLTokenizer("byte"), set()
    for row in maskbench():
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(row["schema"]), defaults={"whitespace_flexible": True})
        answers = []
        for test in row["tests"]:
            matcher = LLMatcher(tokenizer, grammar)
            ids = [] if matcher.is_error() else tokenizer.tokenize_str(spelled(test["data"]))
            answers.append(bool(ids) and matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())
            if matcher.is_error():
                answers[-1] = None
        if answers == [test["valid"] for test in row["tests"]]:
            right.add(row["name"])
    return right


def as_many_schemas_are_right_as_with_llguidance():
    _, right, accepted = count()
    theirs = llguidance_right()
    print("# fully right with llguidance %s: %d; here alone %d, there alone %d" % (
        importlib.metadata.version("llguidance"), len(theirs), len(right - theirs), len(theirs - right)))
    need(not accepted and len(right) >= len(theirs), "%d here, %d with llguidance, %d invalid instances accepted" % (
        len(right), len(theirs), len(accepted)))


def record():
    rows, right, accepted = count()
    assert not accepted
    RECORDED.write_text(json.dumps({
        "made by": "tests/references/live_schemas.py --record", "schemas": len(rows), "right": len(right),
        "right with llguidance %s" % importlib.metadata.version("llguidance"): len(llguidance_right()),
        "not_right": sorted(row["name"] for row in rows if row["name"] not in right)}, indent=1) + "\n")


# ---- Patterns, against Python's re ---------------------------------------------------------------------------------------

ATOMS = ["a", "b", "1", ".", "[ab]", "[^a]", r"\d", r"\w", r"\D", r"\u0061", r"[\da]"]
COUNTS = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"]


def pattern(rng, depth):
    def atom():
        kind = rng.random()
        if depth == 0 or kind < 0.35:
            return rng.choice(ATOMS) + rng.choice(COUNTS)
        if kind < 0.45:
            return rng.choice("^$")
        return rng.choice(["(%s)", "(?:%s)", "(?i:%s)"]) % pattern(rng, depth - 1) + rng.choice(COUNTS)

    rows = ["".join(atom() for _ in range(rng.randint(0, 3))) for _ in range(rng.choice([1, 1, 2]))]
    return "|".join(rows)


def random_patterns_match_what_python_matches(n):
    rng, refused = random.Random(5), 0
    texts = ["".join(t) for length in range(5) for t in itertools.product("ab1", repeat=length)]
    for _ in range(n):
        p = pattern(rng, 3)
        python = re.compile(p.replace("$", r"\Z"), re.A)
        expected, found = [bool(python.fullmatch(t)) for t in texts], ask("--regex", p, texts)
        if isinstance(found, str) and "anchor" in found:
            refused += 1
        elif isinstance(found, str):
            need("no text" in found and not any(expected), "%r: %s" % (p, found))
        else:
            wrong = [t for t, a, b in zip(texts, found, expected) if a != b]
            need(not wrong, "%r: %r" % (p, wrong[:3]))
    print("# %d random patterns, %d of them refused: a repeated anchor" % (n, refused))


# ---- The official suite --------------------------------------------------------------------------------------------------

FORMATS = "date date-time time duration email uuid ipv4 ipv6 uri hostname uri-reference"
OPTIONAL = ["format/" + name for name in FORMATS.split()] + ["bignum", "float-overflow", "ecmascript-regex", "dependencies-compatibility"]
SCHEMAS = {"draft%d" % n: "http://json-schema.org/draft-0%d/schema#" % n for n in (4, 6, 7)}


def suite_cases(draft):
    """File and group of each group of a draft, in files with a group for each schema."""
    folder = pathlib.Path(os.environ.get("JSON_SCHEMA_TEST_SUITE") or "/nonexistent") / "tests" / draft
    if not folder.is_dir():
        raise Skip("no data (JSON_SCHEMA_TEST_SUITE)")
    files = sorted(folder.glob("*.json")) + [folder / "optional" / (name + ".json") for name in OPTIONAL]
    for path in files:
        for case in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []:
            if draft in SCHEMAS and isinstance(case["schema"], dict):
                case["schema"] = {"$schema": SCHEMAS[draft], **case["schema"]}
            yield path.name, case


def nothing_invalid_is_accepted_of(draft):
    """Properties in any order. Groups are kept or refused by name; of the tests in those that are kept, the rest are right."""
    groups, refused, n_right, missed, wrong = 0, collections.Counter(), 0, [], []
    for name, case in suite_cases(draft):
        groups += 1
        answers = ask("--json-schema", case["schema"], [spelled(t["data"]) for t in case["tests"]], "--any-order")
        if isinstance(answers, str) and "no text fits" not in answers:
            refused[reason(answers)] += 1
            continue
        if isinstance(answers, str):
            answers = [False] * len(case["tests"])
        for test, answer in zip(case["tests"], answers):
            n_right += answer == test["valid"]
            if answer != test["valid"]:
                (wrong if answer else missed).append("%s: %s: %s" % (name, case["description"], test["description"]))
    print("# %s: %d groups, %d kept, %d refused by name; of the tests of those kept %d right, %d valid ones refused, %d wrongly accepted" % (
        draft, groups, groups - refused.total(), refused.total(), n_right, len(missed), len(wrong)))
    for why, n in refused.most_common():
        print("# %d groups refused: %s" % (n, why))
    for test in missed:
        print("# refused: %s" % test)
    need(not wrong, "%d accepted: %s" % (len(wrong), "; ".join(wrong[:5])))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    if parser.parse_args().record:
        return record()
    failed = [attempt("instances against llguidance", as_many_schemas_are_right_as_with_llguidance),
              attempt("patterns against re", random_patterns_match_what_python_matches, 500)]
    failed += [attempt("official suite, " + draft, nothing_invalid_is_accepted_of, draft) for draft in ("draft2020-12", "draft2019-09", "draft7", "draft6", "draft4")]
    return any(failed)


if __name__ == "__main__":
    sys.exit(main())
