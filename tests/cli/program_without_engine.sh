# A program without the engine says so, and skips visibly what needs it.
. "$(dirname "$0")/expect.sh"

for command in run demo inspect; do
    refuses 1 "without the engine" "$command"
done
run 0 help
says "  verify "
grep -qE "^  (run|demo|make|inspect) " "$folder/out" && fail "the help lists a command that refuses"
mkdir "$folder/cases"
cp "$golden/tokenizer/cases.txt" "$folder/cases/"
run 0 verify --golden "$folder/cases"
says SKIP
says "1 cases skipped"

finish
