# The same file for the same config, type and seed, whatever the threads; the old file stays when it fails.
. "$CASES/try.bash"
echo '{"d_model": 32, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 80, "vocab_size": 100, "n_ctx": 64}' > config.json
for type in f32 f16 bf16; do
    try synth config.json -o $type.bin --type $type --seed 5
    try synth config.json -o again.bin --type $type --seed 5 --threads 3
    cmp $type.bin again.bin && echo same
    try_status run $type.bin --ids 1,2 -n 3
done
try synth config.json -o other.bin --seed 0x6
cmp -s bf16.bin other.bin || echo another
try synth config.json -o other.bin --seed random | sed 's/seed [0-9]*/seed N/'
try synth missing.json -o bf16.bin
cmp bf16.bin again.bin && ls
