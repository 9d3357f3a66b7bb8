#!/usr/bin/env bash
# 300 random command lines for each command, the same each time: whatever is said, it ends soon, the status is 0 to 4 (audit: to 5), and an error is
# one line: "tblock: ...", without control characters; before it there are notes at most, and with --quiet nothing. Options are those
# that help tells of the command, mostly with a value of the kind that they ask for, and some of other commands; files and values are
# drawn from pools of good and bad ones; models are tiny or broken, so that nothing takes long.
#   random_options.sh [--soak] [SEED]
set -u
export LC_ALL=C HF_HUB_OFFLINE=1 # pull asks nobody
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
cpu_seconds=20 patience=600 # for each run; one that takes longer ends with SIGXCPU, or status 124 where it waits

mkdir folder
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}' > config.json
"$TBLOCK" synth config.json -o tiny.bin || { echo "FAIL random_options: synth"; exit 1; }
"$TBLOCK" logits tiny.bin --ids 1,2,3 -o golden || { echo "FAIL random_options: logits"; exit 1; }
"$TBLOCK" run tiny.bin --ids 1,2,3 -n 2 --save-state state > out || { echo "FAIL random_options: run"; exit 1; }
echo '{"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 260, "n_ctx": 32}' > train.json
for i in {1..40}; do echo "To be, or not to be, that is the question $i."; done > text.txt
if [ -e "$shipped" ]; then ln -s "$shipped" text.bin; else ln -s tiny.bin text.bin; fi
echo '{"prompt": [1, 2], "drawn": [3, 4, 5, 6]}' > texts.jsonl
printf '{"text": "a"}\n{"ids": [1]}\n' > lines.jsonl
head -c 5000 tiny.bin > cut.bin
cp -r . ../"${work##*/}".kept && trap 'rm -rf "$work" "$work.kept"' EXIT
chmod a-w tiny.bin config.json train.json golden state lines.jsonl text.txt cut.bin

files=(tiny.bin tiny.bin tiny.bin text.bin text.bin config.json golden state text.txt lines.jsonl cut.bin folder missing - '' /dev/null)
values=(bash zhs 0 1 2 3 5 0.5 1e-3 -1 nan inf 1e999 99999999999999999999 0x10 random auto f32 f16 bf16 q8 q4 'embed=q8' 'layers.*=f16' scalar avx2 neon '' ' ' a ROMEO:
    $'\xff\xfe' 'two words' --temp -n -- '%s%n' 1,2,3 '1 2' 1,,2 39,40 ,)
strange=(-Z --tmep --predict=2 --temp=0 --ids=1,2 --seed=random --quiet=1 --threads=2 --sandbox --sandbox=1 --man --stats -n3 -qn2 -c9 -o -h -- --= ---)

# Sets own to the options of a command with the kind of their value, such as "--temp F". Left out: what bench gets below.
read_options() {
    mapfile -t own < <("$TBLOCK" help "$1" | sed -nE 's/^ {2,6}(-[a-z], )?(--[a-z-]+)( [^ ]+)?( .*)?$/\2\3/p' | grep -vE '^--(seconds|read-mb|repeats) ')
}

draw() { # DRAW-LIMIT: sets $drawn to 0 .. limit - 1
    state=$(((state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff))
    drawn=$(((state >> 33) % $1))
}
pick() { # NAME OF ARRAY: sets $picked
    local -n list=$1
    draw ${#list[@]}
    picked=${list[drawn]}
}
add_value() { # OPTION KIND: adds a value to line, mostly one that is right
    draw 6
    if [ "$drawn" -eq 0 ]; then pick values; line+=("$picked"); return; fi
    case $1 in
    --trace | --junit | --output | --receipt | --save-state | --csv | --svg | --html | --plot) draw 3; line+=("out$drawn"); return ;; # files of its own
    --load-state) line+=(state); return ;;
    esac
    case $2 in
    FILE | MODEL | PARENT) pick files; line+=("$picked") ;;
    "N|random") draw 3; line+=("$drawn") ;;
    PATTERN=TYPE) pick keeps; line+=("$picked") ;;
    F,F) draw 10; line+=("0.9,0.$drawn") ;;
    *"|"*) IFS='|' read -ra choices <<< "$2"; pick choices; line+=("$picked") ;;
    N | X) draw 6; line+=("$drawn") ;;
    F) draw 10; line+=("0.$drawn") ;;
    IDS | LIST) draw 40; line+=("$drawn,1") ;;
    *) pick values; line+=("$picked") ;;
    esac
}
add_option() {
    local name kind
    draw 5
    if [ "$drawn" -eq 0 ] || [ ${#own[@]} -eq 0 ]; then
        pick strange
        line+=("$picked")
    else
        pick own
        read -r name kind <<< "$picked"
        line+=("$name")
        if [ -n "$kind" ]; then add_value "$name" "$kind"; fi
    fi
}
make_line() { # sets line, quiet
    local n
    line=("$1")
    draw 2
    quiet=$drawn
    if [ "$quiet" -eq 1 ]; then line+=(--quiet); fi
    case $1 in
    train) draw 3; line+=("out$drawn" --text text.txt --config train.json --steps 2 --batch 2 --ctx 8 --threads 1) ;;
    help | completions) draw 3; if [ "$drawn" -gt 0 ]; then pick words; line+=("$picked"); fi ;;
    *) draw 8; if [ "$drawn" -gt 0 ]; then pick files; line+=("$picked"); fi ;;
    esac
    case $1 in
    verify) pick files; line+=("$picked") ;;
    quantize) line+=(out0 --type=q4) ;;
    audit) draw 4; if [ "$drawn" -gt 0 ]; then line+=(--tokens texts.jsonl); fi ;;
    bench) line+=(--read-mb=1 --repeats=1 --seconds=0) ;;
    run | chat) draw 8; if [ "$drawn" -gt 0 ]; then line+=(-n "$drawn"); fi ;; # a short run
    synth | convert | logits | attn) draw 4; if [ "$drawn" -lt 3 ]; then line+=(-o "out$drawn"); fi ;;
    esac
    draw 7
    for ((n = drawn; n > 0; n--)); do add_option; done
}
keeps=('embed=q8' 'layers.*=f16' 'wq=q4' '*=bf16')
words=(bash zsh fish zhs run train help verify nothing '')

# Is what it said on standard error (in said) right for its status? --stats and the progress of training are told there too.
is_right() {
    local rest=${said%$'\n'} last
    [ $status -eq 0 ] && return 0
    last=${rest##*$'\n'}
    [ $status -le "$([ "$command" = audit ] && echo 5 || echo 4)" ] && [[ $said = *$'\n' && $last = 'tblock: '?* && ${said//$'\n'/} != *[[:cntrl:]]* ]] || return 1
    if [ $quiet -eq 1 ] && [[ " ${line[*]} " != *' --stats '* ]]; then [ "$rest" = "$last" ]; return; fi
    [[ $command = train || " ${line[*]} " = *' --stats '* ]] || ! grep -qv '^tblock: ' err
}

failed=0
for command in run grad convert chat info tokenize logits verify audit eval attn block train synth quantize bench completions help; do
    bad=0 good=0 n_lines=$lines
    if [ $command = bench ]; then n_lines=$((lines / 6)); fi # those that are right take a second
    read_options $command
    if [ ${#own[@]} -lt 2 ]; then echo "FAIL $command: help tells of ${#own[@]} options"; failed=1; continue; fi
    for ((i = 0; i < n_lines; i++)); do
        make_line $command
        (ulimit -t $cpu_seconds; exec timeout $patience "$TBLOCK" "${line[@]}") < lines.jsonl > out 2> err
        status=$?
        [ $status -eq 0 ] && good=$((good + 1))
        IFS= read -r -d '' said < err
        if ! is_right; then
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
    for file in tiny.bin config.json train.json golden state lines.jsonl text.txt cut.bin; do
        if ! cmp -s $file "$work.kept/$file"; then echo "FAIL $command: changed $file, which it read"; failed=1; fi
    done
done
exit $failed
