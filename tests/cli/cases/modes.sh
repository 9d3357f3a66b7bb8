# Modes of arithmetic: what a run resolves to and records, and what goes with no weight of the model.
. "$CASES/try.bash"
echo '{"d_model": 64, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 300, "vocab_size": 100, "n_ctx": 64}' > config.json
tblock synth config.json -o bf16.bin
tblock synth config.json -o f32.bin --type f32
tblock quantize bf16.bin q8.bin --type q8 > table
tblock quantize bf16.bin q4.bin --type q4 > table
tblock quantize bf16.bin mixed.bin --type q4 --keep 'layers.*.w_down=bf16' > table

# recorded MODEL OPTION...: math, activations and cache, as a golden names them and as run --json does
recorded() {
    local model=$1
    shift
    tblock logits "$model" --ids 1,2,3 -o golden.safetensors "$@" --quiet
    echo "$model $*: $(tr ',' '\n' < golden.safetensors | grep -aoE '"(math|activations|kv_type)": ?"[a-z0-9]*"' | tr '\n' ' ')"
    tblock run "$model" --ids 1,2,3 -n 1 --temp 0 --json "$@" --quiet | grep -oE '"(math|activations|kv_type)": ?"[a-z0-9]*"' | tr '\n' ' '
    echo
    tblock verify "$model" golden.safetensors --exact "$@" > answer && tail -n 1 answer
}
recorded f32.bin
recorded bf16.bin
recorded bf16.bin --math bf16
recorded q8.bin
recorded q8.bin --activations 8
recorded q8.bin --math f32
recorded q4.bin --kv-type f32
recorded mixed.bin
recorded mixed.bin --math bf16 --activations 16
try run f32.bin --ids 1 --math int8
try run f32.bin --ids 1 --math bf16
try run bf16.bin --ids 1 --activations 16
try run q8.bin --ids 1 --math bf16
try run q8.bin --ids 1 --math f32 --activations 8
try run q8.bin --ids 1 --activations 4
