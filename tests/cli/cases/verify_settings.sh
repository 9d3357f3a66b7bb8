# verify names the settings in which a golden's run was another than this one.
. "$CASES/try.bash"
echo '{"d_model": 64, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 300, "vocab_size": 100, "n_ctx": 64}' > config.json
tblock synth config.json -o bf16.bin --seed 1
tblock synth config.json -o f32.bin --type f32 --seed 2
tblock logits bf16.bin --ids 1,2,3,4,5 -o golden.safetensors --quiet

# hashes of the models and widths of tables are no part of this
noted()
{
    try "$@" | sed -E 's/(model_sha256) [0-9a-f]{12} \(here [0-9a-f]{12}\)/\1 A (here B)/; s/found max.*/found .../' \
        | grep -aE '^(\$ |tblock: |\[)'
}
noted verify bf16.bin golden.safetensors --exact --threads 3 --isa scalar
noted verify bf16.bin golden.safetensors --tol 1e30 --math bf16
noted verify bf16.bin golden.safetensors --tol 1e30 --math bf16 --quiet
noted verify bf16.bin golden.safetensors --exact --math bf16 --kv-type f16
noted verify bf16.bin golden.safetensors --exact --math bf16 --quiet
noted verify bf16.bin golden.safetensors --tol 1e30 --type q8 --activations 8
noted verify f32.bin golden.safetensors --tol 1e30
# the version is that of the run's arithmetic
tblock logits f32.bin --ids 1,2,3,4,5 -o eight.safetensors --type q8 --activations 8 --quiet
noted verify f32.bin eight.safetensors --exact --type q8 --activations 8 --threads 3
noted verify f32.bin eight.safetensors --tol 1e30 --type q8
# a version of the numerics that this program does not have; a file of another program
sed -E 's/("numerics": *)"[0-9]"/\1"0"/' golden.safetensors > old.safetensors
cmp -s golden.safetensors old.safetensors && echo "numerics not found"
noted verify bf16.bin old.safetensors --exact
sed 's/"tblock-logits"/"tblock-others"/' golden.safetensors > others.safetensors
noted verify bf16.bin others.safetensors --tol 1e30 --math bf16
tblock verify bf16.bin golden.safetensors --tol 1e30 --kv-type f16 --json --quiet | grep -o '"other_settings": "[^"]*"'
