#!/usr/bin/env bash
# Run the tests that tests/suite lists and count them.
#   tests/run.sh [--quick | --target NAME] [--suite FILE] [PATTERN...]    a PATTERN selects the files whose path contains it
# A test program prints one line for each claim on stdout: "ok NAME", "FAIL NAME: why" or "skip NAME: why"; other lines
# are notes. One that ends with an error but names no failure, is killed, takes too long or prints no such line has failed
# too. Output lies in BUILD/tests/log/. The last line is "N passed, N failed, N skipped"; status 1 where one failed.
# For the programs: BUILD, CC, PYTHON, TBLOCK (the program) and TBLOCK_TEST_DATA, a folder of more recorded
# data (tests/data/README.md). Unless you name it, there is none, and what needs it is skipped: "no data".
# BUILD/tests/without-data lists the files that looked for it in vain, one a line: .ci/run runs them
# once more where it has the folder.
set -u
shopt -s extglob # for !(...) in the table
cd "$(dirname "$0")/.." || exit 4
export BUILD=${BUILD:-build/release} CC=${CC:-cc} PYTHON=.venv/bin/python
export TBLOCK=${TBLOCK:-$PWD/$BUILD/tblock}
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
jobs=${TEST_JOBS:-2}
logs=$BUILD/tests/log
rm -rf "$logs" "$BUILD/tests/summary" "$BUILD/tests/without-data"
mkdir -p "$logs"

run=full suite=tests/suite patterns=() usage='usage: tests/run.sh [--quick | --target NAME] [--suite FILE] [PATTERN...]'
while [ $# -gt 0 ]; do
    case $1 in
    --quick) run=quick ;;
    --target) run=${2:?a name in the first column of $suite}; shift
        [ "$run" != clients ] || PYTHON=.venv-clients/bin/python ;;
    --suite) suite=${2:?a file}; shift ;;
    -*) echo "$usage" >&2; exit 2 ;;
    *) patterns+=("$1") ;;
    esac
    shift
done
selected() {
    [ ${#patterns[@]} -eq 0 ] && return
    for p in "${patterns[@]}"; do [[ $1 == *$p* ]] && return; done
    return 1
}

# run_one FILE SECONDS LOG OPTION...: leaves LOG.out, LOG.err and LOG.end ("status seconds"), and in LOG.why what is wrong besides FAIL lines
run_one() {
    local file=$1 seconds=$2 log=$3 start=$EPOCHREALTIME status why=
    shift 3
    case $file in
    *.c)  command=("$BUILD/${file%.c}") ;;
    *.py) command=("$PYTHON" "$file") ;;
    *)    command=(bash "$file") ;;
    esac
    if [ ! -x "$(command -v "${command[0]}")" ]; then
        if [ "${command[0]}" = "$PYTHON" ]; then
            echo "skip $file: no $PYTHON (tools/setup.sh makes it)" > "$log.out"; status=0
        else
            why="${command[0]} is not built"; status=127; : > "$log.out"
        fi
        : > "$log.err"
    else
        timeout -k 10 "$seconds" "${command[@]}" "$@" > "$log.out" 2> "$log.err" < /dev/null &
        trap "kill $! 2>/dev/null" TERM
        wait $! 2>/dev/null
        status=$?
        if [ $status -eq 124 ]; then why="took longer than $seconds s"
        elif [ $status -gt 128 ]; then why="killed by SIG$(kill -l $((status - 128)) 2>/dev/null || echo "NAL $status")"
        elif [ $status -ne 0 ] && ! grep -q '^FAIL ' "$log.out"; then why="exit status $status and no FAIL line"
        elif [ $status -eq 0 ] && grep -q '^FAIL ' "$log.out"; then why="a FAIL line and yet exit status 0"
        elif ! grep -qE '^(ok|FAIL|skip) ' "$log.out"; then why="printed no result"
        fi
    fi
    [ -z "$why" ] || echo "FAIL $file: $why" > "$log.why"
    grep -q '^without test data$' "$log.err" && echo "$file" >> "$BUILD/tests/without-data"
    times > "$log.cpu" # its second line: of what this shell waited for
    awk -F '[ms ]' -v end="$EPOCHREALTIME" -v start="$start" \
        'NR == 2 { printf "%.1f s, %.1f of CPU\n", end - start, 60 * ($1 + $4) + $2 + $5 }' "$log.cpu" > "$log.end"
}

passed=0 failed=0 skipped=0
count() { grep -cE "^$1 " "$2"; }

# report FILE LOG: one line for the program, then its failures in full
report() {
    local file=$1 log=$2 ok fail skip
    ok=$(count ok "$log.out") fail=$(count FAIL "$log.out") skip=$(count skip "$log.out")
    [ ! -e "$log.why" ] || fail=$((fail + 1)) # empty where the disk is full
    [ $((ok + fail + skip)) -gt 0 ] || fail=1
    passed=$((passed + ok)) failed=$((failed + fail)) skipped=$((skipped + skip))
    printf '%-44s %5d ok' "$file" "$ok"
    [ "$skip" -eq 0 ] || printf ', %d skipped' "$skip"
    [ "$fail" -eq 0 ] || printf ', %d FAILED' "$fail"
    printf '  (%s)\n' "$(<"$log.end")"
    grep -E '^skip ' "$log.out" | sed 's/^/    /'
    [ "$fail" -eq 0 ] && return
    { grep -E '^FAIL ' "$log.out"; cat "$log.why" 2>/dev/null; [ -s "$log.end" ] || echo "its record is empty: is the disk full?"; } | sed 's/^/    /'
    [ ! -s "$log.err" ] || { echo "    the end of its stderr:"; tail -n 40 "$log.err" | sed 's/^/    | /'; }
}

# lost FILE WHY: it failed, and left nothing to report
lost() {
    failed=$((failed + 1))
    printf '%-44s %5d ok, 1 FAILED\n    FAIL %s: %s\n' "$1" 0 "$1" "$2"
}

# Programs start in the order of the table, as many at once as jobs, and are reported in that order as they end.
files=() logs_of=() reported=0
report_finished() {
    while [ $reported -lt ${#files[@]} ] && [ -e "${logs_of[reported]}.end" ]; do
        report "${files[reported]}" "${logs_of[reported]}"
        reported=$((reported + 1))
    done
}
wait_below() {
    while [ "$(jobs -rp | wc -l)" -ge "$1" ]; do wait -n; report_finished; done
    report_finished
}

trap 'kill $(jobs -p) 2>/dev/null; echo "interrupted" >&2; exit 130' INT TERM
while read -r when seconds what options; do
    case $when:$run in quick:quick | quick:full | brief:quick | "$run:$run") ;; *) continue ;; esac
    mode=together
    [[ " $options " == *" alone "* ]] && mode=alone
    for file in $what; do
        selected "$file" || continue
        [ -e "$file" ] || { lost "$file" "is in $suite, and not there"; continue; }
        log=$logs/${file//\//.}
        [ "$mode" = alone ] && wait_below 1 || wait_below "$jobs"
        files+=("$file") logs_of+=("$log")
        run_one "$file" "$seconds" "$log" ${options//alone/} &
        [ "$mode" = alone ] && wait_below 1
    done
done < "$suite"
wait_below 1
while [ $reported -lt ${#files[@]} ]; do # what ran it was killed
    lost "${files[reported]}" "left no result"
    reported=$((reported + 1))
    report_finished
done

if [ ${#files[@]} -eq 0 ] && [ $failed -eq 0 ]; then
    echo "no test matches: ${patterns[*]}" >&2
    exit 2
fi
summary="$passed passed, $failed failed, $skipped skipped"
echo "$summary" > "$BUILD/tests/summary"
echo "$summary"
[ $failed -eq 0 ]
