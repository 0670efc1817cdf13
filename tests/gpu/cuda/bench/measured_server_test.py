#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server that peers are compared with, in the interpreter: it measures its products, within its memory.
What it measured, shipped beside the program, is not measured again.

Usage: measured_server_test.py TROUPE CUDA_LIBRARY
"""
import json
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path[:0] = [str(ROOT / "bench/peers"), str(ROOT / "bench")]
from live_server import DEMO_MODEL  # noqa: E402
from measured_server import measured_server  # noqa: E402
from shipped_choices import SHIPPED, shippable  # noqa: E402

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


def products_of(text):
    """How each is computed, by its shape."""
    shape = ("tokens", "outputs", "depth", "type", "c_type", "bias", "adds", "gelu", "exact")
    return {tuple(choice[name] for name in shape): choice for part in json.loads(text)["devices"] for choice in part["choices"]}


def measured_beside(troupe, library, shipped):
    """By a program with this file of choices beside it."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "bin/troupe"
        beside = pathlib.Path(folder) / "share/troupe/configs/gpus"
        program.parent.mkdir()
        beside.mkdir(parents=True)
        shutil.copy(troupe, program)
        (beside / SHIPPED.name).write_text(shipped)
        options = ["--device", "cuda", "--cuda-library", library, "--max-batch-sequences", "8", "--max-batch-tokens", "64"]
        with measured_server(program, DEMO_MODEL, options, "352MiB") as server:
            file = server.store / "product-choices.json"
            return products_of(file.read_text()) if file.exists() else {}  # all were shipped


def main():
    troupe, library = sys.argv[1:]
    few, kept = pages_with(troupe, library, "352MiB")
    assert '"microseconds"' in kept, kept
    shipped = shippable(kept, SHIPPED.read_text())
    assert products_of(kept).items() <= products_of(shipped).items(), shipped
    again = measured_beside(troupe, library, shipped)  # what a slow machine had no time for
    assert not again.keys() & products_of(kept).keys(), again
    none = measured_beside(troupe, library, json.dumps({"format": json.loads(kept)["format"], "devices": []}))
    assert none.keys() & products_of(kept).keys(), none
    most, _ = pages_with(troupe, library, "0")
    assert few < most == 2 * 8 * CONTEXT_PAGES, (few, most)


if __name__ == "__main__":
    main()
