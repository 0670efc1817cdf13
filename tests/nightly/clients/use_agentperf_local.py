# SPDX-License-Identifier: Apache-2.0
"""agentperf-local, as it comes: its recorded agents, four at once. All turns come without an error, and nearly all of
the tokens are found that an unlimited cache would find, token by token: beside side requests, all tasks with a device
that computes nothing; across kill -9 of the server, and with half of the disk that is needed, the shorter tasks with a
tiny model, whose KV there is.

A relay stands between each agent and the server. It has the server tokenize each prompt, which says how much of it was
sent before, asks for titles in between, and holds requests back while the server is killed and started again."""
import array
import concurrent.futures
import http.client
import http.server
import importlib.util
import json
import math
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import threading

from demo_server import run
from gate import Gate
from servers import Server, free_port

LONGEST = ("task_meeting_council_budget", "task_meeting_council_votes", "task_meeting_searchable_index")
NUM_AGENTS = 4
NUM_KILLS = 10
REQUESTS_A_KILL = 45
TURNS_A_TITLE = 5
LEAST_FOUND = 0.99
LEAST_FOUND_OF_HALF = 0.90
HALF_A_DISK = "64MiB"  # four agents have 525,000 tokens of 256 bytes in the shorter tasks
CONTEXT = 262144  # the demo model's tokenizer needs twice the tokens of others
WIDTH = 64
CACHED = re.compile(rb'"cached_tokens":(\d+)')


class Turns:
    """Of one agent: prompts as tokens, and what the server found of each."""

    def __init__(self):
        self.prompts = []
        self.num_found = self.num_known = self.num_tokens = 0

    def add(self, prompt, num_found):
        known = max((common_beginning(prompt, other) for other in self.prompts), default=0)
        self.prompts.append(prompt)
        self.num_tokens += len(prompt)
        self.num_known += min(known, len(prompt) - 1)
        self.num_found += num_found


def common_beginning(one, other):
    """The number of tokens; by halves, so that comparing is the work of memcmp."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


class Relay(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, server, gate):
        super().__init__(("127.0.0.1", 0), Handler)
        self.port, self.gate, self.turns = server.port, gate, Turns()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request(method, path, body, headers or {"Content-Type": "application/json"})
        return connection.getresponse()

    def tokens(self, body):
        answer = self.ask("POST", "/tokenize", json.dumps({name: body[name] for name in ("messages", "tools")
                                                           if name in body}))
        return array.array("i", json.loads(answer.read())["tokens"])

    def ask_for_a_title(self, messages):
        said = str(messages[-1]["content"])[:2000]
        body = {"messages": [{"role": "user", "content": f"A title for: {said}"}], "max_tokens": 20}
        self.ask("POST", "/v1/chat/completions", json.dumps(body)).read()


class Handler(http.server.BaseHTTPRequestHandler):

    def do_GET(self):
        self.relay(None)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.gate.passed():
            sent = json.loads(body)
            if not sent.get("stream") or "stream_options" not in sent:
                self.relay(body)
                return
            prompt = self.server.tokens(sent)
            tail = self.relay(body)
            if found := CACHED.search(tail):
                self.server.turns.add(prompt, int(found[1]))
            if len(self.server.turns.prompts) % TURNS_A_TITLE == 0:
                self.server.ask_for_a_title(sent["messages"])

    def relay(self, body):
        """The end of what was answered."""
        answer = self.server.ask(self.command, self.path, body, {"Content-Type": "application/json"})
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Connection", "close")
        self.end_headers()
        tail = b""
        while piece := answer.read1(1 << 16):
            self.wfile.write(piece)
            tail = (tail + piece)[-4096:]
        self.close_connection = True
        return tail

    def log_message(self, *_):
        pass


def write_tiny_model(settings):
    """The demo model's tokenizer, a context that recorded agents fit in, and a random layer that costs little."""
    directory = settings.place / "model"
    shutil.copytree(settings.model, directory)
    config = json.loads((directory / "config.json").read_text())
    config |= {"max_position_embeddings": CONTEXT, "hidden_size": WIDTH, "intermediate_size": WIDTH, "head_dim": WIDTH,
               "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "tie_word_embeddings": True}
    (directory / "config.json").write_text(json.dumps(config))
    square, layer = [WIDTH, WIDTH], "model.layers.0."
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], WIDTH], "model.norm.weight": [WIDTH],
              layer + "input_layernorm.weight": [WIDTH], layer + "post_attention_layernorm.weight": [WIDTH],
              **{f"{layer}self_attn.{name}_proj.weight": square for name in "qkvo"},
              **{f"{layer}mlp.{name}_proj.weight": square for name in ("gate", "up", "down")}}
    rng, header, numbers = random.Random(1), {}, b""
    for name, shape in shapes.items():
        begin = len(numbers)
        numbers += b"".join(struct.pack("<f", rng.gauss(0, 0.2)) for _ in range(math.prod(shape)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(numbers)]}
    text = json.dumps(header).encode()
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + numbers)


def serving(settings, name, model, flags):
    port = free_port()
    server = Server([settings.troupe, "serve", "--model", str(model), "--model-name", "agent", "--port", str(port),
                     "--max-body-bytes", "8388608", "--store-directory",
                     str(settings.place / name), "--cache-measure=false", *flags],
                    port, "/ready", settings.results / f"server-{name}.txt")
    server.port = port
    return server


def replays(settings):
    """Of all recorded tasks, and of the shorter ones."""
    recorded = pathlib.Path(importlib.util.find_spec("agentperf_local").origin).parent / "data/replays"
    directory = settings.place / "replay"
    shutil.copytree(recorded / "agentperf-default-v1", directory)
    whole = directory / "manifest-x86_64.json"
    manifest = json.loads(whole.read_text())
    manifest["tasks"] = [task for task in manifest["tasks"] if task["task_id"] not in LONGEST]
    (directory / "shorter.json").write_text(json.dumps(manifest))
    return whole, directory / "shorter.json"


def replay(settings, name, manifest, relay, tool_mode):
    """One agent's work: its turns."""
    out = settings.results / f"{name}-{relay.server_port}"
    command = [f"{sys.prefix}/bin/agentperf-local", "run", str(manifest), "--output-dir", str(out), "--model", "agent",
               "--base-url", f"http://127.0.0.1:{relay.server_port}/v1", "--tool-mode", tool_mode, "--no-power",
               "--no-progress"]
    ended = subprocess.run(command, capture_output=True, text=True)
    if not (out / "turns.jsonl").exists():
        raise RuntimeError(f"agentperf-local: {ended.stdout[-1000:]}{ended.stderr[-2000:]}")
    turns = [json.loads(line) for line in (out / "turns.jsonl").read_text().splitlines()]
    return [turn for turn in turns if turn["kind"] == "turn"]


def agents(check, settings, name, manifest, flags, least_found, num_kills=0):
    """Tools take the time that was recorded, where kills come between turns: what was written by then is not lost."""
    tool_mode = "fixed_delay" if num_kills else "none"
    print(f"-- {name}: {' '.join(flags)}")
    with serving(settings, name, settings.place / "model", flags) as server:
        gate = Gate(server, num_kills, REQUESTS_A_KILL)
        relays = [Relay(server, gate) for _ in range(NUM_AGENTS)]
        with concurrent.futures.ThreadPoolExecutor(NUM_AGENTS) as pool:
            running = [pool.submit(replay, settings, name, manifest, relay, tool_mode) for relay in relays]
            turns = [turn for work in running for turn in work.result()]
    failed = [turn for turn in turns if not turn["success"]]
    check(turns and not failed, f"{len(turns)} turns, {len(failed)} of them failed {failed[:1]!s:.300}")
    check(gate.kills_left == 0, f"{num_kills} kills on the way")
    wrong = [turn for turn in turns if turn["tokens"]["server_output_tokens"] != turn["tokens"]["target_output_tokens"]]
    check(not wrong, f"{len(wrong)} answers are not as long as recorded")
    known, found, tokens = (sum(getattr(relay.turns, member) for relay in relays)
                            for member in ("num_known", "num_found", "num_tokens"))
    check(found >= least_found * known, f"of {tokens:,} tokens {known:,} were sent before; {found / known:.2%} found "
          f"(promised: {least_found:.0%})")


def use(check, _, settings):
    write_tiny_model(settings)
    whole, shorter = replays(settings)
    on_cpu = ["--device", "cpu", "--memory", "512MiB"]
    agents(check, settings, "undisturbed", whole, ["--device", "noop", "--memory", "4GiB"], LEAST_FOUND)
    agents(check, settings, "killed", shorter, on_cpu, LEAST_FOUND, NUM_KILLS)
    half = [*on_cpu, "--cache-disk-space", HALF_A_DISK]
    agents(check, settings, "half", shorter, half, LEAST_FOUND_OF_HALF, NUM_KILLS)


if __name__ == "__main__":
    run(__doc__, use)
