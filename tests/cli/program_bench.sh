# qsa bench: what it prints is what it says it is, and the same step gives the same output on any threads and kernels.
. "$(dirname "$0")/expect.sh"

# The hashes of an output as `NAME HASH` lines.
hashes() { # file
    python3 -c '
import json, sys
for x in map(json.loads, open(sys.argv[1])):
    if "hash" in x:
        print(x["name"], x["hash"])' "$1"
}

# The sparse depth is beyond the cut: there the step selects.
run 0 bench --seconds 1 --layers 2 --depths 0,2112 --json --svg "$folder/curves.svg"
is_json "$folder/out" 'all({"name", "value", "unit", "ratio", "probe"} <= x.keys() for x in lines)'
is_json "$folder/out" 'len({x["name"] for x in lines}) == len(lines)'
is_json "$folder/out" '{"decode_0", "decode_2112", "decode_layer_2112", "decode_append_2112", "decode_scan_2112",
    "decode_row_2112", "prefill_0", "prefill_layer_0", "prefill_2112", "store", "prefill_threads_1_over_2",
    "decode_threads_1_over_2", "read_rate", "fma_rate"} <= {x["name"] for x in lines}'
is_json "$folder/out" '[x["value"] for x in lines if x["name"] == "warm_allocations"] == [0]'
is_json "$folder/out" '[x["value"] <= 64 for x in lines if x["name"] == "scratch"] == [True]' # MiB
# A figure of too few blocks is none; one of enough lies between its least and its most. (A layer is the mean of a block,
# its least and most are of single layers.)
is_json "$folder/out" 'all((x["value"] is None) == (x["blocks"] < 3) for x in lines if x.get("unit") in ("ms", "us/token")
    and "blocks" in x)'
is_json "$folder/out" 'all(x["min"] <= x["value"] <= x["max"] for x in lines if x.get("min") is not None)'
is_json "$folder/out" 'all(x["blocks"] + x["dropped"] >= 3 for x in lines if "blocks" in x)'
# The peak stands beside each figure that has a share of it.
is_json "$folder/out" 'all(x["probe"] > 0 and x["probe_unit"] for x in lines if x["ratio"] is not None
    and x["unit"] != "times")'
hashes "$folder/out" >"$folder/two"
[ "$(wc -l <"$folder/two")" = 4 ] || fail "not four hashes"

# One well-formed drawing: a point per depth and panel at most, and no number that is none.
python3 - "$folder/curves.svg" <<'PY' || fail "the chart is not what it should be"
import sys, xml.etree.ElementTree as tree
text = open(sys.argv[1]).read()
root = tree.fromstring(text)
assert root.tag.endswith("}svg")
words = ["".join(x.itertext()) for x in root.iter("{http://www.w3.org/2000/svg}text")]
assert any("2 QSA layers" in x for x in words) and "measured" in words and "2112" in words
assert sum(1 for x in root.iter("{http://www.w3.org/2000/svg}circle")) <= 4
assert "nan" not in text and "inf" not in text
PY

run 0 bench --seconds 1 --layers 2 --depths 0,2112 --json -t 1
hashes "$folder/out" | diff "$folder/two" - >&2 || fail "another output with one thread"
run 0 bench --seconds 1 --layers 1 --depths 0,64 --json -t 3
hashes "$folder/out" >"$folder/best"
QSA_ISA=scalar "$QSA" bench --seconds 1 --layers 1 --depths 0,64 --json >"$folder/out" 2>"$folder/err" ||
    fail "bench fails with scalar kernels"
hashes "$folder/out" | diff "$folder/best" - >&2 || fail "another output with scalar kernels"
is_json "$folder/out" 'all(x["ratio"] is None for x in lines if x["name"].startswith("prefill_0"))' # no peak is known

"$QSA" devices >"$folder/devices" 2>&1
if grep -q '^opencl:0:' "$folder/devices" && ! grep -q "cannot be used" "$folder/devices"; then
    run 0 bench --device opencl --seconds 1 --layers 1 --depths 0,64 --json
    hashes "$folder/out" | diff "$folder/best" - >&2 || fail "another output on a device"
    is_json "$folder/out" 'all(x["ratio"] is None for x in lines if "hash" in x)' # its limits are not known
fi

# The table says what was measured, and what its columns are.
run 0 bench --seconds 1 --depths 64
says "12 QSA layers of Qwen3.8-Flash-Next's shape; 2 threads, K/V bf16, device host"
says "share of peak: decode"
grep -Eq '^figure +median +min +max' "$folder/out" || fail "no names of columns"
grep -Eq '^decode_64 .* [0-9]+ of [0-9]+ ' "$folder/out" || fail "no figure of decode"

for list in '' 1 x 64, ,64 64,0 64,64 0x40 -64 ' 64' 1048640 64,128,192,256,320,384,448,512,576,640,704,768,832,896,960,1024,1088; do
    refuses 2 "option --depths must be at most 16 ascending multiples of 64 up to 1048576" bench --depths "$list"
done
refuses 2 "option --layers must be a whole number from 1 to 64" bench --layers 0
refuses 2 "option --seconds must be a whole number from 1 to 3600" bench --seconds 0
refuses 2 "option --kv must be f32, bf16, f16 or q8_0" bench --kv bf8
refuses 2 "--profile needs a model" bench --profile
refuses 2 "do not go together" bench --layers 2 -m model.gguf
refuses 1 "nowhere/curves.svg" bench --svg "$folder/nowhere/curves.svg"
if [ "$(awk '/MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -lt 250 ]; then # GiB
    refuses 1 "GiB of memory" bench --layers 64 --depths 1048576 --kv f32
fi

model=$golden/model/tiny-q8_0.gguf
if "$QSA" inspect "$model" >/dev/null 2>&1; then
    run 0 bench --seconds 1 -m "$model" --depths 0,64 --json --profile --svg "$folder/model.svg"
    is_json "$folder/out" 'all({"name", "value", "unit", "ratio", "probe"} <= x.keys() for x in lines)'
    is_json "$folder/out" '{"model_decode_64", "model_prefill_0", "model_decode_64_qsa_scan", "model_prefill_64_experts",
        "memory_planned"} <= {x["name"] for x in lines}'
    # The parts are all of the time.
    is_json "$folder/out" 'all(0.9 < sum(x["share"] for x in lines if x["name"].startswith(whole["name"] + "_")) <= 1.001
        for whole in lines if "hash" in whole and whole["value"] is not None)'
    hashes "$folder/out" >"$folder/two"
    run 0 bench --seconds 1 -m "$model" --depths 0,64 --json -t 1
    hashes "$folder/out" | diff "$folder/two" - >&2 || fail "another output of the model with one thread"
    refuses 1 "nowhere.gguf" bench -m "$folder/nowhere.gguf"
else
    refuses 1 "without the engine" bench -m "$model"
fi

finish
