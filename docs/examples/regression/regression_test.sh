#!/usr/bin/env bash
# A regression test for a repository that uses a model: are its logits still those that were recorded?
#   regression_test.sh            run; status 0: the same, 1: something changed
#   regression_test.sh --record   record anew (read what changed first, then commit the files)
# MODEL: the model file; GOLDEN: the folder of recorded answers; TBLOCK: the program. One golden file for each line of prompts.txt.
# As a part of tblock's own tests it runs on the shipped model and records into a folder that it removes.
set -u
here=$(cd "$(dirname "$0")" && pwd)
TBLOCK=${TBLOCK:-tblock} MODEL=${MODEL:-$here/../../../models/shakespeare.bin}
golden=${GOLDEN:-} status=0

record() {
    local n=0 prompt
    while IFS= read -r prompt; do
        n=$((n + 1))
        # --hidden: so that a failure names the layer. Leave it out where the files become too large for a repository.
        "$TBLOCK" logits "$MODEL" --prompt "$prompt" --hidden -o "$golden/prompt$n.safetensors" || exit
    done < "$here/prompts.txt"
}

# NAME OPTION...: every golden file, by one rule
check() {
    local name=$1 file why
    shift
    for file in "$golden"/*.safetensors; do
        if why=$("$TBLOCK" verify "$MODEL" "$file" --quiet --junit "$golden/$name.$(basename "$file" .safetensors).xml" "$@" 2>&1 > /dev/null); then
            echo "ok ${name}_$(basename "$file" .safetensors)"
        else
            echo "FAIL ${name}_$(basename "$file" .safetensors): ${why//$'\n'/; }" # what differs, or why nothing was compared
            status=1
        fi
    done
}

if [ -z "$golden" ]; then
    golden=$(mktemp -d) && trap 'rm -rf "$golden"' EXIT
    record
elif [ "${1:-}" = --record ]; then
    mkdir -p "$golden" && record
    exit
fi
if ! compgen -G "$golden/*.safetensors" > /dev/null; then
    echo "FAIL goldens: $golden: expected a folder with *.safetensors, found none: --record first"
    exit 1
fi
# the same bits, on any machine: a change of the model file, of the settings or of the program's numerics shows
check same_bits --exact
check same_bits_on_one_thread --exact --threads 1 --isa scalar
# smaller weights are another model: hold how far they may be off, not whether they differ
check q8_is_near --type q8 --tol 0.5
exit $status
