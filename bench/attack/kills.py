# SPDX-License-Identifier: Apache-2.0
"""Part kills: the server killed at any moment of its answers, again and again, over one store; its worker killed and
stopped; SIGTERM in bad moments. Nothing acknowledged is lost, no stream differs from an undisturbed one."""
import asyncio
import json
import random
import tempfile
import time

import client
import orderly_end
import worker_kills
from machine import Watch
from results import in_ms, listed
from target import NOOP, Target

HOST = ["--device", "cpu", "--threads", "1", "--memory", "64MiB"]
CLIENTS = 6
LONGEST_LIFE = 0.25  # seconds from readiness to the kill, drawn
MOST_START_SECONDS = 5
LONGEST_CONVERSATION = 12  # turns, then a new one
SAMPLE = 40  # earlier turns read again in each life


def run(settings, report):
    with tempfile.TemporaryDirectory(prefix="attack-") as store:
        kill_server(settings, report, store)
    worker_kills.run(settings, report)
    orderly_end.run(settings, report)


class Turns:
    """What was acknowledged: the answer as it came, and as it was first read again."""

    def __init__(self):
        self.acknowledged = {}  # id: the answer without timings
        self.stored = {}  # id: bytes of the first GET
        self.problems = []
        self.num_cut_off = 0

    async def read_again(self, port, ids):
        answers = await client.gather(CLIENTS, [client.ask(port, "GET", f"/v1/responses/{name}") for name in ids])
        for name, answer in zip(ids, answers):
            if answer.status != 200:
                self.problems.append(f"{name}: {answer.status} {answer.body[:100]}")
            elif answer.body != self.stored.setdefault(name, answer.body):
                self.problems.append(f"{name}: differs from the first reading")
            elif without_timings(answer.json()) != self.acknowledged[name]:
                self.problems.append(f"{name}: differs from what was answered")


def without_timings(response):
    return {name: value for name, value in response.items() if name != "timings"}


def kill_server(settings, report, store):
    number = settings.kills or settings.size(1000, 10)
    rng, turns, starts = random.Random(settings.seed), Turns(), []
    with Watch() as watch:
        for life in range(number):
            # No device and the real one by turns, over the same store.
            options = [*(NOOP if life % 2 else HOST), "--store-directory", store, "--model-name", "demo"]
            server = Target(settings.troupe, options)
            began = time.monotonic()
            with server:
                starts.append(time.monotonic() - began)
                asyncio.run(one_life(server, rng, turns))
    options = [*HOST, "--store-directory", store, "--model-name", "demo"]
    with Target(settings.troupe, options) as server:
        asyncio.run(turns.read_again(server.port, list(turns.acknowledged)))
    total = len(turns.acknowledged)
    report.note("kill -9 of the server",
                f"{number:,} times; {total:,} turns acknowledged, {turns.num_cut_off:,} cut off")
    report.check("acknowledged turns that are lost or differ", listed(turns.problems), not turns.problems and total > 0,
                 "0")
    report.time("starting again over the same store", in_ms(starts),
                max(starts) < MOST_START_SECONDS, f"< {MOST_START_SECONDS} s", watch)


async def one_life(server, rng, turns):
    """Reads some of what was acknowledged, then talks until the kill."""
    known = list(turns.acknowledged)
    fresh = [name for name in known if name not in turns.stored]
    await turns.read_again(server.port, fresh + rng.sample(known, min(SAMPLE, len(known))))
    talkers = [asyncio.ensure_future(talk(server.port, rng, turns)) for _ in range(CLIENTS)]
    await asyncio.sleep(rng.random() * LONGEST_LIFE)
    server.kill()
    for result in await asyncio.gather(*talkers, return_exceptions=True):
        if not isinstance(result, (OSError, client.BadAnswer)):
            turns.problems.append(f"a client ended with {result!r}")
        turns.num_cut_off += 1


async def talk(port, rng, turns):
    """Until the server is gone: conversations, some streamed. An answer counts when its last byte has come."""
    connection = await client.Connection.open(port)
    previous, length = None, 0
    while True:
        body = {
            "input": f"Count from {rng.randrange(100)} to 200.", "max_output_tokens": rng.randint(1, 12),
            "temperature": 0, "stream": rng.random() < 0.5
        }
        if previous and length < LONGEST_CONVERSATION:
            body["previous_response_id"], length = previous, length + 1
        else:
            length = 0
        await connection.send(client.request_bytes("POST", "/v1/responses", body))
        answer = await connection.head()
        if body["stream"]:
            payloads = [text async for _, text in connection.events(answer)]
            response = json.loads(payloads[-1])["response"]
        else:
            response = json.loads(b"".join([piece async for piece in connection.pieces(answer)]))
        if answer.status != 200 or not response["store"]:
            raise ValueError(f"{answer.status} {response}")
        previous = response["id"]
        turns.acknowledged[previous] = without_timings(response)
