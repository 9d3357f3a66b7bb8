# block: the steps of each kind of block, exit statuses, and what is wrong is named. Numbers are compared by tests/train/blocks.py.
# needs: $(openblas)
. "$CASES/try.bash"
exec 2>&1
steps() { # formulas and shapes, without the numbers that may round otherwise on another processor
    printf '$ tblock block %s\n' "$*"
    tblock block "$@" --stack 0 | sed -n '1,/^residual/p' | cut -c1-56 | sed 's/ *$//' | grep -v '^residual'
}
steps
steps --placement post --norm layer --ffn gelu --bias --no-rope --non-causal
steps --placement both --heads 8 --kv-heads 1 --window 4 --ffn geglu --batch 1 --length 5
steps --placement output --ffn relu --d-model 20 --heads 2 --head-dim 8 --d-ff 30
echo '{"d_model": 16, "n_layers": 3, "heads": 4, "kv_heads": 2, "d_ff": 32, "vocab_size": 40, "window": 3, "qk_norm": "head"}' > config.json
steps config.json --layer 2 --length 3
tblock block | grep -E '^    (after|x  |\(each)' | cut -c1-20
tblock block --grad-check --json | grep -c '"gradient_check"'
try block --quiet --seed 3 -o a.safetensors --threads 1
try block --quiet --seed 3 -o b.safetensors --threads 2
cmp a.safetensors b.safetensors
tblock block --quiet | sed -n 1p
tail -c +9 a.safetensors | tr ',{' '\n\n' | grep -aoE '^"(y|attn|dx|grad[^"]*)"' | tr '\n' ' '; echo
tblock synth config.json -o model.bin --seed 1
try_status block model.bin --layer 1 --stack 9
tblock block model.bin --layer 1 --stack 9 | grep 'layers 1'

tblock block --d-model 8 --heads 2 --places 100000 --grad-check --batch 1 --length 2 --stack 0 | grep -E '^ +(x|wq|w_up) +[0-9]+  '| cut -c1-33
echo "---- refused"
rm -f ./*.safetensors
try block --heads 5
try block --heads 4 --kv-heads 3
try block --d-model 0 --head-dim 7
try block --norm batch
try block --window -2
try block --eps 0
try block --length 2000000
try block --length 1000000 --batch 2
try block --length 60000 --batch 1 -o out.safetensors
try block --d-model 4096 --grad-check --length 512
try block missing.json
try block config.json --layer 3
try block model.bin --ffn gelu --d-ff 64
try block model.bin --placement both
try block model.bin --d-model 32
try block model.bin --kv-heads 3
try block config.json --kv-heads 3
try block --d-ff 4194305
try block --layer 1
try block --no-rope --theta 100
try block model.bin --tensors model.bin
try block --tensors missing.safetensors
try block -o nowhere/out.safetensors
try block model.bin -o model.bin
echo '{"n_heads": 4, "norm_first": true}' > case.json
try block case.json
echo '{"d_model": 8, "n_heads": 3, "d_ff": 4, "norm": "rmsnorm", "norm_first": true, "ffn": "gelu"}' > case.json
try block case.json
try block case.json --layer 1
echo '{"n_heads": 4, ' > case.json
try block case.json
echo '{"d_model": 16, "n_layers": 1, "heads": 4, "d_ff": 32, "vocab_size": 40, "n_experts": 4, "experts_used": 2, "expert_d_ff": 8}' > moe.json
try block moe.json
tblock block > /dev/full; echo "[$?]"
ls -A
