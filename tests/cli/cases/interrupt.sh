# Ctrl-C: what was generated is written, status 130; also while a long prompt is read.
set -m # else bash starts background programs with SIGINT ignored
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 1000000}' > config.json
tblock synth config.json -o model.bin
: > out
tblock run model.bin --ids 1,2 -n 1000000 --temp 0 --stats > out 2> err &
until [ "$(stat -c %s out)" -gt 100 ]; do sleep 0.01; done
kill -INT $!
wait $!
echo "[$?]"
n=$(wc -w < out)
cut -c 1-20 out > begin
tblock run model.bin --ids 1,2 -n "$n" --temp 0 | cmp - out && echo "the text so far, complete"
grep -o 'stopped   interrupt' err

tblock run model.bin --ids 1,2 -n 1000000 --temp 0 --json --trace trace > out &
until [ -s trace ]; do sleep 0.01; done
kill -INT $!
wait $!
echo "[$?]"
grep -o '"stop_reason": "interrupt"' out

tblock run model.bin --ids "$(yes 1 | head -n 60000 | tr '\n' ' ')" --stats > out 2> err &
sleep 0.3
kill -INT $!
wait $!
echo "[$?]"
cat out
grep -o 'decode    0 tokens' err

rm out
(trap '' INT; exec tblock run model.bin --ids 1,2 -n 5000 --temp 0 > out) & # as under nohup: ignored stays ignored
until [ -s out ]; do sleep 0.01; done
kill -INT $!
wait $!
echo "[$?]"
wc -w < out
