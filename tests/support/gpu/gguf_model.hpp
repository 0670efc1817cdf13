// SPDX-License-Identifier: Apache-2.0
// A decoder of the same weights as a GGUF file and as a model directory: each written
// by itself, so that what is read of one can be compared with the other.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gpu/model/model_config.hpp"
#include "tests/support/gpu/gguf_writer.hpp"

namespace troupe::test {

// A tensor under Hugging Face's name, its rows in Hugging Face's order.
struct PlainTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::vector<float> values;
};

// Creates `directory` with config.json and model.safetensors of F32.
void write_plain_model(const std::filesystem::path& directory, const ModelConfig& config,
                       const std::vector<PlainTensor>& tensors);

// The keys llama.* of a configuration, or those of its family.
void add_llama_keys(GgufWriter& writer, const ModelConfig& config);

// The rows as a GGUF file of the llama architecture has them: in queries and keys, row
// r of a head is row r/2 of its first half if r is even, of its second half if it is odd.
std::string in_gguf_order(const std::string& rows, std::size_t num_rows, std::size_t head_dim);

// "model.layers.0.mlp.up_proj.weight" is "blk.0.ffn_up.weight"; some names are a family's own.
std::string gguf_name(const std::string& name, const ModelConfig& config);
// One expert's matrix, whose file's name is that of a stack.
bool is_of_expert(const std::string& name);
// Queries or keys, whose rows are reordered.
bool is_rotated(const std::string& name);

// The format of a matrix by Hugging Face's name.
using FormatOf = std::function<BlockFormat(const std::string& name)>;

// Random weights, with matrices of one format, or each of its own, and vectors in F32.
// What the directory holds is what the blocks of the file stand for.
void write_twins(const std::filesystem::path& gguf, const std::filesystem::path& directory,
                 const ModelConfig& config, BlockFormat format, std::uint32_t seed,
                 const FormatOf& format_of = {});

// The model directory as a GGUF file in BF16, with its tokenizer of bytes and merges and
// its chat template; words are cut as "llama-bpe" says.
void convert_to_gguf(const std::filesystem::path& directory, const std::filesystem::path& gguf);

}  // namespace troupe::test
