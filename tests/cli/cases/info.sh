# needs: $MODELS/llama-3.2-1b.json
. "$CASES/try.bash"
cp "$MODELS/llama-3.2-1b.json" config.json
try info config.json
tblock info config.json --json | head -c 1; echo
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}' > tiny.json
tblock synth tiny.json -o tiny.bin
try info tiny.bin --tensors
