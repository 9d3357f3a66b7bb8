# logits writes what verify reads; a change is found and named.
. "$CASES/try.bash"
config='"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 128'
echo "{$config}" > config.json
tblock synth config.json -o model.bin --seed 1
tblock synth config.json -o other.bin --seed 2
ids=$(seq -s, 0 39),$(seq -s, 0 39)
try logits model.bin --ids "$ids" -o golden.safetensors
try verify model.bin golden.safetensors
try verify model.bin golden.safetensors --exact
try verify model.bin golden.safetensors --exact --threads 3 --isa scalar
try verify model.bin golden.safetensors --json --tol 0
try_status verify other.bin golden.safetensors
try_status verify other.bin golden.safetensors --exact
try_status verify other.bin golden.safetensors --tol 1e30
try_status verify model.bin golden.safetensors --ctx 50
try logits model.bin --ids 1,2,3 --last -o last.safetensors
try logits model.bin --ids 1,2,3 --hidden -o hidden.safetensors
for file in golden last hidden; do
    tail -c +9 $file.safetensors | tr ',{' '\n\n' | grep -aoE '^"(tokens|logits|hidden[^"]*)"' | tr '\n' ' '
    echo
done
ls
