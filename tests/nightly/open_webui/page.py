# SPDX-License-Identifier: Apache-2.0
"""Open WebUI's page, used as a person uses it: typing, clicking, reading."""
import re
import time

from playwright.sync_api import TimeoutError

ANSWER_SECONDS = 120


class ChatPage:
    def __init__(self, page, results):
        self.page = page
        self.results = results
        self.num_shots = 0

    @classmethod
    def signed_in(cls, browser, url, token, results):
        """A browser of its own for somebody who has signed in before."""
        results.mkdir(exist_ok=True)
        context = browser.new_context(viewport={"width": 1280, "height": 1000})
        context.add_init_script(f"localStorage.setItem('token', '{token}')")
        chat = cls(context.new_page(), results)
        chat.open(url)
        return chat

    def open(self, url):
        self.url = url
        self.page.goto(url)
        self.page.wait_for_selector("#chat-input", timeout=120_000)
        self.dismiss_notes()

    def dismiss_notes(self):
        """What is new in this release: a dialog that comes once, a moment after the page."""
        okay = self.page.get_by_role("button", name="Okay, Let's Go!")
        try:
            okay.wait_for(timeout=5_000)
        except TimeoutError:
            return
        okay.click()
        okay.wait_for(state="hidden")

    def shoot(self, name):
        self.num_shots += 1
        self.page.screenshot(path=f"{self.results}/{self.num_shots:02}-{name}.png")

    def answers(self):
        return [answer.inner_text().strip() for answer in self.page.locator(".chat-assistant").all()]

    def errors(self):
        """What the page complains of: toasts, and errors in place of an answer."""
        toasts = [toast.inner_text() for toast in self.page.locator("[data-sonner-toast][data-type=error]").all()]
        boxes = [box.inner_text() for box in self.page.locator(".chat-assistant .border-red-600\\/10").all()]
        return toasts + boxes

    def type(self, text):
        box = self.page.locator("#chat-input")
        box.click()
        self.page.keyboard.type(text, delay=15)
        self.page.keyboard.press("Enter")

    def is_answering(self):
        return self.page.get_by_role("button", name="Stop", exact=True).count() > 0

    def wait_for_answer(self, number):
        """The answer of this number (1 is the first), when it is complete."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            errors = self.errors()
            if errors:
                raise AssertionError(f"the page shows an error: {errors}")
            answers = self.answers()
            if len(answers) >= number and answers[-1] and not self.is_answering():
                return answers[number - 1]
            self.page.wait_for_timeout(200)
        raise AssertionError(f"no answer {number} within {ANSWER_SECONDS} s; there are {self.answers()}")

    def say(self, text):
        number = len(self.answers()) + 1
        self.type(text)
        return self.wait_for_answer(number)

    def regenerate(self):
        """Asks for the last answer once more; the page shows the new one in its place."""
        number = len(self.answers())
        self.page.get_by_role("button", name="Regenerate", exact=True).last.click()
        self.page.get_by_text("Try Again", exact=True).click()
        self.page.get_by_text("2/2", exact=True).wait_for()
        return self.wait_for_answer(number)

    def ask_and_stop(self, text):
        """Stops the answer as soon as some of it is to be seen; gives what is left of it."""
        number = len(self.answers()) + 1
        self.type(text)
        self.page.wait_for_function(
            "n => { const all = document.querySelectorAll('.chat-assistant');"
            " return all.length >= n && /\\d, \\d/.test(all[n - 1].innerText); }", arg=number)
        stop = self.page.get_by_role("button", name="Stop", exact=True)
        stop.click()
        stop.wait_for(state="detached", timeout=ANSWER_SECONDS * 1000)
        errors = self.errors()
        if errors:
            raise AssertionError(f"the page shows an error: {errors}")
        return self.answers()[number - 1]

    def begin_another_chat(self):
        self.page.get_by_role("link", name="New Chat").first.click()
        self.page.wait_for_function("document.querySelectorAll('.chat-assistant').length === 0")
        self.page.wait_for_selector("#chat-input")

    def begin_chat_with(self, model):
        """Another chat, with a model that is named in the address as links to Open WebUI do."""
        self.page.goto(f"{self.url}/?model={model}")
        self.page.get_by_text(model, exact=True).first.wait_for()
        self.page.wait_for_selector("#chat-input")

    def attach(self, path):
        """A file for the next message; it has been read and embedded when its chip no longer turns."""
        with self.page.expect_response(lambda answer: "/api/v1/files/" in answer.url and answer.request.method == "POST"):
            self.page.locator("input[type=file][multiple]").first.set_input_files(path)
        self.page.get_by_text(path.name).wait_for()

    def wait_until(self, is_so):
        """Whether it came to be in time."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while not is_so() and time.monotonic() < deadline:
            self.page.wait_for_timeout(200)
        return is_so()

    def title(self):
        """Of the chat, which the browser's tab shows."""
        return self.page.title().removesuffix(" / Open WebUI")

    def wait_for_title(self):
        return self.wait_until(lambda: self.title() not in ("New Chat", "Open WebUI"))

    def follow_up_buttons(self):
        return self.page.get_by_role("button", name=re.compile("^Follow up: "))

    def wait_for_follow_ups(self):
        self.wait_until(lambda: self.follow_up_buttons().count() > 0)
        return [button.inner_text().strip() for button in self.follow_up_buttons().all()]

    def choose_follow_up(self, number):
        """The answer to it."""
        next_answer = len(self.answers()) + 1
        self.follow_up_buttons().nth(number).click()
        return self.wait_for_answer(next_answer)
