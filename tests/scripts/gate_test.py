#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/nightly/support/gate.py: who passes while a kill waits."""
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "nightly/support"))
from gate import Gate  # noqa: E402


class Told:
    """A server that notes its kills among the requests."""

    def __init__(self):
        self.order = []

    def kill_and_start_again(self):
        self.order.append("kill")


def until(condition):
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


class GateTest(unittest.TestCase):
    def test_requests_that_come_while_a_kill_waits_come_behind_it(self):
        server = Told()
        gate = Gate(server, 1, 2)
        may_end = threading.Event()

        def ask(name, ends):
            with gate.passed():
                server.order.append(name)
                ends.wait(10)

        at_once = threading.Event()
        at_once.set()
        first = threading.Thread(target=ask, args=("first", may_end))
        first.start()
        self.assertTrue(until(lambda: server.order == ["first"]))
        second = threading.Thread(target=ask, args=("second", at_once))  # the kill is in front of it
        second.start()
        self.assertTrue(until(lambda: gate.kills_left == 0))
        third = threading.Thread(target=ask, args=("third", at_once))
        third.start()
        time.sleep(0.2)
        self.assertEqual(server.order, ["first"])
        may_end.set()
        for thread in (first, second, third):
            thread.join(10)
        self.assertEqual(server.order[:2], ["first", "kill"])
        self.assertEqual(sorted(server.order[2:]), ["second", "third"])


if __name__ == "__main__":
    unittest.main()
