#!/usr/bin/env bash
# The main commands under valgrind: no invalid access, no use of what was never written, nothing lost at the end.
#   tests/valgrind.sh      BUILD as tests/run.sh sets it; a part of make soak
# Valgrind has no AVX-512: it reports a CPU of its own, and the program takes AVX2.
set -u
cd "$(dirname "$0")/.." || exit 4
tblock=${TBLOCK:-${BUILD:-build/release}/tblock} failures=0
if ! command -v valgrind > /dev/null; then
    echo "skip valgrind: it is not installed (tools/setup.sh soak)"
    exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
echo '{"d_model": 48, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 80, "vocab_size": 100, "n_ctx": 128}' > "$tmp/config.json"
model=models/shakespeare.bin folder=tests/data/models/llama3-e2e

# check NAME ARGUMENT...: the command succeeds, and valgrind has nothing to say
check() {
    local name=$1 status
    shift
    valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect \
        --log-file="$tmp/log" "$tblock" "$@" > "$tmp/out" 2> "$tmp/err" < /dev/null
    status=$?
    if [ $status -eq 0 ] && [ ! -s "$tmp/log" ]; then
        echo "ok valgrind_$name"
    else
        echo "FAIL valgrind_$name: status $status: $(head -n 3 "$tmp/log" "$tmp/err" | tr '\n' ' ')"
        failures=1
    fi
}

check help help
check info info $model
check info_json info "$folder" --json
check tokenize tokenize $model --text "ROMEO: What's in a name?"
check run run $model --prompt "ROMEO:" -n 5 --threads 2 --quiet
check run_sampled run $model --prompt "ROMEO:" -n 5 --temp 0.8 --top-k 40 --seed 3 --quiet
check run_folder run "$folder" --ids 1,2,3 -n 3 --quiet
check run_gguf run tests/data/gguf/llama-kquants/model.gguf --ids 1,2,3 -n 3 --quiet
check synth synth "$tmp/config.json" -o "$tmp/model.bin" --quiet
check quantize quantize "$tmp/model.bin" "$tmp/q4.bin" --type q4 --quiet
check convert convert "$folder" -o "$tmp/converted.bin" --quiet
check logits logits "$tmp/q4.bin" --ids 1,2,3 -o "$tmp/golden.safetensors" --quiet
check verify verify "$tmp/q4.bin" "$tmp/golden.safetensors" --exact --quiet
check attn attn "$tmp/model.bin" --ids 1,2,3 -o "$tmp/attn.json"
printf 'What is here is dear, and what is dear is here.\n' > "$tmp/text"
check eval eval $model "$tmp/text" --ctx 16 --quiet
head -c 20000 docs/train.md > "$tmp/prose"
echo '{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 24, "vocab_size": 300, "n_ctx": 16}' > "$tmp/train.json"
check train train "$tmp/trained.bin" --text "$tmp/prose" --config "$tmp/train.json" --steps 2 --batch 2 --quiet
check train_resume train "$tmp/trained.bin" --text "$tmp/prose" --config "$tmp/train.json" --steps 2 --batch 2 --quiet --resume
check block block --stack 2 --grad-check --places 1 --quiet
exit $failures
