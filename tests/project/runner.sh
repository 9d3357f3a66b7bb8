# tests/run.sh counts what cannot be reported as failed: a test that is not there, one whose record is lost.
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
exit $failed
