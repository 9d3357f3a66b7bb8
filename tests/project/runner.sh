# tests/run.sh counts what cannot be reported as failed: a test that is not there, one whose record is lost. .ci/run adds up its parts.
set -u
work=$(mktemp -d "$BUILD/runner.XXXXXX") && trap 'rm -rf "$work"' EXIT
failed=0

# expect NAME LAST-LINE WORDS: a run of the suite that standard input names ends so, says that, and has status 1
expect() {
    cat > "$work/suite"
    local out status
    out=$(BUILD=$work/build bash tests/run.sh --suite "$work/suite" 2> /dev/null)
    status=$?
    if [ $status -eq 1 ] && [ "${out##*$'\n'}" = "$2" ] && [[ $out == *"$3"* ]]; then
        echo "ok $1"
    else
        echo "FAIL $1: status $status: $(tail -n 3 <<< "$out" | tr '\n' ' ')"
        failed=1
    fi
}

echo 'echo ok one' > "$work/good.sh"
printf 'echo ok one\necho FAIL two: why\nexit 1\n' > "$work/bad.sh"
# kills what runs it, which would have written its record: the parent of its parent, timeout
echo 'kill -KILL $(sed -n "s/^PPid:[[:space:]]*//p" /proc/$PPID/status) $PPID' > "$work/killer.sh"
expect a_failure_is_counted "2 passed, 1 failed, 0 skipped" "FAIL two: why" <<< "full 60 $work/good.sh
full 60 $work/bad.sh"
expect a_test_that_is_not_there_has_failed "1 passed, 1 failed, 0 skipped" "gone.sh: is in" <<< "full 60 $work/gone.sh
full 60 $work/good.sh"
expect a_record_that_is_lost_is_a_failure "1 passed, 2 failed, 0 skipped" "left no result" <<< "full 60 $work/killer.sh
full 60 $work/bad.sh"

for when in full other quick; do
    cp "$work/good.sh" "$work/$when.sh"
    echo "$when 60 $work/$when.sh" >> "$work/rows"
done
# selected NAME COUNT OPTION...: so many of the three rows run
selected() {
    local name=$1 n=$2 out
    shift 2
    out=$(BUILD=$work/build bash tests/run.sh "$@" --suite "$work/rows")
    if [ "${out##*$'\n'}" = "$n passed, 0 failed, 0 skipped" ]; then echo "ok $name"; else echo "FAIL $name: $out"; failed=1; fi
}
selected a_target_runs_its_rows_alone 1 --target other
selected what_belongs_to_a_target_is_no_part_of_the_rest 2
selected the_quick_part_is_less 1 --quick
echo 'echo "without test data" >&2; echo "skip one: no data"' > "$work/poor.sh"
BUILD=$work/build bash tests/run.sh --suite <(echo "full 60 $work/poor.sh $work/good.sh") > /dev/null
if [ "$(cat "$work/build/tests/without-data")" = "$work/poor.sh" ]; then echo "ok who_lacks_data_is_listed"
else echo "FAIL who_lacks_data_is_listed: $(cat "$work/build/tests/without-data")"; failed=1; fi

# ci NAME STATUS LAST-LINE MAKEFILE: a copy of .ci/run, in a folder with that Makefile and a suite with one target, ends so
mkdir -p "$work/ci/clone/.ci" "$work/ci/clone/tests" "$work/ci/clone/build/release/tests" "$work/ci/shared"
cp .ci/run "$work/ci/clone/.ci" && cp "$work/rows" "$work/ci/clone/tests/suite"
echo 'echo "$*, $TBLOCK_TEST_DATA" >&2; echo "5 passed, 0 failed, 0 skipped" > $BUILD/tests/summary' > "$work/ci/clone/tests/run.sh"
chmod +x "$work/ci/clone/tests/run.sh"
ci() {
    local out status
    printf '%b' "$4" > "$work/ci/clone/Makefile"
    out=$(bash "$work/ci/clone/.ci/run" 2> "$work/ci/err")
    status=$?
    if [ $status -eq "$2" ] && [ "${out##*$'\n'}" = "$3" ]; then echo "ok $1"; else echo "FAIL $1: status $status: $out"; failed=1; fi
}
count='%s:\n\t@echo "%s" > build/release/tests/summary\n'
parts() { printf "$count" test "$1" test-other "$2"; }
lacking='\t@echo poor.sh > build/release/tests/without-data\n'
ci the_parts_of_ci_are_added_up 0 "3 passed, 0 failed, 4 skipped" "$(parts "1 passed, 0 failed, 0 skipped" "2 passed, 0 failed, 4 skipped")\n"
ci a_failed_part_fails_ci 1 "3 passed, 1 failed, 0 skipped" "$(parts "1 passed, 1 failed, 0 skipped" "2 passed, 0 failed, 0 skipped")\n"
ci a_part_that_dies_fails_ci 1 "1 passed, 1 failed, 0 skipped" "$(printf "$count" test "1 passed, 0 failed, 0 skipped")\ntest-other:\n\tfalse\n"
ci who_lacks_data_runs_again_with_it 0 "8 passed, 0 failed, 0 skipped" \
    "$(printf "$count" test-other "2 passed, 0 failed, 0 skipped" test "1 passed, 0 failed, 0 skipped")\n$lacking"
if [ "$(tail -n 1 "$work/ci/err")" = "poor.sh, $(cd "$work/ci/shared" && pwd)" ]; then echo "ok ci_names_the_data"
else echo "FAIL ci_names_the_data: $(cat "$work/ci/err")"; failed=1; fi
exit $failed
