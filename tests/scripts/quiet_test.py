#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A machine that is not quiet is told by what others use, not by a benchmark's own programs."""
import os
import pathlib
import subprocess
import sys
import threading
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench")]
import quiet  # noqa: E402


class Switches(unittest.TestCase):
    def test_only_threads_bound_to_a_compute_core_count(self):
        cpu = min(os.sched_getaffinity(0))
        is_bound, is_over, thread_id = threading.Event(), threading.Event(), []

        def stay_on_one_cpu():
            thread_id.append(threading.get_native_id())
            os.sched_setaffinity(0, {cpu})  # of this thread
            is_bound.set()
            is_over.wait()

        thread = threading.Thread(target=stay_on_one_cpu)
        thread.start()
        is_bound.wait()
        try:
            self.assertIn(str(thread_id[0]), quiet.involuntary_switches(os.getpid(), {cpu}))
            self.assertNotIn(str(thread_id[0]), quiet.involuntary_switches(os.getpid(), {cpu + 1}))
        finally:
            is_over.set()
            thread.join()

    def test_a_noisy_machine_gives_its_reasons(self):
        self.assertEqual(quiet.Noise(foreign=0.01, steal=0, switches=1).reasons(), [])
        self.assertEqual(len(quiet.Noise(foreign=0.5, steal=0.1, switches=100).reasons()), 3)

    def test_switches_that_were_not_looked_at_are_no_reason_and_no_figure(self):
        noise = quiet.Noise(foreign=0.01, steal=0, switches=None)
        self.assertEqual(noise.reasons(), [])
        self.assertNotIn("switches", noise.text())


class Machine(unittest.TestCase):
    def test_programs_that_were_waited_for_are_ours(self):
        before = quiet.children_seconds()
        subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
        self.assertGreaterEqual(quiet.children_seconds() - before, 0.2)

    def test_what_is_left_of_the_busy_time_is_of_others(self):
        with mock.patch("quiet.time.monotonic", side_effect=[100, 110]), \
                mock.patch("quiet.cpu_seconds", side_effect=[(50, 1), (63, 1.1)]), \
                mock.patch("quiet.children_seconds", side_effect=[2, 14]):
            noise = quiet.MachineWatch().end()
        self.assertAlmostEqual(noise.foreign, 0.1)
        self.assertAlmostEqual(noise.steal, 0.01)
        self.assertEqual(noise.reasons(), ["others used 0.10 CPUs (at most 0.05)"])


if __name__ == "__main__":
    unittest.main()
