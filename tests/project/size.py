#!/usr/bin/env python3
"""How large src is, and that no part of it is larger than tests/project/budgets allows.

  tests/project/size.py [--table]     --table: lines and functions of each room and capability (make size)

A room is a folder of src; a capability is a row of budgets with the names of its files. Lines are all lines of *.c and *.h.
Tables of numbers that nobody reads (*.inc, the row "data") are counted apart. A function is a definition that begins in
the first column; it counts wherever a preprocessor's condition puts it, and macros that make functions count for none."""
import collections
import fnmatch
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import Skip, attempt_all, need  # noqa: E402

BUDGETS = "tests/project/budgets"
WHAT_TO_DO = f"take lines away, or raise the number in {BUDGETS} and say why in the commit"
# a list of parameters, in whose parentheses others stand
PARENTHESES = r"\((?:[^(){};]|\((?:[^(){};]|\([^(){};]*\))*\))*\)"
FUNCTION = re.compile(rf"^(?!typedef\b)([A-Za-z_][^;{{}}=()]*?)\b(\w+)\s*{PARENTHESES}\s*\{{", re.M)


def bare(text):
    """C without its comments, attributes, directives and the insides of its strings"""
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', lambda m: '""' if m[0][0] in "\"'" else " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:.*\\\n)*.*", "", text, flags=re.M)
    return re.sub(rf"__attribute__\s*{PARENTHESES}\s*", "", text)


@functools.cache
def sources():
    """Path below the project -> text, of all C in src."""
    return {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in sorted((ROOT / "src").rglob("*.*")) if p.suffix in (".c", ".h", ".inc")}


def budgets():
    """What -> (most lines, patterns), in the order of the file."""
    rows = {}
    for line in (ROOT / BUDGETS).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            number, what = line.split(None, 1)
            what, _, patterns = what.partition(":")
            rows[what.strip()] = int(number), patterns.split()
    return rows


def fits(path, pattern):
    return fnmatch.fnmatch(path if "/" in pattern else path.rpartition("/")[2], pattern)


@functools.cache
def sizes():
    """What -> [lines, functions], of the rows of budgets and of rooms that have none there."""
    rows, counted = budgets(), collections.defaultdict(lambda: [0, 0])
    capabilities = {what: patterns for what, (_, patterns) in rows.items() if patterns}
    for path, text in sources().items():
        of = next((what for what, patterns in capabilities.items() if any(fits(path, p) for p in patterns)), "no capability")
        if path.endswith(".inc"):
            of = "data"
        parts = [of] if of == "data" else ["total", "/".join(path.split("/")[:2]) if path.count("/") > 1 else "src", of]
        for part in parts:
            counted[part][0] += text.count("\n")
            counted[part][1] += len(FUNCTION.findall(bare(text)))
    return counted


def no_part_is_over_its_budget():
    rows = budgets()
    over = [f"{what}: {lines} lines, its budget is {rows[what][0]}" for what, (lines, _) in sizes().items() if what in rows and lines > rows[what][0]]
    need(not over, f"{'; '.join(over)}: {WHAT_TO_DO}")


def every_room_and_file_has_a_budget():
    rows, counted = budgets(), sizes()
    need(set(counted) <= set(rows), f"{BUDGETS} has no row for {', '.join(sorted(set(counted) - set(rows)))}")
    need(set(rows) <= set(counted), f"nothing in src fits these rows of {BUDGETS}: {', '.join(sorted(set(rows) - set(counted)))}")
    vain = [p for _, patterns in rows.values() for p in patterns if not any(fits(path, p) for path in sources())]
    need(not vain, f"no file of src fits these patterns of {BUDGETS}: {' '.join(vain)}")


def a_raised_budget_says_why():
    """The last commit that touched the file, where it raised a number."""
    log = subprocess.run(["git", "log", "-1", "-p", "--format=%B", "--", BUDGETS], cwd=ROOT, capture_output=True, encoding="utf-8")
    if log.returncode or not log.stdout:
        raise Skip("no git checkout with its history")
    message, _, change = log.stdout.partition("\ndiff --git ")
    old, new = ({what.strip(): int(number) for number, what in re.findall(rf"^\{sign} *(\d+) +([^:\n]+)", change, re.M)} for sign in "-+")
    raised = [f"{what} from {old[what]} to {new[what]}" for what in new if new[what] > old.get(what, new[what])]
    need(not raised or "budget" in message.partition("\n")[2],
         f"a commit raised {', '.join(raised)}, and its body has no sentence with the word budget")


def table():
    rows, counted = budgets(), sizes()
    for title, belongs in (("room", lambda what: what.startswith("src")), ("capability", lambda what: not what.startswith("src") and what != "total")):
        print(f"{title:32} {'lines':>8} {'of most':>8} {'functions':>10}")
        for what in sorted((w for w in counted if belongs(w)), key=lambda w: (w == "data", -counted[w][0])) + ["total"]:
            print(f"{what:32} {counted[what][0]:8,} {rows[what][0] if what in rows else 0:8,} {counted[what][1]:10,}")
        print()


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        table()
    else:
        sys.exit(attempt_all(no_part_is_over_its_budget, every_room_and_file_has_a_budget, a_raised_budget_says_why))
