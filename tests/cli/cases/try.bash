# For cases that try many command lines: the line, what it prints (both streams), and its status.
try() {
    printf '$ tblock'
    printf ' %q' "$@"
    printf '\n'
    tblock "$@" 2>&1
    printf '[%d]\n' $?
}
# the same without the text on standard output
try_status() { try "$@" | grep -aE '^(\$ |tblock: |\[)'; }
