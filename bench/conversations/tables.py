# SPDX-License-Identifier: Apache-2.0
"""Measurements as tables for docs/benchmarks.md, and the goals they are held to."""
import dataclasses
import math

THROUGHPUT_GOAL = 1.5   # value over none, at equal p90
LATENCY_GOAL = 0.4      # value over none, at equal rate
SHORT_GOAL = 0.9        # recomputed tokens, value over lru, where memory is short
NEVER_WORSE = 1.02      # recomputed tokens of value over lru's; batches fall differently in every run


@dataclasses.dataclass
class Goal:
    what: str
    ratio: float
    is_lower_bound: bool   # the true ratio is at least that
    is_met: bool
    goal: str


def milliseconds(seconds):
    return "-" if math.isinf(seconds) else f"{seconds * 1000:.0f}"


def progress(arm, m):
    return (f"{arm}, {m.rate} conversations/s: {m.throughput:.2f} requests/s, p90 {milliseconds(m.p90)} ms a token, "
            f"mean {milliseconds(m.mean)}, {m.num_requests} requests, {m.num_unfinished} unfinished, "
            f"recomputed {m.recomputed_tokens} of {m.history_tokens}, hits {m.device_hits} device, {m.host_hits} host, "
            f"{m.evicted_pages} pages dropped, {m.preemptions} preempted")


def setting(arguments, load_average):
    return (f"Lengths x {arguments.scale:g}, think time {arguments.think:g} s on average, {arguments.seconds:g} s measured "
            f"after {arguments.warmup:g} s, KV pages of 32 tokens: {arguments.device_pages} on the device, "
            f"{arguments.host_pages} on the host; load average at the end {load_average:.1f}.\n")


def curves(by_arm):
    lines = ["Requests a second, and in brackets the 90th percentile of normalized latency in ms a token:", ""]
    rates = sorted({m.rate for curve in by_arm.values() for m in curve})
    lines.append("| conversations begun a second | " + " | ".join(f"{rate:g}" for rate in rates) + " |")
    lines.append("|---" * (len(rates) + 1) + "|")
    for arm, curve in by_arm.items():
        at = {m.rate: m for m in curve}
        cells = [f"{at[rate].throughput:.2f} ({milliseconds(at[rate].p90)})" if rate in at else "" for rate in rates]
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def recomputed(by_arm, short):
    """At the highest rate that all arms were asked for, and with little host memory."""
    rate = min(curve[-1].rate for curve in by_arm.values())
    rows = [(arm, m) for arm, curve in by_arm.items() for m in curve if m.rate == rate]
    rows += [(f"{arm}, short of host pages", m) for arm, m in short.items()]
    lines = ["| | conversations/s | history tokens | computed again | found on the device | on the host | preempted |",
             "|---|---|---|---|---|---|---|"]
    for arm, m in rows:
        lines.append(f"| {arm} | {m.rate:g} | {m.history_tokens:,} | {m.recomputed_tokens:,} "
                     f"({100 * m.recomputed_share:.1f} %) | {m.device_hits:,} | {m.host_hits:,} | {m.preemptions} |")
    return "\n".join(lines) + "\n"


def throughput_at(curve, p90):
    """The most requests a second with at most this p90, between measurements by
    a straight line; and whether more may have been possible."""
    best, is_lower_bound = 0.0, True
    for before, after in zip([None, *curve], curve):
        if after.p90 <= p90:
            best, is_lower_bound = max(best, after.throughput), True
            continue
        is_lower_bound = False
        if before is not None and before.p90 <= p90 and math.isfinite(after.p90):
            share = (p90 - before.p90) / (after.p90 - before.p90)
            best = max(best, before.throughput + share * (after.throughput - before.throughput))
        break
    return best, is_lower_bound


def throughput_goal(by_arm):
    """Read off where none is at twice the p90 that it has at the lowest rate."""
    p90 = 2 * by_arm["none"][0].p90
    none, _ = throughput_at(by_arm["none"], p90)
    value, is_lower_bound = throughput_at(by_arm["value"], p90)
    ratio = value / none if none > 0 else math.inf
    return Goal(f"throughput at equal p90 ({milliseconds(p90)} ms a token), value / none", ratio, is_lower_bound,
                ratio >= THROUGHPUT_GOAL, f">= {THROUGHPUT_GOAL}")


def latency_goals(by_arm):
    value = {m.rate: m for m in by_arm["value"]}
    for m in by_arm["none"]:
        if m.rate not in value:
            continue
        for name, ours, theirs in (("p90", value[m.rate].p90, m.p90), ("mean", value[m.rate].mean, m.mean)):
            ratio = 0.0 if math.isinf(theirs) else ours / theirs
            yield Goal(f"{name} of normalized latency at {m.rate:g} conversations/s, value / none", ratio, False,
                       ratio <= LATENCY_GOAL, f"<= {LATENCY_GOAL}")


def recomputed_goals(by_arm, short):
    lru = {m.rate: m for m in by_arm["lru"]}
    pairs = [(f"at {m.rate:g} conversations/s", m, lru[m.rate], NEVER_WORSE) for m in by_arm["value"] if m.rate in lru]
    pairs.append(("short of host pages", short["value"], short["lru"], SHORT_GOAL))
    for where, value, other, goal in pairs:
        if other.recomputed_tokens == 0:
            ratio = 1.0 if value.recomputed_tokens == 0 else math.inf
        else:  # shares: slower answers leave fewer turns in the same time
            ratio = value.recomputed_share / other.recomputed_share
        yield Goal(f"history computed again {where}, value / lru", ratio, False, ratio <= goal, f"<= {goal:g}")


def goals(by_arm, short):
    return [throughput_goal(by_arm), *latency_goals(by_arm), *recomputed_goals(by_arm, short)]


def verdicts(all_goals):
    lines = ["| ratio | | goal | |", "|---|---|---|---|"]
    for goal in all_goals:
        bound = "at least " if goal.is_lower_bound else ""
        lines.append(f"| {goal.what} | {bound}**{goal.ratio:.2f}** | {goal.goal} | {'met' if goal.is_met else 'MISSED'} |")
    return "\n".join(lines)
