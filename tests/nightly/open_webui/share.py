# SPDX-License-Identifier: Apache-2.0
"""Two people share a real Open WebUI over one troupe with three models: the demo model, SmolLM2, and MiniLM, which embeds.
They ask at the same time; SmolLM2 gives chats titles and follow-ups, calls a built-in tool and is answered, and is asked about a
document, of which MiniLM finds the right part. Screenshots are left to be looked at."""
import argparse
import json
import pathlib
import signal
import sys
import tempfile

from playwright.sync_api import sync_playwright

from administration import Administration
from checks import Checks
from page import ChatPage
from servers import start_open_webui, start_troupe

TOOL = "get_current_timestamp"
# With rows in 8 bits SmolLM2 at temperature 0 names the capital of France "L'Étoile", here as in llama.cpp.
EXACT = ["--activations", "exact"]
NUM_ROUNDS = 1  # of calls: so small a model makes them only where it must, and then again after each result
# So small a model writes no JSON unasked: titles, tags and follow-ups are bound to a form, which is Open WebUI's setting.
SIDE_REQUESTS = {"temperature": 0, "max_tokens": 200, "response_format": {"type": "json_schema", "json_schema": {
    "name": "side", "strict": True, "schema": {
        "type": "object", "additionalProperties": False, "required": ["title", "tags", "follow_ups"],
        "properties": {"title": {"type": "string", "maxLength": 40},
                       "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 2},
                       "follow_ups": {"type": "array", "items": {"type": "string", "maxLength": 60}, "minItems": 2,
                                      "maxItems": 3}}}}}}
# One part of it has the answer; all of it is more than goes into a prompt.
ANSWER = "The lighthouse of Port Ellery was painted green in 1931 by Agnes Thorne, who used nine barrels of paint."
SUBJECTS = ("bakery", "railway", "library", "market", "harbour office", "post office", "school", "windmill", "theatre",
            "brewery")
FILLER = ("The {0} of Port Ellery opens at eight in the morning. People who work in the {0} come from the villages around. "
          "In winter the {0} is closed on Mondays, and a notice on the door of the {0} says so. ")


def document():
    parts = ["# {}\n{}".format(subject.title(), FILLER.format(subject) * 4) for subject in SUBJECTS]
    parts.insert(7, f"# Lighthouse\n{ANSWER}")
    return "\n\n".join(parts)


def ask_at_once(check, ada, bob):
    """Each is known by name, in a chat that the other's does not touch."""
    people = {"Ada": ada, "Bob": bob}
    for turn, (question, expected) in enumerate((("My name is {}.", "{}"), ("Count from 3 to 40.", "38, 39, 40"),
                                                 ("What is my name?", "{}")), 1):
        for name, chat in people.items():
            chat.type(question.format(name))
        for name, chat in people.items():
            answer = chat.wait_for_answer(turn)
            check(expected.format(name) in answer, f"{name}, {question} -> {answer[-40:]!r}")
    for name, chat in people.items():
        chat.shoot(f"at-once-{name}")


def titles_and_follow_ups(check, chat):
    chat.begin_chat_with("plain")
    answer = chat.say("What is the capital of France?")
    check("Paris" in answer, f"SmolLM2 -> {answer!r}")
    check(chat.wait_for_title(), f"the chat's title: {chat.title()!r}")
    follow_ups = chat.wait_for_follow_ups()
    check(follow_ups, f"follow-ups: {follow_ups}")
    chat.shoot("title-and-follow-ups")
    answer = chat.choose_follow_up(0)
    check(answer, f"{follow_ups[0]!r} -> {answer[:80]!r}")
    chat.shoot("followed-up")


def call_a_tool(check, chat, troupe):
    chat.begin_chat_with("clock")
    before = troupe.logged().count("end=stop")
    chat.type("What time is it?")
    check(chat.wait_until(lambda: f"Exploring {NUM_ROUNDS + 1} {TOOL}" in "".join(chat.answers())),
          f"a built-in tool is called, its result is sent, and it is called again: {chat.answers()}")
    check(chat.wait_until(lambda: troupe.logged().count("end=stop") >= before + NUM_ROUNDS + 1), "the model answered twice")
    errors = chat.errors()
    check(all("Tool-call limit reached" in error for error in errors), f"and nothing else is wrong than the limit: {errors}")
    chat.shoot("tool")


def ask_about_a_document(check, chat, troupe, directory):
    path = pathlib.Path(directory, "port-ellery.md")
    path.write_text(document(), encoding="utf-8")
    chat.begin_chat_with("plain")
    chat.attach(path)
    answer = chat.say("Who painted the lighthouse of Port Ellery?")
    check("Agnes" in answer, f"of a document -> {answer!r}")
    check("route=/v1/embeddings status=200" in troupe.logged(), "parts and question were embedded here")
    chat.shoot("document")


def main():
    arguments = argparse.ArgumentParser()
    for name in ("--venv", "--results", "--troupe", "--model", "--smollm2", "--minilm"):
        arguments.add_argument(name, required=True)
    arguments.add_argument("--chromium", default="/usr/bin/chromium")
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers end too
    results = pathlib.Path(options.results)
    check = Checks()
    shared = {"WEBUI_AUTH": "True", "BYPASS_MODEL_ACCESS_CONTROL": "True", "RAG_EMBEDDING_MODEL": "minilm",
              "ENABLE_RETRIEVAL_QUERY_GENERATION": "False",
              "CHAT_RESPONSE_MAX_TOOL_CALL_ITERATIONS": str(NUM_ROUNDS), "TASK_MODEL_PARAMS": json.dumps(SIDE_REQUESTS)}
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright, \
            start_troupe(options.troupe, options.model, f"{name}/troupe", results / "troupe-shared.log",
                         ["--model", options.smollm2, "--model-name", "smollm2", "--model", options.minilm,
                          "--model-name", "minilm", *EXACT], memory="1500MiB") as troupe, \
            start_open_webui(options.venv, troupe, f"{name}/webui", results / "open-webui-shared.log", shared) as webui:
        administration = Administration(webui.url)
        administration.add_model("plain", "smollm2")
        administration.add_model("clock", "smollm2", ["time"], tool_choice={"type": "function", "function": {"name": TOOL}})
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        ada, bob = (ChatPage.signed_in(browser, webui.url, administration.add_person(person), results / person.lower())
                    for person in ("Ada", "Bob"))
        try:
            ask_at_once(check, ada, bob)
            titles_and_follow_ups(check, ada)
            call_a_tool(check, ada, troupe)
            ask_about_a_document(check, bob, troupe, name)
        except Exception:
            ada.shoot("failed")
            bob.shoot("failed")
            raise
        finally:
            browser.close()
    return 0 if check.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
