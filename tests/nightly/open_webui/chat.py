# SPDX-License-Identifier: Apache-2.0
"""Five turns typed into the real Open WebUI by a headless Chromium, answered by the real troupe
with the demo model and judged by meaning; then an answer is regenerated, one is stopped, and a
second chat is begun. Screenshots are left to be looked at."""
import argparse
import pathlib
import re
import signal
import sys
import tempfile

from playwright.sync_api import sync_playwright

from page import ChatPage
from servers import start_open_webui, start_troupe

# What is typed, and what the answer must contain.
TURNS = [
    ("My name is Ada.", r"\bAda\b"),
    ("Count from 3 to 7.", r"3\D+4\D+5\D+6\D+7"),
    ("Spell the word cat.", r"(?i)c\W+a\W+t"),
    ("What is 12 + 7?", r"\b19\b"),
    ("What is my name?", r"\bAda\b"),
]


def check(condition, what):
    print(("ok      " if condition else "WRONG   ") + what, flush=True)
    return bool(condition)


def talk(chat):
    good = True
    for question, expected in TURNS:
        answer = chat.say(question)
        good &= check(re.search(expected, answer), f"{question} -> {answer!r}")
    chat.shoot("five-turns")
    return good


def click_around(chat, troupe):
    good = True
    answer = chat.regenerate()
    good &= check(re.search(r"\bAda\b", answer), f"regenerated -> {answer!r}")
    with troupe.slowed():
        cut = chat.ask_and_stop("Count from 1 to 120.")
    good &= check(re.match(r"1, 2\b", cut) and "100" not in cut, f"stopped -> {cut!r}")
    good &= check("end=cancelled" in troupe.logged(), "the server heard of the stop")
    answer = chat.say("Spell the word dog.")
    good &= check(re.search(r"(?i)d\W+o\W+g", answer), f"after the stop -> {answer!r}")
    chat.shoot("regenerated-and-stopped")
    chat.begin_another_chat()
    answer = chat.say("What is my name?")
    good &= check("Ada" not in answer, f"in another chat -> {answer!r}")
    chat.shoot("another-chat")
    return good


def main():
    arguments = argparse.ArgumentParser()
    for name in ("--venv", "--results", "--troupe", "--model"):
        arguments.add_argument(name, required=True)
    arguments.add_argument("--chromium", default="/usr/bin/chromium")
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers end too
    results = pathlib.Path(options.results)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright, \
            start_troupe(options.troupe, options.model, f"{name}/troupe", results / "troupe.log") as troupe, \
            start_open_webui(options.venv, troupe, f"{name}/webui", results / "open-webui.log") as webui:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        chat = ChatPage(browser.new_page(viewport={"width": 1280, "height": 1000}), results)
        try:
            chat.open(webui.url)
            good = talk(chat) and click_around(chat, troupe)
        except Exception:
            chat.shoot("failed")
            raise
        finally:
            browser.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
