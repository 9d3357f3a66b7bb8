# needs: $MODELS/shakespeare.bin
exec 2>&1
# What a terminal would obey or turn round (C1 controls, marks of direction) comes from files, names and options escaped.
. "$CASES/try.bash"
csi=$'\u009b31m' turn=$'\u202e' mark=$'\u061c\u200e\u200f' close=$'\u2069'
cat > tokenizer.json <<END
{"model": {"type": "BPE", "vocab": {"$csi": 0, "$turn": 1, "a": 2, "é": 3, "${mark}": 4}, "merges": []},
 "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": false},
 "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": false},
 "added_tokens": [{"id": 0, "content": "$csi", "special": false}, {"id": 1, "content": "$turn", "special": false},
                  {"id": 4, "content": "$mark", "special": false}]}
END
ln -s "$MODELS/shakespeare.bin" model.bin
echo "{\"d_model\": 64, \"n_layers\": 1, \"heads\": 4, \"d_ff\": 128, \"vocab_size\": 256, \"family\": \"a$turn$csi$close\"}" > config.json
echo "{\"$turn\": 1, \"d_model\": \"$csi\"}" > "$mark.json"
tblock tokenize tokenizer.json --text "a$csi$turn${mark}é" --pieces; echo "[$?]"
tblock tokenize tokenizer.json --text "a$csi$turn${mark}é" --pieces --json; echo "[$?]"
tblock tokenize tokenizer.json --ids '0 1 4' --json; echo "[$?]"
tblock tokenize tokenizer.json --ids '0 1 4' | od -An -tx1  # the text itself stays byte for byte
tblock tokenize tokenizer.json --file "$turn"; echo "[$?]"
tblock info config.json | head -n 6; echo "[$?]"
tblock info "$mark.json"; echo "[$?]"
tblock run model.bin "--$csi$turn"; echo "[$?]"
tblock synth config.json -o "$turn.bin" -q && tblock info "$turn.bin" | head -n 1
tblock run "$turn.bin" --ids 1 -n 1 --stats 2>&1 > /dev/null | grep -o 'ms: .*bf16'
tblock logits "$turn.bin" --ids 1,2 -o "golden$csi" && tblock verify "$turn.bin" "golden$csi" | tail -n 1 | cut -d " " -f 1-5
tblock info config.json --html page.html > /dev/null; grep -c -e "$csi" -e "$turn" -e "$close" page.html
true
