# The forms of an option, and that the last value counts: all lines are the same run.
echo '{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32, "eos": []}' > config.json
tblock synth config.json -o model.bin --type f32 --seed 1
tblock run model.bin --ids 1,2,3 --predict 5 --temp 0 --quiet
tblock run --ids=1,2,3 -n5 --temp=0 -q model.bin
tblock run -qn5 --ids 9 --temp 3 --ids 1,2,3 --temp 0.0 -- model.bin
tblock run -n 7 model.bin -n +5 --temp 0e0 --ids $' 1\t2\n3 ' --threads 2 --isa scalar --kv-type f32 --math f32
LC_ALL=de_DE.UTF-8 tblock run model.bin -n 5 --ids 1,2,3 --temp .0 --top-p 0.5
mv model.bin ./-model
tblock run -n5 --ids 1,2,3 --temp 0 -- -model
