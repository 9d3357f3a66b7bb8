# No arithmetic lies between the switches of the floating-point environment (base/fp_env.h, base/host_env.c) unless it is in a
# function that is called there: a compiler may move an operation of the same function across them. Looks at the built
# library, because inlining decides. Comparisons and moves do not depend on the rounding mode.
set -u
x86='v?(add|sub|mul|div|sqrt|round|dp|fn?m(add|sub)[0-9]*)[sp][sdh]|v?cvt[a-z0-9]+|fi?(add|sub|mul|div)r?p?|fsqrt|frndint'
arm='f(add|sub|mul|div|sqrt|n?madd|n?msub|cvt[a-z]*|rint[a-z]|mla|mls)|[su]cvtf'
objdump -d --no-show-raw-insn "$BUILD/libtblock.so" > "$BUILD/tests/framed.asm" || { echo "FAIL framed: $BUILD/libtblock.so cannot be read"; exit 1; }
awk -F '\t' -v arithmetic="^($x86|$arm)\$" '
    function end_of_function() {
        if (framed && !(name ~ /^(fp|host)_env_/)) {
            frames++
            if (found) { print "FAIL " name " computes between the switches: " found; failed = 1 }
        }
    }
    /^[0-9a-f]+ <.*>:$/ { end_of_function(); name = $0; gsub(/^.*<|>:$/, "", name); framed = 0; found = ""; next }
    /<(fp|host)_env_enter(@plt)?>/ { framed = 1 }
    NF > 1 { split($2, word, " "); if (word[1] ~ arithmetic && !found) found = $2 }
    END {
        end_of_function()
        if (frames < 30) { print "FAIL framed: expected 30 functions or more that switch, found " frames + 0; failed = 1 }
        if (!failed) print "ok " frames " functions switch the environment, and none of them computes"
        exit failed
    }' "$BUILD/tests/framed.asm"
status=$?
rm -f "$BUILD/tests/framed.asm"
exit $status
