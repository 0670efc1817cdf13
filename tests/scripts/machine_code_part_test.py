#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/nightly/machine_code/run: what its exit status is where it compares, and where it can't."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PART = "tests/nightly/machine_code/run"
SKIPPED = 77


class Tree:
    """The part among programs that stand for the build, for PyPI and for the comparison."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        (self.root / PART).parent.mkdir(parents=True)
        shutil.copy(ROOT / PART, self.root / PART)
        self.builds(0)
        self.compares(0)
        # Without packages: neither venv nor pip is to be had.
        self.program("bin/python3", f'if [ "$1" = -m ]; then exit 1; fi\nexec {sys.executable} "$@"')

    def program(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def builds(self, status, has_target=True):
        self.program("scripts/build", f"exit {status}")
        ninja = self.root / "build/release/build.ninja"
        ninja.parent.mkdir(parents=True, exist_ok=True)
        ninja.write_text("build troupe_cuda_backend: phony\n" if has_target else "")

    def compares(self, status):
        script = self.root / "bench/kernels/cuda/machine_code.py"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"import sys\nsys.exit({status})\n")

    def install_disassembler(self):
        """As the part notes it: the packages that its own line names."""
        line = next(line for line in (ROOT / PART).read_text().splitlines() if line.startswith("packages=("))
        venv = self.root / "cache/cuobjdump"
        venv.mkdir(parents=True)
        (venv / "complete").write_text(line.removeprefix("packages=(").removesuffix(")") + "\n")
        (venv / "cuobjdump").write_text("")

    def status(self, **environment):
        plain = {name: value for name, value in os.environ.items() if name != "TROUPE_CI_NEEDS_NVCC"}
        plain |= {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "NIGHTLY_CACHE": str(self.root / "cache")}
        return subprocess.run([self.root / PART], env=plain | environment, capture_output=True, timeout=60).returncode


class MachineCodePartTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Tree(folder.name)

    def check(self, usual, needed):
        self.assertEqual(self.tree.status(), usual)
        self.assertEqual(self.tree.status(TROUPE_CI_NEEDS_NVCC="0"), usual)
        self.assertEqual(self.tree.status(TROUPE_CI_NEEDS_NVCC="1"), needed)

    def test_no_toolkit(self):
        self.tree.install_disassembler()
        self.tree.builds(1, has_target=False)
        self.check(SKIPPED, 1)

    def test_no_disassembler(self):
        self.check(SKIPPED, 1)

    def test_a_table_of_another_compiler(self):
        self.tree.install_disassembler()
        self.tree.compares(SKIPPED)
        self.check(SKIPPED, 1)

    def test_kernels_that_cannot_be_compiled(self):
        self.tree.install_disassembler()
        self.tree.builds(1)
        self.check(1, 1)

    def test_kernels_that_are_worse(self):
        self.tree.install_disassembler()
        self.tree.compares(1)
        self.check(1, 1)

    def test_kernels_as_they_were(self):
        self.tree.install_disassembler()
        self.check(0, 0)


if __name__ == "__main__":
    unittest.main()
