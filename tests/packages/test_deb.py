#!/usr/bin/env python3
"""`make dist` and `make deb`: the same source file twice, which builds where there is no network; packages that lintian finds nothing
in, and that go into a bare Debian and out of it again. Needs root, for the chroot. Prints "ok NAME", "FAIL NAME: why" or "skip NAME:
why"."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

from artefacts import DEBS, DIST, RELEASE, ROOT, VERSION, make, run, sha256
from hardened import hardened
from verdicts import Skip, attempt

TEMP = tempfile.mkdtemp(prefix="tblock-deb-", dir="/var/tmp")
TARBALL = os.path.join(DIST, "tblock-%s.tar.gz" % VERSION)
SYSTEM = os.path.join(TEMP, "system")  # a bare one
INSTALLED = "/usr/share/tblock/models/shakespeare.bin"
DRAW = "tblock run %s --prompt ROMEO: -n 20 --quiet" % INSTALLED


def inside(command):
    """In the bare system."""
    return run("chroot", SYSTEM, "sh", "-c", "export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8; " + command)


def dist_is_the_same_twice():
    sums = []
    for _ in range(2):
        if os.path.exists(TARBALL):
            os.remove(TARBALL)
        run("make", "-s", "dist")
        sums.append(sha256(TARBALL))
    assert sums[0] == sums[1], sums


def its_source_builds_without_a_network():
    run("tar", "-xzf", TARBALL, "-C", TEMP)
    folder = glob.glob(os.path.join(TEMP, "tblock-*"))[0]
    offline = ["unshare", "-n"] if subprocess.call(["unshare", "-n", "true"], stderr=subprocess.DEVNULL) == 0 else []
    run(*offline, "make", "-s", "-j%d" % os.cpu_count(), "all", cwd=folder)
    said = run(os.path.join(folder, "build", "release", "tblock"), "verify", "models/shakespeare.bin",
               "tests/data/models/shakespeare/golden.safetensors", cwd=folder)
    assert "3 of 3 sequences" in said
    shutil.rmtree(folder)


def lintian_finds_nothing():
    make("deb")
    names = sorted(os.path.basename(p).split("_")[0] for p in glob.glob(os.path.join(DEBS, "*.deb")))
    assert names == ["libtblock-dev", "libtblock-mpi", "libtblock0", "python3-tblock", "tblock"], names


def they_go_into_a_bare_system():
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        raise Skip("needs root and debootstrap")
    mirror = run("sh", "-c", "apt-get indextargets --format '$(SITE)' 2>/dev/null | head -n 1").strip() or "http://deb.debian.org/debian"
    # this machine's own release, so that the libraries are those the packages were built with
    with open("/etc/os-release") as f:
        suite = [line.split("=")[1].strip() for line in f if line.startswith("VERSION_CODENAME=")][0]
    run("debootstrap", "--variant=minbase", "--no-check-gpg", suite, SYSTEM, mirror)
    for name in ("sources.list", "sources.list.d", "apt.conf.d", "trusted.gpg.d"):
        here, there = os.path.join("/etc/apt", name), os.path.join(SYSTEM, "etc/apt", name)
        if os.path.isdir(here):
            shutil.copytree(here, there, dirs_exist_ok=True)
        elif os.path.exists(here):
            shutil.copy(here, there)
    os.makedirs(os.path.join(SYSTEM, "debs"))
    for deb in glob.glob(os.path.join(DEBS, "*.deb")):
        shutil.copy(deb, os.path.join(SYSTEM, "debs"))
    inside("apt-get -q update; apt-get -q -y install --no-install-recommends /debs/*.deb gcc libc6-dev pkg-config")
    found = inside("dpkg -L tblock libtblock0 libtblock-mpi python3-tblock | grep -E '/bin/tblock$|\\.so(\\.[0-9.]+)?$'").split()
    files = {os.path.realpath(SYSTEM + path) for path in found}
    assert len(files) == 4, files
    for path in files:
        hardened(path, checks="/tblock/" not in path)  # the plug-in and the module for Python are small
    text = inside(DRAW)
    assert inside("python3 -c 'import tblock; print(tblock.Model(\"%s\").generate(\"ROMEO:\", max_tokens=20), end=\"\")'" % INSTALLED) == text
    assert inside("python3 -m " + DRAW) == text
    inside("echo '#include <tblock.h>\nint main(void) { return tblock_version()[0] != 48; }' > /t.c && "
           "gcc /t.c $(pkg-config --cflags --libs tblock) -o /t && /t")


def mpirun_finds_the_plug_in_there():
    """Two ranks draw the text of one process. The program asks /proc where it lies, and Open MPI asks /sys about the processors."""
    if not os.path.isdir(os.path.join(SYSTEM, "debs")):
        raise Skip("no system")
    mount = ["unshare", "-m", "sh", "-c", 'for i in proc sys; do mount --rbind /$i "$0/$i"; done && exec chroot "$0" sh -c "$1"', SYSTEM]
    if subprocess.call([*mount, "true"], stderr=subprocess.DEVNULL):
        raise Skip("no mount")
    mpi = ("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl=self,vader,tcp "
           "LC_ALL=C.UTF-8 ")
    text = inside(DRAW)
    assert run(*mount, mpi + "mpirun --quiet -n 2 " + DRAW) == text
    inside("apt-get -q -y purge libtblock-mpi; [ ! -e /usr/lib/tblock ]")
    assert inside(DRAW) == text
    assert "expected the plug-in libtblock-mpi.so" in run(*mount, mpi + "mpirun --quiet -n 2 %s || true" % DRAW)


def they_go_out_again():
    if not os.path.isdir(os.path.join(SYSTEM, "debs")):
        raise Skip("no system")
    inside("dpkg --purge tblock libtblock0 libtblock-dev libtblock-mpi python3-tblock")
    left = inside("find / -xdev -iname '*tblock*' -not -path '/debs*' -not -path '/proc/*'").split()
    assert not left, left


if __name__ == "__main__":
    status = 1
    try:
        if not os.path.isdir(os.path.join(ROOT, ".git")) and not os.path.isfile(os.path.join(ROOT, ".git")):
            print("skip tests/packages/test_deb.py: no repository to take a commit from")
            sys.exit(0)
        first = [] if RELEASE else [dist_is_the_same_twice]
        status = max([attempt(f.__name__, f) for f in (*first, its_source_builds_without_a_network, lintian_finds_nothing,
                                                       they_go_into_a_bare_system, mpirun_finds_the_plug_in_there,
                                                       they_go_out_again)])
    finally:
        shutil.rmtree(TEMP, ignore_errors=True)
    sys.exit(status)
