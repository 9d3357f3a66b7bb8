#!/usr/bin/env bash
# Run every fuzzer for SECONDS (SECONDS_EACH, 1800), as many at once as there are processors, and print one line each:
# executions, edges and features covered, inputs kept, seconds of processor time. A timeout that does not come again is none.
#   tests/fuzz/soak.sh [SECONDS]      TARGETS="json text": these alone; FUZZ_JOBS=N: so many at once
# The corpus grows in build/fuzz/corpus, what fails lies in build/fuzz/found: put it, small (-minimize_crash=1), into
# tests/fuzz/corpus/TARGET, where make test replays it. Status 1 where something was found.
set -u
cd "$(dirname "$0")/../.." || exit 4
seconds=${1:-${SECONDS_EACH:-1800}}
programs=build/fuzz/tests/fuzz
if ! env -u MAKEFLAGS -u MAKELEVEL -u CC -u BUILD make -s -j2 config=fuzz programs > build/fuzz.log 2>&1; then
    echo "FAIL fuzz: the fuzzers do not build: $(grep -m1 -i error build/fuzz.log)"
    exit 1
fi
targets=${TARGETS:-$(cd $programs && ls | sed -n 's/^fuzz_\([a-z0-9]*\)$/\1/p')}
mkdir -p build/fuzz/found
python3 tests/fuzz/make_seeds.py build/fuzz/seeds || exit 4
# the longest input, where libFuzzer's 4096 are too few
longest() { case $1 in model) echo 32768 ;; hf|golden|pth|gguf|meta|lab|folder|ggufmodel) echo 16384 ;; tokenizer|vocab) echo 8192 ;; json|config|llama2c|answer|chat|jinja|lines|serve|http|receipt|audit|lora|imatrix) echo 4096 ;; *) echo 1024 ;; esac; }

# fuzz TARGET SECONDS: appends to its log, and to LOG.times what `times` says: the shell, its children
fuzz() {
    local corpus=build/fuzz/corpus/$1 log=build/fuzz/$1.log folders
    folders=("$corpus" "build/fuzz/seeds/$1")
    [ ! -d "tests/fuzz/corpus/$1" ] || folders+=("tests/fuzz/corpus/$1")
    (
        ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 nice -n 19 "$programs/fuzz_$1" \
            "${folders[@]}" -max_total_time="$2" -timeout=20 -rss_limit_mb=3000 -malloc_limit_mb=1500 -max_len="$(longest "$1")" \
            -print_final_stats=1 -artifact_prefix="build/fuzz/found/$1-" >> "$log" 2>&1
        status=$?
        times >> "$log.times"
        exit $status
    )
}

# starved TARGET: did it only time out, and over inputs that take no time now? Another program had the processor then.
starved() {
    local file files
    files=("build/fuzz/found/$1-timeout-"*)
    [ -e "${files[0]}" ] || return 1
    for file in "${files[@]}"; do
        timeout 10 "$programs/fuzz_$1" "$file" > build/fuzz/replay.log 2>&1 || return 1
    done
    rm "${files[@]}"
}

# soak TARGET: its line; status 1 where something was found
soak() {
    local target=$1 corpus=build/fuzz/corpus/$1 log=build/fuzz/$1.log status=0 last runs cpu what begin=$SECONDS left
    mkdir -p "$corpus" "build/fuzz/seeds/$target"
    rm -f "$log" "$log.times"
    while left=$((seconds - (SECONDS - begin))) && [ "$left" -gt 0 ]; do
        fuzz "$target" "$left"
        status=$?
        if [ $status -eq 0 ] || ! starved "$target"; then
            break
        fi
        status=0
    done
    last=$(grep -aE '^#[0-9]+.* cov: ' "$log" | tail -n 1)
    number() { sed -n "s/.* $1: *\([0-9]*\).*/\1/p" <<<"$last"; }
    runs=$(awk '/^stat::number_of_executed_units:/ { n += $2 } END { print n }' "$log")
    cpu=$(awk -F '[ms ]' 'NR % 2 == 0 { n += $1 * 60 + $2 + $4 * 60 + $5 } END { printf "%.0f", n }' "$log.times")
    what="$(printf '%11s executions %6s edges %6s features %5s inputs %5s CPU s' "${runs:-?}" "$(number cov)" "$(number ft)" \
        "$(find "$corpus" -type f | wc -l)" "$cpu")"
    if [ $status -eq 0 ]; then
        printf 'ok fuzz_%-10s %s\n' "$target" "$what"
    else
        printf 'FAIL fuzz_%s: %s (%s)\n' "$target" "$(grep -aE 'SUMMARY|ERROR: |libFuzzer: ' "$log" | tail -n 1 || echo "exit status $status, see $log")" "$what"
    fi
    return $((status != 0))
}

found=0 running=0
for target in $targets; do
    [ $running -lt "${FUZZ_JOBS:-$(nproc)}" ] || { wait -n || found=1; running=$((running - 1)); }
    soak "$target" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    wait -n || found=1
    running=$((running - 1))
done
exit $found
