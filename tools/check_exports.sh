#!/bin/sh
# Compares what libqsa.so exports with tools/exports.txt.
#
# usage: tools/check_exports.sh [--update] [BUILD_FOLDER]
#
# --update writes the list instead, for a change that is meant.
set -eu
export LC_ALL=C

update=false
if [ "${1:-}" = --update ]; then
    update=true
    shift
fi
build=${1:-build}
list=$(dirname "$0")/exports.txt

library=$(find "$build" -name 'libqsa.so' -print | head -n 1)
if [ -z "$library" ]; then
    echo "exports: no libqsa.so under $build" >&2
    exit 1
fi

found=$(mktemp)
trap 'rm -f "$found"' EXIT
nm -D --defined-only "$library" | awk '{ print $NF }' | sort >"$found"

if $update; then
    cp "$found" "$list"
elif ! diff -u "$list" "$found" >&2; then
    echo "exports: libqsa.so and tools/exports.txt differ; if that is meant: tools/check_exports.sh --update" >&2
    exit 1
fi
echo "exports: $(wc -l <"$found") symbols"
