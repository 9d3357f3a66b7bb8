#!/usr/bin/env bash
# `make static`: the libraries that a static program is linked with, in build/static/ARCH/{include,lib,licences}. Debian's archives of
# PCRE2 and nettle for that processor; cJSON, which Debian has only as a shared library, and libmicrohttpd, whose archive wants GnuTLS,
# from Debian's sources with Debian's patches. apt checks the signatures. Its lists, packages and settings of another processor are in
# build/static/apt: the system's own stay as they are. `packages` lists what was taken: name, version, and the source of it.
#   packaging/static_libs.sh x86_64|aarch64
set -eu
cd "$(dirname "$0")/.."
arch=$1 apt=$PWD/build/static/apt out=$PWD/build/static/$1 cc=${CC:-gcc}
case $arch in
x86_64) debian=amd64 ;;
aarch64) debian=arm64 ;;
*) echo "ARCH=$arch: expected x86_64 or aarch64" >&2; exit 2 ;;
esac
mkdir -p build/static
exec 9> build/static/lock
flock 9 # two builds at once
[ ! -e "$out/packages" ] || exit 0
{ command -v apt-get && command -v dpkg-source; } > /dev/null || { echo "make static: takes its libraries from Debian with apt-get and dpkg-source" >&2; exit 4; }
work=$out.new
harden=$(env -u MAKEFLAGS make -s config=static ARCH="$arch" hardening | head -n 1)
rm -rf "$out" "$work"
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$work/include" "$work/lib" "$work/licences" "$work/tmp"

# the system's own archives, and their sources too
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -e "$f" ] || sed -n 's/^deb \(.*\)/deb \1\ndeb-src \1/p' "$f"
done > "$apt/from.list"
for f in /etc/apt/sources.list.d/*.sources; do
    [ ! -e "$f" ] || { sed 's/^Types:.*/Types: deb deb-src/' "$f"; echo; }
done > "$apt/from.sources"
get() {
    apt-get -q -y -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$apt" -o Dir::State="$apt" -o Dir::State::status=/dev/null \
        -o Dir::Cache="$apt" -o APT::Architecture=$debian -o APT::Architectures=$debian -o APT::Sandbox::User=root "$@" >> "$work/log" 2>&1 ||
        { tail -n 20 "$work/log" >&2; exit 1; }
}
get update
cd "$work/tmp"
get download libpcre2-dev nettle-dev
get source --download-only --only-source cjson libmicrohttpd
for deb in *.deb; do
    dpkg-deb -x "$deb" .
    dpkg-deb -W --showformat='${Package} ${Version} ${source:Package}\n' "$deb" >> ../packages
done
for name in cjson libmicrohttpd; do
    dpkg-source -x $name*.dsc $name >> "$work/log" 2>&1
    echo "$name $(dpkg-parsechangelog -l $name/debian/changelog -S Version) $name" >> ../packages
    cp $name/debian/copyright "$work/licences/$name"
done
for name in libpcre2-dev nettle-dev; do cp usr/share/doc/$name/copyright "$work/licences/$name"; done
# linked in with them; its packages are those of the compiler
libc=$("$cc" -print-file-name=libc.a)
package=$(dpkg -S "$(realpath "$libc")" | sed 's/:.*//')
dpkg-query -W -f '${Package} ${Version} ${source:Package}\n' "$package" >> ../packages
cp "/usr/share/doc/$package/copyright" "$work/licences/$package"

cp -r usr/include/pcre2.h usr/include/nettle "$work/include"
[ ! -d usr/include/*-linux-gnu ] || cp -r usr/include/*-linux-gnu/. "$work/include"
cp usr/lib/*/libpcre2-8.a usr/lib/*/libnettle.a "$work/lib"
flags="-O2 -g -fPIC $harden"
mkdir "$work/include/cjson"
cp cjson/cJSON.h "$work/include/cjson"
"$cc" -std=c99 $flags -c -o cJSON.o cjson/cJSON.c
"${cc%gcc}ar" rcs "$work/lib/libcjson.a" cJSON.o
( cd libmicrohttpd
  # Debian's settings, without TLS: a server of tblock has a proxy for that (docs/serve.md)
  ./configure --host=$arch-linux-gnu CC="$cc" CFLAGS="$flags" --disable-shared --enable-static --disable-https --disable-curl \
      --disable-doc --disable-examples
  make -C src/microhttpd -j"$(nproc)" libmicrohttpd.la ) >> "$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
cp libmicrohttpd/src/include/microhttpd.h "$work/include"
cp libmicrohttpd/src/microhttpd/.libs/libmicrohttpd.a "$work/lib"
rm -rf "$work/tmp"
mv "$work" "$out"
