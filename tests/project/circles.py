#!/usr/bin/env python3
"""No new circle of object files: files that need each other can only be read, tested and changed together.

The arrows come from nm, of the objects in BUILD of what lies in src: one for each symbol that a file takes from another.
tests/project/circles lists today's circles, which may only become smaller."""
import collections
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import attempt_all, need  # noqa: E402

BUILD = ROOT / os.environ.get("BUILD", "build/release")
LIST = "tests/project/circles"


def objects():
    """Object -> name of its source, as the compiler wrote it beside; one source may become several. Those whose source has gone stay away."""
    of = {o: ROOT / re.search(r"\S+\.c\b", o.with_suffix(".d").read_text(encoding="utf-8"))[0] for o in sorted((BUILD / "src").rglob("*.o"))}
    return {o: source.stem for o, source in of.items() if source.is_file()}


def arrows():
    """File -> {file whose symbols it takes: one of these}, by name without .c."""
    of, defined, taken = objects(), {}, collections.defaultdict(set)
    need(of, f"{BUILD} has no object of src: make all")
    listing = subprocess.run(["nm", "-P", "-A", *of], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    for line in listing.splitlines():
        path, _, symbol = line.partition(".o: ")
        name, (symbol, kind) = of[pathlib.Path(path + ".o")], symbol.split()[:2]
        if kind in "TDBRVWC":
            defined[symbol] = name
        elif kind == "U":
            taken[name].add(symbol)
    found = {name: {} for name in of.values()}
    for name, symbols in taken.items():
        found[name].update({defined[s]: s for s in sorted(symbols) if defined.get(s, name) != name})
    return found


def reached(graph, start):
    """File -> the file before it on a shortest way from start."""
    before, queue = {}, collections.deque([start])
    while queue:
        at = queue.popleft()
        for to in graph[at]:
            if to not in before:
                before[to] = at
                queue.append(to)
    return before


def circles(graph):
    """Sets of files of which each reaches every other."""
    reach, found = {name: set(reached(graph, name)) for name in graph}, []
    for name in sorted(graph):
        if name in reach[name] and not any(name in c for c in found):
            found.append({name} | {other for other in reach[name] if name in reach[other]})
    return found


def closed_by(graph, circle, known):
    """A shortest circle with an arrow that no known circle has, and the symbols that its arrows stand for."""
    ways = []
    for start in sorted(circle):
        for to in sorted(circle & set(graph[start])):
            if not any({start, to} <= k for k in known):
                before, way = reached(graph, to), [start]
                while way[0] != to:
                    way.insert(0, before[way[0]])
                ways.append([start, *way])
    way = min(ways, key=len)
    return ", ".join(f"{a}.c -> {b}.c ({graph[a][b]})" for a, b in zip(way, way[1:]))


def listed():
    return [set(line.split()) for line in (ROOT / LIST).read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def no_circle_is_new():
    graph, known = arrows(), listed()
    for circle in circles(graph):
        if not any(circle <= k for k in known):
            need(False, f"a circle that {LIST} does not have: {closed_by(graph, circle, known)}; turn one of these arrows, by moving what it names"
                        f" to a file below both (all files: {' '.join(sorted(circle))})")


def the_list_has_no_circle_that_is_gone():
    graph = arrows()
    now, sources = circles(graph), {p.stem for p in (ROOT / "src").rglob("*.c")}
    for known in listed():
        if known & sources <= set(graph) and not any(known <= c for c in now):  # a build may leave some out
            left = "; ".join(" ".join(sorted(c)) for c in now if c <= known)
            need(False, f"{LIST}: the circle {' '.join(sorted(known))} is gone or smaller; write in its place: {left or 'nothing'}")


if __name__ == "__main__":
    sys.exit(attempt_all(no_circle_is_new, the_list_has_no_circle_that_is_gone))
