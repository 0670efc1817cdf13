# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with torch share: time taken as bench_cuda takes it, JSON lines, and torch itself.

A CUDA graph of several runs, the median of its replays between two events.
"""
import json
import statistics
import sys

GRAPH_SECONDS, REPLAYS = 0.005, 9


def seconds_of(torch, run):
    """Of one run, on the device; run(i) starts the i-th, with memory that no cache holds if i matters to it."""
    def between_events(queue):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        queue()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    run(0)
    torch.cuda.synchronize()
    length = round(min(max(GRAPH_SECONDS / max(between_events(lambda: run(1)), 1e-7), 3), 400))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(length):
            run(i)
    graph.replay()
    return statistics.median(between_events(graph.replay) for _ in range(REPLAYS)) / length


def fastest(torch, ways):
    """Seconds of the fastest of several ways to the same result, all in microseconds by name, and what failed."""
    times, problems = {}, []
    for name, run in ways.items():
        try:
            times[name] = seconds_of(torch, run)
        except Exception as error:  # a way that torch does not have here
            problems.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    return min(times.values(), default=None), {name: value * 1e6 for name, value in times.items()}, problems


def record_fastest(torch, id, title, ways):
    seconds, times, problems = fastest(torch, ways)
    if seconds is None:
        print(json.dumps({"kind": "not_run", "tiny": False, "id": id, "reason": "; ".join(problems)}), flush=True)
        return
    print(json.dumps({"kind": "measurement", "tiny": False, "id": id, "title": title, "value": seconds * 1e6,
                      "unit": "us", "goal": None, "met": None, "details": times}), flush=True)


def run_with_torch(measure):
    """Exit status: 77 if there is no torch, or it finds no GPU."""
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
