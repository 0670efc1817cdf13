# SPDX-License-Identifier: Apache-2.0
"""Measurements as tables for docs/results/cache.md, and the goals they are held to."""
import math
import statistics

from intervals import interval, verdict

THROUGHPUT_GOAL = 1.5   # value over none, at equal p90
LATENCY_GOAL = 0.4      # value over none, at equal rate
SHORT_GOAL = 0.9        # recomputed tokens, value over lru, where memory is short
NEVER_WORSE = 1.02      # recomputed tokens of value over lru's; batches fall differently in every run
KEEPS_UP = 0.95         # an arm that answers this share of what it is asked keeps up
LEAST_SHARE = 0.01      # of the history; where less was recomputed there is nothing to compare
SHORT_SHARE = 0.05      # of the history: where lru recomputes less, the host tier is not short


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
            f"{arguments.short_host_pages}. Seeds: {arguments.seeds}, the same for all arms. Load average at the end {load_average:.1f}.\n")


def curves(by_seed):
    lines = ["Requests a second, and in brackets the 90th percentile of normalized latency in ms a token, medians over the "
             "seeds (-: more than a tenth had no answer when the run ended; empty: not asked for more, it did not keep up "
             "before):", ""]
    rates = sorted({m.rate for by_arm in by_seed for curve in by_arm.values() for m in curve})
    lines.append("| conversations begun a second | " + " | ".join(f"{rate:g}" for rate in rates) + " |")
    lines.append("|---" * (len(rates) + 1) + "|")
    for arm in by_seed[0]:
        cells = []
        for rate in rates:
            found = [m for by_arm in by_seed for m in by_arm[arm] if m.rate == rate]
            cells.append(f"{statistics.median(m.throughput for m in found):.2f} "
                         f"({milliseconds(statistics.median(m.p90 for m in found))})" if found else "")
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def recomputed(short_by_seed):
    """With little host memory, each seed."""
    lines = ["| short of host pages | seed | history tokens | computed again | found on the device | on the host | preempted |",
             "|---|---|---|---|---|---|---|"]
    for number, short in enumerate(short_by_seed):
        for arm, m in short.items():
            lines.append(f"| {arm} | {number + 1} | {m.history_tokens:,} | {m.recomputed_tokens:,} "
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
    """Read off where none is at twice the p90 that it has at the lowest rate; and the arms that had room left there."""
    p90 = 2 * by_arm["none"][0].p90
    none, none_has_room = throughput_at(by_arm["none"], p90)
    value, value_has_room = throughput_at(by_arm["value"], p90)
    return value / none if none > 0 else math.inf, none_has_room, value_has_room


def judged_rate(by_seed):
    """The highest rate that none keeps up with for all seeds: beyond, its latency only tells how long it ran."""
    rates = [m.rate for m in by_seed[0]["none"]]
    kept_up = [rate for rate in rates
               if all(any(m.rate == rate and m.share_answered >= KEEPS_UP for m in by_arm["none"]) for by_arm in by_seed)]
    return (kept_up or rates[:1])[-1]


def ratio_at(by_seed, rate, arm, other, measure):
    """Of each seed for which both arms were asked that rate and the other's measure is a number above 0."""
    pairs = [(next((m for m in by_arm[arm] if m.rate == rate), None),
              next((m for m in by_arm[other] if m.rate == rate), None)) for by_arm in by_seed]
    return [measure(a) / measure(b) for a, b in pairs if a and b and 0 < measure(b) < math.inf]


def row(what, ratios, goal, is_at_most):
    found = interval(ratios)
    bound = "<=" if is_at_most else ">="
    return (f"| {what} | **{found.mean:.2f}** ({found.low:.2f} to {found.high:.2f}), {found.count} seeds | "
            f"{bound} {goal:g} | {verdict(found, goal, is_at_most)} |")


def short_row(short_by_seed):
    """Of shares: slower answers leave fewer turns in the same time."""
    what = "history computed again short of host pages, value / lru"
    short = [pair for pair in short_by_seed if pair["lru"].recomputed_share >= SHORT_SHARE]
    if len(short) < len(short_by_seed):
        return (f"| {what} | lru recomputed less than {100 * SHORT_SHARE:.0f} % for "
                f"{len(short_by_seed) - len(short)} of {len(short_by_seed)} seeds | <= {SHORT_GOAL:g} | "
                "undecided: the host tier was not short |")
    return row(what, [pair["value"].recomputed_share / pair["lru"].recomputed_share for pair in short], SHORT_GOAL, True)


def throughput_row(by_seed):
    """Where value had room left the ratio is a lower bound, which may meet the goal and never miss it."""
    what = "throughput at equal p90, value / none"
    ratios, none_has_room, value_has_room = zip(*map(throughput_ratio, by_seed))
    if any(none_has_room):
        return (f"| {what} | none had room left for {sum(none_has_room)} of {len(by_seed)} seeds | "
                f">= {THROUGHPUT_GOAL:g} | undecided: no rate was too high |")
    if not any(value_has_room):
        return row(what, ratios, THROUGHPUT_GOAL, False)
    bounded = row(f"{what}, at least: value had room left for {sum(value_has_room)} seeds", ratios, THROUGHPUT_GOAL, False)
    return bounded.replace("| MISSED |", "| undecided: a lower bound |")


def recomputed_rows(by_seed):
    """Where all arms were short enough that something was recomputed."""
    for rate in [m.rate for m in by_seed[0]["lru"]]:
        found = [(v, l) for by_arm in by_seed for v in by_arm["value"] for l in by_arm["lru"] if v.rate == l.rate == rate]
        if any(max(v.recomputed_share, l.recomputed_share) < LEAST_SHARE or l.recomputed_tokens == 0 for v, l in found):
            continue
        yield row(f"history computed again at {rate:g} conversations/s, value / lru",
                  [v.recomputed_share / l.recomputed_share for v, l in found], NEVER_WORSE, True)


def verdicts(by_seed, short_by_seed):
    """Means over the seeds with their 95 % intervals; arms are compared seed by seed."""
    rate = judged_rate(by_seed)
    lines = ["| ratio, seed by seed | mean (95 % interval) | goal | |", "|---|---|---|---|",
             throughput_row(by_seed)]
    for name in ("p90", "mean"):
        ratios = ratio_at(by_seed, rate, "value", "none", lambda m, name=name: getattr(m, name))
        if ratios:
            lines.append(row(f"{name} of normalized latency at {rate:g} conversations/s, value / none", ratios,
                             LATENCY_GOAL, True))
    return "\n".join([*lines, *recomputed_rows(by_seed), short_row(short_by_seed)])
