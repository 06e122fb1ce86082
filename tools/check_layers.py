#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every file includes only headers of rooms above its own (docs/ARCHITECTURE.md).

usage: check_layers.py [ROOT]

Prints a line per violation and exits with 1 if there is one.
"""

import pathlib
import re
import sys

LIBRARY_ORDER = ["base", "kernels", "run", "index", "select", "attend", "device", "cache", "step", "snapshot"]
ENGINE_ORDER = ["base", "file", "text", "model", "session", "write", "quoter", "released"]
PUBLIC = {"include", "ggml/include", "engine/include"}

INCLUDE_FOLDERS = ["include", "src", "engine/include", "engine", "ggml/include", "ggml", "cli", "bench", "tests"]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = {".c", ".h", ".inc"}
GGML_HEADER = re.compile(r"^(ggml[-\w]*|gguf)\.h$")


def room_of(path):
    """The room of a file, from its path relative to the root: "src/base", "engine/model", "include", "tests/oracle"."""
    parts = path.parts
    if parts[0] in ("include", "cli", "bench", "examples"):
        return parts[0]
    if parts[0] == "ggml":
        return "ggml/include" if parts[1] == "include" or path.suffix == ".h" else "ggml"
    if parts[0] in ("src", "engine", "tests"):
        return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
    return parts[0]


def rooms_above(top, order, room):
    """The rooms of an ordered house that `room` may include: itself and the earlier ones."""
    return {f"{top}/{name}" for name in order[: order.index(room) + 1]}


def allowed_rooms(room):
    """The rooms that a file of `room` may include, or None for any; a room that is not known may include nothing."""
    top, _, name = room.partition("/")
    if top == "include":
        return {"include"}
    if top == "src" and name in LIBRARY_ORDER:
        return {"include"} | rooms_above("src", LIBRARY_ORDER, name)
    if top == "ggml":
        return {"include", "ggml/include", "ggml"}
    if room == "engine/include":
        return {"include", "engine/include"}
    if top == "engine" and name in ENGINE_ORDER:
        return PUBLIC | rooms_above("engine", ENGINE_ORDER, name)
    if top == "cli":
        return {"include", "engine/include", "cli"}
    if top == "examples":
        return {"include", "ggml/include", "examples"}
    if room == "tests/oracle":  # shares nothing with what it judges; the readers of recorded cases are the program's
        return {"tests/oracle", "tests/support", "cli"}
    if top in ("tests", "bench"):
        return None
    return set()


def may_see_ggml(room):
    return room.split("/")[0] in ("ggml", "engine", "examples", "bench", "tests") and room != "tests/oracle"


def resolve(root, file, name, quoted):
    """The file of ours that an include names, or None for a header from outside."""
    folders = [file.parent] if quoted else []
    folders.append(root / file.relative_to(root).parts[0])  # "base/..." of src and of the engine are two
    folders += [root / folder for folder in INCLUDE_FOLDERS]
    folders += sorted(folder for folder in (root / "tests").glob("*/"))
    for folder in folders:
        candidate = (folder / name).resolve()
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root)
    return None


def check_include(root, file, name, quoted):
    """What is wrong with one include, or None."""
    room = room_of(file.relative_to(root))
    if name.endswith(".c"):
        return f"includes a source file, {name}"
    target = resolve(root, file, name, quoted)
    if target is None:
        if quoted:
            return f"includes {name}, which does not exist"
        if GGML_HEADER.match(name) and not may_see_ggml(room):
            return f"includes <{name}>, but {room} does not see ggml"
        return None
    allowed = allowed_rooms(room)
    if allowed is not None and room_of(target) not in allowed:
        return f"includes {target}: {room_of(target)} is not above {room}"
    return None


def check_file(root, file):
    problems = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        problem = match and check_include(root, file, match.group(2), match.group(1) == '"')
        if problem:
            problems.append(f"{file.relative_to(root)}:{number}: {problem}")
    return problems


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    files = [file for top in ("include", "src", "ggml", "engine", "cli", "examples", "tests", "bench")
             for file in sorted((root / top).rglob("*")) if file.suffix in SOURCES]
    problems = [problem for file in files for problem in check_file(root, file)]
    for problem in problems:
        print(problem)
    print(f"layers: {len(files)} files, {len(problems)} violations")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
