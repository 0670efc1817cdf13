# SPDX-License-Identifier: Apache-2.0
"""A random Llama of 96 million parameters whose every token prints: what a benchmark of latencies serves.

The shape is that of bench/models.hpp. Its tokenizer is the demo model's, with words of its own behind it, so that
each token drawn is a chunk of text and clients see when it came.
"""
import json
import pathlib
import random
import struct

DEMO_MODEL = pathlib.Path(__file__).resolve().parent.parent / "models/demo"
LAYERS, WIDTH, HEADS, KV_HEADS, HEAD_SIZE, FFN, VOCABULARY = 12, 768, 12, 4, 64, 2560, 8192
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
          "intermediate_size": FFN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "num_key_value_heads": KV_HEADS, "head_dim": HEAD_SIZE, "vocab_size": VOCABULARY,
          "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
          "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16",
          "bos_token_id": 1, "eos_token_id": [4]}
SIGNS = bytes(0x3C if byte < 128 else 0xBC for byte in range(256))  # high bytes of 1/128 to 1/32, either sign


def shapes():
    """(name, shape) of each tensor."""
    yield "model.embed_tokens.weight", [VOCABULARY, WIDTH]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", [WIDTH]
        yield at + "self_attn.q_proj.weight", [HEADS * HEAD_SIZE, WIDTH]
        yield at + "self_attn.k_proj.weight", [KV_HEADS * HEAD_SIZE, WIDTH]
        yield at + "self_attn.v_proj.weight", [KV_HEADS * HEAD_SIZE, WIDTH]
        yield at + "self_attn.o_proj.weight", [WIDTH, HEADS * HEAD_SIZE]
        yield at + "post_attention_layernorm.weight", [WIDTH]
        yield at + "mlp.gate_proj.weight", [FFN, WIDTH]
        yield at + "mlp.up_proj.weight", [FFN, WIDTH]
        yield at + "mlp.down_proj.weight", [WIDTH, FFN]
    yield "model.norm.weight", [WIDTH]


def tensor_bytes(shape, source):
    """A matrix of small random numbers, or a vector of ones, in bf16."""
    if len(shape) == 1:
        return struct.pack("<H", 0x3F80) * shape[0]
    count = shape[0] * shape[1]
    both = bytearray(2 * count)
    both[0::2] = source.randbytes(count)
    both[1::2] = source.randbytes(count).translate(SIGNS)
    return bytes(both)


def write_weights(file):
    header, end = {}, 0
    for name, shape in shapes():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    source = random.Random(1)
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, shape in shapes():
            out.write(tensor_bytes(shape, source))


def write_tokenizer(directory, num_tokens=VOCABULARY):
    """The demo model's, and behind its tokens " w1024", " w1025", …: as many as that."""
    tokenizer = json.loads((DEMO_MODEL / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    for token in range(len(vocabulary), num_tokens):
        vocabulary[f"Ġw{token}"] = token
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    (directory / "tokenizer_config.json").write_text((DEMO_MODEL / "tokenizer_config.json").read_text())


def random_llama(directory):
    """The directory, written unless it is there. 192 MB."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    done = directory / "config.json"
    if not done.exists():
        write_weights(directory / "model.safetensors")
        write_tokenizer(directory)
        done.write_text(json.dumps(CONFIG))
    return directory
