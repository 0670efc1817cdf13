#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server that peers are compared with, in the interpreter: it measures its products, within its memory.

Usage: measured_server_test.py TROUPE CUDA_LIBRARY
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path[:0] = [str(ROOT / "bench/peers"), str(ROOT / "bench")]
from live_server import DEMO_MODEL  # noqa: E402
from measured_server import measured_server  # noqa: E402

CONTEXT_PAGES = 2048 // 32  # of the demo model; the server wants room for twice its sequences at this length


def pages_with(troupe, library, memory):
    options = ["--device", "cuda", "--cuda-library", library, "--max-batch-sequences", "8", "--max-batch-tokens", "64"]
    with measured_server(troupe, DEMO_MODEL, options, memory) as server:
        kept = json.loads((server.store / "product-choices.json").read_text())
        metrics = server.metrics()
        pages = metrics['troupe_kv_pages_capacity{tier="device"}']
        assert metrics['troupe_kv_pages_capacity{tier="host"}'] == 2 * pages, metrics
        assert not list(server.store.glob("*pages*")), list(server.store.iterdir())
    assert not server.store.exists(), "the store outlived its server"
    return pages, json.dumps(kept)


def main():
    troupe, library = sys.argv[1:]
    few, kept = pages_with(troupe, library, "352MiB")
    assert '"microseconds"' in kept, kept
    most, _ = pages_with(troupe, library, "0")
    assert few < most == 2 * 8 * CONTEXT_PAGES, (few, most)


if __name__ == "__main__":
    main()
