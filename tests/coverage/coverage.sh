#!/usr/bin/env bash
# Run the tests of tests/coverage/suite in a build that counts lines, and print how many lines of src/ ran: a number for each
# room, the worst files, the whole. What this machine cannot run (kernels of instruction sets it lacks) is not counted.
#   tests/coverage/coverage.sh [--only-count]     BUILD: the build (build/coverage)
set -u
cd "$(dirname "$0")/../.." || exit 4
BUILD=${BUILD:-build/coverage} PYTHON=${PYTHON:-.venv/bin/python}
if [ "${1:-}" != --only-count ]; then
    find "$BUILD" -name '*.gcda' -delete
    BUILD=$BUILD tests/run.sh --suite tests/coverage/suite || echo "some tests failed; the lines are counted all the same" >&2
fi
"$PYTHON" tests/coverage/count.py "$BUILD"
