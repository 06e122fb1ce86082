# A program without the engine says so, and skips visibly what needs it.
. "$(dirname "$0")/expect.sh"

for command in run demo inspect; do
    refuses 1 "without the engine" "$command"
done
mkdir "$folder/cases"
cp "$golden/tokenizer/cases.txt" "$folder/cases/"
run 0 verify --golden "$folder/cases"
says SKIP
says "1 cases skipped"

finish
