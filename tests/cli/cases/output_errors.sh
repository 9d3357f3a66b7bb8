# A full disk (status 4), a closed standard output (4), a reader that goes away (141 and not a word).
echo '{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}' > config.json
tblock synth config.json -o model.bin
tblock logits model.bin --ids 1,2 -o golden
exec 2>&1
try_output() {
    echo "\$ tblock $*"
    tblock "$@" > /dev/full; echo "[$?]"
    tblock "$@" >&-; echo "[$?]"
    rm -f gone status
    { until [ -e gone ]; do sleep 0.01; done; tblock "$@" 2> said; echo "[$?]" > status; } | { exec <&-; touch gone; }
    cat said status
}
try_output run model.bin -q --ids 1,2
try_output run model.bin -q --ids 1,2 --json
try_output info config.json
try_output verify model.bin golden
try_output help run
try_output --version
echo "other files:"
tblock synth config.json -o /dev/full; echo "[$?]"
tblock logits model.bin --ids 1 -o /dev/full; echo "[$?]"
tblock run model.bin --ids 1,2 -n 2 --trace /dev/full; echo "[$?]"
cp model.bin copy.bin
tblock run model.bin --ids 1 -n 1 <&- >&- 2>&-; echo "all closed: [$?]"
cmp model.bin copy.bin
