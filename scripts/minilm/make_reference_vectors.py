# SPDX-License-Identifier: Apache-2.0
"""Writes what transformers makes of texts with a BERT for sentences, as a fixture for tests/gpu/networks/minilm_test.cpp:

    lengths  I32 [texts]          tokens of each text, [CLS] and [SEP] included
    tokens   I32 [sum of lengths] their ids, one text behind the other
    vectors  F16 [texts, hidden]  the mean of the last hidden states in f64, of length 1

Texts are pieces of this repository's documentation, of 1 to 512 tokens: a hundred of up to 20, the others ever
longer. F16 costs 1e-7 of a cosine.

    python3 scripts/minilm/make_reference_vectors.py --model MODEL_DIR --output tests/fixtures/minilm_vectors.safetensors
"""

import argparse
import random
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import AutoModel

NUM_TEXTS = 300
LONGEST = 512
ODD_TEXTS = ["", "a", "naïve café, Straße", "北京 is a city", "🙂🙂", "the the the the", "!?!", "x" * 200]


def lengths_of(count):
    """A hundred short ones, then from 1 to LONGEST, each about 3 % longer than the one before."""
    lengths = [1 + i % 20 for i in range(100)]
    ratio = LONGEST ** (1 / (count - len(lengths) - 1))
    return lengths + [max(1, round(ratio ** i)) for i in range(count - len(lengths))]


def make_texts(tokenizer, source):
    """Token ids: pieces of the documentation of the wanted lengths, and a few odd texts."""
    words = " ".join(path.read_text() for path in sorted(source.glob("*.md"))).split()
    chance = random.Random(1)
    texts = [tokenizer.encode(text).ids for text in ODD_TEXTS]
    for length in lengths_of(NUM_TEXTS - len(texts)):
        begin = chance.randrange(len(words) - LONGEST)
        ids = tokenizer.encode(" ".join(words[begin:begin + LONGEST])).ids
        texts.append(ids[:length - 1] + ids[-1:] if length > 1 else ids[:1])
    return texts


@torch.no_grad()
def vector_of(model, ids):
    states = model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    return torch.nn.functional.normalize(states.last_hidden_state[0].mean(dim=0), dim=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    model = AutoModel.from_pretrained(arguments.model).double().eval()
    texts = make_texts(tokenizer, Path(__file__).parents[2] / "docs")
    vectors = torch.stack([vector_of(model, ids) for ids in texts])
    save_file({"lengths": torch.tensor([len(ids) for ids in texts], dtype=torch.int32),
               "tokens": torch.tensor([id for ids in texts for id in ids], dtype=torch.int32),
               "vectors": vectors.to(torch.float16).contiguous()}, str(arguments.output))
    print(f"{len(texts)} texts of {min(map(len, texts))} to {max(map(len, texts))} tokens, "
          f"{arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
