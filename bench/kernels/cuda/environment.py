#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints, as JSON, on what scripts/gpu-check runs: date, commit, GPU, driver, toolkit, clocks.

What cannot be found out is null. Of programs that were built elsewhere, commit,
toolkit and date of the build are those of built.json in their directory.

Usage: bench/kernels/cuda/environment.py [DIRECTORY]
"""
import datetime
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
FIELDS = {
    "gpu": "name",
    "driver": "driver_version",
    "memory_mib": "memory.total",
    "max_sm_clock_mhz": "clocks.max.sm",
    "max_memory_clock_mhz": "clocks.max.memory",
    "sm_clock_mhz_before": "clocks.sm",
    "memory_clock_mhz_before": "clocks.memory",
    "power_limit_w": "power.limit",
    "temperature_c_before": "temperature.gpu",
    "mig": "mig.mode.current",
    "uuid": "uuid",
}


def output_of(*command):
    """Standard output, or none if there is no such program or it fails."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def gpu_properties():
    query = f"--query-gpu={','.join(FIELDS.values())}"
    line = output_of("nvidia-smi", query, "--format=csv,noheader,nounits", "-i", "0")
    values = [value.strip() for value in line.split(",")] if line else []
    if len(values) != len(FIELDS):
        return dict.fromkeys(FIELDS)
    return {name: None if value.startswith("[") else value for name, value in zip(FIELDS, values)}


def toolkit():
    found = re.search(r"release ([\d.]+), V([\d.]+)", output_of("nvcc", "--version") or "")
    return found.group(2) if found else None


def processor():
    found = re.search(r"model name\s*: (.+)", pathlib.Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else None


def built_elsewhere():
    path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".", "built.json")
    if not path.exists():
        return {}
    built = json.loads(path.read_text())
    return {"built": built["date"], **{name: built[name] for name in ("commit", "has_changes", "toolkit")}}


def main():
    changed = output_of("git", "status", "--porcelain", "--untracked-files=no")
    print(json.dumps({
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": output_of("git", "rev-parse", "--short=12", "HEAD"),
        "has_changes": None if changed is None else bool(changed),
        **gpu_properties(),
        "toolkit": toolkit(),
        "processor": processor(),
        **built_elsewhere(),
    }, indent=1))


if __name__ == "__main__":
    main()
