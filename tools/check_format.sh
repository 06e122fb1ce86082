#!/bin/sh
# Checks, or with --fix sets, the format of our C files; in files that clang-format does not read, the length of lines.
#
# usage: tools/check_format.sh [--fix]
#
# clang-format's output changes from version to version; the tree is formatted with the one named below, and another
# only says so.
set -eu
cd "$(dirname "$0")/.."

version=14
tool=$(command -v clang-format-$version || command -v clang-format)
found=$("$tool" --version | sed 's/.*version \([0-9]*\).*/\1/')

# Files not yet added to git count as well; ignored and deleted ones do not.
files=$(git ls-files --cached --others --exclude-standard -- '*.c' '*.h' | while read -r file; do
    [ -e "$file" ] && echo "$file"
done)
count=$(echo "$files" | wc -l)

if [ "${1:-}" = --fix ]; then
    echo "$files" | xargs "$tool" -i
    echo "format: $count files formatted with clang-format $found"
elif [ "$found" != $version ]; then
    echo "format: SKIP, clang-format is version $found and the tree is formatted with $version"
else
    echo "$files" | xargs "$tool" --dry-run -Werror
    echo "format: $count files"
fi

git ls-files -- '*.c' '*.h' '*.inc' '*.cl' '*.cpp' | xargs awk '
    length($0) > 120 { print FILENAME ":" FNR ": a line of " length($0) " characters, at most 120"; n++ }
    END { exit n > 0 }'
