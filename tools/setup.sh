#!/usr/bin/env bash
# Install what is missing for one purpose, and say so; silent and quick when nothing is missing. Never asks.
#   tools/setup.sh demo       build and run; numpy in .venv for tools/convert.py
#   tools/setup.sh test       also what `make test` needs; tools/setup.sh long and packages are the same
#   tools/setup.sh compilers  that of test, and clang, for `make test-compilers`
#   tools/setup.sh browser    that of test, and a browser, for `make test-browser`
#   tools/setup.sh clients    that of test, and other people's clients of tblock serve, in .venv-clients, for `make test-clients`
#   tools/setup.sh neon       that of test, and the cross compiler and emulator of `make test-neon`
#   tools/setup.sh ranks      that of test, and Open MPI, for `make ranks` and `make test-ranks`; tools/setup.sh real is the same
#   tools/setup.sh deb        that of demo, and the tools that make Debian packages
#   tools/setup.sh static     that of demo, and for ARCH of another processor its cross compiler, for `make static`
#   tools/setup.sh image      buildah, for `make image`
#   tools/setup.sh release    all of the last three, and zig, auditwheel and others in .venv-release, for `make wheel` and `release`
#   tools/setup.sh fuzz       clang with libFuzzer and the sanitizers, of `make fuzz` and `make msan`
#   tools/setup.sh lint       clang-tidy and cppcheck
#   tools/setup.sh soak       what `make soak` needs: that of test and fuzz, and valgrind
#   tools/setup.sh --missing  name what the build lacks, install nothing; status 1
# Looks for the things themselves (commands, headers), not for packages, so other distributions and hand-installed
# libraries are fine as they are; only the installing speaks Debian.
set -u
cd "$(dirname "$0")/.." || exit 4
purpose=${1:-demo} venv=.venv
cc=${CC:-cc}
say() { printf 'set-up: %s\n' "$*" >&2; }

has()     { command -v "$1" >/dev/null 2>&1; }
has_pc()  { has pkg-config && pkg-config --exists "$1" 2>/dev/null; }
includes() { has "$2" && echo "#include <$1>" | "$2" -E - >/dev/null 2>&1; }
has_library() { PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*$1 "; }

# A Python that can make virtual environments: python3 of PATH or the system's own.
find_python() {
    for python in python3 /usr/bin/python3; do
        "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && return 0
    done
    return 1
}

needed=() optional=()
need() { local package=$1; shift; "$@" || needed+=("$package"); }
want() { local package=$1; shift; "$@" || optional+=("$package"); }

needs_of_build() {
    case $cc in
    *clang*) need clang has "$cc" ;;
    *)       need gcc has "$cc" ;;
    esac
    need make has make
    need libc6-dev includes stdio.h "$cc"
    need pkg-config has pkg-config
    need libcjson-dev has_pc libcjson
    need libpcre2-dev has_pc libpcre2-8
    need nettle-dev has_pc nettle
    want libseccomp-dev has_pc libseccomp # --sandbox; without it an error that says so
    want libedit-dev has_pc libedit # line editing in tblock chat; without it plain lines
    want libmicrohttpd-dev has_pc libmicrohttpd # tblock serve; without it an error that says so
}

has_fuzzer() { # the run-time library is a package of its own
    has clang && [ -n "$(find "$(clang -print-resource-dir)" -name 'libclang_rt.fuzzer*.a' -print -quit 2>/dev/null)" ]
}
clang_version() { { clang -dumpversion || apt-cache show clang | sed -n 's/^Version: [0-9]*:*//p'; } 2>/dev/null | sed 's/[^0-9].*//;q'; }
needs_of_fuzzers() {
    need clang has clang
    need "libclang-rt-$(clang_version)-dev" has_fuzzer
}

needs_of_cross_compiler() { # x86_64|aarch64
    local debian=arm64
    [ "$1" = aarch64 ] || debian=amd64
    need "gcc-${1//_/-}-linux-gnu" has "$1-linux-gnu-gcc"
    need "libc6-dev-$debian-cross" test -e "/usr/$1-linux-gnu/include/stdio.h"
}

needs_of_static_test() { # both processors' programs, one under qemu, and containers of them
    need dpkg-dev has dpkg-source
    needs_of_cross_compiler aarch64
    need qemu-user-static has qemu-aarch64-static
    need buildah has buildah
}

debian_python() { /usr/bin/python3 -c "import $1" 2>/dev/null; }
needs_of_packages() { # packaging/debian/control, and what checks the result
    need debhelper has dh
    need dpkg-dev has dpkg-buildpackage
    need fakeroot has fakeroot
    need lintian has lintian
    need debootstrap test -x /usr/sbin/debootstrap
    need dh-python has dh_python3
    need libopenmpi-dev has mpicc
    need python3-dev test -e /usr/bin/python3-config
    local name
    for name in setuptools wheel cffi numpy; do need python3-$name debian_python $name; done
}

has_browser() { has chromium || has google-chrome; }
has_haproxy() { has haproxy || [ -x /usr/sbin/haproxy ]; }

case $purpose in
--missing)
    needs_of_build
    [ ${#needed[@]} -gt 0 ] || exit 0
    say "missing for the build: ${needed[*]}"
    say "as root: apt-get install ${needed[*]}   (or: make demo, which installs them)"
    exit 1 ;;
demo) requirements=tools/requirements.txt
    needs_of_build
    need python3-venv eval '[ -x $venv/bin/python ] || find_python' ;;
test|long|packages|compilers|browser|clients|neon|ranks|soak|real) requirements=tools/requirements-test.txt
    needs_of_build
    need g++ has g++
    need curl has curl # the examples of docs/serve.md
    # loaded by train and grad alone, at run time: no header, nothing to link
    need libopenblas0 has_library libopenblas.so.0
    need libcurl4 has_library libcurl.so.4 # by pull alone
    need openssl has openssl # the certificate of its test
    case $purpose in
    compilers) need gcc has gcc; need clang has clang ;;
    packages) needs_of_packages; needs_of_static_test ;;
    browser) need chromium has_browser ;;
    clients) need chromium has_browser; need haproxy has_haproxy
        requirements=tools/requirements-clients.txt venv=.venv-clients ;; # much, of many authors: apart
    neon)
        needs_of_cross_compiler aarch64
        need qemu-user has qemu-aarch64 ;;
    ranks|real) need libopenmpi-dev has mpicc; need openmpi-bin has mpirun ;;
    soak) needs_of_fuzzers; need valgrind has valgrind ;;
    esac
    need python3-venv eval '[ -x $venv/bin/python ] || find_python' ;;
deb) requirements=
    needs_of_build
    needs_of_packages ;;
image) requirements=
    need buildah has buildah ;;
release) requirements=tools/requirements-release.txt venv=.venv-release
    needs_of_build
    needs_of_packages
    needs_of_static_test
    need openssl has openssl
    need python3-venv eval '[ -x $venv/bin/python ] || find_python' ;;
static) requirements=
    needs_of_build
    need dpkg-dev has dpkg-source
    [ "${ARCH:-$(uname -m)}" = "$(uname -m)" ] || needs_of_cross_compiler "$ARCH" ;;
fuzz) requirements=
    needs_of_build
    needs_of_fuzzers ;;
lint) requirements=
    needs_of_build
    need clang-tidy has clang-tidy
    need cppcheck has cppcheck ;;
*) say "usage: tools/setup.sh demo|test|long|packages|compilers|browser|clients|neon|ranks|real|deb|static|image|release|fuzz|lint|soak|--missing"; exit 2 ;;
esac

# ---- Debian packages -----------------------------------------------------------------------------------------------

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
may_install() {
    has apt-get && { [ "$(id -u)" -eq 0 ] || { has sudo && sudo -n true 2>/dev/null; }; }
}
# Quiet where it works; what it said where it does not.
apt() {
    local log
    log=$("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@" 2>&1) && return
    tail -n 20 <<<"$log" >&2
    return 1
}
lists_are_fresh() { [ -n "$(find /var/lib/apt/lists -name '*_Packages*' -mmin -1440 -print -quit 2>/dev/null)" ]; }

install_packages() {
    lists_are_fresh || apt update || say "apt-get update failed; trying with the package lists that are already here"
    apt install --no-install-recommends "$@" || { apt update && apt install --no-install-recommends "$@"; }
}

packages=("${needed[@]}" "${optional[@]}")
if [ ${#packages[@]} -gt 0 ] && may_install; then
    say "installing Debian packages: ${packages[*]}"
    if ! install_packages "${packages[@]}"; then
        say "apt-get could not install: ${packages[*]}"
        exit 4
    fi
elif [ ${#needed[@]} -gt 0 ]; then
    say "missing: ${packages[*]}"
    say "cannot install them here: there is no apt-get, or neither root nor passwordless sudo"
    say "as root: apt-get install ${packages[*]}"
    exit 4
elif [ ${#optional[@]} -gt 0 ]; then
    say "missing, but only a few tests need them: ${optional[*]}"
fi
[ -n "$requirements" ] || exit 0

# ---- Python packages -----------------------------------------------------------------------------------------------

# The stamp holds the requirements that were installed; a fuller set serves a smaller purpose too.
stamp=$venv/installed
wanted() { cat tools/requirements.txt; [ "$requirements" = tools/requirements.txt ] || cat "$requirements"; }
if [ -x $venv/bin/python ] && [ -f $stamp ]; then
    installed=$(<$stamp)
    case $installed in "$(wanted)"*) exit 0 ;; esac
fi

install_python_packages() {
    if [ ! -x $venv/bin/python ] || ! $venv/bin/python -m pip --version >/dev/null 2>&1; then
        find_python && "$python" -m venv --clear $venv || return 1
    fi
    $venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --retries 2 -r "$requirements" >&2 || return 1
    wanted > $stamp
}

say "installing Python packages into $venv: $(wanted | sed -n 's/^\([a-z].*[^ \\]\)[ \\]*$/\1/p' | tr '\n' ' ')"
install_python_packages && exit 0
say "pip could not install $requirements into $venv (is there a network, or a mirror in pip's configuration?)"
if [ "$purpose" = demo ]; then
    say "only tools/convert.py needs it; going on without"
    exit 0
fi
exit 4
