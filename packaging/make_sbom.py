#!/usr/bin/env python3
"""What the files of a release are made of, as SPDX 2.3 in JSON on standard output: each file with its SHA-256, what is linked into
the static programs, containers and the wheel (build/static/ARCH/packages), what Debian's packages need.

  packaging/make_sbom.py VERSION FOLDER
"""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys

version, folder = sys.argv[1:]
packages, relations = {}, []


def text_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def package(key, name, number=None, purl=None, licence="NOASSERTION", **more):
    """Its identifier. One package is told once, whatever is made of it."""
    identifier = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", key)
    p = {"SPDXID": identifier, "name": name, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
         "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more}
    if number:
        p["versionInfo"] = number
    if purl:
        p["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]
    packages.setdefault(identifier, p)
    return identifier


def relate(one, how, other):
    relations.append({"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other})


def linked_into(arch):
    """Names and versions that packaging/static_libs.sh left."""
    debian = {"x86_64": "amd64", "aarch64": "arm64"}[arch]
    with open(os.path.join("build", "static", arch, "packages"), encoding="utf-8") as f:
        for name, number, source in map(str.split, f):
            yield package("%s-%s-%s" % (name, number, arch), name, number,
                          "pkg:deb/debian/%s@%s?arch=%s" % (name, number.replace("+", "%2B"), "source" if name == source else debian))


def contents(path):
    """(relationship, package) of what a file has in it or needs."""
    arch = re.search(r"linux[-_\d]*(x86_64|aarch64)\.", path)
    if arch:  # only the wheel takes the C library from the system
        yield from (("STATIC_LINK", p) for p in linked_into(arch[1]) if not (path.endswith(".whl") and "libc6" in p))
    elif path.endswith(".deb"):
        for needed in re.findall(r"(?:^|[,|]) *([a-z0-9+.-]+)", text_of("dpkg-deb", "-f", path, "Depends")):
            yield "DEPENDS_ON", package("debian-" + needed, needed, None, "pkg:deb/debian/" + needed)


for where, _, names in sorted(os.walk(folder)):
    for path in sorted(os.path.join(where, n) for n in names):
        with open(path, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        name = os.path.relpath(path, folder)
        made = package("file-" + name, name, version, licence="MIT", packageFileName=name,
                       checksums=[{"algorithm": "SHA256", "checksumValue": digest}])
        relate("SPDXRef-DOCUMENT", "DESCRIBES", made)
        for how, other in contents(path):
            relate(made, how, other)
commit, seconds = text_of("git", "log", "-1", "--format=%H %ct").split()
json.dump({"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "tblock-" + version,
           "documentNamespace": "urn:tblock:%s:%s" % (version, commit),
           "creationInfo": {"created": datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                            "creators": ["Tool: packaging/make_sbom.py"]},
           "packages": list(packages.values()), "relationships": relations}, sys.stdout, indent=1)
print()
