#!/usr/bin/env bash
# The exactness matrix (matrix.c): builds x instruction sets x threads x pieces x alone or beside x weights x KV types x math x activations.
#   tests/exact/matrix.sh [--product [SECONDS] [--part K/N]] [--update]
# Default, in make test-compilers: a pairwise selection with a seed of its own, of the two builds that the tests have (gcc and clang, -O2) and of
# those of the other four that an earlier `--product` left, if they are newer than the sources. --product, in make soak: builds
# gcc and clang at -O1, -O2 and -O3 and runs every combination, SECONDS of them (SECONDS_EACH; all where neither is given), in as many
# parts at once as there are processors; --part: part K of N alone, so that the whole may be run in several nights.
# --update rewrites matrix.txt, the digests of the references: read the diff, and raise TBLOCK_NUMERICS_VERSION.
# Uses BUILD and PYTHON as tests/run.sh sets them.
set -u
cd "$(dirname "$0")/../.." || exit 4
BUILD=${BUILD:-build/release} PYTHON=${PYTHON:-.venv/bin/python}
known=tests/exact/matrix.txt program=$BUILD/tests/exact/matrix out=$BUILD/golden
product=false seconds=${SECONDS_EACH:-} part='' update=false
while [ $# -gt 0 ]; do
    case $1 in
    --product) product=true; [[ ${2:-} != [0-9]* ]] || { seconds=$2; shift; } ;;
    --part) part=${2:-}; shift ;;
    --update) update=true ;;
    *) echo "usage: tests/exact/matrix.sh [--product [SECONDS] [--part K/N]] [--update]" >&2; exit 2 ;;
    esac
    shift
done

# library CONFIG: build it; the path of its library, or nothing
library() {
    local compiler=${1%%-*} log=$BUILD/matrix.$1.log
    [ "$compiler" != release ] || compiler=gcc
    if ! command -v "$compiler" > /dev/null; then
        echo "skip matrix_$1: no $compiler" >&2
    elif env -u MAKEFLAGS -u MAKELEVEL -u CC -u BUILD make -s -j2 config="$1" "build/$1/libtblock.so" > "$log" 2>&1; then
        echo "build/$1/libtblock.so"
        ! grep -q 'warning:' "$log" || echo "FAIL matrix_$1: $(grep -m1 'warning:' "$log")" >&2
    else
        echo "FAIL matrix_$1: does not build: $(grep -m1 -i error "$log")" >&2
    fi
}
up_to_date() { env -u MAKEFLAGS -u MAKELEVEL -u CC -u BUILD make -q config="$1" "build/$1/libtblock.so" > /dev/null 2>&1; }

builds=("$BUILD/libtblock.so")
env -u MAKEFLAGS -u MAKELEVEL make -s -j2 BUILD="$BUILD" config="$(basename "$BUILD")" "${builds[0]}" > "$BUILD/matrix.log" 2>&1
case $BUILD in *clang) others=(release) ;; *) others=(clang) ;; esac
others+=(gcc-O1 gcc-O3 clang-O1 clang-O3)
for config in "${others[@]}"; do
    $update && break
    case $config in gcc-O* | clang-O*) $product || up_to_date "$config" || continue ;; esac
    path=$(library "$config" 2> "$BUILD/matrix.why")
    [ -z "$path" ] || builds+=("$path")
    cat "$BUILD/matrix.why"
    ! grep -q '^FAIL' "$BUILD/matrix.why" || failed=1
done

if ! "$PYTHON" tests/exact/matrix_models.py "$out" || [ ! -x "$program" ]; then
    echo "FAIL matrix: matrix_models.py, or $program is not built"
    exit 1
fi
models=()
for type in f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs q8_16 mxfp4; do models+=("$type=$out/matrix-$type.gguf"); done
models+=("mxfp4,q8_0=$out/matrix-gpt-oss.gguf") # a mixture; its name is that of its types
for type in q8 q4; do models+=("$type=$out/matrix-f32.gguf:$type"); done

# matrix OPTION...: runs it over all builds and models
matrix() { "$program" "$@" --builds "${builds[@]}" --models "${models[@]}"; }

if $product && ! $update; then
    matrix --no-runs --digests "$BUILD/matrix.digests" || failed=1
    limit=() parts=("$part")
    [ -z "$seconds" ] || limit=(--seconds "$seconds")
    [ -n "$part" ] || mapfile -t parts < <(seq -f "%g/$(nproc)" "$(nproc)")
    for part in "${parts[@]}"; do
        matrix --product --part "$part" "${limit[@]}" > "$BUILD/matrix.part.${part%/*}" &
    done
    for part in "${parts[@]}"; do
        wait -n || failed=1
    done
    for part in "${parts[@]}"; do
        grep -v '^axes' "$BUILD/matrix.part.${part%/*}"
    done
else
    options=(--digests "$BUILD/matrix.digests")
    ! $update || options+=(--no-runs)
    matrix "${options[@]}" || failed=1
fi
if $update; then
    { echo "# References of tests/exact/matrix.sh: digest of the logits, tokens drawn. A change here is a change of numerics."
      cat "$BUILD/matrix.digests"; } > $known
elif diff <(grep -v '^#' $known) "$BUILD/matrix.digests" > "$BUILD/matrix.diff"; then
    echo "ok matrix_digests ($(wc -l < "$BUILD/matrix.digests") references)"
else
    echo "FAIL matrix_digests: other than $known (matrix.sh --update rewrites it): $(sed -n 2p "$BUILD/matrix.diff")"
    failed=1
fi
exit "${failed:-0}"
