#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what Hugging Face's tokenizers make of texts of every kind, for test_text to compare.

usage: tokenizer_parity.py MODEL_DIR OUT.json [DATA_DIR]   (needs `tokenizers` from PyPI)
then:  TROUPE_TOKENIZER_PARITY=OUT.json test_text -tc="*parity*"
"""
import json
import pathlib
import random
import re
import sys

from tokenizers import Tokenizer


def main():
    model, out = sys.argv[1], sys.argv[2]
    data = pathlib.Path(sys.argv[3] if len(sys.argv) > 3
                        else pathlib.Path(__file__).parents[4] / "shared" / "data")
    tokenizer = Tokenizer.from_file(f"{model}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    texts = list(dict.fromkeys(text for source in SOURCES for text in source(data)))
    expected = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        expected.append({"text": text, "ids": ids, "decoded": tokenizer.decode(ids)})
    pathlib.Path(out).write_text(json.dumps({"model": model, "texts": expected}))
    print(f"{len(texts)} texts, {sum(len(e['ids']) for e in expected)} ids")


def characters(first, last):
    return [chr(c) for c in range(first, last + 1) if not 0xD800 <= c <= 0xDFFF]


def script_ranges(data):
    """Each range of Unicode's scripts: joined, between letters, as words."""
    for line in (data / "unicode" / "Scripts.txt").read_text().splitlines():
        found = re.match(r"([0-9A-F]+)(?:\.\.([0-9A-F]+))?\s*;", line)
        if not found:
            continue
        chars = characters(int(found[1], 16), int(found[2] or found[1], 16))
        for begin in range(0, len(chars), 64):
            part = chars[begin:begin + 64]
            yield "".join(part)
            yield "a".join(part)
            yield " ".join(part)


def blocks(data):
    """All code points, assigned or not, by 256."""
    for first in range(0, 0x30000, 256):
        chars = characters(first, first + 255)
        yield " ".join("e" + c for c in chars)
        yield "".join(chars)
    for first in (0xE0000, 0xE0100, 0xF0000, 0x10FF00):
        yield " ".join("e" + c for c in characters(first, first + 255))


def later_characters(data):
    """Characters after Unicode 14, of every kind: each at borders of words, which merges of tokens show."""
    for first, last in ((0x897, 0x897), (0xCF3, 0xCF3), (0x180E, 0x180E), (0x1B4E, 0x1B4F), (0x1C89, 0x1C8A),
                        (0x2427, 0x2429), (0xA7CB, 0xA7DC), (0x10D40, 0x10D8F), (0x11F00, 0x11F5A),
                        (0x13430, 0x13460), (0x1CCF0, 0x1CD0F), (0x1D2C0, 0x1D2D3), (0x1E030, 0x1E06D),
                        (0x1E4D0, 0x1E4F9), (0x1FAE8, 0x1FAF8), (0x2EBF0, 0x2EBFF), (0x31340, 0x3136F)):
        for c in characters(first, last):
            yield from (c, f"{c}/L", f"a{c}a", f"1{c}1", f" {c}{c} ", f"!{c}!")


def decompositions(data):
    lines = (data / "unicode" / "nfd.tsv").read_text().splitlines()
    for begin in range(0, len(lines), 20):
        rows = [line.split("\t")[:2] for line in lines[begin:begin + 20]]
        for column in (0, 1):
            yield " ".join("".join(chr(int(c, 16)) for c in row[column].split()) for row in rows)


def naughty_strings(data):
    yield from json.loads((data / "unicode" / "blns.json").read_text())


def chats(data):
    for chat in json.loads((data / "chat" / "oasst_en_100_sharegpt.json").read_text()):
        yield from (turn["value"] for turn in chat["conversations"])
    for line in (data / "chat" / "vicuna_bench_question.jsonl").read_text().splitlines():
        yield from json.loads(line)["turns"]
    for name in ("onmt_wmt_de.txt", "onmt_wmt_en.txt"):
        yield from (data / "mt" / name).read_text().splitlines()[:300]


def random_texts(data):
    source = random.Random(1)
    for _ in range(1000):
        yield source.randbytes(source.randrange(80)).decode(errors="replace")
    kinds = [characters(0, 0x7F), characters(0x80, 0x24F), characters(0x300, 0x36F), characters(0x370, 0x5FF),
             characters(0x900, 0xDFF), characters(0x1AB0, 0x1AFF), characters(0x2000, 0x206F),
             characters(0x3000, 0x30FF), characters(0x4E00, 0x4FFF), characters(0xAC00, 0xACFF),
             characters(0xE000, 0xE00F), characters(0xFE00, 0xFEFF), characters(0x1F300, 0x1F6FF),
             characters(0x2F800, 0x2F8FF), list("etaoin shrdlu.,!?'\n\t "),
             ["[CLS]", "[MASK]", "##", "[UNK]"]]
    for _ in range(2000):
        chosen = source.sample(kinds, 3) + [kinds[14]]
        yield "".join(source.choice(source.choice(chosen)) for _ in range(source.randrange(60)))


def long_words(data):
    for letter in ("a", "é", "\u4e2d", "\U0001F600", "ß", "e\u0301", "#", "un"):
        for count in (50, 99, 100, 101, 102, 200, 5000):
            yield letter * count
            yield f"the {letter * count} the"


SOURCES = (script_ranges, blocks, later_characters, decompositions, naughty_strings, chats, random_texts, long_words)

if __name__ == "__main__":
    main()
