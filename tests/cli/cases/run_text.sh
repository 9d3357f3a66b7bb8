# needs: $MODELS/shakespeare.bin
. "$CASES/try.bash"
m=$MODELS/shakespeare.bin
ln -s "$m" model.bin
m=model.bin
try run $m --prompt ROMEO: -n 40
try run $m --prompt ROMEO: -n 40 --seed 1
try run $m --prompt ROMEO: -n 40 --temp 0
try run $m --prompt ROMEO: -n 40 --temp 0 --repeat-penalty 1.3
try run $m --prompt ROMEO: -n 40 --top-k 1 --echo
printf 'ROMEO:' > prompt
try run $m --prompt-file prompt -n 10 --temp 0
try run $m --prompt-file - -n 10 --temp 0 < prompt
try run $m -n 10 --temp 0 < prompt
try run $m --ids 834,58 -n 10 --temp 0 --echo
try run $m --prompt '' -n 10 # from the BOS alone
try run $m --ids 0 -n 10
try run $m --prompt '' -n 10 --no-bos
try run $m --ids 1024
try run $m --prompt-file missing
try run $m --prompt-file .
printf 'caf\xc3' > half # bytes that are not UTF-8 are a text too
try run $m --prompt-file half -n 0
try_status run $m --prompt ROMEO: -n 1 --seed random | sed 's/seed [0-9][0-9]*/seed N/'
try_status run $m --prompt ROMEO: -n 1 --seed random --quiet
seed=$(tblock run $m --prompt ROMEO: -n 30 --seed random 2>&1 > a | grep -oE '[0-9]+')
tblock run $m --prompt ROMEO: -n 30 --seed "$seed" | cmp a - && echo "the seed it prints gives the same text"
long=$(head -c 2000 /dev/zero | tr '\0' x)
try run $m --prompt "$long" | tail -n +2
try_status run $m --prompt ROMEO: --temp 0
try run $m --prompt ROMEO: -n 3 --temp 0 --trace trace
cat trace
echo "--- threads and instruction sets: the same last logits"
for how in '--threads 1' '--threads 3' '--threads 2 --affinity cores' '--isa scalar' '--isa auto --mlock' '--pages huge' '--pages file'; do
    tblock run $m --prompt ROMEO: -n 30 --stats $how 2>&1 > /dev/null | grep -o 'logits.*'
done | uniq -c | sed 's/ *//'
