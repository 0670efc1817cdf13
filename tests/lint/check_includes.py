#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom: the layers of docs/architecture.md, and where CAF and CUDA may appear."""
import pathlib
import re
import sys

ALLOWED = {
    "policy": set(),
    "telemetry": set(),
    "manual": set(),
    "text": {"telemetry"},
    "store": {"policy", "telemetry"},
    "gpu": {"telemetry"},
    "engine": {"policy", "gpu", "telemetry"},
    "actors": {"engine", "policy", "gpu", "text", "store", "telemetry"},
    "http": {"actors", "text", "telemetry"},
    "loadgen": {"engine", "manual", "policy", "text", "telemetry"},
    "app": {"engine", "policy", "gpu", "text", "actors", "http", "store", "manual", "telemetry"},
}
# Values that a folder takes from one it may not include otherwise.
SHARED_HEADERS = {("gpu", "policy/pages/page_copy.hpp")}
STD_ONLY_HEADERS = {"policy", "telemetry"}
# Devices know a model by its network (gpu/networks/network.hpp): a new field of a
# configuration, or a new family, is no affair of theirs.
DEVICE_FOLDERS = ("gpu/cpu/", "gpu/cuda/", "gpu/child/", "gpu/noop/")
NOT_FOR_DEVICES = ("gpu/model/model_config.hpp", "gpu/model/config_fields.hpp")
NETWORKS, NETWORK = "gpu/networks/", "gpu/networks/network.hpp"
# Folders of gpu/ with one device each. The rest of gpu/ includes none of them, they not each other.
DEVICES = {"child", "cpu", "cuda", "noop"}
OTHER_DEVICES = {
    ("gpu/cuda/pages/page_copy_streams.hpp", "gpu/cpu/thread_pool.hpp"),
    ("gpu/cuda/weight_upload.cpp", "gpu/cpu/kernels/number_formats.hpp"),
}
# Rooms of loadgen/, each with those that it may include; its files on the root are for all.
LOADGEN_ROOMS = {
    "workload": set(),
    "result": {"workload"},
    "client": {"result", "workload"},
    "simulator": {"result", "workload"},
    "report": {"result"},
    "experiment": {"client", "report", "result", "simulator", "workload"},
    "commands": {"client", "experiment", "report", "result", "simulator", "workload"},
}
OPENS_LIBRARIES = "gpu/cuda_library.cpp"  # one, by an absolute path
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path):
    return path.split("/", 1)[0]


def device_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "gpu" and len(parts) > 2 and parts[1] in DEVICES else None


def room_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "loadgen" and len(parts) > 2 else None


def may_enter(room, other):
    return room is None or other in (None, room) or other in LOADGEN_ROOMS.get(room, set())


def problems_of(root, file):
    folder = folder_of(str(file.relative_to(root)))
    name = str(file.relative_to(root))
    for number, line in enumerate(file.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        bracket, target = found.groups()
        where = f"{name}:{number}"
        if bracket == '"':
            other = folder_of(target)
            if other == "tests":
                yield f"{where}: nothing includes tests/"
            elif other not in ALLOWED:
                yield f"{where}: '{target}' is in no known folder of the root, which includes are named from"
            elif (other in ALLOWED and other != folder and other not in ALLOWED[folder]
                  and (folder, target) not in SHARED_HEADERS):
                yield f"{where}: {folder}/ may not include {other}/"
            if name.startswith(DEVICE_FOLDERS) and (
                    target in NOT_FOR_DEVICES or (target.startswith(NETWORKS) and target != NETWORK)):
                yield f"{where}: a device knows a model by {NETWORK}, not by '{target}'"
            if (folder == "gpu" and device_of(target) not in (None, device_of(name))
                    and (name, target) not in OTHER_DEVICES):
                yield f"{where}: gpu/{device_of(target)}/ is a device's own"
            if not may_enter(room_of(name), room_of(target)):
                yield f"{where}: loadgen/{room_of(name)}/ may not include loadgen/{room_of(target)}/"
            if folder == "policy" and name.endswith(".hpp") and other != "policy":
                yield f"{where}: headers of policy/ include only the standard library"
        else:
            if target.startswith("caf/") and (folder != "actors" or name == "actors/messages.hpp"):
                yield f"{where}: CAF stays inside actors/"
            if target.startswith(("cuda", "cublas")) and not name.startswith("gpu/cuda/"):
                yield f"{where}: CUDA stays inside gpu/cuda/"
            if (folder in STD_ONLY_HEADERS and name.endswith(".hpp") and "/" in target
                    and not target.startswith("sys/")):
                yield f"{where}: headers of {folder}/ include only the standard library and the system's"


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    files = [f for folder in ALLOWED for ending in ("hpp", "cpp", "cu", "cuh", "inc")
             for f in sorted((root / folder).rglob(f"*.{ending}"))]
    problems = [p for f in files for p in problems_of(root, f)]
    named = (*DEVICE_FOLDERS, *NOT_FOR_DEVICES, NETWORK)
    problems += [f"{name}: a rule names it, and it is not there" for name in named
                 if not (root / name).exists()]
    for file in files:
        text = file.read_text()
        name = file.relative_to(root)
        if "SPDX-License-Identifier" not in text.split("\n", 1)[0]:
            problems.append(f"{name}:1: the first line must be the SPDX line")
        if file.suffix in (".hpp", ".cuh") and "#pragma once" not in text:
            problems.append(f"{name}:1: #pragma once is missing")
        if re.search(r"std::regex|std::basic_regex", text):
            problems.append(f"{name}: std::regex backtracks on untrusted text")
        if re.search(r"\.await\(|caf::infinite", text):
            problems.append(f"{name}: .await and infinite make an actor deaf")
        runs_code = r"\bpopen\(|::system\(|\bsystem\(\""
        if str(name) != OPENS_LIBRARIES:
            runs_code += r"|\bdlopen\("
        if re.search(runs_code, text):
            problems.append(f"{name}: nothing here may run code it finds")
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
