#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What keeping conversations is worth, under the traffic of Pensieve's paper.

The same engine serves the same conversations (workload.py) with its cache as it
is (value), by time (lru), on the device only, and off (none), at several rates,
in turn, each time by a fresh server, with the same seeds for all. Prints tables for docs/results/cache.md:
throughput against the 90th percentile of normalized latency (end to end over
output tokens), throughput at equal p90, latency at equal rate, and how much of
the history was computed again; then once more value against lru with a host
tier that is too small. Ratios are taken seed by seed; a goal is met, or missed, if
their whole 95 % interval is. The model is random (write_model.cpp), the traffic's
lengths are those of configs/workloads/.

Lengths, think time and memory are scaled down from the paper's (16,384 tokens,
one minute, 40 GB), so that a run takes minutes.

Usage: bench/cache/conversations/gain.py [--quick] [--build DIR] [--rates R …] [--seconds N]
Exit status: 0 if all goals are met, 1 if one is missed or undecided.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import tables  # noqa: E402
import workload  # noqa: E402
from live_server import ROOT, Server, run  # noqa: E402
from measurement import measure  # noqa: E402

CONTEXT_LENGTH = 2048  # of the model
ARMS = ("value", "lru", "device only", "none")
# An arm that answers a smaller share of what it is asked is not asked for more.
LEAST_SHARE = 0.7


class Budgets:
    """Flags that give a server so many KV pages."""

    def __init__(self, arguments):
        self.fixed = ["--compute-type", "bf16", "--threads", arguments.threads]
        probe_bytes = 256 << 20
        with Server(arguments.troupe, [*self.fixed, "--memory", probe_bytes], arguments.model) as server:
            metrics = server.metrics()
        config = json.loads((arguments.model / "config.json").read_text())
        token_bytes = 2 * 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
        self.page_bytes = int(metrics["troupe_kv_page_tokens"]) * token_bytes
        surplus = int(metrics['troupe_kv_pages_capacity{tier="device"}']) - arguments.device_pages
        self.fixed += ["--memory", probe_bytes - surplus * self.page_bytes]

    def options(self, arm, host_pages):
        policy = "value" if arm == "device only" else arm
        host_bytes = host_pages * self.page_bytes if arm in ("value", "lru") else 0
        return [*self.fixed, "--cache-policy", policy, "--cache-host-memory", host_bytes]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--quick", action="store_true", help="one rate, short: shows that all works, proves little")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.4, 0.8, 1.5, 2.5],
                        metavar="R", help="conversations begun a second")
    parser.add_argument("--seconds", type=float, default=20, help="measured, for each arm and rate")
    parser.add_argument("--warmup", type=float, default=10, help="seconds before that")
    parser.add_argument("--drain", type=float, default=6, help="seconds for the last answers")
    parser.add_argument("--think", type=float, default=2, help="mean think time, seconds")
    parser.add_argument("--scale", type=float, default=0.5, help="of all lengths, 1: the paper's")
    parser.add_argument("--device-pages", type=int, default=96)
    parser.add_argument("--host-pages", type=int, default=512)
    parser.add_argument("--short-host-pages", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0, help="of the server's network; 0: one a core")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each arm and rate, each with a plan of its own")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rates, arguments.seconds, arguments.warmup, arguments.seeds = [1], 8, 6, 1
    arguments.troupe = arguments.build / "app/troupe"
    arguments.loadgen = arguments.build / "loadgen/troupe-loadgen"
    return arguments


def measure_curves(arguments, budgets, seed, directory):
    """By arm, its measurements in order of rate; arms take turns."""
    curves = {arm: [] for arm in ARMS}
    for rate in arguments.rates:
        for arm in ARMS:
            if curves[arm] and curves[arm][-1].share_answered < LEAST_SHARE:
                continue
            options = budgets.options(arm, arguments.host_pages)
            curves[arm].append(measure(arguments, options, rate, seed, directory / f"{arm}-{rate}-{seed}"))
            print(tables.progress(arm, curves[arm][-1]), file=sys.stderr, flush=True)
    return curves


def measure_short(arguments, budgets, seed, directory):
    """value and lru where the host tier is too small, at the middle rate."""
    rate = arguments.rates[len(arguments.rates) // 2]
    short = {}
    for arm in ("value", "lru"):
        options = budgets.options(arm, arguments.short_host_pages)
        short[arm] = measure(arguments, options, rate, seed, directory / f"{arm}-short-{seed}")
        print(tables.progress(arm + ", short", short[arm]), file=sys.stderr, flush=True)
    return short


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        arguments.model, arguments.workload = directory / "model", directory / "conversations.toml"
        run(arguments.build / "bench/bench_conversation_model", arguments.model)
        workload.write(arguments.workload, arguments.scale, arguments.think, CONTEXT_LENGTH)
        budgets = Budgets(arguments)
        seeds = range(1, arguments.seeds + 1)
        curves = [measure_curves(arguments, budgets, seed, directory) for seed in seeds]
        short = [measure_short(arguments, budgets, seed, directory) for seed in seeds]
    print(f"## Conversations: `{' '.join(['bench/cache/conversations/gain.py', *sys.argv[1:]])}`")
    print(tables.setting(arguments, os.getloadavg()[0]))
    print(tables.curves(curves))
    print(tables.recomputed(short))
    verdicts = tables.verdicts(curves, short)
    print(verdicts)
    return 1 if "MISSED" in verdicts or "undecided" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
