#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams beside a foreign process that keeps one core busy, against the same streams alone: tokens a second.

  bench/random_llama.py 100m build/models/llama-100m
  bench/server/foreign_thread.py --model build/models/llama-100m

MODEL: a directory that bench/random_llama.py or bench_conversation_model has written, or any other. One server with
its defaults, so with a compute thread on each core. In each pair so many streams decode twice, alone and beside a
process that spins on one core; the arms change places from pair to pair. Tokens a second are counted while all
streams run. The foreign process is bound to no core and has the niceness and the session of the server, so the
kernel divides time evenly among their threads: on two cores, two threads of three get 0.67 of the machine, and half
of it if each step waits for the thread that shares its core. Printed: the ratio to alone, median and range over the
pairs, for 1 and for 8 streams. Goal: at least 0.62, stated for two cores.

A machine that is not quiet gives no result; --anyway prints the figures and judges none.
On another number of cores figures are printed and nothing is judged.
Exit status: 0 if the goal is met, 1 if it is missed, 77 if there is no result.
"""
import argparse
import contextlib
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import ROOT, Server  # noqa: E402
from newcomer import num_arrived, prompt, running_streams  # noqa: E402
from quiet import MachineWatch  # noqa: E402

GOAL, CORES = 0.62, 2
NO_RESULT = 77
ALONE, BESIDE = "alone", "beside"
MOST_TOKENS = 1900  # of a stream
SETTLE_SECONDS = 0.3  # until the kernel has found the spinning process a core


@contextlib.contextmanager
def foreign_process():
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(SETTLE_SECONDS)
        yield
        if spinning.poll() is not None:
            sys.exit(f"the foreign process ended by itself: exit status {spinning.returncode}")
    finally:
        spinning.kill()
        spinning.wait()


def rate(server, num_streams, seconds, seed, arm):
    """Tokens a second of all streams together."""
    rng = random.Random(seed)
    bodies = [{"prompt": prompt(rng, 16), "max_tokens": MOST_TOKENS} for _ in range(num_streams)]
    with running_streams(server.port, bodies) as arrivals:
        with foreign_process() if arm == BESIDE else contextlib.nullcontext():
            begin = time.monotonic()
            time.sleep(seconds)
            end = time.monotonic()
        if end - min(times[-1] for times in arrivals) > seconds / 2:
            sys.exit("a stream had no token for half of the time")
        if max(map(len, arrivals)) >= MOST_TOKENS:
            sys.exit("a stream ended while it was measured: take a model that is slower, or fewer --seconds")
        return num_arrived(arrivals, begin, end) / (end - begin)


def measure(settings):
    """By number of streams, tokens a second of each arm, one a pair; one pair more warms up."""
    rates = {count: {ALONE: [], BESIDE: []} for count in settings.streams}
    with Server(settings.troupe, ["--memory", settings.memory, *settings.flags.split()], model=settings.model,
                ready_seconds=120) as server:
        for num_streams, of_arms in rates.items():
            for pair in range(-1, settings.pairs):
                for arm in (ALONE, BESIDE) if pair % 2 == 0 else (BESIDE, ALONE):
                    found = rate(server, num_streams, settings.seconds, pair, arm)
                    if pair >= 0:
                        of_arms[arm].append(found)
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--flags", default="", help="more of the server's")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="of counting tokens, each time")
    parser.add_argument("--anyway", action="store_true",
                        help="print the figures of a machine that is not quiet; no goal is judged")
    settings = parser.parse_args()
    watch = MachineWatch()
    rates = measure(settings)
    noise = watch.end()
    if noise.reasons() and not settings.anyway:
        print(f"NO RESULT: the machine was not quiet: {'; '.join(noise.reasons())}")
        return NO_RESULT
    print(f"{settings.model.name}, {len(os.sched_getaffinity(0))} cores, {settings.pairs} pairs of {settings.seconds:g} s; "
          f"{noise.text()}")
    missed = []
    for num_streams, of_arms in rates.items():
        ratios = sorted(beside / alone for alone, beside in zip(of_arms[ALONE], of_arms[BESIDE]))
        ratio = statistics.median(ratios)
        print(f"{num_streams:3} streams: tokens a second alone {statistics.median(of_arms[ALONE]):.1f}, beside "
              f"{statistics.median(of_arms[BESIDE]):.1f}; ratio {ratio:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}; "
              f"goal: {GOAL})")
        if ratio < GOAL:
            missed.append(str(num_streams))
    if settings.anyway or len(os.sched_getaffinity(0)) != CORES:
        return NO_RESULT
    print(f"goal missed with {' and '.join(missed)} streams" if missed else "goal met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
