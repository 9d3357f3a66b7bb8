# Help that was asked for goes to standard output, status 0.
tblock help
for command in run chat info tokenize embed logits verify eval attn convert synth bench completions help; do
    echo "---- $command"
    tblock help $command
    [ "$(tblock $command --help)" = "$(tblock help $command)" ] || echo "--help differs"
done
[ "$(tblock --help)" = "$(tblock help)" ] || echo "--help differs"
# -h: examples first, on 20 lines; --help is the whole
for command in '' $(tblock help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    tblock $command -h > lines && [ "$(wc -l < lines)" -le 20 ] || echo "tblock $command -h: $(wc -l < lines) lines"
    sed -n 3,4p lines | grep -qx 'Examples:\|To get started:' || echo "tblock $command -h does not begin with examples"
done
tblock -h
tblock run -h
tblock train -qh
[ "$(tblock run --usage)" = "$(tblock run -h)" ] || echo "--usage differs"
# topics: a group of options, an option in all tables that have one; in any case of letters
tblock help sampling
[ "$(tblock help SAMPLING)" = "$(tblock help sampling)" ] || echo "case differs"
tblock help file
tblock help gradient
tblock help all > all; for command in run train help; do tblock help $command | grep -vxFf all; done; tblock help | grep -vxFf all
[ "$(tblock run --temp 1 --help --frobnicate)" = "$(tblock help run)" ] || echo "what follows --help is read"
# a command that was forgotten: the short help, but to standard error and with the status of a wrong command line
tblock 2> short > out; echo "[$?]"
tblock help | head -n "$(wc -l < short)" | cmp - short && cat out
