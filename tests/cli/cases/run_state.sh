# --save-state and --load-state: a text that stops and goes on is the text in one piece, to the bit (--trace hashes logits).
# needs: $MODELS/shakespeare.bin
. "$CASES/try.bash"
for window in 0 70; do
    echo '{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 400, "window": '$window'}' > config.json
    tblock synth config.json -o w$window.bin --type f32 --seed 1
done
numbers() { seq -s, "$1" "$2" | tr -d '\n'; }
tried=0
for model in w0.bin w70.bin; do
    for how in "--temp 0" "--temp 1 --kv-type f16" "--temp 1 --kv-type q8" "--temp 0.3 --draft ngram" "--temp 1 --draft w0.bin" "--temp 0 --repeat-penalty 1.2"; do
        run() { tblock run $model $how -t 1 --quiet "$@"; }
        whole=$(run --ids "$(numbers 1 39),$(numbers 0 30),5,6,5" -n 200 --trace whole.trace)
        run --ids "$(numbers 1 39)" -n 0 --save-state a.state > /dev/null
        first=$(run --load-state a.state --ids "$(numbers 0 30),5,6,5" -n 90 --trace first.trace --save-state b.state)
        rest=$(run --load-state b.state --ids "" -n 110 --trace rest.trace --save-state b.state)
        [ "$whole" = "$first $rest" ] && cat first.trace rest.trace | cmp - whole.trace || echo "differs: $model $how"
        run --ids "$(numbers 1 39),$(numbers 0 30),5,6,5" -n 200 --save-state c.state > /dev/null
        cmp b.state c.state || echo "another file: $model $how"
        tried=$((tried + 1))
    done
done
echo "$tried compared"
s=$MODELS/shakespeare.bin
tblock run "$s" --prompt "ROMEO: But" -n 20 --save-state s.state --quiet > one
tblock run "$s" --load-state s.state --prompt "" -n 20 --quiet > two
tblock run "$s" --prompt "ROMEO: But" -n 40 --quiet | cmp - <(cat one two) && echo "the text goes on"
tblock run "$s" --load-state s.state --prompt "
JULIET:" -n 5 --echo --quiet > out && head -c 9 out | od -c | head -1
tblock run "$s" --load-state s.state --prompt "" -n 3 --json --quiet | grep -o '"prompt_ids": \[[0-9]*\]\|"state_tokens": [0-9]*\|"prefill": {"tokens": [0-9]*'
tblock run "$s" --load-state s.state --prompt "" -n 3 --stats 2>&1 > /dev/null | grep ^state
try run w70.bin --load-state a.state --ids 1 --kv-type f16
try run w70.bin --load-state c.state --ids 1 -c 200
try run w70.bin --load-state c.state --ids 1,2,3,4 -c 276 -n 1
cp c.state d.state
try run w0.bin --load-state d.state --ids 1
try run w70.bin --load-state none.state --ids 1
try run w70.bin --load-state w70.bin --ids 1
try run w70.bin --ids 1 --save-state w70.bin
try run w70.bin --ids 1 --save-state none/x.state
try run w70.bin --ids 1 --save-state ""
try run w70.bin --ids 1,2 -n 400 --quiet --save-state full.state | wc -w
try run w70.bin --load-state full.state --ids "" -n 4
ls
