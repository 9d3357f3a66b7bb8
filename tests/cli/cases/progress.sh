# A progress bar appears only on a terminal that can show it, and is wiped; not with --quiet. script(1) makes the terminal.
# A slow build does not come to its end in the 30 seconds, which does not matter.
# needs: /usr/bin/script
# needs: /dev/pts/ptmx
echo '{"d_model": 64, "n_layers": 40, "heads": 2, "d_ff": 128, "vocab_size": 40, "n_ctx": 100000}' > config.json
tblock synth config.json -o model.bin
yes 1 | head -n 6000 | tr '\n' ' ' > ids
drawn() { # ENVIRONMENT OPTIONS: the kinds of lines that appear
    echo "$1 $2:"
    script -qec "stty cols 60; env $1 timeout --foreground -s INT 30 tblock run model.bin --ids '$(cat ids)' -t 1 -n 0 $2" /dev/null < /dev/null |
        tr '\r' '\n' | sed 's/[ #]*\] *[0-9]*%\( *[0-9]*m[0-9]*s\)*/...]/' | sort -u | cat -v
}
drawn TERM=xterm
drawn TERM=xterm --quiet
drawn TERM=dumb
echo "to a file:"
TERM=xterm timeout -s INT 30 tblock run model.bin --ids "$(cat ids)" -n 0; true
