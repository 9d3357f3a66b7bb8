#!/usr/bin/env bash
# The same bits everywhere: exact.c on the cases of tests/golden/make_cases.py, and a digest of logits for
# every model there is, compared with digests.txt for each instruction set.
#   tests/exact/exact.sh [--wide | --compilers | --update]
# --wide: instead exact.c on the cases that take longer than all the others together (make test-long).
# --compilers: instead the digests of what the other compiler makes (make test-compilers).
# --update rewrites digests.txt: read the diff, and raise TBLOCK_NUMERICS_VERSION.
# Uses BUILD, CC, PYTHON and TBLOCK_TEST_DATA as tests/run.sh sets them.
set -u
cd "$(dirname "$0")/../.." || exit 4
BUILD=${BUILD:-build/release} PYTHON=${PYTHON:-.venv/bin/python}
known=tests/exact/digests.txt
failures=0

exact=$BUILD/tests/exact/exact
if [ ! -x "$exact" ]; then
    echo "FAIL exact: $exact is not built"
    exit 1
fi
# Converted by now if golden.py ran before; each line: path of a model, and "case" where exact.c is to run on it.
if ! "$PYTHON" tests/golden/golden.py --build "$BUILD" --models > "$BUILD/exact.models"; then
    echo "FAIL exact_models: golden.py --models"
    exit 1
fi
mapfile -t models < <(cut -d' ' -f1 "$BUILD/exact.models")
mapfile -t cases < <(awk '$2 == "case" { print $1 }' "$BUILD/exact.models")
# Some of them quantized: the codes are the same on every machine, and so are the digests.
for name in wide.rows16 chunks.rows16 odd.rows16 experts.rows shared.rows neox.rows cohere.rows latent.rows convodd.rows deltaodd.rows; do
    source=$BUILD/golden/$name.bin name=${name%.*}
    for type in q8 q4; do
        quantized=$BUILD/golden/$name-$type.bin
        if ! "$BUILD/tblock" quantize "$source" "$quantized" --type $type --quiet > /dev/null 2> "$BUILD/exact.quantize"; then
            echo "FAIL exact_$name-$type: $(head -n 1 "$BUILD/exact.quantize")"
            exit 1
        fi
        models+=("$quantized") cases+=("$quantized")
    done
done
# GGUF files as they are: all of ours, and those of the test data that we have no copy of.
for file in tests/data/gguf/*/model.gguf "${TBLOCK_TEST_DATA:-/nonexistent}"/fixtures/gguf/*/model.gguf; do
    name=$(basename "$(dirname "$file")")
    [ -e "$file" ] && [[ " ${models[*]} " != *"/gguf/$name/model.gguf "* ]] && models+=("$file")
done
[ -e models/shakespeare.bin ] && models+=(models/shakespeare.bin)

if [ "${1:-}" = --update ]; then
    "$exact" --digest "${models[@]}" > "$BUILD/exact.digests" || exit 1
    {
        echo "# Digests of logits (tests/exact/exact.sh): model, KV cache, hash. A change here is a change of numerics."
        # Models that this machine lacks keep their lines.
        awk 'NR == FNR { ours[$1 " " $2] = 1; print; next } !/^#/ && !(($1 " " $2) in ours)' "$BUILD/exact.digests" "$known" 2>/dev/null | LC_ALL=C sort
    } > "$known.new" && mv "$known.new" "$known"
    exit
fi

# compare NAME PROGRAM [OPTION...]: digests of all models against digests.txt
compare() {
    local name=$1 line key hash want bad=0 n=0 status
    shift
    "$@" --digest "${options[@]}" "${models[@]}" > "$BUILD/exact.$name.out"
    status=$?
    while read -r -a line; do
        if [ "${line[0]}" = FAIL ]; then
            echo "${line[*]}"
            bad=1
            continue
        fi
        key="${line[0]} ${line[1]}" hash=${line[2]} n=$((n + 1))
        # a shape and a fixture may have one name, and then a line each
        if ! grep -Fxq "$key $hash" "$known"; then
            want=$(awk -v key="$key" '$1 " " $2 == key { printf "%s ", $3 }' "$known")
            echo "FAIL digest_${name}_${key// /_}: $hash, digests.txt has ${want:-none} (exact.sh --update rewrites it)"
            bad=1
        fi
    done < "$BUILD/exact.$name.out"
    if [ $bad = 1 ] || [ $n = 0 ] || [ $status -ne 0 ]; then
        [ $bad = 1 ] || echo "FAIL digest_$name: exit status $status after $n digests"
        failures=1
    else
        echo "ok digest_${name} ($n digests)"
    fi
}

if [ "${1:-}" = --compilers ]; then
    # The other compiler, in a build directory of its own.
    case $BUILD in *clang*) other=release compiler=gcc ;; *) other=clang compiler=clang ;; esac
    program=build/$other/tests/exact/exact
    options=()
    if ! command -v "$compiler" > /dev/null; then
        echo "skip digest_$compiler: no $compiler"
    elif ! env -u MAKEFLAGS -u MAKELEVEL -u CC make -s -j2 config="$other" BUILD="build/$other" "$program" > "$BUILD/exact.$other.log" 2>&1; then
        echo "FAIL digest_$compiler: does not build: $(grep -m1 -i error "$BUILD/exact.$other.log")"
        failures=1
    else
        compare "$compiler" "$program"
        options=(--isa scalar)
        compare "${compiler}_scalar" "$program"
    fi
    exit $failures
fi

wide=() others=()
for model in "${cases[@]}"; do
    case $(basename "$model") in wide[.-]* | chunks[.-]*) wide+=("$model") ;; *) others+=("$model") ;; esac
done
if [ "${1:-}" = --wide ]; then
    "$exact" "${wide[@]}"
    exit
fi
"$exact" "${others[@]}" || failures=1
for isa in scalar avx2 avxvnni avx512 avx512vnni avx512bf16 neon neondot; do
    options=(--isa "$isa")
    if "$exact" --digest --isa "$isa" "${cases[0]}" 2>&1 | grep -q 'isa: expected one that this processor'; then
        echo "skip digest_$isa: this CPU has no $isa"
    else
        compare "$isa" "$exact"
    fi
done
exit $failures
