"""Makes the extension module tblock._c with cffi. The public headers are the only declarations: they are read here, and the
C compiler checks what was read against them. The library lies inside, so a wheel needs no other file of ours."""
import os
import re
import subprocess

import cffi

HEADERS = ["tblock.h", "tblock_tools.h"]
BUILD = os.environ.get("BUILD", os.path.join("build", "release"))

# C calls these; python/tblock/_core.py says what they do.
CALLBACKS = """
extern "Python" bool tblock_py_go_on(void *user, double done);
extern "Python" bool tblock_py_train(void *user, const tblock_train_progress *p);
extern "Python" void tblock_py_observe(void *user, const char *name, size_t first, int n_tok, const float *x, size_t stride);
extern "Python" void tblock_py_token(void *user, size_t index, int32_t token, const float *logits);
extern "Python" bool tblock_py_put(void *user, const char *data, size_t n_bytes);
"""


def declarations(path):
    """A header as cffi reads it: without comments and the preprocessor's lines, but with numbers that are defined. Values of
    constants are left to the compiler."""
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)
    defined = re.findall(r"^#define +(TBLOCK_\w+) +\d", text, re.M)
    text = re.sub(r"^#ifdef __cplusplus.*?^#endif", "", text, flags=re.M | re.S)
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("TBLOCK_API", "")
    text = re.sub(r"\benum\b[^;{]*\{[^}]*\}", lambda e: re.sub(r"=[^,}]*", "= ...", e[0]), text)
    return "".join("#define %s ...\n" % name for name in defined) + text


def libraries():
    """The library, within the extension or (TBLOCK_LINK=shared, for a distribution's packages) beside it, with what it is linked with
    itself, as the Makefile finds it. Without symbols, which are only for debugging."""
    if os.environ.get("TBLOCK_LINK") == "shared":
        return ["-L" + BUILD, "-ltblock"]
    if os.environ.get("config") == "manylinux":  # of the Makefile
        names = [os.path.join(os.environ["STATIC_LIBS"], "lib", "lib%s.a" % name) for name in ("cjson", "pcre2-8", "nettle")]
    else:
        names = subprocess.run(["pkg-config", "--libs", "libcjson", "libpcre2-8", "nettle"], check=True, stdout=subprocess.PIPE,
                               universal_newlines=True).stdout.split()
    return [BUILD + "/libtblock.a", *names, "-lm", "-pthread", "-s"]


ffi = cffi.FFI()
ffi.cdef("".join(declarations(os.path.join("src", name)) for name in HEADERS) + CALLBACKS)
ffi.set_source("tblock._c", "".join('#include "%s"\n' % name for name in HEADERS), include_dirs=["src"],
               extra_link_args=libraries(), py_limited_api=True)
