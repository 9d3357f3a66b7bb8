#!/usr/bin/env bash
# Build all fuzzers as OSS-Fuzz and ClusterFuzzLite want it: `compile` of their images calls this with CC, CXX, CFLAGS, CXXFLAGS,
# LIB_FUZZING_ENGINE and OUT. Without them: clang, libFuzzer, the address and undefined behaviour sanitizers, build/oss-fuzz/out.
#   OUT=FOLDER tests/fuzz/build.sh
# OUT gets the programs, TARGET_seed_corpus.zip for each, the files that some read (models, tests/...) and the libraries (lib).
set -eu
cd "$(dirname "$0")/../.."
OUT=${OUT:-$PWD/build/oss-fuzz/out} CC=${CC:-clang} CXX=${CXX:-clang++} engine=${LIB_FUZZING_ENGINE:--fsanitize=fuzzer}
CFLAGS=${CFLAGS:--O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer}
build=${WORK:-$PWD/build/oss-fuzz}/objects
mkdir -p "$OUT/lib" "$OUT/models" "$OUT/tests/fuzz/corpus" "$OUT/tests/data/models/llama3-e2e"

# CFLAGS takes the place of OPT; an engine is C++, so CXX links
env -u MAKEFLAGS -u MAKELEVEL -u CFLAGS -u CXXFLAGS make -j"$(nproc)" config=fuzz BUILD="$build" CC="$CC" OPT="-DTBLOCK_DEBUG $CFLAGS" \
    LINK="$CXX $CFLAGS -pthread -Wl,-rpath,'\$\$ORIGIN/lib' \$(LDFLAGS)" LIB_FUZZING_ENGINE="$engine" programs
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c) corpus=tests/fuzz/corpus/${source#tests/fuzz/fuzz_}
    cp "$build/tests/fuzz/$name" "$OUT/"
    python3 -m zipfile -c "$OUT/${name}_seed_corpus.zip" "${corpus%.c}"/*
done
cp models/shakespeare.bin "$OUT/models/"
cp -r tests/fuzz/corpus/hf "$OUT/tests/fuzz/corpus/"
cp tests/data/models/llama3-e2e/tokenizer.json "$OUT/tests/data/models/llama3-e2e/"
# what the images that run fuzzers do not have
ldd "$OUT"/fuzz_* 2> /dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s)\.so' | sort -u |
    xargs -r cp -L -t "$OUT/lib/"
