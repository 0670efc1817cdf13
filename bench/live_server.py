# SPDX-License-Identifier: Apache-2.0
"""Starts `troupe serve` or a peer and asks it things: what the Python benchmarks share."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEMO_MODEL = ROOT / "models/demo"
CANNOT_START = 1  # an exit status, also of a port that is taken
SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? (\S+)$")


def run(*command):
    """The program's standard output; the benchmark ends if it fails."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode not in (0, 1):  # 1: some requests failed; the figures will tell
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def results(directory):
    """What a `troupe-loadgen` command has left in its directory."""
    return json.loads((directory / "results.json").read_text())


class HttpServer:
    """A program that serves HTTP on a free port: ready when entered and gone when left.

    command_on: the command line for a port. ready_path: it answers 200 once the program is ready. errors: a file for
    its log, ours by default.
    """

    def __init__(self, command_on, ready_path, ready_seconds, environment=None, errors=None):
        self.command_on = command_on
        self.ready_path = ready_path
        self.ready_seconds = ready_seconds
        self.environment = environment
        self.errors = errors
        self.take_port()

    def take_port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [str(part) for part in self.command_on(self.port)]

    def __enter__(self):
        for _ in range(3):  # somebody else may take the port before the server does
            if self.start():
                return self
            if self.process.returncode != CANNOT_START:
                break
            self.take_port()
        sys.exit("the server did not become ready: " + " ".join(self.command))

    def start(self):
        """False if it did not become ready and was ended."""
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=self.errors, env=self.environment)
        deadline = time.monotonic() + self.ready_seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.url + self.ready_path, timeout=1).close()
                return True
            except OSError:
                time.sleep(0.01)
        self.process.kill()
        self.process.wait()
        return False

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Server(HttpServer):
    """`troupe serve`."""

    def __init__(self, troupe, options, model=DEMO_MODEL, ready_seconds=30, library_path=None):
        options = ["--log-level", "error", *options]
        if "--store-directory" not in options:
            options += ["--store-directory", "none"]
        super().__init__(lambda port: [troupe, "serve", "--model", model, "--port", port, *options], "/ready", ready_seconds,
                         os.environ | ({"LD_LIBRARY_PATH": library_path} if library_path else {}))

    def text(self, path, key=None):
        fields = {"Authorization": f"Bearer {key}"} if key else {}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=fields)) as answer:
            return answer.read().decode()

    def metrics(self):
        """Samples of /metrics by name and labels other than the model's: "hits{tier=\\"host\\"}"."""
        samples = {}
        for match in filter(None, map(SAMPLE.match, self.text("/metrics").splitlines())):
            name, labels, value = match.groups()
            others = [label for label in (labels or "").split(",") if label and not label.startswith("model_name=")]
            samples[name + ("{" + ",".join(others) + "}" if others else "")] = float(value)
        return samples
