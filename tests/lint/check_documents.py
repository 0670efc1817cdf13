#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks documents and header comments: links, paths, options, lengths, and the openings and words that our voice forbids.

    check_documents.py [--troupe PROGRAM --loadgen PROGRAM]

With the programs, options in the documents must be in their --help.
"""
import argparse
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("actors", "app", "bench", "engine", "gpu", "http", "loadgen", "manual", "policy", "store", "telemetry", "text")
LONGEST = {"README.md": 100, "docs/benchmarks.md": 120, "docs/observability.md": 150, "docs/architecture.md": 120}
OPENING = re.compile(r"(What|Who|Whose|Of|Those|So many|Whether)\b")
# Code is "it"; a person is named by a role: client, operator, caller.
PERSON = re.compile(r"\b(?:who|whom|whoever|nobody|somebody|everybody)\b", re.I)
WHOSE = re.compile(r"\bwhose\b", re.I)
MOST_WHOSE = 147  # in comments of headers: those that are there; none is added
MADE = ("build", "results", "tests/nightly", ".git")  # folders without sources of ours
FOREIGN = {"--enable-feature", "--config.file", "--storage.tsdb.path", "--homepath"}  # other programs' options
SHELL = ("sh", "bash", "")


def documents():
    for file in sorted(ROOT.rglob("*.md")):
        name = str(file.relative_to(ROOT))
        if not name.startswith(tuple(f"{folder}/" for folder in MADE)) and not name.startswith("build-"):
            yield name, file.read_text()


def outside_blocks(text):
    """The text with its fenced blocks emptied, so that lines keep their numbers."""
    return re.sub(r"(?ms)^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text)


def blocks(text):
    """(language, first line's number, content) of every fenced block."""
    for found in re.finditer(r"(?ms)^```(\w*)\n(.*?)^```$", text):
        yield found[1], text.count("\n", 0, found.start()) + 2, found[2]


def anchors(text):
    """As GitHub makes them of headings."""
    for heading in re.findall(r"(?m)^#+ (.*)$", outside_blocks(text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        yield re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def link_problems(name, text):
    body = outside_blocks(text)
    for found in re.finditer(r"\]\(([^)\s]+)\)", body):
        target, _, anchor = found[1].partition("#")
        where = f"{name}:{body.count(chr(10), 0, found.start()) + 1}"
        if re.match(r"\w+:", target):
            continue
        file = (ROOT / name).parent / target if target else ROOT / name
        if not file.exists():
            yield f"{where}: {target} does not exist"
        elif anchor and anchor not in anchors(file.read_text()):
            yield f"{where}: {target or name} has no heading #{anchor}"


def exists(path):
    return (ROOT / path).exists() or any(ROOT.glob(f"{path.rstrip('/')}.*"))


TOPS = FOLDERS + ("configs", "docs", "models", "scripts", "tests")
PATH = r"(?:^|(?<=[\s=`]))(?:\./)?((?:%s)/[\w./-]*\w)" % "|".join(TOPS)


def path_problems(name, text):
    """Paths in `backquotes` and in shell blocks that begin with a folder of ours; a stem stands for its files."""
    body = outside_blocks(text)
    spans = [(found.start(), found[0]) for found in re.finditer(r"`[^`\n]+`", body)]
    for start, span in spans:
        for path in re.findall(PATH, span):
            if not exists(path):
                yield f"{name}:{body.count(chr(10), 0, start) + 1}: {path} does not exist"
    for language, number, content in blocks(text):
        if language in ("sh", "bash"):
            for path in re.findall(PATH, content):
                if not exists(path):
                    yield f"{name}:{number}: {path} does not exist"


def opening_problems(where, prose):
    """Sentences of one paragraph; a question may begin with anything."""
    for found in re.finditer(r"(?:^|(?<=[.!?:;] )|(?<=\*\*))(?:What|Who|Whose|Of|Those|So|Whether)\b[^.?!]*[.?!]?", prose):
        if OPENING.match(found[0]) and not found[0].endswith("?"):
            yield f"{where}: a sentence opens with '{found[0][:40].strip()}'"


def voice_of_document(name, text):
    prose = re.sub(r"\n\|", "\n\n|", outside_blocks(text))
    for paragraph in re.finditer(r"(?s)(?:[^\n]|\n(?!\n|[#*-] |\d+\. ))+", prose):
        number = prose.count("\n\n|", 0, paragraph.start())  # lines that were put in above
        line = prose.count("\n", 0, paragraph.start()) + 1 - number
        for part in paragraph[0].split("|"):
            yield from opening_problems(f"{name}:{line}", re.sub(r"^[\s#*-]+(?:\d+\. )?", "", " ".join(part.split())))


def person_problems(where, prose):
    for found in PERSON.finditer(prose):
        yield f"{where}: '{found[0]}' is said of people; code is 'it'"


def comments_of(text):
    """(line's number, comment, whether it stands beside code) of a header; lines that follow each other are one."""
    block, first = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        if whole := re.match(r"\s*//+\s?(.*)", line):
            if "SPDX" not in line:
                first = first if block else number
                block.append(whole[1])
            continue
        if block:
            yield first, " ".join(block), False
        block = []
        if beside := re.match(r".*\S\s+//\s*(.*)", line):
            yield number, beside[1], True


def voice_of_header(name, text):
    for number, comment, is_beside in comments_of(text):
        where = f"{name}:{number}"
        yield from person_problems(where, comment)
        if not is_beside:
            yield from opening_problems(where, comment)
        elif not comment.startswith("of "):  # "of the model" beside a member is no sentence
            yield from opening_problems(where, comment[:1].upper() + comment[1:])


def whose_problems(texts):
    """Bounds a word in all headers together."""
    count = sum(len(WHOSE.findall(comment)) for text in texts for _, comment, _ in comments_of(text))
    if count > MOST_WHOSE:
        yield f"headers: 'whose' {count} times in comments, at most {MOST_WHOSE}: say what has it"
    elif count < MOST_WHOSE - 10:
        yield f"headers: 'whose' is there {count} times only, which MOST_WHOSE must say"


def shell_commands(content):
    """Lines of a block, joined where one goes on, without comments."""
    for line in re.sub(r"\\\n\s*", "", content).splitlines():
        command = re.sub(r"(^|\s)#.*", "", line).strip()
        if command:
            yield command


def readme_problems():
    text = (ROOT / "README.md").read_text()
    for language, number, content in blocks(text):
        if language not in ("sh", "bash"):
            continue
        checked = subprocess.run(["bash", "-n"], input=content, capture_output=True, text=True)
        if checked.returncode != 0:
            yield f"README.md:{number}: {checked.stderr.strip()}"


@functools.lru_cache(maxsize=None)
def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], capture_output=True, text=True).stdout


@functools.lru_cache(maxsize=None)
def options_of(program, *command):
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", help_of(program, *command)))


def subcommands(program):
    listed = re.split(r"(?i)\n(?:sub)?commands:\n", help_of(program))[1]
    return re.findall(r"(?m)^  (\w+) ", listed)


def known_options(command, programs):
    """Of the program that a command runs; None: not one of ours."""
    words = [word for word in command.split() if not re.match(r"\w+=|nice$|sudo$|\$", word)]
    if not words:
        return None
    base = words[0].rsplit("/", 1)[-1]
    if base in programs:
        named = words[1] if len(words) > 1 and words[1] in subcommands(programs[base]) else None
        return options_of(programs[base], named) if named else options_of(programs[base])
    if base == "serve":
        return options_of(programs["troupe"], "serve")
    script = ROOT / (words[1] if base == "python3" and len(words) > 1 else words[0])
    return script_options(script) if is_script(script) else None


def is_script(file):
    """Whether it is text that an interpreter reads; a program that was built beside the sources is none."""
    if not file.is_file() or file.suffix not in ("", ".py"):
        return False
    with file.open("rb") as opened:
        return file.suffix == ".py" or opened.read(2) == b"#!"


@functools.lru_cache(maxsize=None)
def script_options(script):
    """A script's, and those of the modules beside it."""
    texts = [file.read_text() for file in (script, *script.parent.glob("*.py"))]
    if script.suffix:  # options may be made of other words
        texts.append(help_of(sys.executable, script))
    return {"--help"}.union(*(re.findall(r"--[a-z][\w-]*", text) for text in texts))


def scripts():
    yield from (file for file in (ROOT / "scripts").iterdir() if file.is_file() and not file.suffix)
    yield ROOT / "bench/attack/attack.py"


def option_problems(name, text, programs):
    everywhere = set().union(*(options_of(p, s) for p in programs.values() for s in subcommands(p)),
                             *(script_options(script) for script in scripts()))
    commands = [(number, command) for language, number, content in blocks(text) if language in SHELL
                for command in shell_commands(content)]
    body = outside_blocks(text)
    commands += [(body.count("\n", 0, found.start()) + 1, " ".join(found[1].split()))
                 for found in re.finditer(r"`([^`]*--[a-z][^`]*)`", body)]
    for number, command in commands:
        command = re.split(r" [|&]|[;<>]", command)[0]
        bare = command.startswith("--")
        known = everywhere if bare else known_options(command, programs)
        if known is None:
            continue
        for option in re.findall(r"(?<![\w-])--[a-z][\w.-]*", command):
            if option not in known and option not in FOREIGN:
                yield f"{name}:{number}: no option {option} in `{command[:60]}`"


def length_problems():
    for name, longest in LONGEST.items():
        lines = len((ROOT / name).read_text().splitlines())
        if lines > longest:
            yield f"{name}: {lines} lines, at most {longest}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe")
    parser.add_argument("--loadgen")
    arguments = parser.parse_args()
    problems = [*length_problems(), *readme_problems()]
    names = 0
    for name, text in documents():
        names += 1
        problems += [*link_problems(name, text), *path_problems(name, text), *voice_of_document(name, text)]
        if arguments.troupe and arguments.loadgen:
            programs = {"troupe": arguments.troupe, "troupe-loadgen": arguments.loadgen}
            problems += option_problems(name, text, programs)
    headers = [file for folder in FOLDERS for ending in ("hpp", "cuh")
               for file in sorted((ROOT / folder).rglob(f"*.{ending}"))]
    for file in headers:
        problems += voice_of_header(str(file.relative_to(ROOT)), file.read_text())
    problems += whose_problems(file.read_text() for file in headers)
    for problem in problems:
        print(problem)
    if not (arguments.troupe and arguments.loadgen):
        print("options in documents were not looked at: --troupe and --loadgen name the programs")
    print(f"{names} documents, {len(headers)} headers, {len(problems)} problems")
    return 1 if problems or not names or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
