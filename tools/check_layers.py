#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the order of the rooms (docs/ARCHITECTURE.md): nothing leans on a room above its own, and no files form a circle.

usage: check_layers.py [--build FOLDER]

Includes are read from the sources. With --build, the object files of that build folder are read too (nm): then a
call of a room above is seen, and a circle of files that share one header.
Prints the order of the rooms, a line per violation and circle, and the totals; exits with 1 if there is either.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# From the bottom up. A room sees itself and the rooms below it, all of them or only those named.
EVERYTHING = None
LIBRARY = ["include"]
ENGINE = ["include", "src/base", "engine/include"]
ROOMS = {
    "include": EVERYTHING,
    "src/base": EVERYTHING,
    "src/kernels": EVERYTHING,
    "src/run": EVERYTHING,
    "src/index": EVERYTHING,
    "src/select": EVERYTHING,
    "src/attend": EVERYTHING,
    "src/device": EVERYTHING,
    "src/cache": EVERYTHING,
    "src/step": EVERYTHING,
    "src/snapshot": EVERYTHING,
    "products": ["src/base"],
    "ggml/include": LIBRARY,
    "ggml": LIBRARY + ["ggml/include"],
    "engine/include": LIBRARY,
    "engine/base": ENGINE,
    "engine/ops": ["src/base"],
    "engine/file": ENGINE + ["engine/base"],
    "engine/text": ENGINE + ["engine/base", "engine/file"],
    "engine/model": ENGINE + ["engine/base", "engine/file", "engine/text", "engine/ops", "products"],
    "engine/session": ENGINE + ["engine/base", "engine/file", "engine/text", "engine/ops", "engine/model"],
    "engine/make": ENGINE + ["engine/base", "engine/file", "engine/text", "engine/model"],
    "console": ENGINE + ["src/base"],
    "oracle": [],
    "verify": ENGINE + ["console", "oracle"],
    "bench": ENGINE + ["src/base", "src/kernels", "src/select", "products", "engine/ops", "console"],
    "cli": ENGINE + ["console", "verify", "bench"],
    "examples": LIBRARY + ["ggml/include"],
    "tests": EVERYTHING,
}
ORDER = list(ROOMS)

# Rooms that may include ggml's own headers.
SEE_GGML = ("ggml", "engine", "examples", "bench", "tests")
GGML_HEADER = re.compile(r"^(ggml[-\w]*|gguf)\.h$")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".c", ".h", ".inc"}
INCLUDE_FOLDERS = ["", "include", "src", "engine/include", "engine", "ggml/include"]


def room_of(path):
    """The room of a file, named by its path from the root; None if it is in none."""
    parts = path.parts
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if len(parts) > depth and name in ROOMS:
            return name
    return None


def unit_of(path):
    """A header and its source file are one unit."""
    return str(path.with_suffix(""))


def resolve(files, path, name, quoted):
    """The one of `files` that an include of the file at `path` names, or None for a header from outside."""
    folders = ([str(path.parent)] if quoted else []) + [path.parts[0]]  # "base/..." of src and of the engine are two
    for folder in folders + INCLUDE_FOLDERS + files.test_folders:
        candidate = os.path.normpath(os.path.join(folder, name))
        if candidate in files.by_name:
            return files.by_name[candidate]
    return None


class Files:
    """The sources of all rooms, by their paths from the root."""

    def __init__(self):
        tops = dict.fromkeys(room.split("/")[0] for room in ORDER)
        found = [file.relative_to(ROOT) for top in tops for file in (ROOT / top).rglob("*") if file.suffix in SOURCES]
        self.by_name = {str(path): path for path in sorted(found)}
        self.test_folders = sorted({str(path.parent) for path in found if path.parts[0] == "tests"})


class House:
    """Who leans on whom, and what is wrong with it."""

    def __init__(self):
        self.problems = []
        self.upward = 0
        self.edges = {}  # unit -> {unit: how}

    def lean(self, source, target, how, sees=EVERYTHING):
        """`source` needs `target`, both paths from the root; its room sees rooms below, or of them only `sees`."""
        lower, upper = room_of(target), room_of(source)
        if unit_of(source) != unit_of(target):
            self.edges.setdefault(unit_of(source), {}).setdefault(unit_of(target), how)
        if lower == upper:
            return
        if lower is None or ORDER.index(lower) > ORDER.index(upper) or (sees is not EVERYTHING and lower not in sees):
            self.upward += 1
            self.problems.append(f"{source}: {how}, but {upper} does not see {lower}")

    def read_source(self, files, path):
        room = room_of(path)
        if room is None:
            self.problems.append(f"{path}: is in no room")
            return
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            name, quoted = match.group(2), match.group(1) == '"'
            target = resolve(files, path, name, quoted)
            if name.endswith(".c"):
                self.problems.append(f"{path}:{number}: includes a source file, {name}")
            elif target:
                self.lean(path, target, f"line {number} includes {name}", ROOMS[room])
            elif quoted:
                self.problems.append(f"{path}:{number}: includes {name}, which does not exist")
            elif GGML_HEADER.match(name) and room.split("/")[0] not in SEE_GGML:
                self.problems.append(f"{path}:{number}: includes <{name}>, but {room} does not see ggml")

    def read_objects(self, build):
        """Calls between files, from the symbols of the object files of the rooms (tests are programs of their own)."""
        files = {}  # source path -> object file
        for top in sorted({room.split("/")[0] for room in ORDER} - {"tests", "examples"}):
            for file in sorted((build / top).rglob("*.c.o")):
                path = source_of_object(build, file)
                if path and room_of(path):
                    files.setdefault(path, file)
        objects = dict(zip(files, read_symbols(list(files.values()))))  # source path -> (defined, needed)
        owner = {name: path for path, (defined, _) in objects.items() for name in defined if name != "main"}
        for path, (_, needed) in objects.items():
            for name in sorted(needed):
                target = owner.get(name)
                if target and target != path:
                    self.lean(path, target, f"needs {name} of {target}")
        return len(objects)

    def circles(self):
        """Units that lean on each other in a circle: the strongly connected components of more than one."""
        index, low, stack, found = {}, {}, [], []

        def visit(unit):
            index[unit] = low[unit] = len(index)
            stack.append(unit)
            for other in sorted(self.edges.get(unit, ())):
                if other not in index:
                    visit(other)
                    low[unit] = min(low[unit], low[other])
                elif other in stack:
                    low[unit] = min(low[unit], index[other])
            if low[unit] == index[unit]:
                component = [stack.pop()]
                while component[-1] != unit:
                    component.append(stack.pop())
                if len(component) > 1:
                    found.append(sorted(component))

        sys.setrecursionlimit(10000)
        for unit in sorted(self.edges):
            if unit not in index:
                visit(unit)
        return found


def source_of_object(build, file):
    """build/src/CMakeFiles/qsa_objects.dir/base/status.c.o -> src/base/status.c; None if it is not ours."""
    parts = list(file.relative_to(build).parts)
    if "CMakeFiles" not in parts:
        return None
    at = parts.index("CMakeFiles")
    path = pathlib.Path(*parts[:at], *parts[at + 2:]).with_suffix("")
    return path if (ROOT / path).is_file() else None


def read_symbols(files):
    """Of each object file the names that it defines and the names that it needs: nm once, which heads each with FILE:."""
    if not files:
        return []
    listing = subprocess.run(["nm", "-g", "/dev/null", *map(str, files)], capture_output=True, text=True).stdout
    found = []
    for line in listing.splitlines():
        fields = line.split()
        if line.endswith(":"):
            found.append((set(), set()))
        elif len(fields) == 3:
            found[-1][0].add(fields[2])
        elif len(fields) == 2 and fields[0] == "U":
            found[-1][1].add(fields[1])
    if len(found) != len(files):
        raise SystemExit(f"check_layers: nm read {len(found)} of {len(files)} object files")
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--build", type=pathlib.Path, help="a build folder whose object files are read as well")
    build = arguments.parse_args().build
    house = House()
    files = Files()
    for path in files.by_name.values():
        house.read_source(files, path)
    objects = house.read_objects(build.resolve()) if build else 0
    circles = house.circles()
    print("rooms, from the bottom up: " + ", ".join(ORDER))
    for problem in house.problems:
        print(problem)
    for circle in circles:
        print("circle: " + ", ".join(circle))
    seen = f"{len(files.by_name)} files" + (f", {objects} objects" if build else "")
    print(f"{seen}: {len(circles)} circles, {house.upward} upward includes")
    return 1 if house.problems or circles or not files.by_name else 0


if __name__ == "__main__":
    sys.exit(main())
