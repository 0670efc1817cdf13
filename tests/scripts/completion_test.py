#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Man pages and completion have every command and option that --help has: completion_test.py TROUPE LOADGEN"""
import pathlib
import re
import subprocess
import sys
import tempfile

# Completes the words behind the script's name, and prints what is offered, a line each.
IN_BASH = """
source "$1"; shift
compopt() { :; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def commands_of(program):
    listed = re.split(r"(?i)\n(?:subcommands|commands):\n", output(program, "--help"))[1]
    return re.findall(r"(?m)^  ([a-z]+)\s", listed)


def options_of(program, command):
    """As the help lists them: first in their lines."""
    return re.findall(r"(?m)^  (?:-\w,)?(--[a-z][\w-]*)", output(program, command, "--help"))


def completed(script, *words):
    return output("bash", "-c", IN_BASH, "bash", script, *words).split()


def unescaped(page):
    return re.sub(r"\\f[BIR]", "", page).replace("\\-", "-")


def check_program(program, folder):
    name = pathlib.Path(program).name
    page = unescaped(output(program, "man"))
    scripts = {shell: output(program, "completion", shell) for shell in ("bash", "zsh", "fish")}
    bash = str(pathlib.Path(folder) / name)
    pathlib.Path(bash).write_text(scripts["bash"])
    commands = commands_of(program)
    assert {"completion", "man"} < set(commands), commands
    assert set(commands) <= set(completed(bash, name, "")), completed(bash, name, "")
    num_options = 0
    for command in commands:
        options = options_of(program, command)
        assert "--help" in options, (command, options)
        text = page.split(f".SS {name} {command}\n")[1].split("\n.S")[0]
        offered = completed(bash, name, command, "-")
        zsh = scripts["zsh"].split(f"\n        {command}) _arguments")[1].split(";;\n")[0]
        fish = [line for line in scripts["fish"].splitlines() if f"__fish_seen_subcommand_from {command}'" in line]
        for option in options:
            where = (name, command, option)
            assert re.search(rf"{option}(?![\w-])", text), where
            assert option in offered, where
            assert re.search(rf"\*{option}=?\[", zsh), where
            assert any(f" -l {option[2:]} " in line for line in fish), where
        num_options += len(options)
    assert "bash" in completed(bash, name, "completion", "")
    for wrong in (["completion"], ["completion", "tcsh"]):
        assert subprocess.run([program, *wrong], capture_output=True, timeout=60).returncode != 0, wrong
    return num_options


def main():
    troupe, loadgen = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        counts = [check_program(program, folder) for program in (troupe, loadgen)]
        assert min(counts) > 50, counts
        script = str(pathlib.Path(folder) / "troupe")
        assert completed(script, "troupe", "serve", "--log-format", "") == ["text", "json"]
        assert completed(script, "troupe", "serve", "--log-format", "=", "j") == ["json"]
        assert completed(script, "troupe", "serve", "--port", "") == []
        file = pathlib.Path(folder) / "some.toml"
        file.touch()
        assert completed(script, "troupe", "serve", "--config", str(file)[:-3]) == [str(file)]
    print(f"{sum(counts)} options")


main()
