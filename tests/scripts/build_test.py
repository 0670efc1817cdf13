#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/build: when it configures, what it says of settings that are lost by it, and of how far it is; scripts/test:
what it leaves out. cmake, ninja and ctest are twins; the twin's presets file is the cache that cmake makes of it."""
import contextlib
import os
import pathlib
import pty
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/build"

CMAKE = """#!/bin/sh
echo "$@" >>calls
mkdir -p build/release
cp CMakePresets.json build/release/CMakeCache.txt
touch build/release/build.ninja
"""


NINJA = """#!/bin/sh
echo "${NINJA_STATUS%%%*}1 4 50.9 Building one"
echo "one: a warning"
echo "${NINJA_STATUS%%%*}3 4 210.0 Building three"
exit $NINJA_EXIT
"""


class Building(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.place)
        self.write("scripts/build", SCRIPT.read_text(encoding="utf-8"))
        self.write("scripts/install-packages", "#!/bin/sh\n")
        self.write("twins/cmake", CMAKE)
        self.write("twins/ninja", "#!/bin/sh\n")
        self.write("CMakePresets.json", "TROUPE_CUDA:BOOL=ON\n", age=100)

    def write(self, name, text, age=0):
        file = self.place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)
        self.age(name, age)

    def age(self, name, seconds):
        os.utime(self.place / name, (1_700_000_000 - seconds,) * 2)

    def build(self):
        environment = {**os.environ, "PATH": f"{self.place}/twins:{os.environ['PATH']}"}
        result = subprocess.run([self.place / "scripts/build", "release"], cwd=self.place, env=environment,
                                capture_output=True, text=True, check=True)
        calls = self.place / "calls"
        return result.stderr, calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []

    def test_a_new_directory_is_configured_once(self):
        self.build()
        said, calls = self.build()
        self.assertEqual(calls, ["--fresh --preset release"])
        self.assertNotIn("lost", said)

    def test_a_directory_that_somebody_configured_is_taken_as_it_is(self):
        self.write("build/release/CMakeCache.txt", "TROUPE_CUDA:BOOL=OFF\n")
        self.write("build/release/build.ninja", "")
        self.assertEqual(self.build()[1], [])

    def test_newer_presets_are_applied_and_settings_lost_by_it_are_named(self):
        self.write("build/release/CMakeCache.txt", "TROUPE_CUDA:BOOL=OFF\nTROUPE_CUDA_OF:INTERNAL=1\n", age=200)
        self.write("build/release/build.ninja", "", age=200)
        said, calls = self.build()
        self.assertEqual(calls, ["--fresh --preset release"])
        self.assertIn("cmake --preset release '-DTROUPE_CUDA:BOOL=OFF'\033", said)

    def test_values_of_the_old_presets_are_not_named_as_lost(self):
        self.write("CMakePresets.json", "TROUPE_UNITY:STRING=TESTS\nCMAKE_BUILD_TYPE:STRING=Debug\n", age=100)
        self.build()
        self.write("build/release/CMakeCache.txt",
                   "TROUPE_UNITY:STRING=TESTS\nCMAKE_BUILD_TYPE:STRING=Debug\nTROUPE_CUDA:BOOL=OFF\n")
        self.age("build/release/preset-settings", 200)
        self.write("CMakePresets.json", "TROUPE_UNITY:STRING=ALL\nTROUPE_CUDA:BOOL=ON\n", age=100)
        said, calls = self.build()
        self.assertEqual(calls, ["--fresh --preset release"] * 2)
        self.assertIn("cmake --preset release '-DTROUPE_CUDA:BOOL=OFF'\033", said)

    def test_a_choice_that_the_new_presets_share_is_not_lost(self):
        self.build()
        self.write("build/release/CMakeCache.txt", "TROUPE_CUDA:BOOL=OFF\n")
        self.age("build/release/preset-settings", 200)
        self.write("CMakePresets.json", "TROUPE_CUDA:BOOL=OFF\n", age=100)
        said, calls = self.build()
        self.assertEqual(calls, ["--fresh --preset release"] * 2)
        self.assertNotIn("lost", said)

    def build_on_a_terminal(self, exit_status):
        self.write("twins/ninja", NINJA)
        ours, its = pty.openpty()
        environment = {**os.environ, "PATH": f"{self.place}/twins:{os.environ['PATH']}", "NINJA_EXIT": str(exit_status)}
        status = subprocess.run([self.place / "scripts/build", "release"], cwd=self.place, env=environment,
                                stdout=its, stderr=its, check=False).returncode
        os.close(its)
        shown = b""
        with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # its end
            while part := terminal.read(4096):
                shown += part
        return status, shown.decode()

    def test_on_a_terminal_a_line_says_how_far_it_is(self):
        status, shown = self.build_on_a_terminal(0)
        self.assertEqual(status, 0)
        self.assertIn("[1 of 4, about 2 min 30 s left]\r\033[Kone: a warning\r\n", shown)
        self.assertIn("\r\033[K[3 of 4, about 1 min 10 s left]\r\033[K", shown)

    def test_a_failed_build_fails_on_a_terminal(self):
        self.assertEqual(self.build_on_a_terminal(3)[0], 3)
        self.assertFalse((self.place / "build/release/built").exists())

    def arguments_of_ctest(self, preset):
        self.write("scripts/test", SCRIPT.with_name("test").read_text(encoding="utf-8"))
        for name in ("scripts/build", "scripts/fetch-prometheus"):
            self.write(name, "#!/bin/sh\n")
        self.write("twins/ctest", "#!/bin/sh\necho \"$@\"\n")
        environment = {**os.environ, "PATH": f"{self.place}/twins:{os.environ['PATH']}"}
        return subprocess.run([self.place / "scripts/test", "--preset", preset, "-R", "x"], env=environment,
                              capture_output=True, text=True, check=True).stdout

    def test_without_an_instrumented_caf_what_runs_its_threads_is_left_out(self):
        left_out = "--label-exclude caf_threads|end_to_end -R x"
        self.assertIn(left_out, self.arguments_of_ctest("tsan"))
        self.assertNotIn("--label-exclude", self.arguments_of_ctest("asan"))
        (self.place / "build/tools/caf-tsan").mkdir(parents=True)
        self.assertNotIn("--label-exclude", self.arguments_of_ctest("tsan"))


if __name__ == "__main__":
    unittest.main()
