# docs/examples/regression: the C program builds against the library as a user's does, agrees with what it should and finds a change.
set -u
failed=0
ok() { echo "ok $1"; }
no() { echo "FAIL $1: $(head -n 3 <<<"$2" | tr '\n' ' ')"; failed=1; }
case $BUILD in
*asan|*ubsan|*tsan) echo "skip regression_example: a sanitizer's library needs its compiler's flags"; exit 0 ;;
esac
work=$(mktemp -d "$PWD/$BUILD/regression.XXXXXX") && trap 'rm -rf "$work"' EXIT
example=docs/examples/regression
if log=$($CC -std=c11 -Wall -Wextra -Wpedantic -Werror -Isrc $example/regression.c "$BUILD/libtblock.so" -o "$work/regression" 2>&1); then ok regression_example_builds
else no regression_example_builds "$log"; exit 1; fi
export LD_LIBRARY_PATH=$PWD/$BUILD
"$TBLOCK" logits models/shakespeare.bin --prompt "$(head -n 1 $example/prompts.txt)" --hidden -o "$work/golden.safetensors"
if log=$("$work/regression" models/shakespeare.bin "$work/golden.safetensors" tests/data/models/shakespeare/golden.safetensors 2>&1); then
    no regression_example_finds_another_programs_bits_different "$log"
elif [[ $log == "ok $work/golden.safetensors: 1 sequences"*"FAIL tests/data/"*"sequence 'seq0'"* ]]; then ok regression_example_tells_same_from_near
else no regression_example_tells_same_from_near "$log"; fi
"$TBLOCK" quantize models/shakespeare.bin "$work/q8.bin" --type q8 --quiet > /dev/null
log=$("$work/regression" "$work/q8.bin" "$work/golden.safetensors" 2>&1)
if [ $? = 1 ] && [[ $log == *"tensor: types: the golden has bf16, the model q8; "*"the runs diverge in the embedding, "* ]]; then ok regression_example_names_the_place; else no regression_example_names_the_place "$log"; fi
log=$("$work/regression" "$work/none.bin" x 2>&1)
if [ $? = 1 ] && [[ $log == "regression: "*"none.bin"* ]]; then ok regression_example_tells_an_error; else no regression_example_tells_an_error "$log"; fi
# the script on a model that changed under its goldens
GOLDEN=$work/kept MODEL=models/shakespeare.bin bash $example/regression_test.sh --record
if log=$(GOLDEN=$work/kept MODEL=$work/q8.bin bash $example/regression_test.sh 2>&1); then no regression_script_finds_a_change "$log"
elif [ -s "$work/kept/same_bits.prompt1.xml" ] && grep -q '<failure' "$work/kept/same_bits.prompt1.xml"; then ok regression_script_finds_a_change
else no regression_script_finds_a_change "$log"; fi
# a golden that cannot be compared says why; so do goldens that are not there
mkdir "$work/broken" && head -c 1000 "$work/golden.safetensors" > "$work/broken/prompt1.safetensors"
log=$(GOLDEN=$work/broken MODEL=models/shakespeare.bin bash $example/regression_test.sh 2>&1)
if [ $? = 1 ] && [[ $log == "FAIL same_bits_prompt1: tblock: "*"prompt1.safetensors: "* ]]; then ok regression_script_says_why; else no regression_script_says_why "$log"; fi
for folder in none empty; do
    [ $folder = none ] || mkdir "$work/$folder"
    log=$(GOLDEN=$work/$folder MODEL=models/shakespeare.bin bash $example/regression_test.sh 2>&1)
    if [ $? = 1 ] && [ "$log" = "FAIL goldens: $work/$folder: expected a folder with *.safetensors, found none: --record first" ]
    then ok "regression_script_without_goldens_$folder"; else no "regression_script_without_goldens_$folder" "$log"; fi
done
exit $failed
