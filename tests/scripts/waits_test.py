#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The nightly part that removes waits takes ranges, and puts the sources back when it is ended: waits_test.py"""
import importlib.machinery
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/nightly/waits/run"
KERNEL = "__global__ void kernel() {\n  wait_for_previous_kernel();\n  let_next_kernel_start();\n}\n"
SECONDS = 20


def load():
    loader = importlib.machinery.SourceFileLoader("waits", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("waits", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def run_in(root):
    """The part with sources of its own and a build that passes once, then takes long."""
    waits = load()
    waits.ROOT, waits.BUILD = root, root / "build"
    waits.PROGRAMS = ("kernels/true",)
    sys.argv = [str(SCRIPT)]
    waits.main()


def programs(root):
    """git and ninja, for which everything is in order until a statement is missing; the build and a test, that pass."""
    folder = root / "bin"
    for name, text in (("git", "exit 0"), ("ninja", f"grep -q 'let_next_kernel_start();' {root}/gpu/cuda/kernels/a.cu && "
                                                    f"grep -q 'wait_for' {root}/gpu/cuda/kernels/a.cu || exec sleep {SECONDS}"),
                       ("../scripts/build", "exit 0"), ("../build/kernels/true", "exit 0")):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
    return folder


def check_put_back(number):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "bin").mkdir()
        kernel = root / "gpu/cuda/kernels/a.cu"
        kernel.parent.mkdir(parents=True)
        kernel.write_text(KERNEL)
        (root / "tests/gpu").mkdir(parents=True)
        (root / "gpu/cuda/kernels/gemm").mkdir()
        # The reason that the script knows for a statement, which must be there.
        (root / "gpu/cuda/kernels/gemm/few_token_gemm.cuh").write_text("  wait_for_copies<0>();\n")
        path = f"{programs(root)}:{os.environ['PATH']}"
        with subprocess.Popen([sys.executable, __file__, folder], env=os.environ | {"PATH": path},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as part:
            end = time.monotonic() + SECONDS
            while kernel.read_text() == KERNEL and part.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            changed = kernel.read_text()
            part.send_signal(number)
            output = part.communicate(timeout=SECONDS)[0]
        assert changed != KERNEL, output
        assert kernel.read_text() == KERNEL, kernel.read_text()
        assert part.returncode == 128 + number, (part.returncode, output)


def check_numbers():
    every = list("abcdefgh")
    for arguments, wanted in (("", "abcdefgh"), ("3", "cdefgh"), ("3 4", "cd"), ("3 3 5 6", "cef"), ("1 2 7", "abgh"),
                              ("7 100", "gh")):
        assert "".join(load().chosen(every, arguments.split())) == wanted, arguments


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run_in(pathlib.Path(sys.argv[1]))
    else:
        check_numbers()
        for ended_by in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            check_put_back(ended_by)
