# SPDX-License-Identifier: Apache-2.0
"""Part json: wrong request bodies on every endpoint; never a 5xx, never a malformed answer, bounded memory."""
import asyncio
import json
import random
import socket
import tempfile
import time

import client
import json_bodies
from machine import Watch
from results import in_ms, listed
from target import NOOP, Target

AT_ONCE = 32
MOST_GROWTH = 256 << 20  # bytes of resident memory, at the peak
MOST_SECONDS = 2  # for the slowest answer
# Members of which an answer has one; Ollama's have the last four.
WHOLE = ("object", "type", "count", "prompt", "message", "response", "embeddings", "details")


def run(settings, report):
    with tempfile.TemporaryDirectory(prefix="attack-") as store:
        ollama_port = free_port()
        options = [*NOOP, "--store-directory", store, "--model-name", "demo", "--ollama-port", ollama_port]
        with Target(settings.troupe, options) as server:
            server.ollama_port = ollama_port
            asyncio.run(attack(settings, report, server))
            report.check("the server is alive", server.is_alive, server.is_alive)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def attack(settings, report, server):
    rng = random.Random(settings.seed)
    ids = [(await client.ask(server.port, "POST", path, body)).json()["id"] for path, body in json_bodies.VALID.items()
           for _ in range(4) if path == "/v1/responses"]
    before, memory = await asyncio.to_thread(server.footing), server.memory()
    number = settings.bodies or settings.size(6000, 1000)
    inputs = [("POST", *json_bodies.generated(rng)) for _ in range(number)]
    await check(report, server, f"{number:,} generated bodies", inputs)
    inputs = [("POST", *pair) for pair in json_bodies.special()]
    await check(report, server, f"{len(inputs)} special bodies", inputs)
    inputs = [(*pair, None) for pair in json_bodies.stored_paths(ids, rng, settings.size(600, 200))]
    await check(report, server, f"{len(inputs)} requests for stored responses", inputs)
    after = await asyncio.to_thread(server.settles_at, before)
    report.check("descriptors, threads and gauges afterwards", after, after == before, f"{before}")
    growth = server.memory("VmHWM") - memory
    report.check("resident memory at its peak", f"+{growth >> 20} MB over {memory >> 20} MB", growth <= MOST_GROWTH,
                 f"+{MOST_GROWTH >> 20} MB")


async def check(report, server, what, inputs):
    with Watch(server.pid) as watch:
        found = await client.gather(AT_ONCE, [problem_of(server, *one) for one in inputs])
    problems = [
        f"{method} {path} {(body or b'')[:70]!r}: {problem}"
        for (method, path, body), (problem, _, _) in zip(inputs, found) if problem
    ]
    statuses = [status for _, status, _ in found]
    counts = ", ".join(f"{statuses.count(status)} x {status}" for status in sorted(set(statuses)))
    report.check(f"{what}: 5xx, hangs and malformed answers", f"{listed(problems)} ({counts})", not problems, "0")
    times = [seconds for _, _, seconds in found]
    report.time(f"{what}: time of an answer", in_ms(times), max(times) < MOST_SECONDS, f"max < {MOST_SECONDS} s", watch)


async def problem_of(server, method, path, body):
    """What is wrong with the answer, its status, and its time in seconds."""
    port = server.ollama_port if path.startswith("/api/") else server.port
    began = time.perf_counter()
    try:
        answer = await client.ask(port, method, path, body)
        problem = fault_of(answer, method)
        return problem, answer.status, time.perf_counter() - began
    except (asyncio.TimeoutError, client.BadAnswer, ValueError, OSError) as error:
        return repr(error)[:200], 0, time.perf_counter() - began


def fault_of(answer, method):
    if answer.status >= 500:
        return f"{answer.status} {answer.body[:120]}"
    if method == "HEAD" or answer.status == 204:
        return ""
    if answer.headers["content-type"].startswith("text/event-stream"):
        return fault_of_stream(answer.body.decode())
    if answer.headers["content-type"] == "application/x-ndjson":
        last = [json.loads(line) for line in answer.body.splitlines()][-1]
        return "" if last.get("done") or last.get("error") else f"not ended: {last}"
    content = answer.json()
    if answer.status >= 400:
        error = content["error"]
        return "" if (error if isinstance(error, str) else error["message"]) else "no message"
    is_whole = any(content.get(name) is not None for name in WHOLE)
    return "" if is_whole else "no object"


def fault_of_stream(text):
    """Events that are JSON each, the last one an end."""
    payloads = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    for payload in payloads:
        if payload != "[DONE]":
            json.loads(payload)
    return "" if client.is_complete(payloads) else f"not ended: {payloads[-1:]}"
