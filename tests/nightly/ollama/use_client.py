# SPDX-License-Identifier: Apache-2.0
"""Ollama's client for Python, unmodified, against the port for Ollama: whatever it parses, and no more."""
import argparse
import json
import tempfile

import ollama
from servers import Server, free_port

QUESTION = [{"role": "user", "content": "Count from 3 to 20."}]
EXACT = {"temperature": 0}


def temperature_of(city: str, unit: str = "celsius") -> str:
    """Tells the temperature of a city.

    Args:
      city: its name
      unit: celsius or fahrenheit
    """
    return f"20 {unit} in {city}"


def check_lists(client, model):
    names = [entry.model for entry in client.list().models]
    assert f"{model}:latest" in names, names
    entry = client.list().models[0]
    assert entry.size > 1_000_000 and entry.modified_at.year > 2000 and entry.details.family, entry
    shown = client.show(model)
    assert "completion" in shown.capabilities, shown
    family = shown.modelinfo["general.architecture"]
    assert shown.modelinfo[f"{family}.context_length"] > 0, shown
    assert {entry.model for entry in client.ps().models} == set(names)


def check_chat(client, model):
    whole = client.chat(model, QUESTION, options=EXACT)
    assert whole.done and whole.done_reason == "stop" and whole.message.role == "assistant", whole
    assert whole.model == model and whole.created_at, whole
    parts = list(client.chat(model, QUESTION, options=EXACT, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content, parts
    assert len(parts) > 3 and [part.done for part in parts].count(True) == 1 and parts[-1].done, parts
    end = parts[-1]
    assert end.eval_count == whole.eval_count and end.prompt_eval_count == whole.prompt_eval_count, end
    assert 0 < end.prompt_eval_duration + end.eval_duration <= end.total_duration, end
    short = client.chat(model, QUESTION, options={**EXACT, "num_predict": 3, "num_ctx": 4096}, keep_alive="5m")
    assert short.done_reason == "length" and short.eval_count == 3, short
    generated = client.generate(model, "Count from 3 to 20.", options=EXACT)
    assert generated.response == whole.message.content, generated
    assert "".join(part.response for part in client.generate(model, "Count from 3 to 20.", options=EXACT,
                                                             stream=True)) == generated.response
    rendered = f"<|user|>{QUESTION[0]['content']}<|end|><|assistant|>"
    assert client.generate(model, rendered, raw=True, options=EXACT).response == whole.message.content
    short = client.generate(model, rendered, raw=True, options={**EXACT, "num_predict": 4})
    assert short.eval_count == 4 and whole.message.content.startswith(short.response), short
    assert client.generate(model).done_reason == "load"


def check_form(client, model):
    schema = {"type": "object", "properties": {"age": {"type": "integer", "maximum": 99}}, "required": ["age"],
              "additionalProperties": False}
    answer = client.chat(model, QUESTION, format=schema, options={"temperature": 1, "seed": 5})
    assert set(json.loads(answer.message.content)) == {"age"}, answer
    likely = client.chat(model, QUESTION, logprobs=True, top_logprobs=2, options={**EXACT, "num_predict": 3})
    assert len(likely.logprobs) > 0 and len(likely.logprobs[0].top_logprobs) == 2, likely


def check_tools(client, model):
    answer = client.chat(model, QUESTION, tools=[temperature_of], options=EXACT)
    assert answer.message.content or answer.message.tool_calls, answer
    # The client can't demand a call: its types read the answer to a body that does.
    tool = ollama._utils.convert_function_to_tool(temperature_of).model_dump(exclude_none=True)
    body = {"model": model, "messages": QUESTION, "tools": [tool], "tool_choice": "required",
            "options": {**EXACT, "num_predict": 400}}
    with client._client.stream("POST", "/api/chat", json=body) as stream:
        parts = [ollama.ChatResponse(**json.loads(line)) for line in stream.iter_lines()]
    called = [call for part in parts for call in part.message.tool_calls or []]
    assert called and called[0].function.name == "temperature_of", parts
    assert parts[-1].done, parts
    history = [*QUESTION, {"role": "assistant", "content": "", "tool_calls": called},
               {"role": "tool", "tool_name": "temperature_of", "content": temperature_of("Paris")}]
    assert client.chat(model, history, tools=[temperature_of], options={"num_predict": 5}).done


def check_errors(client, model):
    for ask, status, text in [
            (lambda: client.chat("nobody", QUESTION), 404, "nobody"),
            (lambda: list(client.chat("nobody", QUESTION, stream=True)), 404, "nobody"),
            (lambda: client.chat(model, QUESTION, think=True), 400, "think"),
            (lambda: client.chat(model, QUESTION, options={"mirostat": 1}), 400, "mirostat"),
            (lambda: client.pull("llama3"), 404, "/api/pull")]:
        try:
            ask()
        except ollama.ResponseError as error:
            assert error.status_code == status and text in error.error, error
        else:
            raise AssertionError(f"no error that names {text}")


def check_vectors(client, model):
    answer = client.embed(model, ["a cat", "a dog"])
    size = len(answer.embeddings[0])
    assert len(answer.embeddings) == 2 and size > 1 and answer.prompt_eval_count > 2, answer
    shorter = client.embed(model, "a cat", dimensions=size // 2)
    assert len(shorter.embeddings[0]) == size // 2, shorter
    assert client.embed(model).embeddings == []
    old = client.embeddings(model, "a cat")
    assert list(old.embedding) == list(answer.embeddings[0])
    assert len(client.embed(model, "cat " * 5000).embeddings) == 1
    assert "embedding" in client.show(model).capabilities


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--troupe", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--embedder", help="a directory with an embedding model")
    settings = parser.parse_args()
    port, ollama_port = free_port(), free_port()
    command = [settings.troupe, "serve", "--model", settings.model, "--model-name", "chat", "--port", str(port),
               "--ollama-port", str(ollama_port), "--memory", "1GiB", "--store-directory", "none"]
    if settings.embedder:
        command += ["--model", settings.embedder, "--model-name", "embedder"]
    with tempfile.NamedTemporaryFile(suffix=".log") as log, Server(command, port, "/ready", log.name):
        client = ollama.Client(f"http://127.0.0.1:{ollama_port}")
        for check in (check_lists, check_chat, check_form, check_tools, check_errors):
            check(client, "chat")
            print(f"{check.__name__}: fine")
        if settings.embedder:
            check_vectors(client, "embedder")
            print("check_vectors: fine")


if __name__ == "__main__":
    main()
