#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds types of one qualified name that are defined in two files, of tests or not.

The linker keeps one of each inline function, a destructor say, whichever type it was
written for; no compiler sees both.
"""

import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "cmake"))
from unity_groups import ATTRIBUTES, DIRECTIVE, NOT_CODE, outside_of  # noqa: E402

FOLDERS = ("actors", "app", "bench", "engine", "gpu", "http", "loadgen", "manual", "policy", "store", "telemetry", "tests", "text")
SCOPE = re.compile(r"^(?:inline\s+)?namespace\s*([\w:]*)$")
TYPE = re.compile(r"^(?:template\s*<>\s*)*(?:typedef\s+)?(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+" + ATTRIBUTES
                  + r"(\w+)(?!\s*::)(?:\s+final)?\s*(?::[^:].*)?$", re.S)


def defined_types(code: str):
    """Qualified names of the types that a file defines for the whole program."""
    scopes: list[str | None] = []  # a namespace's name, "" where it has none, None in anything else
    start = 0
    for match in re.finditer(r"[{};]", code):
        head = " ".join(code[start : match.start()].split())
        outside = None not in scopes
        if match.group() == "}":
            if scopes:
                scopes.pop()
        elif match.group() == "{":
            if outside and (scope := SCOPE.match(head)):
                scopes.append(scope.group(1))
            else:
                if outside and "" not in scopes and (found := TYPE.match(outside_of(head))):
                    yield "::".join([*scopes, found.group(1)])
                scopes.append(None)
        if None not in scopes:
            start = match.end()


def main() -> int:
    places = collections.defaultdict(set)
    for folder in FOLDERS:
        for suffix in ("*.hpp", "*.cpp", "*.cuh", "*.cu"):
            for file in (ROOT / folder).rglob(suffix):
                text = NOT_CODE.sub(lambda found: " " if found.group()[0] == "/" else '""', file.read_text(encoding="utf-8"))
                for name in defined_types(DIRECTIVE.sub("", text)):
                    places[name].add(str(file.relative_to(ROOT)))
    twice = {name: files for name, files in places.items() if len(files) > 1}
    for name, files in sorted(twice.items()):
        print(f"{name} is defined in {' and in '.join(sorted(files))}")
    print(f"{len(places)} types, {len(twice)} of them twice")
    return 1 if twice or not places else 0


if __name__ == "__main__":
    sys.exit(main())
