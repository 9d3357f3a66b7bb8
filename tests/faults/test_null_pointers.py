#!/usr/bin/env python3
"""Every public function of tblock.h and tblock_tools.h with NULL for each pointer that it needs, each in a process of its own: an error
that names the function and the pointer, where it can tell one, and never a crash. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import ctypes
import os
import re
import sys

from faults import BUILD, ROOT
from verdicts import Skip, attempt_all

LIBRARY = next((p for p in (BUILD / "libtblock.so", *sorted(BUILD.glob("libtblock.so.*"))) if p.exists()), None)
# Pointers that may be NULL, by their names, or by function and name. Those of options mean the defaults.
MAY = {"err", "user", "report", "failed", "why", "draft"}
MAY_OF = {"tblock_output_apart": "m", "tblock_block": "path", "tblock_chat_calls": "name", "tblock_pool_choose": "name", "tblock_observe": "fn",
          "tblock_receipt_junit": "rows", "tblock_audit_junit": "rows", "tblock_answer_put": "text", "tblock_mapped_file": "address",
          "tblock_free": "p", "tblock_constraint_new": "m", "tblock_sampler_new": "opt"}
MUST_OF = {("tblock_verify_explain", "report"), ("tblock_generation_open", "opt"), ("tblock_receipt_new", "opt")}
RETURNS = {"bool": ctypes.c_bool, "double": ctypes.c_double, "int": ctypes.c_int, "int32_t": ctypes.c_int32, "size_t": ctypes.c_size_t,
           "uint64_t": ctypes.c_uint64, "void": None}


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("msg", ctypes.c_char * 512)]


def public():
    """(what it returns, name, [(declaration, name, is a pointer)]) of each function."""
    for header in ("tblock.h", "tblock_tools.h"):
        text = re.sub(r"/\*.*?\*/", "", (ROOT / "src" / header).read_text(), flags=re.S)
        for kind, name, given in re.findall(r"TBLOCK_API\s+([^;]*?)(tblock_\w+)\(((?:[^;()]|\([^()]*\))*(?:\([^()]*\)\([^()]*\)[^;()]*)?)\);", text):
            parts = re.split(r",(?![^(]*\))", " ".join(given.split()))
            yield " ".join(kind.split()), name, [
                (p.strip(), (re.search(r"\(\*(\w+)\)", p) or re.search(r"(\w+)$", p.strip())).group(1), "*" in p or "tblock_observer" in p)
                for p in parts if p.strip() != "void"]


def may_be_null(function, declaration, name):
    if (function, name) in MUST_OF:
        return False
    return name in MAY or MAY_OF.get(function) == name or "_options *" in declaration and name != "o" and name != "claimed" \
        or function.endswith(("_free", "_close", "_leave"))


def call(library, kind, function, parameters, null):
    """In a child: what became of the call with NULL for one of the pointers, or None for a crash."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        f, err = getattr(library, function), Error()
        f.restype = ctypes.c_void_p if "*" in kind else RETURNS[kind.replace("const ", "")]
        given = []
        for declaration, name, pointer in parameters:
            if name == "err":
                given.append(ctypes.byref(err))
            elif pointer:
                given.append(None if name == null else ctypes.cast(ctypes.create_string_buffer(1 << 16), ctypes.c_void_p))
            else:
                given.append(ctypes.c_double(1) if declaration.startswith("double") else ctypes.c_size_t(1))
        answer = f(*given)
        told = err.msg.decode() if any(name == "err" for _, name, _ in parameters) else None
        os.write(writing, repr((answer, err.status, told)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as f:
        said = f.read()
    os.waitpid(child, 0)
    return eval(said, {"nan": float("nan")}) if said else None  # noqa: S307: the child's own tuple


def a_null_pointer_is_an_error():
    if not LIBRARY or BUILD.name.endswith("san"):
        raise Skip("no libtblock.so that can be loaded in this build")
    try:
        library, calls, crashes = ctypes.CDLL(str(LIBRARY)), 0, []
    except OSError as why:   # of another processor
        raise Skip(str(why)) from None
    for kind, function, parameters in public():
        for declaration, name, pointer in parameters:
            if not pointer or may_be_null(function, declaration, name):
                continue
            calls += 1
            answer = call(library, kind, function, parameters, name)
            if answer is None:
                crashes.append(f"{function}({name})")
                continue
            value, status, told = answer
            if told is not None:
                assert not value and status == 2 and told.startswith(function + ": ") and "found NULL" in told, (function, name, answer)
            else:
                assert not value or value == -1, (function, name, answer)
    assert not crashes, f"{len(crashes)} of {calls} calls crash: {' '.join(crashes)}"
    assert calls > 180, calls


def every_function_is_known():
    names = re.findall(r"\b(tblock_\w+)\(", "".join(re.sub(r"/\*.*?\*/", "", (ROOT / "src" / h).read_text(), flags=re.S)
                                                       for h in ("tblock.h", "tblock_tools.h")))
    found = {name for _, name, _ in public()}
    assert found == set(names) and len(found) > 115, set(names) ^ found


if __name__ == "__main__":
    sys.exit(attempt_all(every_function_is_known, a_null_pointer_is_an_error))
