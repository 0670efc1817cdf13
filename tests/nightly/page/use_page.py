# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium uses the page of the real troupe with the demo model: a chat with a
store and one without, stop, regenerate, branches, a reload, a key, the live view, and answers
that are meant to do harm. Screenshots are left to be looked at."""
import argparse
import json
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
    kept = json.loads(chat.page.evaluate("JSON.stringify(Object.entries(localStorage))"))
    conversation = next(json.loads(value) for name, value in kept if name.startswith("troupe.conversation."))
    for turn in conversation["turns"].values():
        if turn["responseId"]:
            urllib.request.urlopen(urllib.request.Request(f"{troupe.url}/v1/responses/{turn['responseId']}", method="DELETE")).close()
    answer = chat.say("What is my name?")
    check("Ada" in answer, f"the texts that the page has take the place of what the server lost -> {answer!r}")


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
        parts.append({"type": "response.completed", "response": response})
        route.fulfill(content_type="text/event-stream", body="".join(f"data: {json.dumps(part)}\n\n" for part in parts))
    for scheme in ("light", "dark"):
        chat = ChatPage(browser, troupe.url, results, color_scheme=scheme)
        chat.page.route("**/v1/responses", events)
        chat.open()
        chat.wait_for_models()
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
        settings(check, chat)
        live_view(check, chat)
        hostile_answers(check, browser, troupe, results)
        markdown(check, browser, troupe, results)
        without_store(check, browser, options.troupe, options.model, results)
        browser.close()
    return 0 if check.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
