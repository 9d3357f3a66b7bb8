#!/usr/bin/env bash
# docs/numerics.md is enough to compute every bit: numerics_page.c, written from the page, against what tblock computes. And the
# page has the constants of the kernels.
#   tests/references/numerics_page.sh
set -u
cd "$(dirname "$0")/../.." || exit 4
BUILD=${BUILD:-build/release} TBLOCK=${TBLOCK:-$PWD/$BUILD/tblock}
model=models/shakespeare.bin n=165 failed=0 # two whole tiles and a part of the third
work=$(mktemp -d "$PWD/$BUILD/numerics_page.XXXXXX") && trap 'rm -rf "$work"' EXIT
logits() { "$TBLOCK" logits $model --ids "$ids" --hidden --quiet -o "$work/$1" "${@:2}"; }
ids=$("$TBLOCK" tokenize $model -f models/as-you-like-it.txt | cut -d' ' -f1-$n | tr ' ' ,)
if ! logits f32 || ! logits f16 --kv-type f16; then echo "FAIL numerics_page: tblock logits: status $?"; exit 1; fi
for cc in gcc clang; do
    if ! command -v $cc > /dev/null; then echo "skip numerics_page_$cc: no $cc"; continue; fi
    if ! log=$($cc -std=c17 -O2 -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror \
        -o "$work/page" tests/references/numerics_page.c -lm 2>&1); then
        echo "FAIL numerics_page_$cc: does not build: $(head -n 1 <<<"$log")"; failed=1
    elif log=$("$work/page" $model "$work/f32" $n); then echo "ok numerics_page_$cc"; echo "note: $log"
    else echo "FAIL numerics_page_$cc: $(tail -n 1 <<<"$log")"; failed=1; fi
done
[ ! -x "$work/page" ] || if log=$("$work/page" $model "$work/f16" $n); then
    echo "FAIL numerics_page_finds_what_differs: a cache in f16 has the same bits"; failed=1
else echo "ok numerics_page_finds_what_differs"; fi
missing=$(grep -oE '0x1\.[0-9a-f]+p[+-][0-9]+f' src/kernels/bodies/math.h | sort -u | grep -vxFf <(grep -oE '0x1\.[0-9a-f]+p[+-][0-9]+f' docs/numerics.md))
if [ -z "$missing" ]; then echo "ok numerics_page_has_the_constants"
else echo "FAIL numerics_page_has_the_constants: of math.h it lacks $(tr '\n' ' ' <<<"$missing")"; failed=1; fi
exit $failed
