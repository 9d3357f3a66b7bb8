# --draft changes the speed, never the text, nor the bits of the logits: --trace logs a hash of them for each token.
# needs: $MODELS/shakespeare.bin
. "$CASES/try.bash"
echo '{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 400, "window": 70}' > window.json
tblock synth window.json -o window.bin --type f32 --seed 1
tblock synth window.json -o other.bin --type f32 --seed 2
tblock synth <(sed 's/}/, "mtp_layers": 1}/' window.json) -o window-mtp.bin --type f32 --seed 3
tblock quantize window.bin -o window-q8.bin --type q8 --quiet > quantized.txt
tblock quantize "$MODELS/shakespeare.bin" -o shakespeare-q4.bin --type q4 --quiet > quantized.txt
accepted=0 wrong=0 tried=0
compare() { # MODEL PROMPT OPTIONS
    tblock run "$@" --json --trace plain.trace > plain.json
    for draft in ngram "ngram --draft-max 1" "ngram --draft-max 63 --draft-match 1" "$by" "$by --draft-max 63 -t 2"; do
        tblock run "$@" --draft $draft --json --trace draft.trace > draft.json
        tried=$((tried + 1))
        cmp -s plain.trace draft.trace && cmp -s <(sed 's/, "stats".*//' plain.json) <(sed 's/, "stats".*//' draft.json) ||
            echo "differs: $* $draft"
        read -r proposed right < <(sed -E 's/.*"draft": \{"proposed": ([0-9]+), "accepted": ([0-9]+),.*/\1 \2/' draft.json)
        accepted=$((accepted + right)) wrong=$((wrong + proposed - right))
    done
}
by=window-q8.bin
for kv in f32 f16; do
    for how in "--temp 0" "--temp 0.3" "--temp 1.5 --top-k 0 --seed 5" "--temp 0 --repeat-penalty 1.3"; do
        compare window.bin --ids 1,2,3,4,5,6,7,8 -n 400 --quiet -t 1 --kv-type $kv $how
    done
done
by=other.bin
compare window.bin --ids 1,2,3 -n 400 --quiet -t 1 --temp 0.3
by=mtp
for how in "--temp 0" "--temp 1.5 --top-k 3"; do
    compare window-mtp.bin --ids 1,2,3 -n 397 --quiet -t 1 $how
done
by=shakespeare-q4.bin
for how in "--temp 0" "--temp 0.8" "--temp 0.8 --regex ([A-Za-z]{1,9}[,.]){4,20}" "--temp 0.8 --stop . --stop KING"; do
    compare "$MODELS/shakespeare.bin" --prompt "ROMEO: I am a man, I am a man, I am" -n 100 -t 1 $how
done
echo "$tried runs"
[ $accepted -gt 500 ] && [ $wrong -gt 100 ] || echo "too little to tell: $accepted accepted, $wrong wrong"
try run window.bin --ids 1,2,1,2,1 -n 10 --draft ngram --quiet
try run window.bin --ids 1,2,1,2,1 -n 1 --draft ngram --quiet
try run window.bin --ids 1,2,1,2,1,2 -n 20 -c 9 --draft ngram
tblock run window.bin --ids 1,2,1,2,1 -n 30 --temp 0 --draft ngram --quiet --stats 2>&1 > /dev/null | grep draft
try run window.bin --ids 1 --draft words
try run window.bin --ids 1 --draft ngram --draft-max 64
try run window.bin --ids 1 --draft mtp
try run window.bin --ids 1 --draft shakespeare-q4.bin
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 41, "n_ctx": 400}' > wide.json
tblock synth wide.json -o wide.bin --type f32 --seed 1
try run window.bin --ids 1 --draft wide.bin
try run window.bin --ids 1 --draft other.bin -n 1 --save-state other.bin --quiet
# the model itself is right but for what the end cuts off, whatever is drawn
for how in "--temp 0" "--temp 1.5 --top-k 0 --seed 3" "--temp 0.8 --regex ([a-z]{1,9}[,.]){30,40}"; do
    tblock run "$MODELS/shakespeare.bin" -p "All is " -n 101 --draft "$MODELS/shakespeare.bin" $how --json --quiet |
        grep -o '"accept[a-z]*": [0-9.]*' | tail -1
done
