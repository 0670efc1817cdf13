#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulator's check: each kind of thread has its CPUs, and only compute threads say that the machine was not quiet."""
import os
import pathlib
import sys
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/simulator")]
import check  # noqa: E402
import quiet  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
