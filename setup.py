"""Builds the parts of the Python package that are not Python: the library, which becomes part of the extension module
tblock._c (python/bindings.py), and the program, which `python -m tblock` runs. pyproject.toml has the rest."""
import os
import re
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

BUILD = os.environ.get("BUILD", os.path.join("build", "release"))
ARCH = os.environ.get("WHEEL_ARCH")  # packaging/make_wheel.sh: the processor, which may be another one


def version():
    with open(os.path.join("src", "tblock.h"), encoding="utf-8") as header:
        return re.search('^#define TBLOCK_VERSION "(.*)"', header.read(), re.M).group(1)


class Build(build_ext):
    """make first: the extension is linked with its library, and hardened as it is."""

    def run(self):
        make = ["make", "-s", "-j%d" % (os.cpu_count() or 1), "BUILD=" + BUILD, *(["ARCH=" + ARCH] if ARCH else [])]
        env = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}  # those of a make that called us
        if shutil.which("make") is None or subprocess.call([*make, BUILD + "/tblock", BUILD + "/libtblock.a"], stdout=sys.stderr, env=env):
            sys.exit("tblock: make could not build the library; `tools/setup.sh demo` installs what it needs")
        harden, harden_link = subprocess.check_output([*make, "hardening"], env=env, universal_newlines=True).splitlines()
        for extension in self.extensions:
            extension.extra_compile_args += harden.split()
            extension.extra_link_args += harden_link.split()
        super().run()
        folder = os.path.dirname(self.get_ext_fullpath("tblock._c"))
        program = shutil.copy(os.path.join(BUILD, "tblock"), os.path.join(folder, "tblock-program"))
        subprocess.run([os.environ.get("STRIP", "strip"), program], check=True)
        if os.environ.get("config") == "manylinux":  # of the Makefile: what is linked in
            shutil.copytree(os.path.join(os.environ["STATIC_LIBS"], "licences"), os.path.join(folder, "licences"), dirs_exist_ok=True)


class Wheel(bdist_wheel):
    """One wheel for every Python: the extension keeps to the stable interface."""

    def get_tag(self):
        return ("cp39", "abi3", "linux_" + ARCH if ARCH else super().get_tag()[2])


setup(version=version(), cffi_modules=["python/bindings.py:ffi"], cmdclass={"build_ext": Build, "bdist_wheel": Wheel})
