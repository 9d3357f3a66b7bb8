#!/usr/bin/env bash
# Run tests/cli/cases/NAME.sh and compare what each prints and returns with NAME.out, NAME.err and NAME.exit beside it.
#   tests/cli/run_cases.sh [--update] [NAME...]
# A missing file means empty, or status 0. In .out and .err a line "..." matches any lines, none too. --update rewrites the
# files of the cases that do not match (their "..." lines go: put them back and read the diff), but not of one that ran
# out of time (CASE_SECONDS, 600).
# A case runs in an empty folder with tblock in its PATH and these variables: CASES (this folder), MODELS (../../models), DATA
# (../data). A line "# needs: FILE" in a case skips it where FILE (with those variables) does not exist.
set -u
cd "$(dirname "$0")" || exit 4
root=$(cd ../.. && pwd)
TBLOCK=${TBLOCK:-$root/${BUILD:-build/release}/tblock}
[[ $TBLOCK = /* ]] || TBLOCK=$root/$TBLOCK
if [ ! -x "$TBLOCK" ]; then
    echo "FAIL cli: $TBLOCK is not built"
    exit 1
fi
export CASES=$PWD/cases MODELS=$root/models DATA=$root/tests/data LC_ALL=C.UTF-8
unset NO_COLOR
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" && ln -s "$TBLOCK" "$work/bin/tblock" && export PATH=$work/bin:$PATH

limit=${CASE_SECONDS:-600}
update=false
[ "${1:-}" = --update ] && update=true && shift

. ./matches.bash

# save FILE ACTUAL: keep ACTUAL as FILE, or no FILE where ACTUAL is empty
save() { if [ -s "$2" ]; then cp "$2" "$1"; else rm -f "$1"; fi; }

# prints a name that exists where training can multiply matrices, else that of the library
openblas() { if "$TBLOCK" block --stack 0 --quiet 2>&1 | grep -q 'libopenblas.so.0 cannot be loaded'; then echo libopenblas.so.0; else echo .; fi; }

# run_case NAME: prints its line
run_case() {
    local name=$1 case=$CASES/$1.sh dir=$work/$1 need part bad=
    while read -r need; do
        need=$(eval "echo $need")
        [ -e "$need" ] || { echo "skip $name: no ${need#"$root"/}"; return 0; }
    done < <(sed -n 's/^# needs: //p' "$case")
    mkdir "$dir"
    (cd "$dir" && exec timeout -k 5 "$limit" bash "$case") > "$work/out" 2> "$work/err" < /dev/null
    echo $? > "$work/exit"
    if [[ $(cat "$work/exit") = 124 || $(cat "$work/exit") = 137 ]]; then # nothing it printed says what it should print
        echo "FAIL $name: ran longer than $limit s"
        return 1
    fi
    [ "$(cat "$work/exit")" = 0 ] && : > "$work/exit"
    for part in out err exit; do
        matches "$CASES/$name.$part" "$work/$part" && continue
        bad="$bad .$part"
        if $update; then
            save "$CASES/$name.$part" "$work/$part"
        else
            { echo "$name.$part, expected against found:"; diff <(cat "$CASES/$name.$part" 2> /dev/null) "$work/$part"; } >&2
        fi
    done
    if [ -z "$bad" ]; then echo "ok $name"; return 0; fi
    if $update; then echo "note: wrote$bad of $name"; return 0; fi
    echo "FAIL $name:$bad differ"
    return 1
}

failed=0
if [ $# -eq 0 ]; then
    set -- cases/*.sh
fi
for case in "$@"; do
    run_case "$(basename "$case" .sh)" || failed=1
done
exit $failed
