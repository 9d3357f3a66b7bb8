#!/usr/bin/env bash
# tests/serve against servers with the address sanitizer (and its search for leaks) and the thread sanitizer, all files at once, again
# and again for SECONDS_EACH (1800) each. A server that a sanitizer complains of ends with a status that its test does not accept.
#   tests/serve/sanitized.sh [CONFIG...]     asan and tsan unless given
set -u
cd "$(dirname "$0")/../.." || exit 4
seconds=${SECONDS_EACH:-1800}
work=$(mktemp -d) || exit 4
trap 'rm -rf "$work"' EXIT
failed=0
[ $# -gt 0 ] || set -- asan tsan
for config; do
    if ! env -u MAKEFLAGS -u MAKELEVEL -u CC -u BUILD make -s -j2 config="$config" all > "$work/make" 2>&1; then
        echo "FAIL $config: it does not build: $(grep -m1 -i error "$work/make")"
        failed=1
        continue
    fi
    end=$((SECONDS + seconds)) rounds=0
    : > "$work/said"
    while [ $rounds -eq 0 ] || { [ $SECONDS -lt $end ] && ! grep -q '^FAIL' "$work/said"; }; do
        for test in completions chat_completions access log hostile_clients; do
            TBLOCK=$PWD/build/$config/tblock .venv/bin/python tests/serve/test_$test.py >> "$work/said" 2>> "$work/errors" &
        done
        wait
        rounds=$((rounds + 1))
    done
    if grep '^FAIL' "$work/said"; then
        grep -aE 'Sanitizer' "$work/errors" | head -n 3
        failed=1
    else
        echo "ok $config: $(grep -c '^ok' "$work/said") tests in $rounds rounds"
    fi
done
exit $failed
