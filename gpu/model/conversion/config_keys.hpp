// SPDX-License-Identifier: Apache-2.0
// A model's configuration as the keys of a GGUF file: the inverse of gguf_config.hpp. The format
// lacks words for much; find_difference() tells what a file that was written does not say.
#pragma once

#include <string>
#include <vector>

#include "gpu/model/conversion/gguf_output.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

// As in "general.architecture". Throws std::runtime_error: files of that architecture have no name
// in the format, or are not read here.
std::string gguf_architecture(const ModelConfig& config);

// All but the tokenizer's keys and those of sampling.
void add_config_keys(const ModelConfig& config, GgufKeys& keys);

// Numbers of the rotation that the format has in tensors of F32.
struct RopeTensor {
  std::string name;
  std::vector<float> values;
};
std::vector<RopeTensor> rope_tensors(const ModelConfig& config);

// The first field of which a file says something else than is meant, by the name that a directory has for
// it; empty: none. More tokens may end an answer. Both are configurations of decoders.
std::string find_difference(const ModelConfig& meant, const ModelConfig& said);

}  // namespace troupe
