#!/usr/bin/env python3
"""JSON Schemas in circulation and their instances: data/maskbench of $TBLOCK_TEST_DATA (1,308 schemas with tests, drawn from
JSONSchemaBench). `tblock constrain` may accept no invalid instance, and must be fully right (every valid instance accepted, every
invalid one refused) on each schema but those that tests/data/schemas.json lists (tests/references/live_schemas.py). Prints
"ok NAME", "FAIL NAME: why" or "skip NAME: why". $TBLOCK is the program."""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]
from testdata import MORE  # noqa: E402
from verdicts import Skip, attempt, need  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
RECORDED = ROOT / "tests" / "data" / "schemas.json"
MASKBENCH = MORE / "maskbench" / "schemas.jsonl"


def maskbench():
    """The schemas that have tests."""
    if not MASKBENCH.is_file():
        raise Skip("no data")
    rows = map(json.loads, MASKBENCH.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if row["tests"]]


def spelled(value):
    """The text of an instance: one space after `:` and `,`."""
    return json.dumps(value, ensure_ascii=False)


def ask(kind, constraint, texts, *options):
    """What `tblock constrain` says of the texts: a list of bools, or why it refuses the constraint."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as schema:
        if kind == "--json-schema":
            schema.write(json.dumps(constraint))
            schema.flush()
            constraint = schema.name
        p = subprocess.run([TBLOCK, "constrain", "-q", kind, constraint, "--jsonl", "-", *options], capture_output=True,
                           input="".join(json.dumps(text) + "\n" for text in texts).encode())
    why = p.stderr.decode(errors="replace").strip().replace(str(constraint), "schema")
    if p.returncode == 3 and not p.stdout:
        return why
    need(p.returncode == 0, "status %d: %s: %s" % (p.returncode, json.dumps(constraint)[:200], why))
    return [line == b"true" for line in p.stdout.split()]


def judge(row, answer):
    """(fully right, instances wrongly accepted, valid ones refused) of one schema, answer: from ask."""
    valid = [test["valid"] for test in row["tests"]]
    if isinstance(answer, str):
        return False, 0, 0
    need(len(answer) == len(valid), "%s: %d answers for %d texts" % (row["name"], len(answer), len(valid)))
    pairs = list(zip(answer, valid))
    return answer == valid, sum(a and not v for a, v in pairs), sum(v and not a for a, v in pairs)


def reason(why):
    """A refusal without its place and its own names."""
    return re.sub(r"\d+", "N", re.sub(r'"[^"]*"', "NAME", re.sub(r"^.*?schema: (#\S*: )?", "", why)))[:80]


def count():
    """Prints what became of the schemas. Returns them, the names of those fully right, and those of the schemas of invalid instances
    that were accepted."""
    rows = maskbench()
    right, accepted, n_missed, refused = set(), [], 0, collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = pool.map(lambda row: ask("--json-schema", row["schema"], [spelled(t["data"]) for t in row["tests"]]), rows)
        for row, answer in zip(rows, answers):
            good, bad, lost = judge(row, answer)
            right |= {row["name"]} if good else set()
            accepted += [row["name"]] * bad
            n_missed += lost
            if isinstance(answer, str):
                refused[reason(answer)] += 1
    print("# %d schemas: %d fully right, %d refused, %d invalid instances accepted, %d valid ones refused" % (
        len(rows), len(right), sum(refused.values()), len(accepted), n_missed))
    for why, n in refused.most_common():
        print("# %d refused: %s" % (n, why))
    return rows, right, accepted


def no_invalid_instance_is_accepted_and_as_many_are_right_as_recorded():
    rows, right, accepted = count()
    need(not accepted, "%d invalid instances accepted: %s" % (len(accepted), " ".join(accepted[:10])))
    wrong = set(json.loads(RECORDED.read_text())["not_right"])
    lost = [row["name"] for row in rows if row["name"] not in right and row["name"] not in wrong]
    need(not lost, "%d schemas were fully right and are not: %s" % (len(lost), " ".join(lost[:10])))


def main():
    return attempt("instances of schemas in circulation", no_invalid_instance_is_accepted_and_as_many_are_right_as_recorded)


if __name__ == "__main__":
    sys.exit(main())
