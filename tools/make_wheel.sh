#!/usr/bin/env bash
# `make wheel`: an sdist of build/dist/tblock-VERSION.tar.gz and a wheel of the sdist, in build/dist/python. The wheel suits systems
# with an older C library than this one's: zig's compiler has the symbols of glibc 2.28, and the other libraries, those of
# tools/static_libs.sh, are linked in. auditwheel reads the symbols and names the systems.
#   tools/make_wheel.sh VERSION
set -eu
cd "$(dirname "$0")/.."
arch=$(uname -m) out=$PWD/build/dist/python work=$PWD/build/wheel
CC=gcc tools/static_libs.sh "$arch" # whatever the caller compiles with
rm -rf "$out" "$work" && mkdir -p "$out" "$work"
tar -xzf "build/dist/tblock-$1.tar.gz" -C "$work"
export ZIG_GLOBAL_CACHE_DIR=$work/cache PATH=$PWD/.venv-release/bin:$PATH
export config=manylinux BUILD=build/manylinux STATIC_LIBS=$PWD/build/static/$arch
export CC="$PWD/.venv-release/bin/python -m ziglang cc -target $arch-linux-gnu.2.28"
export LDSHARED="$CC -shared"
{ python -m build --outdir "$work" "$work/tblock-$1" && auditwheel repair --wheel-dir "$out" "$work"/*.whl && cp "$work"/*.tar.gz "$out"; } \
    > build/wheel.log 2>&1 || { tail -n 20 build/wheel.log >&2; exit 1; }
rm -rf "$work"
ls "$out"/*
