# qsa run --save and --load, and qsa snapshot: a text goes on as if it had never stopped; whatever happens to a save, the file
# is whole.
. "$(dirname "$0")/expect.sh"

tiny=$golden/model/tiny-bf16.gguf
saved=$folder/a.qsa
text="A river runs from the mountain to the sea, and"

# In one go, and in three, with other threads and chunks; greedy and sampled.
for sampling in "--temp 0" "--temp 1.2 --top-k 40 --seed 5"; do
    # shellcheck disable=SC2086 # lists of words
    run 0 run -m "$tiny" -p "$text" -n 60 $sampling -t 1
    grep -q "decode *59 tokens" "$folder/err" || fail "$sampling: the text ends by itself, choose another seed"
    cp "$folder/out" "$folder/whole"
    # shellcheck disable=SC2086
    run 0 run -m "$tiny" -p "$text" -n 17 $sampling -t 1 --save "$saved"
    cp "$folder/out" "$folder/parts"
    # shellcheck disable=SC2086
    run 0 run -m "$tiny" --load "$saved" -n 13 ${sampling%--seed 5} -t 2 --chunk 5 --save "$saved"
    cat "$folder/out" >>"$folder/parts"
    grep -q "loaded    .* tokens" "$folder/err" || fail "the summary does not say what was loaded"
    grep -q "saved     .* tokens" "$folder/err" || fail "the summary does not say what was saved"
    # shellcheck disable=SC2086
    run 0 run -m "$tiny" --load "$saved" -n 30 ${sampling%--seed 5} -t 1
    cat "$folder/out" >>"$folder/parts"
    cmp -s "$folder/parts" "$folder/whole" || fail "$sampling: saved and loaded, the text is another one"
done

# Text is read after what was saved.
run 0 run -m "$tiny" -p "The river" -n 0 -t 1 --save "$saved"
run 0 run -m "$tiny" --load "$saved" -p " runs" -n 20 -t 1
cp "$folder/out" "$folder/parts"
run 0 run -m "$tiny" -p "The river runs" -n 20 -t 1
cmp -s "$folder/out" "$folder/parts" || fail "text after a load is not text after what was read"
run 0 run -m "$tiny" --load "$saved" -n 20 -t 1 # nothing new: what was read is continued
cp "$folder/out" "$folder/parts"
run 0 run -m "$tiny" -p "The river" -n 20 -t 1
cmp -s "$folder/out" "$folder/parts" || fail "a prompt that was saved is not continued"

# All that was written is in the file, also where the context ends it.
run 0 run -m "$tiny" -p "The river" -n 100 -c 20 -t 1 --save "$saved"
run 0 snapshot info --json "$saved"
is_json "$folder/out" 'len(lines) == 1 and lines[0]["sequences"][0]["tokens"] == 20 and lines[0]["version"] == 1'
is_json "$folder/out" '[x["tag"] for x in lines[0]["host"]][:3] == ["ENGN", "TOKS", "ST00"]'
refuses 1 "more than the context of 19" run -m "$tiny" --load "$saved" -c 19

# What the file says of itself.
run 0 snapshot info "$saved"
for words in "20 tokens at [0, 20)" "K and V bf16, index bf16" "digest" "ENGN, 24 bytes" "TOKS, 80 bytes"; do
    says "$words"
done
for type in f32 f16 q8_0; do
    run 0 run -m "$tiny" -p "The river" -n 0 -t 1 --kv "$type" --save "$folder/$type"
    run 0 snapshot info "$folder/$type"
    says "K and V $type, index bf16"
done
run 0 snapshot verify "$saved"
says "good; 1 sequence, 20 tokens"
[ "$(wc -l <"$folder/out")" = 1 ] || fail "the verdict is not one line"
size=$(wc -c <"$saved")
for part in 1 15 100 $((size / 2)) $((size - 1)); do
    head -c "$part" "$saved" >"$folder/cut"
    refuses 1 "snapshot" snapshot verify "$folder/cut"
    refuses 1 "snapshot" run -m "$tiny" --load "$folder/cut"
done
for at in 3 60 $((size / 3)) $((size - 3)); do
    python3 - "$saved" "$folder/cut" "$at" <<'PY'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[int(sys.argv[3])] ^= 4
open(sys.argv[2], "wb").write(data)
PY
    refuses 1 "snapshot" snapshot verify "$folder/cut"
done
(cat "$saved"; printf x) >"$folder/cut"
refuses 1 "snapshot" snapshot verify "$folder/cut"

# Whatever ends a run, what was read and written is saved, and said; the text goes on from there.
whole() { # words: the run before failed in one line that says so, and its session goes on
    grep -qF -- "$1" "$folder/err" || fail "does not say '$1'"
    grep -qE "[0-9]+ tokens are saved in" "$folder/err" || fail "$1: does not say what was saved"
    run 0 snapshot verify "$saved"
    held=$(sed -n 's/.*sequence, \([0-9]*\) tokens.*/\1/p' "$folder/out")
    run 0 run -m "$tiny" -p "$text" -n 60 --temp 0 -t 1 --save "$folder/longer"
    cp "$folder/out" "$folder/whole"
    run 0 run -m "$tiny" --load "$saved" -n $((60 + prompt_tokens - held)) --temp 0 -t 1
    tail -c "$(wc -c <"$folder/out")" "$folder/whole" | cmp -s - "$folder/out" || fail "$1: the text does not go on"
}
run 0 run -m "$tiny" -p "$text" -n 0 -t 1 --save "$saved"
prompt_tokens=$(sed -n 's/^prompt *\([0-9]*\) tokens.*/\1/p' "$folder/err")
if [ -w /dev/full ]; then
    rm -f "$saved"
    "$QSA" run -m "$tiny" -p "$text" -n 60 -t 1 --save "$saved" >/dev/full 2>"$folder/err"
    [ $? = 1 ] || fail "/dev/full: the exit status is not 1"
    whole "cannot write to standard output"
fi
rm -f "$saved"
("$QSA" run -m "$tiny" -p "$text" -n 60 -t 1 --save "$saved" 2>"$folder/err"; echo $? >"$folder/status") | head -c 5 >"$folder/out"
[ "$(cat "$folder/status")" = 1 ] || fail "a closed pipe: the exit status is not 1"
whole "cannot write to standard output"

# A save that fails leaves the old file, and no other.
run 0 run -m "$tiny" -p "$text" -n 5 -t 1 --save "$saved"
cp "$saved" "$folder/old"
count=$(find "$folder" | wc -l)
(ulimit -f 8; "$QSA" run -m "$tiny" -p "$text" -n 60 -t 1 --save "$saved" >/dev/null 2>"$folder/err")
[ $? = 1 ] || fail "a limit of file sizes: the exit status is not 1"
grep -qF "File too large" "$folder/err" || fail "does not name the limit of file sizes"
cmp -s "$saved" "$folder/old" || fail "a failed save changed the old file"
[ "$(find "$folder" | wc -l)" = "$count" ] || fail "a failed save left a file"

# Nothing but a saved session is replaced, under whatever name it is reached.
cp "$tiny" "$folder/model.gguf"
printf '%s' "$text" >"$folder/text"
ln -s model.gguf "$folder/link"
for target in model.gguf text link ./text; do
    refuses 1 "a file that is no saved session is not replaced" run -m "$folder/model.gguf" -p "$text" -n 1 -t 1 \
        --save "$folder/$target"
done
cmp -s "$tiny" "$folder/model.gguf" || fail "the model was replaced"
rm "$folder/link"

# Nor is what is read or written by another way, even where it is empty: the prompt, standard input and output.
: >"$folder/empty"
ln "$folder/empty" "$folder/hard"
for target in empty ./empty hard; do
    refuses 1 "it is the file that is read" run -m "$tiny" -f "$folder/empty" -p "$text" -n 1 -t 1 --save "$folder/$target"
done
refuses 1 "it is the file that is read" run -m "$tiny" -f "$folder/text" -n 1 -t 1 --save "$folder/text"
"$QSA" run -m "$tiny" -p "$text" -n 1 -t 1 --save "$folder/empty" <"$folder/empty" >"$folder/out" 2>"$folder/err"
grep -qF "it is the file that is read" "$folder/err" || fail "standard input is replaced"
"$QSA" run -m "$tiny" -p "$text" -n 1 -t 1 --save "$folder/empty" >"$folder/empty" 2>"$folder/err" </dev/null
grep -qF "it receives the output" "$folder/err" || fail "standard output is replaced"
refuses 1 "a file that is no model file is not replaced" make "$folder/text"
refuses 1 "a file that is no SVG drawing is not replaced" bench --seconds 1 --svg "$folder/text"
[ "$(cat "$folder/text")" = "$text" ] || fail "a text was replaced"

# A new session is private; an old file keeps its mode; a link stays one.
rm -f "$saved"
run 0 run -m "$tiny" -p "$text" -n 1 -t 1 --save "$saved"
[ "$(stat -c %a "$saved")" = 600 ] || fail "a new session has mode $(stat -c %a "$saved")"
for mode in 640 600 444; do
    chmod "$mode" "$saved"
    run 0 run -m "$tiny" -p "$text" -n 2 -t 1 --save "$saved"
    [ "$(stat -c %a "$saved")" = "$mode" ] || fail "mode $mode became $(stat -c %a "$saved")"
done
mkdir "$folder/elsewhere"
mv "$saved" "$folder/elsewhere/real"
ln -s elsewhere/real "$saved"
run 0 run -m "$tiny" -p "$text" -n 3 -t 1 --save "$saved"
[ -L "$saved" ] || fail "a link was replaced by a file"
run 0 snapshot info "$folder/elsewhere/real"
says "$((prompt_tokens + 3)) tokens at"
rm "$saved"
ln -s nowhere "$saved"
run 1 run -m "$tiny" -p "$text" -n 1 -t 1 --save "$saved"
grep -qF "cannot create" "$folder/err" || fail "a link to nothing is not refused"
rm "$saved"
run 0 run -m "$tiny" -p "The river" -n 100 -c 20 -t 1 --save "$saved"

# Another model, other types: both values. Nowhere to save: said before the work.
refuses 1 "kv_type is bf16 in the file, f32 here" run -m "$tiny" --load "$saved" --kv f32
refuses 1 "profile is bf16 in the file, f32 here" run -m "$tiny" --load "$saved" --index f32
refuses 1 "here" run -m "$golden/model/tiny-q8_0.gguf" --load "$saved"
refuses 1 "here" run -m "$tiny" --load "$saved" --weights f32
refuses 1 "nowhere" run -m "$tiny" --load "$folder/nowhere"
refuses 1 "cannot write" run -m "$tiny" -p a --save "$folder/nowhere/a"
refuses 1 "not a regular file" run -m "$tiny" -p a --save /dev/null
refuses 1 "not a regular file" run -m "$tiny" -p a --save "$folder"

# kill -9 at any moment: the file is the old one or the new one, whole, and loads.
python3 - "$QSA" "$tiny" "$saved" "$folder" <<'PY' || fail "after kill -9 the file is not whole"
import glob, os, random, subprocess, sys, time
program, model, saved, folder = sys.argv[1:]
text = "The river runs from the mountain. " * 60
command = [program, "run", "-m", model, "-p", text, "-n", "1", "-t", "1", "--save", saved]
quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
begin = time.time()
assert subprocess.run(command, **quiet).returncode == 0
whole = time.time() - begin
random.seed(1)

def is_writing(pid):
    """Whether the file is open and not whole: without a name of its own where the file system can do that."""
    if glob.glob(folder + "/qsa.*.tmp"):
        return True
    for fd in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            target = os.readlink(fd)
        except OSError:
            continue
        if target.startswith(folder + "/#") and target.endswith(" (deleted)"):
            return True
    return False

killed = [0, 0]
for i in range(20):
    # Half of them while the file is there in parts, as far as one can be quick enough.
    child = subprocess.Popen(command, **quiet)
    if i % 2:
        while child.poll() is None and not is_writing(child.pid):
            time.sleep(0.0002)
    else:
        time.sleep(random.uniform(0.3, 1.05) * whole)
    child.kill()
    killed[i % 2] += child.wait() == -9
    assert subprocess.run([program, "snapshot", "verify", saved], **quiet).returncode == 0, i
assert killed[1] > 0 and sum(killed) > 5, killed
assert subprocess.run([program, "run", "-m", model, "--load", saved, "-n", "3"], **quiet).returncode == 0
PY

# A signal that ends the program: what is there is saved. The model is one that does not end by itself: its <|im_end|>
# has another text.
endless=$folder/endless.gguf
LC_ALL=C sed 's/<|im_end|>/<|im_enx|>/' "$tiny" >"$endless"
for case in INT:130 TERM:143 HUP:129; do
    signal=${case%:*} status=${case#*:}
    "$QSA" run -m "$endless" -p "The river" -n 100000 -t 1 --save "$folder/stopped.qsa" >"$folder/out" 2>"$folder/err" &
    program=$!
    for _ in $(seq 100); do
        [ -s "$folder/out" ] && break
        sleep 0.1
    done
    kill -$signal $program 2>/dev/null
    wait $program
    found=$?
    [ $found = "$status" ] || fail "$signal: the status is $found"
    cp "$folder/out" "$folder/parts"
    run 0 snapshot verify "$folder/stopped.qsa"
    run 0 run -m "$endless" --load "$folder/stopped.qsa" -n 5 -t 1
    length=$(wc -c <"$folder/parts")
    head -c "$((length < 30 ? length : 30))" "$folder/parts" >"$folder/start"
    run 0 run -m "$endless" -p "The river" -n 30 -t 1
    head -c "$(wc -c <"$folder/start")" "$folder/out" >"$folder/cut"
    cmp -s "$folder/cut" "$folder/start" || fail "$signal: the text before it is another one"
    rm "$folder/stopped.qsa"
done

# Under nohup, HUP does not end a run.
(trap '' HUP; exec "$QSA" run -m "$tiny" -p "The river" -n 3000 -t 1 >"$folder/out" 2>"$folder/err") &
program=$!
for _ in $(seq 100); do
    [ -s "$folder/out" ] && break
    sleep 0.1
done
kill -HUP $program 2>/dev/null
wait $program || fail "HUP ends a run that ignores it"

finish
