#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that what the documents name exists: links, files, tests, functions.

usage: check_docs.py [FILE ...]        default: every *.md of the tree, and the manual

Text in ``` fences is not read. Checked are links [..](..) to files, and
- `names` in backticks: a file by the end of its path, a folder by its path, a name with an underscore by its occurrence in
  the sources;
- words that begin with a folder of the tree, like tests/unit; in TESTING.md also unit/test_select and test_select;
- in TESTING.md each `rule_of_a_test` after a test file: it has to occur in that file.
Prints FILE:LINE and what is missing, and exits with 1, if anything is.
"""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_NAME = re.compile(r"[\w./-]+\.(c|h|inc|cl|py|sh|txt|md|gguf|cmake|svg)$")
NAME = re.compile(r"[a-z][a-z0-9]*_[a-z0-9_]+$")
ELSEWHERE = {"qwen4_exp", "mul_mat", "mul_mat_id", "dot_h"}  # of transformers, ggml, a formula
TEST = re.compile(r"(?<![\w/.])(?:tests/)?(?:(\w+)/)?((?:test|fuzz)_\w+)|`([a-z]\w+_\w+)`")


def tree():
    """Every file of the tree, as a path below ROOT; hidden folders and build folders are left out."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith(".") and not f.startswith("build") and f != "shared"]
        for file in files:
            yield os.path.relpath(os.path.join(folder, file), ROOT)


FILES = sorted(tree())
ENDS = {"/".join(f.split("/")[i:]) for f in FILES for i in range(f.count("/") + 1)}
TOPS = {f.split("/")[0] for f in FILES if "/" in f}
IN_TREE = re.compile(r"(?<![\w/.<-])(?:%s)/[\w./*-]*\w\*?" % "|".join(sorted(TOPS)))
WORDS = set()
for f in FILES:
    if not f.endswith((".md", ".gguf", ".svg")):
        WORDS.update(re.findall(r"\w+", (ROOT / f).read_text(errors="ignore")))


def exists(path, beside):
    """A path below ROOT or below the document's folder, with or without .c; * stands for anything."""
    return any(list(base.glob(path + end)) for base in (ROOT, beside) for end in ("", ".c", ".h"))


def missing(line, beside):
    """What a line of a document names and the tree lacks."""
    for target in re.findall(r"\]\(([^)\s]+)\)", line):
        if "://" not in target and not target.startswith("#") and not (beside / target.split("#")[0]).exists():
            yield "link " + target
    for quoted in re.findall(r"`([^`]+)`", line):
        word = quoted.split("(")[0]
        if NAME.match(word) and word not in WORDS | ELSEWHERE:
            yield "name " + word
        elif FILE_NAME.match(quoted) and quoted not in ENDS and not exists(quoted, beside):
            yield "file " + quoted
    for path in IN_TREE.findall(line):
        if "/test_" not in path and not exists(path, beside):
            yield "path " + path


def missing_tests(line):
    """Test files that are not there, and names that their file lacks."""
    file = None
    for folder, name, rule in TEST.findall(line):
        if name:
            pattern = "tests/%s/%s.*" % (folder or "*", name)
            file = next((f for f in ROOT.glob(pattern) if f.suffix in (".c", ".sh")), None)
            if file is None and not (not folder and name in WORDS):
                yield "test " + (folder + "/" if folder else "") + name
        elif file is not None and not re.search(r"\b%s\b" % rule, file.read_text()):
            yield "%s in %s" % (rule, file.relative_to(ROOT))


def main():
    documents = [pathlib.Path(f).resolve() for f in sys.argv[1:]]
    documents = documents or [ROOT / f for f in FILES if f.endswith(".md")] + [ROOT / "docs/man/qsa.1"]
    faults = 0
    for document in documents:
        fenced = False
        for number, line in enumerate(document.read_text().splitlines(), 1):
            fenced ^= line.startswith("```")
            if fenced:
                continue
            found = list(missing(line.replace("\\-", "-"), document.parent))
            found += missing_tests(line) if document.name == "TESTING.md" else []
            for what in found:
                print("%s:%d: not there: %s" % (os.path.relpath(document, ROOT), number, what))
            faults += len(found)
    print("docs: %d documents, %d missing" % (len(documents), faults))
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
