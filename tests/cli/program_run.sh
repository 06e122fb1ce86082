# qsa run: what it prints where, and what it refuses.
. "$(dirname "$0")/expect.sh"

has_help run demo make inspect

tiny=$golden/model/tiny-bf16.gguf
exact="--weights f32 --kv f32 --index f32"

# The recorded greedy text, byte for byte, whatever threads and chunks; nothing else on standard output.
python3 - "$golden/model/greedy.txt" "$folder" <<'PY'
import re, sys
for line in open(sys.argv[1], encoding="ascii"):
    key, _, rest = line.rstrip("\n").partition(" ")
    if key in ("text", "next_text"):
        text = re.sub(rb"\\x(..)", lambda m: bytes([int(m.group(1), 16)]), rest.encode("ascii"))
        open(sys.argv[2] + "/" + key, "wb").write(text)
PY
for way in "-t 1" "-t 2 --chunk 7" "-t 1 --chunk 1"; do
    # shellcheck disable=SC2086 # lists of words
    run 0 run -m "$tiny" -f "$folder/text" -n 32 $exact $way
    python3 -c 'import sys; sys.stdout.buffer.write(sys.stdin.buffer.read().decode(errors="replace").encode())' \
        <"$folder/out" >"$folder/lossy"
    cmp -s "$folder/lossy" "$folder/next_text" || fail "$way: not the recorded text"
done
for words in "prompt    100 tokens" "decode    31 tokens" memory "of the tokens visible"; do
    grep -q "$words" "$folder/err" || fail "the summary lacks '$words'"
done

# Native weights: one text for any chunk and any number of threads; a seed decides a sample.
run 0 run -m "$tiny" -p "The river runs from the mountain" -n 40 -t 1
cp "$folder/out" "$folder/once"
for way in "--chunk 1 -t 1" "--chunk 3 -t 2"; do
    # shellcheck disable=SC2086
    run 0 run -m "$tiny" -p "The river runs from the mountain" -n 40 $way
    cmp -s "$folder/out" "$folder/once" || fail "$way: another text"
done
run 0 run -m "$tiny" -p "The river" -n 2 -t 1024
grep -q "threads are started, not 1024" "$folder/err" || fail "threads beyond the processors are not spoken of"
run 0 run -m "$tiny" -p "The river" -n 2 -t 1
! grep -q "threads are started" "$folder/err" || fail "one thread is spoken of"
run 0 run -m "$tiny" -p "The river" -n 30 --temp 1.5 --top-k 50 --top-p 0.95 --min-p 0.01 --seed 5 -t 1
cp "$folder/out" "$folder/once"
run 0 run -m "$tiny" -p "The river" -n 30 --temp 1.5 --top-k 50 --top-p 0.95 --min-p 0.01 --seed 5 -t 1
cmp -s "$folder/out" "$folder/once" || fail "the same seed gives another text"
run 0 run -m "$tiny" -p "The river" -n 30 --temp 1.5 --top-k 50 --top-p 0.95 --min-p 0.01 --seed 6 -t 1
cmp -s "$folder/out" "$folder/once" && fail "another seed gives the same text"

# The file is read first, then the text.
printf 'The river ' >"$folder/first"
run 0 run -m "$tiny" -f "$folder/first" -p "runs" -n 8 -t 1
cp "$folder/out" "$folder/once"
run 0 run -m "$tiny" -p "The river runs" -n 8 -t 1
cmp -s "$folder/out" "$folder/once" || fail "file and text are not one text"
printf 'The river runs' | "$QSA" run -m "$tiny" -f /dev/stdin -n 8 -t 1 >"$folder/out" 2>"$folder/err"
cmp -s "$folder/out" "$folder/once" || fail "a pipe is not read as a file is"

# Nothing to generate; a context that fills.
run 0 run -m "$tiny" -p "The river" -n 0 -t 1
[ -s "$folder/out" ] && fail "-n 0 writes"
grep -q "^prompt  .* tokens in " "$folder/err" || fail "-n 0 does not say what was read"
grep -q "^decode" "$folder/err" && fail "-n 0 has a rate of nothing"
run 0 run -m "$tiny" -p "The river" -n 100 -c 20 -t 1
grep -q "the context is full" "$folder/err" || fail "a full context is not said"
run 0 run -m "$tiny" -p "a" -n 1 -c 1 -t 1

# Refusals.
refuses 1 "the prompt has 100 tokens, more than the context of 50" run -m "$tiny" -f "$folder/text" -c 50
refuses 1 "this model takes 1 to" run -m "$tiny" -p a -c 2000000000
refuses 1 "is a directory" run -m "$folder" -p a
refuses 1 "nowhere" run -m "$folder/nowhere" -p a
refuses 1 "nowhere" run -m "$tiny" -f "$folder/nowhere"
refuses 1 "directory" run -m "$tiny" -f "$folder"
refuses 1 "empty" run -m "$tiny" -p ""
for option in -m -f --load --save; do
    refuses 2 "option $option must name a file" run -p a "$option" ""
done
refuses 1 "/dev/zero: more than 1024 MiB" run -m "$tiny" -f /dev/zero
refuses 2 "nothing to read" run -m "$tiny"
for bad in "-n x" "-n -1" "-c 0" "-c 1.5" "-t 0" "-t 1025" "--temp hot" "--temp -1" "--temp nan" "--top-p 0" "--top-p 1.1" \
    "--min-p 2" "--top-k -1" "--seed -1" "--kv q4" "--index f16" "--weights f16" "--chunk 0" "--chunk 65537" "--frob"; do
    # shellcheck disable=SC2086
    refuses 2 "${bad%% *}" run -m "$tiny" -p a $bad
done
size=$(wc -c <"$tiny")
for part in 0 10 1000 $((size / 2)) $((size - 1)); do
    head -c "$part" "$tiny" >"$folder/cut.gguf"
    refuses 1 "cut.gguf" run -m "$folder/cut.gguf" -p a
done
if [ -w /dev/full ]; then
    "$QSA" run -m "$tiny" -p "The river" -n 5 -t 1 >/dev/full 2>"$folder/err" && fail "a full disk is no error"
    grep -q "cannot write to standard output" "$folder/err" || fail "a full disk is not said"
fi

# Ctrl-C stops cleanly, with the summary.
"$QSA" run -m "$tiny" -p "The river" -n 100000 -t 1 >"$folder/out" 2>"$folder/err" &
program=$!
for _ in $(seq 100); do
    [ -s "$folder/out" ] && break
    sleep 0.1
done
kill -INT $program 2>/dev/null
wait $program
status=$?
[ "$status" = 130 ] || grep -q "stopped:" "$folder/err" || fail "after SIGINT: exit status $status"
grep -q "decode" "$folder/err" || fail "no summary after SIGINT"

# The summary of a file.
run 0 inspect --json "$tiny"
is_json "$folder/out" 'len(lines) == 1 and lines[0]["ratio"] == 4'
refuses 1 "nowhere" inspect "$folder/nowhere"
refuses 2 "no model file" inspect

# A file whose ratios are all 0, as today's converter writes it, runs sparse, says so, and gives the text of the right one.
zero=$folder/zero-ratios.gguf
python3 - "$golden/model/tiny-q8_0.gguf" "$zero" <<'PY'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
key = b"qwen4exp.attention.compress_ratios"
at = data.index(key) + len(key)
kind, element, count = struct.unpack_from("<IIQ", data, at)
assert kind == 9 and element in (4, 5) and count == 8
data[at + 16 : at + 16 + 4 * count] = bytes(4 * count)
open(sys.argv[2], "wb").write(data)
PY
run 0 run -m "$golden/model/tiny-q8_0.gguf" -f "$folder/text" -n 20 -t 1
cp "$folder/out" "$folder/once"
grep -q warning "$folder/err" && fail "a warning about a file that is in order"
run 0 run -m "$zero" -f "$folder/text" -n 20 -t 1
cmp -s "$folder/out" "$folder/once" || fail "zero ratios: another text"
grep -q "warning: compress_ratios is missing or all 0" "$folder/err" || fail "zero ratios: no warning"
run 0 inspect "$zero"
says "WARNING    compress_ratios is missing or all 0"
run 0 inspect "$golden/model/tiny-q8_0.gguf"
grep -q WARNING "$folder/out" && fail "inspect warns of a file that is in order"
run 0 inspect --json "$zero"
python3 -m json.tool <"$folder/out" >/dev/null || fail "inspect --json prints no JSON"

# A stop string ends the text before it, wherever tokens begin; nothing of it is written.
tiny=$golden/model/tiny-bf16.gguf
run 0 run -m "$tiny" -p "The river" -n 40 -t 1
cp "$folder/out" "$folder/whole"
for stop in e "the" "read" "$(tail -c 5 "$folder/whole")"; do
    run 0 run -m "$tiny" -p "The river" -n 40 -t 1 --stop "$stop" --stop "never said"
    python3 - "$folder/whole" "$folder/out" "$stop" <<'PY' || fail "--stop '$stop'"
import os, sys
whole, found = (open(path, "rb").read() for path in sys.argv[1:3])
sys.exit(found != whole.split(os.fsencode(sys.argv[3]))[0] or found == whole)
PY
    grep -q "stopped: stop string" "$folder/err" || fail "--stop '$stop': the summary does not say so"
done
run 0 run -m "$tiny" -p "The river" -n 40 -t 1 --stop "never said"
cmp -s "$folder/out" "$folder/whole" || fail "a stop string that does not come changes the text"
for option in "--repeat-penalty 2" "--presence-penalty 9" "--frequency-penalty 9"; do
    # shellcheck disable=SC2086 # two words
    run 0 run -m "$tiny" -p "The river" -n 40 -t 1 $option
    cmp -s "$folder/out" "$folder/whole" && fail "$option changes nothing"
    # shellcheck disable=SC2086
    run 0 run -m "$tiny" -p "The river" -n 40 -t 1 $option --repeat-last-n 0
    cmp -s "$folder/out" "$folder/whole" || fail "$option counts tokens although none are looked at"
done
refuses 2 "--logit-bias must be" run -m "$tiny" -p a --logit-bias 5
refuses 2 "--stop must be a text" run -m "$tiny" -p a --stop ""
refuses 2 "--repeat-penalty must be above 0" run -m "$tiny" -p a --repeat-penalty 0
refuses 1 "a bias for token" run -m "$tiny" -p a --logit-bias 99999999+1

# What the file recommends holds for options that are not given, and is said.
edit="python3 $(dirname "$0")/gguf_edit.py"
$edit "$tiny" "$folder/advice.gguf" 'keys["general.sampling.temp"] = f32, 1.2' 'keys["general.sampling.top_k"] = i32, 40' \
    'keys["general.sampling.penalty_last_n"] = i32, -1' 'keys["general.sampling.mirostat"] = i32, 0'
run 0 run -m "$tiny" -p "The river" -n 40 -t 1 --temp 1.2 --top-k 40 --seed 5
cp "$folder/out" "$folder/drawn"
cmp -s "$folder/drawn" "$folder/whole" && fail "the text that was drawn is the greedy one: choose another seed"
run 0 run -m "$folder/advice.gguf" -p "The river" -n 40 -t 1 --seed 5
cmp -s "$folder/out" "$folder/drawn" || fail "what the file recommends is not applied"
grep -qF -- "sampling as the file recommends: --temp 1.2 --top-k 40 --repeat-last-n 16777216" "$folder/err" ||
    fail "does not say what the file recommends"
run 0 run -m "$folder/advice.gguf" -p "The river" -n 40 -t 1 --temp 0 --repeat-last-n 64
cmp -s "$folder/out" "$folder/whole" || fail "--temp 0 does not replace what the file recommends"
grep -qF -- "recommends: --top-k 40" "$folder/err" || fail "says more than it takes from the file"
run 0 run -m "$folder/advice.gguf" -p "The river" -n 1 -t 1 --temp 0 --top-k 0 --repeat-last-n 9
grep -qF "recommends" "$folder/err" && fail "says a recommendation of which nothing was taken"
run 0 inspect "$folder/advice.gguf"
says "sampling   recommended: --temp 1.2 --top-k 40 --repeat-last-n 16777216"
says "a way of sampling that is not offered here"
run 0 inspect --json "$folder/advice.gguf"
is_json "$folder/out" 'lines[0]["sampling"]["top_k"] == 40 and abs(lines[0]["sampling"]["temp"] - 1.2) < 1e-6'
run 0 inspect --json "$tiny"
is_json "$folder/out" 'lines[0]["sampling"] is None'
for wrong in '"general.sampling.temp"] = f32, 1001' '"general.sampling.temp"] = f32, float("nan")' \
    '"general.sampling.top_p"] = f32, 1.5' '"general.sampling.top_k"] = string, b"20"' \
    '"general.sampling.top_k"] = array, (i32, [1, 2])'; do
    $edit "$tiny" "$folder/wrong.gguf" "keys[$wrong"
    refuses 1 "general.sampling" run -m "$folder/wrong.gguf" -p a
done

# Every end token ends the text, unless it is ignored; control tokens are written only on request.
for end in 556 558; do # <|endoftext|>, <|im_end|>
    run 0 run -m "$tiny" -p "The river" -n 9 -t 1 --logit-bias $end+1000
    [ -s "$folder/out" ] && fail "end token $end is written"
    grep -q "stopped: end of text" "$folder/err" || fail "token $end does not end the text"
done
run 0 run -m "$tiny" -p "The river" -n 40 -t 1 --logit-bias 556+1000 --logit-bias 558+1000 --ignore-eos
cmp -s "$folder/out" "$folder/whole" || fail "--ignore-eos: the ends are not what is left out"
run 0 run -m "$tiny" -p "The river" -n 3 -t 1 --logit-bias 557+1000 # <|im_start|>
[ -s "$folder/out" ] && fail "a control token is written"
grep -q "decode *2 tokens" "$folder/err" || fail "a control token ends the text"
run 0 run -m "$tiny" -p "The river" -n 3 -t 1 --logit-bias 557+1000 --show-controls
[ "$(cat "$folder/out")" = "<|im_start|><|im_start|><|im_start|>" ] || fail "--show-controls does not show them"

# Rows of the vocabulary without a text are never chosen, whatever their logits.
$edit "$tiny" "$folder/padded.gguf" 'keys["tokenizer.ggml.tokens"][1][1][560:] = []' \
    'keys["tokenizer.ggml.token_type"][1][1][560:] = []'
for seed in 1 2 3; do
    run 0 run -m "$folder/padded.gguf" -p "The river" -n 300 -t 2 --temp 50 --seed $seed --ignore-eos
    grep -q "decode *299 tokens" "$folder/err" || fail "a padded vocabulary ends the text"
done
refuses 1 "a bias for token 560; the vocabulary has 560" run -m "$folder/padded.gguf" -p a --logit-bias 560+1

finish
