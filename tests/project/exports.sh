# Only tblock_* is visible: in the shared library, and in the archive, where another name could clash with the user's.
set -u
failed=0
public='src/tblock.h src/tblock_tools.h'
for file in "$BUILD/libtblock.so" "$BUILD/libtblock.a"; do
    nm "$file" > /dev/null && objdump -t "$file" > /dev/null || { echo "FAIL exports: $file cannot be read"; exit 1; }
done
check() { # NAME FOREIGN-SYMBOLS
    if [ -z "$2" ]; then echo "ok $1"; else echo "FAIL $1: $(tr '\n' ' ' <<<"$2" | cut -c1-300)"; failed=1; fi
}
case $BUILD in
*asan|*ubsan) shared="skip shared_library_shows_only_tblock: a sanitizer adds names of its own" ;;
*) shared= ;;
esac
if [ -n "$shared" ]; then
    echo "$shared"
else
    check shared_library_shows_only_tblock "$(nm -D --defined-only "$BUILD/libtblock.so" | awk '{ print $NF }' | grep -v '^tblock_')"
    check archive_shows_only_tblock "$(nm -g --defined-only "$BUILD/libtblock.a" | awk 'NF == 3 { print $3 }' | grep -v '^tblock_')"
fi
declared=$(grep -ohE '\btblock_[a-z0-9_]+\(' $public | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$BUILD/libtblock.so" | awk '{ print $NF }' | grep '^tblock_' | sort -u)
check every_exported_function_is_declared "$(comm -13 <(echo "$declared") <(echo "$exported"))"
called=$(grep -hE '^TBLOCK_API' $public | grep -oE '\btblock_[a-z0-9_]+\(' | tr -d '(' | sort -u)
check every_declared_function_is_exported "$(comm -23 <(echo "$called") <(echo "$exported"))"
# A variable outside functions would be state shared by all users of the library. Constant tables (.data.rel.ro) are not;
# nor are the kernel tables and what the processor runs, filled once behind `once` and constant from then on, nor what the
# address sanitizer adds, nor the lists of what this process has mapped and of what it holds open for a sandbox, which belong to the process.
variables=$(objdump -t "$BUILD/libtblock.a" | awk '$3 == "O" && $4 !~ /^\.rodata|^\.data\.rel\.ro/ || $4 ~ /^\.tbss|^\.tdata/ { print $NF }')
check library_has_no_global_state "$(grep -vxE 'tables|n_tables|cpu_has|once|mapped|mapped_held|held|holds_system|__odr_asan\..*' <<<"$variables")"
exit $failed
