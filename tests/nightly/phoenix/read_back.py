# SPDX-License-Identifier: Apache-2.0
"""Traces of a few chats go to a real Phoenix, as it comes, and are read back through its API:
trees, kinds, token counts, and contents where they are captured. The same through a real collector
that forwards to Phoenix, as protobuf and as the JSON that Phoenix itself refuses. The spans are left
in spans.json, and a picture where there is chromium."""
import argparse
import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from servers import Server, free_port, start_troupe

PHASES = ["queue", "admit", "prefill", "decode"]
# Turns of one chat; later ones find the earlier ones' KV.
TURNS = ["My name is Ada.", "Count from 3 to 7.", "What is my name?"]
COLLECTED = {
    "protobuf": {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
    "json": {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
}


def check(condition, what):
    print(("ok      " if condition else "WRONG   ") + what, flush=True)
    return bool(condition)


def start_phoenix(venv, directory, log):
    port, grpc_port = free_port(), free_port()
    environment = {
        "PHOENIX_WORKING_DIR": str(directory), "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc_port), "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    phoenix = Server([f"{venv}/bin/phoenix", "serve"], port, "/healthz", log, environment, seconds=300)
    phoenix.grpc_port = grpc_port
    return phoenix


class Collector(Server):
    """Rotel, an OpenTelemetry collector: OTLP over HTTP in, OTLP over gRPC to Phoenix."""

    def __init__(self, program, phoenix_grpc_port, directory, log):
        port = free_port()
        super().__init__([program, "start", "--otlp-http-endpoint", f"127.0.0.1:{port}",
                          "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}", "--exporter", "otlp",
                          "--otlp-exporter-endpoint", f"http://127.0.0.1:{phoenix_grpc_port}",
                          "--debug-log", "traces", "--pid-file", f"{directory}/collector.pid"], port, "/v1/traces", log)

    def is_ready(self, path):
        """It answers no GET: an export of no spans."""
        empty = urllib.request.Request(self.url + path, b"", {"Content-Type": "application/x-protobuf"})
        with contextlib.suppress(OSError), urllib.request.urlopen(empty, timeout=5) as answer:
            return answer.status == 200
        return False


def ask(troupe, messages, stream):
    """The answer's text and usage."""
    body = {"model": "troupe-demo", "messages": messages, "temperature": 0, "max_tokens": 60, "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    request = urllib.request.Request(f"{troupe.url}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        raw = answer.read().decode()
    if not stream:
        whole = json.loads(raw)
        return whole["choices"][0]["message"]["content"], whole["usage"]
    chunks = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    return text, chunks[-1]["usage"]


def chat(troupe):
    """The usage of each turn, in order."""
    messages, usages = [], []
    for number, question in enumerate(TURNS):
        messages.append({"role": "user", "content": question})
        text, usage = ask(troupe, messages, stream=number % 2 == 1)
        messages.append({"role": "assistant", "content": text})
        usages.append(usage)
    return usages


def spans_in(phoenix):
    with urllib.request.urlopen(f"{phoenix.url}/v1/projects/default/spans?limit=1000", timeout=30) as answer:
        return json.load(answer)["data"]


def wait_for_spans(phoenix, count, seconds=60):
    """Phoenix writes them to its database in the background."""
    deadline = time.monotonic() + seconds
    spans = spans_in(phoenix)
    while len(spans) < count and time.monotonic() < deadline:
        time.sleep(0.5)
        spans = spans_in(phoenix)
    return spans


def check_tree(root, spans, usage):
    attributes = root["attributes"]
    counts = [attributes.get(f"llm.token_count.{name}") for name in ("prompt", "completion")]
    cached = attributes.get("llm.token_count.prompt_details.cache_read")
    expected = [usage["prompt_tokens"], usage["completion_tokens"]]
    phases = sorted((span for span in spans if span["parent_id"] == root["context"]["span_id"]),
                    key=lambda span: (span["start_time"], span["end_time"]))
    names = [span["name"] for span in phases]
    good = check(root["span_kind"] == "LLM", f"{root['name']} is an LLM call: {root['span_kind']}")
    good &= check(attributes.get("llm.model_name") == "troupe-demo", f"its model: {attributes.get('llm.model_name')}")
    good &= check(counts == expected, f"its tokens: {counts}, the answer said {expected}")
    good &= check(cached == usage["prompt_tokens_details"]["cached_tokens"], f"of these from the cache: {cached}")
    good &= check(names == PHASES, f"below it: {names}")
    good &= check(all(span["context"]["trace_id"] == root["context"]["trace_id"] for span in phases), "one trace")
    return good


def check_spans(spans, usages):
    roots = sorted((span for span in spans if span["parent_id"] is None), key=lambda span: span["start_time"])
    good = check([span["name"] for span in roots] == ["chat troupe-demo"] * len(usages),
                 f"a root for each request and nothing else: {[span['name'] for span in roots]}")
    good &= check(len(spans) == len(usages) * (1 + len(PHASES)), f"{len(spans)} spans in all")
    for root, usage in zip(roots, usages):
        good &= check_tree(root, spans, usage)
    return good


def shoot(phoenix, trace, results):
    """The page of one trace, where there is a browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no chromium, no picture", flush=True)
        return
    with urllib.request.urlopen(f"{phoenix.url}/v1/projects", timeout=30) as answer:
        project = next(entry["id"] for entry in json.load(answer)["data"] if entry["name"] == "default")
    subprocess.run([chromium, "--headless", "--no-sandbox", "--window-size=1400,900", "--virtual-time-budget=20000",
                    f"--screenshot={results / 'trace.png'}", f"{phoenix.url}/projects/{project}/traces/{trace}"],
                   check=False, timeout=120, capture_output=True)


def serve_chat(options, receiver, name, variables):
    """A server whose traces go to Phoenix or a collector, and a chat with it; the usage of each turn."""
    results = pathlib.Path(options.results)
    with tempfile.TemporaryDirectory() as directory, \
            start_troupe(options.troupe, options.model, directory, results / f"{name}.log",
                         ["--trace-endpoint", receiver.url], variables) as troupe:
        return chat(troupe)


def check_collected(options, phoenix, seen, name, variables):
    """A chat whose traces go through a collector shows in Phoenix as one that does not; all spans by then."""
    results = pathlib.Path(options.results)
    program = next(pathlib.Path(options.venv).glob("lib/python*/site-packages/rotel/rotel-agent"))
    with tempfile.TemporaryDirectory() as directory, \
            Collector(str(program), phoenix.grpc_port, directory, results / f"collector-{name}.log") as collector:
        usages = serve_chat(options, collector, f"troupe-{name}", variables)
        spans = wait_for_spans(phoenix, len(seen) + len(usages) * (1 + len(PHASES)))
    known = {span["context"]["span_id"] for span in seen}
    print(f"-- through a collector, {name}", flush=True)
    return check_spans([span for span in spans if span["context"]["span_id"] not in known], usages), spans


def check_content(spans):
    """Of a chat whose contents were captured: its last turn shows all that was said."""
    roots = sorted((span for span in spans if span["parent_id"] is None), key=lambda span: span["start_time"])
    attributes = roots[-1]["attributes"]
    asked = [attributes.get(f"llm.input_messages.{2 * turn}.message.content") for turn in range(len(TURNS))]
    answer = attributes.get("llm.output_messages.0.message.content", "")
    good = check(asked == TURNS, f"asked, where it is captured: {asked}")
    return good & check("Ada" in answer, f"and answered: {answer!r}")


def main():
    arguments = argparse.ArgumentParser()
    for name in ("--venv", "--results", "--troupe", "--model"):
        arguments.add_argument(name, required=True)
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers end too
    results = pathlib.Path(options.results)
    with tempfile.TemporaryDirectory() as name, \
            start_phoenix(options.venv, f"{name}/phoenix", results / "phoenix.log") as phoenix:
        usages = serve_chat(options, phoenix, "troupe", {"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"})
        num_spans = len(usages) * (1 + len(PHASES))
        spans = wait_for_spans(phoenix, num_spans)
        (results / "spans.json").write_text(json.dumps(spans, indent=1), encoding="utf-8")
        good = check_spans(spans, usages)
        good &= check(not any(turn in json.dumps(spans) for turn in TURNS), "nothing that was asked is in a span")
        if spans:
            shoot(phoenix, spans[0]["context"]["trace_id"], results)
        for name, variables in COLLECTED.items():
            is_same, spans = check_collected(options, phoenix, spans, name, variables)
            good &= is_same
        serve_chat(options, phoenix, "troupe-captured",
                   {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only"})
        good &= check_content(wait_for_spans(phoenix, len(spans) + num_spans))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
