# Text comes as it is made, and jsonl answers as it is asked: a reader that waits for each gets it.
# needs: $MODELS/shakespeare.bin
coproc tblock tokenize "$MODELS/shakespeare.bin" --jsonl -
exec {in}>&"${COPROC[1]}" {out}<&"${COPROC[0]}" {COPROC[1]}>&-
for text in ROMEO: '' 'what light'; do
    echo "{\"text\": \"$text\"}" >&"$in"
    read -r -t 300 answer <&"$out" && echo "$answer"
done
printf '{"ids": [834, 58]}' >&"$in" # a last line without its newline
exec {in}>&-
read -r -t 300 answer <&"$out" && echo "$answer"

mkfifo pipe
tblock run "$MODELS/shakespeare.bin" --prompt ROMEO: --ctx 1000000 -n 1000000 --quiet > pipe & # would take very long
IFS= read -r -t 300 -N 5 text < pipe && echo "${#text} characters long before the end"
wait $!
echo "[$?]"
