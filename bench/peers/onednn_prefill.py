#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prefill of a Llama by `troupe serve` on CPU cores beside the same products by torch's oneDNN 3 with packed weights.

  python3 -m venv /tmp/peers && /tmp/peers/bin/pip install torch
  bench/random_llama.py 135m build/models/llama-135m
  /tmp/peers/bin/python bench/peers/onednn_prefill.py --model build/models/llama-135m

In each round of each length N the arms take turns, in another order each time. A server for each of
--compute-type answers a new prompt of N tokens, timed by its client from the request to the first token. oneDNN,
in bf16 and in f32, multiplies N rows by each matrix of the model. Ours does everything that a prompt needs; oneDNN
does the products alone: queries, keys and values as one matrix, gate and up as another, as they are joined by us
too; the output matrix for one row; each layer with weights of its own, packed beforehand; all N rows at once. The
limit is the faster type of oneDNN in that round. A type is left out, and said so, where torch has no oneDNN
product of it on this processor, or only oneDNN's reference (asked for one product of 256 rows): torch wants
AVX-512 or AVX-NE-CONVERT for bf16.

Printed for each N and type of ours, median and range of the rounds' ratios of FLOP/s:
  products        products of the model / our time, over the same products / the limit's time: the part of our time
                  in which the limit would have done our products
  with attention  products and causal attention / our time, over products / the limit's time, as bench_cuda counts
                  prefill
Goals are for the second: 0.85 at 512 tokens, 0.75 at 8,192.

A machine that is not quiet gives no result; --anyway prints the figures and judges none.
Exit status: 0 if the goals are met, 1 if one is missed, 77 if there is no result, no goal for these N, no torch or no
oneDNN in it.
"""
import argparse
import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import random
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import http_streams  # noqa: E402
from live_server import ROOT, Server  # noqa: E402
from llama_pairs import READY_SECONDS, prefill_rate, prompt  # noqa: E402
from quiet import MachineWatch  # noqa: E402

GOALS = {512: 0.85, 8192: 0.75}
NO_RESULT = 77
TYPES = ("bf16", "f32")
SETTLE_SECONDS = 0.3  # threads of the arm before may still spin
WARM_UP = 256  # tokens
C_LIBRARY = ctypes.CDLL(None)
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of mallopt()


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    matrices: tuple  # (outputs, inputs) of each product of a layer
    output: tuple  # of the product that gives logits
    attention_width: int  # of all heads' queries

    @staticmethod
    def read(model):
        config = json.loads((model / "config.json").read_text())
        hidden, ffn, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
        head_dim = config.get("head_dim") or hidden // heads
        kv_heads = config.get("num_key_value_heads", heads)
        matrices = (((heads + 2 * kv_heads) * head_dim, hidden), (hidden, heads * head_dim), (2 * ffn, hidden), (hidden, ffn))
        return Shape(config["num_hidden_layers"], matrices, (config["vocab_size"], hidden), heads * head_dim)

    def product_flops(self, tokens):
        """The last token alone has logits."""
        a_token = self.layers * sum(outputs * inputs for outputs, inputs in self.matrices)
        return 2 * (a_token * tokens + self.output[0] * self.output[1])

    def attention_flops(self, tokens):
        """Scores and sums of values, each token with those up to itself."""
        return 2 * self.layers * self.attention_width * tokens * (tokens + 1)


class Troupe:
    def __init__(self, server, draw):
        self.server, self.draw = server, draw

    def warm_up(self):
        self.seconds(WARM_UP)

    def seconds(self, tokens):
        return tokens / prefill_rate(self.server.port, http_streams.Request(prompt(self.draw, tokens), 2))


class OneDnn:
    """Products of one type."""

    def __init__(self, torch, shape, type_name):
        self.torch, self.shape = torch, shape
        self.dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[type_name]
        self.implementations = self.implementations_used()

    def random(self, *dimensions):
        return self.torch.randn(*dimensions).to(self.dtype)

    def pack(self, weight, rows):
        return self.torch.ops.mkldnn._reorder_linear_weight(weight, rows)

    def product(self, rows, packed):
        return self.torch.ops.mkldnn._linear_pointwise(rows, packed, None, "none", [], "")

    def implementations_used(self):
        """Names that oneDNN's log has for such a product; RuntimeError where it is the reference, or not oneDNN at all."""
        torch = self.torch
        weight = self.random(*self.shape.matrices[0])
        rows = self.random(WARM_UP, weight.shape[1])
        packed = self.pack(weight, WARM_UP)
        with captured_output() as written, torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
            result = self.product(rows, packed)
        error = (result.float() - rows.float() @ weight.float().t()).abs().max() / result.float().abs().max()
        if not error < 0.02:
            raise RuntimeError(f"its product is off by {error:.3f} of its largest number")
        names = set(re.findall(r",exec,cpu,(?:inner_product|matmul),([^,]+),", written[0]))
        if not names:
            raise RuntimeError("oneDNN's log names no product: something else computed it")
        if any(name.startswith("ref") for name in names):
            raise RuntimeError(f"only its reference computes it: {', '.join(sorted(names))}")
        return names

    def prepare(self, tokens):
        """Rows and packed weights; a layer's are not another's, or caches would hold them."""
        self.rows = {inputs: self.random(tokens, inputs) for inputs in {inputs for _, inputs in self.shape.matrices}}
        self.packed = []
        for outputs, inputs in self.shape.matrices:
            weight = self.random(outputs, inputs)
            self.packed += [(inputs, self.pack(weight, tokens)) for _ in range(self.shape.layers)]
        self.last_row, self.output = self.random(1, self.shape.output[1]), self.pack(self.random(*self.shape.output), 1)

    def warm_up(self):
        for inputs, packed in self.packed[::self.shape.layers]:
            self.product(self.rows[inputs], packed)

    def seconds(self, _):
        begin = time.perf_counter()
        for inputs, packed in self.packed:
            self.product(self.rows[inputs], packed)
        self.product(self.last_row, self.output)
        return time.perf_counter() - begin


@contextlib.contextmanager
def captured_output():
    """A list whose one text, after the block, is the block's standard output, that of libraries too."""
    written = []
    sys.stdout.flush()
    saved = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            yield written
        finally:
            C_LIBRARY.fflush(None)
            os.dup2(saved, 1)
            os.close(saved)
            file.seek(0)
            written.append(file.read().decode(errors="replace"))


def keep_freed_memory():
    """The allocator gives no pages back: the kernel would clear them anew for each product's result."""
    C_LIBRARY.mallopt(M_MMAP_MAX, 0)
    C_LIBRARY.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


def with_context(model, directory, tokens):
    """The same model for prompts of so many tokens."""
    for file in model.iterdir():
        if file.name != "config.json":
            (directory / file.name).symlink_to(file.resolve())
    config = json.loads((model / "config.json").read_text())
    config["max_position_embeddings"] = max(tokens, config["max_position_embeddings"])
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def peers_of(torch, shape):
    peers = {}
    for name in TYPES:
        try:
            peers[name] = OneDnn(torch, shape, name)
            print(f"oneDNN {name}: {', '.join(sorted(peers[name].implementations))}", flush=True)
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            print(f"without oneDNN {name}: {str(error).splitlines()[0]}", flush=True)
    return peers


def rounds_of(arms, tokens, num_rounds):
    """Seconds of each arm, one dictionary a round."""
    for arm in arms.values():
        arm.warm_up()
    rounds, names = [], list(arms)
    for number in range(num_rounds):
        found = {}
        for name in names[number % len(names):] + names[:number % len(names)]:
            time.sleep(SETTLE_SECONDS)
            found[name] = arms[name].seconds(tokens)
        rounds.append(found)
    return rounds


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def report(shape, tokens, rounds, ours, peers):
    """Prints what the rounds of a length found; returns the arms that missed its goal."""
    products, attention = shape.product_flops(tokens), shape.attention_flops(tokens)
    print(f"{tokens} tokens: {products / 1e9:.0f} GFLOP of products, {attention / 1e9:.0f} of attention")
    for name in peers:
        print(f"  {name:14} {statistics.median(found[name] for found in rounds):8.3f} s   "
              f"{statistics.median(products / found[name] for found in rounds) / 1e9:7.1f} GFLOP/s")
    limits = [min(found[name] for name in peers) for found in rounds]
    missed = []
    for name in ours:
        times = [found[name] for found in rounds]
        of_products = [limit / ours for limit, ours in zip(limits, times)]
        with_attention = [ratio * (products + attention) / products for ratio in of_products]
        goal = f"; goal: {GOALS[tokens]}" if tokens in GOALS else ""
        print(f"  {name:14} {statistics.median(times):8.3f} s   products {spread(of_products)}, with attention "
              f"{spread(with_attention)}{goal}", flush=True)
        if tokens in GOALS and statistics.median(with_attention) < GOALS[tokens]:
            missed.append(f"{name} at {tokens}")
    return missed


def measure(torch, shape, model, settings):
    """Rounds by length, and names of our arms and of the peers; no rounds where there is no peer."""
    draw = random.Random(settings.seed)
    peers = {f"oneDNN {name}": peer for name, peer in peers_of(torch, shape).items()}
    rounds = {}
    with contextlib.ExitStack() as stack:
        ours = {}
        for name in settings.compute_type if peers else ():
            options = ["--device", "cpu", "--threads", str(settings.threads), "--compute-type", name, "--memory", settings.memory,
                       *settings.flags.split()]
            ours[f"troupe {name}"] = Troupe(stack.enter_context(Server(settings.troupe, options, model, READY_SECONDS)), draw)
        for tokens in settings.tokens if peers else ():
            for peer in peers.values():
                peer.prepare(tokens)
            rounds[tokens] = rounds_of({**ours, **peers}, tokens, settings.rounds)
    return rounds, list(ours), list(peers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="a directory that bench/random_llama.py has written")
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--compute-type", nargs="+", default=["bf16"], choices=("auto", *TYPES), help="of a server each")
    parser.add_argument("--memory", default="4GiB", help="of each server")
    parser.add_argument("--flags", default="", help="more of each server's, such as --prefill-chunk 512")
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--anyway", action="store_true",
                        help="print the figures of a machine that is not quiet; no goal is judged")
    settings = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"torch cannot be imported ({error})", file=sys.stderr)
        return NO_RESULT
    keep_freed_memory()
    torch.set_num_threads(settings.threads)
    shape = Shape.read(settings.model)
    watch = MachineWatch()
    with torch.inference_mode(), tempfile.TemporaryDirectory() as directory:
        model = with_context(settings.model, pathlib.Path(directory), max(settings.tokens) + 2)
        rounds, ours, peers = measure(torch, shape, model, settings)
    if not rounds:
        return NO_RESULT
    noise = watch.end()
    if noise.reasons() and not settings.anyway:
        print(f"NO RESULT: the machine was not quiet: {'; '.join(noise.reasons())}")
        return NO_RESULT
    print(f"{settings.model.name}, {settings.threads} threads, {settings.rounds} rounds; {noise.text()}")
    missed = [what for tokens in settings.tokens for what in report(shape, tokens, rounds[tokens], ours, peers)]
    if settings.anyway or not GOALS.keys() & settings.tokens:
        return NO_RESULT
    print(f"goals missed: {', '.join(missed)}" if missed else "no goal missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
