#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the shell blocks of README.md against a built server: run_readme.py TROUPE

./scripts/serve and ./scripts/test install and build, so their place is taken: a server with configs/demo.toml runs
already, on a port of its own, and a command line of scripts/serve is seen to serve for some seconds. The blocks of other
languages need packages that a build machine lacks; the model and the address in them must be the server's.
"""
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "tests/lint"))
import check_documents  # noqa: E402
import live_server  # noqa: E402

EXPECTED = {"curl": '"content":', "inspect": "supported", "generate": "c-a-t", "--help": "--max-waiting"}
STILL_SERVES = 124  # of timeout


def command_to_run(command, troupe, url):
    """None: nothing to run."""
    if re.match(r"\./scripts/(test|serve)$", command):
        return None
    command = command.replace("--model smollm2", "--model models/demo")  # which scripts/get-model would fetch
    command = command.replace("http://127.0.0.1:8000", url).replace("build/release/app/troupe", shlex.quote(troupe))
    return re.sub(r"^\./scripts/serve\b(.*)", rf"timeout 4 {shlex.quote(troupe)} serve \1 --port 0 --store-directory none",
                  command)


def problems_of(content, troupe, url):
    joined = re.sub(r"'[^']*'", lambda quoted: quoted[0].replace("\n", " "), content)
    for command in check_documents.shell_commands(joined):
        script = command_to_run(command, troupe, url)
        if script is None:
            continue
        result = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
        wanted = next((text for word, text in EXPECTED.items() if word in command), "")
        status = STILL_SERVES if command.startswith("./scripts/serve") else 0
        if result.returncode != status or wanted not in result.stdout:
            yield f"{command}\n  exit status {result.returncode}, expected {wanted!r} in: {result.stdout}{result.stderr}"


def main():
    troupe = str(pathlib.Path(sys.argv[1]).resolve())
    text = (ROOT / "README.md").read_text()
    problems = []
    with live_server.Server(troupe, ["--config", ROOT / "configs/demo.toml", "--model-name", "troupe-demo"]) as server:
        for language, _, content in check_documents.blocks(text):
            if language in ("sh", "bash"):
                problems += problems_of(content, troupe, server.url)
        served = re.findall(r'"id":\s*"([^"]+)"', server.text("/v1/models"))
    for model in re.findall(r'model(?:=|": |: )"([^"]+)"', text):
        if model not in served:
            problems.append(f"README.md: no model {model}; the server has {served}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
