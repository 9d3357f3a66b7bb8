# `make demo` ends with the text of the model and three commands to try, which work as printed.
set -u
failed=0
ok()   { echo "ok $1"; }
no()   { echo "FAIL $1: $(head -n 3 <<<"$2" | tr '\n' ' ')"; failed=1; }
case $BUILD in
*/release) ;;
*) echo "skip demo: it builds the release"; exit 0 ;;
esac
make -s all BUILD="$BUILD" CC="$CC" > /dev/null 2>&1 # not in what demo says
said=$(make -s demo BUILD="$BUILD" CC="$CC" 2>&1)
text=$("$BUILD/tblock" run models/shakespeare.bin --prompt ROMEO: 2>/dev/null)
if [[ $said == *"$text"* ]] && [ "$(wc -l <<<"$said")" -lt 40 ]; then
    ok demo_lets_the_model_write
else no demo_lets_the_model_write "$said"; fi
n=0
while read -r line; do
    if out=$(bash -c "$line" 2>&1) && [ -n "$out" ]; then n=$((n + 1)); else no what_demo_names_works "$line: $out"; fi
done < <(tail -n 3 <<<"$said")
if [ "$n" = 3 ]; then ok demo_names_three_commands_that_work; else no demo_names_three_commands_that_work "$n"; fi
exit $failed
