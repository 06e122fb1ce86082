# qsa verify: recorded cases as they are, changed, broken, and of unknown kinds.
. "$(dirname "$0")/expect.sh"

copy() { # files of the golden folder...
    rm -rf "$folder/cases"
    mkdir -p "$folder/cases/stage"
    for file in "$@"; do
        cp "$golden/$file" "$folder/cases/$file"
    done
}

copy stage/small_f32.txt stage/small_a3_bf16.txt stage/ties_bf16.txt stage/rope_yarn.txt
run 0 verify --golden "$folder/cases"
says "0 differences"
[ "$(grep -c ' ok ' "$folder/out")" = 4 ] || fail "not four lines that are ok"

# One number changed: a selection, a number, a count, a table.
tamper() { # file, sed expression, words
    copy "$1"
    sed -i "$2" "$folder/cases/$1"
    cmp -s "$golden/$1" "$folder/cases/$1" && fail "$1: nothing was changed by $2"
    run 1 verify --golden "$folder/cases"
    says DIFFERS
    says "$3"
}
tamper stage/small_f32.txt '/^tensor selected i32/{n;n;n;s/^0 1 2 3/0 1 3 4/}' "groups of token"
tamper stage/ties_f32.txt '/^tensor selected i32/{n;n;n;s/^0 1 2 3/0 1 3 4/}' "groups of token"
tamper stage/small_f32.txt '/^tensor query_tail/{n;s/^1 2 3/1 2 2/}' "token 2"
tamper stage/small_f32.txt '/^tensor output_exact/{n;s/^[0-9a-f]*/3f800000/}' "output (exact)"
tamper stage/small_bf16.txt '/^tensor pooled bf16/{n;s/^[0-9a-f]*/3f80/}' "pooled key"
tamper stage/small_f32.txt '/^tensor score f32/{n;s/^[0-9a-f]*/3f812345/}' "scores of token"
tamper stage/rope_plain.txt '/^tensor sin f32/{n;s/^[0-9a-f]*/3f800000/}' "sin, row"
tamper stage/rope_plain.txt '/^tensor inv_freq/{n;s/^[0-9a-f]*/3f7fffff/}' "frequencies"

# Canonical records: one path case as it is, then with a hash changed.
canonical() { # case
    { echo "golden 1"; echo "kind canonical"; sed -n "/^case $1\$/,/^last_output/p" "$golden/canonical.txt"; echo end; }
}
copy
canonical path_base_f32_f32 >"$folder/cases/canonical.txt"
run 0 verify --golden "$folder/cases"
for stage in cos_sin index_q pooled scores rows k_stored v_stored main_q outputs; do
    canonical path_base_f32_f32 | awk -v key="hash_$stage" '
        $1 == key { last = length($2); $2 = substr($2, 1, last - 1) (substr($2, last) == "0" ? "1" : "0") }
        { print }' >"$folder/cases/canonical.txt"
    run 1 verify --golden "$folder/cases"
    says "$stage differ"
done
canonical path_base_q8_0_f32 >"$folder/cases/canonical.txt"
run 0 verify --golden "$folder/cases"

# Broken files, and files of other kinds.
copy stage/small_f32.txt
head -n 40 "$golden/stage/small_f32.txt" >"$folder/cases/stage/small_f32.txt"
run 1 verify --golden "$folder/cases"
says "line"
copy stage/small_f32.txt
sed -i 's/^ratio 4/ratio 3/' "$folder/cases/stage/small_f32.txt"
run 1 verify --golden "$folder/cases"
says "power of two"
copy stage/rope_plain.txt
echo "notes" >"$folder/cases/notes.log"
echo "what they are" >"$folder/cases/README.md"
printf 'golden 1\nkind other\nend\n' >"$folder/cases/other.txt"
run 0 verify --golden "$folder/cases"
says "notes.log"
says "ignored"
grep -q README "$folder/out" && fail "a README is listed among the cases"
says "kind 'other' is not known"
copy
run 1 verify --golden "$folder/cases"

finish
