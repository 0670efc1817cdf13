#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch's softmax and LayerNorm at TurboTransformers' shapes, as JSON lines in microseconds.

Timed as bench_cuda times ours: f32, a CUDA graph of several runs on the same
memory, the median of replays. report.py holds the two against each other.
Exit status: 77 if there is no torch, or it finds no GPU.
"""
import json
import statistics
import sys

HEADS, HIDDEN = 12, 768
BATCHES, LENGTHS = (1, 20), (10, 20, 40, 60, 80, 100, 200, 300, 400, 500)
GRAPH_SECONDS, REPLAYS = 0.005, 9


def seconds_of(torch, run):
    """Of one run, on the device."""
    def between_events(queue):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        queue()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    run()
    length = round(min(max(GRAPH_SECONDS / max(between_events(run), 1e-7), 3), 400))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(length):
            run()
    graph.replay()
    return statistics.median(between_events(graph.replay) for _ in range(REPLAYS)) / length


def record(id, title, seconds):
    print(json.dumps({"kind": "measurement", "tiny": False, "id": id, "title": title, "value": seconds * 1e6,
                      "unit": "us", "goal": None, "met": None, "details": {}}), flush=True)


def measure(torch):
    for batch in BATCHES:
        for length in LENGTHS:
            scores = torch.randn(batch * HEADS * length, length, device="cuda")
            out = torch.empty_like(scores)
            record(f"torch_softmax_{batch}x{length}", f"torch's softmax, ({batch}, {length})",
                   seconds_of(torch, lambda: torch.softmax(scores, -1, out=out)))
            x = torch.randn(batch * length, HIDDEN, device="cuda")
            norm = torch.nn.LayerNorm(HIDDEN, device="cuda")
            record(f"torch_layer_norm_{batch}x{length}", f"torch's LayerNorm, ({batch}, {length}) x {HIDDEN}",
                   seconds_of(torch, lambda: norm(x)))


def main():
    try:
        import torch
    except ImportError as error:
        print(f"torch cannot be imported ({error})", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("torch finds no GPU", file=sys.stderr)
        return 77
    with torch.inference_mode():
        measure(torch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
