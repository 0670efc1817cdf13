#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well a server foresees the lengths of its own model's answers, on conversations that it has not seen.

  python3 scripts/demo_model/generator.py export --per-category 80 --output /tmp/chats.json
  bench/server/lengths.py --conversations /tmp/chats.json              # the demo model
  bench/server/lengths.py --model MODEL --conversations CHATS --flags "--memory 2GiB"

CHATS: a list of {"messages": [...]}, of which system and user messages are asked; the answers between them are the model's
own. A server learns of some answers, and is judged by the next 500: what /metrics then says is of these alone. Each is
judged before it is learnt. What is learnt and what is judged is told apart in three ways:

  rows           any turns of any conversations, as logs are often split: turns of one conversation are on both sides
  conversations  other conversations are judged, by one turn each, so that none has been learnt of
  time           so, too, but the last ones of the file, in its order: kinds of questions may come that were not there before

Printed by split and stage: mean pinball loss in tokens, mean distance of the logarithms of likely and real length, Kendall's
tau; also what the best constant would have cost, and the time that foreseeing took an answer.
"""
import argparse
import concurrent.futures
import http.client
import json
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import ROOT, Server  # noqa: E402

JUDGED = 500  # answers that the server's figures are of
STAGES = ("everyone", "tenant", "beginning", "encoder", "state")
AT_ONCE = 8  # conversations


def answer(port, messages, most):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/chat/completions",
                       json.dumps({"messages": messages, "max_tokens": most, "temperature": 0}),
                       {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    if response.status != 200:
        raise RuntimeError(content.decode())
    return json.loads(content)["choices"][0]["message"]


def turns_of(conversation):
    """By turn, the messages that are new with it."""
    turns, new = [], []
    for message in conversation["messages"]:
        if message["role"] != "assistant":
            new.append(message)
        if message["role"] == "user":
            turns.append(new)
            new = []
    return turns


def play(port, conversation, most):
    """By turn, all that is sent with it."""
    messages, sent = [], []
    for new in turns_of(conversation):
        messages = messages + new
        sent.append(messages)
        messages = messages + [answer(port, messages, most)]
    return sent


class Learner:
    """A server that foresees lengths, and hears of as many answers as it is asked for."""

    def __init__(self, server, most):
        self.server, self.most, self.num_asked = server, most, 0

    def ask(self, requests):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(lambda messages: answer(self.server.port, messages, self.most), requests):
                self.num_asked += 1
        self.wait()

    def wait(self):
        """The predictor hears of an answer's end some time after its client."""
        deadline = time.monotonic() + 60
        while self.server.metrics().get("troupe_length_forecast_states", 0) < self.num_asked:
            if time.monotonic() > deadline:
                sys.exit("the server does not learn of its answers: its device hands out no states")
            time.sleep(0.05)


def splits(conversations, sent, seed):
    """By name, the requests to learn of and those that are judged."""
    rng = random.Random(seed)
    order = list(range(len(conversations)))
    rows = [messages for turns in sent for messages in turns]
    rng.shuffle(rows)
    shuffled = rng.sample(order, len(order))

    def by(order):
        learnt = [messages for i in order[:-JUDGED] for messages in sent[i]]
        return learnt, [rng.choice(sent[i]) for i in order[-JUDGED:]]
    return {"rows": (rows[:-JUDGED], rows[-JUDGED:]), "conversations": by(shuffled), "time": by(order)}


def judge(settings, name, learnt, judged):
    flags = ["--reservation", "predicted", "--reserved-percent", "60", *settings.flags.split()]
    with Server(settings.troupe, flags, model=settings.model, ready_seconds=120) as server:
        learner = Learner(server, settings.most)
        learner.ask(learnt)
        before = server.metrics()
        learner.ask(judged)
        after = server.metrics()
    busy = "troupe_length_forecast_busy_seconds_total"

    def of(what, stage):
        return after[f'troupe_length_forecast_{what}{{stage="{stage}"}}']
    print(f"\n{name}: {len(learnt)} answers learnt, {len(judged)} judged; the best constant costs "
          f"{of('loss_tokens', 'constant'):.2f}; foreseeing took "
          f"{(after[busy] - before[busy]) / len(judged) * 1e6:.0f} us an answer\n"
          f"{'stage':12}{'loss':>9}{'log error':>12}{'tau':>8}")
    for stage in STAGES:
        print(f"{stage:12}{of('loss_tokens', stage):9.2f}{of('stage_log_error', stage):12.3f}{of('tau', stage):8.3f}",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models/demo")
    parser.add_argument("--conversations", type=pathlib.Path, required=True)
    parser.add_argument("--flags", default="--memory 256MiB", help="of the server")
    parser.add_argument("--most", type=int, default=640, help="max_tokens of each request")
    parser.add_argument("--seed", type=int, default=1)
    settings = parser.parse_args()
    conversations = [one for one in json.loads(settings.conversations.read_text()) if turns_of(one)]
    if len(conversations) <= JUDGED:
        sys.exit(f"{len(conversations)} conversations: more than {JUDGED} are needed, which are judged")
    with Server(settings.troupe, settings.flags.split(), model=settings.model, ready_seconds=120) as server, \
            concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        sent = list(pool.map(lambda one: play(server.port, one, settings.most), conversations))
    for name, (learnt, judged) in splits(conversations, sent, settings.seed).items():
        judge(settings, name, learnt, judged)


if __name__ == "__main__":
    main()
