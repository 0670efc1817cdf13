# SPDX-License-Identifier: Apache-2.0
"""Part answers: server or worker killed at any moment, with answers in the background, resumable chats and plain
ones on their way. Each comes to its end, event for event as without kills; a chat that went with its server is asked
again, and its events so far are the first ones of the whole.

A kill waits only where one more would be taken for the request's fault: three processes ended without a page of its
tokens (docs/conversations.md), two workers without a token (policy/health/suspects.hpp)."""
import asyncio
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import signal
import tempfile

import client
from results import listed
from target import Target

OPTIONS = [
    "--device", "cpu", "--worker-placement", "child", "--threads", "1", "--memory", "128MiB", "--max-restarts", "1000",
    "--restart-window-seconds", "1", "--model-name", "demo"
]
NUM_IN_BACKGROUND = 6
NUM_CHATS = 2  # of each kind
NUM_TOKENS = 500
NUM_CHAT_TOKENS = 150  # fewer: most chats don't survive their server
SERVERS_SHARE = 0.4  # of the kills
LONGEST_PAUSE = 0.4  # seconds between a kill, or a start, and the next kill; drawn
MOST_FUTILE_STARTS = 2
A_PAGE_SURELY = 100  # events; some tokens have none, some are drawn again
BEYOND_IN_FLIGHT = 8  # events
SECONDS_TO_NOTICE = 10  # for a worker whose server is gone
SECONDS_TO_END = 60  # for what is on its way after the last kill
ONCE = re.compile(r'"(created|created_at)":\d+|"cached_tokens":\d+|,"timings":\{[^}]*\}')
ID = re.compile(r"\b(?:resp_|msg_|fc_|rs_|call_|chatcmpl-|cmpl-)[0-9a-zA-Z]{9,}")


def run(settings, report):
    number = settings.kills or settings.size(1000, 20)
    with tempfile.TemporaryDirectory(prefix="attack-") as store:
        questions = all_questions(random.Random(settings.seed))
        with Target(settings.troupe, [*OPTIONS, "--store-directory", store]) as server:
            world = World(server, random.Random(settings.seed))
            asyncio.run(ask_undisturbed(world, questions))
        asyncio.run(Attack(settings, questions, store).run(number, report))


@dataclasses.dataclass
class Question:
    path: str
    body: dict
    expected: list = dataclasses.field(default_factory=list)  # payloads of its events, comparable

    @property
    def is_in_background(self):
        return self.path == "/v1/responses"

    @property
    def is_resumable(self):
        return "stream_options" in self.body

    @property
    def kind(self):
        return self.path + " in the background" * self.is_in_background + ", resumable" * self.is_resumable


def all_questions(rng):
    """Draws that no two seeds share; long prompts, so that some kills come before the first token."""
    story, long = "Tell me a story about a dog.", " ".join(f"{i}, " for i in range(300)) + "what is next?"
    free = {"temperature": 1, "ignore_eos": True}
    words = {"type": "string", "minLength": 30, "maxLength": 40}
    form = {
        "type": "json_schema", "name": "words",
        "schema": {"type": "array", "items": words, "minItems": 9, "maxItems": 9}
    }
    tool = {
        "type": "function", "name": "note", "strict": True,
        "parameters": {
            "type": "object", "properties": {"text": words}, "required": ["text"], "additionalProperties": False
        }
    }
    responses = [
        free | {"input": story, "max_output_tokens": NUM_TOKENS},
        free | {"input": long, "max_output_tokens": 120},
        free | {"input": story, "max_output_tokens": NUM_TOKENS, "repetition_penalty": 1.3, "frequency_penalty": 0.5},
        free | {"input": story, "max_output_tokens": 200, "include": ["message.output_text.logprobs"]},
        {"input": story, "temperature": 1, "max_output_tokens": 900, "text": {"format": form}},
        {"input": story, "temperature": 1, "max_output_tokens": 900, "tools": [tool], "tool_choice": "required"},
    ]
    found = []
    for _ in range(2):
        for body in responses:
            found.append(Question("/v1/responses", body | {"background": True, "seed": rng.randrange(1 << 30)}))
        for prompt, length in ((story, NUM_CHAT_TOKENS), (long, NUM_CHAT_TOKENS // 3)):
            more = free | {"seed": rng.randrange(1 << 30), "max_tokens": length, "stream": True}
            chat = client.chat(prompt, **more)
            found.append(Question("/v1/chat/completions", chat))
            found.append(Question("/v1/chat/completions", chat | {"stream_options": {"resumable": True}}))
            found.append(Question("/v1/completions", more | {"prompt": prompt}))
    return found


class World:
    """The server of the moment, which clients wait for."""

    def __init__(self, server, rng):
        self.server, self.rng = server, rng
        self.num_losses = 0  # of servers
        self.is_up = asyncio.Event()
        self.is_over = False

    async def port(self):
        await self.is_up.wait()
        return self.server.port

    async def has_lost_one_since(self, num_losses):
        """A client may see the end of its connection before the killer sees that of the process."""
        for _ in range(100):
            if num_losses != self.num_losses:
                return True
            await asyncio.sleep(0.02)
        return False


class Answer:
    """One asking of a question, however many connections and servers it takes."""

    def __init__(self, world, question):
        self.world, self.question = world, question
        self.body = dict(question.body)
        if world.rng.random() < 0.5:  # nothing of its prompt is known
            self.body["cache_salt"] = f"salt-{world.rng.randrange(1 << 30)}"
        self.id = None
        self.payloads = []
        self.num_kills = self.num_futile_starts = self.num_before_start = self.num_before_worker = 0
        self.problem = None

    def __str__(self):
        return (f"{self.question.path} {self.id}, seed {self.body['seed']}, after {self.num_kills} kills: "
                f"{self.problem}")

    @property
    def has_ended(self):
        return bool(self.payloads) and is_last(self.payloads[-1])

    @property
    def has_begun(self):
        return any('"delta":"' in payload or '"delta":{"content":"' in payload or '"text":"' in payload
                   for payload in self.payloads[1:])

    @property
    def has_a_page_more(self):
        return len(self.payloads) >= self.num_before_start + A_PAGE_SURELY

    async def come(self):
        """Until its last event is here, or something is wrong."""
        while not self.has_ended and not self.problem:
            port, losses = await self.world.port(), self.world.num_losses
            has_left, trouble = False, None
            try:
                has_left = await self.read_on(port)
            except (OSError, client.BadAnswer) as error:
                trouble = error
            if self.has_ended or has_left and losses == self.world.num_losses:
                continue
            if await self.world.has_lost_one_since(losses):
                self.lose_what_the_server_had()
            else:
                self.problem = self.problem or f"nobody killed the server: {trouble!r} behind {self.payloads[-1:]}"
        if not self.problem and comparable(self.payloads) != self.question.expected:
            self.problem = difference(comparable(self.payloads), self.question.expected)

    def lose_what_the_server_had(self):
        if self.question.is_in_background:
            return
        known = comparable(self.payloads)
        if known != self.question.expected[:len(known)]:
            self.problem = "cut off: " + difference(known, self.question.expected[:len(known)])
        self.id, self.payloads = None, []

    async def read_on(self, port):
        """True: the client left, and comes back."""
        connection = await client.Connection.open(port)
        try:
            if self.id is None:
                await connection.send(client.request_bytes("POST", self.question.path, self.body))
            elif self.question.is_in_background:
                query = f"?stream=true&starting_after={len(self.payloads) - 1}" if self.payloads else "?stream=true"
                await connection.send(client.request_bytes("GET", f"/v1/responses/{self.id}{query}"))
            else:
                last = [f"Last-Event-ID: {self.id}:{len(self.payloads) - 1}"]
                path = f"/v1/chat/completions/{self.id}/stream"
                await connection.send(client.request_bytes("GET", path, headers=last))
            answer = await connection.head()
            if answer.status != 200:
                body = b"".join([piece async for piece in connection.pieces(answer)])
                self.problem = f"{answer.status} {body[:200]}"
            elif answer.headers["content-type"].startswith("application/json"):
                self.id = json.loads(b"".join([piece async for piece in connection.pieces(answer)]))["id"]
                return True
            else:
                return await self.read_events(connection, answer)
        finally:
            connection.close()

    async def read_events(self, connection, answer):
        """A client of a chat that can be taken up leaves now and then."""
        most = self.world.rng.randint(1, 300) if self.question.is_resumable else 1 << 30
        async for _, payload in connection.events(answer):
            self.payloads.append(payload)
            if self.question.is_resumable:
                self.id = self.id or json.loads(payload)["id"]
                most -= 1
                if most == 0 and not self.has_ended:
                    connection.reset()
                    return True
        return False


def is_last(payload):
    return payload == "[DONE]" or json.loads(payload).get("type") in ("response.completed", "response.incomplete",
                                                                      "response.failed", "response.cancelled")


def comparable(payloads):
    """Without times, and with ids named in the order in which they come."""
    names = {}

    def name(match):
        return names.setdefault(match[0], f"id{len(names)}")

    return [ID.sub(name, ONCE.sub("", payload)) for payload in payloads]


def difference(found, expected):
    for i, (ours, theirs) in enumerate(zip(found, expected)):
        if ours != theirs:
            return f"event {i} of {len(expected)} is {ours[:300]} and not {theirs[:300]}"
    return f"{len(found)} events and not {len(expected)}"


async def ask_undisturbed(world, questions):
    """One after the other, so that each is alone."""
    world.is_up.set()
    for question in questions:
        answer = Answer(world, question)
        while not answer.has_ended and not answer.problem:
            await answer.read_on(world.server.port)
        if answer.problem or "failed" in answer.payloads[-1]:
            raise RuntimeError(f"undisturbed: {question.body}: {answer.problem or answer.payloads[-1]}")
        question.expected = comparable(answer.payloads)


class Attack:

    def __init__(self, settings, questions, store):
        self.rng = random.Random(settings.seed)
        self.questions, self.store = questions, pathlib.Path(store)
        self.server = Target(settings.troupe, [*OPTIONS, "--store-directory", store])
        self.world = World(self.server, self.rng)
        self.running, self.finished = set(), []
        self.counts = {"server": 0, "worker": 0, "before a first token": 0, "in mid-answer": 0}
        self.left_workers = []
        self.replacement = None  # of the last worker that was killed

    async def run(self, number, report):
        talkers = [asyncio.ensure_future(self.talk(kind)) for kind in self.kinds()]
        while self.num_kills < number:
            await self.start()
            while self.num_kills < number and self.server.is_alive:
                await asyncio.sleep(self.rng.random() * LONGEST_PAUSE)
                await (self.kill_server() if self.rng.random() < SERVERS_SHARE else self.kill_worker())
        if not self.server.is_alive:
            await self.start()
        self.world.is_over = True
        done, late = await asyncio.wait(talkers, timeout=SECONDS_TO_END)
        for talker in done:
            talker.result()  # or what it raised
        for talker in late:
            talker.cancel()
        self.judge(report, len(late), await self.num_journals_at_end())
        self.server.__exit__()

    def kinds(self):
        """What each client asks for, again and again."""
        background = [question for question in self.questions if question.is_in_background]
        resumable = [question for question in self.questions if question.is_resumable]
        plain = [question for question in self.questions if question not in background and question not in resumable]
        return [background] * NUM_IN_BACKGROUND + [resumable] * NUM_CHATS + [plain] * NUM_CHATS

    @property
    def num_kills(self):
        return self.counts["server"] + self.counts["worker"]

    async def talk(self, questions):
        while not self.world.is_over:
            answer = Answer(self.world, self.rng.choice(questions))
            self.running.add(answer)
            await answer.come()
            self.running.discard(answer)
            self.finished.append(answer)

    async def start(self):
        self.server.log_file.truncate(0)
        await asyncio.to_thread(self.server.__enter__)
        for answer in self.running:
            answer.num_before_start = len(answer.payloads)
        self.world.is_up.set()

    async def kill_server(self):
        await self.until(lambda answer: answer.num_futile_starts < MOST_FUTILE_STARTS or answer.has_a_page_more)
        self.count("server")
        workers = self.server.children()
        self.world.is_up.clear()
        self.world.num_losses += 1
        self.server.kill()
        for answer in self.running:
            answer.num_futile_starts = 0 if answer.has_a_page_more else answer.num_futile_starts + 1
            answer.num_before_worker = 0
        self.left_workers += [worker for worker in workers if not await has_gone(worker)]

    async def kill_worker(self):
        if self.replacement:
            await self.replacement
        await self.until(lambda answer: len(answer.payloads) >= answer.num_before_worker)
        for worker in self.server.children():
            self.count("worker")
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
            self.replacement = asyncio.ensure_future(self.see_replaced(worker))

    async def see_replaced(self, worker):
        """Answers have to come beyond what their clients have by then: between two workers nothing is drawn."""
        while self.server.is_alive and not set(self.server.children()) - {worker}:
            await asyncio.sleep(0.005)
        for answer in self.running:
            answer.num_before_worker = len(answer.payloads) + BEYOND_IN_FLIGHT

    async def until(self, condition):
        """Of all that run, or of none that is left to wait for."""
        while self.server.is_alive and not all(map(condition, self.running)):
            await asyncio.sleep(0.005)

    def count(self, what):
        self.counts[what] += 1
        accepted = [answer for answer in self.running if answer.id or answer.payloads]
        self.counts["before a first token"] += any(not answer.has_begun for answer in accepted)
        self.counts["in mid-answer"] += any(answer.has_begun for answer in accepted)
        for answer in self.running:
            answer.num_kills += 1

    async def num_journals_at_end(self):
        """Answers whose clients did not hear that they were taken end by themselves."""
        for _ in range(SECONDS_TO_END * 10):
            if not any(self.store.glob("*.journal")):
                return 0
            await asyncio.sleep(0.1)
        return len(list(self.store.glob("*.journal")))

    def judge(self, report, num_late, num_journals):
        report.note("kill -9", ", ".join(f"{count:,} {what}" for what, count in self.counts.items()))
        for when in ("before a first token", "in mid-answer"):
            report.check(f"kills {when}", self.counts[when], self.counts[when] > 0, "1 at least")
        hit = [answer.num_kills for answer in self.finished if answer.num_kills]
        report.note("answers", f"{len(self.finished):,}; {len(hit):,} of them hit, by up to {max(hit, default=0)}")
        for path, number in collections.Counter(answer.question.kind for answer in self.finished).items():
            report.note(f"of them {path}", f"{number:,}")
        problems = [str(answer) for answer in self.finished if answer.problem]
        report.check("answers that differ from the undisturbed ones", listed(problems), not problems and bool(hit), "0")
        report.check("answers that do not end", num_late, num_late == 0, "0")
        report.check("journals that are left", num_journals, num_journals == 0, "0")
        report.check("workers that outlive their server", len(self.left_workers), not self.left_workers, "0")


async def has_gone(pid):
    """Also a process that only waits to be reaped."""
    for _ in range(SECONDS_TO_NOTICE * 100):
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                return True
        except OSError:
            return True
        await asyncio.sleep(0.01)
    return False
