# SPDX-License-Identifier: Apache-2.0
"""OpenAI's Python client, as it comes, against the real troupe with the demo model."""
import argparse
import json
import pathlib
import sys
import tempfile

import openai
import pydantic

from checks import Checks
from servers import start_troupe

MODEL = "troupe-demo"


class Numbers(pydantic.BaseModel):
    values: list[int] = pydantic.Field(min_length=3, max_length=3)
    name: str = pydantic.Field(max_length=8)


def chats(check, client):
    messages = [{"role": "user", "content": "Count from 3 to 7."}]
    whole = client.chat.completions.create(model=MODEL, messages=messages, temperature=0)
    check("3, 4, 5, 6, 7" in whole.choices[0].message.content, f"a chat -> {whole.choices[0].message.content!r}")
    stream = client.chat.completions.create(model=MODEL, messages=messages, temperature=0, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    check(text == whole.choices[0].message.content, "streamed, it is the same")
    parsed = client.chat.completions.parse(model=MODEL, messages=messages, response_format=Numbers, max_tokens=400)
    check(len(parsed.choices[0].message.parsed.values) == 3, f"structured -> {parsed.choices[0].message.parsed!r}")


def tools(check, client):
    tool = {"type": "function", "function": {"name": "add", "strict": True, "parameters": {
        "type": "object", "properties": {"a": {"type": "integer", "maximum": 99}, "b": {"enum": [1, 2]}},
        "required": ["a", "b"], "additionalProperties": False}}}
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "What is 3 plus 2?"}], tools=[tool],
        tool_choice={"type": "function", "function": {"name": "add"}}, max_tokens=200)
    call = answer.choices[0].message.tool_calls[0].function
    check(call.name == "add" and json.loads(call.arguments)["b"] in (1, 2), f"a call -> {call.arguments}")


def responses(check, client):
    first = client.responses.create(model=MODEL, input="My name is Ada.", temperature=0)
    second = client.responses.create(model=MODEL, input="What is my name?", previous_response_id=first.id, temperature=0)
    check("Ada" in second.output_text, f"a response goes on -> {second.output_text!r}")
    items = client.responses.input_items.list(second.id)
    check(items.data[0].content[0].text == "What is my name?", "its input is there")
    client.responses.delete(first.id)
    try:
        client.responses.retrieve(first.id)
        check(False, "a deleted response is gone")
    except openai.NotFoundError:
        check(True, "a deleted response is gone")


def background(check, client, troupe):
    job = client.responses.create(model=MODEL, input="Count from 1 to 90.", background=True, temperature=0)
    check(job.background and job.status in ("queued", "in_progress"), f"in the background: {job.status}")
    while job.status in ("queued", "in_progress"):
        job = client.responses.retrieve(job.id)
    check(job.status == "completed" and "88, 89, 90" in job.output_text, f"it is answered -> {job.output_text[-12:]!r}")
    asked = {"model": MODEL, "input": "Tell me a story about a dog.", "background": True, "temperature": 1.0,
             "max_output_tokens": 600, "stream": True, "extra_body": {"seed": 3, "ignore_eos": True}}
    whole = list(client.responses.create(**asked))
    seen = []
    with troupe.slowed():
        stream = client.responses.create(**asked)
        for event in stream:
            seen.append(event)
            if len(seen) == 40:
                break
    response = seen[0].response.id
    stream.close()
    troupe.kill_and_start_again()
    rest = list(client.responses.retrieve(response, stream=True, starting_after=seen[-1].sequence_number))
    deltas = [[event.delta for event in events if event.type == "response.output_text.delta"]
              for events in (whole, seen + rest)]
    check(deltas[0] == deltas[1], f"a stream goes on behind a kill -9, with the same {len(deltas[0])} deltas")
    check([event.sequence_number for event in seen + rest] == list(range(len(whole))), "and the same numbers")
    job = client.responses.create(**{**asked, "stream": False})
    check(client.responses.cancel(job.id).status == "cancelled", "it is cancelled")


def errors(check, client):
    for wrong, kind in (({"model": "none"}, openai.NotFoundError), ({"messages": []}, openai.BadRequestError),
                        ({"temperature": 9}, openai.BadRequestError)):
        try:
            client.chat.completions.create(**{"model": MODEL, "messages": [{"role": "user", "content": "hi"}], **wrong})
            check(False, f"{wrong} is refused")
        except kind as error:
            check(error.body and error.body["message"], f"{wrong} -> {kind.__name__}: {error.body['message']}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--troupe", required=True)
    arguments.add_argument("--model", required=True)
    options = arguments.parse_args()
    check = Checks()
    with tempfile.TemporaryDirectory() as place:
        with start_troupe(options.troupe, options.model, pathlib.Path(place, "state"), f"{place}/log") as troupe:
            client = openai.OpenAI(base_url=troupe.url + "/v1", api_key="none")
            chats(check, client)
            tools(check, client)
            responses(check, client)
            background(check, client, troupe)
            errors(check, client)
    return 0 if check.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
