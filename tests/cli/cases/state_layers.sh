# Layers with a state (short convolutions, the delta rule): a text that stops and goes on is the text in one piece, and what such
# a model cannot do is refused by name.
. "$CASES/try.bash"
echo '{"d_model": 16, "n_layers": 3, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 400, "state_layers": [0, 2], "conv_taps": 4}' > config.json
tblock synth config.json -o m.bin --type f32 --seed 1
numbers() { seq -s, "$1" "$2" | tr -d '\n'; }
for how in "--temp 0" "--temp 1 --kv-type f16" "--temp 1 --kv-type q8 -t 3"; do
    run() { tblock run m.bin $how --quiet "$@"; }
    whole=$(run --ids "$(numbers 1 39),$(numbers 0 30)" -n 100 --trace whole.trace)
    run --ids "$(numbers 1 39)" -n 0 --save-state a.state > /dev/null
    first=$(run --load-state a.state --ids "$(numbers 0 30)" -n 40 --trace first.trace --save-state a.state)
    rest=$(run --load-state a.state --ids "" -n 60 --trace rest.trace)
    [ "$whole" = "$first $rest" ] && cat first.trace rest.trace | cmp - whole.trace && echo "the same: $how"
done
tblock info m.bin | grep -i state
echo '{"d_model": 16, "n_layers": 3, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 400, "state_layers": [0, 2], "conv_taps": 4, "attn_gate": true, "delta_heads": 4, "delta_key_heads": 2, "delta_key_dim": 8, "delta_value_dim": 12}' > config.json
tblock synth config.json -o delta.bin --type f32 --seed 1
whole=$(tblock run delta.bin --temp 1 --quiet --ids "$(numbers 1 39)" -n 60)
first=$(tblock run delta.bin --temp 1 --quiet --ids "$(numbers 1 39)" -n 20 --save-state a.state)
[ "$whole" = "$first $(tblock run delta.bin --temp 1 --quiet --load-state a.state --ids "" -n 40)" ] && echo "the same: delta rule"
tblock info delta.bin | grep "gated delta\|sigmoid\|delta_qkv\|delta rule \|  state "
echo '{"d_model": 16, "n_layers": 3, "heads": 2, "d_ff": 32, "vocab_size": 40, "state_layers": [0], "conv_taps": 4, "delta_heads": 4}' > config.json
try synth config.json -o none.bin
echo '{"d_model": 16, "n_layers": 3, "heads": 2, "d_ff": 32, "vocab_size": 40, "delta_heads": 4}' > config.json
try synth config.json -o none.bin
cp m.bin lora.gguf
try run m.bin --ids 1,2,3 --draft ngram
try run m.bin --ids 1,2,3 --draft m.bin
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 400}' > config.json
tblock synth config.json -o plain.bin --type f32 --seed 1
try run plain.bin --ids 1,2,3 --draft m.bin
try run m.bin --ids 1,2,3 --lora lora.gguf
try attn m.bin --ids 1,2,3 -o attn.html
echo '{"d_model": 16, "n_layers": 3, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 400, "conv_taps": 4}' > config.json
try synth config.json -o m.bin
echo '{"d_model": 16, "n_layers": 3, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 400, "state_layers": [3], "conv_taps": 4}' > config.json
try synth config.json -o m.bin
