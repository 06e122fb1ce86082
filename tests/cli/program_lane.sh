# The strict lane passes here, and the figures are printed.
. "$(dirname "$0")/expect.sh"

run 0 verify --quick
says " 0 differences"
says "selected groups = a second implementation"
QSA_ISA=scalar "$QSA" verify --quick >"$folder/out" 2>"$folder/err" || fail "the lane differs with scalar kernels"
says "kernels scalar"
QSA_ISA=none "$QSA" verify --quick >"$folder/out" 2>"$folder/err" && fail "QSA_ISA=none is accepted"
grep -q "QSA_ISA=none" "$folder/err" || fail "an unknown instruction set is not named"

run 0 bench --quick --json
is_json "$folder/out" 'all("name" in x and ("ratio" in x or "value" in x) for x in lines) and len(lines) >= 7'
is_json "$folder/out" '[x["value"] for x in lines if x["name"] == "warm_allocations"] == [0]'
is_json "$folder/out" '[x["value"] <= 64 for x in lines if x["name"] == "scratch"] == [True]'

finish
