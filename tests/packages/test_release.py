#!/usr/bin/env python3
"""`make release`: what it refuses, that the version stands in one place, its list of what the files are made of, its signature. With
TBLOCK_RELEASE, the folder that it made, the lists of that folder. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from artefacts import RELEASE, ROOT, VERSION, run
from verdicts import Skip, attempt_all

TEMP = tempfile.mkdtemp(prefix="tblock-release-")
CLONE = os.path.join(TEMP, "clone")
NEXT = "9.8.7"
LISTS = {"SHA256SUMS", "SHA256SUMS.sig"}


def change(name, pattern, text):
    path = os.path.join(CLONE, name)
    with open(path, encoding="utf-8") as f:
        old = f.read()
    new = re.sub(pattern, text, old, count=1, flags=re.M)
    assert new != old, (name, pattern)
    with open(path, "w", encoding="utf-8") as f:
        f.write(new)


def commit():
    run("git", "-c", "user.name=a test", "-c", "user.email=test@localhost", "commit", "-qam", "next", cwd=CLONE)


def release(status, *more):
    return run("make", "-s", "release", "CHECK=1", *more, cwd=CLONE, status=status)


def it_refuses_what_cannot_be_released():
    run("git", "clone", "-q", "--no-hardlinks", ROOT, CLONE)
    change("CHANGELOG.md", r"\A([^#]*# .*\n[^#]*)^## ", r"\1## Unreleased\n\n## ")
    commit()
    assert "expected '## %s - YYYY-MM-DD' first (the version of src/tblock.h), found '## Unreleased'" % VERSION in release(2)
    change("CHANGELOG.md", "^## Unreleased$", "## %s - 2030-01-02" % NEXT)
    commit()
    assert "found '## %s - 2030-01-02'" % NEXT in release(2)
    change("src/tblock.h", '^#define TBLOCK_VERSION ".*"', '#define TBLOCK_VERSION "%s"' % NEXT)
    assert "expected a tree without changes, found:  M src/tblock.h" in release(2)
    commit()
    assert release(0) == ""
    assert "SIGN_KEY=/no/key: expected a private key" in release(2, "SIGN_KEY=/no/key")


def the_version_stands_in_one_place():
    """After the commit above, everything has it."""
    run("make", "-s", "dist", cwd=CLONE)
    assert os.listdir(os.path.join(CLONE, "build", "dist")) == ["tblock-%s.tar.gz" % NEXT]
    assert run(sys.executable, "setup.py", "--version", cwd=CLONE).splitlines()[-1] == NEXT
    for target, words in (("install", "s|@VERSION@|%s|" % NEXT), ("install", "libtblock.so." + NEXT), ("deb", "make_deb.sh " + NEXT)):
        assert words in run("make", "-n", target, "DESTDIR=/nowhere", cwd=CLONE), words
    # besides recorded answers
    here = run("git", "grep", "-lwF", VERSION, "--", ".", ":!tests/data", ":!tests/cli/cases", ":!bench/results", cwd=ROOT).split()
    assert set(here) <= {"CHANGELOG.md", "src/tblock.h"}, here


def signed_is_what_the_key_signed():
    """Not with a byte changed in a file, in the list or in the signature, nor for another key."""
    folder = os.path.join(TEMP, "signed")
    os.makedirs(os.path.join(folder, "python"))
    for name in ("one", "python/two"):
        with open(os.path.join(folder, name), "w") as f:
            f.write(name)
    run("sh", "-c", "sha256sum one python/two > SHA256SUMS", cwd=folder)
    for key in ("key", "other"):
        key = os.path.join(TEMP, key)
        run("openssl", "genpkey", "-algorithm", "ed25519", "-out", key)
        run("openssl", "pkey", "-in", key, "-pubout", "-out", key + ".pub")

    def sign_release(what, key, status=0):
        return run("packaging/sign_release.sh", what, os.path.join(TEMP, key), folder, status=status)

    sign_release("sign", "key")
    assert "python/two: OK" in sign_release("verify", "key.pub")
    sign_release("verify", "other.pub", status=1)
    for name, at, said in (("one", 0, "one: FAILED"), ("SHA256SUMS", 5, "Verification Failure"), ("SHA256SUMS.sig", 9, "Verification Failure")):
        with open(os.path.join(folder, name), "r+b") as f:
            whole = f.read()
            f.seek(at)
            f.write(bytes([whole[at] ^ 1]))
            f.flush()
            assert said in sign_release("verify", "key.pub", status=1), name
            f.seek(0)
            f.write(whole)
    os.remove(os.path.join(folder, "one"))  # who has some of the files
    assert "one" not in sign_release("verify", "key.pub")
    sign_release("sign", "key", status=1)


def spdx_is_valid(path):
    """By the reference implementation."""
    tools = os.path.join(TEMP, "venv", "bin", "python")
    if not os.path.exists(tools):
        run(sys.executable, "-m", "venv", os.path.join(TEMP, "venv"))
        if subprocess.call([tools, "-m", "pip", "install", "-q", "spdx-tools"], stderr=subprocess.DEVNULL):
            raise Skip("no PyPI")
    run(os.path.join(os.path.dirname(tools), "pyspdxtools"), "-i", path)
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def related(document, name, how):
    """The packages that a file is related to so, by name."""
    by_id = {p["SPDXID"]: p for p in document["packages"]}
    return {by_id[r["relatedSpdxElement"]]["name"]: by_id[r["relatedSpdxElement"]] for r in document["relationships"]
            if by_id.get(r["spdxElementId"], {}).get("name") == name and r["relationshipType"] == how}


def the_sbom_names_what_is_inside():
    folder, static = os.path.join(TEMP, "files"), os.path.join(CLONE, "build", "static", "aarch64")
    os.makedirs(os.path.join(folder, "python"))
    os.makedirs(static)
    with open(os.path.join(static, "packages"), "w") as f:
        f.write("libc6-dev 2.36-9 glibc\nnettle-dev 3.8.1-2 nettle\ncjson 1.7.15-1+deb12u4 cjson\n")
    archive = "tblock-%s-linux-aarch64.tar.gz" % NEXT
    with open(os.path.join(folder, archive), "wb") as f:
        f.write(b"some bytes")
    wheel = "python/tblock-%s-cp39-abi3-manylinux_2_26_aarch64.whl" % NEXT
    with open(os.path.join(folder, wheel), "wb") as f:
        f.write(b"others")
    deb = os.path.join(TEMP, "deb", "DEBIAN")
    os.makedirs(deb)
    with open(os.path.join(deb, "control"), "w") as f:
        f.write("Package: tblock\nVersion: 1\nArchitecture: all\nMaintainer: a test <test@localhost>\nDescription: none\n"
                "Depends: libc6 (>= 2.34), python3:any (<< 3.12), libgnutls30 | libfoo+1\n")
    run("dpkg-deb", "-b", os.path.dirname(deb), os.path.join(folder, "tblock.deb"))
    text = run("packaging/make_sbom.py", NEXT, folder, cwd=CLONE)
    assert text == run("packaging/make_sbom.py", NEXT, folder, cwd=CLONE), "not the same twice"
    with open(os.path.join(TEMP, "sbom.spdx.json"), "w") as f:
        f.write(text)
    document = spdx_is_valid(f.name)
    linked = related(document, archive, "STATIC_LINK")
    assert set(linked) == {"libc6-dev", "nettle-dev", "cjson"} and linked["nettle-dev"]["versionInfo"] == "3.8.1-2", linked
    assert linked["cjson"]["externalRefs"][0]["referenceLocator"] == "pkg:deb/debian/cjson@1.7.15-1%2Bdeb12u4?arch=source", linked
    assert set(related(document, wheel, "STATIC_LINK")) == {"nettle-dev", "cjson"}
    assert set(related(document, "tblock.deb", "DEPENDS_ON")) == {"libc6", "python3", "libgnutls30", "libfoo+1"}
    sums = {p["packageFileName"]: p["checksums"][0]["checksumValue"] for p in document["packages"] if "checksums" in p}
    assert len(sums) == 3 and sums[archive] == hashlib.sha256(b"some bytes").hexdigest(), sums


def the_lists_of_the_release_are_complete():
    """Every file stands in both, but the lists in themselves."""
    held = {os.path.relpath(os.path.join(d, f), RELEASE) for d, _, fs in os.walk(RELEASE) for f in fs}
    run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=RELEASE)
    with open(os.path.join(RELEASE, "SHA256SUMS")) as f:
        assert {line.split("  ")[1].strip() for line in f} == held - LISTS, held
    sbom = "tblock-%s.spdx.json" % VERSION
    document = spdx_is_valid(os.path.join(RELEASE, sbom))
    assert {p["packageFileName"] for p in document["packages"] if "packageFileName" in p} == held - LISTS - {sbom}
    for name in held:
        if "linux" in name:
            assert {"cjson", "libmicrohttpd", "libpcre2-dev", "nettle-dev"} <= set(related(document, name, "STATIC_LINK")), name
    kinds = {re.sub(r".*?(\.tar\.gz|\.image\.tar|[^.]*$)", r"\1", n) for n in held}
    assert {".tar.gz", ".image.tar", "whl", "deb"} <= kinds, kinds


if __name__ == "__main__":
    try:
        if subprocess.call(["git", "rev-parse", "HEAD"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            print("skip tests/packages/test_release.py: no repository to take a commit from")
            sys.exit(0)
        claims = [it_refuses_what_cannot_be_released, the_version_stands_in_one_place, the_sbom_names_what_is_inside,
                  signed_is_what_the_key_signed]
        status = attempt_all(*claims, *([the_lists_of_the_release_are_complete] if RELEASE else []))
    finally:
        shutil.rmtree(TEMP, ignore_errors=True)
    sys.exit(status)
