#!/usr/bin/env bash
# tests/serve against servers with the address sanitizer (and its search for leaks) and the thread sanitizer: one server under a mixed
# load, then files of tests, all at once, again and again, for SECONDS_EACH (200; --soak: 1800) each. A server that a sanitizer complains
# of ends with a status that its test does not accept.
#   tests/serve/sanitized.sh [--soak] [CONFIG...]     asan and tsan unless given
set -u
cd "$(dirname "$0")/../.." || exit 4
seconds=200
[ "${1:-}" != --soak ] || { seconds=1800 && shift; }
seconds=${SECONDS_EACH:-$seconds}
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
    export TBLOCK=$PWD/build/$config/tblock
    end=$((SECONDS + seconds)) rounds=0
    : > "$work/errors"
    .venv/bin/python tests/serve/mixed_load.py --requests 20000 --seconds $((seconds / 2)) > "$work/said" 2> "$work/load"
    cat "$work/load" >> "$work/errors"
    grep -a '^   [0-9]* requests' "$work/load" >&2
    while [ $rounds -eq 0 ] || { [ $SECONDS -lt $end ] && ! grep -q '^FAIL' "$work/said"; }; do
        for test in completions chat_completions responses messages embeddings access log hostile_clients; do
            .venv/bin/python tests/serve/test_$test.py >> "$work/said" 2>> "$work/errors" &
        done
        wait
        rounds=$((rounds + 1))
    done
    if grep '^FAIL' "$work/said"; then
        grep -aE 'Sanitizer' "$work/errors" | head -n 3 | sed 's/^/    | /'
        failed=1
    else
        echo "ok $config"
        echo "   $config: $(grep -c '^ok' "$work/said") tests, $rounds rounds" >&2
    fi
done
exit $failed
