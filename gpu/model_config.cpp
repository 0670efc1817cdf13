// SPDX-License-Identifier: Apache-2.0
#include "gpu/model_config.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "gpu/json_file.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::uint32_t kMaxWidth = 1U << 20;
constexpr std::uint32_t kMaxLayers = 1024;
constexpr std::uint32_t kMaxHeads = 4096;
constexpr std::uint32_t kMaxHeadDim = 256;
constexpr std::uint32_t kMaxVocabulary = 1U << 22;
constexpr std::uint32_t kMaxContext = 1U << 24;
constexpr double kMaxParameters = 1e13;

// An object of a JSON file whose fields are read with type and range checks;
// null counts as absent, as Hugging Face writes it.
class Fields {
 public:
  Fields(const json& object, std::string file) : object_(object), file_(std::move(file)) {
    if (!object_.is_object()) refuse("is not a JSON object");
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw std::runtime_error(file_ + ": " + reason);
  }

  const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::optional<std::uint32_t> count(const char* name, std::uint32_t max) const {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() < 1 ||
        value->get<std::uint64_t>() > max) {
      refuse(std::string(name) + " is " + shown(*value) + ", expected an integer from 1 to " +
             std::to_string(max));
    }
    return value->get<std::uint32_t>();
  }

  std::uint32_t required_count(const char* name, std::uint32_t max) const {
    const auto value = count(name, max);
    if (!value) refuse(std::string(name) + " is missing");
    return *value;
  }

  std::optional<float> number(const char* name, float min, float max) const {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    if (!(number >= min && number <= max)) {
      refuse(std::string(name) + " is " + shown(*value) + ", expected a number from " + std::to_string(min) +
             " to " + std::to_string(max));
    }
    return static_cast<float>(number);
  }

  bool flag(const char* name, bool otherwise) const {
    const json* value = find(name);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) {
      refuse(std::string(name) + " is " + shown(*value) + ", expected true or false");
    }
    return value->get<bool>();
  }

  std::optional<std::string> text(const char* name) const {
    const json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) {
      refuse(std::string(name) + " is " + shown(*value) + ", expected a string");
    }
    return value->get<std::string>();
  }

  static std::string shown(const json& value) {
    std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
    return text.size() <= 48 ? text : text.substr(0, 45) + "...";
  }

 private:
  const json& object_;
  std::string file_;
};

std::string read_architecture(const Fields& fields) {
  const json* names = fields.find("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    fields.refuse("architectures does not name the network");
  }
  auto name = names->front().get<std::string>();
  if (name != "LlamaForCausalLM" && name != "MistralForCausalLM") {
    fields.refuse("the architecture " + Fields::shown(names->front()) +
                  " is not supported (LlamaForCausalLM and MistralForCausalLM are)");
  }
  return name;
}

// Features that would change the numbers and that no code here computes.
void refuse_unsupported(const Fields& fields) {
  if (fields.find("quantization_config") != nullptr) {
    fields.refuse("quantized weights (quantization_config) are not supported");
  }
  const auto activation = fields.text("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    fields.refuse("hidden_act \"" + activation.substr(0, 48) + "\" is not supported (silu is)");
  }
  if (fields.number("partial_rotary_factor", 0.0F, 1.0F).value_or(1.0F) != 1.0F) {
    fields.refuse("partial_rotary_factor other than 1 is not supported");
  }
}

void read_sizes(const Fields& fields, ModelConfig& config) {
  config.hidden_size = fields.required_count("hidden_size", kMaxWidth);
  config.intermediate_size = fields.required_count("intermediate_size", kMaxWidth);
  config.num_layers = fields.required_count("num_hidden_layers", kMaxLayers);
  config.num_heads = fields.required_count("num_attention_heads", kMaxHeads);
  config.num_kv_heads = fields.count("num_key_value_heads", kMaxHeads).value_or(config.num_heads);
  config.vocabulary_size = fields.required_count("vocab_size", kMaxVocabulary);
  config.context_length = fields.count("max_position_embeddings", kMaxContext).value_or(2048);
  if (config.num_heads % config.num_kv_heads != 0) {
    fields.refuse("num_attention_heads " + std::to_string(config.num_heads) +
                  " is no multiple of num_key_value_heads " + std::to_string(config.num_kv_heads));
  }
  if (const auto head_dim = fields.count("head_dim", kMaxWidth)) {
    config.head_dim = *head_dim;
  } else {
    if (config.hidden_size % config.num_heads != 0) {
      fields.refuse("hidden_size " + std::to_string(config.hidden_size) +
                    " is no multiple of num_attention_heads " + std::to_string(config.num_heads) +
                    " and head_dim is not given");
    }
    config.head_dim = config.hidden_size / config.num_heads;
  }
  if (config.head_dim % 8 != 0 || config.head_dim > kMaxHeadDim) {
    fields.refuse("head_dim " + std::to_string(config.head_dim) +
                  " is not supported (a multiple of 8 up to 256 is)");
  }
  const double width = static_cast<double>(config.hidden_size);
  const double heads = 2.0 * config.num_heads + 2.0 * config.num_kv_heads;
  const double parameters =
      config.num_layers * width * (heads * config.head_dim + 3.0 * config.intermediate_size) +
      2.0 * width * config.vocabulary_size;
  if (heads * config.head_dim > 4.0 * kMaxWidth || parameters > kMaxParameters) {
    fields.refuse("the stated sizes make more than 1e13 parameters");
  }
}

void read_sliding_window(const Fields& fields, const ModelConfig& config) {
  const json* window = fields.find("sliding_window");
  if (window == nullptr || config.architecture != "MistralForCausalLM") return;
  if (*fields.count("sliding_window", kMaxContext) < config.context_length) {
    fields.refuse("sliding_window " + Fields::shown(*window) +
                  " is not supported (null, or at least max_position_embeddings, is)");
  }
}

// "rope_scaling" of today's files, with "type" as its older spelling, or
// "rope_parameters" of newer ones, which holds rope_theta too.
void read_rope(const Fields& fields, const std::string& file, ModelConfig& config) {
  config.rope_theta = fields.number("rope_theta", 1.0F, 1e12F).value_or(10000.0F);
  const json* object = fields.find("rope_parameters");
  if (object == nullptr) object = fields.find("rope_scaling");
  if (object == nullptr) return;
  const Fields rope(*object, file + ": the rope scaling");
  config.rope_theta = rope.number("rope_theta", 1.0F, 1e12F).value_or(config.rope_theta);

  auto type = rope.text("rope_type");
  if (!type) type = rope.text("type");
  if (!type || *type == "default") return;
  if (*type != "linear" && *type != "llama3") {
    rope.refuse("type \"" + type->substr(0, 48) + "\" is not supported (linear and llama3 are)");
  }
  RopeScaling scaling{.type = *type};
  const auto factor = rope.number("factor", 1.0F, 1e6F);
  if (!factor) rope.refuse("has no factor");
  scaling.factor = *factor;
  if (*type == "llama3") {
    const auto low = rope.number("low_freq_factor", 1e-3F, 1e6F);
    const auto high = rope.number("high_freq_factor", 1e-3F, 1e6F);
    const auto original = rope.count("original_max_position_embeddings", kMaxContext);
    if (!low || !high || !original || *high <= *low) {
      rope.refuse("needs low_freq_factor < high_freq_factor and original_max_position_embeddings");
    }
    scaling.low_frequency_factor = *low;
    scaling.high_frequency_factor = *high;
    scaling.original_context_length = *original;
  }
  config.rope_scaling = scaling;
}

DataType read_weight_type(const Fields& fields) {
  auto type = fields.text("dtype");
  if (!type) type = fields.text("torch_dtype");
  if (!type || *type == "float32") return DataType::kF32;
  if (*type == "bfloat16") return DataType::kBF16;
  if (*type == "float16") return DataType::kF16;
  fields.refuse("torch_dtype \"" + type->substr(0, 48) +
                "\" is not supported (float32, float16 and bfloat16 are)");
}

void add_token(const Fields& fields, const char* name, const json& value, std::uint32_t vocabulary_size,
               std::vector<std::int32_t>& tokens) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= vocabulary_size) {
    fields.refuse(std::string(name) + " has " + Fields::shown(value) +
                  ", expected a token id below vocab_size " + std::to_string(vocabulary_size));
  }
  const auto token = value.get<std::int32_t>();
  if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
}

// One id or a list of ids, appended without repetition.
void read_tokens(const Fields& fields, const char* name, std::uint32_t vocabulary_size,
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

}  // namespace

ModelConfig load_model_config(const std::filesystem::path& model_dir) {
  const auto path = model_dir / "config.json";
  const json document = read_json_file(path);
  const Fields fields(document, path.string());

  ModelConfig config;
  config.architecture = read_architecture(fields);
  refuse_unsupported(fields);
  read_sizes(fields, config);
  read_sliding_window(fields, config);
  read_rope(fields, path.string(), config);
  config.norm_epsilon = fields.number("rms_norm_eps", 0.0F, 1.0F).value_or(1e-6F);
  config.tied_embeddings = fields.flag("tie_word_embeddings", false);
  config.attention_bias = fields.flag("attention_bias", false);
  config.mlp_bias = fields.flag("mlp_bias", false);
  config.weight_type = read_weight_type(fields);

  std::vector<std::int32_t> bos;
  read_tokens(fields, "bos_token_id", config.vocabulary_size, bos);
  if (!bos.empty()) config.bos_token = bos.front();
  read_tokens(fields, "eos_token_id", config.vocabulary_size, config.eos_tokens);

  const auto generation_path = model_dir / "generation_config.json";
  if (std::filesystem::exists(generation_path)) {
    const json generation = read_json_file(generation_path);
    read_tokens(Fields(generation, generation_path.string()), "eos_token_id", config.vocabulary_size,
                config.eos_tokens);
  }
  return config;
}

GenerationDefaults load_generation_defaults(const std::filesystem::path& model_dir) {
  const auto path = model_dir / "generation_config.json";
  GenerationDefaults defaults;
  if (!std::filesystem::exists(path)) return defaults;
  const json document = read_json_file(path);
  const Fields fields(document, path.string());
  defaults.temperature = fields.number("temperature", 0.0F, 100.0F);
  // A model that says it is not to be sampled from is answered greedily.
  if (!fields.flag("do_sample", true)) defaults.temperature = 0.0F;
  defaults.top_p = fields.number("top_p", 0.0F, 1.0F);
  if (const json* top_k = fields.find("top_k")) {
    const bool is_valid = top_k->is_number_integer() && top_k->get<std::int64_t>() >= -1 &&
                          top_k->get<std::int64_t>() <= std::int64_t{kMaxVocabulary};
    if (!is_valid) fields.refuse("top_k is " + Fields::shown(*top_k) + ", expected an integer");
    defaults.top_k = std::max<std::int32_t>(0, top_k->get<std::int32_t>());
  }
  return defaults;
}

}  // namespace troupe
