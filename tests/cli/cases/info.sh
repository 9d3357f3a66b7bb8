# What the report says is checked elsewhere; here its options and its place.
# needs: $MODELS/llama-3.2-1b.json
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}' > tiny.json
tblock synth tiny.json -o tiny.bin
tblock info "$MODELS/llama-3.2-1b.json" | grep -o 'total .*1,235,814,400'
tblock info "$MODELS/llama-3.2-1b.json" --json | tr ',' '\n' | grep -c 1235814400
for model in tiny.json tiny.bin; do
    tblock info $model | grep -c d_model
    tblock info $model --json | head -c 1
    echo
done
tblock info tiny.bin | grep -c layers.0.wq
tblock info tiny.bin --tensors | grep -c layers.0.wq
tblock info tiny.bin | grep -q $'\e' || echo "no colour outside a terminal"
