# SPDX-License-Identifier: Apache-2.0
"""Writes logits of a model directory as a fixture for the engine's tests, as safetensors:

    prompt_N.tokens     I32 [length]      token ids, chat template applied
    prompt_N.positions  I32 [num]         positions whose logits follow, the last one is the prompt's last
    prompt_N.float32    F32 [num, vocab]  weights widened from bf16, all arithmetic in fp32
    prompt_N.bfloat16   F32 [num, vocab]  weights and activations in bf16 (norms and softmax in fp32)
    prompt_N.greedy     I32 [num_greedy]  the fp32 greedy continuation, end token included
"""

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file

import evaluate
import model as llama
from chat import Chat

DIALOGUES = [
    [("system", "You are a helpful assistant."), ("user", "Count from 17 to 29.")],
    [("user", "My name is Ada."), ("assistant", "Nice to meet you, Ada."), ("user", "Remember the number 42."),
     ("assistant", "I will remember the number 42."), ("user", "What is my name?")],
    [("user", "What is 47 + 38?"), ("assistant", "47 + 30 = 77, 77 + 8 = 85, so 47 + 38 = 85"),
     ("user", "Reverse the word lantern.")],
    [("user", "Tell me a short story about Ada the bear, the forest and the golden lantern.")],
]


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    chat = Chat(arguments.model)
    models = {"float32": llama.load(arguments.model), "bfloat16": llama.load(arguments.model, torch.bfloat16)}
    cached, tensors = evaluate.CachedLlama(arguments.model), {}
    for number, dialogue in enumerate(DIALOGUES):
        messages = [{"role": role, "content": content} for role, content in dialogue]
        ids = chat.prompt(messages)
        positions = torch.tensor([0, len(ids) // 3, 2 * len(ids) // 3, len(ids) - 1])
        name = f"prompt_{number}"
        tensors[f"{name}.tokens"] = torch.tensor(ids, dtype=torch.int32)
        tensors[f"{name}.positions"] = positions.to(torch.int32)
        for precision, model in models.items():
            tensors[f"{name}.{precision}"] = model(torch.tensor([ids]))[0, positions].float().contiguous()
        cached.reset()
        difference = (cached.feed(ids) - tensors[f"{name}.float32"][-1]).abs().max()
        assert difference < 1e-3, f"the two implementations differ by {difference}"
        greedy = evaluate.generate(cached, chat, messages)
        tensors[f"{name}.greedy"] = torch.tensor(greedy, dtype=torch.int32)
        print(f"{name}: {len(ids)} tokens, implementations differ by {difference:.1e}, then {chat.decode(greedy)!r}")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, str(arguments.output))
    print(f"{arguments.output}: {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
