#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the simulator against the live server on this machine.

For each workload, several times: measures the costs (troupe profile), what the
server and client add (troupe-loadgen profile), plays the workload live
(troupe-loadgen run), simulates the same requests (troupe-loadgen simulate
--replay) and compares. Goals: mean within 5 %, p98 within 8 %, throughput
within 3 %, of the median over repetitions. Wants a machine that does nothing
else; says how much else it saw.

Usage: bench/simulator/check.py [--build DIR] [--repetitions N] [--seconds N] [WORKLOAD ...]
Exit status: 0 if all goals are met, 1 if not.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from live_server import DEMO_MODEL, ROOT, Server, results, run  # noqa: E402

# One compute thread: the generator, which is part of the live run only, has the other core.
HOST_DEVICE = ["--device", "cpu", "--threads", "1"]
NOOP_DEVICE = ["--device", "noop", "--noop-iteration-us", "5000", "--max-batch-sequences", "16"]
# Workload: options of the server, share of what it can do at most.
WORKLOADS = {"noop": (NOOP_DEVICE, 0.85), "chat": (HOST_DEVICE, 0.6), "mixed": (HOST_DEVICE, 0.5)}
# Name, key in results.json, largest distance from 1, shown only.
MEASURES = [("mean latency", "mean_e2el_ms", 0.05),
            ("p98 latency", "p98_e2el_ms", 0.08),
            ("tokens a second", "output_throughput", 0.03),
            ("mean first token", "mean_ttft_ms", None),
            ("p98 first token", "p98_ttft_ms", None),
            ("mean time a token", "mean_tpot_ms", None)]


def highest_rate(loadgen, profile, workload, directory):
    """Conversations a second when there are always some waiting."""
    run(loadgen, "simulate", "--profile", profile, "--workload", workload, "--rate", 100000,
        "--conversations", 600, "--max-waiting", 1000000, "--max-queue-ms", 100000000,
        "--out", directory)
    records = [json.loads(line) for line in (directory / "requests.jsonl").read_text().splitlines()]
    conversations = {record["conversation"] for record in records if "conversation" in record}
    return (len(conversations) or 600) / results(directory)["run_duration_s"]


def compare_once(arguments, name, seed, directory):
    """Ratios of simulated to live by measure, and what else was noticed."""
    troupe, loadgen = arguments.build / "app/troupe", arguments.build / "loadgen/troupe-loadgen"
    options, load = WORKLOADS[name]
    workload, profile = HERE / f"{name}.toml", directory / "profile.json"
    run(troupe, "profile", "--model", DEMO_MODEL, "--log-level", "error", "--rounds",
        arguments.rounds, "--out", profile, *options)
    with Server(troupe, options) as server:
        run(loadgen, "profile", "--url", server.url, "--profile", profile)
        rate = load * highest_rate(loadgen, profile, workload, directory / "capacity")
        run(loadgen, "run", "--url", server.url, "--workload", workload, "--rate", f"{rate:.3f}",
            "--duration", arguments.seconds, "--seed", seed, "--no-calibrate", "--warmup", 2,
            "--out", directory / "live")
    run(loadgen, "simulate", "--profile", profile, "--replay", directory / "live",
        "--out", directory / "simulated")
    live, simulated = results(directory / "live"), results(directory / "simulated")
    # null: endless, or nothing was measured. Such a ratio is within no goal.
    ratios = {key: simulated[key] / live[key] if simulated[key] is not None and live[key] else math.inf
              for _, key, _ in MEASURES}
    fit = json.loads(profile.read_text())["fit"]
    note = (f"{rate:.1f} conversations/s, {live['completed']} of {live['num_prompts']} completed, "
            f"client delay p99 {live['p99_client_delay_ms']:.2f} ms, "
            f"fit off by {100 * fit['mean_error']:.1f} %, load average {os.getloadavg()[0]:.1f}")
    return ratios, live, simulated, note


def milliseconds(value):
    return "none" if value is None else f"{value:.1f} ms"


def check(arguments, name):
    """True if the workload meets its goals."""
    print(f"{name}: {(HERE / (name + '.toml')).read_text().splitlines()[1].lstrip('# ')}", flush=True)
    all_ratios = []
    for repetition in range(arguments.repetitions):
        with tempfile.TemporaryDirectory() as directory:
            ratios, live, simulated, note = compare_once(arguments, name, repetition + 1,
                                                         pathlib.Path(directory))
        all_ratios.append(ratios)
        print(f"  {note}; mean latency live {milliseconds(live['mean_e2el_ms'])}, "
              f"simulated {milliseconds(simulated['mean_e2el_ms'])}", flush=True)
    is_met = True
    for label, key, goal in MEASURES:
        values = [ratios[key] for ratios in all_ratios]
        ratio = statistics.median(values)
        verdict = ""
        if goal is not None:
            is_within = abs(ratio - 1) <= goal
            is_met = is_met and is_within
            verdict = f"   goal within {100 * goal:.0f} %: {'met' if is_within else 'MISSED'}"
        print(f"  simulated / live {label:18s} {ratio:.3f} ({min(values):.3f}-{max(values):.3f}){verdict}",
              flush=True)
    return is_met


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=30, help="of each live run")
    parser.add_argument("--rounds", type=int, default=7, help="of troupe profile")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"expected {', '.join(WORKLOADS)}, got {', '.join(unknown)}")
    outcomes = [check(arguments, name) for name in arguments.workloads or WORKLOADS]
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
