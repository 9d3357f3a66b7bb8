#!/usr/bin/env python3
"""Schemas, patterns and grammars that were written to cost time or memory: `tblock constrain` keeps them or refuses them by name, in a
second of processor time and 64 MB (wait4, which counts this script's own memory as the program's). What is refused says why.
Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why". $TBLOCK is the program."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import attempt, need  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
SLOW = b"__asan_init" in pathlib.Path(TBLOCK).read_bytes() or b"__tsan_init" in pathlib.Path(TBLOCK).read_bytes()
SECONDS, MEGABYTES = 1, 64
BUSY = 3   # on a core that others share, a second of work takes longer
KEPT = None


def nested(key, depth):
    return ('{"%s":' % key) * depth + "{}" + "}" * depth


def chain(n, link, end):
    """Definitions d0 ... dn, each made of the next by link."""
    return {"$ref": "#/$defs/d0", "$defs": {**{"d%d" % i: link({"$ref": "#/$defs/d%d" % (i + 1)}) for i in range(n)}, "d%d" % n: end}}


def names(n, letter="p"):
    return ["%s%d" % (letter, i) for i in range(n)]


NEEDS_A = {"required": ["a"]}
PRIMES = [{"pattern": "^(a{%d})*$" % p} for p in (2, 3, 5, 7, 11, 13, 17, 19)]
EITHER = [{"anyOf": [{"required": ["a%d" % i]}, {"required": ["b%d" % i]}]} for i in range(12)]

# name, schema as a value or as text, a part of the refusal (KEPT: none); made when it is needed, because the memory of this script
# counts as the program's
SCHEMAS = [lambda key=key: (key + " nested", nested(key, 900), "nested deeper than 64") for key in (
    "not", "items", "additionalProperties", "propertyNames", "if", "contains")] + [
    lambda: ("items nested 100,000 times", nested("items", 100000), "nested deeper"),
    lambda: ("not nested 60 times", nested("not", 60), KEPT),
    lambda: ("a chain of 150 $ref", chain(150, lambda d: d, {"type": "null"}), KEPT),
    lambda: ("a chain of 10,000 $ref", chain(10000, lambda d: d, {"type": "null"}), "$ref: leads back to itself"),
    lambda: ("a chain of 10,000 properties", chain(10000, lambda d: {"properties": {"a": d}}, {}), "more than 200 deep"),
    lambda: ("itself", {"$ref": "#"}, "leads back to itself"),
    lambda: ("one another", chain(1, lambda d: d, {"$ref": "#/$defs/d0"}), "leads back to itself"),
    lambda: ("no value ends", {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "no text fits"),
    lambda: ("allOf of itself", {"allOf": [{"$ref": "#"}]}, "defined by itself"),
    lambda: ("anyOf of itself", {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "defined by itself"),
    lambda: ("not itself", {"not": {"$ref": "#"}}, "defined by itself"),
    lambda: ("no value", {"type": "string", "minLength": 3, "maxLength": 2}, "no text fits"),
    lambda: ("enum of 10,000 strings", {"enum": ["value number %d" % (7919 * i) for i in range(10000)]}, KEPT),
    lambda: ("enum of 10,000 integers", {"enum": list(range(10000))}, KEPT),
    lambda: ("enum of 10,000 objects", {"enum": [{"a": i} for i in range(10000)]}, "more than 1000 cases"),
    lambda: ("a long text", {"type": "string", "minLength": 2**32 - 2, "maxLength": 2**32 - 2}, KEPT),
    lambda: ("a text without end", {"type": "string", "minLength": 10**30}, "expected a count under 2^32 - 1"),
    lambda: ("a long text with a pattern", {"type": "string", "minLength": 100000, "pattern": "^(a|b)*c.{3,1000}$"}, "takes too long"),
    lambda: ("a billion items", {"type": "array", "maxItems": 10**9, "items": {"type": "object"}}, KEPT),
    lambda: ("at least a billion items", {"type": "array", "minItems": 10**9, "items": {"type": "array"}}, KEPT),
    lambda: ("a million of itself", {"type": "array", "minItems": 10**6, "items": {"$ref": "#"}}, "no text fits"),
    lambda: ("a billion properties", {"maxProperties": 10**9}, "more than can be counted"),
    lambda: ("at least a billion properties", {"minProperties": 10**9}, "more than can be counted"),
    lambda: ("contains a million", {"contains": {"type": "null"}, "minContains": 10**6}, "more than can be counted"),
    lambda: ("10,000 properties", {"properties": dict.fromkeys(names(10000), {"type": "string"})}, "too complex"),
    lambda: ("10,000 required", {"required": names(10000)}, "too complex"),
    lambda: ("10,000 prefixItems", {"prefixItems": [{"type": "object"}] * 10000}, "more than 200"),
    lambda: ("2^12 ways", {"allOf": EITHER}, "more than 1000 cases"),
    lambda: ("2^12 ways that are refused", {"not": {"allOf": [{"not": e} for e in EITHER]}}, KEPT),
    lambda: ("oneOf 40", {"oneOf": [{"required": [name]} for name in names(40)]}, KEPT),
    lambda: ("oneOf 1,000", {"oneOf": [{"properties": {"t": {"const": name}, "v": {"type": "string"}}, "required": ["t"]}
                               for name in names(1000)]}, "more than 60000"),
    lambda: ("oneOf 300 patterns", {"oneOf": [{"pattern": "a%d.*b" % i} for i in range(300)]}, KEPT),
    lambda: ("if 40 times", {"allOf": [{"if": {"required": ["a%d" % i]}, "then": {"required": ["b%d" % i]}} for i in range(40)]},
     "more than 1000 cases"),
    lambda: ("dependentRequired 40 times", {"dependentRequired": {"a%d" % i: ["a%d" % (i + 1)] for i in range(40)}}, KEPT),
    lambda: ("allOf doubled 60 times", chain(60, lambda d: {"allOf": [d, d]}, NEEDS_A), KEPT),
    lambda: ("anyOf doubled 60 times", chain(60, lambda d: {"anyOf": [d, d]}, NEEDS_A), "more than 1000 cases"),
    lambda: ("properties doubled 60 times", chain(60, lambda d: {"properties": {"a": d, "b": d}}, NEEDS_A), KEPT),
    lambda: ("30 patterns at once", {"allOf": [{"type": "string", "pattern": "(a|b)*a(a|b){%d}x" % i} for i in range(30)]}, KEPT),
    lambda: ("the product of primes", {"type": "string", "allOf": PRIMES}, "takes too long"),
    lambda: ("no multiple of primes", {"type": "string", "not": {"anyOf": PRIMES}}, KEPT),
    lambda: ("formats at once", {"type": "string", "allOf": [{"format": f} for f in ("email", "uri", "hostname")] + [{"pattern": "a.*b.*c"}]},
     "no text fits"),
    lambda: ("10 patterns of names", {"patternProperties": {"%c%d" % (97 + i, i): {"minimum": i} for i in range(10)}}, "too complex"),
    lambda: ("60 patterns of names apart", {"patternProperties": {"^a%dx" % i: {"minimum": i} for i in range(60)}}, KEPT),
    lambda: ("a step that no automaton has", {"multipleOf": 7919}, "multipleOf: a step that is not kept"),
    lambda: ("5,000 digits", '{"minimum":%s}' % ("1" * 5000), "more digits than are kept"),
    lambda: ("an exponent", '{"const":1e1000000}', "more digits than are kept"),
    lambda: ("1,000 ranges", {"anyOf": [{"type": "number", "minimum": 1.37 * i, "maximum": 1.37 * i + .5} for i in range(1000)]}, KEPT),
    lambda: ("300 holes", {"type": "number", "allOf": [{"not": {"minimum": 1.37 * i, "maximum": 1.37 * i + .5}} for i in range(300)]}, KEPT),
    lambda: ("20,000 $ref", {"$defs": dict.fromkeys(names(20000), {"type": "string"}),
                     "properties": {name: {"$ref": "#/$defs/" + name} for name in names(20000)}}, "too complex"),
    lambda: ("3,000 $id", {"$defs": {name: {"$id": "http://x/" + name} for name in names(3000)},
                   "properties": {name: {"$ref": "http://x/" + name} for name in names(3000)}}, "more than 20000 rules"),
    lambda: ("3,000 $anchor", {"$defs": {name: {"$anchor": name} for name in names(3000)},
                       "properties": {name: {"$ref": "#" + name} for name in names(3000)}}, "too complex"),
    lambda: ("100,000 annotations", dict.fromkeys(names(100000, "x"), 0), KEPT),
]

PATTERNS = [
    ("(a{1000}){1000}", KEPT), ("((a{1000}){1000}){1000}", KEPT), ("(a{0,1000}){0,1000}", KEPT), ("((a{1,100}){1,100}){1,100}b", KEPT),
    ("(((a*)*)*)*b", KEPT), ("(a|a)*b", KEPT), ("(x+x+)+y", KEPT), ("(a|b)*a(a|b){100}", KEPT), ("(a?){1000}a{1000}", KEPT),
    ("(.*a){100}", KEPT), ("(.*a.*){30}", KEPT), (".*" * 1000, KEPT), ("(.*b)*" * 50, KEPT), ("([a-c]*[b-d]*){40}x", KEPT),
    ("a{16777216}", KEPT), ("(a{16777216}){16777216}", KEPT), ("(ab?){16777216}", KEPT), (r"\p{L}{100000}", KEPT),
    (r"(?i:\p{L}*x){50}", KEPT), (r"(\p{L}|\p{N})*\p{Lu}{40}", KEPT), ("|".join("w%dx" % i for i in range(9000)), KEPT),
    ("(" * 5000 + "a" + ")" * 5000, "nested too deeply"), ("(a|" * 5000 + "b" + ")" * 5000, "nested too deeply"),
    ("(?:" * 3000 + "a" + ")*" * 3000, "nested too deeply"), ("[^\\s\\S]", "no text fits"), ("(?=a)b", "look-around"),
]


def rules(n, form):
    return "root ::= r0\n" + "".join("r%d ::= %s\n" % (i, form.format(i + 1)) for i in range(n)) + 'r%d ::= "a"\n' % n


GRAMMARS = [
    lambda: ("recursion to the left", 'root ::= root "a" | "a"', KEPT),
    lambda: ("every reading", 'root ::= root root | "a"', KEPT),
    lambda: ("every reading of nothing", 'root ::= root root | ""', KEPT),
    lambda: ("no text", 'root ::= "a" root', "no text fits"),
    lambda: ("itself", "root ::= root", "no text fits"),
    lambda: ("one another", "root ::= a\na ::= b\nb ::= root", "no text fits"),
    lambda: ("2^60 letters", rules(60, "r{0} r{0}"), KEPT),
    lambda: ("1 to 2^60 letters", rules(60, 'r{0} r{0} | "a"'), KEPT),
    lambda: ("groups nested 90,000 times", "root ::= " + "(" * 90000 + '"a"' + ")" * 90000, "nested too deeply"),
    lambda: ("repeated recursion", 'root ::= (x{1000}){1000}\nx ::= "(" x ")" | "a"', KEPT),
    lambda: ("too often repeated recursion", 'root ::= (x{5000})\nx ::= "(" x ")" | "a"', "repeated more than 4096 times"),
    lambda: ("repeated repetition", 'root ::= ((("a"{1000}){1000}){1000}){1000}', KEPT),
    lambda: ("100,000 rules", "root ::= " + " | ".join(names(100000, "r")) + "\n" + "".join('r%d ::= "b%d"\n' % (i, i) for i in range(100000)), KEPT),
    lambda: ("a chain of 20,000 rules", rules(20000, '"b" r{0} | "a"'), KEPT),
    lambda: ("palindromes", "root ::= c root c | c | \"\"\nc ::= [a-z]", KEPT),
]


def measured(kind, constraint, text):
    """(status, processor seconds, megabytes, standard error) of looking at one text."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / name for name in ("constraint", "texts", "errors")]
        paths[0].write_text(constraint)
        paths[1].write_text(json.dumps(text) + "\n")
        if kind == "--regex":
            paths[0] = constraint
        with paths[2].open("w") as errors:
            p = subprocess.Popen([TBLOCK, "constrain", "-q", kind, paths[0], "--jsonl", paths[1]], stdout=subprocess.DEVNULL, stderr=errors)
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        return p.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, paths[2].read_text().strip()


def ends(kind, constraint, text, refusal):
    status, seconds, megabytes, errors = measured(kind, constraint, text)
    need(status == (3 if refusal else 0), "status %d: %s" % (status, errors))
    need(not refusal or (refusal in errors and "\n" not in errors), "expected '%s', found: %s" % (refusal, errors))
    need(SLOW or (seconds <= BUSY * SECONDS and megabytes <= MEGABYTES), "%.2f s, %.0f MB" % (seconds, megabytes))


def main():
    failed = [attempt("schema: " + name, ends, "--json-schema", schema if isinstance(schema, str) else json.dumps(schema), '"a"', refusal)
              for make in SCHEMAS for name, schema, refusal in [make()]]
    failed += [attempt("pattern: " + pattern[:30], ends, "--regex", pattern, 300 * "a", refusal) for pattern, refusal in PATTERNS]
    failed += [attempt("grammar: " + name, ends, "--grammar", grammar, 40 * "a", refusal) for make in GRAMMARS
               for name, grammar, refusal in [make()]]
    return any(failed)


if __name__ == "__main__":
    sys.exit(main())
