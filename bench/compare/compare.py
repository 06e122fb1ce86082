#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one model file and one text through llama.cpp and through qsa, in turn, and prints the ratios by depth.

usage: compare.py [OPTION...]

  --build FOLDER   where qsa was built, with its compare_ours; default build
  --peer FOLDER    where llama.cpp is unpacked and built, with its best options for this machine; default BUILD/compare
  --driver FILE    a compare_peer that is built already
  --model FILE     default: the demo model, whose text is a ledger and whose answer is known
  --text FILE      what both read; default: the ledger. Its end is continued by both
  --tokens N       tokens to read; default 35000
  --depths LIST    tokens after which both decode; default 2048,8192,16384,32768
  --steps N        tokens decoded at each depth, in blocks; default 32
  --threads N      default 2
  --minutes N      reading ends early, at the next depth, when the peer has read for so long; default 60
  --processor      compare seconds of the processor: on a machine that does other work, with --threads 1, since threads
                   that wait for each other use the processor too
  --keep           keep both states at each depth, beside the peer (some hundred megabytes)
  --kept           only decode, and read one more piece, at each depth, from the states that were kept

Both read the same tokens in the same order, a piece of 2,048 tokens at a time, one after the other; at each depth
both decode, in turn. Neither works while the other does. The peer runs with flash attention, its own batches (2,048
tokens, 512 at a time) and its own type of K and V (f16); qsa with its defaults (512 tokens, bf16).

Prints an object per line: name, value, unit, ratio (peer's time / ours, above 1: ours is faster) and probe (GB/s that
one thread reads from memory, the median of the run). Exits with 1 if both do not tokenize the text alike or, on the
demo model, do not give the answer that the ledger holds and the same continuation.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PIECE = 2048
BLOCK = 8                     # tokens decoded in turn
CONTINUED = 40                # tokens after the text
PROBE_BYTES = 1 << 27
SLOPE_FROM, SLOPE_TO = 8192, 32768
ROOM = 256                    # tokens of context beside the text


# ---- the peer ----

def pinned(name):
    """A value that cmake/ggml.cmake pins."""
    text = (ROOT / "cmake" / "ggml.cmake").read_text(encoding="utf-8")
    return re.search(rf"set\({name} (\S+)\)", text).group(1)


def archive():
    """The source package in the cache folder, where the build has left it; its hash is checked."""
    cache = os.environ.get("QSA_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "qsa")
    path = pathlib.Path(cache) / (pinned("QSA_GGML_ARCHIVE") + ".tar.gz")
    if not path.is_file():
        sys.exit(f"compare: {path} is missing; `make` fetches it")
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while piece := file.read(1 << 20):
            digest.update(piece)
    if digest.hexdigest() != pinned("QSA_GGML_SHA256"):
        sys.exit(f"compare: {path} is not the pinned package")
    return path


def unpack(folder):
    source = folder / pinned("QSA_GGML_ARCHIVE") / "vendor" / "llama.cpp"
    if (source / "CMakeLists.txt").is_file():
        return source
    inside = pinned("QSA_GGML_ARCHIVE") + "/vendor/llama.cpp/"
    with tarfile.open(archive()) as package:
        package.extractall(folder, (m for m in package if m.name.startswith(inside)))
    return source


def build_peer(folder):
    """Builds llama.cpp and our driver of it, once; minutes. Returns the driver."""
    log = folder / "build.log"
    say(f"llama.cpp in {folder}; the first build takes some minutes (log: {log})")
    commands = [["cmake", "-S", HERE / "peer", "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release",
                 f"-DQSA_PEER_SOURCE={unpack(folder)}"],
                ["cmake", "--build", folder / "build", "--target", "compare_peer", "-j", str(os.cpu_count() or 1)]]
    with open(log, "w", encoding="utf-8") as out:
        for command in commands:
            if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False).returncode != 0:
                sys.exit(f"compare: the build of llama.cpp failed; see {log}")
    return folder / "build" / "compare_peer"


# ---- the two sides ----

class Side:
    """A driver that has opened the model and waits for commands."""

    def __init__(self, driver, options, states):
        self.process = subprocess.Popen([driver, options.model, options.text, str(options.threads),
                                         str(options.context), states],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.clock = 1 if options.processor else 0
        self.read_seconds = 0.0
        self.opened = self.line().split()

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare: {self.process.args[0]} has ended")
        return line.strip()

    def ask(self, word, n):
        self.process.stdin.write(f"{word} {n}\n")
        self.process.stdin.flush()
        return self.line()

    def seconds(self, word, n):
        return float(self.ask(word, n).split()[self.clock])


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def figure(name, value, unit, ratio, probes, **more):
    line = {"name": name, "value": value, "unit": unit, "ratio": ratio,
            "probe": statistics.median(probes) if probes else None, **more}
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}), flush=True)


class Comparison:
    def __init__(self, options, ours, peer):
        self.options = options
        self.ours, self.peer = ours, peer
        self.read = 0         # tokens read
        self.decoded = {}     # depth: (ours, peer) milliseconds per token
        self.pieces = []      # (tokens before, ours, peer) seconds of a piece
        self.probes = []      # GB/s

    def probe(self):
        self.probes.append(PROBE_BYTES / self.ours.seconds("probe", PROBE_BYTES) / 1e9)

    def in_turn(self, word, n, turn):
        """Both do it, each going first every other time. Seconds of (ours, peer)."""
        if turn % 2 == 0:
            first = self.ours.seconds(word, n)
            return first, self.peer.seconds(word, n)
        second = self.peer.seconds(word, n)
        return self.ours.seconds(word, n), second

    def read_up_to(self, tokens):
        while self.read < tokens:
            n = min(PIECE, tokens - self.read)
            ours, peer = self.in_turn("read", n, len(self.pieces))
            self.pieces.append((self.read, n, ours, peer))
            self.ours.read_seconds += ours
            self.peer.read_seconds += peer
            self.read += n
            say(f"{self.read} of {self.options.tokens} tokens: ours {ours / n * 1e3:.3f}, peer {peer / n * 1e3:.3f} ms per token")
            self.probe()

    def decode(self, depth):
        times = [self.in_turn("step", BLOCK, i) for i in range(self.options.steps // BLOCK)]
        self.probe()
        both = [[side / BLOCK * 1e3 for side in sides] for sides in zip(*times)]
        self.decoded[depth] = [statistics.median(side) for side in both]
        ours, peer = self.decoded[depth]
        figure(f"decode_peer_over_ours_{depth}", peer / ours, "times", peer / ours, self.probes[-1:],
               ours_ms=ours, ours_least=min(both[0]), ours_most=max(both[0]),
               peer_ms=peer, peer_least=min(both[1]), peer_most=max(both[1]))

    def prefill_at(self, depth):
        """The last piece."""
        before, n, ours, peer = self.pieces[-1]
        figure(f"prefill_peer_over_ours_{depth}", peer / ours, "times", peer / ours, self.probes[-1:],
               tokens=n, ours_ms=ours / n * 1e3, peer_ms=peer / n * 1e3)

    def slope(self, qsa_layers):
        """Of decode, per token of depth and QSA layer."""
        if SLOPE_FROM not in self.decoded or SLOPE_TO not in self.decoded:
            return
        tokens = (SLOPE_TO - SLOPE_FROM) * qsa_layers
        ours, peer = [(to - start) / tokens * 1e6
                      for start, to in zip(self.decoded[SLOPE_FROM], self.decoded[SLOPE_TO])]
        ratio = peer / ours if ours > 0 else None  # lost in the noise: no figure
        figure("decode_slope_peer_over_ours", ratio, "times", ratio, self.probes, ours_ns=ours, peer_ns=peer)

    def keep(self, depth):
        for side in (self.ours, self.peer):
            side.ask("save", depth)

    def whole(self):
        ratio = self.peer.read_seconds / self.ours.read_seconds
        name = "quoter_prefill_peer_over_ours" if self.options.answer else "prefill_peer_over_ours"
        figure(name, ratio, "times", ratio, self.probes, tokens=self.read,
               ours_s=self.ours.read_seconds, peer_s=self.peer.read_seconds)

    def run_kept(self, there):
        """From the states that an earlier run of the same text has kept."""
        for depth in self.options.depths:
            at = {int(side.ask("load", depth)) for side in (self.ours, self.peer)}
            self.decode(depth)
            self.read_up_to(self.read + min(PIECE, there - max(at) - self.options.steps))
            self.prefill_at(depth)

    def run(self):
        stop = self.options.minutes * 60
        for depth in self.options.depths:
            if depth > self.options.tokens or self.peer.read_seconds > stop:
                break
            self.read_up_to(depth)
            self.prefill_at(depth)
            if self.options.keep:
                self.keep(depth)
            self.decode(depth)
        if self.peer.read_seconds <= stop:
            self.read_up_to(self.options.tokens)
        else:
            say(f"stopped after {self.read} tokens: the peer has read for {self.peer.read_seconds / 60:.0f} minutes")


# ---- the text ----

def prepare(options, folder, driver):
    """The ledger and the demo model, where no others are given; its tokens are bytes."""
    options.answer = None
    if options.model or options.text:
        if not (options.model and options.text):
            sys.exit("compare: --model and --text go together")
        return
    options.text = str(folder / "ledger.txt")
    steps = options.steps * len(options.depths)
    output = subprocess.run([driver, "ledger", options.text, str(options.tokens + steps)], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    options.model, options.answer = output.rstrip("\n").split("\n")


def check_text(options, ours, peer):
    if ours.opened[:2] != peer.opened[:2]:
        sys.exit(f"compare: ours makes {ours.opened[0]} tokens of the text, the peer {peer.opened[0]}, "
                 "or they are others")
    return int(ours.opened[0])


def check_continuation(options, ours, peer):
    """Both go on from the end of the text. Returns whether that is as it should be."""
    a, b = ours.ask("say", CONTINUED), peer.ask("say", CONTINUED)
    same = a == b
    is_right = None
    if options.answer:
        text = bytes(int(t) for t in a.split() if int(t) < 256).decode("utf-8", "replace")
        is_right = text.startswith(options.answer)
    figure("same_continuation", int(same), "0 or 1", None, None, tokens=CONTINUED, is_the_expected_answer=is_right)
    return options.answer is None or (same and is_right)


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0], add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--peer", type=pathlib.Path)
    parser.add_argument("--driver", type=pathlib.Path)
    parser.add_argument("--model")
    parser.add_argument("--text")
    parser.add_argument("--tokens", type=int, default=35000)
    parser.add_argument("--depths", type=lambda s: sorted(int(d) for d in s.split(",")),
                        default=[2048, 8192, 16384, 32768])
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--kept", action="store_true")
    options = parser.parse_args()
    if options.help:
        print(__doc__.strip())
        sys.exit(0)
    if options.steps < BLOCK or options.steps % BLOCK != 0 or options.tokens < 1:
        parser.error(f"--steps is a multiple of {BLOCK}, --tokens at least 1")
    options.depths = [d for d in options.depths if 0 < d <= options.tokens]
    return options


def main():
    options = arguments()
    driver = options.build / "bench" / "compare_ours"
    if not driver.is_file():
        sys.exit(f"compare: {driver} is missing; `make compare` builds it")
    folder = options.peer or options.build / "compare"
    folder.mkdir(parents=True, exist_ok=True)
    peer_driver = options.driver or build_peer(folder)
    prepare(options, folder, driver)
    options.context = options.tokens + options.steps * len(options.depths) + ROOM
    started = time.monotonic()
    ours, peer = Side(driver, options, folder), Side(peer_driver, options, folder)
    there = check_text(options, ours, peer)
    comparison = Comparison(options, ours, peer)
    layers = int(ours.opened[2])
    good = True
    if options.kept:
        comparison.run_kept(there)
        comparison.slope(layers)
    else:
        options.tokens = min(options.tokens, there - options.steps * len(options.depths))
        comparison.run()
        comparison.slope(layers)
        comparison.whole()
        rest = there - comparison.read - len(comparison.decoded) * options.steps
        if comparison.read == options.tokens and rest > 0:
            comparison.in_turn("read", rest, 0)
            good = check_continuation(options, ours, peer)
    say(f"{time.monotonic() - started:.0f} s in all")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
