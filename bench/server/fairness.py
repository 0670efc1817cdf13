#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two tenants, one of which floods the server: what it costs the other one.

The greedy one has --clients clients, each of which asks again as soon as it is answered, or --greedy-pause seconds
after a refusal; the modest one asks once each --interval seconds. Printed are the modest one's refusals and times to
first token beside the flood and under an even load, in which the other one asks as rarely, and their ratio. The noop
device makes every batch take the same time, so what is measured is the order in which requests are served.

Each tenant has a key; with --by-address there are none, and each has an address (127.0.0.1 and 127.0.0.2).
"""
import argparse
import asyncio
import json
import multiprocessing
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import ROOT, Server  # noqa: E402

GREEDY, MODEST = ("greedy", "127.0.0.1"), ("modest", "127.0.0.2")
SECONDS_BEFORE = 3  # until the other tenant has all that it can get


class Client:
    """One connection of a tenant, kept open over its requests."""

    def __init__(self, port, tenant, has_key):
        self.port, self.address = port, tenant[1]
        self.authorization = f"Authorization: Bearer key-{tenant[0]}\r\n" if has_key else ""
        self.writer = None

    async def ask(self, body):
        """Status, and seconds to the first token, of a streamed completion."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port,
                                                                     local_addr=(self.address, 0))
        data = json.dumps(body).encode()
        begin = time.monotonic()
        self.writer.write((f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n{self.authorization}"
                           f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n").encode() + data)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        status = int(head.split(" ", 2)[1])
        if "transfer-encoding: chunked" not in head:
            length = int(head.split("content-length:", 1)[1].split("\r\n", 1)[0])
            await self.reader.readexactly(length)
            return status, None
        first = None
        while True:
            size = int(await self.reader.readline(), 16)
            chunk = await self.reader.readexactly(size + 2)
            if first is None and b'"text"' in chunk:
                first = time.monotonic() - begin
            if size == 0:
                return status, first

    def close(self):
        if self.writer is not None:
            self.writer.close()


def body_of(prompt_tokens, answer_tokens, number):
    prompt = [1 + (number * 7919 + i * 31) % 250 for i in range(prompt_tokens)]
    return {"prompt": prompt, "max_tokens": answer_tokens, "ignore_eos": True, "stream": True}


async def flood(port, options, counts):
    """For ever; counts: answered, refused."""

    async def ask_for_ever(number):
        client = Client(port, GREEDY, not options.by_address)
        while True:
            try:
                number += options.clients
                status, _ = await client.ask(body_of(options.greedy_prompt, options.greedy_answer, number))
            except (OSError, asyncio.IncompleteReadError):
                client.writer = None
                status = None
            with counts.get_lock():
                counts[0 if status == 200 else 1] += 1
            if status != 200:
                await asyncio.sleep(options.greedy_pause)

    await asyncio.gather(*(ask_for_ever(number) for number in range(options.clients)))


async def ask_now_and_then(port, tenant, options, seconds):
    """Statuses and times of requests at a fixed rate, however long each takes."""
    results = []

    async def ask(number):
        client = Client(port, tenant, not options.by_address)
        results.append(await client.ask(body_of(options.modest_prompt, options.modest_answer, number)))
        client.close()

    tasks = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        tasks.append(asyncio.create_task(ask(1_000_000 + len(tasks))))
        await asyncio.sleep(options.interval)
    await asyncio.gather(*tasks)
    return results


def run_flood(port, options, counts):
    asyncio.run(flood(port, options, counts))


def run_even(port, options, _counts):
    asyncio.run(ask_now_and_then(port, GREEDY, options, options.seconds + SECONDS_BEFORE + 1))


def quantile(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def measure(options, name, others_do):
    """The modest tenant's number of refusals, and its times."""
    with tempfile.TemporaryDirectory() as directory:
        keys = pathlib.Path(directory) / "keys"
        keys.write_text("".join(f"{tenant} key-{tenant}\n" for tenant, _ in (GREEDY, MODEST)))
        keys.chmod(0o600)
        flags = ["--device", "noop", "--noop-iteration-us", options.iteration_us, "--max-waiting", options.max_waiting]
        flags += options.server_flags.split()
        if not options.by_address:
            flags += ["--api-keys-file", keys]
        with Server(options.troupe, flags) as server:
            counts = multiprocessing.Array("q", 2)
            others = multiprocessing.Process(target=others_do, args=(server.port, options, counts))
            others.start()
            time.sleep(SECONDS_BEFORE)
            results = asyncio.run(ask_now_and_then(server.port, MODEST, options, options.seconds))
            others.terminate()
            others.join()
    times = [first for _, first in results if first is not None]
    refused = sum(status != 200 for status, _ in results)
    if not times:
        raise SystemExit(f"{name}: {refused} of {len(results)} requests refused, none answered")
    print(f"{name:>5}: {refused} of {len(results)} refused; time to first token "
          f"p50 {1e3 * quantile(times, 0.5):.0f} ms, p99 {1e3 * quantile(times, 0.99):.0f} ms", end="")
    print(f"; the other tenant: {counts[0]} answered, {counts[1]} refused" if counts[0] else "", flush=True)
    return refused, times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", default=ROOT / "build/release/app/troupe")
    parser.add_argument("--by-address", action="store_true")
    parser.add_argument("--clients", type=int, default=260)
    parser.add_argument("--interval", type=float, default=0.25)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--iteration-us", type=int, default=20_000)
    parser.add_argument("--max-waiting", type=int, default=128)
    parser.add_argument("--greedy-prompt", type=int, default=20, help="tokens")
    parser.add_argument("--greedy-answer", type=int, default=100, help="tokens")
    parser.add_argument("--greedy-pause", type=float, default=0.5, help="seconds")
    parser.add_argument("--modest-prompt", type=int, default=20, help="tokens")
    parser.add_argument("--modest-answer", type=int, default=50, help="tokens")
    parser.add_argument("--server-flags", default="", help="more flags of the server, in one word")
    options = parser.parse_args()
    _, even = measure(options, "even", run_even)
    refused, flooded = measure(options, "flood", run_flood)
    for share in (0.5, 0.99):
        ratio = quantile(flooded, share) / quantile(even, share)
        print(f"p{100 * share:.0f} beside the flood to p{100 * share:.0f} under an even load: {ratio:.2f}")
    raise SystemExit(1 if refused else 0)


if __name__ == "__main__":
    main()
