# Where logits differ, verify says what of this run rounds and which options to try: as the run was, not a fixed text.
. "$CASES/try.bash"
echo '{"d_model": 64, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 256, "vocab_size": 100, "n_ctx": 64}' > config.json
tblock synth config.json -o f32.bin --type f32 --seed 1
for type in q8 q4; do tblock quantize f32.bin -o $type.bin --type $type > table; done
tblock logits f32.bin --ids 1,2,3,4,5 -o golden --quiet
tblock logits q4.bin --ids 1,2,3,4,5 --math f32 --kv-type f32 -o q4.golden --quiet
sed 's/"tblock-logits"/"tblock-others"/' q4.golden > others.golden # of another program, which computes in f32
advice() { try verify "$@" --tol 1e-9 | grep -aE '^(\$ |\[)|try |the weights are' | sed 's/^tblock: [^:]*: //'; }
# the golden of the weights themselves: nothing but the settings differs, and the options given make it right
advice q4.bin q4.golden
advice q4.bin q4.golden --activations 16
advice q4.bin q4.golden --math f32
advice q4.bin q4.golden --kv-type f32
advice q4.bin q4.golden --math f32 --kv-type f32
advice q4.bin others.golden
advice q4.bin others.golden --math f32 --kv-type q8
advice q4.bin others.golden --math f32 --kv-type f32
# of what the weights were made from
advice q4.bin golden
advice q8.bin golden
advice q8.bin golden --math f32 --kv-type f32
advice f32.bin golden --type q8
advice f32.bin golden --type bf16 --math bf16
advice f32.bin golden
# the other way round: the golden's run rounded, this one does not
tblock logits q4.bin --ids 1,2,3,4,5 --activations 16 -o rounded --quiet
advice q4.bin rounded
advice q4.bin rounded --math f32 --kv-type f32
advice q4.bin rounded --math int8 --activations 16 --kv-type f16
advice q4.bin rounded --activations 16
# types of GGUF have activations of 8 bits alone
cp "$DATA"/gguf/llama-kquants/*.gguf k.gguf && tblock logits k.gguf --ids 1,2,3 --math f32 --kv-type f32 -o k.golden --quiet
advice k.gguf k.golden
tblock verify q4.bin others.golden --tol 1e-9 --json --quiet 2> /dev/null | grep -o '"advice": "[^"]*"'
