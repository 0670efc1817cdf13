#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An installation below another prefix works from any directory: install_test.py CMAKE BUILD_FOLDER"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **arguments):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **arguments)
    assert result.returncode == 0, (command, result.stdout, result.stderr)
    return result.stdout


def main():
    cmake, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "prefix"
        run(cmake, "--install", build, "--prefix", prefix)
        for name in ("bin/troupe", "bin/troupe-loadgen", "share/man/man1/troupe.1.gz", "share/man/man1/troupe-loadgen.1.gz",
                     "share/bash-completion/completions/troupe", "share/zsh/vendor-completions/_troupe",
                     "share/fish/vendor_completions.d/troupe.fish", "share/doc/troupe/copyright",
                     "share/troupe/configs/gpus/product-choices.json"):
            assert (prefix / name).is_file(), name
        unit = (prefix / "lib/systemd/system/troupe.service").read_text()
        configuration = prefix / "etc/troupe/troupe.toml"
        assert f"ExecStart={prefix}/bin/troupe serve --config {configuration}\n" in unit, unit

        environment = {"PATH": os.environ["PATH"], "TROUPE_STORE_DIRECTORY": "none", "TROUPE_SERVER_PORT": "0"}
        report = json.loads(run(prefix / "bin/troupe", "doctor", "--json", "--device", "cpu", "--config", configuration,
                                cwd="/", env=environment))
        assert report["ok"], report
        model = [finding for finding in report["findings"] if finding["about"] == "model"]
        assert model[0]["text"].startswith("troupe-demo: "), model
        plan = run(prefix / "bin/troupe-loadgen", "plan", "--preset", "questions", "--conversations", "2", cwd="/",
                      env=environment)
        assert "2 conversations" in plan, plan  # of the questions that were installed

        elsewhere = pathlib.Path(folder) / "elsewhere"
        run(cmake, f"-DCMAKE_INSTALL_PREFIX={elsewhere}", f"-DTROUPE_SOURCE_DIR={ROOT}", "-DTROUPE_BINDIR=sbin",
            "-P", ROOT / "cmake/install_files.cmake")
        assert f"ExecStart={elsewhere}/sbin/troupe serve" in (elsewhere / "lib/systemd/system/troupe.service").read_text()

        configuration.write_text("# mine\n")
        run(cmake, "--install", build, "--prefix", prefix)
        assert configuration.read_text() == "# mine\n"


main()
