# SPDX-License-Identifier: Apache-2.0
"""Part overload: eleven times as many clients as slots. What is still answered, and how fast the others are refused.

The clients are in a process of their own. How fast a refusal comes is timed here, by one blocking socket that does
nothing else: from the last byte written to the first byte read, on a connection that is open. The same socket asks /live
in between: that time is the client's own share, and the machine's."""
import asyncio
import concurrent.futures
import dataclasses
import multiprocessing
import random
import socket
import time

import client
from machine import Watch
from results import in_ms, percentile
from target import NOOP, Target

SLOTS = 64
WAITING = 64
OPTIONS = [
    *NOOP, "--noop-iteration-us", "20000", "--max-batch-sequences",
    str(SLOTS), "--max-waiting",
    str(WAITING), "--memory", "128MiB"
]
BODY = client.chat("Count from 1 to 100.", ignore_eos=True)
LENGTHS = (20, 60)  # tokens; drawn, so that answers don't end in waves
LEAST_GOODPUT = 0.9  # of that without overload
MOST_REFUSAL_MS = 100
PROBE_SECONDS = 0.02
MOST_CALM_SECONDS = 60  # of a load that fits, whatever an overload lasts: its rate is known by then
BACK_TO_NORMAL_SECONDS = 10


@dataclasses.dataclass
class Load:
    """What the clients of one process saw."""
    answered: list = dataclasses.field(default_factory=list)  # (when it was complete, seconds it took)
    refused: int = 0
    without_retry_after: int = 0
    problems: list = dataclasses.field(default_factory=list)

    def goodput(self, begin, end):
        return sum(begin <= when <= end for when, _ in self.answered) / (end - begin)


def run(settings, report):
    seconds = settings.seconds or settings.size(60, 4)
    calm_seconds = min(seconds, MOST_CALM_SECONDS)
    with Target(settings.troupe, OPTIONS) as server:
        before = server.footing()
        normal, capacity, _ = measure(server, SLOTS, calm_seconds, obeys=True)
        report.note("goodput without overload", f"{capacity:.1f}/s, {in_ms([took for _, took in normal.answered])}")
        for obeys in (True, False):
            manner = "clients obey Retry-After" if obeys else "clients ask again after 50 ms"
            with Watch(server.pid) as watch:
                load, goodput, probe = measure(server, 11 * SLOTS, seconds, obeys)
            judge(report, manner, load, goodput / capacity, probe, watch)
        check_normality(report, server, normal, calm_seconds)
        after = server.settles_at(before)
        report.check("descriptors, threads and gauges afterwards", after, after == before, f"{before}")


def measure(server, num_clients, seconds, obeys):
    """The load, its goodput behind the first quarter of the time, and what a prober beside it saw."""
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        begin = time.monotonic()
        running = pool.submit(play, server.port, num_clients, begin + seconds, obeys)
        time.sleep(seconds / 4)
        probe = Probe(server.port)
        if num_clients > SLOTS:
            probe.run(begin + seconds * 0.9)
        load = running.result()
    return load, load.goodput(begin + seconds / 4, begin + seconds), probe


def judge(report, manner, load, share, probe, watch):
    report.check(f"{manner}: malformed answers", f"{len(load.problems)} {load.problems[:3]}", not load.problems, "0")
    report.check(f"{manner}: refusals without Retry-After", f"{load.without_retry_after} of {load.refused:,}",
                 load.refused > 0 and load.without_retry_after == 0, "0, and some refusals")
    report.time(f"{manner}: goodput", f"{share:.0%}", share >= LEAST_GOODPUT, f">= {LEAST_GOODPUT:.0%} of that without",
                watch)
    report.note(f"{manner}: /live on the same socket", in_ms(probe.live))
    p99 = 1000 * percentile(probe.refusals, 0.99)
    report.time(f"{manner}: time of a refusal", f"{in_ms(probe.refusals)}, {probe.num_accepted} accepted",
                bool(probe.refusals) and p99 < MOST_REFUSAL_MS, f"p99 < {MOST_REFUSAL_MS} ms", watch)


def check_normality(report, server, normal, seconds):
    """With as many clients as slots again, the 99th percentile is what it was."""
    time.sleep(min(BACK_TO_NORMAL_SECONDS, seconds))
    with Watch(server.pid) as watch:
        load, _, _ = measure(server, SLOTS, seconds, obeys=True)
    usual, now = (percentile([took for _, took in one.answered], 0.99) for one in (normal, load))
    report.check("refusals after the overload", load.refused, load.refused == 0, "0")
    report.time("answers after the overload", f"p99 {now:.2f} s, before {usual:.2f} s", now <= 1.25 * usual,
                "as before", watch)


def play(port, num_clients, deadline, obeys):
    load, rng = Load(), random.Random(num_clients)

    async def visit():
        connection = await client.Connection.open(port)
        while time.monotonic() < deadline:
            began = time.monotonic()
            answer = await connection.request("POST", "/v1/chat/completions",
                                              BODY | {"max_tokens": rng.randint(*LENGTHS)})
            now = time.monotonic()
            answer.json()
            if answer.status == 200:
                load.answered.append((now, now - began))
            elif answer.status == 429:
                load.refused += 1
                load.without_retry_after += "retry-after" not in answer.headers
                pause = float(answer.headers.get("retry-after", 1)) if obeys else 0.05
                await asyncio.sleep(pause)
            else:
                load.problems.append(answer.status)
            if answer.headers.get("connection") == "close":
                connection.close()
                connection = await client.Connection.open(port)
        connection.close()

    async def visits():
        found = await asyncio.gather(*(visit() for _ in range(num_clients)), return_exceptions=True)
        load.problems += [repr(error) for error in found if error]

    asyncio.run(visits())
    return load


class Probe:
    """One blocking socket; asks in turn for /live and for an answer that is likely to be refused."""

    def __init__(self, port):
        self.port = port
        self.live, self.refusals, self.num_accepted = [], [], 0
        self.get = client.request_bytes("GET", "/live")
        self.post = client.request_bytes("POST", "/v1/chat/completions", BODY | {"max_tokens": 1})

    def run(self, deadline):
        self._connect()
        while time.monotonic() < deadline:
            _, seconds = self._ask(self.get)
            self.live.append(seconds)
            status, seconds = self._ask(self.post)
            if status == 429:
                self.refusals.append(seconds)
            else:
                self.num_accepted += 1
            time.sleep(PROBE_SECONDS)
        self.socket.close()

    def _connect(self):
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _ask(self, data):
        """Status and seconds until the first byte."""
        self.socket.sendall(data)
        began = time.perf_counter()
        received = self.socket.recv(1 << 16)
        seconds = time.perf_counter() - began
        while b"\r\n\r\n" not in received:
            received += self.socket.recv(1 << 16)
        head, _, body = received.partition(b"\r\n\r\n")
        answer = client.parse_head(head)
        while len(body) < int(answer.headers["content-length"]):
            body += self.socket.recv(1 << 16)
        if answer.headers.get("connection") == "close":
            self.socket.close()
            self._connect()
        return answer.status, seconds
