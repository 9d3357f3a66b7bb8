#!/usr/bin/env bash
# The completions in the shells themselves: lines with tabs are typed into an interactive bash and zsh (script(1) gives them
# a terminal), fish is asked by complete -C. Shells that are not here are skipped.
set -u
cd "$(dirname "$0")/../.." || exit 4
TBLOCK=${TBLOCK:-$PWD/${BUILD:-build/release}/tblock}
[[ $TBLOCK = /* ]] || TBLOCK=$PWD/$TBLOCK
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
mkdir "$work/folder" && cd "$work/folder" || exit 4
touch 'model file.bin' other.json
failed=0

# check NAME EXPECTED FOUND
check() {
    if [ "$2" = "$3" ]; then echo "ok $1"; return; fi
    echo "FAIL $1: see the difference on standard error"
    diff <(echo "$2") <(echo "$3") >&2
    failed=1
}

# typed into bash and zsh; the function below prints what arrives
typed='tblock synt\t--typ\tbf\tmod\t
tblock run --isa=avx5\t --trace=oth\t
tblock verify other.json mod\t--exa\t
tblock help verif\t
tblock completions zs\t
tblock run --temp oth\t'
expected='<synth><--type><bf16><model file.bin>
<run><--isa=avx512><--trace=other.json>
<verify><other.json><model file.bin><--exact>
<help><verify>
<completions><zsh>
<run><--temp><oth>'
answer="tblock() { printf '<%s>' \"\$@\"; echo; }"

export HOME=$work INPUTRC=/dev/null HISTFILE= # the user's own settings stay outside, and get no history
unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME
terminal() { script -qec true /dev/null > /dev/null 2>&1; }

# type_into SHELL-COMMAND FIRST-LINE: the lines that the function printed
type_into() {
    printf "PS1=; %s\n$typed\nexit\n" "$2; $answer" | timeout 300 script -qec "$1" /dev/null | tr -d '\r' |
        grep -ao '<[a-z]*>\(<[^>]*>\)*$'
}

"$TBLOCK" completions bash > bash.sh && "$TBLOCK" completions zsh > zsh.sh && "$TBLOCK" completions fish > fish.sh || exit 4
mv ./*.sh ..
if ! terminal; then
    echo "skip bash_completes: no script(1), or no pseudo-terminals here"
else
    check bash_completes "$expected" "$(type_into 'bash --noprofile --norc -i' 'source ../bash.sh')"
fi
if ! terminal || ! command -v zsh > /dev/null; then
    echo "skip zsh_completes: no zsh, no script(1), or no pseudo-terminals here"
else # zsh joins --type and its value by =
    check zsh_completes "${expected/<--type><bf16>/<--type=bf16>}" \
        "$(type_into 'zsh -f -i' 'autoload -Uz compinit; compinit -u -D; source ../zsh.sh')"
    mkdir ../functions && mv ../zsh.sh ../functions/_tblock
    check zsh_finds_it_in_fpath "${expected/<--type><bf16>/<--type=bf16>}" \
        "$(type_into 'zsh -f -i' 'fpath+=(../functions); autoload -Uz compinit; compinit -u -D')"
fi

if ! command -v fish > /dev/null; then
    echo "skip fish_completes: no fish"
else
    said=$(fish --no-config -c 'source ../fish.sh
        for line in "tblock synt" "tblock synth --typ" "tblock synth --type b" "tblock synth mod" "tblock synth -o oth" \
            "tblock run --isa=avx5" "tblock help verif" "tblock completions " "tblock run --seed " "tblock run --temp "
            echo "$line:" (complete -C "$line" | cut -f 1)
        end')
    check fish_completes 'tblock synt: synth
tblock synth --typ: --type
tblock synth --type b: bf16
tblock synth mod: model file.bin
tblock synth -o oth: other.json
tblock run --isa=avx5: --isa=avx512 --isa=avx512bf16 --isa=avx512vnni
tblock help verif: verify
tblock completions : bash fish zsh
tblock run --seed : random
tblock run --temp :' "$said"
fi

# every command and every long option of its help is in each script
missing=
for command in $("$TBLOCK" help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    for name in $("$TBLOCK" help "$command" | grep -o '^  .... --[a-z-]*' | sed 's/.*--//'); do
        for script in ../bash.sh ../functions/_tblock ../zsh.sh ../fish.sh; do
            [ ! -e "$script" ] || grep -qe "--$name\b" -e "-l $name\b" "$script" || missing="$missing $script:$command:$name"
        done
    done
done
check every_option_is_in_every_script "" "$missing"

page=../tblock.1
"$TBLOCK" help --man > $page
if command -v mandoc > /dev/null; then # the date is left out: the page is to depend on the program alone
    check manual_page_pleases_mandoc "" "$(mandoc -Tlint -W warning $page | grep -v 'missing date')"
else
    echo "skip manual_page_pleases_mandoc: no mandoc"
fi
if command -v groff > /dev/null; then
    check manual_page_pleases_groff "" "$(groff -ww -man -Tascii $page 2>&1 > ../page.txt)"
    check examples_can_be_copied_from_it "1" "$(sed 's/.\x08//g; s/\x1b\[[0-9;]*m//g' ../page.txt | grep -cF "tblock run models/shakespeare.bin 'ROMEO:' --seed random")"
else
    echo "skip manual_page_pleases_groff: no groff"
fi
exit $failed
