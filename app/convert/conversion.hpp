// SPDX-License-Identifier: Apache-2.0
// The plan of `troupe convert`: the keys and tensors of a GGUF file that is made of a model, and what of
// the model such files have no word for. Reads headers and the tokenizer, no weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/data_type.hpp"
#include "gpu/model/conversion/gguf_output.hpp"
#include "gpu/model/conversion/gguf_tensors.hpp"
#include "gpu/model/gguf_file.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/model/weights.hpp"
#include "gpu/networks/network.hpp"

namespace troupe {

struct Conversion {
  ModelConfig config;
  std::shared_ptr<const Network> network;
  std::shared_ptr<const WeightStore> store;
  std::shared_ptr<const GgufFile> gguf;  // null: a directory
  GgufKeys keys;
  std::vector<ConvertedTensor> tensors;
  std::vector<std::string> losses;  // of the tokenizer, in programs that read the usual keys alone

  std::uint64_t data_bytes() const;
};

// model: a directory or a GGUF file. quantization: kQ8 or kQ4. Throws std::runtime_error that names the file
// and the reason: the model is not supported, or can't be said in a GGUF file.
Conversion plan_conversion(const std::filesystem::path& model, Quantization quantization);

}  // namespace troupe
