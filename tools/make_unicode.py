#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_data.inc: what the program knows of Unicode, in tables of its own, so that ids are the same on every
machine. Run by hand when the release of tokenizers that the project follows changes its Unicode:

  tools/make_unicode.py [--check]      from the project's root; needs pip and a network; --check only compares

The data come from ICU, as two packages of PyPI hold it, installed under build/unicode. Which version a table has is that of the part
of tokenizers 0.23.3 that it stands for (docs/tokenizers.md): tests/text/record_unicode.py records what that library says of
every character, and tests/text/test_unicode.py compares.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "src" / "tokenizer" / "unicode_data.inc"
PACKAGES = {"16.0": "pyicu-wheels==2.15.2", "17.0": "icukit-pyicu==78.3.1"}   # ICU 77.1 and 78.3
NORMAL_VERSION = "9.0"   # of the normalization forms: later characters have none. What an older one has never changes.
BINARY = ["Alphabetic", "Uppercase", "Lowercase", "White_Space", "Ideographic", "Emoji", "Emoji_Presentation", "Emoji_Modifier",
          "Emoji_Modifier_Base", "Emoji_Component", "Extended_Pictographic"]
END = 0x110000


# ---- Facts, asked of one ICU in a process of its own ----

def runs(value, end=END):
    """[start, value] of each run of equal values."""
    out = []
    for c in range(end):
        v = value(c)
        if not out or out[-1][1] != v:
            out.append([c, v])
    return out


def facts():
    import icu
    char, prop, choice = icu.Char, icu.UProperty, icu.UPropertyNameChoice

    def plain(name):
        return "".join(x for x in name if x not in "_- ").lower()

    def names(p, v):
        return sorted({plain(n) for n in (char.getPropertyValueName(p, v, k) for k in (choice.SHORT_PROPERTY_NAME, choice.LONG_PROPERTY_NAME))
                       if n}, key=lambda n: (len(n), n))

    def number(p):
        return lambda c: char.getIntPropertyValue(c, getattr(prop, p))

    def decomposition(c):
        """[is canonical, code points] of one step, which ICU does not tell: of this Python, which knows more than Unicode 9."""
        kind, *parts = [None, *unicodedata.decomposition(chr(c)).split()]
        if parts and parts[0][0] == "<":
            kind, *parts = parts
        return [not kind, [int(x, 16) for x in parts]]

    scripts = runs(number("SCRIPT"))
    binary = {n: [c for c, _ in runs(lambda c, p=char.getPropertyEnum(n): char.hasBinaryProperty(c, p))] for n in BINARY}
    was = tuple(int(n) for n in NORMAL_VERSION.split("."))
    old = [(0, 0) < tuple(int(n) for n in char.charAge(c).split("."))[:2] <= was for c in range(END)]
    conjunct = char.getPropertyEnum("InCB")

    def forms(c):
        """Combining class, and which normal forms change or move it, or may, after what came before."""
        yes = number("NFC_QUICK_CHECK")(0x41)
        return [number("CANONICAL_COMBINING_CLASS")(c), [number(n + "_QUICK_CHECK")(c) != yes for n in ("NFC", "NFD", "NFKC", "NFKD")]]

    def grapheme(c):
        """Grapheme_Cluster_Break, with Extended_Pictographic and Indic_Conjunct_Break, which the rules ask for too, in one."""
        conjunct_value = char.getPropertyValueName(conjunct, char.getIntPropertyValue(c, conjunct), choice.LONG_PROPERTY_NAME)
        value = char.getPropertyValueName(prop.GRAPHEME_CLUSTER_BREAK, number("GRAPHEME_CLUSTER_BREAK")(c), choice.LONG_PROPERTY_NAME)
        if value in ("LV", "LVT"):
            return "Other"   # by arithmetic
        if value == "Other" and char.hasBinaryProperty(c, prop.EXTENDED_PICTOGRAPHIC):
            return "Pictographic"
        return value if conjunct_value == "None" else value + " " + conjunct_value

    json.dump({
        "unicode": icu.UNICODE_VERSION,
        "category": runs(lambda c: char.charType(c)),
        "category_names": [names(prop.GENERAL_CATEGORY, v) for v in range(30)],
        "scripts": scripts,
        "script_names": {v: names(prop.SCRIPT, v) for v in sorted({v for _, v in scripts})},
        "binary": binary,
        "binary_names": {n: sorted({plain(x) for x in (n, char.getPropertyName(char.getPropertyEnum(n), choice.SHORT_PROPERTY_NAME)) if x})
                         for n in BINARY},
        "fold": [[c, char.foldCase(c)] for c in range(END) if char.foldCase(c) != c],
        "lower": [[c, char.tolower(c)] for c in range(END) if char.tolower(c) != c],
        "normal": runs(lambda c: forms(c) if old[c] else [0, [False] * 4]),
        "decomposition": [[c, *decomposition(c)] for c in range(END) if old[c] and decomposition(c)[1]],
        "excluded": [c for c in range(END) if char.hasBinaryProperty(c, prop.FULL_COMPOSITION_EXCLUSION)],
        "grapheme": runs(grapheme),
    }, sys.stdout)


def ask(version):
    folder = ROOT / "build" / "unicode" / version
    if not folder.exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target", str(folder),
                        PACKAGES[version]], check=True)
    p = subprocess.run([sys.executable, __file__, "--facts"], env=dict(os.environ, PYTHONPATH=str(folder)), stdout=subprocess.PIPE, check=True)
    found = json.loads(p.stdout)
    if found["unicode"] != version:
        sys.exit("%s: expected Unicode %s, found %s" % (PACKAGES[version], version, found["unicode"]))
    return found


# ---- The tables ----

GRAPHEME = ["Other", "CR", "LF", "Control", "Extend Extend", "Extend", "ZWJ Extend", "Regional_Indicator", "Prepend", "SpacingMark", "L", "V",
            "T", "Pictographic", "Other Consonant", "Extend Linker"]   # as enum Grapheme of tokenizer/unicode.h
UNIONS = {"l": "letter", "m": "mark combiningmark", "n": "number", "p": "punctuation punct", "s": "symbol", "z": "separator", "c": "other"}
ALIASES = {"nd": "digit", "cc": "cntrl"}   # besides the names of ICU; Oniguruma knows them


def numbers(values):
    """Lines of numbers, at most 100 columns."""
    lines, line = [], "   "
    for v in values:
        if len(line) + len(v) + 2 > 100:
            lines.append(line)
            line = "   "
        line += " " + v + ","
    return "\n".join([*lines, line])


def array(kind, name, values):
    values = [str(v) for v in values]
    return "const %s %s[] = {\n%s\n};\nconst size_t %s_N = %d;\n" % (kind, name, numbers(values), name, len(values))


def cstring(text):
    return '"%s"' % text


def mapping(pairs):
    """{first, how many, step, what to add} of characters at equal distances that are mapped by one difference."""
    out = []
    for c, to in pairs:
        last = out[-1] if out else None
        if last and to - c == last[3]:
            step = c - last[0] if last[1] == 1 else last[2]
            if c == last[0] + last[1] * step and step <= 2:
                last[1:3] = last[1] + 1, step
                continue
        out.append([c, 1, 1, to - c])
    return ["{%d, %d, %d, %d}" % tuple(x) for x in out]


def category_names(names):
    """[(name, set of categories as bits)], by name"""
    out = {}
    for i, known in enumerate(names):
        for n in (*known, *ALIASES.get(known[0], "").split()):
            out[n] = 1 << i
        for n in (known[0][0], *UNIONS[known[0][0]].split()):
            out[n] = out.get(n, 0) | 1 << i
    for n in ("lc", "l&", "casedletter"):
        out[n] = out["lu"] | out["ll"] | out["lt"]
    out["any"] = (1 << len(names)) - 1
    out["assigned"] = out["any"] - out["cn"]
    return sorted(out.items())


def decompositions(rows):
    """The pool of code points; runs {first, how many, offset, length, compatible} of neighbours whose ones have one length; {code
    point: offset} of each."""
    pool, out, at = [], [], {}
    for c, canonical, parts in rows:
        last = out[-1] if out else None
        at[c] = len(pool)
        if last and c == last[0] + last[1] and last[3:] == [len(parts), not canonical]:
            last[1] += 1
        else:
            out.append([c, 1, len(pool), len(parts), not canonical])
        pool += parts
    return pool, ["{%d, %d, %d, %d, %d}" % tuple(x) for x in out], at


def compositions(rows, at, excluded):
    pairs = sorted((parts, c) for c, canonical, parts in rows if canonical and len(parts) == 2 and c not in excluded)
    return ["{%d, %d}" % (at[c], c) for _, c in pairs]


def normal(found):
    """Runs: start << 10 | forms << 6 | rank of the combining class; of the ranks, the order alone counts and that 0 is 0."""
    classes = sorted({v[0] for _, v in found})
    value = [(c, sum(1 << 6 + i for i in range(4) if forms[i]) | classes.index(k)) for c, (k, forms) in found]
    out = [(c, v) for i, (c, v) in enumerate(value) if i == 0 or v != value[i - 1][1]]
    last = max(c for c, _ in out) >> 8
    blocks = [max(i for i, (c, _) in enumerate(out) if c <= block << 8) for block in range(last + 2)]
    return [c << 10 | v for c, v in out], blocks


def edges(binary, category, names):
    """One pool of edges for all, and for each (name, categories that have it wholly, start and number of its edges): a property is
    that of these categories and of what lies between an even edge and the next."""
    whole = {"Alphabetic": names["l"] | names["nl"], "Uppercase": names["lu"], "Lowercase": names["ll"]}
    starts = [c for c, _ in category]
    pool, rows = [], []
    for name, found in binary.items():
        mask = whole.get(name, 0)
        cuts = sorted({*found, *starts})
        out, inside, at, run = [], False, 0, 0
        for c in cuts:
            if at < len(found) and found[at] == c:
                inside, at = at > 0 and not inside, at + 1   # the first run, from U+0000 on, is without it
            while run + 1 < len(category) and category[run + 1][0] <= c:
                run += 1
            extra = inside and not mask >> category[run][1] & 1
            if extra != bool(len(out) % 2):
                out.append(c)
        rows.append((name, mask, len(pool), len(out)))
        pool += out
    return pool, rows


def table():
    f, late = ask("16.0"), ask("17.0")
    pool, runs_of, at = decompositions(f["decomposition"])
    normal_runs, blocks = normal(f["normal"])
    categories = category_names(f["category_names"])
    binary_pool, binary_rows = edges(f["binary"], f["category"], dict(categories))
    script_ids = list(f["script_names"])
    names = [[cstring(n), "{%s, %d, %d, %d}" % (cstring(n), mask, start, n_edges)] for name, mask, start, n_edges in binary_rows
             for n in (*f["binary_names"][name], *(["space"] if name == "White_Space" else []))]
    scripts = sorted((n, script_ids.index(i)) for i, known in f["script_names"].items() for n in known)
    parts = [
        "/* Made by tools/make_unicode.py of %s (Unicode 16.0) and %s (17.0): not to be edited. */\n" % (PACKAGES["16.0"], PACKAGES["17.0"]),
        array("uint32_t", "CATEGORY_RUNS", [c << 5 | v for c, v in f["category"]]),
        array("CategoryName", "CATEGORY_NAMES", ["{%s, %d}" % (cstring(n), mask) for n, mask in categories]),
        array("uint32_t", "SCRIPT_RUNS", [c << 8 | script_ids.index(str(v)) for c, v in f["scripts"]]),
        array("ScriptName", "SCRIPT_NAMES", ["{%s, %d}" % (cstring(n), i) for n, i in scripts]),
        array("uint32_t", "BINARY_EDGES", binary_pool),
        array("BinaryName", "BINARY_NAMES", [row for _, row in sorted(names)]),
        array("CaseRun", "FOLD_RUNS", mapping(f["fold"])),
        array("CaseRun", "LOWER_RUNS", mapping(late["lower"])),
        array("uint32_t", "NORMAL_RUNS", normal_runs),
        array("uint16_t", "NORMAL_BLOCKS", blocks),
        array("Decomposition", "DECOMPOSITIONS", runs_of),
        array("uint32_t", "DECOMPOSED", pool),
        array("Composition", "COMPOSITIONS", compositions(f["decomposition"], at, set(f["excluded"]))),
        array("uint32_t", "GRAPHEME_RUNS", [c << 4 | GRAPHEME.index(v) for c, v in late["grapheme"]]),
    ]
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where the table is another")
    parser.add_argument("--facts", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.facts:
        return facts()
    made = table()
    if not options.check:
        TABLE.write_text(made)
    elif made != TABLE.read_text():
        sys.exit("%s: another than what is made here" % TABLE)


if __name__ == "__main__":
    main()
