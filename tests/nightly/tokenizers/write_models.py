#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a directory with tokenizer.json for each tokenizer that the data outside the repository have, and for SmolLM2.

usage: write_models.py DATA OUT [SMOLLM2.gguf]   (needs `gguf` from PyPI for the last)
"""
import base64
import json
import pathlib
import shutil
import sys

CLITICS, SPACES = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"\s*[\r\n]+|\s+(?!\S)|\s+"
CAPITALS, SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LETTERS = r"[^\r\n\p{L}\p{N}]?"
SIGNS = r" ?[^\s\p{L}\p{N}]+"
CL100K = rf"{CLITICS}|{LETTERS}\p{{L}}+|\p{{N}}{{1,3}}|{SIGNS}[\r\n]*|{SPACES}"
QWEN2 = rf"{CLITICS}|{LETTERS}\p{{L}}+|\p{{N}}|{SIGNS}[\r\n]*|{SPACES}"
GPT4O = (rf"{LETTERS}{CAPITALS}*{SMALL}+{CLITICS}?|{LETTERS}{CAPITALS}+{SMALL}*{CLITICS}?|\p{{N}}{{1,3}}|"
         rf"{SIGNS}[\r\n/]*|{SPACES}")


def alphabet():
    """The character that stands for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


ALPHABET = alphabet()


def spelled(text):
    return "".join(ALPHABET[byte] for byte in text)


def merges_of(ranks):
    """A file of ranks says which token comes first; the two it is made of are what merging its bytes without itself
    ends with."""
    for token, rank in ranks.items():
        parts = [token[i:i + 1] for i in range(len(token))]
        while len(parts) > 2:
            best, at = min((ranks.get(parts[i] + parts[i + 1], rank), i) for i in range(len(parts) - 1))
            if best >= rank:
                raise SystemExit(f"token {rank} can't be made of earlier ones")
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            yield [spelled(parts[0]), spelled(parts[1])]


def byte_level(vocabulary, merges, cuts, specials=()):
    """cuts: what goes in front of ByteLevel; none: its own expression."""
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": not any(
        cut["type"] == "Split" for cut in cuts)}
    added = [{"id": vocabulary[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for token in specials]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*cuts, level]}, "post_processor": None,
            "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocabulary, "merges": merges}}


def split(expression):
    return [{"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}]


def of_ranks(path, expression):
    lines = (line.split() for line in path.read_text().splitlines() if line.strip())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return byte_level({spelled(token): rank for token, rank in ranks.items()}, list(merges_of(ranks)), split(expression))


def of_gpt2(directory):
    merges = [line.split(" ") for line in (directory / "merges.txt").read_text().splitlines()
              if line and not line.startswith("#version")]
    return byte_level(json.loads((directory / "vocab.json").read_text()), merges, [], ["<|endoftext|>"])


def of_smollm2(path):
    from gguf import GGUFReader
    fields = GGUFReader(path).fields
    contents = {name: fields["tokenizer.ggml." + name].contents() for name in ("tokens", "merges", "token_type")}
    specials = [token for token, kind in zip(contents["tokens"], contents["token_type"]) if kind == 3]
    return byte_level({token: number for number, token in enumerate(contents["tokens"])},
                      [merge.split(" ") for merge in contents["merges"]],
                      [{"type": "Digits", "individual_digits": True}], specials)


def main():
    data, out = pathlib.Path(sys.argv[1]) / "tokenizers", pathlib.Path(sys.argv[2])
    models = {"gpt2": lambda: of_gpt2(data / "gpt2"),
              "cl100k": lambda: of_ranks(data / "tiktoken" / "cl100k_base.tiktoken", CL100K),
              "cl100k-cased": lambda: of_ranks(data / "tiktoken" / "cl100k_base.tiktoken", GPT4O),
              "qwen2": lambda: of_ranks(data / "qwen" / "qwen.tiktoken", QWEN2)}
    if len(sys.argv) > 3:
        models["smollm2"] = lambda: of_smollm2(sys.argv[3])
    for name, make in models.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        (out / name / "tokenizer.json").write_text(json.dumps(make()))
    (out / "phi3").mkdir(exist_ok=True)
    shutil.copy(data / "phi3" / "tokenizer.json", out / "phi3")


if __name__ == "__main__":
    main()
