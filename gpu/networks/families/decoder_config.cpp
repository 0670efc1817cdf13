// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/families/decoder_config.hpp"

#include <algorithm>

#include "gpu/model/quantized/quantization_config.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe {
namespace {

using nlohmann::json;

// Features that would change the numbers and that no code here computes.
void refuse_unsupported(const ConfigFields& fields, const DecoderRules& rules) {
  const WeightFormat format = read_quantization_config(fields).format;
  const auto needed = format == WeightFormat::kMxfp4 ? QuantizedMatrices::kMxfp4 : QuantizedMatrices::kOthers;
  if (format != WeightFormat::kPlain && rules.quantized != needed)
    fields.refuse(
        "quantized weights (quantization_config) in this format are not supported for this network");
  if (!rules.is_gated) return;
  const auto activation = fields.text("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    fields.refuse("hidden_act \"" + activation.substr(0, 48) + "\" is not supported (silu is)");
  }
}

void read_head_dim(const ConfigFields& fields, const DecoderRules& rules, ModelConfig& config) {
  if (const auto head_dim = fields.count("head_dim", kMaxWidth)) {
    config.head_dim = *head_dim;
  } else if (rules.head_dim != 0) {
    config.head_dim = rules.head_dim;
  } else {
    if (config.hidden_size % config.num_heads != 0) {
      fields.refuse(rules.names.hidden + (" " + std::to_string(config.hidden_size)) + " is no multiple of " +
                    rules.names.heads + " " + std::to_string(config.num_heads) +
                    " and head_dim is not given");
    }
    config.head_dim = config.hidden_size / config.num_heads;
  }
  if (config.head_dim % 8 != 0 || config.head_dim > kMaxHeadDim) {
    fields.refuse("head_dim " + std::to_string(config.head_dim) +
                  " is not supported (a multiple of 8 up to 256 is)");
  }
}

void check_parameters(const ConfigFields& fields, const ModelConfig& config) {
  const double width = static_cast<double>(config.hidden_size);
  const double heads = 2.0 * config.num_heads + 2.0 * config.num_kv_heads;
  const double parameters =
      config.num_layers * width * (heads * config.head_dim + 3.0 * config.intermediate_size) +
      2.0 * width * config.vocabulary_size;
  if (heads * config.head_dim > 4.0 * kMaxWidth || parameters > kMaxParameters) {
    fields.refuse("the stated sizes make more than 1e13 parameters");
  }
}

void read_sizes(const ConfigFields& fields, const DecoderRules& rules, ModelConfig& config) {
  const SizeNames& names = rules.names;
  config.hidden_size = fields.required_count(names.hidden, kMaxWidth);
  config.intermediate_size =
      rules.widens_by_four ? fields.count(names.intermediate, kMaxWidth).value_or(4 * config.hidden_size)
                           : fields.required_count(names.intermediate, kMaxWidth);
  config.num_layers = fields.required_count(names.layers, kMaxLayers);
  config.num_heads = fields.required_count(names.heads, kMaxHeads);
  config.num_kv_heads = fields.count("num_key_value_heads", kMaxHeads).value_or(config.num_heads);
  config.vocabulary_size = fields.required_count("vocab_size", kMaxVocabulary);
  config.context_length = fields.count(names.context, kMaxContext).value_or(rules.context_length);
  if (config.num_heads % config.num_kv_heads != 0) {
    fields.refuse("num_attention_heads " + std::to_string(config.num_heads) +
                  " is no multiple of num_key_value_heads " + std::to_string(config.num_kv_heads));
  }
  if (!rules.groups_heads && config.num_kv_heads != config.num_heads)
    fields.refuse("num_key_value_heads other than num_attention_heads is not supported");
  read_head_dim(fields, rules, config);
  check_parameters(fields, config);
}

void add_token(const ConfigFields& fields, const char* name, const json& value, std::uint32_t vocabulary_size,
               std::vector<std::int32_t>& tokens) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= vocabulary_size) {
    fields.refuse(std::string(name) + " has " + ConfigFields::shown(value) +
                  ", expected a token id below vocab_size " + std::to_string(vocabulary_size));
  }
  const auto token = value.get<std::int32_t>();
  if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
}

}  // namespace

ModelConfig read_decoder_config(const std::string& architecture, const ConfigFields& fields,
                                const DecoderRules& rules) {
  ModelConfig config;
  config.architecture = architecture;
  refuse_unsupported(fields, rules);
  read_sizes(fields, rules, config);
  read_rope(fields, fields.file(), rules.rope, config);
  config.norm_epsilon = fields.number("rms_norm_eps", 0.0F, 1.0F).value_or(rules.norm_epsilon);
  config.tied_embeddings = fields.flag("tie_word_embeddings", rules.ties_embeddings);
  config.attention_bias = fields.flag("attention_bias", rules.attention_bias);
  config.mlp_bias = fields.flag("mlp_bias", false);
  (void)fields.count("sliding_window", kMaxContext);  // refused where it is none, also if no layer slides
  config.weight_type = fields.weight_type();
  std::vector<std::int32_t> bos;
  read_tokens(fields, "bos_token_id", config.vocabulary_size, bos);
  if (!bos.empty()) config.bos_token = bos.front();
  read_tokens(fields, "eos_token_id", config.vocabulary_size, config.eos_tokens);
  return config;
}

void read_sliding_window(const ConfigFields& fields, const SlidingRules& rules, ModelConfig& config) {
  auto window = fields.count("sliding_window", kMaxContext);
  if (!window) window = rules.window;
  if (!window) return;
  if (*window < config.context_length) config.sliding_window = *window;
  if (config.sliding_window == 0 && !rules.always_lists) return;
  const json* types = layer_list(fields, "layer_types", config);
  if (types == nullptr) {
    if (rules.layers) config.is_sliding = rules.layers();
    return;
  }
  for (const json& type : *types) {
    if (type != "sliding_attention" && type != "full_attention") {
      fields.refuse("layer_types has " + ConfigFields::shown(type) +
                    ", which is not supported (sliding_attention and full_attention are)");
    }
    config.is_sliding.push_back(type == "sliding_attention");
  }
}

std::vector<bool> all_but_every(std::uint32_t interval, std::uint32_t count) {
  std::vector<bool> layers;
  for (std::uint32_t layer = 0; layer < count; ++layer) layers.push_back((layer + 1) % interval != 0);
  return layers;
}

const json* layer_list(const ConfigFields& fields, const char* name, const ModelConfig& config) {
  const json* list = fields.find(name);
  if (list == nullptr) return nullptr;
  if (!list->is_array() || list->size() != config.num_layers) {
    fields.refuse(std::string(name) + " is not a list of num_hidden_layers " +
                  std::to_string(config.num_layers) + " entries");
  }
  return list;
}

void read_tokens(const ConfigFields& fields, const char* name, std::uint32_t vocabulary_size,
                 std::vector<std::int32_t>& tokens) {
  const json* value = fields.find(name);
  if (value == nullptr) return;
  if (value->is_array()) {
    if (value->size() > 64) fields.refuse(std::string(name) + " has more than 64 ids");
    for (const auto& id : *value) add_token(fields, name, id, vocabulary_size, tokens);
  } else {
    add_token(fields, name, *value, vocabulary_size, tokens);
  }
}

}  // namespace troupe
