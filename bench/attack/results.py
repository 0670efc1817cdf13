# SPDX-License-Identifier: Apache-2.0
"""Results of the attack: one line a check, with its value and a verdict; as a table and as JSON."""
import dataclasses
import json
import math


@dataclasses.dataclass
class Check:
    part: str
    name: str
    value: str
    expected: str
    verdict: str  # ok, FAIL, skipped: …, no result: …, measured

    @property
    def is_failure(self):
        return self.verdict == "FAIL"


class Report:
    """Collects checks and prints each as it comes."""

    def __init__(self, judges_times=True):
        self.checks = []
        self.part = ""
        self.judges_times = judges_times

    def check(self, name, value, is_ok, expected=""):
        """A promise that holds or does not, however busy the machine is."""
        self._add(name, value, expected, "ok" if is_ok else "FAIL")

    def time(self, name, value, is_ok, expected, watch, is_far_off=False):
        """A promise about time: not kept on a busy machine is no result, unless it is far off."""
        if is_ok or is_far_off:
            verdict = "ok" if is_ok else "FAIL"
        elif not self.judges_times:
            verdict = "no result: times are not judged"
        else:
            verdict = f"no result: {watch}" if watch.is_busy else "FAIL"
        self._add(name, value, expected, verdict)

    def note(self, name, value):
        """A figure without a promise."""
        self._add(name, value, "", "measured")

    def skip(self, name, reason):
        self._add(name, "", "", f"skipped: {reason}")

    def _add(self, name, value, expected, verdict):
        check = Check(self.part, name, str(value), expected, verdict)
        self.checks.append(check)
        print(row(check), flush=True)

    @property
    def num_failures(self):
        return sum(check.is_failure for check in self.checks)

    def write(self, file, machine):
        content = {"machine": machine, "checks": [dataclasses.asdict(check) for check in self.checks]}
        file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def row(check):
    expected = f"  (promised: {check.expected})" if check.expected else ""
    first, separator, others = check.value.partition("\n")
    return f"{check.part:9} {check.name:58} {check.verdict:8} {first}{expected}{separator}{others}"


def percentile(values, share):
    """The smallest value that at least `share` of them do not exceed; nan of none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def in_ms(values):
    """p50 / p99 / max of seconds, in milliseconds, as a text."""
    p50, p99, largest = (1000 * percentile(values, share) for share in (0.5, 0.99, 1))
    return f"p50 {p50:.1f} p99 {p99:.1f} max {largest:.1f} ms (n {len(values)})"


def listed(problems):
    """How many, and the first ones, a line each."""
    return f"{len(problems)}" + "".join(f"\n{'':10}{problem}" for problem in problems[:12])
