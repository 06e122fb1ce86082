# What the tests of the program share; sourced. $QSA is the program, $golden the recorded data.
set -u
QSA=$1
golden=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GGML_NO_BACKTRACE=1
failures=0

fail() { # message
    failures=$((failures + 1))
    echo "FAILED: $*" >&2
    sed 's/^/    stderr: /' "$folder/err" >&2
}

# Runs the program; its streams are then in $folder/out and $folder/err.
run() { # status, arguments...
    wanted=$1
    shift
    "$QSA" "$@" >"$folder/out" 2>"$folder/err" </dev/null
    status=$?
    [ "$status" = "$wanted" ] || fail "qsa $*: exit status $status, expected $wanted"
}

# The program refuses: that status, nothing on standard output, one line that holds the words.
refuses() { # status, words, arguments...
    words=$2
    status_wanted=$1
    shift 2
    run "$status_wanted" "$@"
    [ -s "$folder/out" ] && fail "qsa $*: writes to standard output"
    [ "$(wc -l <"$folder/err")" = 1 ] || fail "qsa $*: not one line on standard error"
    grep -qF -- "$words" "$folder/err" || fail "qsa $*: does not say '$words'"
}

says() { # words: the last run's standard output holds them
    grep -qF -- "$1" "$folder/out" || fail "standard output does not say '$1'"
}

# Every line of a file is a JSON object; the expression over `lines`, a list of them, holds.
is_json() { # file, expression
    python3 - "$1" "$2" <<'PY' || fail "$1 is not the JSON it should be: $2"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
sys.exit(0 if all(isinstance(x, dict) for x in lines) and eval(sys.argv[2]) else 1)
PY
}

# The help of commands, asked for in every way.
has_help() { # commands...
    for command in "$@"; do
        for line in "help $command" "$command --help" "$command -h"; do
            # shellcheck disable=SC2086 # a list of words
            run 0 $line
            says "usage: qsa $command"
            says "  -h, --help "
        done
    done
}

finish() {
    [ "$failures" = 0 ] || { echo "$failures failures" >&2; exit 1; }
}
