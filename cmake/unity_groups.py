#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sorts C++ sources of targets into groups that can be compiled as one file each.

    unity_groups.py ROOT LARGEST SOURCES OUTPUT

reads "TARGET FOLDER SOURCE" a line, with tabs between, and writes "TARGET GROUP SOURCE" a line, if that is not what
OUTPUT says already, and OUTPUT.d: every file that was read, as rules of make.

Files of one group share one unnamed namespace, so none may declare, for itself, a name
that another declares, or that a header of ours declares which only the other includes. An
alias may be declared again, if it is for the same, and a namespace that has the name of its
file keeps its names to itself.
A source has one group in a folder of CMake's, so targets of one that share sources are sorted as one: each
has a part of each group.
Names are read off the text by a scanner that rather sees too many than too few.
"""

import dataclasses
import functools
import pathlib
import re
import sys

NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])\'(?:[^\'\\\n]|\\.)+\'',
    re.S,
)
OUR_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
MACRO = re.compile(r"^\s*#\s*define\s+(\w+)", re.M)
DIRECTIVE = re.compile(r"^\s*#(?:[^\n\\]|\\.|\\\n)*", re.M)
NAMESPACE = re.compile(r"^(?:inline\s+)?namespace\b(?!.*=)", re.S)
USING = re.compile(r"^using\s+(?!namespace\b)[^=]*?(\w+)$")
UNNAMED = re.compile(r"^namespace$")
NO_NAMES = frozenset(
    """TEST_CASE TEST_CASE_TEMPLATE TEST_SUITE alignas auto bool char class const constexpr decltype double enum final float int long
    noexcept override requires short signed static static_assert struct union unsigned void __attribute__""".split()
)
# Of a declaration's outside, where brackets are empty (outside_of): attributes, and the names that it gives.
ATTRIBUTES = r"(?:(?:\[\]|(?:alignas|__attribute__)\s*\(\))\s*)*"
TEMPLATE = re.compile(r"^(?:template\s*<>\s*)+")
MEMBER = re.compile(r"[\w>]::~?\w+\s*\(|\boperator\b")
TYPE = re.compile(r"\b(?:struct|class|enum(?:\s+(?:class|struct))?|union|concept)\s+" + ATTRIBUTES + r"(\w+)(\s+final)?(\s*:(?!:))?")
FUNCTION = re.compile(r"(?<![:\w])(\w+)\s*\((?!\)\s*[(\[])")
VARIABLE = re.compile(r"(\w+)\s*(?:\[\]\s*)*$")
NEXT_DECLARATOR = re.compile(r"^[*&\s]*(?:const\s+)?(\w+)\s*(?:[=({\[]|$)")
# Of the whole declaration.
ALIAS = re.compile(r"^(?:template\s*<.*>\s*)?(?:using|namespace)\s+(\w+)\s*=", re.S)
POINTER = re.compile(r"\(\s*(?:\w+::)*[*&]+\s*(?:const\s+)?(\w+)\s*(?:\[[^\]]*\]|\([^()]*\))*\)\s*[(\[]")
BINDINGS = re.compile(r"\bauto\s*(?:const\s*)?[&\s]*\[(?!\[)([^\]]*)\]")
UNSCOPED_ENUM = re.compile(r"^(?:typedef\s+)?enum\b(?!\s+(?:class|struct)\b)")
ENUMERATOR = re.compile(r"^\s*(\w+)")


def outside_of(code: str) -> str:
    """The code without what its brackets hold. "<" or ">" behind a space is an operator, but for "template <"."""
    closing = {"(": ")", "[": "]", "{": "}", "<": ">"}
    outside: list[str] = []
    ends: list[str] = []  # of the open brackets
    for before, char, after in zip(" " + code, code, code[1:] + " "):
        is_operator = char == "<" and before in " <" and after in " <=" or char == ">" and before in " -"
        if ends and char == ends[-1] and not is_operator:
            ends.pop()
        if not ends:
            outside.append(char)
        if char in closing and not is_operator:
            ends.append(closing[char])
    return "".join(outside)


def names_of(declaration: str) -> set[str]:
    if match := ALIAS.match(declaration):
        return {match.group(1)}
    if declaration.startswith("using "):
        return set()
    first, *others = TEMPLATE.sub("", outside_of(declaration)).split(",")
    first = re.split("=|->", first, maxsplit=1)[0]
    names = set(POINTER.findall(declaration))
    for bindings in BINDINGS.findall(declaration):
        names |= set(re.findall(r"\w+", bindings))
    if not names and MEMBER.search(first):
        return names
    has_bases = False
    for name, _, colon in TYPE.findall(first):
        names.add(name)
        has_bases = has_bases or bool(colon)
    if not has_bases:
        names |= {*FUNCTION.findall(first), *VARIABLE.findall(first)}
        names |= {match.group(1) for other in others if (match := NEXT_DECLARATOR.match(other))}
    return {name for name in names - NO_NAMES if not name[0].isdigit()}


def enumerators_of(enumeration: str) -> set[str]:
    body = enumeration.split("{", 1)[1]
    return {match.group(1) for part in outside_of(body).split(",") if (match := ENUMERATOR.match(part))}


@dataclasses.dataclass
class Names:
    """Names declared outside of every class and function."""

    shared: set[str]  # of the whole program
    private: set[str]  # in an unnamed namespace
    used: set[str]  # of somebody else, by a using declaration
    aliases: dict[str, str]  # for what


def read_names(code: str, stem: str = "") -> Names:
    """Of a file of that name; what is in a namespace of the same name is left out, since it hides all other names."""
    names = Names(set(), set(), set(), {})
    scopes: list[str] = []  # what each open brace is: "unnamed", "namespace", "enum" or "inner"
    start = 0
    declaration = ""
    for match in re.finditer(r"[{};]", code):
        head = code[start : match.start()].strip()
        outside = scopes.count("enum") + scopes.count("inner") == 0
        here = names.private if "unnamed" in scopes or head.startswith("static ") else names.shared
        if outside:  # what comes after a brace may go on: "int a{1}, b{2};"
            declaration = declaration + "{}" + head if head.startswith((",", ")")) else head
        if match.group() == "}":
            if scopes and scopes.pop() == "enum":
                here |= enumerators_of(head)
        elif match.group() == "{":
            if outside and stem and head == f"namespace {stem}":
                scopes.append("inner")
            elif outside and NAMESPACE.match(head):
                scopes.append("unnamed" if UNNAMED.match(head) else "namespace")
            else:
                if outside:
                    here |= names_of(declaration)
                scopes.append("enum" if outside and UNSCOPED_ENUM.match(head) else "inner")
        elif outside:
            here |= names_of(declaration)
            names.used |= set(USING.findall(head))
            if alias := ALIAS.match(declaration):
                names.aliases[alias.group(1)] = " ".join(declaration[alias.end():].split())
        if scopes.count("enum") + scopes.count("inner") == 0:
            start = match.end()
    return names


class Tree:
    """Reads each file of the tree once."""

    def __init__(self, root: pathlib.Path):
        self.root = root

    @functools.cache
    def text(self, path: pathlib.Path) -> str:
        return NOT_CODE.sub(lambda found: " " if found.group()[0] == "/" else '""', path.read_text(encoding="utf-8"))

    @functools.cache
    def raw_includes(self, path: pathlib.Path) -> frozenset[pathlib.Path]:
        names = OUR_INCLUDE.findall(path.read_text(encoding="utf-8"))
        found = (place / name for name in names for place in (path.parent, self.root))
        return frozenset(header for header in found if header.is_file())

    @functools.cache
    def names(self, path: pathlib.Path) -> Names:
        text = self.text(path)
        names = read_names(DIRECTIVE.sub("", text), path.stem)
        names.private |= set(MACRO.findall(text))
        return names

    @functools.cache
    def headers(self, path: pathlib.Path) -> frozenset[pathlib.Path]:
        seen: set[pathlib.Path] = set()
        ahead = [path]
        while ahead:
            for header in self.raw_includes(ahead.pop()) - seen:
                seen.add(header)
                ahead.append(header)
        return frozenset(seen)

    @functools.cache
    def header_names(self, path: pathlib.Path) -> set[str]:
        headers = [self.names(header) for header in self.headers(path)]
        return set().union(*(names.shared | names.private for names in headers))

    @functools.cache
    def own_names(self, path: pathlib.Path) -> set[str]:
        """What is declared in a source for itself alone."""
        names = self.names(path)
        return names.private | (names.shared - self.header_names(path))

    @functools.cache
    def all_names(self, path: pathlib.Path) -> set[str]:
        names = self.names(path)
        return names.shared | names.private | names.used | self.header_names(path)

    def is_same_alias(self, name: str, one: pathlib.Path, other: pathlib.Path) -> bool:
        meaning = self.names(one).aliases.get(name)
        return meaning is not None and meaning == self.names(other).aliases.get(name) and name not in self.header_names(other)

    def clash(self, one: pathlib.Path, other: pathlib.Path) -> bool:
        def one_way(a: pathlib.Path, b: pathlib.Path) -> bool:
            return any(not self.is_same_alias(name, a, b) for name in self.own_names(a) & self.all_names(b))

        return one_way(one, other) or one_way(other, one)


def first_fit(sources: list[pathlib.Path], clashes: dict[pathlib.Path, set[pathlib.Path]], largest: int) -> list[list[pathlib.Path]]:
    groups: list[list[pathlib.Path]] = []
    for source in sources:
        for group in groups:
            if len(group) < largest and clashes[source].isdisjoint(group):
                group.append(source)
                break
        else:
            groups.append([source])
    return groups


def groups_of(tree: Tree, sources: list[pathlib.Path], largest: int) -> list[list[pathlib.Path]]:
    """In the order of sources, so that neighbours share a group; where sources that clash with many come
    too late for that, and more groups come of it, these first."""
    clashes = {one: {other for other in sources if one != other and tree.clash(one, other)} for one in sources}
    in_order = first_fit(sources, clashes, largest)
    hardest_first = first_fit(sorted(sources, key=lambda source: -len(clashes[source])), clashes, largest)
    return min(in_order, hardest_first, key=len)


def write_if_other(path: pathlib.Path, text: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def in_rule(path: object) -> str:
    return str(path).replace(" ", "\\ ").replace("$", "$$")


@dataclasses.dataclass
class Target:
    name: str
    folder: str
    sources: list[pathlib.Path] = dataclasses.field(default_factory=list)

    def shares_with(self, sources: set[pathlib.Path], folder: str) -> bool:
        return self.folder == folder and not sources.isdisjoint(self.sources)


def targets_of(lines: list[str]) -> list[Target]:
    targets: dict[str, Target] = {}
    for line in lines:
        # A build sorts before CMake rereads its lists: one may be of a time when folders were not in it, and have
        # a source that was deleted since.
        name, folder, source_name = line.split("\t", 2) if "\t" in line else (line.split(" ")[0], *line.split(" ", 1))
        if (source := pathlib.Path(source_name).absolute()).is_file():
            targets.setdefault(name, Target(name, folder)).sources.append(source)
    return list(targets.values())


def sorted_together(targets: list[Target]) -> list[list[Target]]:
    """Those of one folder that share sources, or share them with others that do."""
    together: list[list[Target]] = []
    for target in targets:
        joined = [each for each in together
                  if any(target.shares_with(set(other.sources), other.folder) for other in each)]
        together = [each for each in together if each not in joined]
        together.append([*(other for each in joined for other in each), target])
    return together


def lines_of(tree: Tree, targets: list[Target], largest: int) -> list[str]:
    sources = list(dict.fromkeys(source for target in targets for source in target.sources))
    number_of = {source: number for number, group in enumerate(groups_of(tree, sources, largest)) for source in group}
    return [f"{target.name} {number_of[source]} {source}\n" for target in targets
            for source in sorted(target.sources, key=number_of.__getitem__)]


def main() -> None:
    root, largest, listed, output = sys.argv[1:]
    tree = Tree(pathlib.Path(root))
    targets = targets_of(pathlib.Path(listed).read_text(encoding="utf-8").splitlines())
    lines = [line for together in sorted_together(targets) for line in lines_of(tree, together, int(largest))]
    write_if_other(pathlib.Path(output), "".join(lines))
    sources = {source for target in targets for source in target.sources}
    read = sorted({*sources, *(header for source in sources for header in tree.headers(source))})
    write_if_other(pathlib.Path(output + ".d"), f"{in_rule(output)}: " + " ".join(map(in_rule, read)) + "\n")


if __name__ == "__main__":
    main()
