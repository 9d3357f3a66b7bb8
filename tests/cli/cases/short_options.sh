# A letter means the same in all commands: two names stand beside one letter only where they are the same thing, a file with
# the text (-f), how many tokens to generate (-n).
for command in $(tblock help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    tblock help "$command" | sed -nE 's/^  -(.), --([a-z-]+).*/-\1 --\2/p'
done | LC_ALL=C sort -u
