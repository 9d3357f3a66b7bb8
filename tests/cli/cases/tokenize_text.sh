# needs: $MODELS/shakespeare.bin
. "$CASES/try.bash"
ln -s "$MODELS/shakespeare.bin" model.bin
try tokenize model.bin --text 'ROMEO: what light'
try tokenize model.bin --text 'ROMEO: what light' --pieces
try tokenize model.bin --text 'a "é" \' --pieces --json
try tokenize model.bin --text ''
try tokenize model.bin --text '' --json
try tokenize model.bin --text '' --pieces
printf 'ROMEO:' > text
try tokenize model.bin --file text
try tokenize model.bin --file - < text
try tokenize model.bin < text
try tokenize model.bin --ids 834,58
try tokenize model.bin --ids ''
try tokenize model.bin --ids 834,58 --json
try tokenize model.bin --ids '834 58' --pieces
try tokenize model.bin --ids 32,195 --json
try tokenize model.bin --ids 99999
try tokenize model.bin --ids 99999 --pieces
try tokenize model.bin --text '<|endoftext|>' --no-bos
try tokenize model.bin --file missing
try tokenize model.bin --jsonl missing
printf '{"text": "a\\u0000b"}\n{"bytes_hex": "ff00"}\n\n{"text": "x"}\n' > bad.jsonl
try tokenize model.bin --jsonl bad.jsonl
printf '{"text": "ROMEO:", "mode": "special"}\r\n{"ids": [834, 58]}' > good.jsonl
try tokenize model.bin --jsonl good.jsonl
try tokenize model.bin --jsonl - < good.jsonl
printf '{"text": "ok"}\n{"txt": 1}\n' | try tokenize model.bin --jsonl -
head -c 200000 "$MODELS/shakespeare.bin" > bytes # any bytes survive the round
tblock tokenize model.bin --file bytes > ids
ids=$(head -c 100000 ids | sed 's/ [0-9]*$//')
tblock tokenize model.bin --ids "$ids" > back
cmp back <(head -c "$(stat -c %s back)" bytes) && [ -s back ] && echo "the same bytes"
echo 'of standard input' | tblock tokenize "$MODELS/shakespeare.bin" --file /dev/fd/no 2>&1; echo "[$?]"
echo 'of standard input' | tblock tokenize "$MODELS/shakespeare.bin" --file /dev/fd/0 > there; echo 'of standard input' | tblock tokenize "$MODELS/shakespeare.bin" | cmp - there
