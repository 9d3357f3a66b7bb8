# attn writes probabilities in three formats; what is wrong is refused and leaves nothing behind.
. "$CASES/try.bash"
exec 2>&1
echo '{"d_model": 16, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 2000, "window": 3}' > config.json
tblock synth config.json -o model.bin --seed 1
try attn model.bin --ids 1,2,3,4 --layer 1 --head 2 --json
try attn model.bin --ids 1,2,3,4 -o all.safetensors
tail -c +9 all.safetensors | tr ',{' '\n\n' | grep -aoE '^"(tokens|attn[^"]*)"'
for options in '--threads 3' '--isa scalar'; do
    tblock attn model.bin --ids 1,2,3,4 $options -o same.safetensors && cmp all.safetensors same.safetensors
done
try attn model.bin --ids 1,2,3,4 --layer 0-1 --layer 1 --head 3,0 -o some.json
grep -aoE '"(layers|heads)": [^ ].*' some.json
try attn model.bin --ids 1,2,3,4 -o page.html
try attn model.bin --ids 1,2,3,4 -o page.htm
try attn model.bin --ids 1,2,3,4 -o other --format html
cmp page.html page.htm && cmp page.html other
head -c 15 page.html; echo
rm -f ./*.safetensors some.json page.htm other

echo "---- refused"
echo old > out.html
try attn model.bin --ids 1
try attn model.bin --ids 1 --format html
try attn model.bin --ids 1 -o out.png
try attn model.bin --ids 1 -o .html
try attn model.bin --ids 1 -o out.html --format svg
try attn model.bin --ids 1 -o out.html --json --format html
try attn model.bin --ids '' -o out.html
try attn model.bin --prompt x -o out.html
for list in 2 -1 0, ,0 1-0 0-2 0--1 a '0 1' 99999999999999999999 ''; do
    try attn model.bin --ids 1 -o out.html --layer="$list"
done
try attn model.bin --ids 1 -o out.html --head 0,4
try attn model.bin --ids 40 -o out.html
try attn missing.bin --ids 1 -o out.html
try attn model.bin --ids 1 -o nowhere/out.html
try attn model.bin --ids 1 -o .
try attn model.bin --ids 1 -o /dev/full --format html
try attn model.bin --ids 1 -o /dev/full --format safetensors
tblock attn model.bin --ids 1 --json > /dev/full; echo "[$?]"
ids=$(seq -s, 1 39),$(seq -s, 1 39) ids=$ids,$ids,$ids,$ids,$ids,$ids,$ids ids=$ids,$ids
tblock attn model.bin --ids "$ids" -o long.html; echo "[$?]"; grep -o 'data-block="[0-9]*"' long.html; rm long.html
echo '{"d_model": 64, "n_layers": 4, "heads": 32, "d_ff": 32, "vocab_size": 40, "n_ctx": 2000}' > config.json
tblock synth config.json -o large.bin
tblock attn large.bin --ids "$ids" --json; echo "[$?]"
tblock attn large.bin --ids "$ids" --layer 3 --head 0-2 --format safetensors -o /dev/null; echo "[$?]"
cat out.html
ls -A
