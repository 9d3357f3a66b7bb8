# Names of options that other programs have are read as ours: all lines of a part are the same run.
. "$CASES/try.bash"
echo '{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32, "eos": []}' > config.json
tblock synth config.json -o model.bin --type f32 --seed 1
tblock run model.bin --ids 1,2,3 --predict 5 --temp 0 --repeat-penalty 1.5 --quiet
for predict in --n-predict --max-tokens --max_tokens --max-new-tokens --max_new_tokens --num_predict; do
    tblock run -m model.bin --ids 1,2,3 $predict 5 --temperature 0 --repetition_penalty 1.5 -q
done
tblock run --model model.bin --ids=1,2,3 --n_predict=5 --temperature=0 --repeat_penalty=1.5 -q
tblock run -mmodel.bin --ids=1,2,3 -n5 --temp 0 --repetition-penalty=1.5 -q
for ctx in --ctx --ctx-size --ctx_size --num_ctx --max-model-len; do
    tblock run --ids 1,2,3 -n 40 --temperature 0 $ctx 8 --model=model.bin
done
# until the context is full: of 8 tokens, and of the model's own 32; with a state, and in a receipt
tblock run model.bin --ids 1,2,3 -n -1 -c 8 --temp 0
tblock run model.bin --ids 1,2,3 -n -1 --temp 0 -q | wc -w
tblock run model.bin --ids 1,2,3 -n 0 --save-state state -q
tblock run model.bin --ids 4 -n -1 -c 8 --temp 0 --load-state state
tblock run model.bin --ids 1,2,3 -n -1 -c 8 --receipt receipt -q && tblock verify model.bin receipt
# of the model, once and first
try run model.bin -m other.bin
try run -m model.bin -m other.bin
try run -m
try run --top_q 3
try run -temperature 3
try run m --max-tokens -3
try list -m model.bin
# a command's own name wins: serve's --alias stays, and --file of tokenize is no prompt
printf ab > text.txt
tblock tokenize -m "$MODELS/shakespeare.bin" --file text.txt --no_bos
# the help has them once, at the end
tblock help chat | sed -n '/^Also read/,$p'
tblock help list | grep 'Also read' || echo none
