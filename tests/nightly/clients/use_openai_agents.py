# SPDX-License-Identifier: Apache-2.0
"""OpenAI's agents SDK, as it comes: tools called and answered, streams, sessions, handoffs, typed ends, over chats and
over responses."""
import asyncio
import typing

import agents
import openai
import pydantic
from openai.types.responses import ResponseTextDeltaEvent

from demo_server import COUNT, COUNTED, MODEL, run

CALLED = []


@agents.function_tool
def weather(city: typing.Literal["Paris", "Rome"]) -> str:
    """Tells the weather of a city."""
    CALLED.append(city)
    return f"It rains in {city}."


class Verdict(pydantic.BaseModel):
    is_good: bool
    mark: typing.Literal["A", "B", "C"]


EXACT = agents.ModelSettings(temperature=0)
A_CALL = agents.ModelSettings(tool_choice="required", parallel_tool_calls=False, max_tokens=200)


async def chats(check, model):
    agent = agents.Agent("counter", model=model, model_settings=EXACT)
    whole = await agents.Runner.run(agent, COUNT)
    check(COUNTED in whole.final_output, f"an agent -> {whole.final_output!r}")
    stream = agents.Runner.run_streamed(agent, COUNT)
    deltas = [event.data.delta async for event in stream.stream_events()
              if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent)]
    check("".join(deltas) == stream.final_output == whole.final_output, f"streamed in {len(deltas)} pieces, the same")
    session = agents.SQLiteSession("nightly")
    await agents.Runner.run(agent, "My name is Ada.", session=session)
    again = await agents.Runner.run(agent, "What is my name?", session=session)
    check("Ada" in again.final_output, f"a session -> {again.final_output!r}")


async def tools(check, model):
    CALLED.clear()
    agent = agents.Agent("asker", model=model, tools=[weather], model_settings=A_CALL)
    result = await agents.Runner.run(agent, "What is the weather?", max_turns=4)
    kinds = [item.type for item in result.new_items]
    check(CALLED and "tool_call_output_item" in kinds, f"a tool is called and answered -> {CALLED}, {kinds}")
    CALLED.clear()
    stream = agents.Runner.run_streamed(agent, "What is the weather?", max_turns=4)
    names = [event.name async for event in stream.stream_events() if event.type == "run_item_stream_event"]
    check(CALLED and "tool_called" in names and "tool_output" in names, f"streamed -> {CALLED}, {names}")
    other = agents.Agent("counter", model=model, handoff_description="counts", model_settings=EXACT)
    first = agents.Agent("desk", model=model, handoffs=[other], model_settings=A_CALL)
    handed = await agents.Runner.run(first, COUNT, max_turns=4)
    check(handed.last_agent is other, f"a handoff -> {handed.last_agent.name}: {handed.final_output!r}")


async def forms(check, model):
    agent = agents.Agent("judge", model=model, output_type=Verdict)
    result = await agents.Runner.run(agent, "Is it good?")
    check(isinstance(result.final_output, Verdict), f"a typed end -> {result.final_output!r}")


async def errors(check, client):
    for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
        with check.refused(openai.NotFoundError, "nobody"):
            await agents.Runner.run(agents.Agent("lost", model=kind("nobody", client)), COUNT)
        with check.refused(openai.BadRequestError, "2048"):
            await agents.Runner.run(agents.Agent("long", model=kind(MODEL, client)), "word " * 9000)


def use(check, server, _):
    async def all_of_it():
        client = openai.AsyncOpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
        for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
            print(f"-- {kind.__name__}")
            for part in (chats, tools, forms):
                await part(check, kind(MODEL, client))
        await errors(check, client)

    agents.set_tracing_disabled(True)
    asyncio.run(all_of_it())


if __name__ == "__main__":
    run(__doc__, use)
