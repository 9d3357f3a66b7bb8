# Options that exclude each other, on a model that can be opened.
. "$CASES/try.bash"
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}' > config.json
tblock synth config.json -o model.bin
try run model.bin --prompt a --prompt-file b
try run model.bin --prompt a --ids 1
try run model.bin --prompt a --prompt-file b --ids 1
try run model.bin --ids 1 --no-bos
try run model.bin --ids 1 --special
try run model.bin --ids ''
try verify model.bin golden --exact --tol 1
try tokenize model.bin --text a --ids 1
try tokenize model.bin --jsonl - --json
try tokenize model.bin --jsonl - --special
try tokenize model.bin --ids 1 --no-bos
# endless input
ln -s "$MODELS/shakespeare.bin" text.bin
try run text.bin -f /dev/zero
try_zero() { try "$@" < /dev/zero; }
try_zero run text.bin
try_zero tokenize text.bin --jsonl -
