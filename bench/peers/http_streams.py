# SPDX-License-Identifier: Apache-2.0
"""Requests with token ids as prompts to a server's /v1/completions, many at once, and what they took."""
import concurrent.futures
import dataclasses
import http.client
import json
import time


@dataclasses.dataclass(frozen=True)
class Request:
    prompt: list[int]
    num_tokens: int  # of the answer, exactly


def ask(port, request, streams):
    """Seconds at which the first and the last token came; without streaming both are the end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = {"prompt": request.prompt, "max_tokens": request.num_tokens, "temperature": 0, "ignore_eos": True,
            "stream": streams}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"the server answered {answer.status}: {answer.read()[:200]!r}")
    if not streams:
        usage = json.loads(answer.read())["usage"]
        if usage["completion_tokens"] != request.num_tokens:
            raise RuntimeError(f"{usage['completion_tokens']} tokens instead of {request.num_tokens}")
        return time.monotonic(), time.monotonic()
    times = []
    for line in answer:
        if line.startswith(b"data: {"):
            times.append(time.monotonic())
        elif line.startswith(b"data: [DONE]"):
            break
    if len(times) < 2:
        raise RuntimeError("the stream ended early")
    return times[0], times[-1]


def throughput(port, requests):
    """Output tokens a second over all requests, sent at once."""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        list(pool.map(lambda request: ask(port, request, False), requests))
    return sum(request.num_tokens for request in requests) / (time.monotonic() - begin)


def stream(port, requests, num_streams):
    """Output tokens a second, and the time between two tokens of each request, with so many at any time."""
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(num_streams) as pool:
        times = list(pool.map(lambda request: ask(port, request, True), requests))
    rate = sum(request.num_tokens for request in requests) / (time.monotonic() - begin)
    return rate, [(last - first) / (request.num_tokens - 1) for (first, last), request in zip(times, requests)]
