#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults in a copy of the tree, one at a time, and says which of them the tests see.

usage: plant.py [--check] [--tree FOLDER] [--jobs N] [WORD ...]      default: every fault of faults.txt

A fault is an edit of one source file and the tests that must fail with it:

    @ src/cache/verbs.c: a copy that fits exactly is refused
    -    if (pages > cache->n_free)
    +    if (pages >= cache->n_free)
    ? test_sequence

The lines after - have to be in the file exactly once, one after the other; those after + take their place. WORDs select the
faults whose file or description holds one of them. FOLDER keeps the copy and its build for the next time (default: a
temporary folder). --check only checks that every edit still applies.

A fault is seen when one of its tests fails, crashes or takes longer than 100 seconds. Exits with 1 if an edit does not apply
or does not compile, if a test fails without a fault, or if a fault is not seen.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SECONDS = 100


class Fault:
    def __init__(self, path, what):
        self.path, self.what = path, what
        self.old, self.new, self.tests = [], [], []

    def plant(self, text):
        """The file's text with the fault; exits unless the old lines are there exactly once."""
        old, new = ("".join(line + "\n" for line in lines) for lines in (self.old, self.new))
        found = ("\n" + text).count("\n" + old)
        if found != 1 or old == new or not self.tests:
            sys.exit(f"faults: {self.path}: {self.what}: the old lines are there {found} times, or no test is named:\n{old}")
        return ("\n" + text).replace("\n" + old, "\n" + new, 1)[1:]


def read_list():
    faults = []
    for line in (HERE / "faults.txt").read_text().splitlines():
        kind, rest = line[:1], line[1:]
        if kind == "@":
            faults.append(Fault(*rest.strip().split(": ", 1)))
        elif kind == "-":
            faults[-1].old.append(rest)
        elif kind == "+":
            faults[-1].new.append(rest)
        elif kind == "?":
            faults[-1].tests += rest.split()
        elif kind not in ("", "#"):
            sys.exit(f"faults.txt: what is this line? {line}")
    return faults


def copy_tree(tree):
    """Copies what git knows, with the present content; what is the same stays, so that little is built again."""
    names = subprocess.check_output(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True)
    for name in names.splitlines():
        source, target = ROOT / name, tree / name
        if not source.is_file() or (target.is_file() and target.read_bytes() == source.read_bytes()):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def build(tree, jobs, tests):
    command = ["cmake", "--build", tree / "build", "-j", str(jobs), "--target", *tests]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode == 0, done.stdout


def passes(tree, test):
    program = next(path for path in (tree / "build/tests").rglob(test) if path.is_file())
    try:
        done = subprocess.run([program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def try_fault(fault, tree, jobs):
    """The test that sees the fault, or None. The file is as before afterwards."""
    path = tree / fault.path
    text = path.read_text()
    path.write_text(fault.plant(text))
    try:
        for test in fault.tests:
            good, log = build(tree, jobs, [test])
            if not good:
                sys.exit(f"faults: {fault.path}: {fault.what}: does not compile:\n{log}")
            if not passes(tree, test):
                return test
    finally:
        path.write_text(text)
    return None


def run(faults, tree, jobs):
    copy_tree(tree)
    subprocess.check_call(["cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                           "-DQSA_ENGINE=OFF", "-DQSA_OPENCL=OFF"], stdout=subprocess.DEVNULL)
    tests = sorted({test for fault in faults for test in fault.tests})
    good, log = build(tree, jobs, tests)
    if not good:
        sys.exit(log)
    failing = [test for test in tests if not passes(tree, test)]
    if failing:
        sys.exit("faults: without a fault these fail: " + " ".join(failing))
    unseen = 0
    for number, fault in enumerate(faults, 1):
        test = try_fault(fault, tree, jobs)
        unseen += test is None
        print(f"{number:3} {'UNSEEN' if test is None else 'seen':6} {fault.path}: {fault.what}"
              + (f" ({test})" if test else ""), flush=True)
    print(f"faults: {len(faults)} planted, {unseen} unseen")
    return unseen


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tree", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    faults = [f for f in read_list() if not options.words or any(w in f.path + ": " + f.what for w in options.words)]
    for fault in faults:
        fault.plant((ROOT / fault.path).read_text())
    if options.check:
        print(f"faults: {len(faults)} edits apply")
        return 0
    if options.tree is not None:
        options.tree.mkdir(parents=True, exist_ok=True)
        return run(faults, options.tree.resolve(), options.jobs) > 0
    with tempfile.TemporaryDirectory(prefix="qsa-faults-") as folder:
        return run(faults, pathlib.Path(folder), options.jobs) > 0


if __name__ == "__main__":
    sys.exit(main())
