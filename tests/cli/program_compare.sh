# bench/compare/compare.py, with our own driver in the peer's place: it agrees with itself, and a peer that does not is found.
. "$(dirname "$0")/expect.sh"

export XDG_CACHE_HOME=$3
build=$(dirname "$QSA")
compare="$(dirname "$0")/../../bench/compare/compare.py"
short="--build $build --peer $folder/peer --tokens 600 --depths 128,512 --steps 8 --threads 1"

# status, further options...
compare() {
    wanted=$1
    shift
    python3 "$compare" $short "$@" >"$folder/out" 2>"$folder/err" </dev/null
    status=$?
    [ "$status" = "$wanted" ] || fail "compare.py $*: exit status $status, expected $wanted"
}

compare 0 --driver "$build/bench/compare_ours" --processor
is_json "$folder/out" 'all({"name", "value", "unit", "ratio", "probe"} <= x.keys() for x in lines) and len(lines) == 6'
is_json "$folder/out" '[x["value"] for x in lines if x["name"] == "same_continuation"] == [1]'
is_json "$folder/out" '[x["is_the_expected_answer"] for x in lines if x["name"] == "same_continuation"] == [True]'
is_json "$folder/out" '[0.2 < x["ratio"] < 5 for x in lines if x["name"] == "quoter_prefill_peer_over_ours"] == [True]'
compare 0 --driver "$build/bench/compare_ours" --kept
is_json "$folder/out" '{x["name"] for x in lines} >= {"decode_peer_over_ours_128", "prefill_peer_over_ours_512"}'

# A peer that says something else in the end, and one that makes other tokens.
cat >"$folder/liar" <<EOD
#!/bin/sh
"$build/bench/compare_ours" "\$@" | sed -u "\$(cat "$folder/lie")"
EOD
chmod +x "$folder/liar"
echo 's/^\([0-9]* \)\{39\}[0-9]*$/1 2 3/' >"$folder/lie"
compare 1 --driver "$folder/liar"
is_json "$folder/out" '[x["value"] for x in lines if x["name"] == "same_continuation"] == [0]'
echo '1s/^[0-9]*/7/' >"$folder/lie"
compare 1 --driver "$folder/liar"
grep -q "tokens of the text" "$folder/err" || fail "other tokens are not said"
compare 1 --driver "$folder/liar" --build "$folder"
grep -q "is missing" "$folder/err" || fail "a missing driver is not said"
compare 2 --driver "$folder/liar" --steps 7
compare 1 --driver "$folder/liar" --model some.gguf
grep -q "go together" "$folder/err" || fail "a model without a text is not refused"

finish
