# SPDX-License-Identifier: Apache-2.0
"""Tells whether times that were measured here mean anything: what others took of the processors meanwhile."""
import os
import pathlib
import resource

MOST_OTHERS = 0.10  # share of all processors' time
MOST_STEAL = 0.02
TICKS = os.sysconf("SC_CLK_TCK")


class Watch:
    """Entered when timing begins; `pids` are the servers that are ours too."""

    def __init__(self, *pids):
        self.pids = pids
        self.others_share = self.steal_share = 0.0
        self.num_involuntary = 0

    def __enter__(self):
        self.before = self._now()
        return self

    def __exit__(self, *_):
        total, busy, steal, own, involuntary = (b - a for a, b in zip(self.before, self._now()))
        self.others_share = max(0.0, busy - own) / max(1, total)
        self.steal_share = steal / max(1, total)
        self.num_involuntary = involuntary

    @property
    def is_busy(self):
        return self.others_share > MOST_OTHERS or self.steal_share > MOST_STEAL

    def __str__(self):
        return (f"others had {self.others_share:.0%} of the machine, {self.steal_share:.0%} was stolen, "
                f"{self.num_involuntary} involuntary switches")

    def _now(self):
        ticks = [int(field) for field in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        idle, steal = ticks[3] + ticks[4], ticks[7]
        own = sum(os.times()[:4]) * TICKS + sum(map(ticks_of, self.pids))
        involuntary = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        return sum(ticks), sum(ticks) - idle - steal, steal, own, involuntary


def ticks_of(pid):
    """Processor time of a process and its reaped children; 0 once it is gone."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


def description():
    model = next((line.split(":", 1)[1].strip()
                  for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")),
                 "unknown")
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
