#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embeddings beside a chat model on the same workers: what each loses to the other.

  bench/server/embeddings.py --model CHAT --embedder BERT              # directories; streams that never pause
  bench/server/embeddings.py --model CHAT --embedder BERT --streams 4 --inputs 64 --words 40
  bench/server/embeddings.py --model CHAT --embedder BERT --flags "--itl-factor 1.2" --answer 64 --pause 12 --seconds 60

Each pair has a server. Parts of so many seconds: streams alone and streams beside embeddings, in turn the one or the other
first, and embeddings alone (two clients, requests of so many inputs). A stream asks for an answer, pauses, and asks again:
with pauses embeddings have the time between answers, too. Printed: tokens a second of embeddings and the streams' gaps
between the tokens of an answer (milliseconds), alone and together, and the ratios of together to alone, median and range over
the pairs; for the p99 and the embeddings also whether the median meets the goal.
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
    """Clients that ask, read the answer, pause, and ask again."""

    def __init__(self, port, seed, settings):
        self.stop, self.answers = threading.Event(), []  # arrival times, a list an answer
        self.threads = [threading.Thread(target=self.run, args=(port, random.Random(f"{seed} {i}"), settings))
                        for i in range(settings.streams)]
        for thread in self.threads:
            thread.start()
        while settings.pause == 0 and sum(
                len(times) >= min(10, settings.answer) for times in list(self.answers)) < settings.streams:
            time.sleep(0.01)

    def run(self, port, rng, settings):
        while not self.stop.wait(rng.expovariate(1 / settings.pause) if settings.pause > 0 else 0):
            times = []
            self.answers.append(times)
            stream(port, {"prompt": prompt(rng, 16), "max_tokens": settings.answer}, times, self.stop)

    def gaps(self, begin, end):
        return [gap for times in self.answers for gap in gaps(times, begin, end)]

    def share_of_time(self, begin, end):
        """In which at least one of them gets tokens."""
        covered, at = 0, begin
        for first, last in sorted((times[0], min(times[-1], end)) for times in self.answers if times):
            covered += max(0, last - max(first, at))
            at = max(at, last)
        return covered / (end - begin)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def percentile(numbers, share):
    return sorted(numbers)[min(int(len(numbers) * share), len(numbers) - 1)]


def measure_streams(port, name, settings, seed, has_flood):
    """Gaps, the share of time in which streams ran, tokens a second of embeddings."""
    flood = Flood(port, name, random.Random(seed), settings) if has_flood else None
    streams = Streams(port, seed, settings)
    time.sleep(0.5)
    begin = time.monotonic()
    time.sleep(settings.seconds)
    end = time.monotonic()
    rate = flood.rate(begin, end) if flood else 0
    streams.end()
    if flood:
        flood.end()
    return streams.gaps(begin, end), streams.share_of_time(begin, end), rate


def measure_embeddings(port, name, settings, seed):
    flood = Flood(port, name, random.Random(seed), settings)
    time.sleep(1)
    begin = time.monotonic()
    time.sleep(settings.seconds)
    rate = flood.rate(begin, time.monotonic())
    flood.end()
    return rate


def measure(settings, seed):
    name = settings.embedder.resolve().name
    flags = ["--memory", settings.memory, "--model", str(settings.embedder), *settings.flags.split()]
    with Server(settings.troupe, flags, model=settings.model, ready_seconds=120) as server:
        stream(server.port, {"prompt": prompt(random.Random(seed), 16), "max_tokens": 30}, [])  # its pace is known
        alone = measure_embeddings(server.port, name, settings, seed)
        parts = {has_flood: measure_streams(server.port, name, settings, seed, has_flood)
                 for has_flood in ((False, True) if seed % 2 == 0 else (True, False))}
    (quiet, share, _), (busy, _, together) = parts[False], parts[True]
    if not quiet or not busy:
        sys.exit("no stream had two tokens in a part: more --seconds, or less --pause")
    return {"embedding tokens/s": (alone, together),
            "gap p50": (statistics.median(quiet), statistics.median(busy)),
            "gap p99": (percentile(quiet, 0.99), percentile(busy, 0.99)),
            "gaps": (len(quiet), len(busy)), "share": share}


GOALS = {"embedding tokens/s": (0.8, lambda ratio: ratio >= 0.8), "gap p99": (1.2, lambda ratio: ratio <= 1.2)}


def report(what, results):
    alone, together = ([run[what][i] for run in results] for i in (0, 1))
    ratios = sorted(b / a for a, b in zip(alone, together))
    median = statistics.median(ratios)
    line = (f"{what:20}  alone {statistics.median(alone):9.1f}  together {statistics.median(together):9.1f}   "
            f"ratio {median:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    if what in GOALS:
        goal, is_met = GOALS[what]
        line += f"   goal {goal}: {'met' if is_met(median) else 'missed'}"
    print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/demo")
    parser.add_argument("--embedder", type=pathlib.Path, required=True)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--inputs", type=int, default=64, help="of a request")
    parser.add_argument("--words", type=int, default=40, help="of an input, at most")
    parser.add_argument("--flags", default="", help="of the server")
    parser.add_argument("--answer", type=int, default=1000, help="tokens of an answer")
    parser.add_argument("--pause", type=float, default=0, help="seconds between a stream's answers, mean of an exponential")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of each part")
    settings = parser.parse_args()
    results = [measure(settings, seed) for seed in range(settings.pairs)]
    shares = sorted(run["share"] for run in results)
    print(f"{settings.streams} streams, answers of {settings.answer} tokens, pauses of {settings.pause:g} s; "
          f"2 x {settings.inputs} inputs of up to {settings.words} words; {settings.pairs} pairs; "
          f"load {os.getloadavg()[0]:.1f}\n"
          f"streams alone ran {statistics.median(shares):.2f} of the time ({shares[0]:.2f} to {shares[-1]:.2f}); "
          f"at least {min(min(run['gaps']) for run in results)} gaps a part")
    for what in ("embedding tokens/s", "gap p50", "gap p99"):
        report(what, results)


if __name__ == "__main__":
    main()
