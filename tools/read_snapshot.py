#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads and checks a snapshot; written from docs/SNAPSHOT.md alone, to keep that page honest.

usage: read_snapshot.py FILE

Prints what is in it and, per sequence, the digest that the library computes. Exits with 1, naming what is wrong, if the
file is not what the page says. Checksums and digests need XXH3, from the module xxhash or the C library libxxhash; where
there is neither, only the structure is checked, and a line says so.
"""

import array
import ctypes
import ctypes.util
import struct
import sys

PAGE_TOKENS = 64
MAX_POSITION = 2**31 - 1
LAYER_PARTS = (b"K   ", b"V   ", b"RAW ", b"POOL")


class Bad(Exception):
    pass


def require(holds, what):
    if not holds:
        raise Bad(what)


def find_xxh3():
    """A function from bytes to the 64-bit XXH3, or None."""
    try:
        import xxhash

        return lambda data: xxhash.xxh3_64_intdigest(data)
    except ImportError:
        pass
    try:
        library = ctypes.CDLL("libxxhash.so.0")
    except OSError:
        name = ctypes.util.find_library("xxhash")
        if name is None:
            return None
        library = ctypes.CDLL(name)
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return lambda data: library.XXH3_64bits(bytes(data), len(data))


# ---- frame ----


def read_sections(data, xxh3):
    """[(tag, number, rows, data)], the checksums compared."""
    require(len(data) >= 16, "the head is cut")
    magic, version, reserved = struct.unpack_from("<8sII", data)
    require(magic == b"QSASNAP\n", "it does not begin as a snapshot")
    require((version, reserved) == (1, 0), f"version {version}, 1 is known here")
    sections, at, covered = [], 16, bytes(data[:16])
    while True:
        require(at + 24 <= len(data), "it ends in the head of a section")
        tag, number, rows, size = struct.unpack_from("<4sIQQ", data, at)
        name = f"section {tag.decode('latin-1').strip()} {number}"
        require(size <= len(data) - at - 32, f"{name}: it ends too early")
        end = at + 24 + size
        (checksum,) = struct.unpack_from("<Q", data, end)
        require(xxh3 is None or xxh3(data[at:end]) == checksum, f"{name}: checksum")
        sections.append((tag, number, rows, data[at + 24 : end]))
        at = end + 8
        if tag == b"END ":
            break
        covered += struct.pack("<Q", checksum)
    require(at == len(data), "bytes follow the end")
    require(sections[-1][1:3] == (0, 1) and len(sections[-1][3]) == 8, "the END section")
    (whole,) = struct.unpack("<Q", sections[-1][3])
    require(xxh3 is None or xxh3(covered) == whole, "checksum of the whole")
    return sections[:-1]


class Sections:
    """Hands out sections in the order in which they must come."""

    def __init__(self, sections):
        self.rest = sections

    def take(self, tag, number=0, item=None, rows=None):
        require(self.rest, f"{tag.decode().strip()} {number} is missing")
        found_tag, found_number, found_rows, data = self.rest.pop(0)
        name = f"{tag.decode().strip()} {number}"
        require((found_tag, found_number) == (tag, number), f"{name} expected, found {found_tag} {found_number}")
        require(rows is None or found_rows == rows, f"{name}: {found_rows} rows, expected {rows}")
        require(item is None or len(data) == found_rows * item, f"{name}: {len(data)} bytes for {found_rows} rows")
        return found_rows, data


# ---- what it holds ----

CONFIG = ("model_digest norms_digest layers q_heads kv_heads head_dim index_heads index_dim ratio budget rotary_dim "
          "section_t section_h section_w theta eps yarn_factor yarn_context yarn_fast yarn_slow yarn_attention "
          "kv_type profile host_sections").split()


def read_config(sections):
    _, data = sections.take(b"CONF", item=104, rows=1)
    config = dict(zip(CONFIG, struct.unpack("<QQ12I7fIII", data)))
    require(config["kv_type"] in (0, 1, 2, 3) and config["profile"] in (0, 1), "an unknown type of values")
    require(config["ratio"] in (1, 2, 4, 8, 16, 32, 64), f"ratio {config['ratio']}")
    require(config["host_sections"] <= 64, "too many host sections")
    return config


def read_sequence(data, number, ratio):
    names = "anchor frontier frame window first_slot pages placed reserved".split()
    s = dict(zip(names, struct.unpack("<qqqQIIII", data)))
    tokens = s["tokens"] = s["frontier"] - s["anchor"]
    used = s["first_slot"] + tokens if tokens else 0
    require(0 <= s["anchor"] <= s["frontier"] <= MAX_POSITION + 1, f"sequence {number}: no run")
    require(abs(s["frame"]) <= MAX_POSITION, f"sequence {number}: frame")
    require(s["window"] == 0 or s["window"] >= ratio, f"sequence {number}: window")
    require(s["first_slot"] < PAGE_TOKENS and s["first_slot"] % ratio == 0, f"sequence {number}: first slot")
    require(tokens or s["first_slot"] == 0, f"sequence {number}: first slot of an empty run")
    require(s["pages"] == -(-used // PAGE_TOKENS), f"sequence {number}: {s['pages']} pages")
    require(s["reserved"] == 0 and s["placed"] in (0, 1), f"sequence {number}: flags")
    require(s["placed"] or s["frontier"] == 0, f"sequence {number}: tokens without an anchor")
    return s


def read_extents(sections, sequences):
    """Fills in each sequence's table; returns the extents [(begin, end)], which are those that the tables imply."""
    n_table, data = sections.take(b"TABL", item=4)
    table = list(struct.unpack(f"<{n_table}I", data))
    require(n_table == sum(s["pages"] for s in sequences), "entries of the page tables")
    expected, at = [], 0
    for s in sequences:
        s["table"] = table[at : at + s["pages"]]
        at += s["pages"]
        require(len(set(s["table"])) == len(s["table"]), "an extent twice in one sequence")
        for i, extent in enumerate(s["table"]):
            begin = s["first_slot"] if i == 0 else 0
            end = PAGE_TOKENS if i + 1 < s["pages"] else (s["first_slot"] + s["tokens"] - 1) % PAGE_TOKENS + 1
            require(extent <= len(expected), "extents are not numbered by first appearance")
            if extent == len(expected):
                expected.append((begin, end))
            else:
                expected[extent] = (min(begin, expected[extent][0]), max(end, expected[extent][1]))
    n_extents, data = sections.take(b"EXTS", item=8)
    found = [struct.unpack_from("<II", data, 8 * i) for i in range(n_extents)]
    require(found == expected, "extents are not those that the page tables imply")
    return expected


def halves(data):
    """f16 to f32."""
    return array.array("f", struct.unpack(f"<{len(data) // 2}e", data))


def quants(data):
    """q8_0: chunks of 32 int8 behind an f16 scale."""
    out = array.array("f")
    for at in range(0, len(data), 34):
        scale, *values = struct.unpack_from("<e32b", data, at)
        out.extend(scale * value for value in values)
    return out


def bits(floats):
    return array.array("I", floats.tobytes())


# Name, bytes of `dim` values, and how they widen to an array of the bits of f32; by the number in the file.
TYPES = (
    ("f32", lambda dim: 4 * dim, lambda data: array.array("I", bytes(data))),
    ("bf16", lambda dim: 2 * dim, lambda data: array.array("I", [x << 16 for x in array.array("H", bytes(data))])),
    ("f16", lambda dim: 2 * dim, lambda data: bits(halves(bytes(data)))),
    ("q8_0", lambda dim: dim // 32 * 34, lambda data: bits(quants(bytes(data)))),
)


class Part:
    """The rows of one part: of each extent [heads][rows][dim]."""

    def __init__(self, sections, tag, layer, counts, heads, dim, kind):
        _, row_bytes, widen = TYPES[kind]
        _, data = sections.take(tag, layer, item=heads * row_bytes(dim), rows=sum(counts))
        self.values, self.counts, self.heads, self.dim = widen(data), counts, heads, dim
        self.starts = [0]
        for count in counts:
            self.starts.append(self.starts[-1] + count * heads * dim)
        limit = 0x5C000000  # 2^57
        require(all(x & 0x7FFFFFFF <= limit for x in self.values), f"{tag.decode().strip()} {layer}: a value")

    def row(self, extent, number):
        """All heads of a row, as bytes."""
        out = array.array("I")
        for head in range(self.heads):
            at = self.starts[extent] + (head * self.counts[extent] + number) * self.dim
            out += self.values[at : at + self.dim]
        return out.tobytes()


def read_layers(sections, config, extents):
    """{tag: [Part per layer]}"""
    ratio, profile, kv_type = config["ratio"], config["profile"], config["kv_type"]
    rows = [end - begin for begin, end in extents]
    groups = [end // ratio - begin // ratio for begin, end in extents]
    parts = {tag: [] for tag in LAYER_PARTS}
    for layer in range(config["layers"]):
        for tag in (b"K   ", b"V   "):
            parts[tag].append(Part(sections, tag, layer, rows, config["kv_heads"], config["head_dim"], kv_type))
        parts[b"RAW "].append(Part(sections, b"RAW ", layer, rows, 1, config["index_dim"], profile))
        parts[b"POOL"].append(Part(sections, b"POOL", layer, groups, 1, config["index_dim"], profile))
    return parts


def read_triples(sections, extents):
    """Per extent the bytes of its triples."""
    _, data = sections.take(b"TRIP", item=12, rows=sum(end - begin for begin, end in extents))
    coordinates = struct.unpack(f"<{len(data) // 4}i", data)
    require(all(abs(x) <= 2**24 for x in coordinates), "a rotary coordinate is beyond 2^24")
    out, at = [], 0
    for begin, end in extents:
        out.append(data[at : at + 12 * (end - begin)])
        at += 12 * (end - begin)
    return out


def read_host(sections, config):
    found = []
    for _ in range(config["host_sections"]):
        require(sections.rest and sections.rest[0][0] == b"HOST" and sections.rest[0][2] == 1, "a HOST section")
        tag, data = sections.rest[0][1], sections.rest.pop(0)[3]
        require(tag not in [t for t, _ in found], f"HOST {tag} twice")
        found.append((tag, data))
    require(not sections.rest, "sections that nobody announced")
    return found


def digest(s, ratio, extents, triples, parts, xxh3):
    def place(token):
        slot = s["first_slot"] + token
        extent = s["table"][slot // PAGE_TOKENS]
        return extent, slot % PAGE_TOKENS

    data = bytearray(struct.pack("<qqqQ", s["anchor"], s["frontier"], s["frame"], s["window"]))
    for token in range(s["tokens"]):
        extent, slot = place(token)
        at = 12 * (slot - extents[extent][0])
        data += triples[extent][at : at + 12]
    for tag in LAYER_PARTS:
        step = ratio if tag == b"POOL" else 1
        for part in parts[tag]:
            for token in range(0, s["tokens"] // step * step, step):
                extent, slot = place(token)
                data += part.row(extent, (slot - extents[extent][0]) // step)
    return xxh3(bytes(data))


def read(path):
    xxh3 = find_xxh3()
    with open(path, "rb") as file:
        data = file.read()
    sections = Sections(read_sections(data, xxh3))
    config = read_config(sections)
    n, table = sections.take(b"SEQS", item=48)
    sequences = [read_sequence(table[48 * i : 48 * i + 48], i, config["ratio"]) for i in range(n)]
    extents = read_extents(sections, sequences)
    triples = read_triples(sections, extents)
    parts = read_layers(sections, config, extents)
    host = read_host(sections, config)
    print(f"version 1, {len(data)} bytes, model {config['model_digest']:016x}, {config['layers']} layers, "
          f"{len(extents)} pages, {sum(end - begin for begin, end in extents)} rows")
    for i, s in enumerate(sequences):
        mark = f"{digest(s, config['ratio'], extents, triples, parts, xxh3):016x}" if xxh3 else "unknown"
        print(f"sequence {i}: [{s['anchor']}, {s['frontier']}) frame {s['frame']} window {s['window']} digest {mark}")
    for tag, content in host:
        print(f"host section {tag}: {len(content)} bytes")
    if xxh3 is None:
        print("checksums were not compared: neither the module xxhash nor libxxhash is here")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        read(sys.argv[1])
    except (Bad, OSError) as error:
        sys.exit(f"{sys.argv[1]}: {error}")


if __name__ == "__main__":
    main()
