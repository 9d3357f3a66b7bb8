#!/usr/bin/env python3
"""`make static`: programs for x86-64 and aarch64 that need nothing beside them. They run in a folder that is their whole system and
give the bits of the program that make builds; the one for the other processor runs under qemu. `make image`: containers of them;
their commands run in their files, as their user. Needs Debian's archives, and root for the chroot. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile

from artefacts import DIST, GOLDEN, MODEL, RELEASE, ROOT, VERSION, make, run, same_logits, sha256, x86_sets
from hardened import hardened
from verdicts import Skip, attempt

sys.path[:0] = [os.path.join(ROOT, "tests", "serve")]
import server  # noqa: E402

NORMAL = os.path.join(ROOT, "build", "release", "tblock")
TEMP = tempfile.mkdtemp(prefix="tblock-static-", dir="/var/tmp")
HOST = platform.machine()


class System:
    """An archive's program alone in a folder, with a model and, for another processor, an emulator."""

    def __init__(self, arch):
        self.arch, self.name = arch, "tblock-%s-linux-%s" % (VERSION, arch)
        self.archive = os.path.join(DIST, self.name + ".tar.gz")
        self.root = os.path.join(TEMP, arch)
        self.emulator = [] if arch == HOST else ["/qemu-%s-static" % arch]

    def build(self):
        sums = []
        for _ in range(1 if RELEASE else 2):
            if not RELEASE and os.path.exists(self.archive):
                os.remove(self.archive)
            make("static", "ARCH=" + self.arch)
            sums.append(sha256(self.archive))
        assert len(set(sums)) == 1, sums
        run("tar", "-xzf", self.archive, "-C", TEMP)
        folder = os.path.join(TEMP, self.name)
        assert {"libc6", "cjson", "libpcre2", "nettle", "libmicrohttpd"} <= {n.split("-")[0] for n in
                                                                             os.listdir(os.path.join(folder, "licences"))}
        self.program = os.path.join(folder, "tblock")
        os.makedirs(self.root)
        for path in (self.program, MODEL, GOLDEN):
            shutil.copy(path, self.root)
        if self.emulator:
            shutil.copy(shutil.which(self.emulator[0][1:]), self.root)

    def run(self, *arguments, status=0):
        return run("chroot", self.root, *self.emulator, "/tblock", *arguments, status=status, cwd="/")


def it_builds_and_needs_no_library(system):
    system.build()
    said = run("readelf", "-l", "-d", system.program)
    assert "INTERP" not in said and "NEEDED" not in said and "FLAGS_1" in said and "PIE" in said, said
    hardened(system.program, checks=False)
    if not RELEASE:
        hardened(os.path.join(ROOT, "build", "static-" + system.arch, "tblock"))
    said = run("readelf", "-h", system.program)
    assert {"x86_64": "X86-64", "aarch64": "AArch64"}[system.arch] in said, said


def it_runs_with_nothing_beside_it(system):
    assert system.run("--version").startswith("tblock " + VERSION)
    assert "3 of 3 sequences" in system.run("verify", "/shakespeare.bin", "/golden.safetensors")
    for more in ([], ["--regex", "([A-Z][a-z]{2,9} ?)+[.!]"]):
        same = ["-p", "ROMEO:", "-n", "40", "-q", "--seed", "7", *more]
        text = run(NORMAL, "run", MODEL, *same)
        assert text and system.run("run", "/shakespeare.bin", *same) == text
        if not system.emulator:   # where there is /proc; qemu's own calls are not those that the filter lets through
            assert run(system.program, "run", MODEL, *same, "--sandbox") == text


def logits_are_the_same_bytes(system):
    sets = x86_sets() if system.arch == "x86_64" else ["scalar", "neon", "auto"]
    if system.emulator and system.arch == "x86_64":
        sets = ["scalar", "auto"]
    same_logits(system.run, "/shakespeare.bin", ("/logits", os.path.join(system.root, "logits")), sets, TEMP)


def what_is_left_out_is_named(system):
    with open(os.path.join(system.root, "text"), "w") as f:
        f.write("To be, or not to be, that is the question.\n" * 50)
    said = system.run("train", "-o", "/new.bin", "--text", "/text", "--vocab", "260", "--steps", "1", "--ctx", "8", status=4)
    assert "training needs OpenBLAS, which a static program cannot load" in said, said
    said = system.run("serve", "/shakespeare.bin", "--host", "localhost", status=2)
    assert "takes addresses alone" in said, said


def it_serves(system):
    text = run(NORMAL, "run", MODEL, "-p", "ROMEO:", "-n", "20", "-q", "--temp", "0")
    script = os.path.join(TEMP, "program-" + system.arch)
    with open(script, "w") as f:
        f.write('#!/bin/sh\nexec chroot "%s" %s /tblock "$@"\n' % (system.root, " ".join(system.emulator)))
    os.chmod(script, 0o755)
    ways = [(script, "/shakespeare.bin", [])] + ([] if system.emulator else [(system.program, MODEL, ["--sandbox"])])
    for server.TBLOCK, model, options in ways:
        with server.Server(*options, model=model) as s:
            assert s.get("/health")["status"] == "ok"
            answer = s.post("/v1/completions", prompt="ROMEO:", max_tokens=20, temperature=0)
            assert answer["choices"][0]["text"] == text, (answer, text)


def a_container_serves_and_knows_its_health(system):
    """Its own user, command and health check, in a folder that holds the files of its layers and a key."""
    make("image", "ARCH=" + system.arch)
    with tarfile.open(os.path.join(DIST, system.name + ".image.tar")) as image:
        manifest, = json.load(image.extractfile("manifest.json"))
        about = json.load(image.extractfile(manifest["Config"]))
        root = os.path.join(TEMP, "container-" + system.arch)
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=image.extractfile(layer)) as files:
                files.extractall(root)
    held = {os.path.relpath(os.path.join(d, f), root) for d, _, fs in os.walk(root) for f in fs}
    assert {f for f in held if not f.startswith("licences/")} == {"tblock", "models/shakespeare.bin"}, held
    config = about["config"]
    assert about["architecture"] == {"x86_64": "amd64", "aarch64": "arm64"}[system.arch] and about["os"] == "linux", about
    user = config["User"]
    assert user.split(":")[0] not in ("", "0", "root"), user
    shutil.copy(GOLDEN, root)
    if system.emulator:
        shutil.copy(os.path.join(system.root, system.emulator[0][1:]), root)
    with open(os.path.join(root, "keys"), "w") as f:
        f.write("a key\n")
    inside = ["chroot", "--userspec=" + user, root, *system.emulator]
    assert "3 of 3 sequences" in run(*inside, *config["Entrypoint"], "verify", "/models/shakespeare.bin", "/golden.safetensors")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = ["--port", str(free.getsockname()[1])]
    kind, *check = config["Healthcheck"]["Test"]
    assert kind == "CMD", config
    p = subprocess.Popen([*inside, *config["Entrypoint"], *config["Cmd"], *port], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert p.stdout.readline() == "http://0.0.0.0:%s\n" % port[1]
    with open("/proc/%d/status" % p.pid) as f:
        assert re.search(r"^Uid:\t%s\t" % user.split(":")[0], f.read(), re.M), "it runs as another user"
    run(*inside, *check, *port)
    p.send_signal(signal.SIGTERM)
    assert p.wait(300) == 0
    assert "Connection refused" in run(*inside, *check, *port, status=1)


def main():
    failed = False
    for arch in ("x86_64", "aarch64"):
        def claim(f, *arguments):
            return attempt("%s_%s" % (arch, f.__name__), f, *arguments)
        system = System(arch)
        if claim(it_builds_and_needs_no_library, system):
            failed = True
            continue
        for f in (it_runs_with_nothing_beside_it, logits_are_the_same_bytes, what_is_left_out_is_named, it_serves,
                  a_container_serves_and_knows_its_health):
            failed |= claim(f, system)
    return failed


def no_machine():
    raise Skip("needs root, for the chroot, and Debian's apt-get and dpkg-source")


if __name__ == "__main__":
    try:
        can = os.geteuid() == 0 and shutil.which("apt-get") and shutil.which("dpkg-source")
        status = main() if can else attempt("static_programs", no_machine)
    finally:
        shutil.rmtree(TEMP, ignore_errors=True)
    sys.exit(status)
