#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no folder has more than 25 concepts on one level: names of files without their endings."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("actors", "app", "bench", "cmake", "configs", "docs", "engine", "gpu", "http", "loadgen", "manual", "packaging",
           "policy", "scripts", "store", "telemetry", "tests", "text")
MOST = 25
# Larger ones that are there, with what they have: none grows.
LARGER = {}
SERIES = {"docs/decisions", "docs/results"}  # numbered or dated, and read by their number
NO_CONCEPTS = {"CMakeLists.txt", "README.md", "__init__.py"}


def concepts(folder):
    return {file.name.split(".", 1)[0] for file in folder.iterdir()
            if file.is_file() and file.name not in NO_CONCEPTS and not file.name.startswith(".")}


def folders_of(root):
    for top in FOLDERS:
        for folder in (root / top, *sorted((root / top).rglob("*"))):
            name = folder.relative_to(root).as_posix()
            if folder.is_dir() and "__pycache__" not in name and not name.startswith("tests/nightly/.") and name not in SERIES:
                yield name, folder


def problems_of(root):
    seen = {}
    for name, folder in folders_of(root):
        count = seen[name] = len(concepts(folder))
        most = LARGER.get(name, MOST)
        if count > most:
            yield f"{name}: {count} concepts on one level, at most {most}"
        elif name in LARGER and count < most:
            yield f"{name}: has {count} concepts now, which LARGER must say" if count > MOST else \
                f"{name}: is no larger than others any more, and leaves LARGER"
    for name in LARGER:
        if name not in seen:
            yield f"{name}: is in LARGER and not there"


def main():
    problems = list(problems_of(ROOT))
    for problem in problems:
        print(problem)
    print(f"{sum(1 for _ in folders_of(ROOT))} folders, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
