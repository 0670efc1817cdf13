# SPDX-License-Identifier: Apache-2.0
"""The server under attack: a live server whose log, descriptors, threads, memory and end can be looked at."""
import contextlib
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import DEMO_MODEL, ROOT, Server  # noqa: E402

DEFAULT_TROUPE = ROOT / "build/release/app/troupe"
NOOP = ["--device", "noop"]
GAUGES = ("troupe_num_requests_running", "troupe_num_requests_waiting", "troupe_num_requests_paused",
          "troupe_http_connections", "troupe_http_sse_streams", "troupe_http_sse_backlog_bytes",
          'troupe_kv_pages{state="running",tier="device"}')


class NotReady(Exception):
    """The server did not start; the text is the end of its log."""


class Target(Server):
    """Ready when entered; on leaving it is asked to end, and killed if it does not."""

    bad_ends = []  # of all servers, when asked to end on leaving: what came instead of status 0

    def __init__(self, troupe, options=(), model=DEMO_MODEL, ready_seconds=30, log_level="warning"):
        options = ["--log-level", log_level, "--cache-measure=false", *options]
        super().__init__(troupe, options, model, ready_seconds)
        index = self.command.index("--log-level")  # the shared default, given first
        del self.command[index:index + 2]
        self.errors = self.log_file = tempfile.NamedTemporaryFile(prefix="attack-", suffix=".log")

    def __enter__(self):
        if not self.start():
            raise NotReady(f"exit status {self.process.returncode}: {self.log()[-300:]}")
        return self

    def __exit__(self, *_):
        if self.process.poll() is None and (status := self.end()) != 0:
            self.bad_ends.append(f"status {status}: {self.log()[-300:]}")

    def end(self, number=signal.SIGTERM, seconds=40):
        """The exit status after a signal; nothing if it had to be killed."""
        self.process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        self.process.kill()
        self.process.wait()
        return None

    def kill(self):
        self.process.kill()
        self.process.wait()

    @property
    def pid(self):
        return self.process.pid

    @property
    def is_alive(self):
        return self.process.poll() is None

    def log(self):
        return pathlib.Path(self.log_file.name).read_text(errors="replace")

    def num_descriptors(self):
        return sum(1 for _ in pathlib.Path(f"/proc/{self.pid}/fd").iterdir())

    def num_threads(self):
        return sum(1 for _ in pathlib.Path(f"/proc/{self.pid}/task").iterdir())

    def children(self):
        tasks = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
        found = []
        for task in tasks:
            with contextlib.suppress(OSError):  # a thread that ended meanwhile
                found += map(int, (task / "children").read_text().split())
        return found

    def memory(self, field="VmRSS"):
        """Bytes; VmHWM is the peak."""
        lines = pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) * 1024

    def gauges(self):
        samples = self.metrics()
        return {name: samples[name] for name in GAUGES}

    def footing(self):
        """All that has to be back when the clients are gone; two readings agree, or the time is up."""
        last = None
        for _ in range(20):
            gauges = self.gauges()
            time.sleep(0.1)  # the connection that asked for the metrics closes
            now = Footing(self.num_descriptors(), self.num_threads(), gauges)
            if now == last:
                break
            last = now
        return now

    def settles_at(self, before, seconds=20):
        """The footing, once it equals `before` or the time is up."""
        deadline = time.monotonic() + seconds
        while True:
            now = self.footing()
            if now == before or time.monotonic() > deadline:
                return now


class Footing(tuple):
    """Descriptors, threads and gauges (one connection is that of the question)."""

    def __new__(cls, descriptors, threads, gauges):
        return super().__new__(cls, (descriptors, threads, tuple(sorted(gauges.items()))))

    def __str__(self):
        gauges = [f"{name} {value:g}" for name, value in self[2] if value]
        return ", ".join([f"{self[0]} descriptors", f"{self[1]} threads", *gauges])
