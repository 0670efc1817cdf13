# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: after a stop, with 200 streams open, and with a client that never reads. The end is orderly and bounded."""
import asyncio
import os
import signal
import time

import client
from machine import Watch
from target import NOOP, Target

DRAIN_SECONDS = 8
LATER_SECONDS = 10  # beyond the drain's: flushing, and what shutting down may take
NUM_SHORT = NUM_LONG = 100
REFUSED_SECONDS = 0.1


def run(settings, report):
    term_after_stop(settings, report)
    for name in ("TERM", "INT"):
        second_signal(settings, report, name)
    with Target(settings.troupe, [
            *NOOP, "--noop-iteration-us", "20000", "--max-batch-sequences", "256", "--memory", "256MiB",
            "--drain-seconds",
            str(DRAIN_SECONDS)
    ]) as server:
        asyncio.run(drain_with_streams(report, server))


def term_after_stop(settings, report):
    """As a paused container or a frozen machine is ended."""
    statuses = []
    for _ in range(settings.size(25, 4)):
        with Target(settings.troupe, NOOP) as server:
            os.kill(server.pid, signal.SIGSTOP)
            time.sleep(0.1)
            os.kill(server.pid, signal.SIGTERM)
            statuses.append(server.end(signal.SIGCONT))
    report.check("exit statuses after STOP, TERM, CONT", statuses, set(statuses) == {0}, "0")


def second_signal(settings, report, name):
    """A second one during the drain ends it at once, by intent."""
    with Target(settings.troupe, [*NOOP, "--noop-iteration-us", "50000"]) as server:
        asyncio.run(begin_stream(server.port))
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        status = server.end(getattr(signal, f"SIG{name}"), 10)
        report.check(f"exit status after TERM and {name} during the drain", status, status == 130, "130")


async def begin_stream(port):
    connection = await client.Connection.open(port)
    body = client.chat("Count from 1 to 1000.", 1500, stream=True, ignore_eos=True)
    await connection.send(client.request_bytes("POST", "/v1/chat/completions", body))
    await connection.reader.readuntil(b"data: ")
    return connection


async def drain_with_streams(report, server):
    short = [asyncio.ensure_future(stream(server.port, 60)) for _ in range(NUM_SHORT)]
    long = [asyncio.ensure_future(stream(server.port, 1500)) for _ in range(NUM_LONG)]
    deaf = await client.Connection.open(server.port, receive_buffer=4096)
    deaf.writer.transport.pause_reading()
    body = client.chat("Count from 1 to 1000.", 1500, stream=True, ignore_eos=True, logprobs=True)
    await deaf.send(client.request_bytes("POST", "/v1/chat/completions", body))
    late = await client.Connection.open(server.port)
    await late.send(b"POST /v1/chat/completions HTTP/1.1\r\n")  # one that is idle is closed at once
    while server.metrics()["troupe_num_requests_running"] < NUM_SHORT + NUM_LONG:
        await asyncio.sleep(0.05)
    began = time.monotonic()
    with Watch(server.pid) as watch:
        server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        await refused_during_drain(report, late, watch)
        limit = DRAIN_SECONDS + LATER_SECONDS
        status = await asyncio.to_thread(server.end, signal.SIGCONT, limit)
        took = time.monotonic() - began
    short, long = await asyncio.gather(*short), await asyncio.gather(*long)
    report.check("drain: short streams that end as they should", f"{short.count('complete')} of {NUM_SHORT}",
                 short.count("complete") == NUM_SHORT, "all")
    report.check("drain: long streams that are told by an error event", f"{long.count('error')} of {NUM_LONG}",
                 long.count("error") == NUM_LONG, "all")
    report.check("drain: exit status", status, status == 0, "0")
    report.time("drain: time to the end, beside a client that never reads", f"{took:.1f} s", took < limit,
                f"< {limit} s", watch)
    deaf.reset()


async def refused_during_drain(report, late, watch):
    """A request that was begun before the drain and is complete within it."""
    whole = client.request_bytes("POST", "/v1/chat/completions", client.chat("Hi.", 1))
    began = time.perf_counter()
    await late.send(whole.split(b"\r\n", 1)[1])
    answer = await late.answer()
    took = time.perf_counter() - began
    report.check("drain: a new request", f"{answer.status}, Retry-After {answer.headers.get('retry-after')}",
                 answer.status == 503 and "retry-after" in answer.headers, "503 with Retry-After")
    report.time("drain: time of that refusal", f"{1000 * took:.1f} ms", took < REFUSED_SECONDS,
                f"< {1000 * REFUSED_SECONDS:.0f} ms", watch)
    late.close()


async def stream(port, num_tokens):
    """How it ended: complete, error, or cut off."""
    connection = await client.Connection.open(port)
    body = client.chat("Count from 1 to 1000.", num_tokens, stream=True, ignore_eos=True)
    await connection.send(client.request_bytes("POST", "/v1/chat/completions", body))
    try:
        payloads = [text async for _, text in connection.events(await connection.head())]
    except (client.BadAnswer, OSError) as error:
        return repr(error)
    finally:
        connection.close()
    if client.is_complete(payloads):
        return "complete"
    return "error" if any(payload.startswith('{"error"') for payload in payloads) else "cut off"
