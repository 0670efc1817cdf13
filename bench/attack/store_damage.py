# SPDX-License-Identifier: Apache-2.0
"""Part store: 20 kinds of damage to the conversations' file, 5 to the KV page files, and a disk that is full."""
import asyncio
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

import client
from damages import CONVERSATIONS, DAMAGES, PAGE_FILE_DAMAGES, LATER_VERSION
from kills import without_timings
from results import listed
from target import NotReady, Target

OPTIONS = ["--device", "cpu", "--threads", "1", "--memory", "64MiB", "--model-name", "demo"]
DATABASE = "conversations.sqlite"
DISK_MB = 32


def run(settings, report):
    with tempfile.TemporaryDirectory(prefix="attack-") as place:
        place = pathlib.Path(place)
        damage_database(settings, report, place)
        damage_page_files(settings, report, place)
    full_disk(settings, report)


def serve(settings, store, *more):
    return Target(settings.troupe, [*OPTIONS, "--store-directory", str(store), *more])


async def tell(port, name, previous=None, **more):
    """An answer that is stored."""
    body = {"input": name, "max_output_tokens": 60, "temperature": 0, **more}
    if previous:
        body["previous_response_id"] = previous
    return await client.ask(port, "POST", "/v1/responses", body)


async def converse(port):
    """Both answers of each conversation."""
    conversations = []
    for i in range(CONVERSATIONS):
        first = (await tell(port, f"My number is {i}.")).json()
        second = (await tell(port, "What is my number?", first["id"])).json()
        conversations.append([without_timings(first), without_timings(second)])
    return conversations


def damage_database(settings, report, place):
    stores = {}
    for with_wal in (False, True):
        store = place / f"store-{with_wal}"
        with serve(settings, store, "--cache-disk-space", "0") as server:
            said = asyncio.run(converse(server.port))
            if with_wal:
                server.kill()
        stores[with_wal] = store, said
    if b"remember the number 17" not in (stores[False][0] / DATABASE).read_bytes():
        report.check("the text to be damaged is in the file", False, False)
        return
    for number, damage in enumerate(DAMAGES):
        pristine, said = stores[damage.with_wal]
        store = place / f"damaged-{number}"
        shutil.copytree(pristine, store)
        damage.inflict(store / DATABASE, random.Random(settings.seed))
        check_damaged(settings, report, damage, store, said)


def check_damaged(settings, report, damage, store, said):
    try:
        with serve(settings, store, "--cache-disk-space", "0") as server:
            num_survivors, statuses, wrong, is_kept = asyncio.run(read_all(server.port, said))
            is_alive = server.is_alive
    except NotReady as error:
        report.check(damage.name, f"does not start: {error}", damage.name == LATER_VERSION and "status 78" in str(error))
        return
    if damage.name == LATER_VERSION:
        report.check(damage.name, "is read all the same", False, "refused with status 78")
        return
    others = "".join(f", {count} x {status}" for status, count in sorted(statuses.items()) if status != 200)
    report.check(damage.name, f"{num_survivors} of {len(said)} survive{others}", num_survivors >= damage.least,
                 f">= {damage.least}")
    if wrong or not is_kept or not is_alive:
        report.check(f"{damage.name}: wrong texts", listed(wrong), not wrong, "0")
        report.check(f"{damage.name}: new turns are stored, the server lives", (is_kept, is_alive), is_kept
                     and is_alive)


async def read_all(port, said):
    """How many conversations are whole, statuses of all answers, what is served wrongly, and whether something new is
    stored and found."""
    num_survivors, statuses, wrong = 0, collections.Counter(), []
    for conversation in said:
        answers = [await client.ask(port, "GET", f"/v1/responses/{turn['id']}") for turn in conversation]
        statuses.update(answer.status for answer in answers)
        num_survivors += all(answer.status == 200 for answer in answers)
        wrong += [
            f"{answer.body[:200]}" for answer, turn in zip(answers, conversation)
            if answer.status == 200 and without_timings(answer.json()) != turn
        ]
    fresh = (await tell(port, "Spell the word cat.")).json()
    found = await client.ask(port, "GET", f"/v1/responses/{fresh.get('id')}")
    return num_survivors, statuses, wrong, fresh.get("store") is True and found.status == 200


def damage_page_files(settings, report, place):
    """The second turn of a long conversation says the same whatever became of the first one's KV."""
    pristine = place / "pages"
    with serve(settings, pristine) as server:
        long = "Count from 1 to 60. " * 150
        first = asyncio.run(tell(server.port, long)).json()["id"]
    answers = {}
    for name, inflict in {"undamaged": lambda directory, rng: None, **PAGE_FILE_DAMAGES}.items():
        store = place / f"pages-{len(answers)}"
        shutil.copytree(pristine, store)
        inflict(store, random.Random(settings.seed))
        try:
            with serve(settings, store) as server:
                answer = asyncio.run(tell(server.port, "Count from 3 to 20.", first)).json()
        except NotReady as error:
            report.check(f"KV pages, {name}", str(error), False)
            continue
        answers[name] = answer["output"][0]["content"], answer["timings"].get("tokens_from_disk", 0)
    _, from_disk = answers["undamaged"]
    report.check("KV pages, undamaged: tokens read from disk", from_disk, from_disk > 0, "> 0")
    for name in PAGE_FILE_DAMAGES:
        if name in answers:
            output, tokens = answers[name]
            report.check(f"KV pages, {name}: the answer", f"{tokens} of {from_disk} tokens from disk",
                         output == answers["undamaged"][0], "the same")


@contextlib.contextmanager
def small_disk():
    """A file system of DISK_MB; nothing if there may be none."""
    with tempfile.TemporaryDirectory(prefix="attack-") as place:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", place]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            yield None
            return
        try:
            yield pathlib.Path(place)
        finally:
            subprocess.run(["umount", "-l", place])


def full_disk(settings, report):
    """KV gives way to what was said."""
    with small_disk() as place:
        if place is None:
            report.skip(f"a full disk of {DISK_MB} MB", "needs root, and the right to mount a tmpfs")
            return
        store = place / "store"
        with serve(settings, store) as server:
            asyncio.run(fill(server.port))
            stored = asyncio.run(keep_conversations(server.port))
            sizes = {file.name: file.stat().st_size >> 10 for file in store.iterdir() if file.is_file()}
        report.note("a full disk: KB in the files", json.dumps(sizes))
        report.check("a full disk: conversations that are kept",
                     f"{stored.count('kept')} of {len(stored)} {set(stored)}",
                     stored.count("kept") == len(stored), "all")
        with serve(settings, store) as server:
            fresh = asyncio.run(tell(server.port, "Spell the word cat.", store=True))
        report.check("a full disk: after starting again, store: true", fresh.status, fresh.status == 200, "200")


async def fill(port):
    """Long prompts, each unlike the others, until their KV would need several times the disk; then until nothing is
    being written any more."""
    for i in range(70):
        await tell(port, f"{i} " * 400, store=False)
    written = -1
    while written != (now := await pages_written(port)):
        written = now
        await asyncio.sleep(1)


async def pages_written(port):
    text = (await client.ask(port, "GET", "/metrics")).body.decode()
    return next(line for line in text.splitlines() if line.startswith("troupe_kv_pages_written_total"))


async def keep_conversations(port):
    """Each one "kept", or what was said instead: half of them insist."""
    outcomes = []
    for i in range(CONVERSATIONS):
        answer = await tell(port, f"My number is {i}. " + "Remember it well. " * 100,
                            **({"store": True} if i % 2 else {}))
        if answer.status != 200:
            outcomes.append(str(answer.status))
        else:
            outcomes.append("kept" if answer.json()["store"] else "not kept")
    return outcomes
