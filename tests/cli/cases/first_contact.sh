# Paths that are no model, or not all of one: the message says what was found and what to do next.
. "$CASES/try.bash"
run() { try run "$1" -p x; }

echo '# A text' > README.md
printf '<!DOCTYPE html><title>Log in</title>' > page.bin
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 4976698672\n' 1 > pointer.safetensors
cp pointer.safetensors pointer.gguf
for path in README.md page.bin pointer.safetensors pointer.gguf; do run "$path"; done
try info README.md
# a config, and what it is good for: ours and theirs
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}' > ours.json
cp "$DATA/models/llama-gqa/config.json" .
for config in ours.json config.json; do
    run $config
    tblock info $config > info && tblock synth $config -o random.bin --quiet && tblock info random.bin | grep -E '^  (vocabulary|width|attention .*heads)'
done

# names of the hub; of a folder that is there it is a path
for path in org/name https://huggingface.co/org/name-1.5B org/name/file org/name.gguf ./org/name /org/name org/; do run "$path"; done
mkdir org && run org/name

# folders
mkdir nothing bare ggufs cache cache/snapshots shards loose
cp config.json bare && : > bare/README.md
: > ggufs/b.gguf && : > ggufs/a.gguf
cp config.json shards
echo '{"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-3.safetensors"}}' > shards/model.safetensors.index.json
: > shards/m-2.safetensors
: > loose/model.safetensors
for path in nothing bare ggufs cache shards shards/config.json shards/model.safetensors.index.json loose; do run "$path"; done

# llama2.c: a tokenizer beside it, of as many tokens as the model has
word() { for n in "$@"; do printf "\\x$(printf %02x $((n & 255)))\\x$(printf %02x $((n >> 8)))\\0\\0"; done; }
tokenizer() { # the tokens after <unk>, <s> and </s>
    word 5
    for piece in '<unk>' '<s>' '</s>' "$@"; do word 0 ${#piece} && printf %s "$piece"; done
}
mkdir llama2c && cd llama2c || exit
{ word 8 16 1 2 2 6 16 && head -c $((4 * 776)) /dev/zero; } > stories.bin
cp stories.bin tokenless.bin
run stories.bin
try tokenize stories.bin --text ab
try chat stories.bin
try convert stories.bin -o out.bin
tokenizer a b > tokenizer.bin
run stories.bin
cp tokenizer.bin tokenizer.model && tokenizer a b c > tokenizer.bin
try tokenize stories.bin --text ab
try tokenize stories.bin --text ab --quiet
try run stories.bin --ids 1,2 -n 1 --temp 0
try convert stories.bin -o out.bin
tblock info out.bin | grep tokenizer
try convert stories.bin -o out.bin --no-tokenizer
tokenizer c b a > mine
try convert stories.bin -o out.bin --tokenizer mine
try tokenize out.bin --text c --no-bos
tokenizer a b > tokenizer.model && head -c 40 tokenizer.model > tokenizer.bin
run stories.bin
try convert stories.bin -o tokenizer.bin
# a tokenizer.bin that is none, or has a number that it cannot have: empty, the weights, longest piece -1, score NaN, length 65535
rm tokenizer.model && : > tokenizer.bin && run stories.bin
cp tokenless.bin tokenizer.bin && run stories.bin
{ printf '\xff\xff\xff\xff' && tokenizer a b c | tail -c +5; } > tokenizer.bin && run stories.bin
{ tokenizer a b && printf '\0\0\xc0\x7f' && word 1 && printf c; } > tokenizer.bin && run stories.bin
{ tokenizer a b && word 0 65535 && printf c; } > tokenizer.bin && run stories.bin

# a model without a chat format: all that there are
try chat "$MODELS/shakespeare.bin" | sed "s|$MODELS|MODELS|"
