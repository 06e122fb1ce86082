#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one model file and one text through llama.cpp and qsa in turn, and prints the ratios by depth.

usage: compare.py [OPTION...]

  --build FOLDER   where qsa was built, with its compare_ours; default build
  --peer FOLDER    where llama.cpp is unpacked and built, with its best options for this machine; default BUILD/compare
  --driver FILE    a compare_peer that is built already
  --model FILE     default: the demo model, whose text is a ledger and whose answer is known
  --text FILE      what both read; default: the ledger
  --tokens N       of the text, at most; both then continue it; default 35000
  --depths LIST    tokens after which both save their states; default 2048,8192,16384,32768
  --steps N        tokens decoded at each depth, in blocks of 8; default 128
  --threads N      default 2
  --minutes N      prefill ends early, at the next depth, once the peer has taken this long; default 60
  --processor      compare processor time instead of wall-clock time: on a busy machine, with --threads 1, since threads
                   that wait for each other also take processor time
  --kept           skip prefill: measure only at the depths, from the states that an earlier run of the same text saved

Prefill first: both read the text, 2,048 tokens at a time, taking turns to go first; of these, the first piece and the
one after each depth are figures. Then, from the states saved at the depths, both decode, and prefill 256 tokens more,
again in turn; one waits while the other works. The peer runs with
flash attention, batches of 2,048 tokens in micro-batches of 512, and f16 K and V; qsa with its defaults: chunks of 512
tokens, bf16 K and V. The states stay in the peer's folder, some hundred megabytes.

Prints one JSON object per line: name, value, unit, ratio (peer's time / ours; above 1 ours is faster) and probe (memory
bandwidth of one thread in GB/s, the median of the run). Exits with 1 if both do not tokenize the text alike, or on
the demo model do not continue alike with the answer that the ledger holds.
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
LATER_PIECE = 256             # tokens of prefill after a saved state
BLOCK = 8                     # tokens decoded in turn
CONTINUED = 40                # tokens after the text
PROBE_BYTES = 1 << 27
SLOPE_FROM, SLOPE_TO = 8192, 32768
SLOPE_BLOCKS = 8              # fewer cannot tell our slope from noise
ROOM = 256                    # tokens of context beyond the text


# ---- the peer ----

def pinned(name):
    """A value that cmake/ggml.cmake pins."""
    text = (ROOT / "cmake" / "ggml.cmake").read_text(encoding="utf-8")
    return re.search(rf"set\({name} (\S+)\)", text).group(1)


def archive():
    """The source package that the build left in the cache folder; its hash is checked."""
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

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def figure(name, ratio, probes, unit="times", **more):
    """One line. The value is the ratio itself, where there is one."""
    value = more.pop("value", ratio)
    line = {"name": name, "value": value, "unit": unit, "ratio": ratio,
            "probe": statistics.median(probes) if probes else None, **more}
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}), flush=True)


def in_turn(pair, word, n, turn):
    """Both do it, taking turns to go first. Returns the seconds of (ours, peer)."""
    order = pair if turn % 2 == 0 else pair[::-1]
    took = [side.seconds(word, n) for side in order]
    return took if turn % 2 == 0 else took[::-1]


def stepped(options):
    """Tokens of the text that decode takes: each block, and one token before it."""
    return options.steps // BLOCK * (BLOCK + 1)


class Comparison:
    def __init__(self, options, open_pair):
        self.options = options
        self.open_pair = open_pair  # opens the model on both sides: ours, the peer
        self.probes = []            # GB/s

    def probe(self, ours):
        self.probes.append(PROBE_BYTES / ours.seconds("probe", PROBE_BYTES) / 1e9)

    # ---- prefill from the beginning

    def read(self, pair):
        """Prefill on both sides; states are saved at each depth. Returns (tokens, seconds of both)."""
        options, done, spent, turn = self.options, 0, [0.0, 0.0], 0
        for goal in [*options.depths, options.tokens]:
            while done < goal:
                n = min(PIECE, goal - done)
                took = in_turn(pair, "read", n, turn)
                spent = [a + b for a, b in zip(spent, took)]
                done, turn = done + n, turn + 1
                self.probe(pair[0])
                if n == PIECE and done - n in (0, *options.depths):
                    figure(f"prompt_peer_over_ours_{done - n}", took[1] / took[0], self.probes[-1:], tokens=n,
                           ours_ms=took[0] / n * 1e3, peer_ms=took[1] / n * 1e3)
                say(f"{done} of {options.tokens} tokens: ours {took[0] / n * 1e3:.3f}, "
                    f"peer {took[1] / n * 1e3:.3f} ms per token")
            if goal in options.depths:
                for side in pair:
                    side.ask("save", goal)
            if spent[1] > options.minutes * 60 and done < options.tokens:
                say(f"stopped after {done} tokens: the peer has read for {spent[1] / 60:.0f} minutes")
                break
        return done, spent

    def whole(self, tokens, spent):
        name = "quoter_prefill_peer_over_ours" if self.options.answer else "prefill_peer_over_ours"
        figure(name, spent[1] / spent[0], self.probes, tokens=tokens, ours_s=spent[0], peer_s=spent[1])

    # ---- at the depths, from the saved states

    def at_depths(self, depths):
        """Every depth has a pair of its own, and all take turns, so that noise of the machine hits all alike."""
        pairs = {depth: self.open_pair() for depth in depths}
        for depth, pair in pairs.items():
            for side in pair:
                side.ask("load", depth)
        times = {depth: [] for depth in depths}
        for turn in range(self.options.steps // BLOCK):
            for depth, pair in pairs.items():
                in_turn(pair, "step", 1, turn)  # refills the caches that the others evicted
                times[depth].append([seconds / BLOCK * 1e3 for seconds in in_turn(pair, "step", BLOCK, turn)])
            self.probe(pairs[depths[0]][0])
        for depth in depths:
            self.ratio_at("decode_peer_over_ours", depth, times[depth], tokens=1)
        self.slope(times)
        for depth, pair in pairs.items():
            n = min(LATER_PIECE, self.options.end - depth - stepped(self.options))
            if n > 0:
                took = [[seconds / n * 1e3 for seconds in in_turn(pair, "read", n, 0)]]
                self.ratio_at("prefill_peer_over_ours", depth, took, tokens=n)
        for pair in pairs.values():
            for side in pair:
                side.close()

    def ratio_at(self, name, depth, times, **more):
        """times: [(ours, peer)] in milliseconds per token."""
        ours, peer = zip(*times)
        figure(f"{name}_{depth}", statistics.median(peer) / statistics.median(ours), self.probes, **more,
               ours_ms=statistics.median(ours), ours_least=min(ours), ours_most=max(ours),
               peer_ms=statistics.median(peer), peer_least=min(peer), peer_most=max(peer))

    def slope(self, times):
        """Decode time per token of depth and QSA layer: median of the differences between neighbouring blocks."""
        if SLOPE_FROM not in times or SLOPE_TO not in times or len(times[SLOPE_TO]) < SLOPE_BLOCKS:
            return
        tokens = (SLOPE_TO - SLOPE_FROM) * self.options.qsa_layers
        both = [statistics.median(to[side] - start[side] for start, to in zip(times[SLOPE_FROM], times[SLOPE_TO]))
                for side in (0, 1)]
        ours, peer = [difference / tokens * 1e6 for difference in both]
        ratio = peer / ours if ours > 0 else None  # lost in noise: no figure
        figure("decode_slope_peer_over_ours", ratio, self.probes, ours_ns=ours, peer_ns=peer)


# ---- the text ----

def prepare(options, folder, driver):
    """The ledger and the demo model (its tokens are bytes), unless others are given."""
    options.answer = None
    if options.model or options.text:
        if not (options.model and options.text):
            sys.exit("compare: --model and --text go together")
        return
    options.text = str(folder / "ledger.txt")
    output = subprocess.run([driver, "ledger", options.text, str(options.tokens)], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    options.model, options.answer = output.rstrip("\n").split("\n")


def check_text(options, pair):
    ours, peer = pair[0].opened, pair[1].opened
    if ours[:2] != peer[:2]:
        sys.exit(f"compare: ours makes {ours[0]} tokens of the text, the peer {peer[0]}, or they are others")
    options.qsa_layers = int(ours[2])
    options.tokens = min(options.tokens, int(ours[0]))
    options.end = int(ours[0]) if options.answer else options.tokens  # the ledger's question follows
    options.depths = [d for d in options.depths if 0 < d <= options.end - stepped(options)]


def check_continuation(options, pair):
    """Both continue the text. Returns whether they agree and, on the ledger, answer right."""
    a, b = (side.ask("say", CONTINUED).split() for side in pair)
    same = a == b
    agree = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    is_right = None
    if options.answer:
        text = bytes(int(t) for t in a if int(t) < 256).decode("utf-8", "replace")
        is_right = text.startswith(options.answer)
    figure("same_continuation", None, None, unit="0 or 1", value=int(same), tokens=CONTINUED, tokens_alike=agree,
           is_the_expected_answer=is_right)
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
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--kept", action="store_true")
    options = parser.parse_args()
    if options.help:
        print(__doc__.strip())
        sys.exit(0)
    if options.steps < BLOCK or options.steps % BLOCK != 0 or options.tokens < 1:
        parser.error(f"--steps is a multiple of {BLOCK}, --tokens at least 1")
    return options


def read_and_continue(options, comparison, pair):
    """Prefill of the whole text, its figure, and the continuation. Returns whether that is right."""
    tokens, spent = comparison.read(pair)
    comparison.whole(tokens, spent)
    good = True
    if tokens == options.tokens:
        if options.end > tokens:
            in_turn(pair, "read", options.end - tokens, 0)
        good = check_continuation(options, pair)
    options.depths = [d for d in options.depths if d <= tokens]
    return good


def main():
    options = arguments()
    driver = options.build / "bench" / "compare_ours"
    if not driver.is_file():
        sys.exit(f"compare: {driver} is missing; `make compare` builds it")
    folder = options.peer or options.build / "compare"
    folder.mkdir(parents=True, exist_ok=True)
    peer_driver = options.driver or build_peer(folder)
    prepare(options, folder, driver)
    options.context = options.tokens + ROOM
    started = time.monotonic()
    comparison = Comparison(options, lambda: [Side(d, options, folder) for d in (driver, peer_driver)])
    pair = comparison.open_pair()
    check_text(options, pair)
    good = options.kept or read_and_continue(options, comparison, pair)
    for side in pair:
        side.close()
    if options.depths:
        comparison.at_depths(options.depths)
    say(f"{time.monotonic() - started:.0f} s in all")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
