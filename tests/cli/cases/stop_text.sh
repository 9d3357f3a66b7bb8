# A stop text ends the text before its first appearance, wherever the tokens' borders are.
# needs: $MODELS/shakespeare.bin
run() { tblock run "$MODELS/shakespeare.bin" --prompt ROMEO: -n 60 --seed 3 --quiet "$@"; }
text=$(run; echo .)
text=${text%.}
bad=0 tried=0
for length in 1 2 3 5 9 17; do
    for ((at = 0; at + length <= ${#text}; at += 7)); do
        stop=${text:at:length}
        run --stop 'never in it' --stop "$stop" > out
        printf %s "${text%%"$stop"*}" | cmp -s - out || { echo "--stop $(printf %q "$stop")"; bad=$((bad + 1)); }
        tried=$((tried + 1))
    done
done
echo "$bad wrong"
[ $tried -gt 50 ] || echo "only $tried tried"
run --stop "${text: -30}" | cmp - <(printf %s "${text::-30}") && echo "at the very end"
run --stop "${text: -8}x" | cmp - <(printf %s "$text") && echo "what was held back is printed at the end"
run --stop ". " --stop "," --json | grep -oE '"(text|stop_reason)": "[^"]*"'
