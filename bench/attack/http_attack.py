# SPDX-License-Identifier: Apache-2.0
"""Part http: malformed requests, whole and in pieces, mutated, and broken off: no crash, no hang, no wrong answer."""
import asyncio
import dataclasses
import itertools
import random

import client
import http_corpus
from http_corpus import corpus, get
from results import listed
from target import NOOP, Target

HANG_SECONDS = 8
AT_ONCE = 16
LARGE = 3000  # bytes; what is larger is cut at random places only
PAUSE = 0.001  # between two pieces, so that they are read one by one
SERVER_FAULTS = {500, 502, 503, 504}  # 501 and 505 say what the client asked for


@dataclasses.dataclass(frozen=True)
class Outcome:
    statuses: tuple
    problem: str = ""  # a hang, or bytes that are no answer

    def __str__(self):
        runs = [(status, len(list(group))) for status, group in itertools.groupby(self.statuses)]
        return self.problem or " ".join(f"{status}x{n}" if n > 1 else str(status) for status, n in runs) or "no answer"


def run(settings, report):
    with Target(settings.troupe, NOOP) as server:
        asyncio.run(attack(settings, report, server))
        report.check("the server is alive", server.is_alive, server.is_alive)


async def attack(settings, report, server):
    cases = corpus()
    report.check("cases in the corpus", len(cases), len(cases) >= 273, ">= 273")
    await outcome_of(server.port, [get()])
    before = await asyncio.to_thread(server.footing)
    num_series = len(server.metrics())
    whole = await check_statuses(report, server.port, cases)
    await check_cuts(settings, report, server.port, whole)
    await check_mutations(settings, report, server.port, cases)
    await check_breaking_off(settings, report, server.port)
    after = await asyncio.to_thread(server.settles_at, before)
    report.check("descriptors, threads and gauges afterwards", after, after == before, f"{before}")
    added = len(server.metrics()) - num_series
    report.check("metric series that the requests have added", added, added == 0, "0")


async def outcome_of(port, pieces, half_closes=True):
    """What is answered to pieces sent one after the other, then a half-close."""
    try:
        raw = await asyncio.wait_for(exchange(port, pieces, half_closes), HANG_SECONDS)
    except asyncio.TimeoutError:
        return Outcome((), "hangs")
    try:
        return Outcome(tuple(parse_answers(raw)))
    except client.BadAnswer as error:
        return Outcome((), str(error))


async def exchange(port, pieces, half_closes=True):
    connection = await client.Connection.open(port)
    received = []

    async def receive():
        while data := await connection.reader.read(1 << 16):
            received.append(data)

    async def send():
        for number, piece in enumerate(pieces):
            if number:
                await asyncio.sleep(PAUSE)
            await connection.send(piece)
        if half_closes:
            connection.writer.write_eof()

    # A server that has refused may close before all is sent.
    await asyncio.gather(receive(), send(), return_exceptions=True)
    connection.close()
    return b"".join(received)


def parse_answers(raw):
    """The statuses of all answers but 100."""
    while raw:
        head, separator, raw = raw.partition(b"\r\n\r\n")
        answer = client.parse_head(head)
        if not separator:
            raise client.BadAnswer(f"ends in a header: {head[:40]!r}")
        if answer.status == 100:
            continue
        size = int(answer.headers.get("content-length", 0))
        is_without_body = raw.startswith(b"HTTP/1.") or not raw  # to HEAD, or nothing
        if not is_without_body:
            if len(raw) < size:
                raise client.BadAnswer(f"ends in a body of {size} bytes")
            raw = raw[size:]
        yield answer.status


async def check_statuses(report, port, cases):
    """Outcomes by case."""
    outcomes = await client.gather(AT_ONCE, [outcome_of(port, [case.data], case.half_closes) for case in cases])
    wrong = [
        f"{case.name} -> {outcome}, not {case.expected[:60] or 'no answer'}" for case, outcome in zip(cases, outcomes)
        if outcome.problem or not case.allows(outcome.statuses)
    ]
    report.check("corpus: wrong outcomes", listed(wrong), not wrong, "0")
    first, = [case for case in cases if case.name == "expect: the body never comes"]
    raw = await asyncio.wait_for(exchange(port, [first.data]), HANG_SECONDS)
    report.check("100 Continue is said to an expectation that waits", raw[:40], raw.startswith(b"HTTP/1.1 100 "))
    return dict(zip(cases, outcomes))


async def check_cuts(settings, report, port, whole):
    """The same outcome wherever the bytes are cut."""
    rng = random.Random(settings.seed)
    trials = []
    small = [case for case in whole if 1 < len(case.data) <= LARGE]
    everywhere = rng.sample(small, settings.size(
        6, 2)) + [case for case in small if case.name == "transfer-encoding: chunked"]
    for case in everywhere:
        trials += [(case, [case.data[:i], case.data[i:]]) for i in range(1, len(case.data))]
    for case in rng.sample(list(whole), len(whole) if not settings.is_quick else 150):
        trials.append((case, random_pieces(case.data, rng)))
    for case in small:
        if case.name.startswith(("chunks", "transfer-encoding")):
            trials.append((case, random_pieces(case.data, rng)))
    outcomes = await client.gather(AT_ONCE, [outcome_of(port, pieces, case.half_closes) for case, pieces in trials])
    wrong = [
        f"{case.name} in {len(pieces)} pieces: {outcome}, whole: {whole[case]}"
        for (case, pieces), outcome in zip(trials, outcomes) if outcome != whole[case]
    ]
    report.check(f"cuts: {len(trials):,}, outcomes that depend on them", listed(wrong), not wrong, "0")


def random_pieces(data, rng):
    number = min(rng.randint(1, 6), max(0, len(data) - 1))
    cuts = sorted(rng.sample(range(1, len(data)), number)) if number else []
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)])]


def mutated(data, rng):
    """A few bytes changed, left out, repeated or put in."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at:at + rng.randint(1, 8)]
            case 2:
                data[at:at] = data[at:at + rng.randint(1, 30)]
            case 3:
                data[at:at] = rng.choice([
                    b"\r\n", b"\n", b"\r", b"\x00", b":", b" ", b"\t", b"0\r\n\r\n", b"chunked",
                    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 3\r\n", b"\xff", b",", b";"
                ])
            case 4:
                del data[rng.randrange(len(data) + 1):]
    return bytes(data)


async def check_mutations(settings, report, port, cases):
    rng = random.Random(settings.seed + 1)
    bases = [case.data for case in cases if case.data and len(case.data) <= LARGE]
    number = settings.mutations or settings.size(3000, 400)
    inputs = [mutated(rng.choice(bases), rng) for _ in range(number)]
    outcomes = await client.gather(AT_ONCE, [outcome_of(port, [data]) for data in inputs])
    cut = await client.gather(AT_ONCE, [outcome_of(port, random_pieces(data, rng)) for data in inputs])
    problems = [
        f"{data[:60]!r}: {outcome}" for data, outcome in zip(inputs, outcomes)
        if outcome.problem or SERVER_FAULTS & set(outcome.statuses)
    ]
    report.check(f"mutations: {number:,}, hangs, bad answers and 5xx", listed(problems), not problems, "0")
    differ = [f"{data[:60]!r}: {a}, in pieces {b}" for data, a, b in zip(inputs, outcomes, cut) if a != b]
    report.check("mutations: outcomes that depend on cuts", listed(differ), not differ, "0")


async def check_breaking_off(settings, report, port):
    """Clients that leave at every offset of a request and of a streamed answer."""
    request = client.request_bytes("POST", "/v1/chat/completions", client.chat("Hi.", 8, stream=True))
    step = settings.size(1, 8)
    trials = [(request[:i], manner, 0) for i in range(0, len(request) + 1, step) for manner in ("reset", "close")]
    trials += [(request, manner, i) for i in range(1, 1200, step * 4) for manner in ("reset", "close")]

    async def leave(data, manner, num_read):
        connection = await client.Connection.open(port)
        await connection.send(data)
        if num_read:
            await connection.read_for(2, num_read)
        getattr(connection, manner)()

    await client.gather(AT_ONCE, [leave(*trial) for trial in trials])
    outcome = await outcome_of(port, [http_corpus.get()])
    report.check(f"broken off at {len(trials):,} places: then", outcome, outcome.statuses == (200, ), "200")
