#!/bin/sh
# Installs what the build lacks, on Debian and its relatives, and says what.
#
# usage: tools/setup.sh [build|test|check|ci]
#
#   build   what `make` and `make run` need (the default)
#   test    the tests as well
#   check   clang-format and clang-tidy as well
#   ci      everything that .ci/run needs: clang, the cross compiler and qemu-user as well
#
# Silent when nothing is missing. Without the right to install it prints the one line to run and exits with 1.
set -u

what=${1:-build}
missing=

need() { # package, then a command that succeeds when it is there
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

header() { # a header that the C compiler finds in the usual places
    for folder in /usr/include /usr/local/include /usr/include/*-linux-gnu; do
        [ -e "$folder/$1" ] && return 0
    done
    return 1
}

# pip fetches ggml's sources; where they are in the cache already, it is not needed.
has_ggml() {
    cache=${QSA_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/qsa}
    [ -e "$cache/ggml-0.25.3/CMakeLists.txt" ] || python3 -m pip --version || /usr/bin/python3 -m pip --version
}

need_build() {
    need gcc command -v cc
    need g++ command -v c++
    need cmake command -v cmake
    need ninja-build command -v ninja
    need pkg-config command -v pkg-config
    need libc6-dev header stdio.h
    need libpcre2-dev header pcre2.h
    need libutf8proc-dev header utf8proc.h
    need libjansson-dev header jansson.h
    need libxxhash-dev header xxhash.h
    need python3 command -v python3
    need python3-pip has_ggml
}

need_test() {
    need_build
    need libcmocka-dev header cmocka.h
}

need_check() {
    need_test
    need git command -v git
    need clang-format command -v clang-format
    need clang-tidy command -v clang-tidy
}

case $what in
build) need_build ;;
test) need_test ;;
check) need_check ;;
*)
    echo "setup: unknown argument '$what'; use build, test, check or ci" >&2
    exit 2
    ;;
esac

[ -z "$missing" ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: missing, under Debian's names:$missing; install them with this system's package manager" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "setup: something is missing; run:  sudo apt-get install -y$missing" >&2
    exit 1
fi

echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # a list of words
if ! { apt-get update -q && apt-get install -q -y --no-install-recommends $missing; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    echo "setup: could not install$missing" >&2
    exit 1
fi
