# A full disk, a closed standard output, a reader that goes away.
echo '{"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 32}' > config.json
tblock synth config.json -o model.bin
for args in 'run model.bin --ids 1,2' 'run model.bin --ids 1,2 --json' 'help run' '--version' 'info config.json'; do
    tblock $args > /dev/full; echo "$args: full: $?"
    tblock $args >&-; echo "$args: closed: $?"
    tblock $args | true; echo "$args: gone: ${PIPESTATUS[0]}" | sed 's/: \(0\|141\)$/: 0 or 141/'
done
cmp model.bin <(cat model.bin) && tblock run model.bin --ids 1 -n 0 <&- 2>&- ; echo "all closed: $?"
tblock synth config.json -o /dev/full; echo "synth: $?"
mkfifo pipe
{ head -c 1 > /dev/null; echo read > gone; } < pipe &
{ while [ ! -e gone ]; do sleep 0.01; done; tblock run model.bin --ids 1,2 2> err; echo $? > status; } > pipe &
printf x > pipe
wait
echo "reader gone: $(cat status), said: $(cat err)"
tblock run model.bin --ids 1,2 -n 2 --trace /dev/full; echo "trace: $?"
