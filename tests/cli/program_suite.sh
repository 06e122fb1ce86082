# The checks of qsa verify pass here, with scalar kernels too.
. "$(dirname "$0")/expect.sh"

run 0 verify --quick
says " 0 differences; host, kernels "
says "selected groups = the naive implementation"
QSA_ISA=scalar "$QSA" verify --quick >"$folder/out" 2>"$folder/err" || fail "the checks differ with scalar kernels"
says "kernels scalar"
QSA_ISA=none "$QSA" verify --quick >"$folder/out" 2>"$folder/err" && fail "QSA_ISA=none is accepted"
grep -q "QSA_ISA=none" "$folder/err" || fail "an unknown instruction set is not named"

finish
