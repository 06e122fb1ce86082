# qsa make: the smallest model is written, inspected and run; signals and bad command lines leave nothing.
. "$(dirname "$0")/expect.sh"

mkdir "$folder/models"
is_empty() {
    [ -z "$(ls -A "$folder/models")" ] || fail "$1 leaves $(ls -A "$folder/models")"
}

# Until $program has a file in the folder open.
wait_for_work() {
    while ! ls -l "/proc/$program/fd" 2>/dev/null | grep -q "$folder/models/" && kill -0 $program 2>/dev/null; do
        sleep 0.05
    done
}

small="--experts 10 --vocabulary 1024 --type q4_0"
refuses 2 "no model file" make
refuses 2 "one argument too many" make a b
refuses 2 "--layers must be a whole number from 4 to 1024" make --layers 3 "$folder/models/a"
refuses 2 "--experts must be a whole number from 10 to 4096" make --experts 9 "$folder/models/a"
refuses 2 "--vocabulary must be a whole number from 1024 to 248320" make --vocabulary 248321 "$folder/models/a"
refuses 2 "--type must be q8_0, q4_0, bf16, f16, f32, q3_k_m, q4_k_m, q5_k_m, q6_k or iq4_xs" make --type q5_0 "$folder/models/a"
refuses 1 "are free" make --layers 1024 --experts 4096 --type f32 "$folder/models/a"
refuses 1 "not a regular file" make $small "$folder/models"
refuses 1 "nowhere" make $small "$folder/nowhere/a"
is_empty "a refusal"

# A signal in the middle of the work: the file under work has no name yet.
for signal in 2 15; do
    "$QSA" make --layers 64 "$folder/models/a" >"$folder/out" 2>"$folder/err" &
    program=$!
    wait_for_work
    kill -$signal $program
    wait $program
    status=$?
    [ "$status" = "$((128 + signal))" ] || fail "signal $signal: exit status $status"
    grep -q "interrupted" "$folder/err" || fail "signal $signal is not said"
    is_empty "signal $signal"
done

"$QSA" make --layers 64 "$folder/models/a" >"$folder/out" 2>"$folder/err" &
program=$!
wait_for_work
kill -9 $program
wait $program
[ $? = 137 ] || fail "make ended before kill -9"
is_empty "kill -9"

run 0 make $small "$folder/models/a"
says "$folder/models/a: written in"
run 0 inspect --json "$folder/models/a"
is_json "$folder/out" 'lines[0]["embedding"] == 2560 and lines[0]["experts"] == 10 and lines[0]["vocabulary"] == 1024'
is_json "$folder/out" 'lines[0]["qsa_layers"] == 1 and lines[0]["q_heads"] == 24 and lines[0]["main_type"] == "q4_0"'
run 0 run -m "$folder/models/a" -p "some words" -n 3 -t 1
[ -s "$folder/out" ] || fail "nothing is said"


# A mixture in shards: written, opened by its first shard, inspected and run.
rm "$folder/models/a"
run 0 make --experts 10 --vocabulary 1024 --type q4_k_m --shards 3 "$folder/models/b.gguf"
says "in 3 files"
[ "$(ls "$folder/models" | tr '\n' ' ')" = "b-00001-of-00003.gguf b-00002-of-00003.gguf b-00003-of-00003.gguf " ] ||
    fail "not three shards: $(ls "$folder/models")"
run 0 inspect --json "$folder/models/b-00001-of-00003.gguf"
is_json "$folder/out" 'lines[0]["shards"] == 3'
run 0 run -m "$folder/models/b-00001-of-00003.gguf" -p "some words" -n 3 -t 1
[ -s "$folder/out" ] || fail "nothing is said by shards"

finish
