#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lints themselves: what each finds in code that is not there."""
import pathlib
import shutil
import tempfile
import unittest

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


if __name__ == "__main__":
    unittest.main()
