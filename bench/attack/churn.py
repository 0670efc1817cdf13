# SPDX-License-Identifier: Apache-2.0
"""Part churn: requests of every kind, 30 % of them given up at a random moment; nothing stays behind."""
import asyncio
import itertools
import random
import time

import client
import json_bodies
from machine import Watch
from results import in_ms
from target import NOOP, Target

OPTIONS = [
    *NOOP, "--noop-iteration-us", "500", "--max-batch-sequences", "64", "--max-waiting", "256", "--memory", "64MiB",
    "--cache-host-memory", "0"
]
CLIENTS = 64
SHARE_CANCELLED = 0.3
MOST_TOKENS = 24
NUM_PROMPTS = 48  # few, so that the prefix cache stops growing
NUM_READINGS = 40
MOST_SLOPE = 1 << 20  # bytes of resident memory per 100,000 requests


def run(settings, report):
    with Target(settings.troupe, OPTIONS) as server:
        asyncio.run(attack(settings, report, server))
        report.check("the server is alive", server.is_alive, server.is_alive)


class Tally:

    def __init__(self):
        self.complete = self.cancelled = self.refused = 0
        self.problems = []
        self.times = []
        self.memory = []  # pairs: requests so far, resident bytes

    @property
    def num_done(self):
        return self.complete + self.cancelled + self.refused + len(self.problems)


async def attack(settings, report, server):
    number = settings.requests or settings.size(360_000, 3000)
    rng, tally = random.Random(settings.seed), Tally()
    await churn(server, 1000, rng, Tally())  # pools, stacks and caches as large as they become
    before = await asyncio.to_thread(server.footing)
    with Watch(server.pid) as watch:
        await churn(server, number, rng, tally)
    after = await asyncio.to_thread(server.settles_at, before)
    report.note("requests",
                f"{number:,}: {tally.complete:,} complete, {tally.cancelled:,} cancelled, {tally.refused:,} refused")
    report.check("answers cut short or malformed", f"{len(tally.problems)} {tally.problems[:3]}", not tally.problems,
                 "0")
    report.check("descriptors, threads and gauges afterwards", after, after == before, f"{before}")
    check_pages(report, server.metrics())
    report.time("time of a complete answer", in_ms(tally.times), max(tally.times) < 30, "max < 30 s", watch)
    check_memory(report, number, tally.memory)


async def churn(server, number, rng, tally):
    """Closed loop: each client sends its next request when its last one is over, over a connection that is kept."""
    numbers = iter(range(number))
    every = max(1, number // NUM_READINGS)

    async def visit():
        connection = None
        for i in numbers:
            if i % every == 0:
                tally.memory.append((i, server.memory()))
            if connection is None:
                connection = await client.Connection.open(server.port)
            try:
                is_open = await one_request(connection, rng, tally)
            except (client.BadAnswer, ValueError, OSError) as error:
                tally.problems.append(repr(error)[:200])
                is_open = False
            if not is_open:
                connection.close()
                connection = None
        if connection:
            connection.close()

    await asyncio.gather(*(visit() for _ in range(CLIENTS)))


async def one_request(connection, rng, tally):
    """Whether the connection can be used again."""
    path = rng.choice(json_bodies.GENERATING)
    prompt = f"Count from {rng.randrange(NUM_PROMPTS)} to 100."
    length = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    body = {length: rng.randint(1, MOST_TOKENS), "stream": rng.random() < 0.6, "ignore_eos": True}
    match path:
        case "/v1/chat/completions":
            body["messages"] = [{"role": "user", "content": prompt}]
        case "/v1/completions":
            body["prompt"] = prompt
        case "/v1/responses":
            body["input"] = prompt
    data = client.request_bytes("POST", path, body)
    if rng.random() < SHARE_CANCELLED:
        await give_up(connection, data, rng)
        tally.cancelled += 1
        return False
    began = time.perf_counter()
    await connection.send(data)
    answer = await connection.head()
    if answer.status == 200 and body["stream"]:
        payloads = [text async for _, text in connection.events(answer)]
        if not client.is_complete(payloads):
            raise client.BadAnswer(f"stream ended with {payloads[-1:]}")
    else:
        answer.body = b"".join([piece async for piece in connection.pieces(answer)])
        answer.json()
    if answer.status == 429:
        tally.refused += 1
    elif answer.status == 200:
        tally.complete += 1
        tally.times.append(time.perf_counter() - began)
    else:
        raise client.BadAnswer(f"{answer.status} {answer.body[:100]}")
    return answer.headers.get("connection") != "close"


async def give_up(connection, data, rng):
    """Leaves in mid-request, before the answer, or within it; with FIN or RST."""
    whole = len(data) if rng.random() < 0.8 else rng.randrange(len(data))
    await connection.send(data[:whole])
    moment = rng.random()
    if moment < 0.7:
        await asyncio.sleep(rng.random() * 0.03)
    if moment > 0.5:
        await connection.read_for(rng.random() * 0.05, rng.randint(1, 2000))
    if rng.random() < 0.5:
        connection.reset()


def check_pages(report, samples):
    """Every page is accounted for."""
    pages = {
        state: samples[f'troupe_kv_pages{{state="{state}",tier="device"}}']
        for state in ("running", "cached", "free")
    }
    capacity = samples['troupe_kv_pages_capacity{tier="device"}']
    text = ", ".join(f"{count:g} {state}" for state, count in pages.items())
    report.check("KV pages", f"{text} of {capacity:g}", pages["running"] == 0 and sum(pages.values()) == capacity,
                 "all, none running")


def check_memory(report, number, readings):
    """The slope of the second half, by the median of all pairs: one jump is none."""
    later = readings[len(readings) // 2:]
    slopes = sorted((b - a) / (j - i) for (i, a), (j, b) in itertools.combinations(later, 2) if j > i)
    slope = slopes[len(slopes) // 2] * 100_000
    first, last = readings[0][1] >> 20, readings[-1][1] >> 20
    text = f"{slope / (1 << 20):+.2f} MB per 100,000 requests, from {first} to {last} MB"
    if number < 100_000:
        report.note("resident memory (too few requests to judge)", text)
    else:
        report.check("resident memory", text, slope < MOST_SLOPE, f"< {MOST_SLOPE >> 20} MB per 100,000")
