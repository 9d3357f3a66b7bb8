"""Strict JSON. Python's reader takes NaN, duplicate keys (the last wins) and huge numbers (inf); a config or a header that
holds them means something else to every reader, so they are refused."""
import json
import math

from .errors import bad, quoted

LARGEST = 256 << 20   # bytes; the largest published tokenizer.json is under 40 MB


def parse(data, file, what=""):
    """Parse bytes. `what` names the part of the file (such as 'header'); file and what appear in the error."""
    def pairs(items):
        result = dict(items)
        if len(result) != len(items):
            seen = set()
            for key, _ in items:
                if key in seen:
                    raise bad(file, what, "every key once", "key '%s' twice in one object" % quoted(key))
                seen.add(key)
        return result

    def constant(name):
        raise bad(file, what, "JSON", name)

    def number(text):
        value = float(text)
        if not math.isfinite(value):
            raise bad(file, what, "a number that fits a double", text[:40])
        return value

    def integer(text):
        if len(text) > 40:
            raise bad(file, what, "a number that fits a double", text[:40] + "...")
        return int(text)

    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        raise bad(file, what, "UTF-8", "byte 0x%02x at offset %d" % (data[e.start], e.start))
    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=number, parse_int=integer)
    except json.JSONDecodeError as e:
        hint = "" if data else "the file is empty"
        raise bad(file, what, "JSON", "%s at line %d, column %d" % (e.msg, e.lineno, e.colno), hint)
    except RecursionError:
        raise bad(file, what, "JSON", "brackets nested too deeply")


def parse_object(data, file, what=""):
    value = parse(data, file, what)
    if not isinstance(value, dict):
        raise bad(file, what, "a JSON object", kind(value))
    return value


def holds_nul(value):
    """Does a string in there hold a NUL, which ends it for readers in C?"""
    if isinstance(value, dict):
        return any("\0" in k or holds_nul(v) for k, v in value.items())
    return any(map(holds_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value


def parse_config(data, file):
    """An object without NUL in its strings."""
    value = parse_object(data, file)
    if holds_nul(value):
        raise bad(file, "", "strings without NUL", "a string that holds one")
    return value


def member(node, key, type_, file, what=""):
    """node[key], which has to be an object (dict) or an array (list); an empty one where it is absent or null."""
    value = node.get(key)
    if value is None:
        return type_()
    if not isinstance(value, type_):
        raise bad(file, what or key, "an object" if type_ is dict else "an array", kind(value))
    return value


def kind(value):
    """What a JSON value is, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return "'%s'" % quoted(value)
    return "an array" if isinstance(value, list) else "an object"
