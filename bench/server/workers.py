#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two workers of one core each against one worker of two threads, and against two servers: tokens a second, memory, and a
long prompt's neighbours.

  bench/server/workers.py --model MODEL        # MODEL: a directory that bench_conversation_model has written, or any other

The arms take turns, round by round. In each run so many streams decode; tokens a second are counted while all of them
run. Then a long prompt comes, several times: with two workers only the streams of its own worker can feel it, so their gaps
are told apart: those of the calmer half of the streams, and of the other half. Goals: tokens a second at least 0.7 of one
worker's, resident memory at most 1.15 of its, and the calmer half's p99 no worse than without the prompt.

Two servers of one thread each, with half of the streams each, share nothing but the machine: where a prompt at one slows the
other's streams, caches, memory and the clients' cores do it. Two workers are as good as that where the ratio to it is 1.
"""
import argparse
import contextlib
import os
import pathlib
import random
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import ROOT, Server  # noqa: E402
from newcomer import gaps, num_arrived, prompt, running_streams, stream  # noqa: E402

# The flags of each server of an arm.
ONE, TWO, APART = "one of two threads", "two of one thread", "two servers"
ARMS = {ONE: [["--workers", "1", "--threads", "2"]], TWO: [["--workers", "2", "--threads", "2"]],
        APART: [["--threads", "1", "--cpus", "0", "--io-cpus", "0-1"], ["--threads", "1", "--cpus", "1", "--io-cpus", "0-1"]]}

# Of the ratio of two workers to one, and of two workers' own figure.
GOALS = {"tokens a second": lambda ratio, own: ratio >= 0.7, "resident MB": lambda ratio, own: ratio <= 1.15,
         "calmer half, beside / alone": lambda ratio, own: own <= 1.1}


def p99(values):
    if not values:
        sys.exit("a stream ended before the others were measured: take a model that is slower, or fewer --seconds")
    return sorted(values)[int(len(values) * 0.99)]


def resident(pid):
    """Bytes of the process; its workers are threads of it."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def halves(arrivals, begin, end):
    """Gaps of the calmer half of the streams, and of the others."""
    by_calm = sorted((gaps(times, begin, end) for times in arrivals), key=p99)
    middle = len(by_calm) // 2
    return [[gap for of_one in half for gap in of_one] for half in (by_calm[:middle], by_calm[middle:])]


def measure(arm, settings, seed):
    """Streams go to the servers in turn; the long prompts to the last one."""
    rng = random.Random(seed)
    common = ["--memory", settings.memory, "--max-batch-sequences", "32"]
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Server(settings.troupe, [*common, *flags], model=settings.model, ready_seconds=120))
                   for flags in arm]
        arrivals = []
        for index, server in enumerate(servers):
            bodies = [{"prompt": prompt(rng, 16), "max_tokens": 1900} for _ in range(index, settings.streams, len(servers))]
            arrivals += stack.enter_context(running_streams(server.port, bodies))
        begin = time.monotonic()
        time.sleep(settings.seconds)
        end = time.monotonic()
        alone = halves([list(times) for times in arrivals], begin, end)
        num_tokens = num_arrived(arrivals, begin, end)
        bytes_resident = sum(resident(server.process.pid) for server in servers)
        calm, other = [], []
        for _ in range(settings.prompts):
            sent = time.monotonic()
            answered = []
            stream(servers[-1].port, {"prompt": prompt(rng, settings.prompt), "max_tokens": 1}, answered)
            calmer, others = halves([list(times) for times in arrivals], sent, answered[0])
            calm += calmer
            other += others
    return {"tokens a second": num_tokens / (end - begin), "resident MB": bytes_resident / 1e6,
            "gap p99 alone, ms": p99(alone[0] + alone[1]), "beside, calmer half": p99(calm), "beside, other half": p99(other),
            "calmer half, beside / alone": p99(calm) / p99(alone[0])}


def ratio_text(above, below):
    ratios = sorted(a / b for a, b in zip(above, below))
    return f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=1000, help="tokens")
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of counting tokens")
    settings = parser.parse_args()
    names = list(ARMS)
    results = {name: [] for name in names}
    for round_of_arms in range(settings.pairs):
        for name in names if round_of_arms % 2 == 0 else reversed(names):
            results[name].append(measure(ARMS[name], settings, round_of_arms))
    print(f"{settings.streams} streams, prompts of {settings.prompt} tokens, {settings.pairs} pairs; load {os.getloadavg()[0]:.1f}")
    print(f"{'':28}" + "".join(f"{name:>20}" for name in names) + f"   {'two workers / one':24} two workers / two servers")
    missed = []
    for row in results[ONE][0]:
        runs = {name: [run[row] for run in results[name]] for name in names}
        print(f"{row:28}" + "".join(f"{statistics.median(runs[name]):20.2f}" for name in names) +
              f"   {ratio_text(runs[TWO], runs[ONE]):24} {ratio_text(runs[TWO], runs[APART])}")
        ratio = statistics.median(two / one for two, one in zip(runs[TWO], runs[ONE]))
        if row in GOALS and not GOALS[row](ratio, statistics.median(runs[TWO])):
            missed.append(row)
    print("goals missed: " + ", ".join(missed) if missed else "goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
