// SPDX-License-Identifier: Apache-2.0
// The parts of a Hugging Face config.json that networks need, checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpu/data_type.hpp"

namespace troupe {

// Llama 3.1's frequency scaling ("rope_type": "llama3"); "linear" uses factor only.
struct RopeScaling {
  std::string type;
  float factor = 1.0F;
  float low_frequency_factor = 1.0F;
  float high_frequency_factor = 4.0F;
  std::uint32_t original_context_length = 0;
};

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;
  std::uint32_t num_layers = 0;
  std::uint32_t num_heads = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t vocabulary_size = 0;
  std::uint32_t context_length = 0;  // max_position_embeddings
  float norm_epsilon = 1e-5F;
  float rope_theta = 10000.0F;
  std::optional<RopeScaling> rope_scaling;
  bool tied_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  DataType weight_type = DataType::kF32;  // torch_dtype / dtype
  std::optional<std::int32_t> bos_token;
  std::vector<std::int32_t> eos_tokens;  // config.json and generation_config.json, joined
};

// What generation_config.json recommends; absent fields stay empty.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<std::int32_t> top_k;
};

// Both throw std::runtime_error that names the file and what was expected.
ModelConfig load_model_config(const std::filesystem::path& model_dir);
GenerationDefaults load_generation_defaults(const std::filesystem::path& model_dir);

}  // namespace troupe
