"""Copies a GGUF file with other keys: gguf_edit.py FROM TO EXPRESSION...

Each expression is run with `keys`, a dict of name -> (type, value): bytes for a string, (element type, list) for an
array. Names of types: u32, i32, f32, string, array.
"""
import struct
import sys

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
u32, i32, f32, string, array = 4, 5, 6, 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, letter):
        value = struct.unpack_from("<" + letter, self.data, self.at)[0]
        self.at += struct.calcsize("<" + letter)
        return value

    def string(self):
        length = self.number("Q")
        self.at += length
        return self.data[self.at - length : self.at]

    def value(self, kind):
        if kind == string:
            return self.string()
        if kind == array:
            element, n = self.number("I"), self.number("Q")
            return element, [self.value(element) for _ in range(n)]
        return self.number(NUMBERS[kind])


def written(kind, value):
    if kind == string:
        return struct.pack("<Q", len(value)) + value
    if kind == array:
        return struct.pack("<IQ", value[0], len(value[1])) + b"".join(written(value[0], x) for x in value[1])
    return struct.pack("<" + NUMBERS[kind], value)


def aligned(n):
    return -(-n // 32) * 32


r = Reader(open(sys.argv[1], "rb").read())
head = r.data[:8]
r.at = 8
n_tensors, n_keys = r.number("Q"), r.number("Q")
keys = {}
for _ in range(n_keys):
    name = r.string().decode()
    kind = r.number("I")
    keys[name] = (kind, r.value(kind))
infos = r.at
for _ in range(n_tensors):
    r.string()
    dims = r.number("I")
    r.at += 8 * dims + 4 + 8
for expression in sys.argv[3:]:
    exec(expression)
out = head + struct.pack("<QQ", n_tensors, len(keys))
for name, (kind, value) in keys.items():
    out += written(string, name.encode()) + struct.pack("<I", kind) + written(kind, value)
out += r.data[infos : r.at]
out += bytes(aligned(len(out)) - len(out)) + r.data[aligned(r.at) :]
open(sys.argv[2], "wb").write(out)
