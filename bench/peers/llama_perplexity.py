#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The perplexity of a text in troupe beside that in llama.cpp's `llama-perplexity`, on one GGUF file.

The text is cut into chunks of --context tokens as llama-perplexity cuts it, and the second half of each counts.
Where the vocabulary begins texts with a token of its own, each chunk's first token is that one, as there.
troupe answers from /v1/completions with "echo". A line of JSON for each --arm, which are options of `troupe serve`
in one word: --arm="--compute-type f32 --activations exact".
"""
import argparse
import json
import math
import pathlib
import re
import shlex
import subprocess
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import ROOT, Server  # noqa: E402

READY_SECONDS = 600


def output_of(command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr[-2000:]}")
    return result.stdout + result.stderr


def llama_tokens(program, model, text, *options):
    command = [program, "-m", model, "-f", text, "--ids", "--no-parse-special", "--log-disable", *options]
    return json.loads(re.search(r"\[[\d, ]+\]", output_of(command)).group())


def llama_perplexity(program, model, text, context, threads):
    command = [program, "-m", model, "-f", text, "-c", context, "-b", context, "-t", threads]
    return float(re.search(r"Final estimate: PPL = ([\d.]+)", output_of(command)).group(1))


def log_probabilities(server, prompt):
    """Of each token but the first."""
    body = {"prompt": [prompt], "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    request = urllib.request.Request(server.url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        choice = json.load(answer)["choices"][0]
    return choice["logprobs"]["token_logprobs"][1:len(prompt)]


def chunks(tokens, plain_tokens, context):
    """plain_tokens: without the beginning that the vocabulary adds, if it adds one."""
    beginning = tokens[:len(tokens) - len(plain_tokens)]
    if tokens != beginning + plain_tokens or len(beginning) > 1:
        sys.exit(f"expected at most one token in front of the text, got {tokens[:4]} and {plain_tokens[:4]}")
    for first in range(0, len(tokens) - context + 1, context):
        yield beginning + tokens[first + len(beginning):first + context]


def troupe_perplexity(server, prompts, context):
    counted = []
    for prompt in prompts:
        # logits of a place are of the token behind it
        counted += log_probabilities(server, prompt)[context // 2:]
    return math.exp(-sum(counted) / len(counted)), len(counted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="a GGUF file")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--arm", action="append", default=[], help="options of troupe serve; none: its defaults")
    parser.add_argument("--llama-perplexity", type=pathlib.Path, required=True)
    parser.add_argument("--llama-tokenize", type=pathlib.Path, required=True)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    tokens, plain_tokens = (llama_tokens(arguments.llama_tokenize, arguments.model, arguments.text, *options)
                            for options in [(), ("--no-bos",)])
    prompts = list(chunks(tokens, plain_tokens, arguments.context))
    reference = llama_perplexity(arguments.llama_perplexity, arguments.model, arguments.text, arguments.context,
                                 arguments.threads)
    for arm in arguments.arm or [""]:
        options = ["--device", "cpu", "--threads", str(arguments.threads), *shlex.split(arm)]
        with Server(arguments.troupe, options, arguments.model, ready_seconds=READY_SECONDS) as server:
            found, counted = troupe_perplexity(server, prompts, arguments.context)
        print(json.dumps({"model": arguments.model.name, "arm": arm, "troupe": found, "llama": reference,
                          "over_llama": found / reference - 1, "tokens": counted}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
