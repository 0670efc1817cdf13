#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes one JSON and one table of what the parts of scripts/gpu-check left in a directory.

Reads environment.json, steps.jsonl (what was run, and how it ended), clocks.csv
(sampled meanwhile) and measurements*.jsonl; writes gpu-check.json and
gpu-check.md there.

With reports, directories that hold a gpu-check.json each, makes one of these instead: of
each step the last that ran, with its measurements. They must be of one commit and one
kind of GPU.

Usage: bench/kernels/cuda/report.py DIRECTORY [REPORT ...]
Exit status: 0 if everything ran and every goal is met; 1 if a build, a test or a
sanitizer failed; 2 if reports can't be joined; 3 if a goal is missed or something was not run.
"""
import csv
import json
import pathlib
import statistics
import sys

from goals import GOALS

PASS, MISS, NOT_RUN = "pass", "MISS", "not run"
RAN = ("passed", "failed")  # steps to their end


def lines_of(path):
    """Objects of a file of JSON lines; one that was cut off by a time limit is left out."""
    objects = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            objects.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return objects


def layer_norm_against_torch(measurements):
    """torch's time over ours where both were measured: the worst of all shapes."""
    ratios = {ours.removeprefix("layer_norm_"): measurements["torch_" + ours]["value"] / measurements[ours]["value"]
              for ours in measurements if ours.startswith("layer_norm_") and "torch_" + ours in measurements}
    if ratios:
        yield {"id": "layer_norm_against_torch", "title": f"LayerNorm against torch, worst of {len(ratios)} shapes",
               "value": min(ratios.values()), "unit": "torch's time over ours", "details": ratios}


def attention_against_torch(measurements):
    """Ours, on scattered pages, over torch's on keys and values in one piece."""
    for id, shape, what in (("decode_attention_against_torch", "decode_attention_64x16384", "paged decode, 64 x 16384"),
                            ("decode_attention_against_torch_64x256", "decode_attention_64x256",
                             "paged decode, 64 x 256"),
                            ("prefill_attention_against_torch", "prefill_attention_8192", "causal, 8192 tokens")):
        ours, torchs = measurements.get(shape), measurements.get("torch_" + shape)
        if ours and torchs:
            yield {"id": id, "title": f"attention against torch's: {what}", "unit": "of torch's time",
                   "value": ours["details"]["us"] / torchs["value"],
                   "details": {"us": ours["details"]["us"], "torch_us": torchs["value"]}}


def clocks_of(path):
    """Of the SM and the memory in MHz: lowest, median and highest sample that was not idle."""
    samples = {"sm": [], "memory": []}
    for row in csv.reader(path.open()) if path.exists() else []:
        try:
            sm, memory, busy = (float(value) for value in row[:3])
        except ValueError:
            continue
        if busy > 0:
            samples["sm"].append(sm)
            samples["memory"].append(memory)
    return {name: [min(values), statistics.median(values), max(values)] for name, values in samples.items() if values}


def reason_of(goal, not_run):
    """Why a measurement is missing, as far as the parts said."""
    reasons = [line["reason"] for line in not_run if line["id"] == goal.id] or [
        f"{line['id']}: {line['reason']}" for line in not_run]
    return "; ".join(dict.fromkeys(reasons)) or "no part measured it"


def read(directory):
    """What the parts of one run left."""
    lines = [line | {"step": path.stem.removeprefix("measurements-")}
             for path in sorted(directory.glob("measurements*.jsonl")) for line in lines_of(path)]
    environment = directory / "environment.json"
    return report_of(lines, lines_of(directory / "steps.jsonl"), clocks_of(directory / "clocks.csv"),
                     [json.loads(environment.read_text()) if environment.exists() else {}])


def report_of(lines, steps, clocks, environments):
    if any(line.get("tiny") for line in lines):
        sys.exit("these are numbers of tiny shapes, which mean nothing")
    measurements = {line["id"]: line for line in lines if line["kind"] == "measurement"}
    measurements |= {line["id"]: line for against in (layer_norm_against_torch, attention_against_torch)
                     for line in against(measurements)}
    not_run = [line for line in lines if line["kind"] == "not_run"]
    not_run += [{"id": step["step"], "reason": step["reason"]} for step in steps if step["status"] != "passed"]
    goals = []
    for goal in GOALS:
        found = measurements.get(goal.id)
        value = found["value"] if found else None
        goals.append({"id": goal.id, "title": goal.title, "goal": str(goal), "value": value,
                      "result": NOT_RUN if found is None else PASS if goal.is_met_by(value) else MISS,
                      **({} if found else {"reason": reason_of(goal, not_run)})})
    return {"environment": environments[-1], "runs": environments,
            "device": next((line for line in lines if line["kind"] == "device"), None),
            "clocks_mhz": clocks,
            "steps": steps, "goals": goals, "not_run": not_run, "measurements": list(measurements.values())}


def check_alike(directories, reports):
    for what in ("commit", "has_changes", "gpu", "toolkit"):
        values = {report["environment"].get(what) for report in reports}
        if len(values) > 1:
            each = ", ".join(f"{directory}: {report['environment'].get(what)}"
                             for directory, report in zip(directories, reports))
            print(f"reports that are joined must be of one {what}, got {each}", file=sys.stderr)
            sys.exit(2)


def join(directories):
    """One report of several: of each step the last that ran or, if none did, the last."""
    reports = []
    for directory in directories:
        try:
            reports.append(json.loads((directory / "gpu-check.json").read_text()))
        except (OSError, json.JSONDecodeError) as error:
            print(f"{directory} holds no report: {error}", file=sys.stderr)
            sys.exit(2)
    check_alike(directories, reports)
    taken = {}  # by name: the step and the report that it is of
    for report in reports:
        for step in report["steps"]:
            before = taken.get(step["step"])
            if before is None or before[0]["status"] not in RAN or step["status"] in RAN:
                taken[step["step"]] = (step, report)
    lines = [line for name, (_, report) in taken.items() for line in [*report["measurements"], *report["not_run"]]
             if line.get("step") == name]
    lines += [report["device"] for report in reports if report["device"]]
    clocks = {}
    for name in ("sm", "memory"):
        found = [report["clocks_mhz"][name] for report in reports if name in report["clocks_mhz"]]
        if found:
            lowest, middle, highest = zip(*found)
            clocks[name] = [min(lowest), statistics.median(middle), max(highest)]
    return report_of(lines, [step for step, _ in taken.values()], clocks, [report["environment"] for report in reports])


def number(value):
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(head, rows):
    def line(cells):
        return "| " + " | ".join(str(cell).replace("|", "/").replace("\n", " ") for cell in cells) + " |"
    return [line(head), "|" + " --- |" * len(head), *map(line, rows), ""]


def setting(report):
    environment = report["environment"]
    clocks = ", ".join(f"{name} {'/'.join(number(value) for value in values)} MHz"
                       for name, values in report["clocks_mhz"].items())
    parts = [environment.get("date"), environment.get("gpu"), f"driver {environment.get('driver')}",
             f"toolkit {environment.get('toolkit')}", environment.get("processor"),
             f"commit {environment.get('commit')}{' with changes' if environment.get('has_changes') else ''}",
             f"clocks while busy (lowest/median/highest): {clocks or 'not sampled'}"]
    if len(report["runs"]) > 1:
        num_gpus = len({run.get("uuid") for run in report["runs"]})
        parts.append(f"joined from {len(report['runs'])} runs on {num_gpus} GPU{'s' if num_gpus > 1 else ''}")
    return "; ".join(str(part) for part in parts) + "."


def markdown(report):
    counts = {result: sum(goal["result"] == result for goal in report["goals"]) for result in (PASS, MISS, NOT_RUN)}
    text = ["# gpu-check", "", setting(report), "",
            f"Goals: {counts[PASS]} met, {counts[MISS]} missed, {counts[NOT_RUN]} not measured.", "",
            *table(("step", "result", "seconds", ""),
                   [(step["step"], step["status"], step["seconds"], step["reason"]) for step in report["steps"]]),
            *table(("measured", "value", "goal", ""),
                   [(goal["title"], number(goal["value"]), goal["goal"], goal["result"]) for goal in report["goals"]])]
    if report["not_run"]:
        text += ["Not run:", "", *(f"- {line['id']}: {line['reason']}" for line in report["not_run"]), ""]
    text += table(("all measurements", "value", "unit", "besides"),
                  [(line["title"], number(line["value"]), line["unit"],
                    ", ".join(f"{name} {number(value)}" for name, value in line.get("details", {}).items()))
                   for line in report["measurements"]])
    return "\n".join(text)


def exit_status(report):
    if any(step["status"] == "failed" or (step["step"].startswith("tests") and step["status"] == "timed out")
           for step in report["steps"]):
        return 1
    is_complete = all(goal["result"] == PASS for goal in report["goals"]) and not report["not_run"]
    return 0 if is_complete else 3


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    directory, *reports = map(pathlib.Path, sys.argv[1:])
    report = join(reports) if reports else read(directory)
    (directory / "gpu-check.json").write_text(json.dumps(report, indent=1) + "\n")
    (directory / "gpu-check.md").write_text(markdown(report))
    return exit_status(report)


if __name__ == "__main__":
    sys.exit(main())
