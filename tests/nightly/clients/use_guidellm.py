# SPDX-License-Identifier: Apache-2.0
"""guidellm, as it comes: texts that it makes up, one after the other, side by side, in turns and at a rate, over
completions, chats and responses. No request fails, and each answer has as many tokens as were asked for."""
import json
import subprocess
import sys

from demo_server import MODEL, run

NUM_REQUESTS = 20
NUM_TOKENS = 24


def measure(settings, name, path, profile, turns=1):
    out = settings.results / f"{name}.json"
    data = f"kind=synthetic_text,prompt_tokens=100,output_tokens={NUM_TOKENS},turns={turns}"
    command = [f"{sys.prefix}/bin/guidellm", "run",
               "--backend", f"kind=openai_http,target={settings.url},model={MODEL},request_format={path}",
               "--profile", profile, "--constraint", f"kind=max_requests,count={NUM_REQUESTS}",
               "--tokenizer", f"kind=huggingface_auto,model={settings.model}", "--data", data,
               "--output", f"kind=json,path={out}", "--disable-console"]
    ended = subprocess.run(command, capture_output=True, text=True)
    (settings.results / f"{name}.txt").write_text(ended.stdout + ended.stderr)
    if not out.exists():
        raise RuntimeError(f"guidellm, {name}: {(ended.stdout + ended.stderr)[-2000:]}")
    return json.loads(out.read_text())["benchmarks"][0]


def num_whole_answers(server):
    """As the server counts: on a slow machine guidellm ends with its last request answered and not counted."""
    return server.logged().count(f" completion_tokens={NUM_TOKENS} ")


def use(check, server, settings):
    settings.url = server.url
    for name, *how in [
            ("completions-in-turn", "/v1/completions", "kind=synchronous"),
            ("chats-side-by-side", "/v1/chat/completions", "kind=concurrent,streams=4"),
            ("conversations", "/v1/chat/completions", "kind=concurrent,streams=4", 4),
            ("responses-side-by-side", "/v1/responses", "kind=concurrent,streams=4"),
            ("chats-at-a-rate", "/v1/chat/completions", "kind=poisson,rate=20")]:
        before = num_whole_answers(server)
        found = measure(settings, name, *how)
        totals = found["metrics"]["request_totals"]
        num_answered = num_whole_answers(server) - before
        check(totals["errored"] == totals["incomplete"] == 0 and totals["successful"] > 0 and num_answered == NUM_REQUESTS,
              f"{name}: {totals}, whole answers of the server: {num_answered}")
        answers = [request["output_metrics"]["text_tokens"] for request in found["requests"]["successful"]]
        check(set(answers) == {NUM_TOKENS}, f"{name}: answers of {set(answers)} tokens")


if __name__ == "__main__":
    run(__doc__, use)
