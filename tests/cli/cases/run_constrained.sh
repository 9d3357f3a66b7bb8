# Texts fit their constraint, or a note says that they were cut.
# needs: $MODELS/shakespeare.bin
. "$CASES/try.bash"
ln -s "$MODELS/shakespeare.bin" model.bin
run() { tblock run model.bin --prompt ROMEO: --quiet "$@"; echo "|"; }
run --regex '[A-Z][a-z]{2,8}( [a-z]+){3}\.' --temp 0
cat > schema.json <<'END'
{"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
 "age": {"type": "integer", "minimum": 30, "maximum": 39}}, "required": ["name", "age"],
 "additionalProperties": false}
END
for seed in 1 2 3; do
    run --json-schema schema.json --seed $seed > one
    run --json-schema schema.json --seed $seed --threads 3 --draft ngram | cmp - one
    tr -d '\n|' < one | sed 's/["\\]/\\&/g; s/.*/"&"/' >> texts.jsonl
    echo >> texts.jsonl
done
try constrain --json-schema schema.json --jsonl texts.jsonl
printf 'root ::= "(" root? ")"\n' > nested.gbnf
run --grammar nested.gbnf --temp 0 -n 4 2>&1
tblock run model.bin --prompt ROMEO: --regex '[a-z ]{99}' -n 3 --temp 0 > /dev/null
run --regex 'yes' --json | grep -oE '"(text|stop_reason)": "[^"]*"'
echo Hello | tblock chat model.bin --chat-format alpaca --regex '(yes|no), [a-z]{3,5}' --temp 0; echo "|"
try run model.bin --prompt a --regex a --stop b
try run model.bin --prompt a --regex a --json-object
try run model.bin --prompt a --any-order
try run model.bin --prompt a --regex 'a(?=b)'
try chat model.bin --chat-format alpaca --grammar missing < /dev/null
