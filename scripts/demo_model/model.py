# SPDX-License-Identifier: Apache-2.0
"""A plain Llama in PyTorch (grouped-query attention, RMSNorm, SwiGLU, rotary positions), parameter names and
conventions as in Hugging Face's LlamaForCausalLM. Used for training, evaluation and reference logits."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn


@dataclass
class Configuration:
    vocab_size: int = 1024
    hidden_size: int = 256
    intermediate_size: int = 512
    num_hidden_layers: int = 5
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    max_position_embeddings: int = 2048


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)

    def forward(self, x, rotation, mask):
        """x [batch, length, hidden], mask [batch, 1, 1, length, length] added to the scores."""
        batch, length, _ = x.shape
        groups, shared = self.c.num_key_value_heads, self.c.num_attention_heads // self.c.num_key_value_heads
        weight = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
        heads = F.linear(x, weight).view(batch, length, -1, self.c.head_dim).transpose(1, 2)
        q, k, v = heads.split([groups * shared, groups, groups], dim=1)
        q = rotate(q, rotation).reshape(batch, groups, shared * length, self.c.head_dim)
        k = rotate(k, rotation)
        scores = (q @ k.transpose(-1, -2)).view(batch, groups, shared, length, length)
        weights = torch.softmax(scores.float() * self.c.head_dim ** -0.5 + mask, -1).to(v.dtype)
        mixed = weights.view(batch, groups, shared * length, length) @ v
        mixed = mixed.view(batch, groups * shared, length, self.c.head_dim).transpose(1, 2).reshape(batch, length, -1)
        return self.o_proj(mixed)


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        gate, up = F.linear(x, torch.cat([self.gate_proj.weight, self.up_proj.weight])).chunk(2, -1)
        return self.down_proj(F.silu(gate) * up)


class RmsNorm(nn.Module):
    def __init__(self, size, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (wide * self.weight).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn = Attention(c)
        self.mlp = FeedForward(c)
        self.input_layernorm = RmsNorm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = RmsNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, x, rotation, mask):
        x = x + self.self_attn(self.input_layernorm(x), rotation, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = RmsNorm(c.hidden_size, c.rms_norm_eps)
        self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)

    def initialize(self):
        nn.init.normal_(self.embed_tokens.weight)
        nn.init.zeros_(self.lm_head.weight)
        for layer in self.layers:
            for linear in (layer.self_attn.o_proj, layer.mlp.down_proj):
                nn.init.zeros_(linear.weight)

    def hidden(self, tokens, rotation, mask, dtype=torch.float32):
        """Final normalized states [batch, length, hidden] of tokens [batch, length]."""
        x = self.embed_tokens(tokens).to(dtype)
        for layer in self.layers:
            x = layer(x, rotation, mask)
        return self.norm(x)

    def forward(self, tokens):
        """Logits [batch, length, vocabulary] of whole sequences, in the precision of the weights."""
        length, dtype = tokens.shape[1], self.lm_head.weight.dtype
        rotation = rotations(self.c, length, dtype)
        return self.lm_head(self.hidden(tokens, rotation, causal_mask(length), dtype))


def rotate(x, rotation):
    cosine, sine = rotation
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat((-high, low), -1) * sine


def rotations(c, length, dtype=torch.float32, device="cpu"):
    """Cosines and sines [length, head_dim], the two halves of a head rotated against each other."""
    frequencies = c.rope_theta ** (-torch.arange(0, c.head_dim, 2, device=device).float() / c.head_dim)
    angles = torch.arange(length, device=device).float()[:, None] * frequencies
    angles = torch.cat((angles, angles), -1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def causal_mask(length):
    return torch.full((length, length), float("-inf")).triu(1)


# ---------------------------------------------------------------- Hugging Face directory

def save(model, directory):
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, tensor in model.state_dict().items():
        name = name.removeprefix("_orig_mod.")
        tensors[name if name.startswith("lm_head") else f"model.{name}"] = tensor.to(torch.bfloat16).contiguous()
    save_file(tensors, str(directory / "model.safetensors"), metadata={"format": "pt"})
    (directory / "model.safetensors").chmod(0o644)
    configuration = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        **asdict(model.c), "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0,
        "tie_word_embeddings": False, "rope_scaling": None, "bos_token_id": None, "eos_token_id": 4, "pad_token_id": 0,
        "initializer_range": 0.02, "pretraining_tp": 1, "use_cache": True}
    (directory / "config.json").write_text(json.dumps(configuration, indent=2) + "\n")


def load(directory, dtype=torch.float32):
    """The model of a Hugging Face directory; its bf16 weights are widened or kept as `dtype` says."""
    directory = Path(directory)
    fields = json.loads((directory / "config.json").read_text())
    model = Llama(Configuration(**{k: fields[k] for k in asdict(Configuration())}))
    tensors = load_file(str(directory / "model.safetensors"))
    model.load_state_dict({name.removeprefix("model."): tensor for name, tensor in tensors.items()})
    return model.to(dtype).eval()
