# SPDX-License-Identifier: Apache-2.0
"""Each refusal has the status, the class and the shape that official clients expect."""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.request

import anthropic
import openai
import openapi_spec_validator

from checks import Checks
from servers import start_troupe

MODEL = "troupe-demo"
KEY = "a-key-of-the-contract"
MESSAGES = [{"role": "user", "content": "hi"}]
LONG = [{"role": "user", "content": "x" * 2_000_000}]

# Status, a request's fields, its headers, the names that classes of the clients' exceptions may have,
# Anthropic's type.
REFUSALS = [
    (400, {"max_tokens": 0}, {}, "BadRequestError", "invalid_request_error"),
    (400, {"messages": []}, {}, "BadRequestError", "invalid_request_error"),
    (401, {}, {"Authorization": "Bearer wrong", "X-Api-Key": "wrong"}, "AuthenticationError", "authentication_error"),
    (404, {"model": "none"}, {}, "NotFoundError", "not_found_error"),
    (413, {"messages": LONG}, {}, "APIStatusError RequestTooLargeError ContentTooLargeError", "request_too_large"),
    (415, {}, {"Content-Type": "text/plain"}, "APIStatusError", "invalid_request_error"),
    (417, {}, {"Expect": "miracles"}, "APIStatusError", "invalid_request_error"),
]
# A header that is not read to its end does not say which API was meant: OpenAI's shape.
UNREAD = (431, {}, {"X-Long": "x" * 20_000}, "APIStatusError", "invalid_request_error")
# Without a key: of web pages.
OPEN_REFUSALS = [
    (403, {}, {"Origin": "http://elsewhere.example"}, "PermissionDeniedError", "permission_error"),
    (421, {}, {"Host": "elsewhere.example"}, "APIStatusError", "invalid_request_error"),
]


class OpenAi:
    name = "openai"
    module = openai

    def __init__(self, url, key):
        self.client = openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0)

    def ask(self, fields, headers):
        self.client.chat.completions.create(**{"model": MODEL, "messages": MESSAGES, **fields},
                                            extra_headers=headers)

    def read_stream(self, on_piece):
        for _ in self.client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True, max_tokens=1500,
                                                     extra_body={"ignore_eos": True}):
            on_piece()

    def check_shape(self, check, error, status, _):
        body = error.body
        check(isinstance(body, dict) and set(body) == {"message", "type", "param", "code"} and body["message"],
              f"  its error object -> {json.dumps(body)[:120]}")
        check(error.code == body["code"] and error.type == body["type"] and error.param == body["param"],
              "  which the client reads")


class Anthropic:
    name = "anthropic"
    module = anthropic

    def __init__(self, url, key):
        self.client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)

    def ask(self, fields, headers):
        self.client.messages.create(**{"model": MODEL, "messages": MESSAGES, "max_tokens": 4, **fields},
                                    extra_headers=headers)

    def read_stream(self, on_piece):
        for _ in self.client.messages.create(model=MODEL, messages=MESSAGES, stream=True, max_tokens=1500,
                                             extra_body={"ignore_eos": True}):
            on_piece()

    def check_shape(self, check, error, status, kind):
        body = error.body
        check(isinstance(body, dict) and body.get("type") == "error" and body["error"]["type"] == kind
              and body["error"]["message"], f"  its error object -> {json.dumps(body)[:120]}")
        check(body.get("request_id") == error.response.headers.get("x-request-id"), "  with the request's id")


def meet(check, api, status, fields, headers, kinds, anthropic_type):
    what = f"{api.name} {status}"
    try:
        api.ask(fields, headers)
    except api.module.APIStatusError as error:
        check(type(error).__name__ in kinds.split() and error.status_code == status,
              f"{what} -> {type(error).__name__} {error.status_code}")
        api.check_shape(check, error, status, anthropic_type)
        return
    check(False, f"{what} is refused")


def misses(check, url):
    """Paths and methods that there are not, asked for by the client's own means."""
    client = openai.OpenAI(base_url=url + "/v1", api_key=KEY, max_retries=0)
    for status, kind, path in ((414, "APIStatusError", "/models/" + "x" * 20_000), (404, "NotFoundError", "/nothing"), (405, "APIStatusError", "/chat/completions"),
                               (404, "NotFoundError", "/responses/resp_none"), (404, "NotFoundError", "/models/none")):
        try:
            client.get(path, cast_to=object)
            check(False, f"GET {path[:40]} is refused")
        except openai.APIStatusError as error:
            check(type(error).__name__ == kind and error.status_code == status and error.body["message"],
                  f"GET {path[:40]} -> {type(error).__name__} {error.status_code} {error.code}")


def overloads(check, api, troupe):
    """More requests than may wait: some are refused with 429 and the time to come again."""
    refused = []

    def ask():
        try:
            api.ask({"max_tokens": 400, "extra_body": {"ignore_eos": True}}, {})
        except api.module.RateLimitError as error:
            refused.append(error)
        except api.module.APIStatusError as error:
            check(False, f"{api.name} overloaded -> {type(error).__name__}")

    with troupe.slowed():
        threads = [threading.Thread(target=ask) for _ in range(120)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check(refused and all(error.response.headers.get("retry-after") for error in refused),
          f"{api.name} 429 -> RateLimitError, {len(refused)} of {len(threads)}, each with Retry-After")
    if refused:
        api.check_shape(check, refused[0], 429, "rate_limit_error")


def keeps_waiting(check, troupe):
    """A request that does not arrive: no client sends one, so the bytes are read."""
    with socket.create_connection(("127.0.0.1", troupe.port), timeout=60) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    check(head.startswith(b"HTTP/1.1 408 ") and json.loads(body)["error"]["code"] == "request_timeout",
          f"408 -> {body[:120].decode()}")


def spends_its_rate(check, api):
    """A tenant of so few tokens a minute that its second request has to wait."""
    try:
        for _ in range(3):
            api.ask({}, {})
        check(False, f"{api.name} 429 of a tenant is refused")
    except api.module.RateLimitError as error:
        check(int(error.response.headers["retry-after"]) >= 1, f"{api.name} 429 of a tenant -> RateLimitError")
        api.check_shape(check, error, 429, "rate_limit_error")


def loses_workers(check, api, troupe):
    """Workers die as long as one answer is streamed: it ends with an error that the client raises."""
    def kill_workers():
        for pid in troupe.children():
            with contextlib.suppress(ProcessLookupError):  # it has just been ended
                os.kill(pid, signal.SIGKILL)

    try:
        api.read_stream(kill_workers)
        check(False, f"{api.name} error inside a stream is raised")
    except api.module.APIError as error:
        check(isinstance(error.body, dict) and "worker" in str(error.body),
              f"{api.name} error inside a stream -> {type(error).__name__} {json.dumps(error.body)[:160]}")


def loads(check, options, place):
    """While the model is loaded each request is answered with 503."""
    seen = set()
    with start_troupe(options.troupe, options.model, "none", f"{place}/log", ready_path=None) as troupe:
        api = OpenAi(troupe.url, "none")
        deadline = time.monotonic() + 60
        while "answered" not in seen and time.monotonic() < deadline:
            try:
                api.ask({"max_tokens": 1}, {})
                seen.add("answered")
            except openai.APIConnectionError:
                continue
            except openai.APIStatusError as error:
                seen.add(f"{type(error).__name__} {error.status_code}")
                if error.response.headers.get("retry-after") is None:
                    seen.add("without Retry-After")
    check(seen == {"answered", "InternalServerError 503"}, f"openai while the model is loaded -> {sorted(seen)}")


def documents(check, url, key):
    request = urllib.request.Request(url + "/openapi.json", headers={"Authorization": "Bearer " + key})
    with urllib.request.urlopen(request, timeout=10) as answer:
        document = json.load(answer)
    openapi_spec_validator.validate(document)
    check(len(document["paths"]) > 20, f"/openapi.json is valid OpenAPI {document['openapi']}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--troupe", required=True)
    arguments.add_argument("--model", required=True)
    options = arguments.parse_args()
    check = Checks()
    with tempfile.TemporaryDirectory() as place:
        flags = ["--api-key", KEY, "--max-waiting", "1", "--max-batch-sequences", "2"]
        with start_troupe(options.troupe, options.model, pathlib.Path(place, "state"), f"{place}/log", flags) as troupe:
            documents(check, troupe.url, KEY)
            for api in (OpenAi(troupe.url, KEY), Anthropic(troupe.url, KEY)):
                for refusal in REFUSALS:
                    meet(check, api, *refusal)
                overloads(check, api, troupe)
            meet(check, OpenAi(troupe.url, KEY), *UNREAD)
            misses(check, troupe.url)
            keeps_waiting(check, troupe)
        keys = pathlib.Path(place, "keys")
        keys.write_text("openai a-key-1 tokens_per_minute=10\nanthropic a-key-2 tokens_per_minute=10\n",
                        encoding="utf-8")
        with start_troupe(options.troupe, options.model, pathlib.Path(place, "rated"), f"{place}/log3",
                          ["--api-keys-file", str(keys)]) as troupe:
            spends_its_rate(check, OpenAi(troupe.url, "a-key-1"))
            spends_its_rate(check, Anthropic(troupe.url, "a-key-2"))
        for api in (OpenAi, Anthropic):
            with start_troupe(options.troupe, options.model, pathlib.Path(place, api.name), f"{place}/log4",
                              ["--worker-placement", "child", "--max-restarts", "100"]) as troupe:
                loses_workers(check, api(troupe.url, "none"), troupe)
        loads(check, options, place)
        with start_troupe(options.troupe, options.model, pathlib.Path(place, "open"), f"{place}/log2") as troupe:
            for api in (OpenAi(troupe.url, "none"), Anthropic(troupe.url, "none")):
                for refusal in OPEN_REFUSALS:
                    meet(check, api, *refusal)
    return 0 if check.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
