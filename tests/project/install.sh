# What `make install` puts in place is usable: by pkg-config, by a C and a C++ program, statically and dynamically; and
# `make uninstall` leaves nothing. The program is the one of docs/embed.md.
set -u
failed=0
ok()   { echo "ok $1"; }
no()   { echo "FAIL $1: $(head -n 3 <<<"$2" | tr '\n' ' ')"; failed=1; }
case $BUILD in
*san) echo "skip install: the sanitizer builds are not for installing"; exit 0 ;;
esac
stage=$PWD/$BUILD/tests/stage
rm -rf "$stage"
mkdir -p "$stage"
if log=$(make -s install BUILD="$BUILD" CC="$CC" DESTDIR="$stage" PREFIX=/opt/tblock 2>&1); then
    ok install_into_a_staging_folder
else
    no install_into_a_staging_folder "$log"
    exit 1
fi
root=$stage/opt/tblock
soname=$(readelf -d "$root/lib/libtblock.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
if [ -n "$soname" ] && [ -e "$root/lib/$soname" ] && [ -L "$root/lib/libtblock.so" ]; then ok soname_link_stands; else no soname_link_stands "soname '$soname'"; fi
version=$(sed -n 's/^#define TBLOCK_VERSION "\(.*\)"/\1/p' src/tblock.h)
export PKG_CONFIG_PATH=$root/lib/pkgconfig
pc="pkg-config --define-variable=prefix=$root --define-variable=libdir=$root/lib"
if [ "$($pc --modversion tblock)" = "$version" ]; then ok pkg_config_knows_the_version; else no pkg_config_knows_the_version "$($pc --modversion tblock 2>&1)"; fi
if said=$("$root/bin/tblock" --version 2>&1) && [[ $said == *"$version"* ]]; then ok installed_program_runs; else no installed_program_runs "$said"; fi

# what the program prints for man and for the shells: complete, and readable by all
missing=
for file in man/man1/tblock.1 bash-completion/completions/tblock zsh/site-functions/_tblock fish/vendor_completions.d/tblock.fish; do
    [ -s "$root/share/$file" ] && [ "$(stat -c %a "$root/share/$file")" = 644 ] || missing="$missing $file"
done
if [ -z "$missing" ]; then ok manual_page_and_completions_installed; else no manual_page_and_completions_installed "$missing"; fi
if ! command -v man >/dev/null || [[ $(man -w sh 2>&1) == *minimized* ]]; then echo "skip man_finds_the_page: no man" # Ubuntu's images have a stub
elif said=$(man -M "$root/share/man" tblock 2>&1) && [[ $said == *"tblock run"* ]]; then ok man_finds_the_page
else no man_finds_the_page "$said"; fi
for shell in bash zsh fish; do
    case $shell in
    bash) check=(bash -n "$root/share/bash-completion/completions/tblock") ;;
    zsh) check=(zsh -n "$root/share/zsh/site-functions/_tblock") ;;
    fish) check=(fish --no-execute "$root/share/fish/vendor_completions.d/tblock.fish") ;;
    esac
    if ! command -v $shell >/dev/null; then echo "skip ${shell}_reads_its_completions: no $shell"
    elif said=$("${check[@]}" 2>&1) && [ -z "$said" ]; then ok ${shell}_reads_its_completions
    else no ${shell}_reads_its_completions "$said"; fi
done

tools="$CC -std=c11 -fsyntax-only -I$root/include -x c -"
if log=$(echo '#include <tblock_tools.h>' | $tools 2>&1); then ok both_headers_installed; else no both_headers_installed "$log"; fi

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' docs/embed.md > "$stage/embed.c"
lines=$(grep -c . "$stage/embed.c")
if [ "$lines" -ge 30 ] && [ "$lines" -le 50 ]; then ok embed_example_is_about_40_lines; else no embed_example_is_about_40_lines "$lines lines"; fi

# NAME COMPILER... : builds embed.c with what pkg-config says and runs it on the shipped model
embed() {
    local name=$1 log; shift
    if ! log=$("$@" -o "$stage/$name" 2>&1); then no "embed_$name" "$log"; return; fi
    if ! log=$(LD_LIBRARY_PATH=$root/lib "$stage/$name" models/shakespeare.bin 2>&1 > "$stage/$name.txt"); then no "embed_$name" "$log"; return; fi
    if [ "$(head -c 6 "$stage/$name.txt")" != ROMEO: ] || [ "$(wc -c < "$stage/$name.txt")" -lt 60 ]; then
        no "embed_$name" "wrote: $(head -c 80 "$stage/$name.txt")"
    elif ! cmp -s "$stage/$name.txt" "${reference:=$stage/$name.txt}"; then no "embed_$name" "its text differs from that of $reference"
    else ok "embed_$name"; fi
}
warn="-Wall -Wextra -Wpedantic -Werror"
shared=$($pc --cflags --libs tblock)
# the archive and not the shared library beside it, the rest as pkg-config says for --static
static=$($pc --cflags --libs --static tblock | sed "s|-ltblock\b|-l:libtblock.a|")
embed c_shared $CC -std=c17 $warn "$stage/embed.c" $shared
embed c_static $CC -std=c17 $warn "$stage/embed.c" $static
# the shared library must bring all it needs itself: nothing but it on the line
embed c_shared_alone $CC -std=c11 $warn -I"$root/include" "$stage/embed.c" "$root/lib/libtblock.so" -Wl,--no-allow-shlib-undefined
if command -v g++ >/dev/null; then
    embed cxx_shared g++ -x c++ -std=c++11 $warn "$stage/embed.c" -x none $shared
    embed cxx_static g++ -x c++ -std=c++11 $warn "$stage/embed.c" -x none $static
else
    echo "skip embed_cxx_shared: no g++"
    echo "skip embed_cxx_static: no g++"
fi
if readelf -d "$stage/c_static" 2>/dev/null | grep -q libtblock; then no static_needs_no_libtblock_so "it does"; else ok static_needs_no_libtblock_so; fi

# the first example of help works as printed: in the source tree, and anywhere for what is installed
# works NAME FOLDER PROGRAM
works() {
    local line said; line=$("$3" help | awk '/^To get started:/ { on = 1; next } on && /^      / { exit } on')
    if said=$(cd "$2" && bash -c "$line" 2>&1) && [ "${#said}" -gt 60 ]; then ok "$1"; else no "$1" "$line: $said"; fi
}
works first_example_works_in_the_source_tree . "$BUILD/tblock"

# without a staging folder: ldconfig runs where root installs, and otherwise its absence is said
own=$stage/own
printf '#!/bin/sh\n[ "$1" = -p ] && echo "$FOUND" || echo ran >> %s\n' "$stage/ldconfig.log" > "$stage/ldconfig"
chmod +x "$stage/ldconfig"
plain_install() { make -s "$1" BUILD="$BUILD" CC="$CC" PREFIX="$own" LDCONFIG="$stage/ldconfig" 2>&1; }
said=$(FOUND= plain_install install)
if [[ $said == *"LD_LIBRARY_PATH=$own/lib"* ]]; then ok what_ldconfig_does_not_know_is_said; else no what_ldconfig_does_not_know_is_said "$said"; fi
said=$(FOUND="libtblock.so.0 (libc6,x86-64) => $own/lib/libtblock.so.0" plain_install install)
if [ -z "$said" ]; then ok nothing_is_said_where_ldconfig_knows_it; else no nothing_is_said_where_ldconfig_knows_it "$said"; fi
runs=$(grep -c ran "$stage/ldconfig.log" 2>/dev/null)
if [ "${runs:-0}" = "$([ "$(id -u)" = 0 ] && echo 2 || echo 0)" ]; then ok ldconfig_runs_for_root_alone; else no ldconfig_runs_for_root_alone "$runs times"; fi
works first_example_works_where_it_is_installed / "$own/bin/tblock"
if grep -q "$own/share/tblock/models/shakespeare.bin" "$own/share/man/man1/tblock.1" && ! grep -q '[ (]models/' "$own/share/man/man1/tblock.1"; then
    ok manual_page_names_the_installed_models
else no manual_page_names_the_installed_models "$(grep -n models/ "$own/share/man/man1/tblock.1")"; fi
plain_install uninstall > /dev/null
left=$(find "$own" ! -type d)
if [ -z "$left" ]; then ok uninstall_leaves_nothing_of_that_either; else no uninstall_leaves_nothing_of_that_either "$left"; fi

make -s uninstall DESTDIR="$stage" PREFIX=/opt/tblock >/dev/null 2>&1
left=$(find "$root" ! -type d)
if [ -z "$left" ]; then ok uninstall_leaves_nothing; else no uninstall_leaves_nothing "$left"; fi
rm -rf "$stage"
exit $failed
