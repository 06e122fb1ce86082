# --json of every command: each line parses, whatever the bytes of paths and of names in files.
. "$(dirname "$0")/expect.sh"

tiny=$golden/model/tiny-q8_0.gguf

# The one line in out is JSON of UTF-8, and holds these bytes under the key: as text, or all of them in KEY_hex.
holds() { # key, bytes as a Python expression
    python3 - "$folder/out" "$1" "$2" <<'PY' || fail "no valid JSON with $1 = $2: $(cat "$folder/out")"
import json, sys
line = open(sys.argv[1], "rb").read()
assert line.count(b"\n") == 1 and line.endswith(b"\n")
found, key, wanted = json.loads(line.decode("utf-8"), parse_constant=sys.exit), sys.argv[2], eval(sys.argv[3])
try:
    assert found[key] == wanted.decode("utf-8") and key + "_hex" not in found
except UnicodeDecodeError:
    assert bytes.fromhex(found[key + "_hex"]) == wanted and found[key] == wanted.decode("utf-8", "replace")
PY
}

# Names in the file: broken UTF-8 of each kind, control characters, quotes, a character outside the first plane.
for name in 'b"\xff\xfename\x80!"' 'b"\xed\xa0\x80abcde"' 'b"\xc0\x80\xe2\x82abc\xe2"' 'b"\xf4\x90\x80\x80\xf5abc"' \
    'b"\x01\x1b[31m\x7f\n"' 'b"\"}, {\"\\\n"' 'b"\xf0\x9f\x98\x80\xc3\xa9\xc3\xa9"'; do
    python3 "$(dirname "$0")/gguf_edit.py" "$tiny" "$folder/named.gguf" "keys['general.name'] = string, $name"
    run 0 inspect --json "$folder/named.gguf"
    holds name "$name"
done

# Names of files.
run 0 run -m "$tiny" -p a -n 1 -t 1 --save "$folder/saved"
python3 - "$QSA" "$folder" "$tiny" <<'PY' || fail "a file's name makes JSON invalid"
import json, os, shutil, subprocess, sys
program, folder, tiny = (os.fsencode(x) for x in sys.argv[1:])
names = [b"\xff", b"caf\xe9.gguf", b"\xc3\xa9", b'"quoted"\\', b"\x01\x02\t\n\r\x7f", b"\xed\xa0\x80", b"\xf0\x9f\x98",
         bytes(x for x in range(1, 128) if x != 47), bytes(range(128, 256)), b"\xe2\x80\xa8\xef\xbf\xbf\xef\xbf\xbd"]
for name in names:
    for source, command in ((tiny, [b"inspect", b"--json"]), (folder + b"/saved", [b"snapshot", b"info", b"--json"])):
        path = folder + b"/" + name
        shutil.copy(source, path)
        done = subprocess.run([program, *command, path], capture_output=True)
        assert done.returncode == 0, (name, done.stderr)
        found = json.loads(done.stdout.decode("utf-8"))
        try:
            assert found["path"] == path.decode("utf-8") and "path_hex" not in found, name
        except UnicodeDecodeError:
            assert bytes.fromhex(found["path_hex"]) == path and "\ufffd" in found["path"], name
        os.remove(path)
PY

# Figures, of which some are not numbers.
run 0 bench --seconds 1 --depths 0 --layers 1 -t 1 --json
is_json "$folder/out" 'len(lines) > 0 and all(isinstance(x["name"], str) for x in lines)'

finish
