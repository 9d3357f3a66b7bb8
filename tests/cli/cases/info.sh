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

# What a prompt costs, and the KV cache, as asked for.
tblock info "$MODELS/llama-3.2-1b.json" --seq 4096 --batch 2 --kv-type f16 | grep -E 'FLOP of|together|one token'
tblock info "$MODELS/llama-3.2-1b.json" --type f32 | grep -E '^  weights'
tblock info tiny.bin --type f32
echo "status $?"
tblock info tiny.json --seq 16777217
echo "status $?"

# A check says yes, or names the tensor; the report comes all the same.
tblock info tiny.bin --check | sed -n '/^check/,$p'
cp tiny.bin bad.bin
printf '\377\377\377\377' | dd of=bad.bin bs=1 seek=$(($(stat -c %s bad.bin) - 36)) conv=notrunc status=none
tblock info bad.bin --check --json | grep -o '"finite": {"answer": "[a-z]*"'
tblock info bad.bin --check > bad.txt
echo "status $?"
sed -n '/^check/,$p' bad.txt | sed 's/expected .*/.../'
tblock info tiny.json --check
echo "status $?"

# A page instead of the text.
tblock info tiny.bin --html tiny.html
head -c 15 tiny.html
echo
tblock info tiny.bin --html tiny.html --json | head -c 1
echo
tblock info bad.bin --check --html bad.html 2> /dev/null
echo "status $?"
grep -c 'class="wrong"' bad.html
tblock info tiny.bin --html no/such/folder.html
echo "status $?"
# blocks that differ: no share of the first for what it has not
echo '{"d_model": 64, "n_layers": 3, "heads": 4, "d_ff": 128, "vocab_size": 256, "n_experts": 4, "experts_used": 2, "expert_d_ff": 32, "dense_layers": [0]}' > mixed.json
tblock info mixed.json | sed -n '/^one block/,/blocks differ/p'
tblock info mixed.json --html mixed.html
grep -oE 'title="(attention|FFN|norms): [^"]*"|in the first of 3 blocks|Of the first block; the blocks differ' mixed.html
