# SPDX-License-Identifier: Apache-2.0
"""Asks a model directory held-out questions, decodes greedily and counts the answers that are exactly right.

    evaluate.py --model models/demo                         a table by category
    evaluate.py --model models/demo --unseen                words, names and wordings that training never has
    evaluate.py --model models/demo --ask "Count to 5."     one answer
The network here is written out a second time, one sequence with a key/value cache, in fp32: it shares no code with
model.py and serves as an independent reference.
"""

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import generator
import stories
import unseen
from chat import Chat


class CachedLlama:
    def __init__(self, directory):
        self.config = json.loads((Path(directory) / "config.json").read_text())
        self.weights = {name: tensor.float() for name, tensor in
                        load_file(str(Path(directory) / "model.safetensors")).items()}
        self.reset()

    def reset(self):
        self.keys = [None] * self.config["num_hidden_layers"]
        self.values = [None] * self.config["num_hidden_layers"]
        self.position = 0

    def feed(self, ids):
        """Appends tokens to the sequence; logits after the last of them."""
        x = self.weights["model.embed_tokens.weight"][torch.tensor(ids)]
        angles = self.angles(torch.arange(self.position, self.position + len(ids)))
        for layer in range(self.config["num_hidden_layers"]):
            x = x + self.attend(layer, self.norm(x, f"model.layers.{layer}.input_layernorm"), angles)
            h = self.norm(x, f"model.layers.{layer}.post_attention_layernorm")
            gate, up = (self.linear(h, f"model.layers.{layer}.mlp.{n}_proj") for n in ("gate", "up"))
            x = x + self.linear(gate * torch.sigmoid(gate) * up, f"model.layers.{layer}.mlp.down_proj")
        self.position += len(ids)
        return self.linear(self.norm(x[-1], "model.norm"), "lm_head")

    def attend(self, layer, h, angles):
        size, groups = self.config["head_dim"], self.config["num_key_value_heads"]
        q, k, v = (self.linear(h, f"model.layers.{layer}.self_attn.{n}_proj").unflatten(-1, (-1, size)) for n in "qkv")
        q, k = self.rotate(q, angles), self.rotate(k, angles)
        if self.keys[layer] is not None:
            k, v = torch.cat((self.keys[layer], k)), torch.cat((self.values[layer], v))
        self.keys[layer], self.values[layer] = k, v
        shared = q.shape[1] // groups
        scores = torch.einsum("qhd,khd->hqk", q, k.repeat_interleave(shared, 1)) / size ** 0.5
        hidden_keys = torch.arange(k.shape[0]) > torch.arange(self.position, self.position + len(q))[:, None]
        weights = scores.masked_fill(hidden_keys, float("-inf")).softmax(-1)
        mixed = torch.einsum("hqk,khd->qhd", weights, v.repeat_interleave(shared, 1)).flatten(1)
        return self.linear(mixed, f"model.layers.{layer}.self_attn.o_proj")

    def linear(self, x, name):
        return F.linear(x, self.weights[name + ".weight"])

    def norm(self, x, name):
        return x / (x.square().mean(-1, keepdim=True) + self.config["rms_norm_eps"]).sqrt() * \
            self.weights[name + ".weight"]

    def angles(self, positions):
        half = self.config["head_dim"] // 2
        return positions[:, None, None] / self.config["rope_theta"] ** (torch.arange(half) / half)

    @staticmethod
    def rotate(x, angles):
        low, high = x.chunk(2, -1)
        return torch.cat((low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()), -1)


@torch.no_grad()
def generate(model, chat, messages, max_tokens=1000):
    """The greedy answer's token ids, the end token included if it came."""
    model.reset()
    logits, ids = model.feed(chat.prompt(messages)), []
    while len(ids) < max_tokens and model.position < model.config["max_position_embeddings"]:
        ids.append(int(logits.argmax()))
        if ids[-1] == chat.end:
            break
        logits = model.feed(ids[-1:])
    return ids


def answer(model, chat, messages):
    """The greedy answer's text, and whether it ended with the end token."""
    ids = generate(model, chat, messages)
    ended = ids[-1:] == [chat.end]
    return chat.decode(ids[:-1] if ended else ids), ended


def evaluate(model, chat, questions, show_wrong):
    right, total, longest = defaultdict(int), defaultdict(int), 0
    for question in questions:
        text, ended = answer(model, chat, question["messages"])
        category = question["category"]
        total[category] += 1
        longest = max(longest, len(chat.tokenizer.encode(text).ids))
        if ended and text == question["expected"]:
            right[category] += 1
        elif show_wrong:
            print(f"--- {category}: {question['messages'][-1]['content']!r}\n expected {question['expected']!r}\n"
                  f"      got {text!r}{'' if ended else ' (no end)'}")
    print(f"{'category':<18}{'right':>6}{'asked':>7}{'share':>9}")
    for category in sorted(total):
        print(f"{category:<18}{right[category]:>6}{total[category]:>7}{right[category] / total[category]:>9.1%}")
    print(f"{'all':<18}{sum(right.values()):>6}{sum(total.values()):>7}"
          f"{sum(right.values()) / sum(total.values()):>9.1%}\nlongest answer: {longest} tokens")


def evaluate_open_stories(model, chat):
    """Stories whose slots the prompt leaves open: any story of the grammar is right, with the right number of parts."""
    right = 0
    prompts = [f"Tell me a story in {n} parts." for n in range(2, 12)] + ["Tell me a story about a fox."] + \
              [f"Tell me a short story about a {animal}." for animal in ("bear", "wolf", "frog", "duck")]
    for prompt in prompts:
        text, ended = answer(model, chat, [{"role": "user", "content": prompt}])
        slots = stories.slots_of(text)
        wanted = int(prompt.split()[-2]) if prompt.endswith("parts.") else 0
        right += bool(ended and slots and slots[4] == wanted)
    print(f"open stories of the grammar: {right} of {len(prompts)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--questions", type=Path, help="a file that `generator.py export` wrote; default: fresh ones")
    parser.add_argument("--unseen", action="store_true", help="questions of unseen.py")
    parser.add_argument("--seed", type=int, default=123)
    parser.add_argument("--per-category", type=int, default=100)
    parser.add_argument("--show-wrong", action="store_true")
    parser.add_argument("--ask", nargs="+", metavar="TEXT", help="user turns of one dialogue; prints the answers")
    arguments = parser.parse_args()
    chat, model = Chat(arguments.model), CachedLlama(arguments.model)
    if arguments.ask:
        messages = []
        for text in arguments.ask:
            messages.append({"role": "user", "content": text})
            messages.append({"role": "assistant", "content": answer(model, chat, messages)[0]})
            print(f"{text}\n  {messages[-1]['content']}")
        return
    if arguments.questions:
        questions = json.loads(arguments.questions.read_text())
    elif arguments.unseen:
        questions = unseen.questions(arguments.seed, arguments.per_category)
    else:
        questions = generator.held_out_questions(arguments.seed, arguments.per_category)
    started = time.time()
    evaluate(model, chat, questions, arguments.show_wrong)
    if not arguments.unseen:
        evaluate_open_stories(model, chat)
    print(f"{time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
