#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A prompt beside running streams: what it costs them, and how soon it is answered itself.

  bench/server/newcomer.py --model MODEL                      # --itl-factor 0 against the default
  bench/server/newcomer.py --model MODEL --baseline OLD_TROUPE --flags "" --prompt 20 --streams 8

MODEL: a directory that bench_conversation_model has written, or any other. Two servers take turns, pair by pair. In each
run so many streams decode; then a prompt of so many tokens comes, several times. Printed per arm: the streams' gaps between
tokens alone and while the prompt is computed, in milliseconds, and the time to the prompt's first token; then the ratios of
the second arm to the first, median and range over the pairs.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import random
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import ROOT, Server  # noqa: E402


def stream(port, body, arrivals, stop=None):
    """Appends the time of each event with text; returns at the end, or when told to stop."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/completions", json.dumps({"stream": True, "temperature": 0, "ignore_eos": True} | body),
                       {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(answer.read().decode())
    for line in answer:
        if line.startswith(b"data: {"):
            arrivals.append(time.monotonic())
        if stop is not None and stop.is_set():
            break
    connection.close()


@contextlib.contextmanager
def running_streams(port, bodies):
    """Lists of arrival times of streams that all run by now, and end with the block."""
    stop = threading.Event()
    arrivals = [[] for _ in bodies]
    threads = [threading.Thread(target=stream, args=(port, body, times, stop)) for body, times in zip(bodies, arrivals)]
    for thread in threads:
        thread.start()
    while min(map(len, arrivals)) < 10:
        time.sleep(0.01)
    try:
        yield arrivals
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def num_arrived(arrivals, begin, end):
    return sum(begin <= at < end for times in arrivals for at in list(times))


def prompt(rng, num_tokens):
    return [rng.randrange(10, 200) for _ in range(num_tokens)]


def gaps(arrivals, begin, end):
    """In milliseconds, of gaps that overlap [begin, end)."""
    return [(b - a) * 1000 for a, b in zip(arrivals, arrivals[1:]) if b > begin and a < end]


def measure(arm, settings, seed):
    rng = random.Random(seed)
    binary, flags = arm
    with Server(binary, ["--memory", settings.memory, *flags], model=settings.model, ready_seconds=120) as server:
        stop = threading.Event()
        arrivals = [[] for _ in range(settings.streams)]
        threads = [threading.Thread(target=stream, args=(server.port, {"prompt": prompt(rng, 16), "max_tokens": 1900},
                                                         times, stop)) for times in arrivals]
        for thread in threads:
            thread.start()
        while min(map(len, arrivals)) < 10:
            time.sleep(0.01)
        quiet_begin = time.monotonic()
        time.sleep(settings.quiet)
        quiet_end = time.monotonic()
        first_tokens, busy = [], []
        for _ in range(settings.prompts):
            times = []
            begin = time.monotonic()
            stream(server.port, {"prompt": prompt(rng, settings.prompt), "max_tokens": 1}, times)
            first_tokens.append((times[0] - begin) * 1000)
            busy += [gap for of_one in arrivals for gap in gaps(list(of_one), begin, times[0])]
            time.sleep(0.2)
        stop.set()
        for thread in threads:
            thread.join()
    alone = [gap for of_one in arrivals for gap in gaps(of_one, quiet_begin, quiet_end)]
    return {"alone p50": statistics.median(alone), "beside p50": statistics.median(busy), "beside max": max(busy),
            "first token": statistics.median(first_tokens)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--baseline", type=pathlib.Path, help="another build for the first arm")
    parser.add_argument("--flags", default="--itl-factor 0", help="of the first arm")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=1000, help="tokens")
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--quiet", type=float, default=1.0, help="seconds without a prompt")
    settings = parser.parse_args()
    arms = [(settings.baseline or settings.troupe, settings.flags.split()), (settings.troupe, [])]
    results = ([], [])
    for pair in range(settings.pairs):
        for arm in (0, 1) if pair % 2 == 0 else (1, 0):
            results[arm].append(measure(arms[arm], settings, pair))
    print(f"{settings.streams} streams, prompts of {settings.prompt} tokens, {settings.pairs} pairs, milliseconds; "
          f"load {os.getloadavg()[0]:.1f}")
    for name in results[0][0]:
        first, second = ([run[name] for run in runs] for runs in results)
        ratios = sorted(b / a for a, b in zip(first, second))
        print(f"{name:12}  {statistics.median(first):8.1f}  {statistics.median(second):8.1f}   "
              f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")


if __name__ == "__main__":
    main()
