# What the program says to a command line that it cannot understand.
. "$(dirname "$0")/expect.sh"

run 2
refuses 2 "unknown command 'frob'" frob
refuses 2 "unknown option '--frob'" verify --frob
refuses 2 "unknown option '-x'; \`qsa bench --help\` lists them" bench -x
refuses 2 "unknown command 'frob'" help frob
refuses 2 "one argument too many" help run frob
refuses 2 "a model file is given with -m" run model.gguf -p a
refuses 2 "option --golden needs a value" verify --golden
refuses 2 "option --quick takes no value" verify --quick=yes
refuses 2 "option --threads must be a whole number from 1 to 1024" bench --threads abc
refuses 2 "option --threads needs a value" bench --threads
refuses 2 "one argument too many" verify folder
refuses 2 "do not go together" verify --quick --golden folder
refuses 2 "one argument too many" version now
for number in 0 1025 -1 x 1x '' ' 1' +1 1.5 99999999999999999999; do
    refuses 2 "option -t must be a whole number from 1 to 1024" bench -t "$number"
done
# An option is named as it was written, a file once.
refuses 2 "option --threads must be" bench --threads 0
refuses 2 "option --threads must be" bench --threads=0
refuses 2 "option '--a?b'" bench "--a
b"
refuses 1 "nowhere" verify --golden "$folder/nowhere"

refuses 2 "give a subcommand, info or verify" snapshot
refuses 2 "unknown subcommand 'frob'" snapshot frob
refuses 2 "no snapshot file" snapshot info
refuses 2 "no snapshot file" snapshot verify
refuses 2 "one argument too many" snapshot verify a b
refuses 2 "unknown option '--json'" snapshot verify --json a
refuses 1 "qsa snapshot info: $folder/nowhere: cannot open: No such file" snapshot info "$folder/nowhere"
refuses 1 "regular" snapshot verify "$folder"
: >"$folder/empty"
refuses 1 "ends too early" snapshot verify "$folder/empty"

has_help verify bench snapshot devices version
for line in help --help -h "help help" "help -h"; do
    run 0 $line
    says "qsa COMMAND"
done
run 0 --version
says "libqsa"

# A closed or full standard output is an error.
if [ -w /dev/full ]; then
    "$QSA" version >/dev/full 2>"$folder/err" && fail "qsa version >/dev/full succeeds"
    grep -q "cannot write to standard output" "$folder/err" || fail "a full disk is not said"
fi

finish
