#!/usr/bin/env bash
# Run every fuzzer of build/fuzz for SECONDS and print one line each: executions, a second, edges covered, inputs kept, findings.
#   tests/fuzz/soak.sh SECONDS        TARGETS="json text": these alone
# The corpus grows in build/fuzz/corpus, what fails lies in build/fuzz/found: put it, small (-minimize_crash=1), into
# tests/fuzz/corpus/TARGET, where make test replays it. Status 1 where something was found.
set -u
cd "$(dirname "$0")/../.." || exit 4
seconds=${1:?usage: tests/fuzz/soak.sh SECONDS}
programs=build/fuzz/tests/fuzz
targets=${TARGETS:-$(cd $programs && ls | sed -n 's/^fuzz_\([a-z0-9]*\)$/\1/p')}
mkdir -p build/fuzz/found
python3 tests/fuzz/make_seeds.py build/fuzz/seeds || exit 4
# the longest input, where libFuzzer's 4096 are too few
longest() { case $1 in model|hf|golden|pth|gguf) echo 16384 ;; tokenizer) echo 8192 ;; json|config|llama2c|chat) echo 4096 ;; *) echo 1024 ;; esac; }

found=0
printf '%-10s %12s %8s %8s %8s %8s  %s\n' target executions '/s' edges features inputs findings
for target in $targets; do
    corpus=build/fuzz/corpus/$target log=build/fuzz/$target.log
    mkdir -p "$corpus" "build/fuzz/seeds/$target"
    folders=("$corpus" "build/fuzz/seeds/$target")
    [ ! -d "tests/fuzz/corpus/$target" ] || folders+=("tests/fuzz/corpus/$target")
    ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 nice -n 19 "$programs/fuzz_$target" \
        "${folders[@]}" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -malloc_limit_mb=1500 -max_len="$(longest "$target")" \
        -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target-" > "$log" 2>&1
    status=$?
    last=$(grep -aE '^#[0-9]+.* cov: ' "$log" | tail -n 1)
    number() { sed -n "s/.* $1: *\([0-9]*\).*/\1/p" <<<"$last"; }
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    what=none
    if [ $status -ne 0 ]; then
        what=$(grep -aE -m1 'SUMMARY|ERROR: |libFuzzer: ' "$log" || echo "exit status $status, see $log")
        found=1
    fi
    printf '%-10s %12s %8s %8s %8s %8s  %s\n' "$target" "${runs:-?}" "${rate:-?}" "$(number cov)" "$(number ft)" \
        "$(find "$corpus" -type f | wc -l)" "$what"
done
exit $found
