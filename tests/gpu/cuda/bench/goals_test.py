#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks with tiny shapes and holds their goals against bench/kernels/cuda/goals.py.

Usage: goals_test.py PROGRAM
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "bench/kernels/cuda"))
from goals import GOALS  # noqa: E402


def main():
    result = subprocess.run([sys.argv[1], "--tiny"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    ours = {line["id"]: line["goal"] for line in lines if line.get("goal")}
    named = {goal.id: {bound: value for bound, value in
                       (("at_least", goal.at_least), ("at_most", goal.at_most)) if value is not None} for goal in GOALS}
    assert len(named) == len(GOALS), "a goal is named twice"
    for id, goal in ours.items():
        assert named.get(id) == goal, f"{id}: {goal} in the program, {named.get(id)} in goals.py"
    assert len(ours) == 15, sorted(ours)

    # Such numbers never become a report.
    with tempfile.TemporaryDirectory() as name:
        pathlib.Path(name, "measurements-kernels.jsonl").write_text(result.stdout)
        report = subprocess.run([sys.executable, ROOT / "bench/kernels/cuda/report.py", name], capture_output=True, text=True)
        assert report.returncode not in (0, 3) and "tiny" in report.stderr, report.stderr
        assert not pathlib.Path(name, "gpu-check.md").exists()


if __name__ == "__main__":
    main()
