# SPDX-License-Identifier: Apache-2.0
"""Part prompts: prompts of a megabyte and of sixteen, made to be dear, beside a neighbour's of 5 KB. The neighbour does
not wait for them, /health stays 200, and each is answered."""
import asyncio
import contextlib
import json
import random
import tempfile
import time

import client
from machine import Watch
from results import in_ms, percentile
from target import NOOP, Target

MB = 1_000_000  # of JSON; a little below 2^20, for the rest of the body needs room, too
NEIGHBOUR = "The quick brown fox. " * 240  # 5 KB
NEIGHBOUR_SECONDS = 0.1
MOST_OPEN = 100  # of its prompts at once
LONGEST_WAIT_SECONDS = 600
MOST_WAIT_SECONDS = 0.5  # of the neighbour, 99th percentile; the median is a few milliseconds
MOST_ANSWER_SECONDS = 10  # of a megabyte, until its refusal
OPTIONS = [*NOOP, "--max-body-bytes", "16MiB"]


def size_in_json(text):
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def counted(form):
    """As many of them as fit: form % 0, form % 1, …"""
    return lambda size: "".join(form % i for i in range(size // len(form % 50_000)))


def repeated(unit):
    return lambda size: unit * (size // size_in_json(unit))


def drawn(alphabet, seed):
    return lambda size: "".join(random.Random(seed).choices(alphabet, k=size * len(alphabet) // size_in_json(alphabet)))


PROMPTS = {  # name: from a size in bytes to a text
    "Marker%dEnd, continued": counted("Marker%dEnd"),
    "Marker%d, continued": counted("Marker%d "),
    "one letter": repeated("a"),
    "blanks": repeated(" "),
    "line breaks": repeated("\n"),
    "digits": repeated("1234567890"),
    "an apostrophe and s": repeated("'s"),
    "special tokens": repeated("<|end|>"),
    "beginnings of special tokens": repeated("<|en"),
    "brackets": repeated("<|"),
    "punctuation": drawn("!?.,;:-'\"()[]{}", 1),
    "random letters": drawn("abcdefghijklmnopqrstuvwxyz", 2),
    "words of all lengths": drawn("ab c d e\tf\n", 3),
    "emoji in families": repeated("👨‍👩‍👧‍👦"),
    "combining marks": repeated("e\u0301\u0302\u0303"),
    "Chinese": drawn("的一是不了人我在有他", 4),
    "right to left": repeated("\u202eשלום"),
    "NUL": repeated("\x00"),
    "template text": repeated("{{ messages }}{% for %}"),
    "decomposed Hangul": repeated("\u1112\u1161\u11ab"),
}
IN_QUICK = ("Marker%dEnd, continued", "one letter", "special tokens", "random letters")


def run(settings, report):
    names = settings.size(list(PROMPTS), IN_QUICK)
    with tempfile.TemporaryDirectory(prefix="attack-") as store:
        with Target(settings.troupe, [*OPTIONS, "--store-directory", store]) as server:
            asyncio.run(attack(report, server, names, MB, settings.size(3, 1)))
            if not settings.is_quick:
                asyncio.run(attack(report, server, names, 16 * MB, 1))
            report.check("the server is alive", server.is_alive, server.is_alive)


async def attack(report, server, names, size, times):
    previous = (await client.ask(server.port, "POST", "/v1/responses",
                                 {"input": "Hi.", "max_output_tokens": 2})).json()["id"]
    what = f"{size // MB} MB"
    with Watch(server.pid) as watch:
        neighbour = Neighbour(server.port)
        alone, _ = await neighbour.beside(asyncio.sleep(2))
    report.note(f"{what}: the neighbour alone waits", in_ms(alone))
    limit = MOST_ANSWER_SECONDS * size / MB
    for name in names:
        text = PROMPTS[name](size)
        with Watch(server.pid) as watch:
            waits, answers = await neighbour.beside(ask(server.port, name, text, previous, times, limit))
        label = f"{what} of {name}"
        p99 = percentile(waits, 0.99)
        report.time(f"{label}: the neighbour waits", in_ms(waits), p99 < MOST_WAIT_SECONDS,
                    f"p99 < {MOST_WAIT_SECONDS} s", watch, is_far_off=p99 > 10 * MOST_WAIT_SECONDS)
        report.check(f"{label}: /health", neighbour.health(), neighbour.is_healthy, "200 throughout")
        statuses = [status for status, _ in answers]
        report.check(f"{label}: answers", statuses, set(statuses) <= {200, 400}, "200 or 400")
        slowest = max(seconds for _, seconds in answers)
        report.time(f"{label}: time of an answer", f"{slowest:.1f} s", slowest < limit, f"< {limit:.0f} s", watch)


async def ask(port, name, text, previous, times, limit):
    """Statuses and times. What is continued goes where markers are looked for."""
    answers = []
    body = {"input": text, "max_output_tokens": 1, "store": False}
    if "continued" in name:
        body["previous_response_id"] = previous
    for _ in range(times):
        began = time.monotonic()
        try:
            status = (await client.ask(port, "POST", "/v1/responses", body, limit=3 * limit)).status
        except (asyncio.TimeoutError, client.BadAnswer, OSError) as error:
            status = repr(error)[:60]
        answers.append((status, time.monotonic() - began))
    return answers


class Neighbour:
    """Sends a prompt of 5 KB each NEIGHBOUR_SECONDS, and asks /health in between."""

    def __init__(self, port):
        self.port = port
        self.statuses = []

    async def beside(self, attack):
        """How long each prompt took, in seconds, and what came of the attack."""
        attack, self.statuses, prompts = asyncio.ensure_future(attack), [], []
        while not attack.done() or not prompts:
            if sum(not prompt.done() for prompt in prompts) < MOST_OPEN:
                body = client.chat(f"{len(prompts)} {NEIGHBOUR}", 1)
                prompts.append(asyncio.ensure_future(self._time(body)))
            await asyncio.gather(self._health(), asyncio.sleep(NEIGHBOUR_SECONDS))
        return await asyncio.gather(*prompts), await attack

    async def _time(self, body):
        began = time.perf_counter()
        with contextlib.suppress(asyncio.TimeoutError):
            answer = await client.ask(self.port, "POST", "/v1/chat/completions", body, limit=LONGEST_WAIT_SECONDS)
            if answer.status != 200:
                raise client.BadAnswer(f"{answer.status} {answer.body[:200]}")
        return time.perf_counter() - began

    async def _health(self):
        self.statuses.append((await client.ask(self.port, "GET", "/health")).status)

    @property
    def is_healthy(self):
        return set(self.statuses) <= {200}

    def health(self):
        return ", ".join(f"{self.statuses.count(status)} x {status}" for status in sorted(set(self.statuses)))
