#!/usr/bin/env bash
# `make wheel`: an sdist of build/dist/tblock-VERSION.tar.gz and a wheel of the sdist, in build/dist/python. The wheel suits systems
# with an older C library than this one's: zig's compiler has the symbols of glibc 2.28, and the other libraries, those of
# packaging/static_libs.sh, are linked in. auditwheel reads the symbols and names the systems. A wheel for another processor lies beside
# this one's.
#   packaging/make_wheel.sh VERSION x86_64|aarch64
set -eu
cd "$(dirname "$0")/.."
arch=$2 host=$(uname -m) cross=
[ "$arch" = "$host" ] || cross=$arch-linux-gnu-
out=$PWD/build/dist/python work=$PWD/build/wheel
CC=${cross}gcc packaging/static_libs.sh "$arch" # whatever the caller compiles with
rm -rf "$work" "$out"/*.tar.gz "$out"/*_"$arch".whl && mkdir -p "$out" "$work/include/$arch-linux-gnu"
# Debian's Python.h includes a file of the processor's; all of 64 bits have the same types
[ -z "$cross" ] || ln -s /usr/include/"$host"-linux-gnu/python3* "$work/include/$arch-linux-gnu"
tar -xzf "build/dist/tblock-$1.tar.gz" -C "$work"
export ZIG_GLOBAL_CACHE_DIR=$work/cache PATH=$PWD/.venv-release/bin:$PATH
export config=manylinux BUILD=build/manylinux STATIC_LIBS=$PWD/build/static/$arch STRIP=${cross}strip WHEEL_ARCH=$arch
export CC="$PWD/.venv-release/bin/python -m ziglang cc -target $arch-linux-gnu.2.28 -I$work/include"
export LDSHARED="$CC -shared"
# without isolation, in which the newest setuptools would run
{ python -m build --no-isolation --outdir "$work" "$work/tblock-$1" && auditwheel repair --wheel-dir "$out" "$work"/*.whl && cp "$work"/*.tar.gz "$out"; } \
    > build/wheel.log 2>&1 || { tail -n 20 build/wheel.log >&2; exit 1; }
rm -rf "$work"
ls "$out"/*
