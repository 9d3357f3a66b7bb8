#!/usr/bin/env bash
# 300 random command lines for each command, the same each time: whatever is said, the status is 0 to 4, and an error is one
# line. Values are drawn from a pool of good and bad ones; models are tiny or broken, so that nothing takes long.
#   random_options.sh [--soak] [SEED]
set -u
cd "$(dirname "$0")/../.." || exit 4
TBLOCK=${TBLOCK:-$PWD/${BUILD:-build/release}/tblock}
[[ $TBLOCK = /* ]] || TBLOCK=$PWD/$TBLOCK
if [ ! -x "$TBLOCK" ]; then
    echo "FAIL random_options: $TBLOCK is not built"
    exit 1
fi
shipped=$PWD/models/shakespeare.bin
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cd "$work" || exit 4
lines=300
if [ "${1:-}" = --soak ]; then # 10,000 in all, and of another seed each time
    shift
    lines=750
    set -- "${1:-$RANDOM}"
    echo "seed $1"
fi
state=${1:-20240607}
ulimit -t 20 # of computing for each run: nothing here waits, so what hangs is killed

mkdir folder
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}' > config.json
"$TBLOCK" synth config.json -o tiny.bin || { echo "FAIL random_options: synth"; exit 1; }
"$TBLOCK" logits tiny.bin --ids 1,2,3 -o golden || { echo "FAIL random_options: logits"; exit 1; }
if [ -e "$shipped" ]; then ln -s "$shipped" text.bin; else ln -s tiny.bin text.bin; fi
printf '{"text": "a"}\n{"ids": [1]}\n' > lines.jsonl
head -c 5000 tiny.bin > cut.bin
chmod a-w tiny.bin config.json golden lines.jsonl cut.bin

files=(tiny.bin tiny.bin tiny.bin text.bin text.bin config.json golden lines.jsonl cut.bin folder missing - '' /dev/null)
values=(bash zhs 0 1 2 3 5 0.5 1e-3 -1 nan inf 1e999 99999999999999999999 0x10 random auto f32 f16 bf16 q8 q4 'embed=q8' 'layers.*=f16' scalar avx2 neon '' ' ' a ROMEO:
    $'\xff\xfe' 'two words' --temp -n -- '%s%n' 1,2,3 '1 2' 1,,2 39,40 ,)
options=(--prompt --prompt-file --ids --no-bos --special --predict --stop --echo --json --stats --trace --temp --top-k --top-p
    --min-p --repeat-penalty --seed --ctx --isa --math --kv-type --mlock --huge-pages --quiet --help --version --exact --layer --head --format --stride --against --choices --delimiter --each
    --tol --greedy --junit --man --last --hidden --output --text --file --jsonl --pieces --type --tensors --keep -n -c -p -f -s -o -q -h -n3 -qn2
    -c9 -Z --tmep --predict=2 --temp=0 --ids=1,2 --seed=random --quiet=1 -- --= ---)

draw() { # DRAW-LIMIT: sets $drawn to 0 .. limit - 1
    state=$(((state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff))
    drawn=$(((state >> 33) % $1))
}
pick() { # NAME OF ARRAY: sets $picked
    local -n list=$1
    draw ${#list[@]}
    picked=${list[drawn]}
}
make_line() { # sets line
    local n
    line=("$1")
    draw 8
    if [ "$drawn" -gt 0 ]; then pick files; line+=("$picked"); fi
    if [ "$1" = verify ]; then pick files; line+=("$picked"); fi
    if [ "$1" = quantize ]; then line+=(out0 --type=q4); fi
    if [ "$1" = bench ]; then line+=(--read-mb=1 --repeats=1 --seconds=0); fi
    draw 7
    for ((n = drawn; n > 0; n--)); do
        pick options
        line+=("$picked")
        case $picked in
        --predict | -n | --ctx | -c) draw 10; line+=("$drawn") ;; # a short run
        --trace | --junit | --output | -o) draw 3; line+=("out$drawn") ;;   # files of its own
        --*=* | --no-bos | --special | --echo | --json | --stats) ;;
        *) draw 4; if [ "$drawn" -gt 0 ]; then pick values; line+=("$picked"); fi ;;
        esac
    done
}

failed=0
for command in run grad convert chat info tokenize logits verify eval attn block synth quantize bench completions help; do
    bad=0 good=0 n_lines=$lines
    if [ $command = bench ]; then n_lines=$((lines / 6)); fi # those that are right take a second
    for ((i = 0; i < n_lines; i++)); do
        make_line $command
        "$TBLOCK" "${line[@]}" < lines.jsonl > out 2> err
        status=$?
        [ $status -eq 0 ] && good=$((good + 1))
        said=
        if [ $status -ne 0 ]; then IFS= read -r -d '' said < err; fi
        if [ $status -gt 4 ] || { [ $status -ge 1 ] && [[ $said != *'tblock: '* ]]; }; then
            bad=$((bad + 1))
            [ $bad -gt 3 ] || { printf '%q ' "${line[@]}"; printf ': status %s: %s\n' $status "$said"; } >&2
        fi
    done
    if [ $bad -gt 0 ]; then
        echo "FAIL $command: $bad of $n_lines random lines"
        failed=1
    elif [ $good -eq 0 ]; then
        echo "FAIL $command: not one of $n_lines random lines did anything"
        failed=1
    else
        echo "ok random_lines_of_$command"
    fi
done
exit $failed
