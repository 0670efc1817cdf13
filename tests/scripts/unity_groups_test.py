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
        # No compiler is tried out: that would be most of what this takes.
        self.run_tool("cmake", "-G", "Ninja", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Debug",
                      "-DCMAKE_CXX_COMPILER_FORCED=ON")

    def write(self, name, text):
        file = self.place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def list_sources(self, *sources):
        self.write("CMakeLists.txt", PROJECT.format(python=sys.executable, sources=" ".join(sources)))

    def append(self, text):
        file = self.place / "CMakeLists.txt"
        file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")

    def run_tool(self, *command):
        result = subprocess.run(command, cwd=self.place, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def regenerate(self):
        return self.run_tool("ninja", "-C", "build", "build.ninja")

    def groups(self):
        lines = (self.place / "build/unity_groups.txt").read_text(encoding="utf-8").splitlines()
        return [(int(number), os.path.basename(source)) for _, number, source in (line.split(" ", 2) for line in lines)]

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

    def test_names_of_a_header_beside_a_source_are_kept_apart(self):
        self.write("parts/a.cpp", '#include "a.hpp"\n')
        self.write("parts/a.hpp", "struct A {};\n")
        self.write("b.cpp", "namespace { int A; }\n")
        self.list_sources("parts/a.cpp", "b.cpp")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp"), (1, "b.cpp")])

    def test_an_alias_may_be_declared_again_if_it_is_for_the_same(self):
        self.write("a.cpp", "namespace { namespace json = boost::json; using Clock = std::chrono::steady_clock; }\n")
        self.write("b.cpp", "namespace { namespace json = boost::json; }\n")
        self.write("c.cpp", "namespace { using Clock = Simulated; }\n")
        self.write("d.hpp", "using json = Tree;\n")
        self.write("d.cpp", '#include "d.hpp"\n')
        self.list_sources("a.cpp", "b.cpp", "c.cpp", "d.cpp")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp"), (0, "b.cpp"), (1, "c.cpp"), (1, "d.cpp")])

    def test_sources_that_clash_with_many_come_first_where_that_saves_a_group(self):
        easy = [f"easy{number}.cpp" for number in range(20)]
        hard = [f"hard{number}.cpp" for number in range(3)]
        for name in easy:
            self.write(name, "")
        for name in hard:
            self.write(name, "namespace { int same; }\n")
        self.list_sources(*easy, *hard)
        self.regenerate()
        of_hard = [number for number, name in self.groups() if name in hard]
        self.assertEqual((sorted(of_hard), len(self.groups())), ([0, 1, 2], 23))

    def test_a_namespace_with_the_name_of_its_file_keeps_its_names_to_itself(self):
        self.write("a.cpp", "namespace a { namespace { int same; } int f() { return same; } }\n")
        self.write("b.cpp", "namespace c { namespace { int same; } }\n")
        self.write("c.cpp", "namespace { int same; }\n")
        self.list_sources("a.cpp", "b.cpp", "c.cpp")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp"), (0, "b.cpp"), (1, "c.cpp")])

    def test_targets_of_one_folder_that_share_sources_share_their_groups(self):
        self.write("a.cpp", "namespace { int same; }\n")
        self.write("b.cpp", "")
        self.write("c.cpp", "namespace { int same; }\n")
        self.list_sources("a.cpp", "b.cpp")
        self.append("add_library(twin STATIC b.cpp c.cpp)\ntroupe_unite(twin)\n")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp"), (0, "b.cpp"), (0, "b.cpp"), (1, "c.cpp")])

    def test_a_target_in_another_folder_has_groups_of_its_own(self):
        self.write("a.cpp", "namespace { int same; }\n")
        self.write("b.cpp", "")
        self.write("c.cpp", "namespace { int same; }\n")
        self.list_sources("a.cpp", "b.cpp")
        self.append("add_subdirectory(part)\n")
        self.write("part/CMakeLists.txt", "add_library(twin STATIC ../c.cpp ../b.cpp)\ntroupe_unite(twin)\n")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp"), (0, "b.cpp"), (0, "c.cpp"), (0, "b.cpp")])

    def test_a_build_folder_of_before_is_sorted_too(self):
        listed = self.place / "build/unity_sources.txt"
        listed.write_text("".join(f"small {self.place / name}\n" for name in ("a.cpp", "b.cpp")), encoding="utf-8")
        self.write("b.cpp", "namespace { int b; }\n")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp"), (0, "b.cpp")])

    def test_a_changed_source_is_sorted_anew_and_once(self):
        self.regenerate()
        self.write("b.cpp", "namespace { int a; }\n")
        self.regenerate()
        self.assertEqual(self.groups(), [(0, "a.cpp"), (1, "b.cpp")])
        self.assertIn("no work to do", self.regenerate())


class Scanner(unittest.TestCase):
    def assert_names(self, code, *expected):
        for names in (unity_groups.read_names(f"namespace {{ {code} }}").private, unity_groups.read_names(code).shared):
            self.assertEqual(names, set(expected), code)

    def test_every_declarator_gives_its_name(self):
        self.assert_names("int a, b;", "a", "b")
        self.assert_names("constexpr int kA = 1, kB = 2;", "kA", "kB")
        self.assert_names("constexpr int kA{1}, kB{2}, *kC = nullptr, kD[2] = {1, 2};", "kA", "kB", "kC", "kD")
        self.assert_names("const bool kA = 1 < 2, kB = 3 > 2;", "kA", "kB")
        self.assert_names("struct A { int x, y; } a, *b;", "A", "a", "b")

    def test_commas_within_brackets_separate_no_declarators(self):
        self.assert_names("const std::map<int, std::pair<int, long>> kA = {{1, {2, 3}}}, kB = f(x, y);", "kA", "kB")
        self.assert_names("const auto kA = std::pair<A, B>(x, y);", "kA")
        self.assert_names("constexpr std::size_t kA = std::size_t{64} << 20;", "kA")
        self.assert_names("std::optional<std::vector<int>> f(A a = {}, B b = {}) { int x, y; }", "f")
        self.assert_names("template <class T, int N = 3> T f(T a, T b);", "f")

    def test_enumerators_of_unscoped_enums_are_names(self):
        self.assert_names("enum Color : char { kRed, kGreen = f(1, 2), kBlue = int{3}, };", "Color", "kRed", "kGreen", "kBlue")
        self.assert_names("enum { kSize = 3 } a;", "kSize", "a")
        self.assert_names("enum class Color { kRed };", "Color")
        self.assert_names("enum struct Color { kRed };", "Color")
        self.assert_names("struct A { enum Color { kRed }; };", "A")

    def test_bindings_are_names(self):
        self.assert_names("const auto& [a, b] = pair();", "a", "b")
        self.assert_names("auto [a, b]{pair()};", "a", "b")

    def test_pointers_to_functions_are_names(self):
        self.assert_names("void (*on_end)(int, int) = nullptr;", "on_end")
        self.assert_names("int (*const table[2])(int) = {f, g};", "table")
        self.assert_names("std::function<void()> on_end;", "on_end")
        self.assert_names("std::function<void(A&, B)> on_end = f, on_start;", "on_end", "on_start")

    def test_types_are_names_and_their_bases_are_not(self):
        self.assert_names("struct [[nodiscard]] A final : B, C<int> { int x; };", "A")
        self.assert_names("struct alignas(sizeof(int)) A {};", "A")
        self.assert_names("typedef struct A { int x; } B;", "A", "B")
        self.assert_names("using A = std::pair<int, int>;", "A")

    def test_definitions_of_members_are_no_names(self):
        self.assert_names("Widget::Widget(int a, int b) : a_(a), b_{b}, c_(b) { f(); }")
        self.assert_names("bool Widget<int>::operator==(const Widget& other) const { return true; }")
        self.assert_names("bool operator<(const A& a, const A& b);")


class Rules(unittest.TestCase):
    def test_spaces_and_dollars_are_escaped_as_make_has_them(self):
        self.assertEqual(unity_groups.in_rule("/a b/$c"), r"/a\ b/$$c")


if __name__ == "__main__":
    unittest.main()
