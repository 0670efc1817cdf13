# SPDX-License-Identifier: Apache-2.0
"""Whether ids can be computed from others: splitmix64 run backwards from what everybody is told, and statistics."""
import itertools
import re

import client
from results import listed

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
STEPS = 200  # tried from each known number, in both directions
MOST_SIGMAS = 5


def mixed(state):
    """splitmix64's output for a state."""
    z = state
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def unmixed(output):
    """The state that gives this output."""
    z = undo_shift(output, 31) * pow(0x94D049BB133111EB, -1, 1 << 64) & MASK
    z = undo_shift(z, 27) * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & MASK
    return undo_shift(z, 30)


def undo_shift(value, bits):
    """x, of x ^ (x >> bits)."""
    result = value
    for _ in range(64 // bits):
        result = value ^ (result >> bits)
    return result


async def check(settings, report, port):
    assert unmixed(mixed(12345)) == 12345
    number = settings.size(4000, 400)
    known, ids = [], []
    for i in range(number):
        # What an outsider may ask for, then what another client gets.
        if i < 20:
            probe = await client.ask(port, "GET", "/live")
            known += numbers_in(probe.headers.get("x-request-id", ""))
        answer = await client.ask(port, "POST", "/v1/responses",
                                  {"input": "my secret is 4711", "max_output_tokens": 1, "store": i == 0})
        ids.append(answer.json()["id"])
    check_neighbours(report, known, ids)
    check_statistics(report, ids)


def numbers_in(text):
    return [int(digits, 16) for digits in re.findall(r"[0-9a-f]{16}", text)]


def check_neighbours(report, known, ids):
    """From each known number: the outputs before and after it, as halves of ids."""
    halves = {half: name for name in ids for half in numbers_in(name)}
    found = []
    for number in known:
        state = unmixed(number)
        for step in itertools.chain(range(1, STEPS), range(-STEPS, 0)):
            if name := halves.get(mixed((state + step * GAMMA) & MASK)):
                found.append(f"{name} is {step} steps from a request id")
                break
    report.check(f"response ids computed from {len(known)} request ids", listed(found[:3]), not found, "0")
    distances = [(b - a) & MASK for a, b in zip(*(halves_of(ids, offset) for offset in (0, 1)))]
    repeated = len(distances) - len(set(distances))
    report.check("equal distances between successive ids", repeated, repeated == 0, "0")


def halves_of(ids, offset):
    """States behind the first halves, if they were splitmix64's; the second sequence is one id later."""
    states = [unmixed(numbers_in(name)[0]) for name in ids]
    return states[offset:len(states) - 1 + offset]


def check_statistics(report, ids):
    """All different, and each bit as often 1 as 0."""
    values = [int("".join(re.findall(r"[0-9a-f]{16}", name)), 16) for name in ids]
    width = 4 * len("".join(re.findall(r"[0-9a-f]{16}", ids[0])))
    report.check("random bits of an id", width, width >= 128 and len(set(values)) == len(values),
                 ">= 128, all different")
    sigma = len(values)**0.5 / 2
    worst = max(abs(sum(value >> bit & 1 for value in values) - len(values) / 2) / sigma for bit in range(width))
    report.check("the most unbalanced bit", f"{worst:.1f} sigma", worst < MOST_SIGMAS, f"< {MOST_SIGMAS} sigma")
