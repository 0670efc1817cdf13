#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/fixtures/encoders.json: what transformers computes, in f64, with small encoders of every family.

Their weights are made of the tensors' names (weights_of below, and tests/gpu/networks/encoders_test.cpp), so that the
file holds names, shapes and results only. Needs what requirements.txt says; nothing is fetched.
"""
import json
import pathlib

import numpy as np
import torch
import transformers

SIZES = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=50,
             max_position_embeddings=24)
DISTIL = dict(dim=32, hidden_dim=48, n_layers=2, n_heads=4, vocab_size=50, max_position_embeddings=24)
ALBERT = {**SIZES, "num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2, "embedding_size": 16}
ROBERTA = {**SIZES, "pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
THREE = {"id2label": {0: "bad", 1: "so-so", 2: "good"}, "label2id": {"bad": 0, "so-so": 1, "good": 2}}
ONE = {"id2label": {0: "LABEL_0"}, "label2id": {"LABEL_0": 0}}
MODELS = [  # class, sizes, pooling of modules.json
    ("BertModel", SIZES, None), ("BertModel", SIZES, "max"), ("BertModel", SIZES, "lasttoken"),
    ("BertModel", {**SIZES, "hidden_act": "relu"}, "cls"), ("BertForSequenceClassification", {**SIZES, **THREE}, None),
    ("BertForSequenceClassification", {**SIZES, **ONE}, None), ("RobertaModel", ROBERTA, None),
    ("RobertaForSequenceClassification", {**ROBERTA, **THREE}, None), ("XLMRobertaModel", ROBERTA, "cls"),
    ("XLMRobertaForSequenceClassification", {**ROBERTA, **ONE}, None), ("DistilBertModel", DISTIL, None),
    ("DistilBertForSequenceClassification", {**DISTIL, **THREE}, None), ("AlbertModel", ALBERT, None),
    ("AlbertForSequenceClassification", {**ALBERT, **THREE}, None)]
TEXTS = [([2, 7, 3], 0), ([2] + list(range(10, 26)) + [3], 0), ([2, 11, 12, 13, 3, 41, 42, 3], 5), ([5], 0),
         (list(range(2, 24)), 9)]  # token ids, the first of the second text
MASK = (1 << 64) - 1


def weights_of(name, shape):
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 & MASK
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    uniform = ((z >> np.uint64(40)).astype(np.float64) / 2**23 - 1).astype(np.float32)  # exact
    if len(shape) == 1:
        values = uniform * np.float32(0.125) + np.float32(0 if name.endswith("bias") else 1)
    else:
        values = uniform * np.float32(0.5 if "embeddings." in name else 0.25)
    return torch.from_numpy(values.reshape(shape))


def pooled(hidden, mode):
    vector = {"cls": hidden[0], "max": hidden.max(0).values, "lasttoken": hidden[-1]}.get(mode, hidden.mean(0))
    return vector if mode else vector / vector.norm()


def run(model, tokens, second):
    inputs = {"input_ids": torch.tensor([tokens])}
    if second and getattr(model.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.tensor([[int(i >= second) for i in range(len(tokens))]])
    with torch.no_grad():
        return model(**inputs)


def entry(name, sizes, pooling):
    kind = getattr(transformers, name)
    model = kind(kind.config_class(attn_implementation="eager", **sizes)).eval()
    tensors = {key: list(value.shape) for key, value in model.state_dict().items()
               if value.is_floating_point() and not (name.endswith("Model") and "pooler" in key)}
    model.load_state_dict({key: weights_of(key, shape) for key, shape in tensors.items()}, strict=False)
    model = model.double()
    config = {key: value for key, value in json.loads(model.config.to_json_string(use_diff=False)).items()
              if isinstance(value, (int, float, str, bool)) or key == "id2label"}
    config["architectures"] = [name]
    results = []
    for tokens, second in TEXTS:
        answer = run(model, tokens, second)
        vector = pooled(answer.last_hidden_state[0], pooling) if name.endswith("Model") else answer.logits[0]
        results.append({"tokens": tokens, "second": second, "vector": [float(f"{x:.8g}") for x in vector.tolist()]})
    return {"config": config, "pooling": pooling, "tensors": tensors, "results": results}


def main():
    path = pathlib.Path(__file__).resolve().parents[2] / "tests/fixtures/encoders.json"
    entries = [json.dumps(entry(*model)) for model in MODELS]
    path.write_text("[\n" + ",\n".join(entries) + "\n]\n")


if __name__ == "__main__":
    main()
