# SPDX-License-Identifier: Apache-2.0
"""Was the machine quiet while something was measured? From /proc, before and after."""
import dataclasses
import os
import pathlib
import resource
import time

TICKS = os.sysconf("SC_CLK_TCK")
# Above one of these a figure says more about the machine than about us.
MAX_FOREIGN = 0.05  # CPUs that others kept busy
MAX_STEAL = 0.02  # CPUs that the host took away
MAX_SWITCHES = 10.0  # times a second that a compute thread lost its core


def cpu_seconds():
    """(busy, stolen) of the whole machine."""
    fields = [int(field) / TICKS for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return user + nice + system + irq + softirq, steal


def process_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def children_seconds():
    """Of programs that were started here and have ended, and of this one."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def involuntary_switches(pid, cpus):
    """By compute thread: those bound to one of these cores."""
    counts = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines() if ":" in line)
        except OSError:
            continue  # it has ended
        allowed = status["Cpus_allowed_list"].strip()
        if allowed.isdigit() and int(allowed) in cpus:
            counts[task.name] = int(status["nonvoluntary_ctxt_switches"])
    return counts


@dataclasses.dataclass
class Noise:
    foreign: float  # CPUs
    steal: float  # CPUs
    # A second, of the compute thread that lost its core most often; nan: none is bound; None: none was looked at.
    switches: float | None

    def reasons(self):
        """Why nothing should be concluded; empty: the machine was quiet."""
        reasons = []
        if self.foreign > MAX_FOREIGN:
            reasons.append(f"others used {self.foreign:.2f} CPUs (at most {MAX_FOREIGN})")
        if self.steal > MAX_STEAL:
            reasons.append(f"the host took {self.steal:.2f} CPUs (at most {MAX_STEAL})")
        if self.switches is not None and not self.switches <= MAX_SWITCHES:
            reasons.append(f"a compute thread lost its core {self.switches:.0f} times a second (at most {MAX_SWITCHES:.0f})")
        return reasons

    def text(self):
        switches = "" if self.switches is None else f", switches {self.switches:.1f}/s"
        return f"others {self.foreign:.3f} CPUs, stolen {self.steal:.3f}{switches}"


class Watch:
    """Of a server's process, whose compute threads have these CPUs, and whatever is started meanwhile, from its
    making to end()."""

    def __init__(self, pid, cpus):
        self.pid, self.cpus = pid, cpus
        self.begin = self.sample()

    def sample(self):
        busy, steal = cpu_seconds()
        return time.monotonic(), busy, steal, process_seconds(self.pid) + children_seconds(), involuntary_switches(self.pid, self.cpus)

    def end(self):
        end = self.sample()
        wall, busy, steal, ours = (after - before for before, after in zip(self.begin[:4], end[:4]))
        switches = [count - self.begin[4].get(thread, 0) for thread, count in end[4].items()]
        return Noise(foreign=(busy - ours) / wall, steal=steal / wall,
                     switches=max(switches) / wall if switches else float("nan"))


class MachineWatch:
    """From its making to end(), on all cores. Ours are this program and those that it started and waited for: they
    have ended by end()."""

    def __init__(self):
        self.begin = self.sample()

    @staticmethod
    def sample():
        busy, steal = cpu_seconds()
        return time.monotonic(), busy, steal, children_seconds()

    def end(self):
        wall, busy, steal, ours = (after - before for before, after in zip(self.begin, self.sample()))
        return Noise(foreign=(busy - ours) / wall, steal=steal / wall, switches=None)
