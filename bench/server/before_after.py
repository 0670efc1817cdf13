#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of the server, pair by pair: tokens a second of a model, and the server's processor time a token of text.

  bench/server/before_after.py --before OLD_TROUPE --model MODEL      # --after: build/release/app/troupe

MODEL: a directory that bench_conversation_model has written, or any other. In each pair the two builds take turns. First so
many streams decode on the CPU, and tokens a second are counted while all of them run. Then as many run on the device of no
network, which takes 5 ms a batch, and the server's processor time is divided by the tokens that came. The ratios are said
such that more is better; goal of both: the median is at least 0.98.
"""
import argparse
import os
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import ROOT, Server  # noqa: E402
from newcomer import num_arrived, prompt, running_streams  # noqa: E402

GOAL = 0.98
DECODE, EVENT = "decode, tokens a second", "server CPU a token, us"


def processor_seconds(pid):
    """Of all its threads; none ends in between."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()) / 1e9


def window(server, settings, seed):
    """Tokens, wall seconds and the server's processor seconds while all streams run."""
    rng = random.Random(seed)
    bodies = [{"prompt": prompt(rng, 16), "max_tokens": 1900} for _ in range(settings.streams)]
    with running_streams(server.port, bodies) as arrivals:
        begin, used = time.monotonic(), processor_seconds(server.process.pid)
        time.sleep(settings.seconds)
        end, used = time.monotonic(), processor_seconds(server.process.pid) - used
        return num_arrived(arrivals, begin, end), end - begin, used


def measure(binary, settings, seed):
    common = ["--memory", settings.memory, "--max-batch-sequences", "64"]
    with Server(binary, common, model=settings.model, ready_seconds=120) as server:
        num_tokens, seconds, _ = window(server, settings, seed)
    with Server(binary, [*common, "--device", "noop", "--noop-iteration-us", "5000"], model=settings.model,
                ready_seconds=120) as server:
        num_events, _, used = window(server, settings, seed)
    return {DECODE: num_tokens / seconds, EVENT: used / num_events * 1e6}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--after", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    settings = parser.parse_args()
    arms = [settings.before, settings.after]
    results = {arm: [] for arm in range(2)}
    for pair in range(settings.pairs):
        for arm in (0, 1) if pair % 2 == 0 else (1, 0):
            results[arm].append(measure(arms[arm], settings, pair))
    print(f"{settings.streams} streams, {settings.pairs} pairs; load {os.getloadavg()[0]:.1f}")
    print(f"{'':28} {'before':>12} {'after':>12}   after is better by")
    missed = []
    for row in (DECODE, EVENT):
        before, after = ([run[row] for run in results[arm]] for arm in range(2))
        ratios = sorted(b / a if row == DECODE else a / b for a, b in zip(before, after))
        print(f"{row:28} {statistics.median(before):12.2f} {statistics.median(after):12.2f}   "
              f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
        if statistics.median(ratios) < GOAL:
            missed.append(row)
    print("goals missed: " + ", ".join(missed) if missed else "goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
