#!/bin/sh
# Installs what the build lacks, on Debian and its relatives, and says what.
#
# usage: tools/setup.sh [build|test|check|fuzz|package|ci]
#
#   build   what `make` and `make run` need (the default)
#   test    an OpenCL device as well: PoCL, which runs on the processor
#   check   clang-format and clang-tidy as well
#   fuzz    clang with its sanitizers and libFuzzer as well
#   package what writes a .deb as well
#   ci      everything that .ci/run needs: clang, valgrind, the cross compiler and qemu-user as well
#
# Silent when nothing is missing. Without the right to install it prints the one line to run and exits with 1.
set -u

what=${1:-build}
missing=
foreign=

need() { # package, then a command that succeeds when it is there
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

need_foreign() { # package, library: of Debian's arm64, beside the machine's own
    [ -e "/usr/lib/aarch64-linux-gnu/$2" ] || foreign="$foreign $1:arm64"
}

header() { # a header that the C compiler finds in the usual places
    for folder in /usr/include /usr/local/include /usr/include/*-linux-gnu; do
        [ -e "$folder/$1" ] && return 0
    done
    return 1
}

# pip fetches ggml's sources; where they are in the cache already, it is not needed.
ggml_or_pip() {
    version=$(sed -n 's/^set(QSA_GGML_VERSION \(.*\))$/\1/p' "$(dirname "$0")/../cmake/ggml.cmake")
    [ -e "${QSA_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/qsa}/ggml-$version/CMakeLists.txt" ] ||
        python3 -m pip --version || /usr/bin/python3 -m pip --version
}

need_build() {
    need gcc command -v cc
    need g++ command -v c++
    need libc6-dev header stdio.h
    need cmake command -v cmake
    need ninja-build command -v ninja
    need pkg-config command -v pkg-config
    need libpcre2-dev header pcre2.h
    need libutf8proc-dev header utf8proc.h
    need libjansson-dev header jansson.h
    need libxxhash-dev header xxhash.h
    need libcmocka-dev header cmocka.h
    need opencl-c-headers header CL/cl.h
    need python3 command -v python3
    need python3-pip ggml_or_pip
}

# Any driver will do; PoCL where there is none.
need_test() {
    need_build
    need ocl-icd-libopencl1 loader libOpenCL.so.1
    need pocl-opencl-icd has_driver
}

loader() { # a library that the dynamic linker finds
    /sbin/ldconfig -p | grep -q "$1"
}

has_driver() {
    ls /etc/OpenCL/vendors/*.icd
}

need_check() {
    need_build
    need git command -v git
    need clang-format command -v clang-format
    need clang-tidy command -v clang-tidy
}

libfuzzer() {
    [ -e "$(clang --print-file-name="libclang_rt.fuzzer-$(uname -m).a")" ]
}

need_fuzz() {
    need_build
    need clang command -v clang
    need libclang-rt-dev libfuzzer
}

need_package() {
    need_build
    need dpkg-dev command -v dpkg-shlibdeps
    need file command -v file
}

need_ci() {
    need_package
    need debootstrap command -v debootstrap
    need_check
    need_test
    need clang command -v clang
    need valgrind command -v valgrind
    if [ "$(uname -m)" = x86_64 ]; then
        need gcc-aarch64-linux-gnu command -v aarch64-linux-gnu-gcc
        need libc6-dev-arm64-cross test -e /usr/aarch64-linux-gnu/include/stdio.h
        need qemu-user command -v qemu-aarch64
        need_foreign libcmocka-dev libcmocka.so
        need_foreign libjansson-dev libjansson.so
        need_foreign libxxhash-dev libxxhash.so
    fi
}

case $what in
build) need_build ;;
test) need_test ;;
check) need_check ;;
fuzz) need_fuzz ;;
package) need_package ;;
ci) need_ci ;;
*)
    echo "setup: unknown argument '$what'; use build, test, check, fuzz, package or ci" >&2
    exit 2
    ;;
esac

[ -z "$missing$foreign" ] && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: missing, by Debian's names:$missing$foreign; install them with this system's package manager" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    line="sudo apt-get update && sudo apt-get install -y$missing$foreign"
    [ -n "$foreign" ] && line="sudo dpkg --add-architecture arm64 && $line"
    echo "setup: something is missing; run:  $line" >&2
    exit 1
fi

echo "setup: installing$missing$foreign"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT

install_missing() {
    if [ -n "$foreign" ]; then
        dpkg --add-architecture arm64 || return 1
    fi
    apt-get -q -o Acquire::Retries=3 update || return 1
    # shellcheck disable=SC2086 # lists of words
    apt-get -q -y -o Acquire::Retries=3 install --no-install-recommends $missing $foreign
}

if ! install_missing >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    echo "setup: could not install$missing$foreign" >&2
    exit 1
fi
