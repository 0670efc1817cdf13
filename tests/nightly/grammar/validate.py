#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads drawn answers (bench/text/grammar_answers.cpp), a line of JSON each, and has them judged by programs
that share nothing with the grammars: jsonschema, Python's own regular expressions and its parser."""
import ast
import collections
import decimal
import json
import re
import sys

import jsonschema


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def parsed(text):
    """Fractions are decimal: 9.03 is a multiple of 0.01."""
    return json.loads(text, parse_constant=refuse_constant, parse_float=decimal.Decimal)


def is_sum(text):
    """Digits, signs and parentheses that Python reads as a calculation, without names and spaces."""
    return re.fullmatch(r"[0-9+*()-]+", text) is not None and ast.parse(text, mode="eval") is not None


def is_list(value):
    return isinstance(value, list) and all(
        is_list(item) or isinstance(item, int) or re.fullmatch("[a-z]*", item) for item in value)


GRAMMARS = [
    is_sum,
    lambda text: is_list(parsed(text)),
    lambda text: re.fullmatch(r"(- [^\n]{1,30}\n){1,5}", text) is not None,
]


class Judge:
    def __init__(self):
        self.validators = {}
        self.tools = {}

    def obeys(self, value, schema):
        key = repr(schema)
        if key not in self.validators:
            kind = jsonschema.Draft202012Validator
            self.validators[key] = kind(schema, format_checker=kind.FORMAT_CHECKER)
        return self.validators[key].is_valid(value)

    def accepts(self, line):
        if line["kind"] == "schema":
            return self.obeys(parsed(line["text"]), line["schema"])
        if line["kind"] == "regex":
            return re.fullmatch(line["pattern"], line["text"]) is not None
        if line["kind"] == "gbnf":
            return GRAMMARS[line["grammar"]](line["text"])
        return self.accepts_calls(line)

    def accepts_calls(self, line):
        calls = line["calls"]
        if line["is_demanded"] and (not calls or line["content"].strip()):
            return False
        if line["is_for_one"] and len(calls) != 1:
            return False
        return all(name in self.tools and line["name"] in ("", name)
                   and self.obeys(parsed(arguments), self.tools[name]) for name, arguments in calls)


def main():
    judge, counts, wrong = Judge(), collections.Counter(), 0
    for text in sys.stdin:
        line = parsed(text)
        if line["kind"] == "tools":
            judge.tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in line["tools"]}
            continue
        counts[line.get("format", line["kind"])] += 1
        try:
            is_right = judge.accepts(line)
        except (ValueError, SyntaxError):
            is_right = False
        if not is_right:
            wrong += 1
            if wrong <= 20:
                print("WRONG", text, end="")
    for kind, count in sorted(counts.items()):
        print(f"{kind:14} {count:7}")
    print(f"{sum(counts.values())} answers, {wrong} wrong")
    return 1 if wrong or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
