#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embeddings of `troupe serve` beside its peers, with one sentence-transformers BERT such as all-MiniLM-L6-v2 in f32.

  python3 -m venv /tmp/peers && /tmp/peers/bin/pip install torch sentence-transformers onnxruntime onnx gguf
  /tmp/peers/bin/python bench/peers/minilm_peers.py --model all-MiniLM-L6-v2
  /tmp/peers/bin/python bench/peers/minilm_peers.py --model all-MiniLM-L6-v2 --llama-server PROGRAM [--llama-root CHROOT]

Arms: troupe over HTTP, a client that asks for one list of texts after the other; sentence-transformers with torch, in this
process; onnxruntime, in this process, with its fused operators and a padded batch; and llama.cpp's server over HTTP. All get
the same strings, of U(2,100) and U(5,500) tokens, in lists of 1 to 64, with the same threads; the arms take turns in each
round, in another order each time. First their vectors are compared with troupe's. Printed: texts a second, median over the
rounds, and the ratio of troupe's to the best peer's of the same round, median and range; and the milliseconds of one text
of ten tokens. An arm whose packages are missing is left out, and said so. Goals: 1.2 times the best peer, and 2 ms.
"""
import argparse
import base64
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from live_server import ROOT, HttpServer, Server  # noqa: E402
from minilm_files import LONGEST, Bert, lengthened, write_gguf, write_onnx  # noqa: E402

GOAL, MOST_MILLISECONDS = 1.2, 2.0
MIXES = {"U(2,100)": (2, 100), "U(5,500)": (5, 500)}
BATCHES = (1, 4, 16, 64)
SHORT_TOKENS, SHORT_REPEATS = 10, 60
LEAST_COSINE = 0.999
READY_SECONDS = 60
WORD = re.compile(r"[a-z]{3,}")  # of the vocabulary: a token by itself
IDLE_SECONDS = 1.0  # of a connection
SETTLE_SECONDS = 0.3  # threads of the arm before may still spin


class HttpArm:
    """An OpenAI server of embeddings."""

    def __init__(self, port, model):
        self.connection, self.model = http.client.HTTPConnection("127.0.0.1", port, timeout=600), model
        self.last = 0.0

    def embed(self, texts):
        if time.monotonic() - self.last > IDLE_SECONDS:  # the server may have closed it: it is opened anew
            self.connection.close()
        body = json.dumps({"model": self.model, "input": texts, "encoding_format": "base64"})
        self.connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        content = answer.read()
        self.last = time.monotonic()
        if answer.status != 200:
            raise RuntimeError(content.decode())
        vectors = [entry["embedding"] for entry in json.loads(content)["data"]]
        return np.stack([np.frombuffer(base64.b64decode(vector), np.float32) if isinstance(vector, str) else
                         np.array(vector, np.float32) for vector in vectors])


class TorchArm:
    def __init__(self, model, threads):
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(threads)
        self.encoder = SentenceTransformer(str(model), device="cpu")

    def embed(self, texts):
        return self.encoder.encode(texts, batch_size=len(texts), show_progress_bar=False, normalize_embeddings=True)


class OnnxArm:
    def __init__(self, model, threads):
        import onnxruntime
        import tokenizers

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            write_onnx(Bert(model), file.name)
            self.session = onnxruntime.InferenceSession(file.name, options, providers=["CPUExecutionProvider"])
        self.tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(LONGEST)

    def embed(self, texts):
        encoded = self.tokenizer.encode_batch(texts)
        mask = np.array([entry.attention_mask for entry in encoded], np.int32)
        hidden = self.session.run(None, {"ids": np.array([entry.ids for entry in encoded], np.int32), "mask": mask})[0]
        means = np.einsum("btw,bt->bw", hidden, mask.astype(np.float32)) / mask.sum(1, keepdims=True)
        return means / np.linalg.norm(means, axis=1, keepdims=True)


@contextlib.contextmanager
def llama_arm(model, settings):
    most = max(BATCHES)
    options = ["--embedding", "--pooling", "mean", "-t", settings.threads, "-tb", settings.threads, "-np", most,
               "-c", most * LONGEST, "-b", 8192, "-ub", 8192]
    with tempfile.NamedTemporaryFile(suffix=".gguf", dir=pathlib.Path(settings.llama_root) / "tmp") as file:
        write_gguf(Bert(model), file.name)
        inside = "/tmp/" + pathlib.Path(file.name).name
        with HttpServer(lambda port: [settings.llama_server, "-m", inside, "--port", port, *options], "/health",
                        READY_SECONDS, errors=subprocess.DEVNULL) as server:
            yield HttpArm(server.port, "any")


def make_arms(stack, model, name, settings):
    options = ["--model-name", name, "--threads", str(settings.threads), *settings.troupe_option]
    server = stack.enter_context(Server(settings.troupe, options, model=model, ready_seconds=READY_SECONDS))
    arms = {"troupe": HttpArm(server.port, name)}
    makers = {"sentence-transformers": lambda: TorchArm(model, settings.threads),
              "onnxruntime": lambda: OnnxArm(model, settings.threads)}
    if settings.llama_server:
        makers["llama.cpp"] = lambda: stack.enter_context(llama_arm(model, settings))
    for peer, make in makers.items():
        try:
            arms[peer] = make()
        except (ImportError, RuntimeError, OSError, SystemExit) as error:
            print(f"without {peer}: {error}", flush=True)
    return arms


def text(rng, words, num_tokens):
    """With what encloses it so many tokens, three at least."""
    return " ".join(rng.choice(words) for _ in range(max(1, num_tokens - 2)))


def check_vectors(arms, texts):
    own = arms["troupe"].embed(texts)
    for name, arm in arms.items():
        least = float(np.min(np.sum(own * arm.embed(texts), axis=1)))
        print(f"{name}: least cosine to troupe's vectors {least:.6f}", flush=True)
        if least < LEAST_COSINE:
            sys.exit(f"{name} gives other vectors: nothing is compared")


def rate(arm, texts, batch):
    lists = [texts[i:i + batch] for i in range(0, len(texts), batch)]
    arm.embed(lists[0])
    begin = time.perf_counter()
    for some in lists:
        arm.embed(some)
    return len(texts) / (time.perf_counter() - begin)


def milliseconds(arm, short):
    arm.embed([short])
    times = []
    for _ in range(SHORT_REPEATS):
        begin = time.perf_counter()
        arm.embed([short])
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def in_turn(arms, number, measure):
    """By name, of the arms in an order that changes with the number."""
    names = list(arms)
    found = {}
    for name in names[number % len(names):] + names[:number % len(names)]:
        time.sleep(SETTLE_SECONDS)
        found[name] = measure(arms[name])
    return found


def compare(arms, rounds, title, goal):
    """rounds: values by arm, one a round. Prints a line; False: missed."""
    values = {name: statistics.median(found[name] for found in rounds) for name in arms}
    line = "  ".join(f"{name} {value:8.1f}" for name, value in values.items())
    peers = [name for name in arms if name != "troupe"]
    if not peers:
        print(f"{title:24} {line}")
        return True
    ratios = sorted(found["troupe"] / max(found[name] for name in peers) for found in rounds)
    is_met = statistics.median(ratios) >= goal
    print(f"{title:24} {line}  over the best {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}): "
          f"{'met' if is_met else 'MISSED'}", flush=True)
    return is_met


def measure_all(arms, words, settings):
    is_met = True
    for title, (shortest, longest) in MIXES.items():
        for batch in settings.batches:
            rounds = []
            for number in range(settings.rounds):
                rng = random.Random(f"{title} {batch} {number}")
                texts = [text(rng, words, rng.randint(shortest, longest)) for _ in range(max(settings.texts, batch))]
                rounds.append(in_turn(arms, number, lambda arm: rate(arm, texts, batch)))
            is_met = compare(arms, rounds, f"{title}, {batch} a list", GOAL) and is_met
    short = text(random.Random(1), words, SHORT_TOKENS)
    times = [in_turn(arms, number, lambda arm: milliseconds(arm, short)) for number in range(settings.rounds)]
    medians = {name: statistics.median(found[name] for found in times) for name in arms}
    is_short = medians["troupe"] <= MOST_MILLISECONDS
    print(f"one text of {SHORT_TOKENS} tokens, ms: " + "  ".join(f"{name} {value:.2f}" for name, value in medians.items()) +
          f": {'met' if is_short else 'MISSED'}")
    return is_met and is_short


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--troupe-option", action="append", default=[], help="passed on to it, any number of times")
    parser.add_argument("--llama-server", help="llama.cpp's")
    parser.add_argument("--llama-root", default="/", help="its root directory, where it is run in another")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=64, help="of a round; never fewer than a list has")
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    settings = parser.parse_args()
    with contextlib.ExitStack() as stack:
        model = pathlib.Path(stack.enter_context(lengthened(settings.model)))
        vocabulary = Bert(model).tokens
        words = sorted(word for word in vocabulary if WORD.fullmatch(word))
        arms = make_arms(stack, model, "peers", settings)
        rng = random.Random(0)
        check_vectors(arms, [text(rng, words, rng.randint(2, LONGEST - 12)) for _ in range(8)])
        print(f"{settings.threads} threads, {settings.rounds} rounds; load {os.getloadavg()[0]:.1f}; texts a second:")
        return 0 if measure_all(arms, words, settings) else 1


if __name__ == "__main__":
    sys.exit(main())
