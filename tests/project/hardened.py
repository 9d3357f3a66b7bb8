#!/usr/bin/env python3
"""What is handed out is hardened (HARDEN of the Makefile), as readelf sees it. The tests of packages ask the same of their files.
Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from verdicts import Skip, attempt_all, need  # noqa: E402

BUILD = os.environ.get("BUILD", "build/release")
X86 = os.uname().machine == "x86_64"


def said_by(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def hardened(path, checks=True):
    """A program or a shared library, of any processor: its place in memory is chosen at each start, the stack holds no code, no memory
    is for code and for writing, what the loader fills in is read-only from then on. checks, which need names that are not stripped
    and code that has something to check: of the stack, and of the lengths of what is copied."""
    said = said_by("readelf", "-hldW", path)
    need(re.search(r"Type: +DYN", said), path + ": expected a position-independent file (DYN)")
    need("GNU_RELRO" in said, path + ": expected a part that is made read-only (GNU_RELRO)")
    need(re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*NOW", said), path + ": expected BIND_NOW")
    need("TEXTREL" not in said, path + ": found TEXTREL")
    need(re.search(r"GNU_STACK( +0x\w+){5} RW +\d", said), path + ": expected a stack that is not executable")
    need(not re.search(r"LOAD( +0x\w+){5} RWE", said), path + ": found memory for code and for writing")
    if checks:
        symbols = said_by("readelf", "-sW", path)
        # zig links a function of its own, whose name is stripped
        need("__stack_chk_fail" in symbols or "%fs:0x28" in said_by("objdump", "-d", "--no-show-raw-insn", path),
             path + ": expected checks of the stack")
        need(re.search(r"__\w+_chk\b", symbols), path + ": expected checks of lengths (_FORTIFY_SOURCE)")


def the_program_is_hardened():
    hardened(BUILD + "/tblock")


def the_library_is_hardened():
    hardened(BUILD + "/libtblock.so")


def the_python_module_is_hardened():
    path = BUILD + "/python/tblock/_c.abi3.so"
    if not os.path.exists(path):
        raise Skip("no cffi")
    hardened(path)


def big_frames_are_touched_page_by_page():
    """As gcc does it: clang's instruction has other uses."""
    if not X86 or "clang" in said_by("readelf", "-p", ".comment", BUILD + "/tblock"):
        raise Skip("another processor, or clang")
    need(re.search(r"\bor[ql]? +\$0x0,\(%rsp\)", said_by("objdump", "-d", "--no-show-raw-insn", BUILD + "/tblock")),
         "found no probe of the stack")


def every_object_marks_where_jumps_may_land():
    """All of the archive, which is one object; the program too, where the C library's start has such marks."""
    if not X86:
        raise Skip("another processor")
    marks = "x86 feature: IBT, SHSTK"
    need(marks in said_by("readelf", "-nW", BUILD + "/libtblock.a"), "libtblock.a: expected " + marks)
    with tempfile.TemporaryDirectory() as folder:
        empty = os.path.join(folder, "empty")
        subprocess.run([os.environ.get("CC", "cc"), "-fcf-protection", "-x", "c", "-o", empty, "-"], input=b"int main(void) { return 0; }", check=True)
        if marks in said_by("readelf", "-nW", empty):
            need(marks in said_by("readelf", "-nW", BUILD + "/tblock"), "tblock: expected " + marks)


if __name__ == "__main__":
    if re.search("debug|san$|fuzz|coverage|-O", os.path.basename(BUILD)):
        print("skip hardened: a build for tests, which nobody is handed")
    else:
        sys.exit(attempt_all(the_program_is_hardened, the_library_is_hardened, the_python_module_is_hardened,
                             big_frames_are_touched_page_by_page, every_object_marks_where_jumps_may_land))
