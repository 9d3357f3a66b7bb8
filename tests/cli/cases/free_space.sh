# What will not fit is told before the work begins, with what is needed and what there is; a sparse file needs hardly any disk.
. "$CASES/try.bash"
numbers() { sed -E 's/needs (a file of )?[0-9.]+ [kMGTP]?B/needs \1N/; s/(only|is) [0-9.]+ [kMGTP]?B/\1 N/'; }
echo '{"d_model": 64, "n_layers": 2, "heads": 4, "d_ff": 128, "vocab_size": 300, "n_ctx": 64}' > config.json
# 900 TB
echo '{"d_model": 65536, "n_layers": 4000, "heads": 64, "d_ff": 262144, "vocab_size": 300, "n_ctx": 64}' > huge.json
tblock synth config.json -o model.bin
try synth huge.json -o huge.bin --type f32 | numbers
# the largest file that this shell may write
yes 'To be, or not to be.' | head -n 2000 > text.txt
(
    ulimit -f 100
    try synth config.json -o out.bin | numbers
    try synth config.json -o out.bin --sparse | numbers
    try convert "$DATA/models/llama-gqa" -o out.bin | sed 's|/.*/||' | numbers
    try quantize model.bin -o out.bin --type f32 | numbers
)
ls
# sparse: the whole size, hardly any disk, zeros but for the vectors
for type in f32 q8 q4; do
    try synth config.json -o sparse.bin --sparse --type $type
    [ $(($(stat -c '%b * %B' sparse.bin))) -lt $(($(stat -c %s sparse.bin) / 2)) ] && echo sparse
    tblock info sparse.bin --check | grep -E '^  (source|sha256|padding|weights  )'
    try run sparse.bin --ids 1,2 -n 3 --temp 0
done
try synth config.json -o /dev/null --sparse
# nobody reads it: opening it would wait
mkfifo fifo && try synth config.json -o fifo --sparse
tblock synth config.json --sparse --type f32 -o sparse.bin && tblock synth config.json --type f32 -o full.bin &&
    [ "$(stat -c %s sparse.bin)" -gt $(($(stat -c %s full.bin) - 4096)) ] && echo full size
