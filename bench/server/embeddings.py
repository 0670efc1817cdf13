#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embeddings beside a chat model on the same workers: what each loses to the other.

  bench/server/embeddings.py --model CHAT --embedder BERT              # directories
  bench/server/embeddings.py --model CHAT --embedder BERT --streams 4 --inputs 64 --words 40

In each run, on one server: embeddings alone (two clients, requests of so many inputs), streams alone, then both. Printed:
tokens a second of embeddings and the streams' gaps between tokens (milliseconds), alone and together, and the ratios of
together to alone, median and range over the runs.
"""
import argparse
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
from newcomer import gaps, prompt, stream  # noqa: E402

WORDS = ("the quick brown fox jumps over a lazy dog while seven wizards write letters about weather and "
         "music to friends who live far away").split()


def texts(rng, settings):
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(1, settings.words))) for _ in range(settings.inputs)]


def embed_until(port, name, inputs, stop, served):
    """Appends (time, tokens) of each answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = json.dumps({"model": name, "input": inputs, "encoding_format": "base64"})
    while not stop.is_set():
        connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(content.decode())
        served.append((time.monotonic(), json.loads(content)["usage"]["prompt_tokens"]))
    connection.close()


class Flood:
    """Two clients that ask for vectors all the time."""

    def __init__(self, port, name, rng, settings):
        self.stop, self.served = threading.Event(), []
        self.threads = [threading.Thread(target=embed_until, args=(port, name, texts(rng, settings), self.stop, self.served))
                        for _ in range(2)]
        for thread in self.threads:
            thread.start()

    def rate(self, begin, end):
        return sum(tokens for at, tokens in self.served if begin < at <= end) / (end - begin)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


class Streams:
    def __init__(self, port, rng, settings):
        self.stop, self.arrivals = threading.Event(), [[] for _ in range(settings.streams)]
        self.threads = [threading.Thread(target=self.run, args=(port, prompt(rng, 16), times)) for times in self.arrivals]
        for thread in self.threads:
            thread.start()
        while min(map(len, self.arrivals)) < 10:
            time.sleep(0.01)

    def run(self, port, tokens, times):
        while not self.stop.is_set():
            stream(port, {"prompt": tokens, "max_tokens": 1000}, times, self.stop)

    def gaps(self, begin, end):
        return [gap for times in self.arrivals for gap in gaps(list(times), begin, end)]

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def percentile(numbers, share):
    return sorted(numbers)[min(int(len(numbers) * share), len(numbers) - 1)]


def measure(settings, seed):
    rng = random.Random(seed)
    with Server(settings.troupe, ["--memory", settings.memory, "--model", str(settings.embedder)], model=settings.model,
                ready_seconds=120) as server:
        name = settings.embedder.resolve().name
        flood = Flood(server.port, name, rng, settings)
        time.sleep(1)
        begin = time.monotonic()
        time.sleep(settings.seconds)
        alone = flood.rate(begin, time.monotonic())
        flood.end()
        streams = Streams(server.port, rng, settings)
        begin = time.monotonic()
        time.sleep(settings.seconds)
        quiet = streams.gaps(begin, time.monotonic())
        flood = Flood(server.port, name, rng, settings)
        time.sleep(0.5)
        begin = time.monotonic()
        time.sleep(settings.seconds)
        end = time.monotonic()
        busy, together = streams.gaps(begin, end), flood.rate(begin, end)
        flood.end()
        streams.end()
    return {"embedding tokens/s": (alone, together),
            "gap p50": (statistics.median(quiet), statistics.median(busy)),
            "gap p99": (percentile(quiet, 0.99), percentile(busy, 0.99))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/demo")
    parser.add_argument("--embedder", type=pathlib.Path, required=True)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--inputs", type=int, default=64, help="of a request")
    parser.add_argument("--words", type=int, default=40, help="of an input, at most")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of each part")
    settings = parser.parse_args()
    results = [measure(settings, seed) for seed in range(settings.runs)]
    print(f"{settings.streams} streams, 2 x {settings.inputs} inputs of up to {settings.words} words, {settings.runs} runs; "
          f"load {os.getloadavg()[0]:.1f}")
    for what in results[0]:
        alone, together = ([run[what][i] for run in results] for i in (0, 1))
        ratios = sorted(b / a for a, b in zip(alone, together))
        print(f"{what:20}  alone {statistics.median(alone):9.1f}  together {statistics.median(together):9.1f}   "
              f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")


if __name__ == "__main__":
    main()
