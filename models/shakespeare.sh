#!/usr/bin/env bash
# The recipe of shakespeare.bin: train it anew, and compare its validation loss with that of the model that ships.
#   models/shakespeare.sh TEXT [OUT]
# TEXT is "tiny Shakespeare", 1,115,394 bytes of public-domain plays: data/tinyshakespeare/input.txt of github.com/karpathy/char-rnn.
# Weights and tokenizer learn from its first 95%; the rest is for the comparison alone. Everything is written beside OUT
# (build/shakespeare/shakespeare.bin); Ctrl-C stops, and the same command goes on from there. Status 1: the new model is worse by over a percent.
# TBLOCK: the program; THREADS: as many as processors; STEPS: 2000. 20 minutes on two cores; bits depend on OpenBLAS's kernels (docs/train.md).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tblock=${TBLOCK:-$here/../build/release/tblock}
[ $# -ge 1 ] && [ -f "$1" ] || { echo "usage: models/shakespeare.sh TEXT [OUT]: expected a text file, found '${1:-}'" >&2; exit 2; }
text=$1 out=${2:-$here/../build/shakespeare/shakespeare.bin}
work=$(dirname "$out")
mkdir -p "$work"

if ! sha256sum "$text" | grep -q ^86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed; then
    echo "note: $text is not the text that the shipped model learned from" >&2
fi
held=$(($(stat -c %s "$text") / 20))
head -c -"$held" "$text" > "$work/learn.txt"
tail -c "$held" "$text" > "$work/held.txt"

resume=()
[ ! -e "$work/f32.bin.ckpt" ] || resume=(--resume)
"$tblock" train "$work/f32.bin" --text "$work/learn.txt" --config "$here/shakespeare.json" --vocab 1024 --steps "${STEPS:-2000}" \
    --batch 24 --ctx 256 --lr 2e-3 --min-lr 1e-4 --dropout 0.3 --weight-decay 0.3 --validation 0 --seed 1 \
    --threads "${THREADS:-0}" --plot "$work/loss.svg" "${resume[@]}"
"$tblock" quantize "$work/f32.bin" "$out" --type bf16 --quiet > "$work/quantize.txt"

# loss MODEL: nats a token (of its own tokens), bits a byte
loss() {
    "$tblock" eval "$1" "$work/held.txt" --ctx 256 --json > "$work/eval.json"
    sed -n 's/.*"nll": \([0-9.]*\),.*"bits_per_byte": \([0-9.]*\),.*/\1 \2/p' "$work/eval.json"
}
read -r shipped_nats shipped_bits < <(loss "$here/shakespeare.bin")
read -r new_nats new_bits < <(loss "$out")
printf '%-24s %9s %11s\n' "on the last $held bytes" bits/byte nats/token
printf '%-24s %9.4f %11.4f\n' 'shipped model' "$shipped_bits" "$shipped_nats" 'new model' "$new_bits" "$new_nats"
echo "$out"
# other kernels round otherwise, so that no two machines end at one number
awk "BEGIN { exit !($new_bits <= 1.01 * $shipped_bits) }" || { echo "the new model is worse than the one that ships" >&2; exit 1; }
