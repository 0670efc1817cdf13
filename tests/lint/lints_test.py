#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lints themselves: what each finds in code that is not there."""
import contextlib
import io
import json
import pathlib
import shutil
import tempfile
import unittest
import unittest.mock

import check_documents
import check_folders
import check_headers
import check_includes
import check_types


class Types(unittest.TestCase):
    def assert_types(self, code, *expected):
        self.assertEqual(list(check_types.defined_types(code)), list(expected), code)

    def test_a_definition_gives_its_qualified_name(self):
        self.assert_types("namespace a::b { struct X final : Y<int, 2> { struct Inner {}; }; }", "a::b::X")
        self.assert_types("namespace a { enum struct E : int { kE }; }", "a::E")
        self.assert_types("template <class T, class U = Y<T>> union X {};", "X")

    def test_attributes_are_passed_over(self):
        self.assert_types("struct [[nodiscard]] X {};", "X")
        self.assert_types("class alignas(sizeof(int)) [[deprecated(f(1))]] X {};", "X")
        self.assert_types("struct __attribute__((packed)) X {};", "X")

    def test_a_definition_may_be_in_a_typedef(self):
        self.assert_types("typedef struct X { int x; } Y;", "X")

    def test_declarations_and_names_of_one_file_alone_are_none(self):
        self.assert_types("struct X; namespace { struct Y {}; } struct X f() { return {}; } struct A::X {};")


class Headers(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for patch in (unittest.mock.patch.object(check_headers, "ROOT", self.root),
                      contextlib.redirect_stdout(io.StringIO())):
            patch.__enter__()
            self.addCleanup(patch.__exit__, None, None, None)
        for name in ("x", "y"):
            self.write(f"gpu/{name}.hpp", "#pragma once\n")
            self.write(f"gpu/{name}.cpp", f'#include "gpu/{name}.hpp"\n')

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def compile(self, *sources):
        self.write("compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": source, "command": f"c++ -I. -o x.o -c {source}"}
             for source in sources]))

    def unproved(self):
        return [str(header.relative_to(self.root)) for header in check_headers.unproved_headers(self.root)]

    def test_only_a_source_that_is_compiled_proves_its_header(self):
        self.compile("gpu/x.cpp", "gpu/made_by_the_build.cpp")
        self.assertEqual(self.unproved(), ["gpu/y.hpp"])

    def test_a_group_proves_the_header_it_begins_with(self):
        self.write("group.cxx", f'#include "{self.root}/gpu/y.cpp"\n#include "{self.root}/gpu/x.cpp"\n')
        self.compile("group.cxx")
        self.assertEqual(self.unproved(), ["gpu/x.hpp"])

    def test_a_header_that_no_compiled_source_includes_is_a_problem(self):
        self.compile("gpu/x.cpp")
        problems = list(check_headers.compile_problems(self.root))
        self.assertEqual(problems, [f"gpu/y.hpp: no source of {self.root} includes it"])


class Voice(unittest.TestCase):
    def problems(self, code):
        return [problem.split(": ", 1)[1] for problem in check_documents.voice_of_header("x.hpp", code)]

    def test_code_is_no_person(self):
        self.assertEqual(self.problems("// It is for those\n// who wait.\nint a;\n"), ["'who' is said of people; code is 'it'"])
        self.assertEqual(self.problems("int a;  // nobody asked\n"), ["'nobody' is said of people; code is 'it'"])
        self.assertEqual(self.problems("int who;\nint b;  // the whole of it\n"), [])

    def test_openings_are_found_in_blocks_and_beside_code(self):
        self.assertEqual(len(self.problems("// What it is.\nint a;  // whether it is\n")), 2)
        self.assertEqual(self.problems("// What is it?\nint a;  // of the model\n"), [])

    def test_a_word_is_bounded_in_all_headers_together(self):
        texts = ["// a tensor whose rows are whole\n"] * (check_documents.MOST_WHOSE + 1)
        self.assertEqual(len(list(check_documents.whose_problems(texts))), 1)
        self.assertEqual(list(check_documents.whose_problems(texts[1:])), [])


class Folders(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        patch = unittest.mock.patch.object(check_folders, "LARGER", {"gpu/large": 27})
        patch.__enter__()
        self.addCleanup(patch.__exit__, None, None, None)

    def fill(self, name, count):
        folder = self.root / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for number in range(count):
            for ending in ("hpp", "cpp"):
                (folder / f"x{number}.{ending}").touch()
        (folder / "CMakeLists.txt").touch()

    def problems(self):
        return list(check_folders.problems_of(self.root))

    def test_a_header_and_its_source_are_one_concept(self):
        self.fill("gpu/large", 27)
        self.fill("gpu/x", 25)
        self.assertEqual(self.problems(), [])
        self.fill("gpu/x", 26)
        self.assertEqual(self.problems(), ["gpu/x: 26 concepts on one level, at most 25"])

    def test_a_larger_one_does_not_grow_and_is_told_when_it_shrank(self):
        self.fill("gpu/large", 28)
        self.assertEqual(self.problems(), ["gpu/large: 28 concepts on one level, at most 27"])
        self.fill("gpu/large", 26)
        self.assertEqual(self.problems(), ["gpu/large: has 26 concepts now, which LARGER must say"])
        shutil.rmtree(self.root / "gpu/large")
        self.assertEqual(self.problems(), ["gpu/large: is in LARGER and not there"])


class Includes(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)

    def problems(self, name, code):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code, encoding="utf-8")
        return list(check_includes.problems_of(self.root, file))

    def test_an_include_is_named_from_the_root(self):
        self.assertEqual(self.problems("store/x.cpp", '#include "store/x.hpp"\n#include "policy/y.hpp"\n'), [])
        for target in ("x.hpp", "../gpu/x.hpp", "sqlite/x.hpp"):
            problems = self.problems("store/x.cpp", f'\n#include "{target}"\n')
            self.assertEqual(len(problems), 1, target)
            self.assertIn(f"store/x.cpp:2: '{target}'", problems[0])

    def test_a_folder_includes_only_what_it_may(self):
        self.assertEqual(self.problems("store/x.cpp", '#include "http/y.hpp"\n'),
                         ["store/x.cpp:1: store/ may not include http/"])

    def test_rooms_of_the_load_generator_include_no_later_ones(self):
        self.assertEqual(self.problems("loadgen/result/x.cpp", '#include "loadgen/workload/y.hpp"\n#include "loadgen/z.hpp"\n'), [])
        self.assertEqual(self.problems("loadgen/workload/x.cpp", '#include "loadgen/result/y.hpp"\n'),
                         ["loadgen/workload/x.cpp:1: loadgen/workload/ may not include loadgen/result/"])


if __name__ == "__main__":
    unittest.main()
