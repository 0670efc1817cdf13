# SPDX-License-Identifier: Apache-2.0
"""Agents whose answers are the server's own: four at once call tools in twelve turns, and nearly all of their history is
found in each next turn, beside requests for titles. As chats, sent with their history each time, the server undisturbed
and across kill -9; as responses that go on from the one before, across kill -9."""
import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import sys
import tempfile
import time
import urllib.request

from checks import Checks
from gate import Gate
from servers import start_troupe

MODEL = "troupe-demo"
NUM_AGENTS = 4
NUM_TURNS = 12
TURNS_A_TITLE = 3
NUM_KILLS = 2
REQUESTS_A_KILL = 20
TOOL_SECONDS = 1.0  # while the server is killed: what was computed by then is on the disk
LEAST_FOUND = 0.99
SECONDS_TO_ANSWER = 300
CITIES = {"Paris": "rain", "Rome": "sun", "Oslo": "snow"}
TASKS = ("Plan a trip.", "Add up the bills.", "Tell me of the weather.", "Keep my notes.")


def add(a, b):
    return str(a + b)


def weather(city):
    return CITIES[city]


def note(text):
    return f"{len(text)} letters"


TOOLS = {"add": add, "weather": weather, "note": note}
PARAMETERS = {"add": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": [1, 2, 3]}},
              "weather": {"city": {"enum": list(CITIES)}},
              "note": {"text": {"type": "string", "maxLength": 12}}}


def functions():
    return [{"name": name, "parameters": {"type": "object", "properties": properties, "required": list(properties),
                                          "additionalProperties": False}}
            for name, properties in PARAMETERS.items()]


def result_of(name, arguments):
    """The tool is run: arguments that its schema does not allow would raise."""
    return TOOLS[name](**json.loads(arguments))


class Chat:
    """An agent over /v1/chat/completions: all of its history in each request."""
    path = "/v1/chat/completions"

    def __init__(self, question):
        self.messages = [{"role": "user", "content": question}]

    def body(self):
        return {"messages": self.messages, "tools": [{"type": "function", "function": one} for one in functions()],
                "max_tokens": 200}

    def take(self, answer):
        """How many tokens were prompt, found and drawn; the results of what was called go into the next request."""
        message = answer["choices"][0]["message"]
        self.messages.append(message)
        for call in message["tool_calls"]:
            result = result_of(call["function"]["name"], call["function"]["arguments"])
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        usage = answer["usage"]
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"]


class Response:
    """An agent over /v1/responses: each goes on from the one before, which the server keeps."""
    path = "/v1/responses"

    def __init__(self, question):
        self.input, self.previous = [{"role": "user", "content": question}], None

    def body(self):
        return {"input": self.input, "tools": [{"type": "function", **one} for one in functions()],
                "previous_response_id": self.previous, "max_output_tokens": 200}

    def take(self, answer):
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        if not calls:
            raise RuntimeError(f"no call in {answer['output']}")
        self.previous = answer["id"]
        self.input = [{"type": "function_call_output", "call_id": call["call_id"],
                       "output": result_of(call["name"], call["arguments"])} for call in calls]
        usage = answer["usage"]
        return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]


def ask(server, path, body):
    request = urllib.request.Request(server.url + path, json.dumps({"model": MODEL, **body}).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS_TO_ANSWER) as answer:
        return json.load(answer)


def work(server, gate, agent, number, tool_seconds):
    """One agent's loop: tokens that were run before, those found of them, all of its prompts, and calls."""
    history = num_known = num_found = num_tokens = 0
    for turn in range(NUM_TURNS):
        body = {**agent.body(), "tool_choice": "required", "parallel_tool_calls": False, "temperature": 1.0}
        with gate.passed():
            answer = ask(server, agent.path, body)
            num_prompt, num_cached, num_drawn = agent.take(answer)
            if turn % TURNS_A_TITLE == number % TURNS_A_TITLE:
                title = {"role": "user", "content": f"A title for: {TASKS[number]} {turn}"}
                ask(server, Chat.path, {"messages": [title], "max_tokens": 20})
        known = min(history, num_prompt - 1)  # a prompt's last token is always run
        num_known += known
        num_found += min(num_cached, known)
        num_tokens += num_prompt
        history = num_prompt + num_drawn - 1  # the last token is drawn, and not run
        time.sleep(tool_seconds)
    return num_known, num_found, num_tokens


def agents(check, settings, kind, num_kills, tool_seconds):
    name = kind.__name__.lower()
    print(f"-- {name}: {num_kills} kills")
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(start_troupe(settings.troupe, settings.model, pathlib.Path(place, "state"),
                                                  settings.results / f"server-{name}-{num_kills}.txt", ["--cache-measure=false"]))
        gate = Gate(server, num_kills, REQUESTS_A_KILL)
        with concurrent.futures.ThreadPoolExecutor(NUM_AGENTS) as pool:
            running = [pool.submit(work, server, gate, kind(TASKS[number]), number, tool_seconds)
                       for number in range(NUM_AGENTS)]
            known, found, tokens = (sum(numbers) for numbers in zip(*(one.result() for one in running)))
    check(gate.kills_left == 0, f"{num_kills} kills on the way")
    check(known > 0 and found >= LEAST_FOUND * known,
          f"of {tokens:,} tokens {known:,} were run before; {found / max(known, 1):.2%} found "
          f"(promised: {LEAST_FOUND:.0%})")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--results", type=pathlib.Path, required=True)
    settings = parser.parse_args()
    check = Checks()
    agents(check, settings, Chat, 0, 0)
    agents(check, settings, Chat, NUM_KILLS, TOOL_SECONDS)
    agents(check, settings, Response, NUM_KILLS, TOOL_SECONDS)
    return 0 if check.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
