# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals over seeds, and verdicts that wait for them."""
import dataclasses
import math
import statistics

# Student's t, two-sided 95 %, by degrees of freedom from 1; beyond: the normal distribution's.
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
FEWEST = 5  # seeds: below, an interval says little


@dataclasses.dataclass
class Interval:
    mean: float
    low: float
    high: float
    count: int


def interval(values):
    """The mean's 95 % interval; without bounds where a value has none, or there is one value alone."""
    mean = statistics.fmean(values)
    if len(values) < 2 or not math.isfinite(mean):
        return Interval(mean, -math.inf, math.inf, len(values))
    t = T_95[len(values) - 2] if len(values) - 1 <= len(T_95) else 1.96
    half = t * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half, len(values))


def verdict(found, goal, is_at_most):
    """met or MISSED where the whole interval lies on one side of the goal; else undecided."""
    if found.count < FEWEST:
        return f"undecided: {found.count} of {FEWEST} seeds"
    low, high = (found.low, found.high) if is_at_most else (-found.high, -found.low)
    bound = goal if is_at_most else -goal
    if high <= bound:
        return "met"
    return "MISSED" if low > bound else "undecided"


def verdict_near(found, value, distance):
    """verdict() of being within `distance` of `value`; a mean without bounds is near nothing."""
    if not math.isfinite(found.mean):
        return "MISSED"
    above, below = verdict(found, value + distance, True), verdict(found, value - distance, False)
    if "MISSED" in (above, below):
        return "MISSED"
    return below if above == "met" else above
