# needs: $MODELS/shakespeare.bin
. "$CASES/try.bash"
ln -s "$MODELS/shakespeare.bin" model.bin
printf '"12:30"\n"12:3"\n"\\u0031\\u0032:00"\r\n""\n' > texts.jsonl
try constrain --regex '\d{2}:\d{2}' --jsonl texts.jsonl
try constrain model.bin --regex '\d{2}:\d{2}' --jsonl texts.jsonl
try constrain --regex '(\d{2}:\d{2})?' --jsonl - < texts.jsonl
printf 'root ::= "(" root* ")" # nested\n' > nested.gbnf
printf '"((())())"\n"(()"\n"())"\n' > nested.jsonl
try constrain --grammar nested.gbnf --jsonl nested.jsonl
try constrain model.bin --grammar nested.gbnf --jsonl nested.jsonl
tblock constrain model.bin --grammar nested.gbnf --jsonl nested.jsonl --stats 2>&1 > /dev/null | sed 's/ [0-9][0-9.]*/ N/'
try constrain --regex 'a(?=b)' --jsonl texts.jsonl
try constrain --regex '(a)\1' --jsonl texts.jsonl
try constrain --regex 'a$b' --jsonl texts.jsonl
printf 'root ::= "a" |\n  ws\n' > undefined.gbnf
try constrain --grammar undefined.gbnf --jsonl texts.jsonl
printf 'root ::= "a" ws\nws ::= " " ws\n' > empty.gbnf
try constrain --grammar empty.gbnf --jsonl texts.jsonl
cat > schema.json <<'END'
{"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}, "next": {"$ref": "#"},
 "at": {"type": "string", "format": "moment"}}, "required": ["n"], "additionalProperties": false}
END
cat > json.jsonl <<'END'
"{\"n\":3,\"next\":{\"n\": 12}}"
"{\"n\":2}"
"{\"next\": {\"n\":5}, \"n\": 7}"
END
try constrain --json-schema schema.json --jsonl json.jsonl
try constrain model.bin --json-schema schema.json --any-order --jsonl json.jsonl
try constrain --json-object --jsonl json.jsonl
printf '{"properties": {"a": {"unevaluatedItems": false}}}' | try constrain --json-schema - --jsonl json.jsonl
try constrain --json-object --any-order --jsonl json.jsonl
try constrain --grammar missing --jsonl texts.jsonl
try constrain --regex a --grammar nested.gbnf --jsonl texts.jsonl
try constrain --jsonl texts.jsonl
try constrain --regex a
printf '"a"\n12\n' | try constrain --regex a --jsonl -
