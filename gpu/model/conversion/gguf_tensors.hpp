// SPDX-License-Identifier: Apache-2.0
// The tensors of a GGUF file that is made of a model: which there are, in which format, and where
// their rows come from. Matrices are quantized: embeddings and head to 8 bits, as logits suffer most from
// less, the others to the type that is asked for. Routers, norms and biases are F32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gpu/model/conversion/gguf_output.hpp"
#include "gpu/model/gguf_file.hpp"
#include "gpu/model/weights.hpp"

namespace troupe {

// Rows of a tensor that is to be written, which are those of views in their order. Views are valid as long
// as the model's files are open.
struct ConvertedTensor {
  struct Part {
    WeightView view;
    std::uint64_t first_row = 0, num_rows = 0;
  };

  GgufOutputTensor entry;
  std::vector<Part> parts;
  std::uint32_t paired_rows = 0;  // rows of a head, which are written in pairs; 0: as they follow
  std::vector<float> values;      // instead of parts: all elements, of F32
};

// The tensors that a directory's network reads. Throws std::runtime_error: a tensor has no name in the
// format.
std::vector<ConvertedTensor> tensors_of_directory(const WeightStore& store, const Network& network,
                                                  const std::string& architecture, BlockFormat format);

// All tensors of another GGUF file, with its names and in its order of rows. Throws std::runtime_error: one
// has a type that is not read here.
std::vector<ConvertedTensor> tensors_of_gguf(const GgufFile& file, BlockFormat format);

// Makes blocks of a row of values; called by several threads at once. Throws std::range_error: a value is too
// large.
using QuantizeRow =
    std::function<void(BlockFormat format, std::span<const float> values, std::span<std::byte> bytes)>;

// Row `row` of the tensor as it is in the file. Blocks of the format that is wanted stay as they are.
void write_row(const ConvertedTensor& tensor, std::uint64_t row, const QuantizeRow& quantize_row,
               std::span<std::byte> bytes);

}  // namespace troupe
