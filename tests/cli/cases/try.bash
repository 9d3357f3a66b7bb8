# For cases that try many command lines: the line, what it prints (both streams), and its status.
try() {
    printf '$ tblock'
    for arg in "$@"; do
        case $arg in
        '' | *[!A-Za-z0-9_./,=:+-]*) printf ' %q' "$arg" ;;
        *) printf ' %s' "$arg" ;;
        esac
    done
    printf '\n'
    tblock "$@" 2>&1
    printf '[%d]\n' $?
}
# the same without the text on standard output
try_status() { try "$@" | grep -aE '^(\$ |tblock: |\[)'; }
