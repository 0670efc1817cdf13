#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`troupe serve` over HTTP against transformers in a process, on one GPU, as JSON lines.

The same random model of Llama-3.1-8B's shape (or Llama-3.2-1B's, --shape 1b), the
same prompts and lengths, drawn from a seed: 1,000 requests of about 202 tokens in
and 179 out, as ShareGPT's. Against continuous batching: all at once. Against
`generate` with a static cache: one stream. Both have compiled and captured before
they are timed. Continuous batching is not waited for longer than --most-seconds;
had it ended then, its rate would have been what counts here, so the ratio is at
least what is said.

Exit status: 77 if torch or transformers cannot be imported, or there is no GPU.
"""
import argparse
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import http_streams  # noqa: E402
from live_server import DEMO_MODEL, ROOT  # noqa: E402
from measured_server import measured_server  # noqa: E402
from measurements import fast_directory, not_run, record  # noqa: E402
from shipped_choices import SHIPPED, shippable  # noqa: E402

MEAN_PROMPT, MEAN_ANSWER, SPREAD, LONGEST = 202, 179, 1.0, 1024
SHAPES = {
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": True},
}
CONTEXT_LENGTH = 4096
MODEL_BYTES = 20 << 30  # more than any of them
PROMPT_IDS = range(100, 1000)  # in the demo model's vocabulary, whose tokenizer the model is given


def lengths(draw, mean, count):
    """Log-normal, cut at LONGEST, with this mean."""
    shapes = [draw.lognormvariate(0, SPREAD) for _ in range(count)]
    factor = mean * count / sum(shapes)
    for _ in range(20):  # what is cut off is made up for by the others
        values = [min(LONGEST, max(4, round(shape * factor))) for shape in shapes]
        factor *= mean * count / sum(values)
    return values


def requests_of(seed, count):
    draw = random.Random(seed)
    return [http_streams.Request([draw.choice(PROMPT_IDS) for _ in range(prompt)], answer)
            for prompt, answer in zip(lengths(draw, MEAN_PROMPT, count), lengths(draw, MEAN_ANSWER, count))]


def write_model(torch, transformers, shape, directory):
    config = transformers.LlamaConfig(**SHAPES[shape], max_position_embeddings=CONTEXT_LENGTH, rope_theta=500000.0,
                                      bos_token_id=1, eos_token_id=2, dtype="bfloat16")
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(directory)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DEMO_MODEL / name, directory / name)
    return model.eval()


def measure_troupe(arguments, model, requests):
    """Tokens a second of all requests at once and of one stream; None where that failed."""
    options = ["--device", arguments.device, "--compute-type", "bf16", "--max-batch-sequences", "256",
               "--max-batch-tokens", "2048", "--max-waiting", "2000", "--max-queue-seconds", "600"]
    try:
        with measured_server(arguments.troupe, model, options, "0", ready_seconds=120,
                             library_path=arguments.library_path) as server:
            http_streams.throughput(server.port, requests[:16])  # warm
            at_once = http_streams.throughput(server.port, requests)
            four, itl = http_streams.stream(server.port, requests[:40], 4)
            one, _ = http_streams.stream(server.port, requests[:arguments.one_stream], 1)
            choices = server.store / "product-choices.json"
            if arguments.keep_choices and choices.exists():  # nothing was measured where all are shipped
                measured = choices.read_text()
                arguments.keep_choices.write_text(shippable(measured, SHIPPED.read_text()))
    except (RuntimeError, OSError, SystemExit) as error:
        return not_run("troupe", f"{type(error).__name__}: {error}")
    record("troupe_at_once", "troupe, 1,000 requests at once", at_once, "tokens/s", shape=arguments.shape)
    record("itl_4_streams", "time between tokens at 4 streams", statistics.median(itl) * 1e3, "ms",
           tokens_per_s=four, slowest_ms=max(itl) * 1e3)
    record("troupe_one_stream", "troupe, one stream", one, "tokens/s", shape=arguments.shape)
    return at_once, one


def continuous_batching(transformers, model, requests, most_seconds):
    """Tokens a second of all requests at once, at most; and how many ended in time."""
    config = transformers.GenerationConfig(do_sample=False, eos_token_id=-1, max_new_tokens=LONGEST)
    with model.continuous_batching_context_manager(generation_config=config, timeout=20) as manager:
        begin = time.monotonic()
        waiting = {manager.add_request(request.prompt, max_new_tokens=request.num_tokens) for request in requests}
        while waiting and time.monotonic() - begin < most_seconds:
            result = manager.get_result(timeout=1)
            if result is None and not manager.is_running():
                raise RuntimeError("transformers' continuous batching ended by itself")
            if result is not None and result.is_finished():
                if result.error:
                    raise RuntimeError(f"transformers failed a request: {result.error}")
                waiting.discard(result.request_id)
        seconds = time.monotonic() - begin
        num_done = len(requests) - len(waiting)
        for request_id in waiting:  # or leaving would wait for them
            manager.cancel_request(request_id)
    return sum(request.num_tokens for request in requests) / seconds, num_done


def one_stream(torch, model, requests):
    def generate(request):
        prompt = torch.tensor([request.prompt], device="cuda")
        model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=request.num_tokens,
                       min_new_tokens=request.num_tokens, do_sample=False, cache_implementation="static",
                       pad_token_id=0)
    # Compiles. The cache of the longest serves all others, which would else compile again.
    longest = max(requests, key=lambda request: len(request.prompt) + request.num_tokens)
    for request in (longest, requests[0]):
        generate(request)
    torch.cuda.synchronize()
    begin = time.monotonic()
    for request in requests:
        generate(request)
    torch.cuda.synchronize()
    return sum(request.num_tokens for request in requests) / (time.monotonic() - begin)


def compare(arguments, torch, transformers, directory):
    model = write_model(torch, transformers, arguments.shape, directory)
    requests = requests_of(arguments.seed, arguments.requests)
    ours = measure_troupe(arguments, directory, requests)
    try:
        theirs = one_stream(torch, model, requests[:arguments.one_stream])
        record("transformers_one_stream", "transformers' generate, static cache", theirs, "tokens/s")
        if ours:
            record("one_stream_against_transformers", "tokens/s of one stream against generate", ours[1] / theirs,
                   "times as many")
    except Exception as error:  # a peer's fault must not cost the other comparison
        not_run("one_stream_against_transformers", f"{type(error).__name__}: {error}")
    try:
        theirs, num_done = continuous_batching(transformers, model, requests, arguments.most_seconds)
        record("transformers_at_once", "transformers' continuous batching, at most", theirs, "tokens/s",
               requests_done=num_done)
        if ours:
            record("throughput_against_transformers", "tokens/s against transformers' continuous batching, at least",
                   ours[0] / theirs, "times as many", requests=len(requests))
    except Exception as error:
        not_run("throughput_against_transformers", f"{type(error).__name__}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", type=pathlib.Path, default=ROOT / "build/release/app/troupe")
    parser.add_argument("--library-path", help="LD_LIBRARY_PATH of the server alone")
    parser.add_argument("--keep-choices", type=pathlib.Path, help="where to leave how products are computed fastest, as a file to ship")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--shape", choices=SHAPES, default="8b")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--one-stream", type=int, default=6, help="requests of one stream")
    parser.add_argument("--most-seconds", type=float, default=45)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # kernels that are not here are not looked for
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"torch or transformers cannot be imported ({error})", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("torch finds no GPU", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory(dir=fast_directory(MODEL_BYTES)) as name:
        compare(arguments, torch, transformers, pathlib.Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
