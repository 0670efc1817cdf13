#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An LSTM's step of hidden size 1024 on CPU cores, ours over torch's, at batch 1, 16, 64 and 512, in one run.

    bench/peers/torch_lstm_step.py --model build/models/lstm-1024 --threads 2

Rounds alternate: `troupe profile` (a fresh process, the device alone, two batches in flight), then torch.nn.LSTMCell with the
embeddings of the same number of tokens. Both in f32, same threads. Ours draws a token with each step, so the model of
`scripts/cells/make_random lstm OUTPUT --vocabulary 2` keeps that small; the same projection is part of torch's step. Medians over
rounds with their range. Goal: torch's time over ours at least 1.2. Exit status: 77 if there is no torch.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

BATCHES = (1, 16, 64, 512)
GOAL = 1.2
SECONDS = 0.2  # of torch, a batch size and round


def our_times(arguments):
    """Seconds of a step by batch."""
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "profile.json"
        command = [arguments.troupe, "profile", "--model", arguments.model, "--device", "cpu", "--threads",
                   str(arguments.threads), "--max-batch-sequences", str(max(BATCHES)), "--max-batch-tokens",
                   str(max(BATCHES)), "--compute-type", "f32", "--out", str(out), "--rounds", "3"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
        samples = json.loads(out.read_text())["samples"]
    return {sample["tokens"]: sample["ns"] * 1e-9 for sample in samples if sample["tokens"] in BATCHES}


class TorchStep:
    def __init__(self, torch, config):
        hidden, vocabulary = config["hidden_size"], config["vocab_size"]
        self.torch = torch
        self.embedding = torch.nn.Embedding(vocabulary, config.get("embedding_size", hidden))
        self.cell = torch.nn.LSTMCell(config.get("embedding_size", hidden), hidden)
        self.output = torch.nn.Linear(hidden, vocabulary)

    def seconds(self, batch):
        torch = self.torch
        tokens = torch.randint(self.embedding.num_embeddings, (batch,))
        state = (torch.randn(batch, self.cell.hidden_size), torch.randn(batch, self.cell.hidden_size))
        times = []
        begin = time.perf_counter()
        while time.perf_counter() - begin < SECONDS or len(times) < 5:
            before = time.perf_counter()
            state = self.cell(self.embedding(tokens), state)
            self.output(state[0]).argmax(1)
            times.append(time.perf_counter() - before)
        return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a directory of scripts/cells/make_random lstm")
    parser.add_argument("--troupe", default="build/release/app/troupe")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"torch cannot be imported ({error})", file=sys.stderr)
        return 77
    torch.set_num_threads(arguments.threads)
    config = json.loads((pathlib.Path(arguments.model) / "config.json").read_text())
    ratios, ours, theirs = ({batch: [] for batch in BATCHES} for _ in range(3))
    with torch.inference_mode():
        step = TorchStep(torch, config)
        for _ in range(arguments.rounds):
            ours_now = our_times(arguments)
            for batch in BATCHES:
                ours[batch].append(ours_now[batch])
                theirs[batch].append(step.seconds(batch))
                ratios[batch].append(theirs[batch][-1] / ours[batch][-1])
    for batch in BATCHES:
        print(f"batch {batch}: ours {statistics.median(ours[batch]) * 1e6:.0f} us, torch "
              f"{statistics.median(theirs[batch]) * 1e6:.0f} us, ratio {statistics.median(ratios[batch]):.2f} "
              f"({min(ratios[batch]):.2f} to {max(ratios[batch]):.2f}; goal: {GOAL})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
