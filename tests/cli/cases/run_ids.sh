# A model without tokenizer: ids in, ids out.
. "$CASES/try.bash"
echo '{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32, "eos": []}' > config.json
tblock synth config.json -o model.bin --type f32 --seed 1
try run model.bin --ids 1,2,3 -n 5
try run model.bin --ids '1 2, 3' -n 5 --echo
try run model.bin --ids 1,2,3 -n 5 --temp 0
try run model.bin --ids 1,2,3 -n 5 --seed 7
try run model.bin --ids 1,2,3 -n 0
try run model.bin --ids 1,2,3 -n 300 --quiet | awk '/^[0-9]/ { print NF " ids" } !/^[0-9]/'
try run model.bin --ids 1,2,3 --ctx 5
try run model.bin --ids 1,2,3 --ctx 3
try run model.bin --ids 1,2,3 --ctx 2
try run model.bin --ids 1,2,3 --ctx 33 -n 1
try run model.bin --ids 1,2,3 --ctx 33 -n 1 --quiet
try run model.bin --ids 1,40 -n 1
try run model.bin --prompt hello
try run model.bin --ids 1 --stop x
try tokenize model.bin --text hello
echo hello | try run model.bin
