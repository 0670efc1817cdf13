#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds our grammars against llguidance's: drawn answers, and what a few changed characters make of them,
are judged by both, and where they differ by jsonschema. A text that we take must be right; one that is right
and that only llguidance takes must fall under a restriction that has a name below."""
import argparse
import collections
import json
import random
import re
import subprocess
import sys

import llguidance

import validate

# Right texts that our grammars leave out, so that an answer is short and can be read by any client.
RESTRICTIONS = {
    "constants are written compactly": lambda schema, text: '"enum"' in schema or '"const"' in schema,
    "formats are narrower": lambda schema, text: '"format"' in schema,
    "keys have one spelling": lambda schema, text: '"additionalProperties"' in schema and "\\" in text,
    "spaces stand behind colons and commas": lambda schema, text: re.search(r"[\[{] | [\]},:]", text),
    "zero has no sign": lambda schema, text: re.search(r"-0(?![.0-9])", text),
    "numbers have few digits": lambda schema, text: re.search(r"[0-9]{16}|[0-9][eE][+-]?[0-9]{3}", text),
}
PIECES = ['"', "{", "}", "[", "]", ",", ":", " ", "\n", "0", "1", "-", ".", "e", "a", "Z", "\\", "/", "null",
          "true", "é", "\\u00e9", "\\ud800", "\t", "_"]


def changed(text, chance):
    for _ in range(chance.randint(1, 2)):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.randint(0, 2))
        text = text[:at] + chance.choice(["", chance.choice(PIECES)]) + text[end:]
    return text


def spelled_otherwise(line, chance):
    """The same value with other spaces or escapes, or its members in another order."""
    if line["kind"] != "schema":
        return changed(line["text"], chance)
    value = json.loads(line["text"])
    if isinstance(value, dict) and chance.random() < 0.5:
        members = list(value.items())
        chance.shuffle(members)
        value = dict(members)
    return json.dumps(value, indent=chance.choice([None, 1]), ensure_ascii=chance.random() < 0.5,
                      separators=chance.choice([(",", ":"), (", ", ": ")]))


class Oracle:
    def __init__(self):
        self.tokenizer = llguidance.LLTokenizer("byte")
        self.grammars = {}

    def accepts(self, line):
        """None: llguidance refuses the grammar."""
        key = json.dumps(line.get("schema", line.get("pattern")))
        if key not in self.grammars:
            self.grammars[key] = self.grammar(line)
        if self.grammars[key] is None:
            return None
        matcher = llguidance.LLMatcher(self.tokenizer, self.grammars[key])
        data = line["text"].encode("utf-8", "surrogatepass")
        return matcher.try_consume_tokens(list(data)) == len(data) and matcher.is_accepting()

    def grammar(self, line):
        if line["kind"] == "regex":
            grammar = llguidance.LLMatcher.grammar_from_regex(line["pattern"])
        else:
            # As ours: one space at most behind a colon or a comma, nothing beside named properties.
            schema = json.dumps(closed(line["schema"]) | {"x-guidance": {"whitespace_pattern": "( )?"}})
            grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)
        problem = llguidance.LLMatcher.validate_grammar(grammar, self.tokenizer)
        return None if problem else grammar


def closed(schema):
    """Objects whose schema names properties have no others unless it says so: our reading."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: value if key in ("enum", "const") else closed(value) for key, value in schema.items()}
    if ("properties" in out or "required" in out) and "additionalProperties" not in out and "allOf" not in out:
        if isinstance(out.get("properties", {}), dict) and isinstance(out.get("required", []), list):
            out["additionalProperties"] = False
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("answers", help="lines of bench_grammar_answers draw")
    parser.add_argument("--judge", required=True, help="the program bench_grammar_answers")
    parser.add_argument("--count", type=int, default=20000)
    arguments = parser.parse_args()
    chance, lines = random.Random(1), []
    with open(arguments.answers, encoding="utf-8") as file:
        for text in file:
            line = json.loads(text)
            if line["kind"] not in ("schema", "regex") or len(line["text"]) > 400:
                continue
            for change in (lambda one: one["text"], lambda one: changed(one["text"], chance),
                           lambda one: spelled_otherwise(one, chance)):
                lines.append(line | {"text": change(line)})
            if len(lines) >= arguments.count:
                break
    given = "\n".join(json.dumps(line) for line in lines) + "\n"
    ours = subprocess.run([arguments.judge, "judge"], input=given, capture_output=True, text=True,
                          check=True).stdout.split()
    oracle, counts = Oracle(), collections.Counter()
    judge, num_wrong = validate.Judge(), 0
    for line, mine in zip(lines, ours, strict=True):
        theirs = oracle.accepts(line)
        verdict = difference(line, mine, theirs, judge)
        counts[verdict] += 1
        if verdict.startswith("WRONG"):
            num_wrong += 1
            print(verdict, json.dumps(line, ensure_ascii=False))
    for verdict, count in sorted(counts.items()):
        print(f"{count:7}  {verdict}")
    return 1 if num_wrong else 0


def difference(line, mine, theirs, judge):
    if mine == "?" or theirs is None:
        return "refused by " + ("us" if mine == "?" else "llguidance")
    if (mine == "1") == theirs:
        return "both " + ("take it" if theirs else "leave it out")
    try:
        is_right = judge.accepts(validate.parsed(json.dumps(line)))
    except ValueError:
        is_right = False
    if mine == "1":
        return "llguidance leaves out what is right" if is_right else "WRONG: we take it"
    if not is_right:
        return "llguidance takes what is wrong"
    schema = json.dumps(line.get("schema", {}))
    names = [name for name, is_so in RESTRICTIONS.items() if is_so(schema, line["text"])]
    return f"we leave it out: {names[0]}" if names else "WRONG: we leave out what is right"


if __name__ == "__main__":
    sys.exit(main())
