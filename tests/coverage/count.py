#!/usr/bin/env python3
"""Lines of src/ that ran, from what gcov knows of a build with --coverage.

    count.py BUILD [--least PERCENT]     status 1 under PERCENT (90)
    count.py BUILD --each PERCENT ROOM...     a line for each file of these rooms (src/source); status 1 where one is under PERCENT

A line counts once, however many objects hold it (the kernels are compiled for several instruction sets): it ran where it ran in one of them. Objects
without a .gcda never ran at all: their lines count as missed, except those of kernels for instruction sets that this CPU lacks.
"""
import collections
import json
import os
import pathlib
import subprocess
import sys

FLAGS = {"avx2": ("avx2", "fma", "f16c"), "avxvnni": ("avx_vnni",), "avx512": ("avx512f", "avx512bw", "avx512vl", "avx512dq"),
         "avx512vnni": ("avx512_vnni",), "avx512bf16": ("avx512_bf16",)}


def cpu_flags():
    for line in open("/proc/cpuinfo"):
        if line.startswith(("flags", "Features")):
            return set(line.split())
    return set()


def gcov(note):
    """(file, line, count) of one object."""
    p = subprocess.run(["gcov", "--json-format", "--stdout", note], capture_output=True, cwd=os.getcwd())
    for text in p.stdout.splitlines():
        for f in json.loads(text)["files"]:
            for line in f["lines"]:
                yield f["file"], line["line_number"], line["count"]


def each(ran, least, rooms):
    """The files of the rooms, one a line; is each of them reached so far?"""
    found = {file: lines for file, lines in ran.items() if file.endswith(".c") and os.path.dirname(file) in rooms}
    poor = 0
    for file, lines in sorted(found.items()):
        n, hit = len(lines), sum(lines.values())
        poor += 100 * hit < least * n
        print(f"{'FAIL' if 100 * hit < least * n else 'ok'} {file}: {100 * hit / n:.1f}%, {hit} of {n} lines (at least {least:g}%)")
    n, hit = sum(map(len, found.values())), sum(sum(lines.values()) for lines in found.values())
    missing = [room for room in rooms if not any(os.path.dirname(file) == room for file in found)]
    print(f"{'FAIL' if missing else 'ok'} whole: {100 * hit / max(n, 1):.1f}%, {hit} of {n} lines of {len(found)} files" +
          "".join(f"; no counts of {room}" for room in missing))
    return poor > 0 or bool(missing)


def main():
    build, flags = pathlib.Path(sys.argv[1]), cpu_flags()
    least = float(sys.argv[sys.argv.index("--least") + 1]) if "--least" in sys.argv else 90.0
    ran = collections.defaultdict(dict)  # file -> line -> ran
    left_out = set()
    for note in sorted(build.glob("src/**/*.gcno")):
        isa = note.stem.removeprefix("isa_")
        if isa in FLAGS and not flags.issuperset(FLAGS[isa]):
            left_out.add(isa)
            continue
        for file, line, count in gcov(str(note)):
            if file.startswith("src/"):
                ran[file][line] = ran[file].get(line, False) or count > 0
    if "--each" in sys.argv:
        at = sys.argv.index("--each")
        return each(ran, float(sys.argv[at + 1]), sys.argv[at + 2:])
    rooms, files = collections.defaultdict(lambda: [0, 0]), []
    for file, lines in ran.items():
        n, hit = len(lines), sum(lines.values())
        room = "/".join(file.split("/")[:2]) if file.count("/") > 1 else "src"
        rooms[room][0] += hit
        rooms[room][1] += n
        files.append((hit / n, n - hit, n, file))
    print(f"{'room':24} {'lines':>7} {'ran':>7} {'share':>7}")
    for room, (hit, n) in sorted(rooms.items()):
        print(f"{room:24} {n:7} {hit:7} {100 * hit / n:6.1f}%")
    print("\nmost lines missed")
    for share, missed, n, file in sorted(files, key=lambda f: -f[1])[:20]:
        lines = [k for k, hit in sorted(ran[file].items()) if not hit]
        print(f"{file:40} {missed:5} of {n:5} missed ({100 * share:.1f}% ran): {' '.join(map(str, lines[:12]))}{' ...' if len(lines) > 12 else ''}")
    hit, n = sum(r[0] for r in rooms.values()), sum(r[1] for r in rooms.values())
    if not n:
        print("FAIL coverage: no counts: build with config=coverage")
        return 1
    if left_out:
        print(f"\nnot counted, this CPU lacks them: {', '.join(sorted(left_out))}")
    share = 100 * hit / n
    print(f"\n{'ok' if share >= least else 'FAIL'} coverage: {hit} of {n} lines, {share:.2f}% (at least {least:g}%)")
    return share < least


sys.exit(main())
