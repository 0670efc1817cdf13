#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/draw-dashboard: units, variables, and what it says of bad input."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
from dashboard_page import charts, page, units  # noqa: E402
from dashboard_page.variables import Variables  # noqa: E402


def run(*arguments):
    return subprocess.run([SCRIPTS / "draw-dashboard", *arguments], capture_output=True, text=True)


class Units(unittest.TestCase):
    def test_numbers_are_written_as_people_read_them(self):
        for value, unit, text in [(0.000183, "s", "183 µs"), (0.0996, "s", "99.6 ms"), (1, "s", "1 s"), (300, "s", "5 min"),
                                  (0, "s", "0 s"), (0.9987, "percentunit", "99.9 %"), (12345, "short", "12.3 k"),
                                  (50331648, "bytes", "48 MiB"), (4.333, "reqps", "4.33 /s"), (6405, "none", "6405"),
                                  (None, "s", "no data"), (0.99999, "s", "1 s")]:
            self.assertEqual(units.format_value(value, unit), text)

    def test_ticks_are_round_and_inside(self):
        self.assertEqual(units.round_ticks(0, 10.3, 5), [0, 5, 10])
        self.assertEqual(units.round_ticks(0, 0, 5), [0])
        self.assertEqual(units.round_ticks(0, 48, 3, base=2), [0, 16, 32, 48])


class Queries(unittest.TestCase):
    def test_variables_are_filled_in_as_grafana_does(self):
        listed = [{"name": "model", "current": {"value": "$__all"}, "allValue": ".*"},
                  {"name": "servers", "current": {"value": ["a", "b"]}}, {"name": "mode", "current": {"value": "x"}}]
        variables = Variables({"templating": {"list": listed}}, {"mode": "y"})
        variables.set_intervals(step=2, scrape_interval=5)
        self.assertEqual(variables.fill_in('a{m="$model",s=~"$servers"}[$__rate_interval] ${mode} $unknown'),
                         'a{m=".*",s=~"a|b"}[20s] y $unknown')

    def test_legends_take_labels(self):
        self.assertEqual(page._name("p {{ le }} {{none}}", {"le": "5"}), "p 5 ")


class Heatmaps(unittest.TestCase):
    def test_many_native_buckets_become_as_many_rows_as_fit_and_nothing_is_lost(self):
        cells = [(2 ** (i / 16), 2 ** ((i + 1) / 16), i % 3) for i in range(-160, 160)]
        coarse = charts._coarser([(0, cells)], 12)[0][1]
        self.assertEqual(len(coarse), 12)
        self.assertEqual(sum(count for _, _, count in coarse), sum(count for _, _, count in cells))

    def test_stacked_lines_lie_on_each_other(self):
        bands = charts._stack([("a", "", [(0, 1), (1, 2)]), ("b", "", [(1, 3)])])
        self.assertEqual(bands[1][2], [(1, 2, 5)])


class BadInput(unittest.TestCase):
    def test_what_is_no_dashboard_is_named(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            for text in ("", "[]", "{}"):
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()
                result = run(file.name)
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"{file.name}: not a Grafana dashboard", result.stderr)

    def test_a_prometheus_that_is_not_there_is_named(self):
        board = SCRIPTS.parent / "configs/grafana/cache.json"
        result = run(str(board), "--prometheus", "http://127.0.0.1:1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("http://127.0.0.1:1: no answer from a Prometheus", result.stderr)

    def test_arguments_are_checked(self):
        for arguments, words in [(("--minutes", "0"), "above 0, got 0"), (("--set", "x"), "NAME=VALUE, got 'x'"),
                                 (("--scrape-interval", "-1"), "above 0, got -1")]:
            result = run("board.json", *arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    unittest.main()
