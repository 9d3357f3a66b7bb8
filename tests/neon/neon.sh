#!/usr/bin/env bash
# NEON: a static program of base, quant, kernels, model and runtime, built for aarch64, run by qemu-user (or directly on an
# ARM machine): its digests of logits must be those that digests.txt pins, and check_kernels must pass. The same program built
# for this machine is the control. Uses BUILD, PYTHON and TBLOCK_SHARED as tests/run.sh sets them.
set -u
cd "$(dirname "$0")/../.." || exit 4
BUILD=${BUILD:-build/release} PYTHON=${PYTHON:-.venv/bin/python}
cross=${CROSS:-aarch64-linux-gnu-gcc} emulator=${EMULATOR:-qemu-aarch64}
work=$BUILD/neon
models="odd window65 headdim64 mqa12 llama3 yarn"
mkdir -p "$work"
failures=0

# All of these rooms but what needs cJSON or nettle.
sources=$(ls src/{base,quant,kernels,model,runtime}/*.c src/format/tensors.c | grep -vE '/(json|hash|config_json|model_writer)\.c$')

# build MACHINE CC: work/MACHINE/{neon_forward,check_kernels}
build() {
    local machine=$1 cc=$2 out=$work/$1 source flags folders objects=()
    case $machine in aarch64) folders="scalar neon" ;; *) folders="scalar avx2 avx512" ;; esac
    mkdir -p "$out"
    for source in $sources $(for f in $folders; do ls src/kernels/$f/*.c; done) tests/neon/neon_forward.c tests/kernels/check_kernels.c; do
        case $source in
        */avx2/*)   flags="-mavx2 -mfma -mf16c" ;;
        */avx512/*) flags="-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512" ;;
        *)          flags= ;;
        esac
        # -Wno-unknown-pragmas: without OpenMP its pragmas mean nothing
        echo "-std=c17 -O2 -fno-math-errno -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas -D_GNU_SOURCE -Isrc -Itests/kernels $flags -c -o $out/$(basename "$source" .c).o $source"
    done > "$out/commands"
    xargs -a "$out/commands" -P 2 -L 1 "$cc" || return 1
    for source in $sources; do objects+=("$out/$(basename "$source" .c).o"); done
    for source in $folders; do objects+=("$out/$source.o"); done
    "$cc" -static -o "$out/neon_forward" "$out/neon_forward.o" "${objects[@]}" -lm -lpthread &&
        "$cc" -static -o "$out/check_kernels" "$out/check_kernels.o" "${objects[@]}" -lm -lpthread
}

# digests MACHINE [EMULATOR]
digests() {
    local machine=$1 name bad n
    shift
    for name in $models; do
        bad=0 n=0
        while read -r model kv hash isa; do
            n=$((n + 1))
            if ! grep -qx "$model $kv $hash" tests/exact/digests.txt; then
                echo "FAIL ${machine}_${name}_${isa}_$kv: $hash, digests.txt has $(grep "^$model $kv " tests/exact/digests.txt || echo none)"
                bad=1
            fi
        done < <("$@" "$work/$machine/neon_forward" "$name" "$work/$name.index" "$BUILD/golden/$name.rows16.bin" 2> "$work/$machine/$name.err")
        if [ $n = 0 ]; then
            echo "FAIL ${machine}_$name: $(head -c 300 "$work/$machine/$name.err" | tr '\n' ' ')"
            bad=1
        fi
        [ $bad = 0 ] && echo "ok ${machine}_$name ($n digests)" || failures=1
    done
}

if ! "$PYTHON" tests/golden/golden.py --build "$BUILD" --models > /dev/null; then
    echo "FAIL neon_models: golden.py --models"
    exit 1
fi
for name in $models; do
    "$PYTHON" tests/neon/neon_index.py "$BUILD/golden/$name.rows16.bin" > "$work/$name.index" || exit 1
done

machine=$(uname -m)
if build "$machine" "${CC:-cc}" 2> "$work/$machine.log"; then
    digests "$machine"
else
    echo "FAIL ${machine}_builds: $(grep -m1 error "$work/$machine.log")"
    failures=1
fi

if [ "$machine" != aarch64 ]; then
    for tool in "$cross" "$emulator"; do
        if ! command -v "$tool" > /dev/null; then
            echo "skip neon: no $tool (make test-neon installs it)"
            exit $failures
        fi
    done
    if ! build aarch64 "$cross" 2> "$work/aarch64.log"; then
        echo "FAIL aarch64_builds: $(grep -m1 error "$work/aarch64.log")"
        exit 1
    fi
    digests aarch64 "$emulator"
    "$emulator" "$work/aarch64/check_kernels" --quick > "$work/check_kernels.out" || failures=1
    sed -E 's/^(ok|FAIL|skip) /\1 aarch64 /' "$work/check_kernels.out"
fi
exit $failures
