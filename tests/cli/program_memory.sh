# Memory, as the program shows it: the plan of qsa inspect, -c max, refusals and endings where there is too little.
. "$(dirname "$0")/expect.sh"

tiny=$golden/model/tiny-q8_0.gguf

# The plan: every part, what is free, and a verdict; the same in JSON.
run 0 inspect "$tiny"
for words in "memory     of a context of 4096 tokens:" experts "delta nets" "QSA layers" hyper-connections cache \
    "recurrent states" activations "resident, in all" "n-gram table" "a few rows per token" "free: machine" \
    "runs here  with a context of 4096 tokens"; do
    says "$words"
done
run 0 inspect --json "$tiny"
is_json "$folder/out" '(lambda p: p["fit"] == "memory" and p["largest_context"] == p["context"] == 4096 and
    sum(p["weight_bytes"].values()) - p["weight_bytes"]["n-gram table"] - p["weight_bytes"]["token embedding"]
    + p["copied_bytes"] + p["cache_bytes"] + p["state_bytes"] + p["activation_bytes"] == p["resident_bytes"])(
    lines[0]["plan"])'

run 0 run -m "$tiny" -p "The river" -n 2 -t 1 -c max
grep -qx "qsa run: -c max: a context of 4096 tokens, of the model's 4096" "$folder/err" || fail "-c max is not said"
refuses 2 "option -c must be a whole number" run -m "$tiny" -p a -c most

# Mapped, locked or read into memory: one text.
for way in "" --mlock --no-mmap; do
    # shellcheck disable=SC2086 # a list of words
    run 0 run -m "$tiny" -p "The river" -n 20 -t 2 $way
    [ -n "$way" ] || cp "$folder/out" "$folder/once"
    cmp -s "$folder/out" "$folder/once" || fail "$way: another text"
done

# A file that is cut short while it runs: one line with its name, and an exit status.
cp "$tiny" "$folder/cut.gguf"
rm "$folder/out"
"$QSA" run -m "$folder/cut.gguf" -p "The river" -n 4000 -c 4096 -t 2 --temp 1.5 --save "$folder/saved" \
    >"$folder/out" 2>"$folder/err" &
program=$!
while [ ! -s "$folder/out" ] && kill -0 $program; do sleep 0.01; done
kill -STOP $program
: >"$folder/cut.gguf"
kill -CONT $program
wait $program
status=$?
[ "$status" = 1 ] || fail "a file cut short: exit status $status, expected 1"
[ "$(wc -l <"$folder/err")" = 1 ] || fail "a file cut short: not one line"
grep -q "^qsa run: $folder/cut.gguf: cannot be read any more: .*; nothing was saved$" "$folder/err" ||
    fail "a file cut short is not named"
[ ! -e "$folder/saved" ] || fail "a file cut short: something was saved"

# Where memory is limited by ulimit -v. A program under a sanitizer reserves terabytes and cannot be limited so.
if (ulimit -v 4000000 && "$QSA" --version >"$folder/out" 2>&1); then
    # The first limit under which the tiny model runs with a context of one page; a little more is a little more context.
    least=""
    for limit in $(seq 10000 500 60000); do
        if (ulimit -v "$limit" && "$QSA" run -m "$tiny" -p a -n 1 -t 1 -c 64 >"$folder/out" 2>"$folder/err"); then
            least=$limit
            break
        fi
    done
    [ -n "$least" ] || fail "the tiny model runs under no limit"
    (ulimit -v "$least" && exec "$QSA" run -m "$tiny" -p a -n 1 -t 1 -c 4096 >"$folder/out" 2>"$folder/err")
    [ $? = 1 ] || fail "a context beyond the address space is not refused"
    grep -q "a context of 4096 tokens takes .* MiB, the limit on address space (ulimit -v) leaves .* MiB; the largest that fits has" \
        "$folder/err" || fail "the refusal lacks its numbers"

    # Whatever the limit: the work, or one line of what is missing; no abort, no crash. Below some limit nothing starts at all.
    for limit in $(seq 8000 40 "$least"); do
        (ulimit -v "$limit" && "$QSA" --version || exit 1) >"$folder/version" 2>&1 || continue
        (ulimit -v "$limit" && "$QSA" run -m "$tiny" -p a -n 1 -t 2 >"$folder/out" 2>"$folder/err") 2>"$folder/shell"
        status=$?
        case $status in
        0) ;;
        1) [ "$(wc -l <"$folder/err")" = 1 ] || fail "ulimit -v $limit: not one line" ;;
        *) fail "ulimit -v $limit: exit status $status" ;;
        esac
    done
fi

finish
