# SPDX-License-Identifier: Apache-2.0
"""Random models whose every token prints: what a benchmark of latencies serves.

The tokenizer is the demo model's, with words of its own behind it, so that each token drawn is a chunk of text and
clients see when it came. Benchmarks write the model that they need; by hand, for others:

  bench/random_llama.py 100m|135m|1.1b|qwen2-0.5b DIRECTORY
"""
import argparse
import dataclasses
import json
import pathlib
import random
import struct

DEMO_MODEL = pathlib.Path(__file__).resolve().parent.parent / "models/demo"


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    vocabulary: int
    is_qwen2: bool = False  # biases of queries, keys and values

    def config(self):
        family = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_sliding_window": False} if self.is_qwen2 \
            else {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "mlp_bias": False}
        return {**family, "hidden_size": self.width, "intermediate_size": self.ffn, "num_hidden_layers": self.layers,
                "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_size,
                "vocab_size": self.vocabulary, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
                "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "bfloat16",
                "bos_token_id": 1, "eos_token_id": [4]}


SHAPES = {"100m": Shape(12, 768, 12, 4, 64, 2560, 8192),  # bench/models.hpp's
          "135m": Shape(30, 576, 9, 3, 64, 1536, 49152),  # SmolLM2's
          "1.1b": Shape(22, 2048, 32, 4, 64, 5632, 32000),  # TinyLlama's, embeddings tied
          "qwen2-0.5b": Shape(24, 896, 14, 2, 64, 4864, 151936, is_qwen2=True)}
SIGNS = bytes(0x3C if byte < 128 else 0xBC for byte in range(256))  # high bytes of 1/128 to 1/32, either sign


def tensors(shape):
    """(name, dimensions) of each tensor."""
    yield "model.embed_tokens.weight", [shape.vocabulary, shape.width]
    attention, kv = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    for layer in range(shape.layers):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", [shape.width]
        for name, size in (("q", attention), ("k", kv), ("v", kv)):
            yield f"{at}self_attn.{name}_proj.weight", [size, shape.width]
            if shape.is_qwen2:
                yield f"{at}self_attn.{name}_proj.bias", [size]
        yield at + "self_attn.o_proj.weight", [shape.width, attention]
        yield at + "post_attention_layernorm.weight", [shape.width]
        yield at + "mlp.gate_proj.weight", [shape.ffn, shape.width]
        yield at + "mlp.up_proj.weight", [shape.ffn, shape.width]
        yield at + "mlp.down_proj.weight", [shape.width, shape.ffn]
    yield "model.norm.weight", [shape.width]


def tensor_bytes(dimensions, source):
    """A matrix of small random numbers, or a vector of ones, in bf16."""
    if len(dimensions) == 1:
        return struct.pack("<H", 0x3F80) * dimensions[0]
    count = dimensions[0] * dimensions[1]
    both = bytearray(2 * count)
    both[0::2] = source.randbytes(count)
    both[1::2] = source.randbytes(count).translate(SIGNS)
    return bytes(both)


def write_weights(file, shape):
    header, end = {}, 0
    for name, dimensions in tensors(shape):
        size = 2 * dimensions[0] * (dimensions[1] if len(dimensions) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": dimensions, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    source = random.Random(1)
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, dimensions in tensors(shape):
            out.write(tensor_bytes(dimensions, source))


def write_tokenizer(directory, num_tokens):
    """The demo model's, and behind its tokens " w1024", " w1025", …: as many as that."""
    tokenizer = json.loads((DEMO_MODEL / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    for token in range(len(vocabulary), num_tokens):
        vocabulary[f"Ġw{token}"] = token
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    (directory / "tokenizer_config.json").write_text((DEMO_MODEL / "tokenizer_config.json").read_text())


def random_llama(directory, name="100m"):
    """The directory, written unless it is there: 192 MB, 269 MB, 2.1 GB and 0.9 GB."""
    directory, shape = pathlib.Path(directory), SHAPES[name]
    directory.mkdir(parents=True, exist_ok=True)
    done = directory / "config.json"
    if not done.exists():
        write_weights(directory / "model.safetensors", shape)
        write_tokenizer(directory, shape.vocabulary)
        done.write_text(json.dumps(shape.config()))
    return directory


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("directory", type=pathlib.Path)
    arguments = parser.parse_args()
    random_llama(arguments.directory, arguments.name)
