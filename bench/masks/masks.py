#!/usr/bin/env python3
"""How long the masks of JSON Schemas take: schemas and valid instances of maskbench, spelled with one space after `:` and `,`.

    bench/masks/masks.py [--vocabulary NAME] [--llguidance] [--worst N] [--every N]

Prints, in microseconds: masks with the step to their state (mean, median, 99th percentile, largest), the first mask with
compiling, and the largest memory. --llguidance measures that too, on the same texts, with its default spelling of white space made
ours; it must be installed. $TBLOCK_TEST_DATA names the folder of data, $BUILD the folder of the program."""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "text"), str(ROOT / "tests" / "references")]
from test_schemas import MASKBENCH, spelled  # noqa: E402
from testdata import MORE  # noqa: E402

BUILD = ROOT / os.environ.get("BUILD", "build/release")
PLACES = [("mean", None), ("median", 0.5), ("p95", 0.95), ("p99", 0.99), ("largest", 1)]


def rows():
    """Of each schema that has valid instances: its name, and what bench_masks reads."""
    for row in map(json.loads, MASKBENCH.read_text(encoding="utf-8").splitlines()):
        texts = [spelled(test["data"]) for test in row["tests"] if test["valid"]]
        if texts:
            yield row["name"], [json.dumps(row["schema"])] + texts


def print_times(what, times):
    times = sorted(times)
    at = [sum(times) / len(times) if q is None else times[int((len(times) - 1) * q)] for _, q in PLACES]
    print("%-24s %8d  " % (what, len(times)) + "".join("%11.1f" % (t / 1e3) for t in at), flush=True)


def print_answers(what, answers, worst):
    """answers: of each schema, its name and its times."""
    good = [(name, t) for name, t in answers if t]
    print_times(what + ": masks", [t for _, times in good for t in times[1:]])
    print_times(what + ": compile", [times[0] for _, times in good])
    print_times(what + ": and first mask", [times[0] + times[1] for _, times in good if times[1:]])
    slow = sorted(((max(times[1:], default=0), times[0], name) for name, times in good), reverse=True)[:worst]
    for most, compiling, name in slow:
        print("# %s: a mask takes %.0f us, compiling %.0f us" % (name, most / 1e3, compiling / 1e3))
    print("# %s: %d schemas, %d refused" % (what, len(good), len(answers) - len(good)))


def ours(given, vocabulary):
    p = subprocess.run([str(BUILD / "bench/masks/bench_masks"), str(vocabulary)], stdout=subprocess.PIPE, check=True,
                       input="".join(json.dumps(g) + "\n" for _, g in given).encode())
    lines = p.stdout.decode().splitlines()
    assert len(lines) == len(given)
    return [(name, [] if line == "refused" else list(map(int, line.split()))) for (name, _), line in zip(given, lines)]


def llguidance(given, name):
    from live_masks import SPACING, vocabulary
    from llguidance import LLMatcher
    import llguidance.numpy as bitmask
    tokenizer, answers = vocabulary(name), []
    mask = bitmask.allocate_token_bitmask(1, tokenizer.vocab_size)
    for schema, (schema_text, *texts) in given:
        begun = time.perf_counter_ns()
        matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_json_schema(schema_text, defaults=SPACING), log_level=0)
        times = [time.perf_counter_ns() - begun]
        for text in texts if not matcher.is_error() else []:
            m = matcher.deep_copy()
            for token in tokenizer.tokenize_str(text):
                begun = time.perf_counter_ns()
                bitmask.fill_next_token_bitmask(m, mask)
                taken = m.consume_token(token)
                times.append(time.perf_counter_ns() - begun)
                if not taken:
                    break
        answers.append((schema, times if not matcher.is_error() else []))
    return answers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", default="llama3", help="a folder of data/tokenizers [llama3]")
    parser.add_argument("--llguidance", action="store_true")
    parser.add_argument("--worst", type=int, default=0, help="name the schemas with the slowest masks")
    parser.add_argument("--every", type=int, default=1, help="of the schemas, take one in so many")
    args = parser.parse_args()
    given = list(rows())[::args.every]
    print("%-24s %8s  " % ("microseconds", "number") + "".join("%11s" % name for name, _ in PLACES))
    print_answers("tblock", ours(given, MORE / "tokenizers" / args.vocabulary), args.worst)
    print("# largest memory %.0f MB" % (resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3))
    if args.llguidance:
        print_answers("llguidance", llguidance(given, args.vocabulary), args.worst)


if __name__ == "__main__":
    sys.exit(main())
