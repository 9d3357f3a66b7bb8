# Help that was asked for goes to standard output, status 0.
tblock help
for command in run chat info tokenize embed logits verify eval attn convert synth bench completions help; do
    echo "---- $command"
    tblock help $command
    [ "$(tblock $command --help)" = "$(tblock help $command)" ] || echo "--help differs"
done
[ "$(tblock --help)" = "$(tblock help)" ] || echo "--help differs"
[ "$(tblock -h)" = "$(tblock help)" ] || echo "-h differs"
[ "$(tblock run --temp 1 --help --frobnicate)" = "$(tblock help run)" ] || echo "what follows --help is read"
# a command that was forgotten: the short help, but to standard error and with the status of a wrong command line
tblock 2> short > out; echo "[$?]"
tblock help | head -n "$(wc -l < short)" | cmp - short && cat out
