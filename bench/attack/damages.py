# SPDX-License-Identifier: Apache-2.0
"""Ways to damage the store's files while no server runs, and how many of 40 conversations must survive each.

40: nothing that was said is touched. 39: one record. 0: the file has nothing of ours any more, and the server has to go
on without it. Otherwise: fewer than the conversations that live outside of what was destroyed."""
import dataclasses
import os
import sqlite3
import typing

PAGE = 4096
CONVERSATIONS = 40


@dataclasses.dataclass(frozen=True)
class Damage:
    name: str
    inflict: typing.Callable  # takes the database's path and a random.Random
    least: int  # conversations that survive
    with_wal: bool = False  # inflicted on a store whose server was killed, so that the log is full


def patch(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def flip(path, offset, bit=0):
    with open(path, "rb") as file:
        file.seek(offset)
        byte = file.read(1)[0]
    patch(path, offset, bytes([byte ^ (1 << bit)]))


def flip_many(path, rng):
    for _ in range(30):
        flip(path, rng.randrange(PAGE, path.stat().st_size), rng.randrange(8))


def flip_in_text(path, rng):
    """One bit of what an answer says."""
    data = path.read_bytes()
    flip(path, data.index(b"remember the number 17") + 5)


def execute(*statements):

    def inflict(path, rng):
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA journal_mode=DELETE")
            for statement in statements:
                database.execute(statement)
        database.close()

    return inflict


def cut(share):
    return lambda path, rng: os.truncate(path, int(path.stat().st_size * share))


def become_link(path, rng):
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def become(make):

    def inflict(path, rng):
        path.unlink()
        make(path)

    return inflict


def wal_of(path):
    return path.with_name(path.name + "-wal")


LATER_VERSION = "written by a later troupe"  # no damage: the server refuses it and leaves it alone


DAMAGES = [
    Damage("a flipped bit in a text", flip_in_text, 39),
    Damage("a flipped byte in the header of a page (12288)", lambda path, rng: patch(path, 3 * PAGE, b"\xff"), 30),
    Damage("a zeroed page", lambda path, rng: patch(path, 5 * PAGE, bytes(PAGE)), 30),
    Damage("a zeroed page of the schema", lambda path, rng: patch(path, 0, bytes(PAGE)), 30),
    Damage("30 flipped bits", flip_many, 10),
    Damage("cut to 3/4", cut(0.75), 20),
    Damage("cut within the last page", lambda path, rng: os.truncate(path,
                                                                     path.stat().st_size - 100), 30),
    Damage("a damaged magic number", lambda path, rng: flip(path, 3), 40),
    Damage("a foreign trigger", execute("CREATE TRIGGER t AFTER INSERT ON response BEGIN DELETE FROM message; END"),
           40),
    Damage("a foreign table", execute("CREATE TABLE guest(x)"), 40),
    Damage(LATER_VERSION, execute("PRAGMA user_version=2"), 40),
    Damage("an index that is gone", execute("DROP INDEX response_expires"), 40),
    Damage("garbage", lambda path, rng: path.write_bytes(rng.randbytes(path.stat().st_size)), 0),
    Damage("an empty file", lambda path, rng: os.truncate(path, 0), 0),
    Damage("a symbolic link", become_link, 0),
    Damage("a FIFO", become(os.mkfifo), 0),
    Damage("a directory", become(os.mkdir), 0),
    Damage("log: a flipped bit in the middle", lambda path, rng: flip(wal_of(path),
                                                                      wal_of(path).stat().st_size // 2), 1,
           with_wal=True),
    Damage("log: cut to a half", lambda path, rng: os.truncate(wal_of(path),
                                                               wal_of(path).stat().st_size // 2), 1, with_wal=True),
    Damage("log: garbage", lambda path, rng: wal_of(path).write_bytes(rng.randbytes(9999)), 0, with_wal=True),
]


def flip_each_page(path, page_bytes, rng):
    for offset in range(0, path.stat().st_size - 1, page_bytes):
        flip(path, offset + rng.randrange(min(page_bytes, path.stat().st_size - offset)), rng.randrange(8))


def swap_halves(path, rng):
    data = path.read_bytes()
    half = len(data) // 2 // PAGE * PAGE
    path.write_bytes(data[half:] + data[:half])


# Of the KV page files in the directory: an answer may take longer, never change.
PAGE_FILE_DAMAGES = {
    "data: a flipped bit every 64 KB": lambda directory, rng: flip_each_page(directory / "kv-pages.data", 1 << 16, rng),
    "data: cut to a half": lambda directory, rng: cut(0.5)(directory / "kv-pages.data", rng),
    "data: halves exchanged": lambda directory, rng: swap_halves(directory / "kv-pages.data", rng),
    "index: a flipped bit in each record": lambda directory, rng: flip_each_page(
        directory / "kv-pages.index", 256, rng), "index: garbage": lambda directory, rng:
    (directory / "kv-pages.index").write_bytes(rng.randbytes(20_000)),
}
