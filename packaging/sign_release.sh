#!/usr/bin/env bash
# Sign SHA256SUMS of a release, or verify a release. The key is yours, in a file of openssl's that nothing here copies; openssl asks
# for its pass phrase. docs/install.md says how to make one, and how to verify without this script.
#   packaging/sign_release.sh sign KEY FOLDER           writes FOLDER/SHA256SUMS.sig
#   packaging/sign_release.sh verify PUBLIC-KEY FOLDER  the signature, then those files of the list that are in FOLDER
set -eu
[ $# -eq 3 ] || { sed -n 's/^#   /usage: /p' "$0" >&2; exit 2; }
key=$2 sums=$3/SHA256SUMS
case $1 in
sign)
    ( cd "$3" && sha256sum --check --strict --quiet SHA256SUMS )
    openssl pkeyutl -sign -rawin -inkey "$key" -in "$sums" -out "$sums.sig" || { rm -f "$sums.sig"; exit 1; } ;;
verify)
    openssl pkeyutl -verify -rawin -pubin -inkey "$key" -in "$sums" -sigfile "$sums.sig"
    ( cd "$3" && sha256sum --check --strict --ignore-missing SHA256SUMS ) ;;
*) exec "$0" ;;
esac
