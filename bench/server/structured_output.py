#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Streams whose answers must have a form against streams that are free, on one server.

  bench/server/structured_output.py --model MODEL

MODEL: a directory that bench_conversation_model has written, or any other. In each pair so many streams decode twice, once
free and once bound, and tokens a second are counted while all of them run. The form is an array of objects that never ends
by itself. Goal: bound streams give at least 0.99 of the tokens of free ones.
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

GOAL = 0.99
ITEM = {"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}},
                                         "count": {"type": "integer"}, "kind": {"enum": ["red", "green", "blue"]}},
        "required": ["name", "tags", "count", "kind"], "additionalProperties": False}
FORM = {"type": "json_schema", "json_schema": {"name": "items", "schema": {"type": "array", "items": ITEM, "minItems": 1000}}}


def rate(port, settings, seed, form):
    rng = random.Random(seed)
    body = {"max_tokens": 1900} | ({"response_format": FORM, "ignore_eos": False} if form else {})
    with running_streams(port, [body | {"prompt": prompt(rng, 16)} for _ in range(settings.streams)]) as arrivals:
        begin = time.monotonic()
        time.sleep(settings.seconds)
        end = time.monotonic()
        return num_arrived(arrivals, begin, end) / (end - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0)
    settings = parser.parse_args()
    free, bound = [], []
    with Server(settings.troupe, ["--memory", "1GiB"], model=settings.model, ready_seconds=120) as server:
        for pair in range(settings.pairs):
            for form in (False, True) if pair % 2 == 0 else (True, False):
                (bound if form else free).append(rate(server.port, settings, pair, form))
    ratios = sorted(b / a for a, b in zip(free, bound))
    print(f"{settings.streams} streams, {settings.pairs} pairs; load {os.getloadavg()[0]:.1f}")
    print(f"tokens a second: free {statistics.median(free):.0f}, bound {statistics.median(bound):.0f}; "
          f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    return 0 if statistics.median(ratios) >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
