#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Verdicts of benchmarks: by the interval over the seeds, never by one run."""
import dataclasses
import math
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/cache/conversations")]
import tables  # noqa: E402
from intervals import interval, verdict, verdict_near  # noqa: E402
from measurement import Measurement  # noqa: E402


def measured(recomputed, history=10_000):
    return Measurement(rate=1, throughput=1, p90=0.01, mean=0.01, num_requests=100, num_unfinished=0,
                       history_tokens=history, recomputed_tokens=recomputed, device_hits=0, host_hits=0,
                       evicted_pages=0, preemptions=0)


class Intervals(unittest.TestCase):
    def test_student_s_interval_of_five_values(self):
        found = interval([1, 2, 3, 4, 5])
        self.assertEqual(found.mean, 3)
        self.assertAlmostEqual(found.high - 3, 2.776 * math.sqrt(2.5 / 5), places=3)
        self.assertAlmostEqual(3 - found.low, found.high - 3)

    def test_one_value_bounds_nothing(self):
        self.assertEqual(interval([0.7]).high, math.inf)
        self.assertEqual(interval([0.7, math.inf]).high, math.inf)

    def test_the_whole_interval_decides(self):
        self.assertEqual(verdict(interval([0.70, 0.71, 0.72, 0.69, 0.70]), 0.9, True), "met")
        self.assertEqual(verdict(interval([0.95, 0.96, 0.97, 0.96, 0.95]), 0.9, True), "MISSED")
        self.assertEqual(verdict(interval([0.70, 1.20, 0.72, 1.10, 0.70]), 0.9, True), "undecided")
        self.assertEqual(verdict(interval([2.1, 2.2, 2.3, 2.2, 2.1]), 1.5, False), "met")
        self.assertEqual(verdict(interval([1.1, 1.2, 1.1, 1.2, 1.1]), 1.5, False), "MISSED")

    def test_a_goal_on_both_sides_holds_the_whole_interval(self):
        self.assertEqual(verdict_near(interval([1.01, 1.00, 0.99, 1.00, 1.00]), 1, 0.02), "met")
        self.assertEqual(verdict_near(interval([1.00, 1.10, 0.90, 1.00, 1.00]), 1, 0.02), "undecided")
        self.assertEqual(verdict_near(interval([0.80, 0.81, 0.79, 0.80, 0.80]), 1, 0.02), "MISSED")
        self.assertEqual(verdict_near(interval([1.20, 1.21, 1.19, 1.20, 1.20]), 1, 0.02), "MISSED")
        self.assertEqual(verdict_near(interval([1.00, 1.00, 1.00, 1.00, math.inf]), 1, 0.02), "MISSED")
        self.assertTrue(verdict_near(interval([1.00, 1.00, 1.00]), 1, 0.02).startswith("undecided"))

    def test_few_seeds_decide_nothing(self):
        self.assertEqual(verdict(interval([0.7, 0.7]), 0.9, True), "undecided: 2 of 5 seeds")


class ShortOfHostPages(unittest.TestCase):
    """The one run by which the goal was once called met: 68 pages against 97."""

    def row_of(self, *pairs):
        short = [{"value": measured(value), "lru": measured(lru)} for value, lru in pairs]
        return tables.short_row(short)

    def test_one_run_is_no_result(self):
        self.assertIn("undecided", self.row_of((2176, 3104)))

    def test_seeds_that_differ_as_they_did_are_no_result(self):
        self.assertIn("undecided", self.row_of((1280, 1500), (2000, 900), (900, 1700), (1500, 1400), (1300, 1600)))

    def test_a_tier_that_is_not_short_is_no_result(self):
        self.assertIn("not short", self.row_of((0, 32), (32, 64), (0, 224), (0, 0), (32, 0)))

    def test_a_difference_in_all_seeds_is_one(self):
        self.assertIn("| met |", self.row_of((1000, 1500), (1100, 1600), (900, 1400), (1000, 1550), (1200, 1700)))


class ThroughputAtEqualP90(unittest.TestCase):
    def row_of(self, none, value):
        def curve(points):
            return [dataclasses.replace(measured(0), rate=rate, throughput=rate, p90=p90) for rate, p90 in points]
        return tables.throughput_row([{"none": curve(none), "value": curve(value)}] * 5)

    def test_a_curve_that_ends_below_the_limit_is_a_lower_bound(self):
        none = [(1, 0.01), (2, 0.03)]
        self.assertIn("| MISSED |", self.row_of(none, [(1, 0.01), (2, 0.03)]))
        bound = self.row_of(none, [(1, 0.01), (1.6, 0.01)])
        self.assertIn("undecided: a lower bound", bound)
        self.assertIn("at least: value had room left for 5 seeds", bound)
        self.assertIn("| met |", self.row_of(none, [(1, 0.01), (9, 0.01)]))

    def test_a_reference_that_was_never_too_slow_bounds_nothing(self):
        self.assertIn("undecided: no rate was too high", self.row_of([(1, 0.01), (2, 0.01)], [(1, 0.01), (9, 0.01)]))


if __name__ == "__main__":
    unittest.main()
