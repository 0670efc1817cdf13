#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the simulator against the live server on this machine.

For each model: serves short chats, fits the costs to the iterations that were served (troupe profile --live), finds
what server and client add (troupe-loadgen profile). Then, at each load and several times: plays the workload live,
simulates the same requests (troupe-loadgen simulate --replay), and compares. A goal is met where the whole 95 %
interval of the mean ratio lies within it, missed where all of it lies outside; else it is undecided.

A machine that is not quiet gives no result: where others use a CPU, the host steals time or compute threads lose their
cores, it says so in place of a number. A quarter of an hour with the defaults. Compute threads have their CPUs for
themselves, one each: on two cores one of them, while the server's other threads and the generator share the other; on
more, these two have a CPU each, and half of the CPUs at most compute.

Usage: bench/simulator/check.py [--build DIR] [--loads 0.3 0.6] [--repetitions N] [--seconds N] [--cpus 1-2]
           [--io-cpus 0] [--client-cpus 3] [--anyway] [100m smollm2 demo ...]
Exit status: 0 if all goals are met, 1 if one is missed, 77 if there is no result, or one is undecided.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from intervals import FEWEST, interval, verdict_near  # noqa: E402
from live_server import DEMO_MODEL, ROOT, Server, results, run  # noqa: E402
from quiet import Watch  # noqa: E402
from random_llama import random_llama  # noqa: E402

WORKLOAD = HERE / "fidelity.toml"
CALIBRATION_LOAD = 0.45  # between the loads that are compared
NO_RESULT = 77
# Name, largest distance from 1 of simulated / live; none: shown only.
MEASURES = {"service time": 0.02, "mean latency": 0.05, "p98 latency": 0.08, "tokens a second": 0.02,
            "mean first token": None, "mean time a token": None}


def smollm2():
    return pathlib.Path(subprocess.run([ROOT / "scripts/get-model", "smollm2"], capture_output=True, text=True,
                                       check=True).stdout.strip().splitlines()[-1])


MODELS = {"100m": lambda: random_llama(pathlib.Path(tempfile.gettempdir()) / "troupe_bench_random_llama"),
          "smollm2": smollm2, "demo": lambda: DEMO_MODEL}


def cpus_in(text):
    """The set that "0-2,5" names."""
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def default_cpus(usable):
    """(compute, the server's other threads, the generator), each a set."""
    if len(usable) < 2:
        sys.exit("expected two CPUs at least: the generator would take the time of what it measures")
    if len(usable) == 2:
        return {usable[1]}, {usable[0]}, {usable[0]}
    return set(usable[1:-1][:max(1, len(usable) // 2)]), {usable[0]}, {usable[-1]}


def cpu_list(cpus):
    return ",".join(map(str, sorted(cpus)))


def iterations(trace):
    """Shape and seconds on the device of each batch in a trace file."""
    def value(attribute):
        (number,) = attribute["value"].values()
        return float(number) if isinstance(number, (int, float, str)) else 0.0

    for line in trace.read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    if span["name"] != "iteration":
                        continue
                    found = {attribute["key"]: value(attribute) for attribute in span["attributes"]
                             if attribute["key"].startswith("troupe.batch.")}
                    if found.get("troupe.batch.tokens") and not found.get("troupe.batch.copies"):
                        yield {key.removeprefix("troupe.batch."): number for key, number in found.items()}


def fitted_nanoseconds(cost, shape):
    """As IterationCost in policy/costs/cost_profile.hpp."""
    time, knots = cost["fixed_ns"], cost["knots"]
    for i, (knot, slope) in enumerate(zip(knots, cost["slopes_ns"])):
        end = shape["tokens"] if i + 1 == len(knots) else min(shape["tokens"], knots[i + 1])
        time += slope * max(0, end - knot)
    for part in ("sequence", "output_row", "decode_key", "prefill_pair"):
        time += cost[f"per_{part}_ns"] * shape[f"{part}s"]
    return time


def service_ratio(profile, trace):
    """Time that the profile gives for the batches of a run over the time that they took."""
    cost = json.loads(profile.read_text())["iteration"]
    fitted = taken = 0
    for shape in iterations(trace):
        fitted += fitted_nanoseconds(cost, shape)
        taken += shape["network_seconds"] * 1e9
    return fitted / taken if taken else math.inf


def records(directory):
    lines = [json.loads(line) for line in (directory / "requests.jsonl").read_text().splitlines()]
    return [line for line in lines if "outcome" in line]


def tokens_a_second(directory):
    """Of the whole run, from its begin to its last answer."""
    whole = results(directory)
    return whole["total_output_tokens"] / whole["run_duration_s"]


def figures(directory):
    whole = results(directory)
    return {"mean latency": whole["mean_e2el_ms"], "p98 latency": whole["p98_e2el_ms"],
            "tokens a second": tokens_a_second(directory), "mean first token": whole["mean_ttft_ms"],
            "mean time a token": whole["mean_tpot_ms"]}


class Check:
    def __init__(self, arguments, name, directory):
        self.arguments, self.name, self.directory = arguments, name, directory
        self.troupe = arguments.build / "app/troupe"
        self.loadgen = arguments.build / "loadgen/troupe-loadgen"
        self.model = MODELS[name]()
        self.options = ["--device", "cpu", "--cpus", cpu_list(arguments.cpus), "--io-cpus", cpu_list(arguments.io_cpus),
                        "--memory", "2GiB"]
        self.profile = directory / "profile.json"

    def server(self, trace):
        options = [*self.options, "--trace-file", trace, "--trace-max-iterations-per-second", 100000,
                   "--trace-file-limit", 1 << 33]
        return Server(self.troupe, options, model=self.model)

    def play(self, server, out, seconds, seed, *more):
        run(self.loadgen, "run", "--url", server.url, "--cpus", cpu_list(self.arguments.client_cpus), "--workload", WORKLOAD,
            "--duration", seconds, "--seed", seed, "--no-calibrate", "--out", out, *more)

    def calibrate(self):
        """Writes the profile. Returns why it says nothing; empty: it does."""
        trace, seconds = self.directory / "calibration.jsonl", self.arguments.seconds
        with self.server(trace) as server:
            watch = Watch(server.process.pid, self.arguments.cpus)
            self.play(server, self.directory / "crowd", seconds / 5, 1001, "--users", 8)
            rate = CALIBRATION_LOAD * results(self.directory / "crowd")["completed"] / (seconds / 5)
            self.play(server, self.directory / "calibration", seconds, 1002, "--rate", f"{rate:.3f}")
            reasons = watch.end().reasons()
        run(self.troupe, "profile", "--live", trace, "--model", self.model, "--out", self.profile, "--log-level", "error",
            "--store-directory", "none", *self.options)
        with self.server(self.directory / "overheads.jsonl") as server:
            run(self.loadgen, "profile", "--url", server.url, "--cpus", cpu_list(self.arguments.client_cpus), "--profile",
                self.profile, "--users", "1,4", "--requests", 4, "--max-prompt-tokens", 96, "--output-tokens", 16)
        return reasons

    def highest_rate(self):
        """Conversations a second when there are always some waiting."""
        out = self.directory / "capacity"
        run(self.loadgen, "simulate", "--profile", self.profile, "--workload", WORKLOAD, "--rate", 100000,
            "--conversations", 400, "--max-waiting", 1000000, "--max-queue-ms", 100000000, "--out", out)
        return 400 / results(out)["run_duration_s"]

    def compare_once(self, rate, seed):
        """Ratios of simulated to live by measure, and why they say nothing (empty: they do)."""
        at = self.directory / f"{rate:.3f}-{seed}"
        at.mkdir()
        with self.server(at / "trace.jsonl") as server:
            watch = Watch(server.process.pid, self.arguments.cpus)
            self.play(server, at / "live", self.arguments.seconds, seed, "--rate", f"{rate:.3f}")
            noise = watch.end()
        run(self.loadgen, "simulate", "--profile", self.profile, "--replay", at / "live", "--seed", seed,
            "--out", at / "simulated")
        live, simulated = figures(at / "live"), figures(at / "simulated")
        # null: endless, or nothing was measured. Such a ratio is within no goal.
        ratios = {name: simulated[name] / live[name] if simulated[name] is not None and live[name] else math.inf
                  for name in live}
        ratios["service time"] = service_ratio(self.profile, at / "trace.jsonl")
        whole = results(at / "live")
        print(f"    seed {seed}: {whole['completed']} of {whole['num_prompts']} completed; {noise.text()}", flush=True)
        return ratios, noise.reasons()

    def compare(self, load, rate):
        """True: the goals are met. False: one is missed. None: no result, or one is undecided."""
        print(f"  load {load}: {rate:.2f} conversations/s", flush=True)
        all_ratios = []
        for seed in range(1, self.arguments.repetitions + 1):
            ratios, reasons = self.compare_once(rate, seed)
            if reasons and not self.arguments.anyway:
                print(f"    NO RESULT: the machine was not quiet: {'; '.join(reasons)}", flush=True)
                return None
            all_ratios.append(ratios)
        verdicts = []
        for name, goal in MEASURES.items():
            found = interval([ratios[name] for ratios in all_ratios])
            text = f"    simulated / live {name:18s} {found.mean:.3f} ({found.low:.3f} to {found.high:.3f})"
            if goal is not None and not self.arguments.anyway:
                verdicts.append(verdict_near(found, 1, goal))
                text += f"   goal within {100 * goal:.0f} %: {verdicts[-1]}"
            print(text, flush=True)
        if "MISSED" in verdicts:
            return False
        return True if verdicts and set(verdicts) == {"met"} else None

    def run(self):
        """An outcome for each load."""
        begin = time.monotonic()
        print(f"{self.name}: a compute thread on each CPU of {cpu_list(self.arguments.cpus)}, the server's others on "
              f"{cpu_list(self.arguments.io_cpus)}, generator on {cpu_list(self.arguments.client_cpus)}", flush=True)
        reasons = self.calibrate()
        if reasons and not self.arguments.anyway:
            print(f"  NO RESULT: the machine was not quiet while costs were measured: {'; '.join(reasons)}", flush=True)
            return [None]
        highest = self.highest_rate()
        outcomes = [self.compare(load, load * highest) for load in self.arguments.loads]
        print(f"  {time.monotonic() - begin:.0f} s", flush=True)
        return outcomes


def parsed():
    cpus, io_cpus, client_cpus = default_cpus(sorted(os.sched_getaffinity(0)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS) + " (default: 100m smollm2)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.3, 0.6], help="shares of what the server can do")
    parser.add_argument("--repetitions", type=int, default=FEWEST, help=f"fewer than {FEWEST} decide nothing")
    parser.add_argument("--seconds", type=float, default=30, help="of each live run")
    parser.add_argument("--cpus", type=cpus_in, default=cpus, help="a compute thread on each, such as 1-2")
    parser.add_argument("--io-cpus", type=cpus_in, default=io_cpus, help="of the server's other threads, such as 0")
    parser.add_argument("--client-cpus", type=cpus_in, default=client_cpus, help="of the generator, such as 3")
    parser.add_argument("--anyway", action="store_true",
                        help="print the figures of a machine that is not quiet; no goal is judged")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"expected {', '.join(MODELS)}, got {', '.join(unknown)}")
    if arguments.repetitions < 1:
        parser.error("--repetitions: expected at least 1")
    return arguments


def main():
    arguments = parsed()
    outcomes = []
    for name in arguments.models or ["100m", "smollm2"]:
        with tempfile.TemporaryDirectory() as directory:
            outcomes += Check(arguments, name, pathlib.Path(directory)).run()
    if False in outcomes:
        return 1
    return NO_RESULT if None in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
