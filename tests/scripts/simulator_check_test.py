#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulator's check: each kind of thread has its CPUs."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/simulator")]
import check  # noqa: E402


class Placement(unittest.TestCase):
    def test_on_two_cores_computation_has_one_for_itself(self):
        self.assertEqual(check.default_cpus([0, 1]), ({1}, {0}, {0}))

    def test_on_more_the_generator_has_one_too(self):
        self.assertEqual(check.default_cpus([0, 1, 2, 3]), ({1, 2}, {0}, {3}))
        self.assertEqual(check.default_cpus([4, 5, 7]), ({5}, {4}, {7}))

    def test_one_core_is_not_enough(self):
        with self.assertRaises(SystemExit):
            check.default_cpus([0])

    def test_lists_are_what_the_programs_read(self):
        self.assertEqual(check.cpu_list({2, 0, 5}), "0,2,5")
        self.assertEqual(check.cpus_in("0-2,5"), {0, 1, 2, 5})


if __name__ == "__main__":
    unittest.main()
