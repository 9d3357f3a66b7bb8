#!/usr/bin/env bash
# Static analysis of src/, without the kernels (unrolled bodies: minutes, and nothing but arithmetic): cppcheck, clang-tidy, gcc -fanalyzer.
#   tests/lint/lint.sh [cppcheck|tidy|analyzer]... [-- FILE...]
# clang-tidy.yaml beside says which checks run, known.h what the analyzers are told, allow.txt which findings are none, each with the
# reason. One line for each other finding; status 1 where there is one. Uses CPPFLAGS as the Makefile sets it, and LINT_JOBS.
set -u
export LC_ALL=C # plain quotes in messages
cd "$(dirname "$0")/../.." || exit 4
read -ra flags <<< "${CPPFLAGS:--Isrc -D_GNU_SOURCE $(pkg-config --cflags libcjson libpcre2-8 nettle)}"
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
all=
if [ ${#files[@]} -eq 0 ]; then
    mapfile -t files < <(find src -name '*.c' ! -path 'src/kernels/*' | sort)
    all=1
fi
# made by the build, each included by one file
for page in src/report/attn_page.html src/serve/page.html; do
    mkdir -p "build/lint/${page%/*}"
    sed -e 's/[\\"?]/\\&/g' -e 's/.*/"&\\n",/' $page > build/lint/$page.inc
done
flags+=(-Ibuild/lint/src)

# each_file COMMAND...: runs it over all files, {} in it is the file. The functions that known.h is about are not told it themselves.
each_file() {
    # shellcheck disable=SC2016
    printf '%s\n' "${files[@]}" | xargs -P "$jobs" -I{} bash -c '
        case $1 in
        src/base/error.c) shift; exec "$@" ;;
        *) shift; exec "$@" -include tests/lint/known.h ;;
        esac' - {} "$@"
}

run_tidy() {
    each_file clang-tidy --quiet --config-file=tests/lint/clang-tidy.yaml {} -- "${flags[@]}" 2>/dev/null
}
# -O0: what -O1 merges, as in "p && n", the analyzer cannot take apart. The other flag: a finding in a macro is named where the macro is used.
run_analyzer() {
    each_file gcc "${flags[@]}" -O0 -fanalyzer -ftrack-macro-expansion=0 -c -o /dev/null {} 2>&1
}
run_cppcheck() {
    cppcheck --std=c11 --enable=warning,portability,performance --quiet -j "$jobs" -Isrc -D_GNU_SOURCE -D__x86_64__ -D__linux__ \
        -D__GNUC__=12 -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 --suppress=missingIncludeSystem \
        --template='{file}:{line}: warning: {message} [{id}]' "${files[@]}" 2>&1
}

# The findings of all tools look alike: FILE:LINE:COLUMN: warning|error: TEXT [CHECK].
findings() {
    grep -E '(warning|error): ' | sed -e "s|^$PWD/||" -e 's/,-warnings-as-errors\]/]/' | sort -u
}

status=0
grep -v -e '^#' -e '^$' tests/lint/allow.txt > build/lint/allow
for tool in "${tools[@]}"; do
    SECONDS=0
    run_"$tool" | findings > "build/lint/$tool"
    if found=$(grep -v -E -f build/lint/allow "build/lint/$tool"); then
        printf 'FAIL lint_%s: %s findings\n%s\n' "$tool" "$(wc -l <<< "$found")" "$found"
        status=1
    else
        echo "ok lint_$tool (${#files[@]} files, $SECONDS s)"
    fi
done
# an allowance that is not needed any more, or not with this version of a tool
if [ -n "$all" ] && [ ${#tools[@]} -eq 3 ]; then
    while read -r pattern; do
        cat build/lint/{cppcheck,tidy,analyzer} | grep -q -E -e "$pattern" || echo "note: tests/lint/allow.txt: nothing matches $pattern"
    done < build/lint/allow
fi
exit $status
