#!/bin/sh
# Installs a .deb on bare Debian 12 and 13 and runs the program there.
#
# usage: tools/check_package.sh FILE.deb
#
# Each release is bootstrapped into a folder once and kept, packed, in the cache folder. Exits with 77 (skipped) where
# that cannot be done: it needs root, debootstrap and the network.
set -eu

deb=$(readlink -f "$1")
cache=${QSA_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/qsa}
if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    echo "package: SKIP, needs root and debootstrap"
    exit 77
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# A bare system of a release, in $root.
lay_out() { # release
    packed=$cache/debian-$1.tar
    rm -rf "$root"
    mkdir -p "$root" "$cache"
    if [ ! -e "$packed" ]; then
        if ! debootstrap --variant=minbase "$1" "$root" >"$root.log" 2>&1; then
            tail -n 3 "$root.log"
            echo "package: SKIP, Debian $1 could not be fetched"
            exit 77
        fi
        rm -f "$root.log"
        tar -C "$root" -cf "$packed.$$" . && mv "$packed.$$" "$packed"
    else
        tar -C "$root" -xf "$packed"
    fi
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    cp "$deb" "$root/qsa.deb"
}

inside() {
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive "$@"
}

for release in bookworm trixie; do
    lay_out "$release"
    inside sh -c 'apt-get -q update && apt-get -q -y install --no-install-recommends ./qsa.deb' >"$root/log" 2>&1 ||
        { tail -n 20 "$root/log"; echo "package: could not be installed on $release"; exit 1; }
    inside qsa --version
    inside qsa verify --quick | tail -n 1
    inside qsa demo --tokens 4096 2>/dev/null | tail -n 1
    echo "package: installs and runs on Debian $(cat "$root/etc/debian_version") ($release)"
done
