#!/usr/bin/env bash
# The README's first commands as a newcomer runs them: `make demo` and `make test` in a fresh
# clone on a bare system. Run this by hand, as root; it is no part of make test. Each system takes
# about half an hour and 4 GB of disk.
#   tests/project/chroots.sh [--as-here] [--keep] [SYSTEM...]
# SYSTEM: debian-12, debian-13 or ubuntu-24.04; without one, all three. Each is a minbase chroot
# that mmdebstrap makes in $TMPDIR (/var/tmp), with make and git: no procps, no /dev/pts, locale
# C. The clone of this repository's HEAD lies in /root, which nobody but root may enter. Prints
# for each system how long both commands took, and the count line of the tests. Logs:
# build/chroots/. Status 1 where a command failed.
#   --as-here   reach the network as this machine does: copies apt's Acquire settings, pip's
#               configuration and the certificates
#   --keep      leave the chroots in place
# DEBIAN_MIRROR and UBUNTU_MIRROR name other mirrors. Needs mmdebstrap, curl for Ubuntu's keys,
# and for debian-13 a keyring that knows it.
set -u
cd "$(dirname "$0")/../.." || exit 4
debian=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
ubuntu=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
# Ubuntu's keys, which Debian does not install; the sum is that of Ubuntu's own signed index
# (noble, main)
keyring=pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb
keyring_sha256=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8

as_here=false keep=false systems=()
for word; do
    case $word in
    --as-here) as_here=true ;;
    --keep) keep=true ;;
    debian-12 | debian-13 | ubuntu-24.04) systems+=("$word") ;;
    *) sed -n 's|^#   tests|usage: tests|p' "$0" >&2; exit 2 ;;
    esac
done
[ ${#systems[@]} -gt 0 ] || systems=(debian-12 debian-13 ubuntu-24.04)
[ "$(id -u)" -eq 0 ] || { echo "chroots.sh: expected root, found user $(id -un)" >&2; exit 2; }
if ! command -v mmdebstrap > /dev/null; then
    echo "chroots.sh: no mmdebstrap; apt-get install mmdebstrap" >&2
    exit 4
fi
logs=$PWD/build/chroots
mkdir -p "$logs"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/tblock-chroots.XXXXXX") && chmod 755 "$work" || exit 4
$keep || trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Of this machine's settings of apt: proxies, retries, checks of dates.
apt_settings() {
    ! $as_here || apt-config dump | grep -E '^Acquire::(Check|Retries|https?|proxy)[^ ]* "[^"]+";$'
}

make_system() { # SYSTEM FOLDER
    local suite mirror=$debian options=()
    mapfile -t options < <(apt_settings | sed 's/^/--aptopt=/')
    case $1 in
    debian-12) suite=bookworm ;;
    debian-13) suite=trixie ;;
    ubuntu-24.04)
        suite=noble mirror=$ubuntu
        curl -sSfL -o "$work/keyring.deb" "$ubuntu/$keyring" || return
        sha256sum -c --quiet <<< "$keyring_sha256  $work/keyring.deb" || return
        dpkg-deb -x "$work/keyring.deb" "$work/keyring" || return
        options+=(--keyring="$work/keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg")
        options+=(--components=main,universe) ;;
    esac
    mmdebstrap --quiet --variant=minbase --include=apt "${options[@]}" "$suite" "$2" "$mirror"
}

# What a process inside gets of pip's configuration: PIP_* and the files that they name.
pip_settings=() certificates='s|/etc/ssl/certs/ca-certificates.crt|/etc/ssl/certs/here.crt|'
copy_network_settings() { # FOLDER
    cp -L /etc/resolv.conf "$1/etc/resolv.conf"
    $as_here || return 0
    mkdir -p "$1/etc/ssl/certs"
    [ ! -e /etc/pip.conf ] || cp -L /etc/pip.conf "$1/etc/pip.conf"
    cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/here.crt"
    mapfile -t pip_settings < <(env | grep -iE '^(PIP_|(http|https|no)_proxy=)' | sed "$certificates")
    [ ! -e "$1/etc/pip.conf" ] || sed -i "$certificates" "$1/etc/pip.conf"
}

# inside FOLDER COMMAND: with /proc and /sys, but without /dev/pts, in a mount namespace of its
# own, so that nothing stays mounted
inside() {
    env -i unshare --mount bash -c '
        mount -t proc proc "$0/proc" && mount --rbind -o ro /sys "$0/sys" || exit 4
        path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
        exec chroot "$0" /usr/bin/env -i HOME=/root PATH=$path "${@:2}" bash -c "$1"
    ' "$1" "$2" "${pip_settings[@]}" < /dev/null
}

failed=0
for system in "${systems[@]}"; do
    root=$work/$system log=$logs/$system
    if ! make_system "$system" "$root" > "$log.system.log" 2>&1; then
        echo "$system: mmdebstrap failed: $(tail -n 1 "$log.system.log")"
        failed=1
        continue
    fi
    copy_network_settings "$root"
    git clone -q --no-hardlinks . "$root/root/tblock" || exit 4
    bare='chmod 700 /root && apt-get -q update && apt-get -q -y install make git'
    if ! inside "$root" "$bare" > "$log.make.log" 2>&1; then
        echo "$system: apt-get install make git failed: $(tail -n 1 "$log.make.log")"
        failed=1
        continue
    fi
    for target in demo test; do
        start=$SECONDS
        inside "$root" "cd /root/tblock && make $target" > "$log.$target.log" 2>&1
        status=$?
        count=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log.$target.log" | tail -n 1)
        printf '%-14s make %s  %4d s  status %d  %s\n' \
            "$system" $target $((SECONDS - start)) $status "$count"
        [ $status -eq 0 ] || failed=1
    done
    $keep || rm -rf "$root"
done
$keep && echo "kept in $work"
exit $failed
