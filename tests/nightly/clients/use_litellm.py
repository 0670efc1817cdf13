# SPDX-License-Identifier: Apache-2.0
"""litellm, as it comes: OpenAI's, Anthropic's and Ollama's APIs of one server behind one function."""
import asyncio
import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks the network
import litellm  # noqa: E402

from demo_server import COUNT, COUNTED, MODEL, run  # noqa: E402

QUESTION = [{"role": "user", "content": COUNT}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather", "description": "Tells the weather.", "strict": True,
        "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"],
            "additionalProperties": False
        }
    }
}
FORM = {
    "type": "json_schema",
    "json_schema": {
        "name": "verdict", "strict": True,
        "schema": {
            "type": "object", "properties": {"mark": {"enum": ["A", "B"]}}, "required": ["mark"],
            "additionalProperties": False
        }
    }
}


def chats(check, where):
    whole = litellm.completion(messages=QUESTION, temperature=0, **where)
    text = whole.choices[0].message.content
    usage = whole.usage
    check(COUNTED in text and usage.completion_tokens > 5, f"a chat -> {text!r}, {usage.total_tokens} tokens")
    chunks = list(litellm.completion(messages=QUESTION, temperature=0, stream=True,
                                     stream_options={"include_usage": True}, **where))
    built = litellm.stream_chunk_builder(chunks, messages=QUESTION)
    check(built.choices[0].message.content == text, f"streamed in {len(chunks)} chunks, the same")
    check(built.usage.completion_tokens == usage.completion_tokens, "and its usage")

    async def together():
        asked = [[{"role": "user", "content": f"Count from {i} to {i + 4}."}] for i in range(12)]
        return await asyncio.gather(*(litellm.acompletion(messages=one, temperature=0, **where) for one in asked))

    answers = [answer.choices[0].message.content for answer in asyncio.run(together())]
    check(all(f"{i}, {i + 1}, {i + 2}" in answer for i, answer in enumerate(answers)), "12 at once are right")


def tools(check, where):
    asked = {"messages": QUESTION, "tools": [WEATHER], "tool_choice": "required", **where}
    message = litellm.completion(**asked).choices[0].message
    arguments = json.loads(message.tool_calls[0].function.arguments)
    check(arguments["city"] in ("Paris", "Rome"), f"a call -> {arguments}")
    built = litellm.stream_chunk_builder(list(litellm.completion(**asked, stream=True)))
    called = built.choices[0].message.tool_calls[0].function
    check(json.loads(called.arguments)["city"] in ("Paris", "Rome"), f"streamed, a call of {called.name} too")
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "Rain."}
    after = litellm.completion(messages=[*QUESTION, message, result], tools=[WEATHER], **where)
    check(after.usage.completion_tokens > 0, f"behind its result -> {after.choices[0].message.content!r}")


def errors(check, where):
    with check.refused(litellm.NotFoundError, "nobody"):
        litellm.completion(messages=QUESTION, **{**where, "model": where["model"].split("/")[0] + "/nobody"})
    with check.refused(litellm.BadRequestError, "temperature"):
        litellm.completion(messages=QUESTION, temperature=9, **where)
    with check.refused(litellm.BadRequestError, "no model of this server makes embeddings"):
        litellm.embedding(input=["a cat", "a dog"], **where)
    with check.refused(litellm.ContextWindowExceededError, "2048"):
        litellm.completion(messages=[{"role": "user", "content": "word " * 9000}], stream=True, **where)


def use(check, server, settings):
    litellm.suppress_debug_info = True
    openai = {"model": f"openai/{MODEL}", "api_base": server.url + "/v1", "api_key": "none", "max_retries": 0}
    anthropic = {"model": f"anthropic/{MODEL}", "api_base": server.url, "api_key": "none", "max_tokens": 100}
    ollama = {"model": f"ollama_chat/{MODEL}", "api_base": settings.ollama_url}
    for where in (openai, anthropic, ollama):
        print(f"-- {where['model']}")
        chats(check, where)
    for where in (openai, anthropic):
        print(f"-- {where['model']}")
        tools(check, where)
    form = litellm.completion(messages=QUESTION, response_format=FORM, **openai).choices[0].message.content
    check(json.loads(form)["mark"] in ("A", "B"), f"structured -> {form}")
    response = litellm.responses(input=COUNT, temperature=0, **openai)
    check(COUNTED in response.output[0].content[0].text, "a response")
    plain = {**openai, "model": f"text-completion-openai/{MODEL}"}
    text = litellm.text_completion(prompt="1, 2, 3,", max_tokens=8, **plain)
    check(text.choices[0].text, f"a completion -> {text.choices[0].text!r}")
    errors(check, openai)


if __name__ == "__main__":
    run(__doc__, use)
