#!/usr/bin/env bash
# `make release`: all that is published of the last commit, in build/dist: source, sdist, Debian packages, wheels, static programs
# and containers for x86-64 and aarch64, what they are made of (SPDX), SHA256SUMS. Then the tests of packages, with these files. The
# version is TBLOCK_VERSION of src/tblock.h, and nowhere else. CHECK=1: only say whether this commit can be released. SIGN_KEY=FILE:
# sign SHA256SUMS with that key.
#   packaging/make_release.sh VERSION
set -eu
cd "$(dirname "$0")/.."
version=$1 dist=$PWD/build/dist
die() { echo "make release: $*" >&2; exit 1; }
changed=$(git status --porcelain)
[ -z "$changed" ] || die "expected a tree without changes, found: $(head -n 3 <<<"$changed" | tr '\n' ' ')"
first=$(sed -n 's/^## //p' CHANGELOG.md | head -n 1)
[[ $first =~ ^"$version - "[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] ||
    die "CHANGELOG.md: expected '## $version - YYYY-MM-DD' first (the version of src/tblock.h), found '## $first'"
[ -z "${SIGN_KEY:-}" ] || [ -r "$SIGN_KEY" ] || die "SIGN_KEY=$SIGN_KEY: expected a private key, found no file to read"
[ -z "${CHECK:-}" ] || exit 0

rm -rf "$dist" build/static .venv-release # libraries with the newest patches, and nothing but the tools of the list
tools/setup.sh release
make -s deb
cp build/deb/*.deb "$dist"
for arch in x86_64 aarch64; do make -s image ARCH=$arch; make -s wheel ARCH=$arch; done
rm -r "$dist"/tblock-*-linux-x86_64 "$dist"/tblock-*-linux-aarch64

.venv-release/bin/python packaging/make_sbom.py "$version" "$dist" > build/sbom.json
mv build/sbom.json "$dist/tblock-$version.spdx.json"
( cd "$dist" && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum > ../SHA256SUMS && mv ../SHA256SUMS . )
# The tests run other people's packages, none of them pinned: what is signed was made before, and is handed out when they pass.
[ -z "${SIGN_KEY:-}" ] || { packaging/sign_release.sh sign "$SIGN_KEY" "$dist" && mv "$dist/SHA256SUMS.sig" build; }
tools/setup.sh packages
make -s tests
TBLOCK_RELEASE=$dist tests/run.sh --target packages
[ -z "${SIGN_KEY:-}" ] || mv build/SHA256SUMS.sig "$dist"
ls -l "$dist" "$dist/python"
