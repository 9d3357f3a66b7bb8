#!/usr/bin/env bash
# `make deb`: Debian packages from build/dist/tblock-VERSION.tar.gz in build/deb, and what lintian says of them. Status 1 where
# lintian finds a fault.
#   packaging/make_deb.sh VERSION
set -eu
cd "$(dirname "$0")/.."
version=$1 log=build/deb/build.log
rm -rf build/deb && mkdir -p build/deb
tar -xzf "build/dist/tblock-$version.tar.gz" -C build/deb
( cd "build/deb/tblock-$version"
  cp -r packaging/debian debian # dpkg-buildpackage looks for it there, and writes into it
  printf 'tblock (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$version" \
      "$(sed -n 's/^Maintainer: //p' debian/control)" "$(git -C ../../.. log -1 --format=%cD)" > debian/changelog
  PATH=/usr/bin:/usr/sbin:/bin:/sbin DEB_BUILD_OPTIONS="parallel=$(nproc) noautodbgsym" dpkg-buildpackage -b -us -uc ) > $log 2>&1 ||
    { tail -n 30 $log >&2; exit 1; }
rm -r "build/deb/tblock-$version"
ls -1 build/deb/*.deb
# no address of ours, and no bug of Debian's: who publishes the packages has them
lintian --allow-root --fail-on error,warning --tag-display-limit 0 \
    --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs build/deb/*.changes
