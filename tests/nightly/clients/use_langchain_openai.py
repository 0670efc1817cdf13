# SPDX-License-Identifier: Apache-2.0
"""langchain-openai, as it comes: chats, streams, batches, tools, forms, responses, errors."""
import asyncio
import typing

import langchain_openai
import openai
import pydantic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool

from demo_server import COUNT, COUNTED, MODEL, run


@tool
def weather(city: typing.Literal["Paris", "Rome"], days: typing.Literal[1, 2] = 1) -> str:
    """Tells the weather of a city."""
    return f"It rains in {city} for {days} days."


class Verdict(pydantic.BaseModel):
    """What is thought of it."""
    is_good: bool
    mark: typing.Literal["A", "B", "C"]


def chats(check, chat):
    whole = chat.invoke(COUNT)
    check(COUNTED in whole.text, f"a chat -> {whole.text!r}, {whole.usage_metadata['total_tokens']} tokens")
    pieces = list(chat.stream(COUNT))
    check("".join(piece.text for piece in pieces) == whole.text, f"streamed in {len(pieces)} pieces, the same")
    answers = chat.batch([f"Count from {i} to {i + 4}." for i in range(12)])
    check(all(f"{i}, {i + 1}, {i + 2}" in answer.text for i, answer in enumerate(answers)), "12 at once are right")
    history = [HumanMessage("My name is Ada.")]
    history += [chat.invoke(history), HumanMessage("What is my name?")]
    again = chat.invoke(history)
    check("Ada" in again.text, f"with its history -> {again.text!r}")


def tools(check, chat):
    history = [HumanMessage("What is the weather?")]
    bound = chat.bind_tools([weather], tool_choice="any", parallel_tool_calls=False)
    call = bound.invoke(history)
    check(call.tool_calls and call.tool_calls[0]["name"] == "weather", f"a call -> {call.tool_calls}")
    streamed = None
    for piece in bound.stream(history):
        streamed = piece if streamed is None else streamed + piece
    check([made["args"] for made in streamed.tool_calls] == [made["args"] for made in call.tool_calls],
          f"streamed, it is the same -> {streamed.tool_calls}")
    results = [ToolMessage(weather.invoke(made["args"]), tool_call_id=made["id"]) for made in call.tool_calls]
    after = chat.bind_tools([weather]).invoke([*history, call, *results])
    check(after.text or after.tool_calls, f"behind its result -> {after.text!r}")


def forms(check, chat):
    for method in ("json_schema", "function_calling"):
        found = chat.with_structured_output(Verdict, method=method).invoke("Is it good?")
        check(isinstance(found, Verdict), f"{method} -> {found!r}")


async def asynchronously(check, both):
    for chat in both:
        pieces = [piece.text async for piece in chat.astream(COUNT)]
        check(COUNTED in "".join(pieces), "astream")
        stream = chat.astream("Tell me a story about a dog.")
        await anext(stream)
        await stream.aclose()
        check(COUNTED in (await chat.ainvoke(COUNT)).text, "after a stream that was left")


def errors(check, url):
    for wrong, kind, what in [
            ({"model": "nobody"}, openai.NotFoundError, "nobody"),
            ({"temperature": 9}, openai.BadRequestError, "temperature"),
            ({"max_tokens": -5}, openai.BadRequestError, "max")]:
        with check.refused(kind, what):
            langchain_openai.ChatOpenAI(**{"base_url": url, "api_key": "none", "model": MODEL, **wrong}).invoke(COUNT)
    vectors = langchain_openai.OpenAIEmbeddings(base_url=url, api_key="none", model=MODEL,
                                                check_embedding_ctx_length=False)
    with check.refused(openai.BadRequestError, "no model of this server makes embeddings"):
        vectors.embed_query("a cat")
    with check.refused(openai.BadRequestError, "2048"):
        list(langchain_openai.ChatOpenAI(base_url=url, api_key="none", model=MODEL).stream("word " * 9000))


def use(check, server, _):
    url = server.url + "/v1"
    both = [langchain_openai.ChatOpenAI(base_url=url, api_key="none", model=MODEL, temperature=0,
                                        use_responses_api=uses_responses) for uses_responses in (False, True)]
    for chat in both:
        print(f"-- use_responses_api={chat.use_responses_api}")
        for part in (chats, tools, forms):
            part(check, chat)
    asyncio.run(asynchronously(check, both))
    likely = langchain_openai.ChatOpenAI(base_url=url, api_key="none", model=MODEL, logprobs=True, top_logprobs=3)
    tokens = likely.invoke(COUNT).response_metadata["logprobs"]["content"]
    check(len(tokens) > 3 and len(tokens[0]["top_logprobs"]) == 3, "log-probabilities")
    text = langchain_openai.OpenAI(base_url=url, api_key="none", model=MODEL, temperature=0, max_tokens=8)
    check(text.invoke("1, 2, 3,") == "".join(text.stream("1, 2, 3,")), "completions, whole and streamed")
    errors(check, url)


if __name__ == "__main__":
    run(__doc__, use)
