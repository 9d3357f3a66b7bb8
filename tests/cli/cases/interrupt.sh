# Ctrl-C: what was generated is written, status 130; also while a long prompt is read. A busy machine may stop this script
# for long between two of its steps, so each run is far from its end, or blocked by a full pipe, when it gets the signal.
set -m # else bash starts background programs with SIGINT ignored
config() { echo "{\"d_model\": 16, \"n_layers\": $1, \"heads\": 2, \"d_ff\": 32, \"vocab_size\": 40, \"n_ctx\": 1000000 $2}"; }
config 1 > config.json
tblock synth config.json -o model.bin
until_written() { until [ -s "$1" ]; do sleep 0.01; done; }

: > out
tblock run model.bin --ids 1,2 -n 1000000 --temp 0 --stats > out 2> err &
until_written out
kill -INT $!
wait $!
echo "[$?]"
n=$(wc -w < out)
cut -c 1-20 out > begin
tblock run model.bin --ids 1,2 -n "$n" --temp 0 | cmp - out && echo "the text so far, complete"
grep -o 'stopped   interrupt' err

tblock run model.bin --ids 1,2 -n 1000000 --temp 0 --json --trace trace > out &
until_written trace
kill -INT $!
wait $!
echo "[$?]"
grep -o '"stop_reason": "interrupt"' out

config 40 > deep.json
tblock synth deep.json -o deep.bin
: > out
tblock run deep.bin --ids "$(yes 1 | head -n 60000 | tr '\n' ' ')" --echo --stats > out 2> err & # --echo: the prompt begins
until_written out
kill -INT $!
wait $!
echo "[$?]"
wc -w < out
grep -o 'decode    0 tokens' err

# As under nohup: ignored stays ignored. The pipe holds 64 KB of the 100 KB.
config 1 ', "window": 16' > window.json
tblock synth window.json -o window.bin
mkfifo pipe
(trap '' INT; exec tblock run window.bin --ids 1,2 -n 40000 --temp 0 > pipe) &
{ head -c 1; kill -INT $!; cat; } < pipe | wc -w
wait $!
echo "[$?]"

# Files that are being written: nothing is left of them. They have no name until they are whole, or where the file system lacks that
# a temporary one, so look in /proc.
until_writing() { until ls -l "/proc/$1/fd" 2> /dev/null | grep -q ' (deleted)\|/\.tblock-' || ! kill -0 "$1"; do sleep 0.01; done; }
mkdir files
tblock logits deep.bin --ids "$(yes 1 | head -n 60000 | tr '\n' ' ')" -o files/logits &
until_writing $!
kill -INT $!
{ wait $!; } 2> /dev/null # without what bash says about it
echo "[$?]"
# 0.5 GB and 0.4 for each layer, of which there is to be room for all before the work begins: 32, or what half of the disk takes
layers=$(df -Pk . | awk 'NR == 2 { n = int($4 / 2 / 400000); if (n > 32) n = 32; print (n ? n : 1) }')
echo '{"d_model": 4096, "n_layers": '"$layers"', "heads": 32, "d_ff": 11008, "vocab_size": 32000, "n_ctx": 2048}' > large.json
tblock synth large.json -o files/model.bin &
until_writing $!
kill -INT $!
{ wait $!; } 2> /dev/null # without what bash says about it
echo "[$?]"
ls -A files
