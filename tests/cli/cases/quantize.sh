# Quantizing: a table or JSON, the same file whatever the threads, notes about what was lost; the old file stays when it fails.
. "$CASES/try.bash"
echo '{"d_model": 64, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 300, "vocab_size": 100, "n_ctx": 64}' > config.json
tblock synth config.json -o model.bin
try quantize model.bin f32.bin --type f32
try quantize model.bin -o bf16.bin --type bf16 --tensors
for type in q8 q4; do # errors depend on how codes are chosen, which is not this case's subject
    try quantize model.bin $type.bin --type $type | sed 's/[0-9.]*%/N%/g; s/layers\.[01]/layers.N/'
    try_status quantize model.bin again.bin --type $type --threads 3
    cmp $type.bin again.bin && echo same
    try_status run $type.bin --ids 1,2 -n 3
done
try quantize model.bin mixed.bin --type q4 --keep 'layers.*.w_down=q8' --keep embed=f16 -k 'layers.0.*=bf16' --json |
    sed 's/"relative_rms_error": [0-9.e-]*/"relative_rms_error": N/g'
tblock info mixed.bin --check | grep -E 'weights|bits|quantized|padding'
try_status quantize q4.bin back.bin --type f32
try quantize q4.bin q4.bin --type f32
try quantize q4.bin q8.bin --type q8
try quantize q4.bin q48.bin --type q8 --requantize 2>&1 | grep -v layers | sed 's/[0-9.]*%/N%/g'
try quantize model.bin q8.bin --type q8 --keep 'layers.9.*=q4'
try quantize model.bin q8.bin --type q8 --keep embed
try quantize model.bin q8.bin --type q3
try quantize model.bin q8.bin
try quantize model.bin --type q8
try quantize config.json q8.bin --type q8
cmp q8.bin again.bin | sed 's/differ.*/differ/'
ls
# --type while loading: the same bits as the file, and a golden says what it was
try_status logits q4.bin --ids 1,2,3 -o golden
try_status verify model.bin golden --exact --type q4 --threads 3
try_status logits mixed.bin --ids 1,2,3 -o golden
try_status verify model.bin golden --exact --type q4 --keep 'layers.*.w_down=q8' --keep embed=f16 --keep 'layers.0.*=bf16'
try_status logits model.bin --ids 1,2,3 -o golden --type q8 --keep 'embed=f16'
grep -ao '"loaded_as": "[^"]*"' golden
try_status run model.bin --ids 1,2 -n 1 --keep embed=q8
try_status run q4.bin --ids 1,2 -n 1 --type q8
try_status run q4.bin --ids 1,2 -n 1 --type f32
