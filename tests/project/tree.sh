# Claims about the files of the project itself.
set -u
failed=0
check() { # NAME OFFENDERS
    if [ -z "$2" ]; then echo "ok $1"; else echo "FAIL $1: $(tr '\n' ' ' <<<"$2" | cut -c1-400)"; failed=1; fi
}
if ! git ls-files >/dev/null 2>&1; then
    echo "skip tree: not a git checkout"
    exit 0
fi
# A name in a log or a backtrace is a place. Recorded models keep the names that their readers look for.
check nothing_ignored_or_linked_is_kept "$(git ls-files -ci --exclude-standard; git ls-files -s | grep '^120000')"
check file_names_are_unique "$(git ls-files src tests tools packaging bench docs ':!tests/data' | sed 's|.*/||' | grep -E '\.(c|h|py|sh|md)$' | grep -v '^README.md$' | sort | uniq -d)"
check the_program_knows_public_headers_and_base_alone "$(git grep -hE '^#include ".*/' -- src/cli src/serve src/main.c | grep -vE '"(base|cli|serve)/' | sort -u)"
# The order of docs/design.md, from below.
rooms=" base hub ranks quant format kernels model tokenizer chat constrain source runtime train report api "
check a_room_uses_rooms_below "$(for room in $rooms; do
    git grep -hoE '^#include "[a-z]+/' -- "src/$room" | sort -u | sed -E 's|.*"(.*)/|\1|' | while read -r used; do
        [[ "${rooms%% $room *} $room " == *" $used "* ]] || echo "$room:$used"
    done
done)"
check no_path_of_one_machine "$(git grep -lIE '(^|[^A-Za-z0-9_.$}])/(home|Users|work|mnt|srv)/[A-Za-z0-9]' -- ':!tests/data' ':!tests/project/tree.sh')"
bytes=$(git ls-files -z tests/data | xargs -0 -r stat -c %s | awk '{ n += $1 } END { print n + 0 }')
check test_data_is_under_10_mb "$([ "$bytes" -le $((10 << 20)) ] || echo "$bytes bytes")"
check shipped_model_is_under_6_mb "$(find models -name '*.bin' -size +6000000c)"
check scripts_are_executable "$(for f in tools/setup.sh tests/run.sh .ci/run; do [ -x $f ] || echo $f; done)"
check every_source_opens_with_what_lives_there "$(git ls-files -z 'src/*.[ch]' | xargs -0 awk 'FNR == 1 && !/^\/\*/ { print FILENAME }')"
check no_trailing_blanks "$(git grep -lIE '[ 	]+$' -- '*.c' '*.h' '*.py' '*.sh' Makefile '*.mk' '*.md' | head)"
check no_tabs_in_sources "$(git grep -lI '	' -- 'src/*.[ch]' 'tests/*.[ch]' '*.py' | head)"
# What a comment or a page calls by its name can be opened. The names after it are those of other projects, and of examples.
check named_files_exist "$(git grep -hoE '\b[a-z0-9_]+\.[ch]\b' -- 'src/*.[ch]' 'docs/*.md' '*.md' ':!CHANGELOG.md' | sort -u |
    grep -vxF -f <(git ls-files '*.[ch]' | sed 's|.*/||'; git grep -h '^#include <' | sed -E 's|.*[</]([a-z0-9_]+\.h)>.*|\1|'
    printf '%s\n' ggml.h common.h llama2.c run.c runq.c th.c embed.c))"
# Patterns of tokenizers stay in one piece.
check c_fits_100_columns "$(git ls-files '*.[ch]' | LC_ALL=C.UTF-8 xargs grep -nE '^.{101}' | grep -vF '\\x{' | cut -d: -f1,2)"
exit $failed
