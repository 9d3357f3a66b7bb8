#!/usr/bin/env python3
"""A name of src says one thing: no type is defined in two files, and no static function has the name of more than three.

tests/project/names lists the names that do not keep this today, each with the number of its files, which may only become
smaller; one that shall stay has its reason there. A type is a struct, union or enum with a body, or another typedef; where
only conditions of the preprocessor part two, they count as two."""
import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from size import FUNCTION, ROOT, bare, sources  # noqa: E402
from verdicts import attempt_all, need  # noqa: E402

LIST = "tests/project/names"
MOST = {"type": 1, "function": 3}
BODY = re.compile(r"^(?:typedef\s+)?(?:struct|union|enum)\s+(\w+)\s*\{", re.M)
NAMED = re.compile(r"^typedef\s+(?:struct|union|enum)\b[^{};]*\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}\s*(\w+)", re.M)
OTHER = re.compile(r"^typedef\s+(?!(?:struct|union|enum)\s+(\w+)\s+\1\s*;)[^{};(\[]*?(?:\(\*\s*)?\b(\w+)\s*(?:[\[;)]|\((?!\*))", re.M)


def types(text):
    return {*BODY.findall(text), *NAMED.findall(text), *(name for _, name in OTHER.findall(text))}


def files():
    """(kind, name) -> files of src that define it"""
    found = collections.defaultdict(set)
    for path, text in sources().items():
        text = bare(text)
        for name in types(text):
            found["type", name].add(path)
        for before, name in FUNCTION.findall(text):
            if before.startswith("static"):
                found["function", name].add(path)
    return found


def listed():
    rows = [line.split(None, 3) for line in (ROOT / LIST).read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {(kind, name): int(count) for count, kind, name, *_ in rows}


def claim(kind):
    found, known = files(), listed()
    for (k, name), where in sorted(found.items(), key=lambda item: -len(item[1])):
        most = known.get((k, name), MOST[k])
        need(k != kind or len(where) <= most, f"{kind} {name} is defined in {len(where)} files of src, at most {most} may: {' '.join(sorted(where))}; "
                                              f"choose a name that says more")
    for (k, name), count in known.items():
        now = len(found[k, name])
        need(k != kind or now == count, f"{LIST}: {count} {kind} {name}, and today it is {now}: "
                                        f"{f'write {now}' if now > MOST[kind] else 'strike it'}")


def no_type_is_defined_twice():
    claim("type")


def no_static_function_has_the_name_of_more_than_three():
    claim("function")


if __name__ == "__main__":
    sys.exit(attempt_all(no_type_is_defined_twice, no_static_function_has_the_name_of_more_than_three))
