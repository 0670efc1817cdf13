# SPDX-License-Identifier: Apache-2.0
"""Part tenants: one that asks too much beside a modest one, others' conversations, ids, hosts, doors without keys."""
import asyncio
import pathlib
import tempfile
import time

import client
import guessable_ids
from machine import Watch
from results import in_ms, listed, percentile
from target import NOOP, Target

KEYS = {"alice": "key-of-alice-0123456789", "bob": "key-of-bob-9876543210"}
NUM_GREEDY = 260
B_SECONDS = 0.25  # between two requests of the modest tenant
MOST_TTFT_SECONDS = 2  # of the modest tenant, 99th percentile


def run(settings, report):
    with tempfile.TemporaryDirectory(prefix="attack-") as place:
        place = pathlib.Path(place)
        keys = place / "keys"
        keys.write_text("".join(f"{tenant} {key}\n" for tenant, key in KEYS.items()))
        keys.chmod(0o600)
        options = [*NOOP, "--api-keys-file", str(keys), "--model-name", "demo"]
        slow = ["--noop-iteration-us", "20000", "--max-batch-sequences", "16", "--max-waiting", "128"]
        with Target(settings.troupe, [*options, *slow]) as server:
            asyncio.run(greedy_tenant(settings, report, server))
        with Target(settings.troupe, [*options, "--store-directory", str(place / "store")]) as server:
            asyncio.run(others_conversations(report, server.port))
            asyncio.run(doors_without_key(report, server.port))
            asyncio.run(hosts(report, server.port, HOSTS_WITH_KEYS, [client.key_line(KEYS["bob"])], "with keys"))
        with Target(settings.troupe, [*NOOP, "--store-directory", str(place / "open")]) as server:
            asyncio.run(hosts(report, server.port, HOSTS, [], "without keys"))
            asyncio.run(origins(report, server.port))
            asyncio.run(guessable_ids.check(settings, report, server.port))


async def greedy_tenant(settings, report, server):
    number = settings.size(40, 16)
    with Watch(server.pid) as watch:
        even, refused = await modest(server.port, number)
        report.note("a tenant alone: time to the first token", in_ms(even))
        greedy = [asyncio.ensure_future(ask_forever(server.port)) for _ in range(NUM_GREEDY)]
        await asyncio.sleep(2)
        beside, refused = await modest(server.port, number)
        for one in greedy:
            one.cancel()
        await asyncio.gather(*greedy, return_exceptions=True)
    report.check(f"refusals of a tenant beside one with {NUM_GREEDY} clients", f"{refused} of {number}", refused == 0,
                 "0")
    report.time("its time to the first token", in_ms(beside),
                percentile(beside, 0.99) < MOST_TTFT_SECONDS, f"p99 < {MOST_TTFT_SECONDS} s", watch)


async def ask_forever(port):
    connection = await client.Connection.open(port)
    while True:
        answer = await connection.request("POST", "/v1/chat/completions", client.chat("Count.", 16, ignore_eos=True),
                                          [client.key_line(KEYS["alice"])])
        if answer.status == 429:
            await asyncio.sleep(0.05)
        if answer.headers.get("connection") == "close":
            connection.close()
            connection = await client.Connection.open(port)


async def modest(port, number):
    """Times to the first token of one request each B_SECONDS, and how many were refused."""

    async def one(i):
        await asyncio.sleep(i * B_SECONDS)
        connection = await client.Connection.open(port)
        began = time.perf_counter()
        body = client.chat("Count.", 4, ignore_eos=True, stream=True)
        await connection.send(client.request_bytes("POST", "/v1/chat/completions", body,
                                                   [client.key_line(KEYS["bob"])]))
        answer = await connection.head()
        times = [now - began async for now, text in connection.events(answer)
                 if '"content":"' in text] if answer.status == 200 else []
        connection.close()
        return times[0] if times else None

    times = await asyncio.gather(*map(one, range(number)))
    return [seconds for seconds in times if seconds is not None], times.count(None)


async def others_conversations(report, port):
    """Nine credentials, five operations: only the owner's key finds anything."""
    alice, bob = KEYS["alice"], KEYS["bob"]
    made = await client.ask(port, "POST", "/v1/responses", {"input": "my secret is 4711", "max_output_tokens": 2},
                            [client.key_line(alice)])
    path = "/v1/responses/" + made.json()["id"]
    credentials = {
        "another tenant's key": ([client.key_line(bob)], 404), "none": ([], 401),
        "an unknown key": ([client.key_line("x" * 23)], 401), "the key in capitals": ([client.key_line(
            alice.upper())], 401), "the key's beginning": ([client.key_line(alice[:-1])], 401),
        "the key and more": ([client.key_line(alice + "0")], 401), "an empty key": (["Authorization: Bearer "], 401),
        "another scheme": ([f"Authorization: Basic {alice}"], 401),
        "two keys": ([client.key_line(bob), client.key_line(alice)], 400)
    }
    operations = [
        ("GET", path, None), ("GET", path + "/input_items", None), ("HEAD", path, None), ("DELETE", path, None),
        ("POST", "/v1/responses", {"input": "What is my secret?", "previous_response_id": path.rsplit("/", 1)[1]})
    ]
    wrong = []
    for name, (headers, expected) in credentials.items():
        for method, target, body in operations:
            answer = await client.ask(port, method, target, body, headers)
            # Whatever can't be continued is a bad request, as with OpenAI, be it another's or nobody's.
            status = 400 if method == "POST" and expected == 404 else expected
            if answer.status != status or b"4711" in answer.body:
                wrong.append(f"{method} with {name}: {answer.status}, not {status}")
    total = len(credentials) * len(operations)
    report.check(f"{total} attempts at another's conversation that succeed or are told apart", listed(wrong), not wrong,
                 "0")
    owner = await client.ask(port, "GET", path, headers=[client.key_line(alice)])
    report.check("the owner still finds it", owner.status, owner.status == 200, "200")


async def doors_without_key(report, port):
    """Every path in every spelling wants a key, but for those that say nothing but that the process lives."""
    paths = [
        "/v1/models", "/v1/models/demo", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings",
        "/v1/rerank", "/score", "/v1/classify",
        "/v1/responses/resp_x", "/v1/responses/resp_x/input_items"
    ]
    spellings = [
        *paths, *(path + "/" for path in paths), *("/" + path for path in paths), *(path.upper() for path in paths),
        *(path.replace("/", "/./") for path in paths), *(path.replace("v", "%76")
                                                         for path in paths), *(path + "?x=/live" for path in paths),
        "/live/../v1/models", "/page", "/page/", "/admin", "/debug", "/v1/", "/docs", "/metrics/"
    ]
    open_ones = []
    for path in spellings:
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            body = {} if method == "POST" else None
            answer = await client.ask(port, method, path, body)
            if answer.status not in (400, 401):
                open_ones.append(f"{method} {path}: {answer.status}")
    report.check(f"doors without a key, of {4 * len(spellings)}", listed(open_ones), not open_ones, "0")
    for path in ("/metrics", "/traces", "/version"):
        status = (await client.ask(port, "GET", path)).status
        report.check(f"{path} without a key", status, status in (401, 403, 404), "401, 403 or 404")
    for path in ("/health", "/ready"):
        answer = await client.ask(port, "GET", path)
        report.check(f"{path} without a key tells of no requests", answer.body.decode(), answer.status == 200
                     and b"requests_" not in answer.body)


# Host fields, and whether they are this machine's own.
HOSTS = {
    "127.0.0.1": True, "127.0.0.1:8000": True, "localhost": True, "localhost:1": True, "LOCALHOST": True, "[::1]": True,
    "[::1]:8000": True, "127.0.0.2": True, "evil.example": False, "evil.example:8000": False,
    "127.0.0.1.evil.example": False, "localhost.evil.example": False, "evil.example#127.0.0.1": False,
    "127.0.0.1@evil.example": False, "169.254.169.254": False, "10.0.0.1": False, "[fe80::1]": False,
    "xn--lcalhost-9za": False, "127.0.0.1 evil": False
}
HOSTS_WITH_KEYS = {"127.0.0.1": True, "evil.example": True, "service.internal:8000": True}


async def hosts(report, port, table, headers, when):
    """Another's name in Host is a web page that has bound its name to this address."""
    wrong = []
    for host, is_own in table.items():
        operations = [("GET", "/v1/models", None), ("POST", "/v1/chat/completions", client.chat("Hi.", 1))]
        for method, path, body in operations:
            status = (await client.ask(port, method, path, body, headers, host)).status
            if (status == 200) != is_own:
                wrong.append(f"{method} with Host {host}: {status}")
    report.check(f"hosts {when}: wrong answers", listed(wrong), not wrong,
                 "0: 200 for its own names only, without keys")


async def origins(report, port):
    """No page of another origin is told that it may read the answer."""
    wrong = []
    for origin in ("http://evil.example", "null", "http://127.0.0.1.evil.example", "file://"):
        for method, path in (("GET", "/v1/models"), ("OPTIONS", "/v1/chat/completions")):
            answer = await client.ask(port, method, path, None,
                                      [f"Origin: {origin}", "Access-Control-Request-Headers: content-type"])
            if "access-control-allow-origin" in answer.headers:
                wrong.append(f"{method} from {origin}")
    report.check("foreign origins that may read", listed(wrong), not wrong, "0")
