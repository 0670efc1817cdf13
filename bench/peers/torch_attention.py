#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch's scaled_dot_product_attention at the shapes of bench_cuda's attention, as JSON lines in microseconds.

Llama-3.1-8B's heads in bf16. Keys and values of a sequence lie in one piece,
which ours, on scattered pages, do not. Each backend that torch has here, with
heads grouped by torch, by us (rows of a decode's group are queries of one head)
or with the KV heads repeated; the fastest counts. report.py holds it against ours.
Exit status: 77 if there is no torch, or it finds no GPU.
"""
import sys

from torch_timing import record_fastest, run_with_torch

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
DECODES = ((1, 1024), (64, 256), (64, 1024), (64, 16384), (1, 32768))
PREFILLS = (2048, 8192)
ROTATED_BYTES = 1 << 30  # as many copies of keys and values as exceed the caches
BACKENDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION")


def of_backends(torch, forms):
    """One way for each backend and form; a form is a function of i that calls what it is given."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    attend = torch.nn.functional.scaled_dot_product_attention

    def with_backend(backend, form):
        def run(i):
            with sdpa_kernel([backend]):
                form(attend, i)
        return run

    return {f"{name.split('_')[0].lower()}_{form_name}": with_backend(getattr(SDPBackend, name), form)
            for name in BACKENDS if hasattr(SDPBackend, name) for form_name, form in forms.items()}


def random(torch, *shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def measure_decode(torch, sequences, context):
    bytes_of_kv = 2 * 2 * sequences * context * KV_HEADS * HEAD_DIM
    copies = [tuple(random(torch, sequences, KV_HEADS, context, HEAD_DIM) for _ in range(2))
              for _ in range(max(1, ROTATED_BYTES // bytes_of_kv))]
    queries = random(torch, sequences, HEADS, 1, HEAD_DIM)
    groups = queries.view(sequences, KV_HEADS, HEADS // KV_HEADS, HEAD_DIM)  # see all keys, as one token may
    forms = {"grouped": lambda attend, i: attend(groups, *copies[i % len(copies)]),
             "gqa": lambda attend, i: attend(queries, *copies[i % len(copies)], enable_gqa=True)}
    record_fastest(torch, f"torch_decode_attention_{sequences}x{context}",
                   f"torch's attention of a decode step, {sequences} x {context}", of_backends(torch, forms))


def measure_prefill(torch, tokens):
    queries = random(torch, 1, HEADS, tokens, HEAD_DIM)
    keys, values = (random(torch, 1, KV_HEADS, tokens, HEAD_DIM) for _ in range(2))
    repeated = [x.repeat_interleave(HEADS // KV_HEADS, 1) for x in (keys, values)]
    forms = {"gqa": lambda attend, _: attend(queries, keys, values, is_causal=True, enable_gqa=True),
             "repeated": lambda attend, _: attend(queries, *repeated, is_causal=True)}
    record_fastest(torch, f"torch_prefill_attention_{tokens}", f"torch's causal attention of {tokens} tokens",
                   of_backends(torch, forms))


def measure(torch):
    for sequences, context in DECODES:
        measure_decode(torch, sequences, context)
    for tokens in PREFILLS:
        measure_prefill(torch, tokens)


if __name__ == "__main__":
    sys.exit(run_with_torch(measure))
