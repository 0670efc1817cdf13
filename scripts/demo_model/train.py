# SPDX-License-Identifier: Apache-2.0
"""Trains the demo model phase by phase, as schedule.json says. Checkpoints often and goes on where it stopped.

    train.py --model models/demo --checkpoint build/demo.pt                  all phases, or the rest of them
    train.py --model models/demo --checkpoint build/demo.pt --resume-weights  new optimizer state, weights of the model
"""

import argparse
import json
import random
import time
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn.functional as F

import generator
import model as llama
from chat import Chat
from optimizer import Optimizer

TOKENS_PER_STEP = 9216


# ---------------------------------------------------------------- rows of dialogues

class RowSource:
    """Packs dialogues into rows of one length; a token attends only to its own dialogue."""

    def __init__(self, chat):
        self.chat = chat

    def dialogue(self, rng, length, phase):
        """Ids and answer marks of one dialogue of at most `length` tokens, cut after a whole turn if need be."""
        if length <= 256:
            turns = rng.choice([1, 1, 1, 2, 2, 3, 4, 6, 8])
        else:
            turns = rng.choice([2, 4, 8, 12, 16, 24, length // 32, length // 24])
        memory_share = rng.choice(phase["memory_shares"]) if turns > 1 and "memory_shares" in phase else None
        dialogue = generator.training_dialogue(rng, turns, phase.get("mix"), memory_share)
        ids, marks = self.chat.encode(dialogue.messages())
        if len(ids) > length:
            end = length
            while end > 0 and not (ids[end - 1] == self.chat.end and marks[end - 1]):
                end -= 1
            ids, marks = ids[:end], marks[:end]
        return ids, marks

    def batch(self, rng, num_rows, length, phase):
        """Tokens, targets (-100 where nothing is learned) and dialogue numbers, each [num_rows, length]."""
        tokens = torch.full((num_rows, length), self.chat.padding)
        targets = torch.full((num_rows, length), -100)
        owners = torch.zeros((num_rows, length), dtype=torch.int32)
        waiting = []
        for row in range(num_rows):
            used, owner = 0, 0
            while True:
                while len(waiting) < 24:
                    dialogue = self.dialogue(rng, length, phase)
                    if dialogue[0]:
                        waiting.append(dialogue)
                fitting = [d for d in waiting if len(d[0]) <= length - used]
                if not fitting:
                    break
                ids, marks = best = fitting[0] if used == 0 else max(fitting, key=lambda d: len(d[0]))
                waiting.remove(best)
                owner += 1
                end = used + len(ids)
                tokens[row, used:end] = torch.tensor(ids)
                wanted = [i if mark else -100 for i, mark in zip(ids[1:], marks[1:])]
                targets[row, used:end - 1] = torch.tensor(wanted)
                owners[row, used:end] = owner
                used = end
        return tokens, targets, owners


def attention_mask(owners):
    """[rows, 1, 1, length, length]: 0 where a token may look, -inf elsewhere. Padding looks at itself."""
    length = owners.shape[1]
    visible = (owners[:, :, None] == owners[:, None, :]) & torch.ones(length, length, dtype=torch.bool).tril()
    return torch.zeros(visible.shape).masked_fill_(~visible, -1e9)[:, None, None]


# ---------------------------------------------------------------- training

class Trainer:
    def __init__(self, arguments):
        self.arguments = arguments
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.chat = Chat(arguments.model)
        self.rows = RowSource(self.chat)
        torch.manual_seed(arguments.seed)
        self.model = llama.Llama(llama.Configuration(vocab_size=self.chat.tokenizer.get_vocab_size()))
        self.model.initialize()
        self.step, self.tokens = 0, 0
        if arguments.resume_weights:
            self.model.load_state_dict(llama.load(arguments.model).state_dict())
        self.model.to(self.device)
        self.optimizer = Optimizer(self.model)
        self.phase, self.phase_step, self.phase_seconds = 0, 0, 0.0
        if arguments.checkpoint.exists():
            self.restore()
        self.hidden = torch.compile(self.model.hidden, dynamic=False) if arguments.compile else self.model.hidden
        self.rotations = {}
        self.questions = [q for q in generator.held_out_questions(99, 16)]

    def restore(self):
        state = torch.load(self.arguments.checkpoint, map_location=self.device)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.phase, self.phase_step, self.step, self.tokens = \
            state["phase"], state["phase_step"], state["step"], state["tokens"]
        self.phase_seconds = state.get("phase_seconds", 0.0)

    def save(self):
        temporary = self.arguments.checkpoint.with_suffix(".writing")
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "phase": self.phase,
                    "phase_step": self.phase_step, "phase_seconds": self.phase_seconds, "step": self.step,
                    "tokens": self.tokens}, temporary)
        temporary.replace(self.arguments.checkpoint)

    def export(self):
        llama.save(self.model, self.arguments.model)

    def run(self):
        started, last_save = time.time(), time.time()
        losses, seen = defaultdict(list), 0
        while (phase := self.current_phase()) is not None:
            length, loss, count = self.train_step(phase)
            losses[length].append(loss)
            seen += count
            if self.step % 20 == 0:
                print(f"step {self.step} phase {phase['name']} {self.tokens / 1e6:.2f} M tokens, "
                      f"{seen / (time.time() - started):.0f} tokens/s, loss " +
                      ", ".join(f"{n}: {sum(v) / len(v):.4f}" for n, v in sorted(losses.items())), flush=True)
                losses.clear()
                started, seen = time.time(), 0
            if time.time() - last_save > self.arguments.save_seconds:
                self.save()
                last_save = time.time()
            if self.step % self.arguments.evaluate_every == 0:
                self.evaluate()
                started, seen = time.time(), 0
        self.save()
        self.evaluate()
        self.export()

    def current_phase(self):
        """Read anew at every step, so that a phase to come can still be changed while one runs."""
        phases = json.loads(self.arguments.schedule.read_text())
        while self.phase < len(phases):
            if self.share_done(phases[self.phase]) < 1:
                return phases[self.phase]
            self.phase, self.phase_step, self.phase_seconds = self.phase + 1, 0, 0.0
            self.save()
        return None

    def share_done(self, phase):
        """Of the phase's steps, or of its minutes where it has these instead."""
        if "minutes" in phase:
            return self.phase_seconds / 60 / phase["minutes"]
        return self.phase_step / phase["steps"]

    def train_step(self, phase):
        began = time.time()
        rng = random.Random(f"{self.arguments.seed} {self.step}")
        lengths = {int(n): share for n, share in phase["row_lengths"].items()}
        length = rng.choices(list(lengths), list(lengths.values()))[0]
        num_rows = max(1, TOKENS_PER_STEP // length)
        tokens, targets, owners = self.rows.batch(rng, num_rows, length, phase)
        loss = self.loss(tokens, targets, attention_mask(owners))
        loss.backward()
        done = self.share_done(phase)
        start, end = phase["learning_rate"]
        warmup = min(1.0, (self.step + 1) / 60)
        self.optimizer.step(warmup * (start + (end - start) * done))
        self.step += 1
        self.phase_step += 1
        self.phase_seconds += time.time() - began
        self.tokens += tokens.numel()
        return length, loss.item(), tokens.numel()

    def loss(self, tokens, targets, mask):
        length = tokens.shape[1]
        if length not in self.rotations:
            self.rotations[length] = llama.rotations(self.model.c, length, torch.bfloat16, self.device)
        with torch.autocast(self.device, torch.bfloat16):
            states = self.hidden(tokens.to(self.device), self.rotations[length], mask.to(self.device), torch.bfloat16)
            wanted = targets.flatten() >= 0
            logits = self.model.lm_head(states.flatten(0, 1)[wanted.to(self.device)])
        return F.cross_entropy(logits.float(), targets.flatten()[wanted].to(self.device))

    @torch.no_grad()
    def evaluate(self):
        """Share of held-out answers that greedy decoding would give exactly: every token's argmax is right."""
        started = time.time()
        right, total = defaultdict(int), defaultdict(int)
        encoded = []
        for question in self.questions:
            prompt = self.chat.prompt(question["messages"])
            answer = self.chat.tokenizer.encode(question["expected"]).ids + [self.chat.end]
            encoded.append((question["category"], prompt, answer))
        encoded.sort(key=lambda e: len(e[1]) + len(e[2]))
        at = 0
        while at < len(encoded):
            group = encoded[at:at + 16]
            at += 16
            length = max(len(p) + len(a) for _, p, a in group)
            tokens = torch.full((len(group), length), self.chat.padding)
            for row, (_, prompt, answer) in enumerate(group):
                tokens[row, :len(prompt) + len(answer)] = torch.tensor(prompt + answer)
            rotation = llama.rotations(self.model.c, length, torch.bfloat16, self.device)
            with torch.autocast(self.device, torch.bfloat16):
                states = self.model.hidden(tokens.to(self.device), rotation,
                                           llama.causal_mask(length).to(self.device), torch.bfloat16)
                chosen = self.model.lm_head(states).argmax(-1).cpu()
            for row, (category, prompt, answer) in enumerate(group):
                start = len(prompt) - 1
                total[category] += 1
                right[category] += chosen[row, start:start + len(answer)].tolist() == answer
        print(f"EVALUATION step {self.step} {self.tokens / 1e6:.2f} M tokens ({time.time() - started:.0f} s): " +
              ", ".join(f"{c} {right[c]}/{total[c]}" for c in sorted(total)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="directory with tokenizer.json; weights go there")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--schedule", type=Path, default=Path(__file__).with_name("schedule.json"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="torch.compile; needs a C++ compiler")
    parser.add_argument("--resume-weights", action="store_true",
                        help="start from the weights in the model directory (fresh optimizer state)")
    parser.add_argument("--save-seconds", type=float, default=180)
    parser.add_argument("--evaluate-every", type=int, default=100)
    parser.add_argument("--export", action="store_true", help="only write the checkpoint's weights to the directory")
    arguments = parser.parse_args()
    arguments.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(arguments)
    if arguments.export:
        trainer.export()
    else:
        trainer.run()


if __name__ == "__main__":
    main()
