# SPDX-License-Identifier: Apache-2.0
"""Anthropic's Python client, as it comes: messages, streams, tools, structured output, counts, errors."""
import asyncio
import typing

import anthropic
import pydantic

from demo_server import COUNT, COUNTED, MODEL, run

QUESTION = [{"role": "user", "content": COUNT}]
EXACT = {"extra_body": {"temperature": 0}}  # no longer among the arguments
WEATHER = {
    "name": "weather", "description": "Tells the weather.", "strict": True,
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["celsius", "kelvin"]}},
        "required": ["city", "unit"], "additionalProperties": False
    }
}


class Person(pydantic.BaseModel):  # the client takes bounds out of schemas
    name: typing.Literal["Ada", "Anna"]
    is_here: bool
    pets: typing.Literal[0, 1, 2]


def chats(check, client):
    whole = client.messages.create(model=MODEL, max_tokens=60, messages=QUESTION, **EXACT, system="Be brief.")
    text = whole.content[0]
    check(whole.stop_reason == "end_turn" and text.type == "text", f"with a system text -> {text.text!r}")
    plain = client.messages.create(model=MODEL, max_tokens=60, messages=QUESTION, **EXACT)
    check(COUNTED in plain.content[0].text, f"without one -> {plain.content[0].text!r}")
    with client.messages.stream(model=MODEL, max_tokens=60, messages=QUESTION, **EXACT) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    check(text == plain.content[0].text == final.content[0].text, "streamed, it is the same")
    usage = final.usage
    check(usage.input_tokens + usage.cache_read_input_tokens == client.messages.count_tokens(
        model=MODEL, messages=QUESTION).input_tokens, f"the prompt is as long as count_tokens says -> {usage!r}")
    stopped = client.messages.create(model=MODEL, max_tokens=60, messages=QUESTION, **EXACT, stop_sequences=[", 5"])
    check(stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == ", 5", f"-> {stopped.content[0].text!r}")
    short = client.messages.create(model=MODEL, max_tokens=2, messages=QUESTION)
    check(short.stop_reason == "max_tokens" and short.usage.output_tokens == 2, "max_tokens ends an answer")
    turns = [{"role": "user", "content": "My name is Ada."}]
    first = client.messages.create(model=MODEL, max_tokens=60, messages=turns, **EXACT)
    turns += [{"role": "assistant", "content": first.content},
              {"role": "user", "content": [{"type": "text", "text": "What is my name?",
                                            "cache_control": {"type": "ephemeral"}}]}]
    answer = client.messages.create(model=MODEL, max_tokens=60, messages=turns, **EXACT)
    check("Ada" in answer.content[0].text, f"it remembers -> {answer.content[0].text!r}")


def tools(check, client):
    asked = {"model": MODEL, "max_tokens": 300, "messages": QUESTION, "tools": [WEATHER],
             "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "extra_body": {"seed": 4}}
    answer = client.messages.create(**asked)
    call = next(block for block in answer.content if block.type == "tool_use")
    check(answer.stop_reason == "tool_use" and call.input["unit"] in ("celsius", "kelvin"), f"a call -> {call.input}")
    with client.messages.stream(**asked) as stream:
        pieces = [event.partial_json for event in stream if event.type == "input_json"]
        final = stream.get_final_message()
    streamed = next(block for block in final.content if block.type == "tool_use")
    check(streamed.input == call.input and len(pieces) > 2, f"streamed in {len(pieces)} pieces, it is the same")
    history = [*QUESTION, {"role": "assistant", "content": answer.content},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Rain."}]}]
    after = client.messages.create(model=MODEL, max_tokens=30, messages=history, tools=[WEATHER])
    check(after.usage.output_tokens > 0, f"behind a result -> {after.content!r:.120}")


def forms(check, client):
    parsed = client.messages.parse(model=MODEL, max_tokens=400, messages=QUESTION, output_format=Person)
    check(isinstance(parsed.parsed_output, Person), f"structured -> {parsed.parsed_output!r}")


async def several_at_once(check, url):
    async with anthropic.AsyncAnthropic(base_url=url, api_key=KEY) as client:
        answers = await asyncio.gather(*(client.messages.create(
            model=MODEL, max_tokens=60, **EXACT,
            messages=[{"role": "user", "content": f"Count from {i} to {i + 4}."}]) for i in range(20)))
    good = [i for i, answer in enumerate(answers) if f"{i}, {i + 1}, {i + 2}" in answer.content[0].text]
    check(len(good) == 20, f"{len(good)} of 20 at once are right")


def errors(check, client, url):
    for wrong, kind, what in [
            ({"model": "nobody"}, anthropic.NotFoundError, "nobody"),
            ({"max_tokens": 0}, anthropic.BadRequestError, "max_tokens"),
            ({"extra_body": {"temperature": 9}}, anthropic.BadRequestError, "temperature"),
            ({"messages": []}, anthropic.BadRequestError, "messages"),
            ({"messages": [{"role": "user", "content": "word " * 9000}]}, anthropic.BadRequestError, "2048"),
            ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, anthropic.BadRequestError, "tools[0]")]:
        with check.refused(kind, what):
            client.messages.create(**{"model": MODEL, "max_tokens": 20, "messages": QUESTION, **wrong})
    with check.refused(anthropic.BadRequestError, "max_tokens"):
        with client.messages.stream(model=MODEL, max_tokens=-3, messages=QUESTION) as stream:
            stream.get_final_message()
    with check.refused(anthropic.AuthenticationError, "key"):
        anthropic.Anthropic(base_url=url, api_key="wrong", max_retries=0).messages.create(
            model=MODEL, max_tokens=20, messages=QUESTION)


def use(check, server, settings):
    client = anthropic.Anthropic(base_url=server.url, api_key=KEY)
    chats(check, client)
    tools(check, client)
    forms(check, client)
    asyncio.run(several_at_once(check, server.url))
    errors(check, client, server.url)
    check(MODEL in [model.id for model in client.models.list()], "the list of models")


KEY = "a-key-of-the-nightly"

if __name__ == "__main__":
    run(__doc__, use, ["--api-key", KEY])
