#!/usr/bin/env bash
# The share of the lines of the readers that the fuzzers' inputs reach: a line for each file, and a file under 60% fails.
# Every target runs as `make test` runs it, then over the seeds that make_seeds.py makes of tests/data. Counted by gcov in
# build/coverage, as `make coverage` is.
#   tests/fuzz/reached.sh      TBLOCK: the program that makes some seeds
set -u
cd "$(dirname "$0")/../.." || exit 4
build=build/coverage programs=()
export TBLOCK=${TBLOCK:-$PWD/build/release/tblock} TBLOCK_TEST_DATA=
for source in tests/fuzz/fuzz_*.c; do
    programs+=("$build/${source%.c}")
done
mkdir -p $build
if ! env -u MAKEFLAGS -u MAKELEVEL -u CC -u BUILD make -s -j2 config=coverage "${programs[@]}" > $build/fuzz.log 2>&1; then
    echo "FAIL fuzz-coverage: the fuzzers do not build: $(grep -m1 -i error $build/fuzz.log)"
    exit 1
fi
find $build -name '*.gcda' -delete
rm -rf $build/seeds
python3 tests/fuzz/make_seeds.py $build/seeds || exit 4
status=0
for program in "${programs[@]}"; do
    seeds=("$build/seeds/${program##*/fuzz_}"/*)
    timeout 600 "$program" > $build/fuzz.log 2>&1 || { echo "FAIL ${program##*/}: status $?, see $build/fuzz.log"; exit 1; }
    [ ! -e "${seeds[0]}" ] || timeout 600 "$program" "${seeds[@]}" > $build/fuzz.log 2>&1 || { echo "FAIL ${program##*/}, seeds: status $?"; status=1; }
done
python3 tests/coverage/count.py $build --each 60 src/source src/format src/tokenizer src/chat src/constrain || status=1
exit $status
