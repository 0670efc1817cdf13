#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every header compiles alone.

    check_headers.py                     x.cpp includes x.hpp first: compiling it proves x.hpp
    check_headers.py --compile BUILD     compiles the headers that no source of build folder
                                         BUILD proves so, as the sources that include them;
                                         a header that none includes is a problem too
"""
import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("actors", "app", "bench", "engine", "gpu", "http", "loadgen", "manual", "policy", "store", "telemetry", "tests", "text")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
SOURCES, HEADERS = (".cpp", ".cu"), (".hpp", ".cuh")


def files_ending(endings):
    return [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*")) if file.suffix in endings]


@functools.cache
def includes(file):
    """Our files that a file includes, in its order; None in place of others."""
    found = []
    for bracket, name in INCLUDE.findall(file.read_text(encoding="utf-8")):
        places = [ROOT / name, file.parent / name] if bracket == '"' else []
        found.append(next((place for place in places if place.is_file()), None))
    return found


def all_includes(file):
    seen, ahead = set(), [file]
    while ahead:
        for header in includes(ahead.pop()):
            if header is not None and header not in seen:
                seen.add(header)
                ahead.append(header)
    return seen


def own_header(source):
    header = source.with_suffix(".hpp")
    return header if header.is_file() else None


def order_problems():
    for source in files_ending(SOURCES):
        own = own_header(source)
        if own and includes(source)[:1] != [own]:
            yield f"{source.relative_to(ROOT)}: its own header does not come first"


def compiled_sources(build):
    """Sources that the build compiles, and the compiler's words. A group of sources is one."""
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = pathlib.Path(entry["directory"], entry["file"])
        if source.is_file():  # otherwise it is made by the build
            yield source, shlex.split(entry["command"])


def first_header(source):
    """The header that a source, or the first of its group, begins with."""
    while source is not None and source.suffix not in HEADERS:
        source = next(iter(includes(source)), None)
    return source


def unproved_headers(build):
    proved = {first_header(source) for source, _ in compiled_sources(build)}
    return [header for header in files_ending(HEADERS) if header not in proved]


def compiler_calls(build):
    """How each header is compiled: as the first source that includes it, but for CUDA's compiler."""
    calls = {}
    for source, words in compiled_sources(build):
        if any(word.endswith("nvcc") for word in words[:2]):
            continue
        end = words.index("-o")
        words = [word for word in words[:end] if not word.endswith("ccache")]
        for header in all_includes(source):
            calls.setdefault(header, words)
    return calls


def compile_alone(header, words):
    name = header.relative_to(ROOT)
    result = subprocess.run([*words, "-fsyntax-only", "-x", "c++", "-"], input=f'#include "{name}"\n',
                            capture_output=True, text=True, check=False)
    return f"{name} does not compile alone:\n{result.stderr}" if result.returncode else None


def compile_problems(build):
    calls = compiler_calls(build)
    headers = unproved_headers(build)
    built = [header for header in headers if header in calls]
    for header in headers:
        if header not in calls:
            yield f"{header.relative_to(ROOT)}: no source of {build} includes it"
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        yield from filter(None, threads.map(lambda header: compile_alone(header, calls[header]), built))
    print(f"{len(built)} headers compiled")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", type=pathlib.Path, metavar="BUILD")
    build = parser.parse_args().compile
    num_problems = 0
    for problem in compile_problems(build.resolve()) if build else order_problems():
        print(problem, flush=True)
        num_problems += 1
    print(f"{num_problems} problems")
    return 1 if num_problems else 0


if __name__ == "__main__":
    sys.exit(main())
