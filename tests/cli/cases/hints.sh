# What users of other programs type, and what is almost right: one line that says what to do here.
. "$CASES/try.bash"
ln -s "$MODELS/shakespeare.bin" text.bin
# options that only others have; a letter of ours before them is not read
for option in -hf -hfr --hf-repo -ngl --n-gpu-layers --gpu-layers=99 --flash-attn -i --interactive -cnv -no-cnv -st -sys -ctk --cache_type_v -b --batch-size \
    --no-mmap --model-url --response-format --stream; do
    try run text.bin $option 99
done
try serve text.bin --api-key secret
try run text.bin --n-gpu-layer 99
# names that are options here, beside the same ones there
echo ab | try tokenize text.bin --file - --no-bos
try bench text.bin -b 4
# MODEL: nothing there, but almost; a model of ollama or the Hub that is not here; an address
touch shakespear.txt zzz.gguf
for model in text.bni tex.bin text ./text.bn llama3.2 llama3.2:1b SmolLM2 hf.co/org/name:Q4_K_M https://example.com/model.gguf https://hf.co/org/name/resolve/main/a.gguf \
    nofolder/text.bin /nowhere/text.bin missing.bin abc; do
    try run $model text
done
try info text.bni
try tokenize text.bni --text a
# of equals the first in byte order, whatever the order of the folder
mkdir equals && touch equals/model-b.bin equals/model-a.bin equals/model-c.bin
try run equals/model-x.bin text
# a schema itself, where its file is expected
schema='{"type": "array", "items": {"enum": [1, 2]}, "minItems": 3, "maxItems": 3}'
echo "$schema" > schema.json
tblock run text.bin ROMEO: --json-schema schema.json > file.txt
for given in "$schema" " $schema"; do tblock run text.bin ROMEO: --json-schema "$given" | cmp - file.txt; done
tblock run text.bin ROMEO: --json-schema "$schema" --sandbox > boxed.txt 2> why
[ $? = 4 ] || cmp boxed.txt file.txt # 4: no sandbox here
try run text.bin ROMEO: --json-schema '{"type": "arry"}'
try run text.bin ROMEO: --json-schema '{"type'
try run text.bin ROMEO: --json-schema schema.jsn
# the name of a chat format
try chat text.bin --chat-format lama3
try chat text.bin --chat-format chat-ml
try chat text.bin --chat-format xyzzy
