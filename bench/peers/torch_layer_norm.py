#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch's LayerNorm at TurboTransformers' shapes, as JSON lines in microseconds.

f32, on the same memory each time, as bench_cuda's. report.py holds the two against each other.
Exit status: 77 if there is no torch, or it finds no GPU.
"""
import sys

from torch_timing import record_fastest, run_with_torch

HIDDEN = 768
BATCHES, LENGTHS = (1, 20), (10, 20, 40, 60, 80, 100, 200, 300, 400, 500)


def measure(torch):
    for batch in BATCHES:
        for length in LENGTHS:
            x = torch.randn(batch * length, HIDDEN, device="cuda")
            norm = torch.nn.LayerNorm(HIDDEN, device="cuda")
            record_fastest(torch, f"torch_layer_norm_{batch}x{length}",
                           f"torch's LayerNorm, ({batch}, {length}) x {HIDDEN}", {"apart": lambda _: norm(x)})


if __name__ == "__main__":
    sys.exit(run_with_torch(measure))
