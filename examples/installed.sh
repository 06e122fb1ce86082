#!/bin/sh
# Installs the library into a folder of its own, builds an example against that alone, and runs it.
#
# usage: installed.sh CMAKE BUILD_FOLDER LIB_FOLDER COMPILER
set -eu
cmake=$1 build=$2 lib=$3 compiler=$4
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

"$cmake" --install "$build" --prefix "$prefix" > "$prefix/log" || { cat "$prefix/log"; exit 1; }
export PKG_CONFIG_PATH="$prefix/$lib/pkgconfig"
for example in hello_qsa batch drafts; do
    # Word splitting is wanted: these are lists of flags.
    "$compiler" -std=c11 -o "$prefix/$example" "$here/$example.c" $(pkg-config --cflags --libs qsa)
    LD_LIBRARY_PATH="$prefix/$lib" "$prefix/$example"
done
"$compiler" -std=c11 -o "$prefix/static" "$here/hello_qsa.c" $(pkg-config --cflags qsa) "$prefix/$lib/libqsa.a" \
    -lm -pthread
"$prefix/static"
