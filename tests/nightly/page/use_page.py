# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium uses the page of the real troupe with the demo model: a chat with a
store and one without, stop, regenerate, branches, a reload, calls of tools, files, a key, the
live view, and answers that are meant to do harm. Screenshots are left to be looked at."""
import argparse
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import urllib.request

from playwright.sync_api import sync_playwright

from chat_page import ChatPage
from checks import Checks
from markdown_cases import CASES, LONG
from servers import Server, free_port, start_troupe

CITIES = ["Rome", "Oslo"]
TOOLS = json.dumps([{"name": "weather", "description": "Of a city, today", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": CITIES}}, "required": ["city"],
    "additionalProperties": False}}])
NOTES = "Ada was born in London.\n```\ncode\n```\n"

HOSTILE = """Look: <img src=x onerror="window.harmed=true"> <script>window.harmed=true</script>

[a script](javascript:window.harmed=true) and [data](data:text/html,<script>1</script>), ![picture](http://example.invalid/seen.png)

```html
</code></pre><img src=x onerror="window.harmed=true">
```

| a | b |
|---|---|
| <svg onload="window.harmed=true"> | **bold** [good](https://example.org/a_(b)) |
"""


def chat_with_store(check, browser, troupe, results):
    chat = ChatPage(browser, troupe.url, results)
    chat.open()
    chat.wait_for_models()
    answer = chat.say("My name is Ada.")
    check("Ada" in answer, f"the first turn -> {answer!r}")
    answer = chat.say("What is my name?")
    check("Ada" in answer, f"the second turn -> {answer!r}")
    chat.shoot("light")
    kept = chat.page.evaluate("JSON.stringify({...localStorage})")
    check("What is my name?" not in kept, "texts that the server has stored are not in the browser")
    before = chat.questions(), chat.answers()
    chat.page.reload()
    chat.wait_for_turns(2)
    check((chat.questions(), chat.answers()) == before, f"after a reload -> {chat.answers()}")
    interrupted_answers(check, chat, troupe)
    branches(check, chat, troupe)
    chat.shoot("branches")
    forgotten_turn(check, chat, troupe)
    second_chat(check, chat)
    check(not chat.foreign, f"nothing is asked of other hosts: {chat.foreign}")
    check(not chat.complaints, f"the browser does not complain: {chat.complaints}")
    return chat


def interrupted_answers(check, chat, troupe):
    """The page is loaded anew in mid-answer, and the server is killed in mid-answer; in a chat of their own."""
    chat.page.keyboard.press("Alt+n")
    whole = ", ".join(str(number) for number in range(1, 91))
    with troupe.slowed():
        seen = chat.ask_and_see_some("Count from 1 to 90.")
        chat.page.reload()
        chat.wait_until(lambda: chat.answers() and len(chat.answers()[-1]) > len(seen))
        chat.shoot("loaded-anew")
    check(whole in chat.wait_for_end(), f"the page was loaded anew at {seen[-20:]!r} -> {chat.answers()[-1][-20:]!r}")
    with troupe.slowed():
        seen = chat.ask_and_see_some("Count from 1 to 90.")
    was_running = chat.page.locator("#stop").is_visible()
    troupe.kill_and_start_again()
    check(was_running and whole in chat.wait_for_end(), f"the server was killed at {seen[-20:]!r} -> {chat.answers()[-1][-20:]!r}")
    chat.page.locator("#conversations button").first.click()
    chat.page.locator("#conversations a").last.click()
    chat.wait_for_turns(2)


def killed_worker(check, browser, program, model, directory, results):
    """The worker is killed in mid-answer, of a chat with a store and of one without."""
    for store in (f"{directory}/store", "none"):
        with start_troupe(program, model, store, results / "troupe-worker.log", ["--worker-placement", "child"]) as troupe:
            chat = ChatPage(browser, troupe.url, results)
            chat.open()
            chat.wait_for_models()
            with troupe.slowed():
                seen = chat.ask_and_see_some("Count from 1 to 90.")
                was_running = chat.page.locator("#stop").is_visible()
                workers = troupe.children()
                for worker in workers:
                    os.kill(worker, signal.SIGKILL)
                chat.wait_until(lambda: set(troupe.children()) - set(workers))
            whole = ", ".join(str(number) for number in range(1, 91))
            answer = chat.wait_for_end()
            check(len(workers) == 1 and was_running and answer.count(whole) == 1 and "worker lost" in troupe.logged(),
                  f"the worker was killed at {seen[-20:]!r}, store {store != 'none'} -> {answer[-20:]!r}")
            chat.page.get_by_role("link", name="Live").click()
            chat.wait_until(lambda: chat.page.locator(".request").count() >= 1)
            chat.page.locator(".request summary").first.click()
            check("prefill" in chat.page.locator(".request").first.inner_text(), "the time line of its request")
            chat.shoot("worker-killed")


def tools(check, chat, troupe):
    """The model calls a tool, and the person gives its result; the chat is loaded anew and the server forgets it."""
    chat.page.keyboard.press("Alt+n")
    for wrong in ("{", '{"name": "weather"}', '[{"description": "no name"}]'):
        chat.set_tools(wrong, True)
        check(chat.page.locator("dialog[open]").count() == 1, f"these are no tools: {wrong}")
        chat.page.keyboard.press("Escape")
    chat.set_tools(TOOLS, True)
    chat.say("What is the weather in Rome?")
    call = chat.page.get_by_role("region", name="Call of weather")
    made = json.loads(call.first.locator("pre").first.inner_text())
    check(made.get("city") in CITIES, f"a call of the tool -> {made}")
    chat.shoot("call")
    asked = []
    chat.page.on("request", lambda request: asked.append(request.post_data) if request.method == "POST" else None)
    chat.give_result("weather", '{"sky": "clear"}')
    sent = json.loads(asked[-1])
    given = {(item["type"], item["output"]) for item in sent["input"]}
    check(given == {("function_call_output", '{"sky": "clear"}')} and sent["tool_choice"] == "auto",
          f"the result is sent: {sent['input']}")
    check('"sky": "clear"' in call.first.inner_text(), "it is shown with the call")
    chat.shoot("call-with-result")
    kept = chat.page.evaluate("JSON.stringify({...localStorage})")
    check("clear" not in kept, "calls and results that the server has stored are not in the browser")
    shown = chat.page.locator("#turns").inner_text()
    chat.page.reload()
    chat.wait_until(lambda: chat.page.locator("#turns").inner_text() == shown)
    check(True, "after a reload the call and its result are there")
    forget_responses(chat, troupe)
    chat.say("Thanks.")
    types = [item.get("type", item.get("role")) for item in json.loads(asked[-1])["input"]]
    check(types[0] == types[-1] == "user" and "function_call" in types and "function_call_output" in types,
          f"what the server lost is sent again, the call and its result too: {types}")


def files(check, chat):
    chat.page.keyboard.press("Alt+n")
    chat.attach(("notes.txt", NOTES.encode()), ("photo.png", b"\x89PNG\r\n\x1a\n\0\0"), ("void.txt", b""),
                ("large.txt", b"a" * 600_000), ("two bytes.txt", "\ufeffGrüße".encode("utf-16-le")))
    chat.wait_until(lambda: chat.page.locator("#notice:not([hidden])").count() == 1)
    notice = chat.page.locator("#notice").inner_text()
    check(chat.attached() == ["notes.txt", "two bytes.txt"], f"texts are attached -> {chat.attached()}")
    check(all(word in notice for word in ("photo.png is not text", "large.txt is too large", "void.txt is empty")), f"the others are refused: {notice}")
    chat.drop("dropped.csv", "a,b\n1,2\n")
    chat.wait_until(lambda: len(chat.attached()) == 3)
    chat.shoot("attached")
    chat.page.get_by_role("button", name="Remove two bytes.txt").click()
    check(chat.attached() == ["notes.txt", "dropped.csv"], "a file is taken off again")
    asked = []
    chat.page.on("request", lambda request: asked.append(request.post_data) if request.method == "POST" else None)
    chat.page.locator("#question").fill("Where was Ada born?")
    chat.page.keyboard.press("Enter")
    chat.page.wait_for_selector("#send", timeout=120_000)
    text = json.loads(asked[-1])["input"][0]["content"]
    check(text == f"[File: notes.txt]\n````\n{NOTES}\n````\n\n[File: dropped.csv]\n```\na,b\n1,2\n\n```\n\nWhere was Ada born?",
          f"their texts go with the question: {text!r}")
    chat.page.reload()
    chat.wait_until(lambda: chat.page.locator(".file").count() == 2)
    question = chat.page.locator(".question").last
    check(question.inner_text().endswith("Where was Ada born?") and chat.attached() == [], "after a reload they are files again")
    chat.page.locator(".file summary").first.click()
    check(chat.page.locator(".file pre").first.inner_text() == NOTES, "with their texts")
    chat.shoot("files")


def branches(check, chat, troupe):
    answer = chat.regenerate()
    check("Ada" in answer and chat.page.get_by_text("2/2").count() == 1, f"regenerated -> {answer!r}")
    answer = chat.edit_last("Spell the word cat.")
    check(re.search(r"(?i)c\W+a\W+t", answer) and chat.page.get_by_text("3/3").count() == 1, f"edited -> {answer!r}")
    chat.page.get_by_label("Earlier version").click()
    check(chat.questions()[-1] == "What is my name?" and "Ada" in chat.answers()[-1], "the branch before it is there")
    with troupe.slowed():
        cut = chat.ask_and_stop("Count from 1 to 120.")
    check(re.match(r"1, 2\b", cut) and "100" not in cut, f"stopped -> {cut!r}")
    chat.wait_until(lambda: "end=cancelled" in troupe.logged())
    check(True, "the server heard of the stop")
    chat.page.reload()
    chat.wait_for_turns(3)
    check(chat.answers()[-1] == cut, "the stopped answer is kept by the browser")
    answer = chat.say("What is my name?")
    check("Ada" in answer, f"after the stop -> {answer!r}")


def forgotten_turn(check, chat, troupe):
    """The server loses a response that the conversation continues."""
    forget_responses(chat, troupe)
    answer = chat.say("What is my name?")
    check("Ada" in answer, f"the texts that the page has take the place of what the server lost -> {answer!r}")


def forget_responses(chat, troupe):
    """The stored responses of all conversations."""
    kept = json.loads(chat.page.evaluate("JSON.stringify(Object.entries(localStorage))"))
    conversations = [json.loads(value) for name, value in kept if name.startswith("troupe.conversation.")]
    for turn in (turn for conversation in conversations for turn in conversation["turns"].values()):
        if turn["responseId"]:
            urllib.request.urlopen(urllib.request.Request(f"{troupe.url}/v1/responses/{turn['responseId']}", method="DELETE")).close()


def second_chat(check, chat):
    chat.page.keyboard.press("Alt+n")
    answer = chat.say("What is my name?")
    check("Ada" not in answer and len(chat.conversations()) == 2, f"in another chat -> {answer!r}")
    chat.page.locator("#conversations a").last.click()
    chat.wait_for_turns(5)
    check(chat.questions()[0] == "My name is Ada.", "the first chat opens again")
    chat.page.locator("#conversations button").last.click()
    chat.wait_until(lambda: len(chat.conversations()) == 1)
    check(not chat.problems() and len(chat.dialogs) == 2, f"it is deleted, after a question: {chat.problems()} {chat.dialogs}")


def settings(check, chat):
    chat.page.keyboard.press("Alt+n")
    chat.page.get_by_role("button", name="Settings").click()
    chat.page.get_by_label("Most tokens").fill("3")
    chat.page.get_by_label("System prompt").fill("Be brief.")
    chat.shoot("settings")
    asked = []
    chat.page.on("request", lambda request: asked.append(request.post_data) if request.method == "POST" else None)
    chat.page.get_by_role("button", name="Done").click()
    chat.say("Count from 3 to 70.")
    body = json.loads(asked[-1])
    check(body["max_output_tokens"] == 3 and body["instructions"] == "Be brief.", f"settings are sent: {asked[-1]}")
    check(chat.page.locator(".turn .state").inner_text().startswith("Cut off"), "an answer that was cut off says so")


def live_view(check, chat):
    chat.page.get_by_role("link", name="Live").click()
    chat.page.wait_for_selector(".panel path[d*=L]", state="attached")
    chat.wait_until(lambda: chat.page.locator("#live td").count() >= 10)
    text = chat.page.locator("#live").inner_text()
    check(all(word in text for word in ("generated", "running", "waiting", "sequences", "device", "host", "disk", "up")), "the live view")
    chat.wait_until(lambda: chat.page.locator(".request").count() >= 5)
    chat.shoot("live")
    request = chat.page.locator(".request").first
    request.locator("summary").focus()
    chat.page.keyboard.press("Enter")
    check(all(word in request.inner_text() for word in ("ended at", "prompt tokens", "queue", "prefill", "decode")), "the time line of a request")
    number = chat.page.locator(".request").count()
    chat.page.wait_for_timeout(4500)
    check(chat.page.locator(".request").count() == number and request.get_attribute("open") is not None,
          "it stays open, and no request is shown twice")
    chat.page.get_by_label("Where lines begin").select_option("clock")
    request.scroll_into_view_if_needed()
    chat.shoot("time-lines")
    chat.page.set_viewport_size({"width": 390, "height": 844})
    chat.shoot("live-phone")
    request.scroll_into_view_if_needed()
    chat.shoot("time-lines-phone")
    width = chat.page.evaluate("document.documentElement.scrollWidth")
    check(width <= 390, f"a phone need not scroll sideways: {width}")
    check(not chat.complaints, f"the browser does not complain: {chat.complaints}")


def hostile_answers(check, browser, troupe, results):
    """The server's answer is replaced by one that tries to run scripts."""
    def events(route):
        response = {"id": "resp_1", "store": False}
        parts = [{"type": "response.output_text.delta", "delta": HOSTILE[at:at + 7]} for at in range(0, len(HOSTILE), 7)]
        call = {"type": "function_call", "call_id": "call_1", "name": "<img src=x onerror=window.harmed=true>", "arguments": ""}
        parts.append({"type": "response.output_item.added", "output_index": 1, "item": call})
        parts.append({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "<svg onload=window.harmed=true>"})
        parts.append({"type": "response.completed", "response": response})
        route.fulfill(content_type="text/event-stream", body="".join(f"data: {json.dumps(part)}\n\n" for part in parts))
    for scheme in ("light", "dark"):
        chat = ChatPage(browser, troupe.url, results, color_scheme=scheme)
        chat.page.route("**/v1/responses", events)
        chat.open()
        chat.wait_for_models()
        chat.attach(("<img src=x onerror=window.harmed=true>.txt", b"</pre><script>window.harmed=true</script>"))
        chat.wait_until(lambda: len(chat.attached()) == 1)
        chat.say("<img src=x onerror=\"window.harmed=true\">")
        chat.shoot(f"hostile-{scheme}")
        chat.page.wait_for_timeout(300)
        turns = chat.page.locator("#turns")
        check(chat.page.evaluate("window.harmed") is None, "no script of an answer runs")
        check(turns.locator("img, script, svg, iframe").count() == 0, "an answer makes no elements but markdown's")
        links = [link.get_attribute("href") for link in turns.locator("a").all()]
        check(links == ["http://example.invalid/seen.png", "https://example.org/a_(b)"], f"links -> {links}")
        check("<svg onload=" in turns.inner_text(), "HTML is shown as it was written")
        check(not chat.foreign, f"no picture is fetched: {chat.foreign}")
        refused = chat.page.evaluate("""() => { try { document.body.innerHTML = '<i></i>'; return false; }
            catch { return true; } }""")
        check(refused, "the browser refuses HTML from scripts")


def markdown(check, browser, troupe, results):
    page = ChatPage(browser, troupe.url, results)
    page.open()
    shown = """async (text) => {
        const { showMarkdown } = await import("/page/markdown.js");
        const box = document.createElement("div");
        for (const part of [text.slice(0, text.length / 2), text]) showMarkdown(box, part);
        return [box.innerHTML, box.textContent.length]; }"""
    for text, expected in CASES:
        html = page.page.evaluate(shown, text)[0]
        check(html == expected, f"Markdown {text!r}" + ("" if html == expected else f" -> {html!r}"))
    for text in LONG:
        check(page.page.evaluate(shown, text)[1] > 0 or set(text) <= set("> -"), f"Markdown {text[:12]!r}… of {len(text)} characters")


def without_store(check, browser, program, model, results):
    port = free_port()
    command = [program, "serve", "--model", model, "--port", str(port), "--memory", "512MiB", "--store-directory", "none",
               "--api-key", "secret"]
    reasoning = [{"delta": {"reasoning_content": "First I **think**."}}, {"delta": {"content": "Then I speak."}},
                 {"delta": {}, "finish_reason": "stop"}]
    with Server(command, port, "/ready", results / "troupe-key.log") as troupe:
        chat = ChatPage(browser, troupe.url, results, color_scheme="dark", has_touch=True)
        chat.page.set_viewport_size({"width": 390, "height": 844})
        chat.open()
        chat.page.get_by_label("API key").fill("schlüssel-€")
        chat.page.keyboard.press("Enter")
        chat.page.get_by_text("signs of ASCII").wait_for()
        chat.page.get_by_label("API key").fill("wrong")
        chat.page.keyboard.press("Enter")
        chat.page.get_by_text("is not known").wait_for()
        chat.shoot("key-phone")
        chat.page.get_by_label("API key").fill("secret")
        chat.page.keyboard.press("Enter")
        chat.wait_for_models()
        chat.say("My name is Ada.")
        answer = chat.say("What is my name?")
        check("Ada" in answer, f"without a store, with a key -> {answer!r}")
        chat.page.reload()
        chat.wait_for_turns(2)
        check("Ada" in chat.answers()[-1], "a reload keeps the conversation and the key")
        tools_without_store(check, chat)
        chat.page.route("**/v1/chat/completions", lambda route: route.fulfill(
            content_type="text/event-stream",
            body="".join(f"data: {json.dumps({'choices': [choice]})}\n\n" for choice in reasoning) + "data: [DONE]\n\n"))
        answer = chat.say("Think.")
        folded = chat.page.locator(".turn").last.locator("details")
        check(answer == "Then I speak." and folded.get_attribute("open") is None, "reasoning is folded")
        folded.locator("summary").click()
        check(folded.locator("strong").inner_text() == "think", "and unfolds")
        chat.shoot("dark-phone")
        chat.page.get_by_label("Conversations").first.click()
        chat.page.wait_for_timeout(200)
        chat.shoot("list-phone")
        width = chat.page.evaluate("document.documentElement.scrollWidth")
        check(width <= 390, f"a phone need not scroll sideways: {width}")


def tools_without_store(check, chat):
    chat.set_tools(TOOLS, True)
    chat.say("What is the weather in Oslo?")
    asked = []
    chat.page.on("request", lambda request: asked.append(request.post_data) if request.method == "POST" else None)
    chat.give_result("weather", "clear")
    messages = json.loads(asked[-1])["messages"]
    calls = [call["id"] for message in messages for call in message.get("tool_calls", [])]
    results = [message["tool_call_id"] for message in messages if message["role"] == "tool" and message["content"] == "clear"]
    check(calls and calls == results, f"without a store calls and results are in the messages: {messages[-2:]}")
    chat.shoot("call-phone")
    chat.page.reload()
    chat.wait_until(lambda: chat.page.get_by_role("region", name="Call of weather").count() == len(calls))
    check("clear" in chat.page.get_by_role("region", name="Call of weather").last.inner_text(), "after a reload they are there")
    chat.set_tools("", False)


def main():
    arguments = argparse.ArgumentParser()
    for name in ("--results", "--troupe", "--model"):
        arguments.add_argument(name, required=True)
    arguments.add_argument("--chromium", default="/usr/bin/chromium")
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server ends too
    results = pathlib.Path(options.results)
    check = Checks()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright, \
            start_troupe(options.troupe, options.model, f"{name}/troupe", results / "troupe.log") as troupe:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        chat = chat_with_store(check, browser, troupe, results)
        tools(check, chat, troupe)
        files(check, chat)
        settings(check, chat)
        live_view(check, chat)
        hostile_answers(check, browser, troupe, results)
        markdown(check, browser, troupe, results)
        without_store(check, browser, options.troupe, options.model, results)
        killed_worker(check, browser, options.troupe, options.model, name, results)
        browser.close()
    return 0 if check.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
