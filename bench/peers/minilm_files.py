# SPDX-License-Identifier: Apache-2.0
"""A BERT of sentence-transformers as other programs read it: ONNX in onnxruntime's fused operators, and GGUF."""
import json
import pathlib
import tempfile

import numpy as np
from safetensors.numpy import load_file

LONGEST = 512  # positions that it has


class Bert:
    """Its sizes and its tensors, by their names in transformers."""

    def __init__(self, directory):
        self.config = json.loads((directory / "config.json").read_text())
        self.tokens = json.loads((directory / "tokenizer.json").read_text())["model"]["vocab"]
        tensors = load_file(directory / "model.safetensors")
        self.tensors = {name.removeprefix("bert."): values for name, values in tensors.items()}

    def linear(self, name):
        return self.tensors[name + ".weight"], self.tensors[name + ".bias"]


def lengthened(directory):
    """A directory (a context) with the same model that takes texts as long as its positions allow."""
    copy = tempfile.TemporaryDirectory()
    for file in directory.iterdir():
        (pathlib.Path(copy.name) / file.name).symlink_to(file.resolve())
    limits = pathlib.Path(copy.name) / "sentence_bert_config.json"
    limits.unlink()
    limits.write_text(json.dumps({"max_seq_length": LONGEST, "do_lower_case": False}))
    return copy


def write_onnx(bert, path):
    """ids and mask (int32, [texts, tokens]) to hidden states: what onnxruntime's own optimizer makes of a BERT."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes, weights = [], []

    def weight(name, values):
        weights.append(numpy_helper.from_array(np.ascontiguousarray(values, np.float32), name))
        return name

    def node(kind, inputs, outputs, domain="com.microsoft", **attributes):
        nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def norm(name):
        return [weight(name + ".g", bert.tensors[name + ".weight"]), weight(name + ".b", bert.tensors[name + ".bias"])]

    def product(x, name):
        return node("MatMul", [x, weight(name + ".w", bert.linear(name)[0].T)], [name + ".x"], domain="")

    def add_and_norm(y, x, name):
        bias = weight(name + ".dense.b", bert.linear(name + ".dense")[1])
        return node("SkipLayerNormalization", [product(y, name + ".dense"), x, *norm(name + ".LayerNorm"), bias],
                    [name + ".y"], epsilon=epsilon)

    epsilon = bert.config["layer_norm_eps"]
    words, places, types = (bert.tensors[f"embeddings.{table}_embeddings.weight"]
                            for table in ("word", "position", "token_type"))
    tables = [weight("words", words), weight("places", places + types[0])]  # texts are of the first type
    x = node("EmbedLayerNormalization", ["ids", "", *tables, "", *norm("embeddings.LayerNorm"), "mask"],
             ["h", "lengths"], epsilon=epsilon)
    for layer in range(bert.config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        parts = [bert.linear(f"{at}.attention.self.{part}") for part in ("query", "key", "value")]
        joined = [weight(f"{at}.qkv.w", np.concatenate([part[0].T for part in parts], axis=1)),
                  weight(f"{at}.qkv.b", np.concatenate([part[1] for part in parts]))]
        attended = node("Attention", [x, *joined, "lengths"], [at + ".attended"],
                        num_heads=bert.config["num_attention_heads"])
        x = add_and_norm(attended, x, at + ".attention.output")
        inner = at + ".intermediate.dense"
        inner = node("BiasGelu", [product(x, inner), weight(inner + ".b", bert.linear(inner)[1])], [inner + ".y"])
        x = add_and_norm(inner, x, at + ".output")
    ids = [helper.make_tensor_value_info(name, TensorProto.INT32, ["texts", "tokens"]) for name in ("ids", "mask")]
    hidden = helper.make_tensor_value_info(x, TensorProto.FLOAT, ["texts", "tokens", bert.config["hidden_size"]])
    graph = helper.make_graph(nodes, "bert", ids, [hidden], weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)


def write_gguf(bert, path):
    """In f32, mean pooling, as convert_hf_to_gguf.py writes it."""
    import gguf

    config = bert.config
    file = gguf.GGUFWriter(path, "bert")
    file.add_context_length(config["max_position_embeddings"])
    file.add_embedding_length(config["hidden_size"])
    file.add_feed_forward_length(config["intermediate_size"])
    file.add_block_count(config["num_hidden_layers"])
    file.add_head_count(config["num_attention_heads"])
    file.add_layer_norm_eps(config["layer_norm_eps"])
    file.add_causal_attention(False)
    file.add_pooling_type(gguf.PoolingType.MEAN)
    file.add_file_type(gguf.LlamaFileType.ALL_F32)
    tokens = sorted(bert.tokens, key=bert.tokens.get)
    is_special = [token.startswith("[") and token.endswith("]") and len(token) > 2 for token in tokens]
    file.add_tokenizer_model("bert")
    file.add_token_list([token if special else token[2:] if token.startswith("##") else "\u2581" + token
                         for token, special in zip(tokens, is_special)])
    file.add_token_types([gguf.TokenType.CONTROL if special else gguf.TokenType.NORMAL for special in is_special])
    file.add_token_type_count(config["type_vocab_size"])
    file.add_bos_token_id(bert.tokens["[CLS]"])
    file.add_unk_token_id(bert.tokens["[UNK]"])
    file.add_sep_token_id(bert.tokens["[SEP]"])
    file.add_pad_token_id(bert.tokens["[PAD]"])
    file.add_mask_token_id(bert.tokens["[MASK]"])
    names = {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
             "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}
    for layer in range(config["num_hidden_layers"]):
        for theirs, own in (("attention.self.query", "attn_q"), ("attention.self.key", "attn_k"),
                            ("attention.self.value", "attn_v"), ("attention.output.dense", "attn_output"),
                            ("attention.output.LayerNorm", "attn_output_norm"), ("intermediate.dense", "ffn_up"),
                            ("output.dense", "ffn_down"), ("output.LayerNorm", "layer_output_norm")):
            names[f"encoder.layer.{layer}.{theirs}"] = f"blk.{layer}.{own}"
    for theirs, own in names.items():
        for part in ("weight", "bias"):
            if f"{theirs}.{part}" in bert.tensors:
                file.add_tensor(f"{own}.{part}", bert.tensors[f"{theirs}.{part}"].astype(np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
