#!/bin/sh
# Counts the instructions of the three kernels, appending with pooling, the scan with its selection, row attention, at one
# token and in a prompt chunk, with valgrind, and compares them with the record in bench/counts/, a file for each family
# of compilers. Fails where a count is more than 5 % above the record.
#
# usage: tools/check_counts.sh [--record] [BUILD_FOLDER]
#
# --record writes today's counts instead. Exits with 77, saying why, where there is nothing to compare with: another
# version of the compiler, another build type, a processor without AVX2, no valgrind.
set -eu
export LC_ALL=C

isa=avx2 # valgrind knows no AVX-512
percent=5

record=false
if [ "${1:-}" = --record ]; then
    record=true
    shift
fi
build=${1:-build}
program=$build/bench/bench_counts

skip() {
    echo "counts: SKIP, $1"
    exit 77
}

[ -x "$program" ] || {
    echo "counts: no $program; build it first" >&2
    exit 1
}
command -v valgrind >/dev/null || skip "valgrind is not installed"
QSA_ISA=$isa "$program" --works || skip "$isa does not run here"

# For instance: gcc 12 release
# shellcheck disable=SC2046 # words
set -- $("$program" --compiler)
family=$1 version=$2
[ "$3" = release ] || skip "$build is a $3 build"
file=$(dirname "$0")/../bench/counts/$family.txt
$record || grep -q "^$version $isa " "$file" 2>/dev/null || skip "nothing is recorded for $family $version, $isa"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# One dump at each end of the counted function, in the order of the program's list.
if ! QSA_ISA=$isa LD_BIND_NOW=1 valgrind --tool=callgrind --collect-atstart=no --toggle-collect=counted \
    --dump-after=counted --callgrind-out-file="$folder/out" "$program" >"$folder/log" 2>&1; then
    cat "$folder/log" >&2
    exit 1
fi
i=0
for name in $("$program" --list); do
    i=$((i + 1))
    echo "$version $isa $name $(sed -n 's/^totals: //p' "$folder/out.$i")"
done >"$folder/found"

if $record; then
    {
        echo "# Instructions of bench/counts/work.c built with $family, by tools/check_counts.sh --record: version, instruction"
        echo "# set, what was counted, how many."
        grep -v "^#" "$file" 2>/dev/null | grep -v "^$version $isa " || true
        cat "$folder/found"
    } >"$folder/record"
    cp "$folder/record" "$file"
    echo "counts: $family $version, $isa: $i recorded"
    exit 0
fi

printf '%-16s %14s %14s %8s\n' "$family $version, $isa" instructions bound ratio
awk -v percent=$percent '
    /^#/ { next }
    FNR == NR { recorded[$1 " " $2 " " $3] = $4; next }
    {
        was = recorded[$1 " " $2 " " $3]
        bound = int(was * (1 + percent / 100))
        ratio = was > 0 ? $4 / was : 0
        verdict = was == 0 ? "NOT RECORDED" : $4 > bound ? "ABOVE" : ratio < 1 - percent / 100 ? "far below: record it anew" : ""
        bad += was == 0 || $4 > bound
        printf "%-16s %14d %14d %8.3f %s\n", $3, $4, bound, ratio, verdict
    }
    END { exit bad > 0 }' "$file" "$folder/found" || {
    echo "counts: a kernel takes more instructions than recorded; if that is meant: tools/check_counts.sh --record $build" >&2
    exit 1
}
