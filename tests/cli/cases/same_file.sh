# An output never replaces the input it is made from, also under another name: status 2, and the file is as it was.
echo '{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}' > config.json
tblock synth config.json -o model.bin
cp model.bin before.bin; cp config.json before.json
ln -s model.bin link.bin
exec 2>&1
tblock synth config.json -o config.json; echo "[$?]"
tblock logits model.bin --ids 1,2 -o model.bin; echo "[$?]"
tblock logits link.bin --ids 1,2 -o ./model.bin; echo "[$?]"
tblock attn model.bin --ids 1,2 --format safetensors -o model.bin; echo "[$?]"
tblock info model.bin --html link.bin > out; echo "[$?]"
tblock run model.bin --ids 1,2 -n 2 --trace link.bin; echo "[$?]"
tblock bench link.bin --svg model.bin; echo "[$?]"
tblock bench model.bin --csv link.bin; echo "[$?]"
tblock run model.bin --ids 1,2 -n 2 --trace both --save-state both; echo "[$?]"
tblock bench model.bin --csv both --svg both; echo "[$?]"
tblock run model.bin --ids 1,2 -n 2 --trace both --save-state ./both; echo "[$?]"
tblock bench model.bin --csv both --svg "$PWD/both"; echo "[$?]"
echo 'to be, or not to be' > text.txt
tblock train new.bin --text text.txt --config config.json --steps 1 --plot ./new.bin.ckpt; echo "[$?]"
tblock logits model.bin --ids 1,2 -o golden; echo "[$?]"
tblock verify model.bin golden --junit link.bin; echo "[$?]"
tblock verify model.bin golden --junit golden; echo "[$?]"
tblock verify config.json golden --junit config.json; echo "[$?]"
tblock logits model.bin --ids 1,2 -o ""; echo "[$?]"
mkdir folder; cp "$DATA"/models/llama3-e2e/* folder; cp folder/tokenizer.json before.tokenizer
tblock convert folder --no-tokenizer -o folder/tokenizer.json; echo "[$?]"
cmp folder/tokenizer.json before.tokenizer
ls
cmp model.bin before.bin && cmp config.json before.json && echo unchanged
