# Every header compiles alone; the public ones as C11, C17 and C++11 with every warning.
set -u
try() { # NAME COMMAND...: quiet success or the compiler's first complaint
    local name=$1 out; shift
    if out=$("$@" 2>&1); then echo "ok $name"; else echo "FAIL $name: $(head -n 1 <<<"$out")"; failed=1; fi
}
failed=0
warn="-Wall -Wextra -Wpedantic -Werror -fsyntax-only"
for name in tblock tblock_tools; do
    try ${name}_is_c11 $CC -std=c11 $warn -x c src/$name.h
    try ${name}_is_c17 $CC -std=c17 $warn -Wshadow -Wconversion -x c src/$name.h
    if command -v g++ >/dev/null; then
        try ${name}_is_cxx11 g++ -std=c++11 $warn -x c++ src/$name.h
    else
        echo "skip ${name}_is_cxx11: no g++"
    fi
done
lines=$(wc -l < src/tblock.h)
if [ "$lines" -le 450 ]; then echo "ok tblock_h_is_at_most_450_lines"; else echo "FAIL tblock_h_is_at_most_450_lines: $lines"; failed=1; fi

for header in $(git ls-files 'src/*.h' 2>/dev/null || find src -name '*.h'); do
    flags=
    case $header in
    *neon*)   [ "$(uname -m)" = aarch64 ] || continue ;;
    *avx512*) [ "$(uname -m)" = x86_64 ] || continue; flags="-mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16" ;;
    *avx2*)   [ "$(uname -m)" = x86_64 ] || continue; flags="-mavx2 -mfma -mf16c" ;;
    */bodies*) continue ;; # kernel bodies are text for the files that define the lanes
    esac
    # without -Wunused-function: a helper of a header need not be used by every file
    try "compiles_alone_$(basename "$header")" $CC -std=c17 -Isrc -D_GNU_SOURCE $(pkg-config --cflags libcjson libpcre2-8 nettle) \
        $flags $warn -Wno-unused-function -Wno-pragma-once-outside-header -x c "$header"
done
exit $failed
