#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake/unity_groups.py alone, and in build folders of a small project: CMake and ninja are real, nothing is compiled."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cmake"))
import unity_groups  # noqa: E402

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
set(Python3_EXECUTABLE "{python}")
include(cmake/compile_options.cmake)
add_library(small STATIC {sources})
troupe_unite(small)
"""


class BuildFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.place = pathlib.Path(folder, "a clone")
        for name in ("cmake/compile_options.cmake", "cmake/unity_groups.py"):
            self.write(name, (ROOT / name).read_text(encoding="utf-8"))
        self.list_sources("a.cpp", "b.cpp")
        self.write("a.cpp", "int a;\n")
        self.write("b.cpp", "int b;\n")
        self.run_tool("cmake", "-G", "Ninja", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Debug")

    def write(self, name, text):
        file = self.place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def list_sources(self, *sources):
        self.write("CMakeLists.txt", PROJECT.format(python=sys.executable, sources=" ".join(sources)))

    def run_tool(self, *command):
        result = subprocess.run(command, cwd=self.place, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def regenerate(self):
        return self.run_tool("ninja", "-C", "build", "build.ninja")

    def groups(self):
        lines = (self.place / "build/small_groups.txt").read_text(encoding="utf-8").splitlines()
        return [(int(number), os.path.basename(source)) for number, source in (line.split(" ", 1) for line in lines)]

    def test_a_source_may_be_deleted(self):
        self.regenerate()
        (self.place / "b.cpp").unlink()
        self.list_sources("a.cpp")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp")])

    def test_a_source_may_be_renamed(self):
        self.regenerate()
        (self.place / "b.cpp").rename(self.place / "c.cpp")
        self.list_sources("a.cpp", "c.cpp")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp"), (0, "c.cpp")])

    def test_a_header_may_be_deleted(self):
        self.write("a.cpp", '#include "a.hpp"\nint a;\n')
        self.write("a.hpp", "struct A {};\n")
        self.regenerate()
        (self.place / "a.hpp").unlink()
        self.write("a.cpp", "int a;\n")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp"), (0, "b.cpp")])

    def test_a_changed_source_is_sorted_anew_and_once(self):
        self.regenerate()
        self.write("b.cpp", "namespace { int a; }\n")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp"), (1, "b.cpp")])
        self.assertIn("no work to do", self.regenerate())


class Rules(unittest.TestCase):
    def test_spaces_and_dollars_are_escaped_as_make_has_them(self):
        self.assertEqual(unity_groups.in_rule("/a b/$c"), r"/a\ b/$$c")


if __name__ == "__main__":
    unittest.main()
