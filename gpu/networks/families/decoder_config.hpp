// SPDX-License-Identifier: Apache-2.0
// The fields of config.json that most decoders have, read by the rules of a family. All functions but
// all_but_every() throw std::runtime_error that names the file, the field and the value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/model/rope_config.hpp"

namespace troupe {

struct SizeNames {
  const char *hidden = "hidden_size", *intermediate = "intermediate_size", *layers = "num_hidden_layers",
             *heads = "num_attention_heads", *context = "max_position_embeddings";
};

// Formats of matrices in "quantization_config" that a network's products take.
enum class QuantizedMatrices : std::uint8_t { kNone, kMxfp4, kOthers };

// A family's names of fields, and its values where a file says nothing.
struct DecoderRules {
  SizeNames names = {};
  bool widens_by_four = false;  // intermediate_size may be absent: it is 4 x hidden_size then
  std::uint32_t head_dim = 0;   // 0: hidden_size over the heads
  std::uint32_t context_length = 2048;
  RopeDefaults rope = {};
  float norm_epsilon = 1e-6F;
  bool ties_embeddings = false;
  bool attention_bias = false;
  bool is_gated = true;      // by SiLU; else the family reads its activation
  bool groups_heads = true;  // several heads of queries may share those of keys and values
  QuantizedMatrices quantized = QuantizedMatrices::kOthers;
};

ModelConfig read_decoder_config(const std::string& architecture, const ConfigFields& fields,
                                const DecoderRules& rules);

// A window where a file says nothing, and the layers that slide where "layer_types" says nothing; none: all.
struct SlidingRules {
  std::optional<std::uint32_t> window = {};
  std::function<std::vector<bool>()> layers = {};
  bool always_lists = false;  // layers differ in more than the window
};
void read_sliding_window(const ConfigFields& fields, const SlidingRules& rules, ModelConfig& config);

// Layers 0 to count - 1 but for every interval-th.
std::vector<bool> all_but_every(std::uint32_t interval, std::uint32_t count);

// A list with an entry for each layer; null: absent.
const nlohmann::json* layer_list(const ConfigFields& fields, const char* name, const ModelConfig& config);

// One id or a list of ids, appended without repetition.
void read_tokens(const ConfigFields& fields, const char* name, std::uint32_t vocabulary_size,
                 std::vector<std::int32_t>& tokens);

}  // namespace troupe
