# SPDX-License-Identifier: Apache-2.0
"""Muon (momentum made orthogonal by Newton-Schulz iterations) for the matrices of the layers, Adam for the rest.
At this size Muon needs about half the tokens that Adam needs."""

import torch

MUON_LEARNING_RATE = 0.02
MUON_MOMENTUM = 0.95
MUON_WEIGHT_DECAY = 0.05
EMBEDDING_LEARNING_RATE = 0.01
HEAD_LEARNING_RATE = 0.003
NORM_LEARNING_RATE = 0.003


def orthogonalize(matrices):
    """Nearest semi-orthogonal matrices of a stack [n, rows, columns], approximately (Keller Jordan's quintic)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.transpose(1, 2)
        x = a * x + (b * square + c * square @ square) @ x
    return (x.transpose(1, 2) if tall else x).float()


class Optimizer:
    def __init__(self, model):
        matrices = [p for p in model.layers.parameters() if p.ndim == 2]
        self.by_shape = {}
        for parameter in matrices:
            self.by_shape.setdefault(tuple(parameter.shape), []).append(parameter)
        self.momenta = {shape: torch.zeros(len(group), *shape, device=group[0].device)
                        for shape, group in self.by_shape.items()}
        norms = [p for p in model.parameters() if p.ndim == 1]
        self.adam = torch.optim.AdamW([
            {"params": [model.embed_tokens.weight], "peak": EMBEDDING_LEARNING_RATE},
            {"params": [model.lm_head.weight], "peak": HEAD_LEARNING_RATE},
            {"params": norms, "peak": NORM_LEARNING_RATE}],
            lr=0.0, betas=(0.9, 0.97), eps=1e-10, weight_decay=0.0)

    @torch.no_grad()
    def step(self, scale):
        """One update with all learning rates times `scale`; clears the gradients."""
        for shape, group in self.by_shape.items():
            gradient = torch.stack([p.grad for p in group])
            momentum = self.momenta[shape]
            momentum.lerp_(gradient, 1 - MUON_MOMENTUM)
            update = orthogonalize(gradient.lerp_(momentum, MUON_MOMENTUM))
            rate = scale * MUON_LEARNING_RATE
            for parameter, change in zip(group, update):
                parameter.mul_(1 - rate * MUON_WEIGHT_DECAY)
                parameter.add_(change, alpha=-rate * max(1, shape[0] / shape[1]) ** 0.5)
                parameter.grad = None
        for group in self.adam.param_groups:
            group["lr"] = scale * group["peak"]
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    def state_dict(self):
        return {"momenta": self.momenta, "adam": self.adam.state_dict()}

    def load_state_dict(self, state):
        for shape, momentum in state["momenta"].items():
            self.momenta[shape].copy_(momentum)
        self.adam.load_state_dict(state["adam"])
