#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a neighbour's 5 KB prompt waits beside hostile ones: against a real server.

  bench/server/prompt_wait.py --troupe build/release/app/troupe

The server runs the no-op device with the demo model's tokenizer and template, and a
context that is long enough for megabytes to be encoded in earnest. Hostile clients
send large prompts one after the other and ask for answers that do not fit behind them:
all is encoded, and then refused, so that nothing is measured but encoding. The
neighbour sends one prompt of 5 KB at a time, and what counts is how long its answer of
one token takes. Printed in milliseconds: alone, and beside each kind of hostile text.
"""
import argparse
import http.client
import json
import multiprocessing
import pathlib
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import DEMO_MODEL, Server  # noqa: E402

MIB = 1 << 20
NEIGHBOUR_TEXT = ("My name is Ada, and I count from 3 to 7. " * 200)[:5 * 1024]
TEXTS = {
    "ordinary": "My name is Ada, and I count to 12. ",
    "one letter": "a",
    "spaces": " ",
    "digits": "7",
    "no-break spaces": "\u00a0",
    "combining marks": "\u0301\u0316",
    "one word": "theMarker0End",
}


def repeated(part, num_bytes):
    return part * (num_bytes // len(part.encode()))


def post(connection, path, body):
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def chat(text, max_tokens):
    return json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": max_tokens},
                      ensure_ascii=False).encode()


def attack(port, path, body, stop, statuses):
    """Sends it again and again."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    while not stop.is_set():
        try:
            status, _ = post(connection, path, body)
        except OSError:
            connection.close()
            continue
        with statuses.get_lock():
            statuses[status // 100] += 1


def measure(port, seconds):
    """Latencies of the neighbour's prompts, in milliseconds, and those that failed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    latencies, num_failed, number = [], 0, 0
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(latencies) < 20:
        number += 1
        body = chat(f"{number} {NEIGHBOUR_TEXT}", 1)  # none of it is cached
        start = time.monotonic()
        status, _ = post(connection, "/v1/chat/completions", body)
        latencies.append(1000 * (time.monotonic() - start))
        num_failed += status != 200
        time.sleep(0.01)
    return sorted(latencies), num_failed


def print_row(name, latencies, num_failed, statuses=None):
    def rank(share):
        return latencies[min(len(latencies) - 1, int(share * len(latencies)))]
    hostile = "" if statuses is None else " ".join(f"{kind}xx:{statuses[kind]}" for kind in range(2, 6) if statuses[kind])
    print(f"{name:28} {len(latencies):6} {rank(0.5):8.1f} {rank(0.99):8.1f} {latencies[-1]:8.1f} {num_failed:7}  {hostile}",
          flush=True)


def beside(port, name, path, body, arguments):
    context = multiprocessing.get_context("fork")
    stop, statuses = context.Event(), context.Array("i", 6)
    clients = [context.Process(target=attack, args=(port, path, body, stop, statuses), daemon=True)
               for _ in range(arguments.clients)]
    for client in clients:
        client.start()
    time.sleep(0.5)
    latencies, num_failed = measure(port, arguments.seconds)
    stop.set()
    for client in clients:
        client.terminate()  # it may be waiting for an answer: hangs up
        client.join()
    print_row(name, latencies, num_failed, statuses)


def first_response(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    _, answer = post(connection, "/v1/responses", json.dumps({"input": "hi", "max_output_tokens": 2}).encode())
    return json.loads(answer)["id"]


def attacks(port, size, context):
    for name, part in TEXTS.items():
        yield name, "/v1/chat/completions", chat(repeated(part, size), context)
    markers = "".join(f"Marker{i}End" for i in range(size // 14))[:size]
    yield "markers, next turn", "/v1/responses", json.dumps(
        {"input": markers, "previous_response_id": first_response(port), "max_output_tokens": context, "store": False}).encode()


def model_with_context(directory, context):
    shutil.copytree(DEMO_MODEL, directory)
    config = json.loads((directory / "config.json").read_text())
    config["max_position_embeddings"] = context
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default="build/release/app/troupe")
    parser.add_argument("--clients", type=int, default=4, help="hostile ones at once")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    parser.add_argument("--sizes", default="1,16", help="of hostile prompts, in MiB")
    parser.add_argument("--context", type=int, default=1 << 23, help="tokens")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        options = ["--device", "noop", "--max-batch-sequences", 2, "--max-body-bytes", "16MiB",
                   "--store-directory", root / "store"]
        print(f"{'neighbour of 5 KiB':28} {'number':>6} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'failed':>7}  hostile answers")
        with Server(arguments.troupe, options, model_with_context(root / "model", arguments.context)) as server:
            print_row("alone", *measure(server.port, arguments.seconds))
            for size in arguments.sizes.split(","):
                num_bytes = int(float(size) * MIB) - 4096  # the request's other fields
                for name, path, body in attacks(server.port, num_bytes, arguments.context):
                    beside(server.port, f"{size} MiB, {name}", path, body, arguments)


if __name__ == "__main__":
    main()
