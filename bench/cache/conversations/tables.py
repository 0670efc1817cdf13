# SPDX-License-Identifier: Apache-2.0
"""Measurements as tables for docs/results/cache.md, and the goals they are held to."""
import dataclasses
import math

THROUGHPUT_GOAL = 1.5   # value over none, at equal p90
LATENCY_GOAL = 0.4      # value over none, at equal rate
SHORT_GOAL = 0.9        # recomputed tokens, value over lru, where memory is short
NEVER_WORSE = 1.02      # recomputed tokens of value over lru's; batches fall differently in every run
KEEPS_UP = 0.95         # an arm that answers this share of what it is asked keeps up
LEAST_SHARE = 0.01      # of the history; where less was recomputed there is nothing to compare


@dataclasses.dataclass
class Ratio:
    what: str
    value: float
    goal: str = ""                 # empty: shown only
    is_met: bool = True
    is_lower_bound: bool = False   # the true ratio is at least that


def milliseconds(seconds):
    return "-" if math.isinf(seconds) else f"{seconds * 1000:.0f}"


def progress(arm, m):
    return (f"{arm}, {m.rate} conversations/s: {m.throughput:.2f} requests/s, p90 {milliseconds(m.p90)} ms a token, "
            f"mean {milliseconds(m.mean)}, {m.num_requests} requests, {m.num_unfinished} unfinished, "
            f"recomputed {m.recomputed_tokens} of {m.history_tokens}, hits {m.device_hits} device, {m.host_hits} host, "
            f"{m.evicted_pages} pages dropped, {m.preemptions} preempted")


def setting(arguments, load_average):
    return (f"A random Llama of 49 M parameters serves the same conversations with its cache by value, by time (lru), on "
            f"the device only and off (none), in turn, each time by a fresh server. Turns and lengths are ShareGPT's "
            f"(Pensieve, Table 3.2), the lengths times {arguments.scale:g}; think time is exponential, {arguments.think:g} s "
            f"on average (the paper's: 60). {arguments.seconds:g} s are measured after {arguments.warmup:g} s. KV pages of "
            f"32 tokens: {arguments.device_pages} on the device, {arguments.host_pages} on the host, where it is short "
            f"{arguments.short_host_pages}. Load average at the end {load_average:.1f}.\n")


def curves(by_arm):
    lines = ["Requests a second, and in brackets the 90th percentile of normalized latency in ms a token (-: more than a "
             "tenth had no answer when the run ended; empty: not asked for more, it did not keep up before):", ""]
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


def throughput_ratio(by_arm):
    """Read off where none is at twice the p90 that it has at the lowest rate."""
    p90 = 2 * by_arm["none"][0].p90
    none, _ = throughput_at(by_arm["none"], p90)
    value, is_lower_bound = throughput_at(by_arm["value"], p90)
    ratio = value / none if none > 0 else math.inf
    return Ratio(f"throughput at equal p90 ({milliseconds(p90)} ms a token), value / none", ratio,
                 f">= {THROUGHPUT_GOAL}", ratio >= THROUGHPUT_GOAL, is_lower_bound)


def latency_ratios(by_arm):
    """Held to the goal at the highest rate that none keeps up with: beyond, its latency only tells how long it ran."""
    value = {m.rate: m for m in by_arm["value"]}
    both = [m for m in by_arm["none"] if m.rate in value]
    kept_up = [m.rate for m in both if m.share_answered >= KEEPS_UP] or [both[0].rate]
    for m in both:
        is_judged = m.rate == kept_up[-1]
        for name, ours, theirs in (("p90", value[m.rate].p90, m.p90), ("mean", value[m.rate].mean, m.mean)):
            if math.isinf(theirs):
                continue
            ratio = ours / theirs
            yield Ratio(f"{name} of normalized latency at {m.rate:g} conversations/s, value / none", ratio,
                        f"<= {LATENCY_GOAL}" if is_judged else "", ratio <= LATENCY_GOAL or not is_judged)


def recomputed_ratios(by_arm, short):
    """Of shares: slower answers leave fewer turns in the same time."""
    lru = {m.rate: m for m in by_arm["lru"]}
    pairs = [(f"at {m.rate:g} conversations/s", m, lru[m.rate], NEVER_WORSE) for m in by_arm["value"] if m.rate in lru]
    pairs.append(("short of host pages", short["value"], short["lru"], SHORT_GOAL))
    for where, value, other, goal in pairs:
        if max(value.recomputed_share, other.recomputed_share) < LEAST_SHARE:
            continue
        ratio = value.recomputed_share / other.recomputed_share if other.recomputed_tokens > 0 else math.inf
        yield Ratio(f"history computed again {where}, value / lru", ratio, f"<= {goal:g}", ratio <= goal)


def ratios(by_arm, short):
    return [throughput_ratio(by_arm), *latency_ratios(by_arm), *recomputed_ratios(by_arm, short)]


def verdicts(all_ratios):
    lines = ["| ratio | | goal | |", "|---|---|---|---|"]
    for ratio in all_ratios:
        bound = "at least " if ratio.is_lower_bound else ""
        verdict = ("met" if ratio.is_met else "MISSED") if ratio.goal else ""
        lines.append(f"| {ratio.what} | {bound}**{ratio.value:.2f}** | {ratio.goal} | {verdict} |")
    return "\n".join(lines)
