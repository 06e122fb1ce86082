# qsa demo on a short ledger: the model is made once, every answer is right. The default model continues any text.
. "$(dirname "$0")/expect.sh"

export XDG_CACHE_HOME=$3
run 0 demo --tokens 2300 --questions 2 -t 1
says "2/2 right"
run 0 demo --tokens 300 --questions 1 --seed 9 -t 1 --chunk 100 --kv f32 --index f32
says "1/1 right"
grep -q "making" "$folder/err" && fail "the model is made a second time"
refuses 1 "questions" demo --tokens 100 --questions 8
refuses 2 "--tokens must be a whole number from 1 to 262048" demo --tokens 0
refuses 2 "--tokens must be a whole number from 1 to 262048" demo --tokens 262049
refuses 2 "--questions" demo --questions 1001

printf 'A lighthouse keeper counted the ships that passed.\nHe wrote their names in a book.\n' >"$folder/book"
run 0 run -f "$folder/book" -p "A lighthouse keeper cou" -n 12 -t 1
[ "$(cat "$folder/out")" = "nted the shi" ] || fail "the sentence is not continued"

finish
