#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`troupe serve` beside llama.cpp's `llama-server` on one GGUF file, in alternated pairs.

Both servers are up with the same file, the same threads and room for 32 streams. A round asks each of them
for the same prompts of token ids, one server after the other, the order reversed every round: one prompt of
512 tokens, then decode with 1, 8 and 16 streams. A line of JSON for each says tokens/s of both and the ratio,
medians, least and most of the rounds. A round more warms up.

llama-server: `pip download --no-deps --no-binary :all: llama-cpp-python`, unpack, then in vendor/llama.cpp
`cmake -B build -DCMAKE_BUILD_TYPE=Release -DLLAMA_BUILD_WEBUI=OFF -DLLAMA_OPENSSL=OFF` and
`cmake --build build --target llama-server`.
"""
import argparse
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import http_streams  # noqa: E402
from live_server import ROOT, HttpServer, Server  # noqa: E402

PROMPT_IDS = range(100, 1000)
NUM_SLOTS, CONTEXT = 32, 1024  # of a stream
PREFILL, SHORT_PROMPT = 512, 16
READY_SECONDS = 600


def llama_server(program, model, threads, options):
    return HttpServer(lambda port: [program, "-m", model, "--port", port, "-t", threads, "-tb", threads, "-np", NUM_SLOTS,
                                    "-c", NUM_SLOTS * CONTEXT, "--no-webui", *options], "/health", READY_SECONDS,
                      errors=subprocess.DEVNULL)


def prompt(draw, length):
    return [draw.choice(PROMPT_IDS) for _ in range(length)]


def prefill_rate(port, request):
    begin = time.monotonic()
    first, _ = http_streams.ask(port, request, True)
    return len(request.prompt) / (first - begin)


def decode_rate(port, requests):
    """Tokens a second behind the first token, of all streams together."""
    _, between = http_streams.stream(port, requests, len(requests))
    return sum(1 / seconds for seconds in between)


def read_bandwidth(program, threads):
    """Bytes a second that so many threads read of memory."""
    said = subprocess.run([program, str(threads), "64", "64", "0"], stdout=subprocess.PIPE, check=True, text=True).stdout
    return 1e9 * float(re.search(r"read ([\d.]+) GB/s", said).group(1))


def tasks_of(draw, num_tokens):
    """What a round measures: a name, and a function of a port. New prompts each time, so nothing is cached."""
    long = http_streams.Request(prompt(draw, PREFILL), 2)
    yield f"prefill {PREFILL}", lambda port: prefill_rate(port, long)
    for streams in (1, 8, 16):
        requests = [http_streams.Request(prompt(draw, SHORT_PROMPT), num_tokens) for _ in range(streams)]
        yield f"decode {streams}", lambda port, requests=requests: decode_rate(port, requests)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="a GGUF file")
    parser.add_argument("--llama-server", type=pathlib.Path, required=True)
    parser.add_argument("--llama-option", action="append", default=[], help="passed on to it, any number of times")
    parser.add_argument("--troupe-option", action="append", default=[], help="passed on to troupe serve, likewise")
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--bandwidth", type=pathlib.Path, default=ROOT / "build/release/bench/kernels/cpu/bench_quantized",
                        help="the program that measures it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64, help="of an answer")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    options = ["--device", "cpu", "--threads", str(arguments.threads), "--max-batch-sequences", str(NUM_SLOTS),
               *arguments.troupe_option]
    rates, bandwidths = {}, []
    with Server(arguments.troupe, options, arguments.model, ready_seconds=READY_SECONDS) as troupe, \
            llama_server(arguments.llama_server, arguments.model, arguments.threads, arguments.llama_option) as llama:
        for number in range(arguments.rounds + 1):
            bandwidths.append(read_bandwidth(arguments.bandwidth, arguments.threads))
            for name, measure in tasks_of(draw, arguments.tokens):
                pair = {}
                for server in (troupe, llama) if number % 2 else (llama, troupe):
                    pair[server] = measure(server.port)
                if number > 0:
                    rates.setdefault(name, []).append((pair[troupe], pair[llama]))
    for name, pairs in rates.items():
        ratios = [ours / theirs for ours, theirs in pairs]
        ours = statistics.median(ours for ours, _ in pairs)
        line = {"model": arguments.model.name, "measured": name, "troupe": ours,
                "llama": statistics.median(theirs for _, theirs in pairs),
                "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios), "rounds": len(pairs)}
        if name == "decode 1":
            line["of_read_bandwidth"] = ours * arguments.model.stat().st_size / statistics.median(bandwidths)
        print(json.dumps(line), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
