# SPDX-License-Identifier: Apache-2.0
"""Part streams: idle connections beside streams on two cores, and one slow reader beside others, at 33 ms a token."""
import asyncio
import contextlib
import os
import time

import client
import stream_readers
from machine import Watch
from results import in_ms, listed, percentile
from target import NOOP, Target

ITERATION_MS = 33
OPTIONS = [
    *NOOP, "--noop-iteration-us",
    str(ITERATION_MS * 1000), "--max-batch-sequences", "2048", "--max-waiting", "2048", "--max-batch-tokens", "4096",
    "--itl-factor", "0", "--memory", "1GiB"
]  # prompts as many as fit: by turns, 2,000 of them would begin within half a minute
NUM_CORES = 2  # of the server, with idle connections
MOST_BYTES_IDLE = 16 << 10
IDLE_SECONDS = 60  # then the server closes a connection
MOST_OVERHEAD_MS = 20  # of the 99th percentile of gaps
MOST_SLOWER = 1.05  # others' 99th percentile beside a slow reader
NUM_NEIGHBOURS = 63


def run(settings, report):
    with on_cores(NUM_CORES):
        server = Target(settings.troupe, OPTIONS).__enter__()
    try:
        asyncio.run(idle_and_active(settings, report, server))
    finally:
        server.__exit__()
    with Target(settings.troupe, OPTIONS) as server:
        asyncio.run(slow_reader(settings, report, server))


@contextlib.contextmanager
def on_cores(number):
    """What is started meanwhile has so many cores."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_cores)[:number])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


async def idle_and_active(settings, report, server):
    num_tokens = settings.size(300, 60)
    num_idle, num_active = settings.idle or settings.size(10_000, 200), settings.streams or settings.size(2000, 50)
    before, memory = await asyncio.to_thread(server.footing), server.memory()
    idle = [await client.Connection.open(server.port) for _ in range(num_idle)]
    began = time.monotonic()
    for connection in idle:
        await connection.request("GET", "/live")
    each = (server.memory() - memory) / num_idle
    report.check(f"resident memory of an idle connection ({num_idle:,})", f"{each:,.0f} bytes", each <= MOST_BYTES_IDLE,
                 f"<= {MOST_BYTES_IDLE:,}")
    with Watch(server.pid) as watch:
        cpu = server.metrics()["process_cpu_seconds_total"]
        found = await asyncio.to_thread(stream_readers.read_streams, server.port, num_active, num_tokens)
        cpu = server.metrics()["process_cpu_seconds_total"] - cpu
    problems = [problem for problem, _ in found if problem]
    report.check(f"of {num_active:,} streams of {num_tokens} tokens, those that are not complete", listed(problems),
                 not problems, "0")
    gaps = [gap for _, gaps in found for gap in gaps]
    limit = ITERATION_MS + MOST_OVERHEAD_MS
    report.time("gaps between tokens", in_ms(gaps), 1000 * percentile(gaps, 0.99) < limit, f"p99 < {limit} ms", watch)
    report.note("processor time of the server", f"{cpu:.1f} s for {num_active * num_tokens:,} tokens")
    if time.monotonic() - began < IDLE_SECONDS:
        asked = idle[::max(1, num_idle // 100)]
        found = await asyncio.gather(*(connection.request("GET", "/live") for connection in asked),
                                     return_exceptions=True)
        gone = [repr(answer) for answer in found if isinstance(answer, Exception) or answer.status != 200]
        report.check(f"of {len(asked)} idle connections, those that don't answer afterwards", listed(gone), not gone,
                     "0")
    else:
        report.skip("idle connections that don't answer afterwards", f"it took longer than {IDLE_SECONDS} s")
    for connection in idle:
        connection.close()
    after = await asyncio.to_thread(server.settles_at, before)
    report.check("descriptors, threads and gauges afterwards", after, after == before, f"{before}")


async def stream(port, number, num_tokens):
    """Whether it was complete, and when its tokens came."""
    connection = await client.Connection.open(port)
    body = client.chat(f"Count from {number} to 1000.", num_tokens, stream=True, ignore_eos=True)
    await connection.send(client.request_bytes("POST", "/v1/chat/completions", body))
    answer = await connection.head()
    events = [event async for event in connection.events(answer)]
    connection.close()
    return client.is_complete([text for _, text in events]), [now for now, text in events if '"content":"' in text]


def gaps_of(times):
    """Without those within one write: tokens that were made at once have no gap that anybody sees."""
    return [b - a for a, b in zip(times, times[1:]) if b > a]


async def slow_reader(settings, report, server):
    """In turn with and without, so that what else the machine does harms both."""
    rounds, num_tokens = settings.size((4, 500), (1, 40))  # 500 tokens outlast the buffers of the slow reader
    before = await asyncio.to_thread(server.footing)
    p99s = {False: [], True: []}
    num_complete = 0
    with Watch(server.pid) as watch:
        for _ in range(rounds):
            for has_slow in (False, True):
                slow = asyncio.ensure_future(read_slowly(server.port)) if has_slow else None
                found = await asyncio.gather(*(stream(server.port, i, num_tokens) for i in range(NUM_NEIGHBOURS)))
                if slow:
                    slow.cancel()
                    await asyncio.wait([slow])
                num_complete += sum(is_complete for is_complete, _ in found)
                p99s[has_slow].append(percentile([gap for _, times in found for gap in gaps_of(times)], 0.99))
    total = 2 * rounds * NUM_NEIGHBOURS
    report.check("streams beside a slow reader that are complete", f"{num_complete} of {total}", num_complete == total,
                 "all")
    without, beside = (percentile(p99s[has_slow], 0.5) for has_slow in (False, True))
    report.time("others' p99 gap without and with a reader of 1 byte/s",
                f"{1000 * without:.1f} and {1000 * beside:.1f} ms (medians of {rounds})", beside
                <= MOST_SLOWER * without, f"at most {MOST_SLOWER - 1:.0%} more", watch)
    after = await asyncio.to_thread(server.settles_at, before)
    report.check("descriptors, threads and gauges afterwards", after, after == before, f"{before}")


async def read_slowly(port):
    """Asks for far more than the buffers between take, and reads a byte a second."""
    connection = await client.Connection.open(port, receive_buffer=4096)
    try:
        body = client.chat("Count from 1 to 1000.", 1500, stream=True, ignore_eos=True, logprobs=True, top_logprobs=20)
        connection.raw.send(client.request_bytes("POST", "/v1/chat/completions", body))
        connection.writer.transport.pause_reading()
        while True:
            await asyncio.sleep(1)
            connection.raw.recv(1)
    except (BlockingIOError, ConnectionError):
        await asyncio.sleep(3600)  # the server has ended it
    finally:
        connection.reset()
