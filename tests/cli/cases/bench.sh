# bench shows speeds and limits: their structure, for numbers are those of the machine. Scalar, since other instruction sets have
# other limits, and caches of other sizes.
. "$CASES/try.bash"
set -m # else bash starts background programs with SIGINT ignored
masked() { sed -E 's/a run of ([0-9]+) token:/a run of \1 tokens:/; 1s/.*, scalar/CPU, scalar/; s/"cpu": "[^"]*"/"cpu": "CPU"/; s/"[^"]*",scalar/"CPU",scalar/; s/([ ,:])[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?%?/\1N/g; s/ +/ /g; /^(cache: |so the read bandwidth)/d; s/ cache N/ N N/; s/"read_share": null/"read_share": N/g; s/"in_cache": (true|false)/"in_cache": B/g; s/"cache_bytes": null/"cache_bytes": N/'; }
ln -s "$MODELS/shakespeare.bin" model.bin
quick='--isa scalar -t 1 --read-mb 1 -r 2 --seconds 0.1'

tblock bench model.bin $quick --prefill 4,8 -d 0,6 -n 2 --profile --csv rows.csv --svg plot.svg | masked
echo "---- csv"
tblock bench model.bin $quick --prefill 4 -n 0 --csv rows.csv > table; echo "[$?]"
head -n 1 rows.csv
tail -n +2 rows.csv | masked
echo "---- svg"
head -c 38 plot.svg; echo
tail -n 1 plot.svg
grep -oE '<circle|<polyline|>(prefill|decode after) [0-9]+( \(cache\))?<' plot.svg | sed 's/ (cache)//'
echo "---- json"
tblock bench model.bin $quick --prefill 4 -d 3 -n 2 --json | masked | sed 's/, /,\n/g'
tblock bench model.bin $quick --read-mb 2 --prefill 0 -d 3 -n 2 --json --profile -t 1,2 | masked | sed 's/, "/\n"/g' | grep -E '"(prefill|complete|threads|what|name)"'
echo "---- a window that moves on"
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 3000, "window": 8}' > config.json
tblock synth config.json -o window.bin
tblock bench window.bin $quick --prefill 200 -d 100 -n 200 -r 1 | masked | tail -n 2
tblock bench window.bin $quick --prefill 0 -n 1 -r 1 --type q8 | masked | grep -E '^(model|settings|limits|decode| *N peak)'

echo "---- refused"
try bench
for options in '--prefill -1' '--prefill 1,' '--prefill 0,1' '--prefill x' '--prefill 9999999' '-d 1,-1' '-t 1025' '-t' '-r 0' '-r 100' '-n -1' '--seconds -1' '--read-mb 0' \
    '-n 0 -d 1' '-n 0 --prefill 0' '--ctx 5' '-d 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16'; do
    try bench model.bin $options
done
echo 'cpu,isa,threads' > other.csv
try bench model.bin $quick --csv other.csv
try bench model.bin $quick --csv .
try bench model.bin $quick --csv nowhere/rows.csv
try bench model.bin $quick --svg nowhere/plot.svg
try bench model.bin $quick --svg model.bin
try bench missing.bin
try bench config.json
try_status bench model.bin $quick --prefill 1 -n 0 --svg /dev/full
try_status bench model.bin $quick --prefill 1 -n 0 --csv /dev/full
cat other.csv

echo "---- Ctrl-C"
tblock bench model.bin $quick --prefill 1000000 -n 0 -q --csv new.csv --svg new.svg > table &
until_working $!
kill -INT $!
wait $!
echo "[$?]"
ls
