# SPDX-License-Identifier: Apache-2.0
"""Part streams: idle connections beside streams, and one slow reader beside others, at 33 ms a token."""
import asyncio

import client
from machine import Watch
from results import in_ms, percentile
from target import NOOP, Target

ITERATION_MS = 33
OPTIONS = [
    *NOOP, "--noop-iteration-us",
    str(ITERATION_MS * 1000), "--max-batch-sequences", "600", "--max-waiting", "1000", "--memory", "256MiB"
]
MOST_BYTES_IDLE = 16 << 10
MOST_OVERHEAD_MS = 20  # of the 99th percentile of gaps
MOST_SLOWER = 1.05  # others' 99th percentile beside a slow reader
NUM_NEIGHBOURS = 63


def run(settings, report):
    with Target(settings.troupe, OPTIONS) as server:
        asyncio.run(idle_and_active(settings, report, server))
    with Target(settings.troupe, OPTIONS) as server:
        asyncio.run(slow_reader(settings, report, server))


async def idle_and_active(settings, report, server):
    num_idle, num_active, num_tokens = settings.size((2000, 500, 300), (200, 50, 60))
    before, memory = await asyncio.to_thread(server.footing), server.memory()
    idle = [await client.Connection.open(server.port) for _ in range(num_idle)]
    for connection in idle:
        await connection.request("GET", "/live")
    each = (server.memory() - memory) / num_idle
    report.check(f"resident memory of an idle connection ({num_idle:,})", f"{each:,.0f} bytes", each <= MOST_BYTES_IDLE,
                 f"<= {MOST_BYTES_IDLE:,}")
    with Watch(server.pid) as watch:
        cpu = server.metrics()["process_cpu_seconds_total"]
        found = await asyncio.gather(*(stream(server.port, i, num_tokens) for i in range(num_active)))
        cpu = server.metrics()["process_cpu_seconds_total"] - cpu
    num_complete = sum(is_complete for is_complete, _ in found)
    report.check(f"streams of {num_tokens} tokens that are complete", f"{num_complete} of {num_active}",
                 num_complete == num_active, "all")
    gaps = [gap for _, times in found for gap in gaps_of(times)]
    limit = ITERATION_MS + MOST_OVERHEAD_MS
    report.time("gaps between tokens", in_ms(gaps), 1000 * percentile(gaps, 0.99) < limit, f"p99 < {limit} ms", watch)
    report.note("processor time of the server", f"{cpu:.1f} s for {num_active * num_tokens:,} tokens")
    probes = [(await connection.request("GET", "/live")).status for connection in idle[::max(1, num_idle // 100)]]
    report.check("idle connections answer afterwards", f"{probes.count(200)} of {len(probes)}",
                 probes.count(200) == len(probes), "all")
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
