#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a second turn's first token takes, by where its history is.

Conversations of about 1,500 tokens (--history: others), each with words of its own. The first turn
is played; then the second one is asked
- cold: of a server that never saw the first, so that all is computed;
- from the device: at once;
- from the host: after others have pushed the conversation off the device;
- from the disk: after the server was stopped and started, others have filled the
  device, and the kernel has been made to drop the files of the store from its cache.
All with the same model (write_model.cpp), in turn, several times; medians, and
their ratios to cold. Others that push a long history out are many short ones: a prompt's
time grows with its square. /metrics tells where the history was found: a second turn
whose history came from elsewhere is not counted, and the run fails if more than
half of them did.

Usage: bench/cache/conversations/second_turn.py [--build DIR] [--repetitions N] [--history TOKENS]
Exit status: 0 if all goals are met, 1 if not.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import page_cache  # noqa: E402
from live_server import ROOT, Server, run  # noqa: E402

GOALS = {"device": 0.15, "host": 0.30, "disk": 0.40}  # of cold
LONG_HISTORY = 16000
REPETITIONS, LONG_REPETITIONS = 7, 3
MOST_OF_OTHERS = 1500  # tokens of a conversation that only takes room
LONGEST_ANSWER = 900  # seconds
LONG_GOALS = {"device": 0.02, "host": 0.04, "disk": 0.04}
WORDS = "name word like number small day old color month count list letter add reverse story friend".split()
ANSWER_TOKENS = 32
HITS = 'troupe_prefix_cache_hits_total{{tier="{}"}}'


class Conversation:
    """Its own words, so that it shares no page with any other."""

    def __init__(self, number, num_words):
        self.usage = {"prompt_tokens": 0, "completion_tokens": 0}
        words = random.Random(number)
        self.messages = [{"role": "user", "content": " ".join(words.choices(WORDS, k=num_words))}]

    def ask(self, server, max_tokens=ANSWER_TOKENS):
        """Seconds until the first token came; the answer becomes part of the conversation."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LONGEST_ANSWER)
        body = json.dumps({"messages": self.messages, "stream": True, "temperature": 0, "ignore_eos": True,
                           "max_tokens": max_tokens, "stream_options": {"include_usage": True}})
        begin = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        answer, first, text = connection.getresponse(), None, ""
        if answer.status != 200:
            sys.exit(f"the server answered {answer.status}: {answer.read().decode()}")
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[len(b"data: "):])
            content = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
            if content and first is None:
                first = time.perf_counter() - begin
            text += content
            if event.get("usage"):
                self.usage = event["usage"]
        connection.close()
        if first is None:
            sys.exit(f"the answer to {len(body)} bytes of request had no text")
        self.messages.append({"role": "assistant", "content": text})
        return first

    def ask_again(self, server):
        """The second turn's time, and by tier how many tokens of the history were found."""
        self.messages.append({"role": "user", "content": "What is the word?"})
        before = server.metrics()
        seconds = self.ask(server, max_tokens=1)
        after = server.metrics()
        return seconds, {tier: after.get(HITS.format(tier), 0) - before.get(HITS.format(tier), 0) for tier in GOALS}


class Bench:
    def __init__(self, arguments, directory):
        self.arguments = arguments
        self.model = directory / "model"
        run(arguments.build / "bench/bench_conversation_model", self.model, str(max(2048, arguments.history + 512)))
        self.goals = LONG_GOALS if arguments.history >= LONG_HISTORY else GOALS
        memory_mib = arguments.memory_mib or round(100 + arguments.history * 35 / 1500)
        self.troupe = arguments.build / "app/troupe"
        self.store = directory / "store"
        self.options = ["--memory", f"{memory_mib}MiB", "--cache-host-memory", "1GiB",
                        "--cache-disk-space", "1GiB", "--store-directory", self.store,
                        "--weights-disk-space", "0"]  # kept weights are mapped, and no mapped file leaves the cache
        self.number = 0
        self.num_words = arguments.history
        self.times = {"cold": [], "device": [], "host": [], "disk": []}
        self.num_elsewhere = dict.fromkeys(GOALS, 0)

    def server(self):
        return Server(self.troupe, self.options, self.model)

    def conversation(self, part=1.0):
        self.number += 1
        return Conversation(self.number, max(1, round(part * self.num_words)))

    def ask_cold(self, server):
        """A second turn whose first one no server has seen."""
        conversation = self.conversation()
        conversation.messages.append({"role": "assistant", "content": "It is the one that you said."})
        self.note("cold", conversation, server)

    def first_turn(self, server):
        conversation = self.conversation()
        conversation.ask(server)
        return conversation

    def fit_length(self, server):
        """Words so that a first turn and its answer are as many tokens as wanted."""
        self.num_words = min(self.num_words, MOST_OF_OTHERS)
        probe = self.first_turn(server)
        tokens_per_word = probe.usage["prompt_tokens"] / self.num_words
        self.num_words = round((self.arguments.history - ANSWER_TOKENS) / tokens_per_word)

    def note(self, tier, conversation, server):
        history = conversation.usage["prompt_tokens"] + conversation.usage["completion_tokens"]
        seconds, found = conversation.ask_again(server)
        if tier == "cold" or found[tier] >= 0.9 * history:
            self.times[tier].append(seconds)
        else:
            self.num_elsewhere[tier] += 1
        print(f"{tier}: {1000 * seconds:.1f} ms", file=sys.stderr, flush=True)

    def fill_device(self, server):
        """Other conversations, as many as the device has room for and one more; each is a cold one, if as long."""
        num_tokens = min(self.arguments.history, MOST_OF_OTHERS)
        pages = server.metrics()['troupe_kv_pages_capacity{tier="device"}']
        for _ in range(int(pages * 32 // num_tokens) + 1):
            if num_tokens == self.arguments.history:
                self.ask_cold(server)
            else:
                self.conversation(num_tokens / self.arguments.history).ask(server, max_tokens=1)

    def repeat(self):
        with self.server() as server:
            if self.number == 0:
                self.fit_length(server)
            if self.arguments.history > MOST_OF_OTHERS:
                self.ask_cold(server)
            self.note("device", self.first_turn(server), server)
            pushed = self.first_turn(server)
            self.fill_device(server)
            self.note("host", pushed, server)
            stopped = self.first_turn(server)
        with self.server() as server:
            self.fill_device(server)  # as for the host: each page that comes needs one that leaves
            page_cache.drop(self.store)
            self.note("disk", stopped, server)

    def report(self):
        """True if all goals are met."""
        cold = statistics.median(self.times["cold"])
        print(f"| history of {self.arguments.history} tokens | first token, ms: median (least, most) | of cold | goal | |")
        print("|---|---|---|---|---|")
        is_met = True
        for tier, times in self.times.items():
            if len(times) <= self.num_elsewhere.get(tier, 0):
                print(f"| from the {tier} | history was found elsewhere {self.num_elsewhere[tier]} times | | | MISSED |")
                is_met = False
                continue
            middle = statistics.median(times)
            row = f"{1000 * middle:.1f} ({1000 * min(times):.1f}, {1000 * max(times):.1f}), {len(times)} times"
            if tier == "cold":
                print(f"| cold | {row} | 1 | | |")
                continue
            is_goal_met = middle <= self.goals[tier] * cold
            is_met = is_met and is_goal_met
            print(f"| from the {tier} | {row} | **{100 * middle / cold:.1f} %** | <= {100 * self.goals[tier]:.0f} % | "
                  f"{'met' if is_goal_met else 'MISSED'} |")
        print(f"\nLoad average at the end {os.getloadavg()[0]:.1f}.")
        return is_met


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--repetitions", type=int, help=f"by default {REPETITIONS}, of long histories {LONG_REPETITIONS}")
    parser.add_argument("--history", type=int, default=1500, help="tokens of first turn and answer")
    parser.add_argument("--memory-mib", type=int, help="of the server's device; by default three histories fit")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(arguments, pathlib.Path(name))
        for _ in range(arguments.repetitions or (LONG_REPETITIONS if arguments.history >= LONG_HISTORY else REPETITIONS)):
            bench.repeat()
        return 0 if bench.report() else 1


if __name__ == "__main__":
    sys.exit(main())
