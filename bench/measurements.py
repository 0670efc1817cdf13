# SPDX-License-Identifier: Apache-2.0
"""Lines of JSON for bench/kernels/cuda/report.py: what was measured, and what could not be; a place for models."""
import json
import pathlib
import shutil


def record(id, title, value, unit, **details):
    print(json.dumps({"kind": "measurement", "tiny": False, "id": id, "title": title, "value": value, "unit": unit,
                      "goal": None, "met": None, "details": details}), flush=True)


def not_run(id, reason):
    print(json.dumps({"kind": "not_run", "tiny": False, "id": id, "reason": reason}), flush=True)


def fast_directory(size_bytes):
    """In memory where there is room for so much; else None: wherever temporary files are."""
    memory = pathlib.Path("/dev/shm")
    return memory if memory.exists() and shutil.disk_usage(memory).free > size_bytes else None
