# SPDX-License-Identifier: Apache-2.0
"""The device's process killed or stopped in the midst of streams, and the whole server stopped for a while: streams go
on and say what they would have said."""
import asyncio
import contextlib
import os
import random
import signal
import time

import client
from machine import Watch
from results import listed
from target import Target

OPTIONS = [
    "--device", "cpu", "--worker-placement", "child", "--threads", "1", "--memory", "128MiB", "--max-restarts", "100"
]
NUM_STREAMS = 3
NUM_TOKENS = 600
MOST_GAP_KILLED = 2  # seconds
MOST_GAP_STOPPED = 11  # 10 s and a step
STOPPED_SECONDS = 12


def run(settings, report):
    with Target(settings.troupe, OPTIONS, log_level="off") as server:
        asyncio.run(attack(settings, report, server))


async def attack(settings, report, server):
    expected = [text for text, _, _ in await streams(server.port)]
    report.check("undisturbed streams are complete", len(set(expected)), all(expected))
    kills, rng = settings.size(10, 3), random.Random(settings.seed)
    await disturbed(report, server, expected, f"worker killed {kills} times", MOST_GAP_KILLED,
                    [kill_worker(server, rng.uniform(0.05, 0.4)) for _ in range(kills)])
    await disturbed(report, server, expected, "worker stopped", MOST_GAP_STOPPED, [stop_worker(server)])
    seconds = settings.size(STOPPED_SECONDS, 2)
    await disturbed(report, server, expected, f"server stopped for {seconds} s", seconds + 2,
                    [stop_server(server, seconds)])


async def disturbed(report, server, expected, what, most_gap, disturbances):
    """Each disturbance ends when it has had its effect; streams are begun anew for each, and again until then."""
    found, notes = [], []
    with Watch(server.pid) as watch:
        for disturbance in map(asyncio.ensure_future, disturbances):
            while not disturbance.done():
                found.append(await streams(server.port))
            notes.append(await disturbance)
    wrong = [
        f"stream {i}: {len(text)} of {len(expected[i])} characters, complete: {is_complete}" for round_ in found
        for i, (text, is_complete, _) in enumerate(round_) if not is_complete or text != expected[i]
    ]
    total = len(found) * NUM_STREAMS
    report.check(f"{what}: of {total} streams, not complete or not the same", listed(wrong), not wrong, "0")
    gap = max(gap for round_ in found for _, _, gap in round_)
    report.time(f"{what}: longest gap", f"{gap:.2f} s", gap < most_gap, f"< {most_gap} s", watch, is_far_off=gap
                > 4 * most_gap)
    for note in filter(None, notes):
        report.note(f"{what}: /health meanwhile", note)


async def streams(port):
    """Sampled with seeds: text, completeness and longest gap of each."""
    return await asyncio.gather(*(stream(port, seed) for seed in range(1, NUM_STREAMS + 1)))


async def stream(port, seed):
    connection = await client.Connection.open(port)
    body = client.chat("Tell me a story.", NUM_TOKENS, stream=True, seed=seed, temperature=1, ignore_eos=True)
    await connection.send(client.request_bytes("POST", "/v1/chat/completions", body))
    began = time.perf_counter()
    events = [event async for event in connection.events(await connection.head())]
    connection.close()
    times = [began, *(now for now, _ in events)]
    payloads = [text for _, text in events]
    return client.text_of(payloads), client.is_complete(payloads), max(b - a for a, b in zip(times, times[1:]))


async def worker_of(server, other_than=0):
    while True:
        for child in server.children():
            if child != other_than:
                return child
        await asyncio.sleep(0.01)


async def kill_worker(server, seconds):
    """After so many seconds; done when there is another."""
    worker = await worker_of(server)
    await asyncio.sleep(seconds)
    os.kill(worker, signal.SIGKILL)
    await worker_of(server, worker)


async def stop_worker(server):
    worker = await worker_of(server)
    await asyncio.sleep(0.2)
    os.kill(worker, signal.SIGSTOP)
    began = time.monotonic()
    statuses = {}
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < began + 90:
            os.kill(worker, 0)
            status = (await client.ask(server.port, "GET", "/health")).status
            statuses[status] = statuses.get(status, 0) + 1
            await asyncio.sleep(0.25)
    total = sum(statuses.values())
    return ", ".join(f"{status} in {count / total:.0%} of {time.monotonic() - began:.0f} s"
                     for status, count in statuses.items())


async def stop_server(server, seconds):
    await asyncio.sleep(0.2)
    os.kill(server.pid, signal.SIGSTOP)
    await asyncio.sleep(seconds)
    os.kill(server.pid, signal.SIGCONT)
