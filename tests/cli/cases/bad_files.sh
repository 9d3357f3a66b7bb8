# Files that are not what they should be: status 3, one line.
. "$CASES/try.bash"
mkdir folder
: > empty
printf 'not a model' > short
head -c 5000 /dev/zero > zeros
echo '{"d_model": 16}' > half.json
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "frobs": 1}' > odd.json
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}' > config.json
tblock synth config.json -o model.bin
head -c 6000 model.bin > cut.bin
for model in missing.bin folder empty short zeros cut.bin; do
    try run "$model" --ids 1
done
try info missing.json
try info half.json
try info odd.json
try synth half.json -o out.bin
try synth config.json -o missing/out.bin
try synth config.json -o folder
try verify model.bin missing.safetensors
try verify model.bin folder
try verify model.bin model.bin
try logits model.bin --ids 1,2 -o missing/out
try logits model.bin --ids 1,99 -o out
try run model.bin --ids 1 --trace missing/trace
cp "$DATA/models/llama3-e2e/tokenizer.json" .
try logits tokenizer.json --ids 1 -o out
try attn tokenizer.json --ids 1 --json
ls
