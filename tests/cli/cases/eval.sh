# eval: perplexity, KL divergence and multiple choice; the same numbers whatever the threads; what is refused.
. "$CASES/try.bash"
m=$MODELS/shakespeare.bin
ln -s "$m" model.bin
printf 'ROMEO:\nBut, soft! what light through yonder window breaks?\nIt is the east, and Juliet is the sun.\n' > text.txt
try eval model.bin text.txt
try eval model.bin text.txt --ctx 16 --stride 5 --json
tblock eval model.bin text.txt --ctx 16 --stride 5 --json > one
tblock eval model.bin --ctx 16 --stride 5 --json --threads 3 --isa scalar < text.txt | cmp - one && echo "the same numbers"
ids=$(tblock tokenize model.bin --file text.txt | tr '\n' ' ')
tblock eval model.bin --ids "$ids" --ctx 16 --stride 5 --json | sed 's/"bits_per_byte": null/X/; s/}//' > two
sed 's/"bits_per_byte": [0-9.]*/X/; s/}//' one | cmp - two && echo "ids are as good"
try eval model.bin text.txt --against model.bin
tblock eval model.bin text.txt --type q4 --against model.bin --json > q4
tblock quantize model.bin q4.bin --type q4 --quiet > quantized
tblock eval q4.bin text.txt --against model.bin --json --threads 2 | cmp - q4 && echo "the same numbers from a file"
grep -oE '"(mean_kl|top1|kl_50|log_ratio)": -?0\.[0-9]{2}' q4

head -n 2 "$DATA/questions.jsonl" > two.jsonl
try eval model.bin --choices two.jsonl --each
tblock eval model.bin --choices - --each --json < "$DATA/questions.jsonl" > choices
tblock eval model.bin --choices "$DATA/questions.jsonl" --each --json --threads 3 --isa scalar | cmp - choices && echo "the same scores"
grep -oE '"(questions|cut|accuracy|accuracy_norm)": [0-9.]+' choices
tblock eval model.bin --choices "$DATA/questions.jsonl" --ctx 24 --json 2> note | grep -oE '"cut": [0-9]+'
cat note

echo "---- too few for a standard error"
try eval model.bin --ids 5,6
try eval model.bin --ids 5,6 --json
try eval model.bin --ids 5,6 --against model.bin
head -n 1 two.jsonl > single.jsonl
try eval model.bin --choices single.jsonl
try eval model.bin --choices single.jsonl --json

echo "---- refused"
line() { echo "$1" > bad.jsonl; try eval model.bin --choices bad.jsonl; }
line '{"context": "a", "choices": ["b", "c"], "answer": 2}'
line '{"context": "a", "choices": ["b", "c"]}'
line '{"context": "a", "choices": ["b"], "answer": 0}'
line "{\"context\": \"a\", \"choices\": [$(printf '"b",%.0s' {1..1001})\"c\"], \"answer\": 0}"
line '{"context": "a", "choices": "b", "answer": 0}'
line '{"context": "a", "question": "a", "choices": ["b", "c"], "answer": 0}'
line '{"choices": ["b", "c"], "answer": 0}'
line '{"context": "a", "choices": ["b", ""], "answer": 0}'
line '{"context": "a", "choices": ["b", 3], "answer": 0}'
line '{"context": "", "choices": ["b", "c"], "answer": 0}'
line '["context"]'
line '{"context": '
line ''
try eval model.bin --choices none.jsonl
try eval model.bin --choices two.jsonl --ctx 2
try eval model.bin text.txt --choices two.jsonl
try eval model.bin text.txt --ids 1,2
try eval model.bin text.txt --each
try eval model.bin --choices two.jsonl --against model.bin
try eval model.bin text.txt --stride 300
try eval model.bin text.txt --ctx 1
try eval model.bin --ids 5
try eval model.bin --ids 5,1024
try eval model.bin none.txt
: > empty.txt
printf a > a.txt
try eval model.bin empty.txt
try eval model.bin a.txt
try eval model.bin < empty.txt
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 1000000}' > config.json
tblock synth config.json -o small.bin
try eval model.bin text.txt --against small.bin
try eval small.bin --choices two.jsonl
try eval small.bin text.txt

echo "---- interrupted"
set -m # else bash starts background programs with SIGINT ignored
tblock eval small.bin --ids "$(yes 1 | head -n 60000 | tr '\n' ' ')" --ctx 20000 --stride 1 --json > out 2> err &
until_working $!
kill -INT $!
wait $!
echo "[$?]"
grep -o '"interrupted": true' out
sed 's/first [0-9]* /first N /' err
