// SPDX-License-Identifier: Apache-2.0
// The "quantization_config" of a config.json: how a Hugging Face directory stores quantized matrices.
#pragma once

#include <cstdint>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/quantized/fp8_tensor.hpp"

namespace troupe {

enum class WeightFormat : std::uint8_t { kPlain, kMxfp4, kFp8, kGptq, kAwq };

struct QuantizationConfig {
  WeightFormat format = WeightFormat::kPlain;
  std::uint32_t group_size = 0;  // of GPTQ and AWQ, inputs; 0: all of them
  std::uint32_t added_zero = 0;  // to zero points as they are stored; GPTQ's first format has them less 1
  Fp8BlockSize block_size = {};  // of FP8
};

// Throws std::runtime_error that names the file, the field and what is not supported.
QuantizationConfig read_quantization_config(const ConfigFields& config);

}  // namespace troupe
