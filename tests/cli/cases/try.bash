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
# Until a background program has computed for 50 ms: then it has long begun what it catches Ctrl-C for.
until_working() { until [ "$(cut -d ' ' -f 14 "/proc/$1/stat")" -ge 5 ]; do sleep 0.01; done; }
