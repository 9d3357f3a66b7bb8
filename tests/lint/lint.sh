#!/usr/bin/env bash
# Static analysis of src/, without the kernels (unrolled bodies: minutes, and nothing but arithmetic): clang-tidy, cppcheck, gcc -fanalyzer.
#   tests/lint/lint.sh [tidy|cppcheck|analyzer]... [-- FILE...]
# What is left out, and why, stands in clang-tidy.yaml, cppcheck.txt and analyzer.txt beside. One line for each finding; status 1 where
# there is one. Uses CPPFLAGS as the Makefile sets it, and LINT_JOBS.
set -u
cd "$(dirname "$0")/../.." || exit 4
read -ra flags <<< "${CPPFLAGS:--Isrc -D_GNU_SOURCE $(pkg-config --cflags libcjson libpcre2-8 libutf8proc nettle)}"
flags=(-std=c17 "${flags[@]}")
jobs=${LINT_JOBS:-$(nproc)}
tools=() files=()
while [ $# -gt 0 ]; do
    case $1 in
    --) shift; files=("$@"); break ;;
    *) tools+=("$1"); shift ;;
    esac
done
[ ${#tools[@]} -gt 0 ] || tools=(cppcheck tidy analyzer)
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(find src -name '*.c' ! -path 'src/kernels/*' | LC_ALL=C sort)
# made by the build, included by one file
mkdir -p build/lint/src/report
sed -e 's/[\\"?]/\\&/g' -e 's/.*/"&\\n",/' src/report/attn_page.html > build/lint/src/report/attn_page.html.inc
flags+=(-Ibuild/lint/src)

run_tidy() {
    printf '%s\n' "${files[@]}" | xargs -P "$jobs" -I{} clang-tidy --quiet --config-file=tests/lint/clang-tidy.yaml {} -- "${flags[@]}" 2>/dev/null |
        grep -E '(warning|error): '
}
run_cppcheck() {
    cppcheck --std=c11 --enable=warning,portability,performance --inline-suppr --quiet -j "$jobs" -Isrc -D_GNU_SOURCE -D__x86_64__ -D__linux__ \
        -D__GNUC__=12 -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 --suppress=missingIncludeSystem \
        --suppressions-list=tests/lint/cppcheck.txt --template='{file}:{line}: {id}: {message}' "${files[@]}" 2>&1
}
run_analyzer() {
    local off
    mapfile -t off < <(sed -n 's/^-W/-Wno-/p' tests/lint/analyzer.txt)
    printf '%s\n' "${files[@]}" | xargs -P "$jobs" -I{} gcc "${flags[@]}" -O1 -fanalyzer "${off[@]}" -c -o /dev/null {} 2>&1 |
        grep -E 'warning: ' | grep -v -f <(sed -n 's/^allow //p' tests/lint/analyzer.txt)
}

status=0
for tool in "${tools[@]}"; do
    found=$(run_"$tool")
    if [ -z "$found" ]; then
        echo "ok lint_$tool (${#files[@]} files)"
    else
        printf 'FAIL lint_%s: %s\n' "$tool" "$(wc -l <<<"$found") findings"
        printf '%s\n' "$found"
        status=1
    fi
done
exit $status
