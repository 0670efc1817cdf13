# SPDX-License-Identifier: Apache-2.0
"""The page of troupe, used as a person uses it: typing, clicking, reading."""

import re
import time

ANSWER_MS = 120_000


class ChatPage:
    """What it asks of other hosts, what the browser's console says and dialogs that open are kept."""

    def __init__(self, browser, url, results, **context):
        self.url = url
        self.results = results
        self.page = browser.new_context(viewport={"width": 1200, "height": 900}, **context).new_page()
        self.foreign, self.complaints, self.dialogs = [], [], []
        self.page.on("request", lambda request: None if request.url.startswith(url) else self.foreign.append(request.url))
        self.page.on("console", self.note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self.accept)

    def note(self, line):
        """Refusals of the API, and a server that starts, are the page's to tell of; the browser notes them too."""
        if line.type == "error" and "/v1/" not in line.location["url"] and " 503 " not in line.text:
            self.complaints.append(line.text)

    def accept(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.accept()

    def open(self, at="/"):
        self.page.goto(self.url + at)

    def wait_for_models(self):
        self.page.wait_for_selector("#model option", state="attached")

    def shoot(self, name):
        self.page.screenshot(path=f"{self.results}/{name}.png")

    def answers(self):
        return [text.strip() for text in self.page.locator(".turn > .answer").all_inner_texts()]

    def questions(self):
        return [text.strip() for text in self.page.locator(".turn > .question").all_inner_texts()]

    def problems(self):
        return self.page.locator(".state.wrong, #notice:not([hidden])").all_inner_texts()

    def conversations(self):
        return self.page.locator("#conversations a").all_inner_texts()

    def wait_until(self, is_so):
        """The browser itself can't wait for an expression: the page's policy forbids eval()."""
        deadline = time.monotonic() + ANSWER_MS / 1000
        while not is_so():
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not come; questions {self.questions()}, answers {self.answers()}")
            self.page.wait_for_timeout(50)

    def wait_for_turns(self, number):
        self.wait_until(lambda: len(self.answers()) == number and all(self.answers()))

    def wait_for_end(self):
        self.page.wait_for_selector("#send", timeout=ANSWER_MS)
        if self.problems():
            raise AssertionError(f"the page shows an error: {self.problems()}")
        return self.answers()[-1]

    def type(self, text):
        self.page.locator("#question").fill(text)
        self.page.keyboard.press("Enter")

    def say(self, text):
        self.type(text)
        return self.wait_for_end()

    def attach(self, *files):
        """Each a name and its bytes."""
        self.page.set_input_files("#pick", [{"name": name, "mimeType": "", "buffer": data} for name, data in files])

    def drop(self, name, text):
        self.page.evaluate("""([name, text]) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([text], name));
            for (const type of ["dragover", "drop"])
                document.getElementById("turns").dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true })); }""",
                           [name, text])

    def attached(self):
        return self.page.locator("#files li span").all_inner_texts()

    def set_tools(self, text, must_call):
        self.page.get_by_role("button", name="Settings").click()
        self.page.locator("#tools").fill(text)
        self.page.locator("#must-call").set_checked(must_call)
        self.page.get_by_role("button", name="Done").click()

    def give_result(self, name, text):
        """The same for each call of the last answer, which may have several."""
        for box in self.page.get_by_label(f"Result of {name}").all():
            box.fill(text)
        with self.page.expect_request(lambda request: request.method == "POST"):
            self.page.keyboard.press("Enter")
        return self.wait_for_end()

    def regenerate(self):
        self.page.get_by_role("button", name="Regenerate").last.click()
        return self.wait_for_end()

    def edit_last(self, text):
        self.page.locator("#question").focus()
        self.page.keyboard.press("ArrowUp")
        self.page.get_by_label("Edited message").fill(text)
        self.page.keyboard.press("Enter")
        return self.wait_for_end()

    def ask_and_see_some(self, text):
        """Until some of an answer that counts is to be seen."""
        number = len(self.answers()) + 1
        self.type(text)
        self.wait_until(lambda: len(self.answers()) >= number and re.search(r"\d, \d", self.answers()[-1]))
        return self.answers()[-1]

    def ask_and_stop(self, text):
        """Stops with the keyboard as soon as some of the answer is to be seen."""
        self.ask_and_see_some(text)
        self.page.keyboard.press("Escape")
        return self.wait_for_end()
