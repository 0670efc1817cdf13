#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks the real server and says which promises hold: hostile input, load, kills, damage, neighbours.

Each part starts servers of its own. One line a check: its value and ok, FAIL, skipped, "no result" (the machine was too
busy to judge a time) or measured (no promise). With --out all of it as JSON.

Usage: bench/attack/attack.py [--quick] [--only PART ...] [--troupe FILE] [--out FILE] ...
Exit status: 0 if no check failed, 1 otherwise.
"""
import argparse
import importlib
import pathlib
import resource
import sys
import time
import traceback

import machine
from results import Report, listed
from target import DEFAULT_TROUPE, Target

PARTS = {  # name: module, what it does
    "http": ("http_attack", "malformed requests, cuts, mutations, clients that break off"),
    "json": ("json_attack", "generated and special request bodies"),
    "churn": ("churn", "many requests, 30 % cancelled at any moment: everything is given back"),
    "streams": ("streams", "idle connections beside streams; a slow reader beside others"),
    "overload": ("overload", "ten times too many clients: goodput and refusals"),
    "kills": ("kills", "kill -9, stopped and killed workers, SIGTERM: nothing acknowledged is lost"),
    "answers": ("answer_kills", "kill -9 of server or worker under answers that survive it: each as undisturbed"),
    "store": ("store_damage", "damaged stores, a full disk, damaged KV pages"),
    "tenants": ("tenants", "a greedy tenant, others' conversations, guessable ids, hosts, doors without keys"),
    "start": ("start_faults", "bad flags, files, environments and model directories"),
    "prompts": ("prompts", "prompts of megabytes beside a neighbour's small one"),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default=DEFAULT_TROUPE)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART",
                        help="; ".join(f"{name}: {text}" for name, (_, text) in PARTS.items()).replace("%", "%%"))
    parser.add_argument("--quick", dest="is_quick", action="store_true", help="small numbers: minutes, not hours")
    parser.add_argument("--functional", action="store_true", help="don't judge times: for a machine that others use")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="write the results as JSON")
    for name, what in (("mutations", "mutated HTTP requests"), ("bodies", "generated JSON bodies"),
                       ("requests", "requests of churn"), ("kills", "loops of kill -9"),
                       ("idle", "idle connections"), ("streams", "streams beside them"),
                       ("seconds", "seconds of each overload of the part overload; 300 for five minutes")):
        parser.add_argument(f"--{name}", type=int, help=f"{what}, instead of the usual number")
    settings = parser.parse_args()
    settings.size = lambda usual, quick: quick if settings.is_quick else usual
    return settings


def main():
    settings = parse_arguments()
    if not settings.troupe.exists():
        sys.exit(f"there is no {settings.troupe}; build it, or say --troupe FILE")
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    report = Report(judges_times=not settings.functional)
    for name in settings.only:
        report.part = name
        began = time.monotonic()
        try:
            importlib.import_module(PARTS[name][0]).run(settings, report)
        except Exception as error:  # one part's end is not that of the others
            traceback.print_exc()
            report.check("the part runs to its end", repr(error)[:300], False)
        report.check("servers that don't end with status 0", listed(Target.bad_ends), not Target.bad_ends, "0")
        Target.bad_ends.clear()
        report.note("seconds", f"{time.monotonic() - began:.1f}")
    if settings.out:
        settings.out.parent.mkdir(parents=True, exist_ok=True)
        report.write(settings.out, machine.description())
    print(f"{len(report.checks)} checks, {report.num_failures} failed")
    return 1 if report.num_failures else 0


if __name__ == "__main__":
    sys.exit(main())
