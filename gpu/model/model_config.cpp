// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/model_config.hpp"

#include <algorithm>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/experts_config.hpp"
#include "gpu/model/families.hpp"
#include "gpu/model/gemma_config.hpp"
#include "gpu/model/gguf_config.hpp"
#include "gpu/model/gguf_file.hpp"
#include "gpu/model/gpt_config.hpp"
#include "gpu/model/json_file.hpp"
#include "gpu/model/lfm2_config.hpp"
#include "gpu/model/quantized/quantization_config.hpp"
#include "gpu/model/rope_config.hpp"
#include "gpu/networks/bert_config.hpp"
#include "gpu/networks/recurrent_config.hpp"
#include "gpu/networks/translator_config.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::uint32_t kMaxHeadDim = 256;

bool is_of_cells(Family family) {
  return family == Family::kRecurrent || family == Family::kSeq2Seq || family == Family::kTreeLstm;
}

// By "architectures", or by "model_type" where a file has none.
const FamilyNames& read_family(const ConfigFields& fields) {
  const json* names = fields.find("architectures");
  const auto type = fields.text("model_type");
  if (names == nullptr && type) {
    if (const FamilyNames* family = find_family_of_type(*type)) return *family;
    fields.refuse("the model_type " + ConfigFields::shown(*type) +
                  " is not supported, and architectures is missing");
  }
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    fields.refuse("architectures does not name the network");
  }
  const FamilyNames* family = find_family(names->front().get<std::string>());
  if (family == nullptr) {
    fields.refuse("the architecture " + ConfigFields::shown(names->front()) + " is not supported (" +
                  known_architectures() + " are)");
  }
  return *family;
}

// Features that would change the numbers and that no code here computes.
void refuse_unsupported(const ConfigFields& fields, Family family) {
  const WeightFormat format = read_quantization_config(fields).format;
  const bool is_for_gpt_oss = format == WeightFormat::kMxfp4;
  if (format != WeightFormat::kPlain && (is_for_gpt_oss != (family == Family::kGptOss) || is_gpt(family)))
    fields.refuse(
        "quantized weights (quantization_config) in this format are not supported for this network");
  if (is_gemma(family) || is_gpt(family)) return;  // which read their own
  const auto activation = fields.text("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    fields.refuse("hidden_act \"" + activation.substr(0, 48) + "\" is not supported (silu is)");
  }
}

struct SizeNames {
  const char *hidden = "hidden_size", *intermediate = "intermediate_size", *layers = "num_hidden_layers",
             *heads = "num_attention_heads", *context = "max_position_embeddings";
};

bool has_gpt2_names(Family family) { return family == Family::kGpt2 || family == Family::kGptJ; }

// GPT-2 and GPT-J have names of their own, beside which transformers takes those of the others.
SizeNames size_names(const ConfigFields& fields, Family family) {
  if (family == Family::kOpt) return {.intermediate = "ffn_dim"};
  if (family == Family::kLfm2 && fields.has("block_ff_dim")) return {.intermediate = "block_ff_dim"};
  if (!has_gpt2_names(family) || fields.has("hidden_size")) return {};
  return {"n_embd", "n_inner", "n_layer", "n_head", "n_positions"};
}

std::uint32_t read_intermediate_size(const ConfigFields& fields, Family family, const char* name,
                                     std::uint32_t hidden) {
  if (has_gpt2_names(family)) return fields.count(name, kMaxWidth).value_or(4 * hidden);
  return fields.required_count(name, kMaxWidth);
}

void read_sizes(const ConfigFields& fields, Family family, ModelConfig& config) {
  const SizeNames names = size_names(fields, family);
  config.hidden_size = fields.required_count(names.hidden, kMaxWidth);
  config.intermediate_size = read_intermediate_size(fields, family, names.intermediate, config.hidden_size);
  config.num_layers = fields.required_count(names.layers, kMaxLayers);
  config.num_heads = fields.required_count(names.heads, kMaxHeads);
  config.num_kv_heads = fields.count("num_key_value_heads", kMaxHeads).value_or(config.num_heads);
  config.vocabulary_size = fields.required_count("vocab_size", kMaxVocabulary);
  config.context_length =
      fields.count(names.context, kMaxContext).value_or(family == Family::kGpt2 ? 1024 : 2048);
  if (config.num_heads % config.num_kv_heads != 0) {
    fields.refuse("num_attention_heads " + std::to_string(config.num_heads) +
                  " is no multiple of num_key_value_heads " + std::to_string(config.num_kv_heads));
  }
  if (const auto head_dim = fields.count("head_dim", kMaxWidth)) {
    config.head_dim = *head_dim;
  } else if (is_gemma(family) || family == Family::kGptOss) {
    config.head_dim = is_gemma(family) ? 256 : 64;  // whatever the width
  } else {
    if (config.hidden_size % config.num_heads != 0) {
      fields.refuse(names.hidden + (" " + std::to_string(config.hidden_size)) + " is no multiple of " +
                    names.heads + " " + std::to_string(config.num_heads) + " and head_dim is not given");
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

// A list with an entry for each layer.
const json* layer_list(const ConfigFields& fields, const char* name, const ModelConfig& config) {
  const json* list = fields.find(name);
  if (list == nullptr) return nullptr;
  if (!list->is_array() || list->size() != config.num_layers) {
    fields.refuse(std::string(name) + " is not a list of num_hidden_layers " +
                  std::to_string(config.num_layers) + " entries");
  }
  return list;
}

// By "layer_types", else all layers of a family, those from "max_window_layers" on or by a pattern.
void read_sliding_window(const ConfigFields& fields, Family family, ModelConfig& config) {
  const bool is_of_gemma = is_gemma(family);
  const bool is_qwen = family == Family::kQwen2 || family == Family::kQwen3 || family == Family::kQwen3Moe;
  const bool may_slide =
      family == Family::kMistral || family == Family::kMixtral || family == Family::kGptOss ||
      family == Family::kPhi3 || is_of_gemma ||
      ((is_qwen || family == Family::kSmolLm3) && fields.flag("use_sliding_window", false));
  auto window = fields.count("sliding_window", kMaxContext);
  if (is_of_gemma && !window) window = 4096;
  if (family == Family::kGptOss && !fields.has("sliding_window")) window = 128;
  if (!may_slide || !window) return;
  if (*window < config.context_length) config.sliding_window = *window;
  // Gemma's layers that slide differ in more than the window.
  if (config.sliding_window == 0 && !is_of_gemma) return;
  if (const json* types = layer_list(fields, "layer_types", config)) {
    for (const json& type : *types) {
      if (type != "sliding_attention" && type != "full_attention") {
        fields.refuse("layer_types has " + ConfigFields::shown(type) +
                      ", which is not supported (sliding_attention and full_attention are)");
      }
      config.is_sliding.push_back(type == "sliding_attention");
    }
  } else if (is_qwen && family != Family::kQwen3Moe) {
    const auto first = fields.count("max_window_layers", kMaxLayers).value_or(28);
    for (std::uint32_t layer = 0; layer < config.num_layers; ++layer)
      config.is_sliding.push_back(layer >= first);
  } else if (family == Family::kSmolLm3) {
    for (const bool is_rotated : config.is_rotated) config.is_sliding.push_back(!is_rotated);
  } else if (is_of_gemma || family == Family::kGptOss) {
    const auto interval =
        family != Family::kGemma3 ? 2U : fields.count("sliding_window_pattern", kMaxLayers).value_or(6);
    for (std::uint32_t layer = 0; layer < config.num_layers; ++layer)
      config.is_sliding.push_back((layer + 1) % interval != 0);
  }
}

// SmolLM3: every fourth layer has no positions, unless a list says otherwise (1: it has).
void read_rotated_layers(const ConfigFields& fields, ModelConfig& config) {
  const auto interval = fields.count("no_rope_layer_interval", kMaxLayers).value_or(4);
  for (std::uint32_t layer = 0; layer < config.num_layers; ++layer) {
    config.is_rotated.push_back((layer + 1) % interval != 0);
  }
  const json* list = layer_list(fields, "no_rope_layers", config);
  for (std::uint32_t layer = 0; list != nullptr && layer < config.num_layers; ++layer) {
    const json& value = (*list)[layer];
    if (value != 0 && value != 1)
      fields.refuse("no_rope_layers has " + ConfigFields::shown(value) + ", expected 0 or 1");
    config.is_rotated[layer] = value == 1;
  }
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

// One id or a list of ids, appended without repetition.
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

RopeDefaults rope_defaults(Family family) {
  if (family == Family::kGemma3) return {.theta = 1e6F};
  if (family == Family::kSmolLm3) return {.theta = 2e6F};
  if (family == Family::kMixtral || family == Family::kLfm2) return {.theta = 1e6F};
  if (family == Family::kGptOss) return {.theta = 150000.0F};
  return {.part = family == Family::kGptNeoX ? 0.25F : 1.0F};
}

bool ties_embeddings(Family family) {
  return family == Family::kSmolLm3 || is_gemma(family) || family == Family::kGpt2 || family == Family::kOpt;
}

ModelConfig read_decoder_config(const ConfigFields& fields, const std::string& file) {
  ModelConfig config;
  const FamilyNames& names = read_family(fields);
  config.architecture = names.architecture;
  refuse_unsupported(fields, names.family);
  read_sizes(fields, names.family, config);
  if (names.family == Family::kSmolLm3) read_rotated_layers(fields, config);
  read_sliding_window(fields, names.family, config);
  read_rope(fields, file, rope_defaults(names.family), config);
  // Without one its scaling is neither none nor that of the published models.
  if (names.family == Family::kGptOss && !config.rope_scaling)
    fields.refuse("rope_scaling of gpt-oss is missing");
  if (is_gemma(names.family)) config.gemma = read_gemma(fields, file, names.family, config);
  const bool has_larger = names.family == Family::kMixtral || names.family == Family::kGptOss;
  config.norm_epsilon = fields.number("rms_norm_eps", 0.0F, 1.0F).value_or(has_larger ? 1e-5F : 1e-6F);
  config.tied_embeddings = fields.flag("tie_word_embeddings", ties_embeddings(names.family));
  // Qwen2's configuration does not name the biases that it always has.
  const bool is_qwen2 = names.family == Family::kQwen2;
  const bool is_gpt_oss = names.family == Family::kGptOss;
  config.attention_bias = is_qwen2 || fields.flag("attention_bias", is_gpt_oss);
  config.attention_sinks = is_gpt_oss;
  config.qkv_bias_only = is_qwen2;
  config.fused_projections = names.family == Family::kPhi3;
  config.head_norms =
      names.family == Family::kQwen3 || names.family == Family::kQwen3Moe || names.family == Family::kGemma3;
  config.mlp_bias = fields.flag("mlp_bias", false);
  if (is_gpt(names.family)) read_gpt(fields, names.family, config);
  if (names.family == Family::kLfm2) read_lfm2(fields, config);
  if (is_mixture(names.family)) config.experts = read_experts(fields, names.family, config);
  config.weight_type = fields.weight_type();

  std::vector<std::int32_t> bos;
  read_tokens(fields, "bos_token_id", config.vocabulary_size, bos);
  if (!bos.empty()) config.bos_token = bos.front();
  read_tokens(fields, "eos_token_id", config.vocabulary_size, config.eos_tokens);
  return config;
}

// A field of generation_config.json, or of a GGUF file's general.sampling, that is not applied.
struct UnappliedField {
  const char* name;
  double without_effect;  // a number that changes nothing
};

constexpr UnappliedField kUnapplied[] = {
    {"begin_suppress_tokens", 0},
    {"bad_words_ids", 0},
    {"encoder_no_repeat_ngram_size", 0},
    {"encoder_repetition_penalty", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"exponential_decay_length_penalty", 0},
    {"guidance_scale", 1},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"mirostat", 0},
    {"no_repeat_ngram_size", 0},
    {"num_beams", 1},
    {"penalty_alpha", 0},
    {"penalty_last_n", -1},
    {"sequence_bias", 0},
    {"stop_strings", 0},
    {"suppress_tokens", 0},
    {"typical_p", 1},
    {"xtc_probability", 0},
};

std::vector<std::string> unapplied_fields(const ConfigFields& fields) {
  std::vector<std::string> names;
  for (const UnappliedField& field : kUnapplied) {
    const json* value = fields.find(field.name);
    if (value == nullptr || (!value->is_number() && value->empty())) continue;
    if (!value->is_number() || value->get<double>() != field.without_effect) names.emplace_back(field.name);
  }
  return names;
}

GenerationDefaults read_generation_defaults(const ConfigFields& fields) {
  GenerationDefaults defaults;
  defaults.temperature = fields.number("temperature", 0.0F, 100.0F);
  // A model that says it is not to be sampled from is answered greedily.
  if (!fields.flag("do_sample", true)) defaults.temperature = 0.0F;
  defaults.top_p = fields.number("top_p", 0.0F, 1.0F);
  if (defaults.top_p == 0.0F) fields.refuse("top_p is 0, expected a number greater than 0");
  if (const json* top_k = fields.find("top_k")) {
    const bool is_valid = top_k->is_number_integer() && top_k->get<std::int64_t>() >= -1 &&
                          top_k->get<std::int64_t>() <= std::int64_t{kMaxVocabulary};
    if (!is_valid) fields.refuse("top_k is " + ConfigFields::shown(*top_k) + ", expected an integer");
    defaults.top_k = std::max<std::int32_t>(0, top_k->get<std::int32_t>());
  }
  defaults.min_p = fields.number("min_p", 0.0F, 1.0F);
  defaults.repetition_penalty = fields.number("repetition_penalty", 0.0F, 1000.0F);
  if (defaults.repetition_penalty == 0.0F)
    fields.refuse("repetition_penalty is 0, expected a number greater than 0");
  defaults.unapplied = unapplied_fields(fields);
  return defaults;
}

// For errors of fields that have Hugging Face's names.
std::string translated(const std::filesystem::path& gguf) { return gguf.string() + ": read as config.json"; }

ModelConfig load_gguf_config(const std::filesystem::path& path) {
  const GgufFile file(path);
  const json document = gguf_config_document(file);
  ModelConfig config = read_decoder_config(ConfigFields(document, translated(path)), translated(path));
  config.rope_divisors = gguf_rope_divisors(file, config.head_dim);
  if (config.gemma) config.gemma->lacks_one = false;
  if (config.experts) config.experts->alternates = config.experts->is_transposed = false;
  return config;
}

}  // namespace

ModelConfig load_model_config(const std::filesystem::path& model) {
  if (is_gguf_path(model)) return load_gguf_config(model);
  const auto path = model / "config.json";
  const json document = read_json_file(path);
  const ConfigFields fields(document, path.string());
  if (const FamilyNames& family = read_family(fields); family.family == Family::kBert)
    return read_bert_config(std::string(family.architecture), fields, model);
  else if (is_of_cells(family.family))
    return read_recurrent_config(std::string(family.architecture), fields);
  else if (family.family == Family::kTranslator)
    return read_translator_config(std::string(family.architecture), fields);
  ModelConfig config = read_decoder_config(fields, path.string());

  const auto generation_path = model / "generation_config.json";
  if (std::filesystem::exists(generation_path)) {
    const json generation = read_json_file(generation_path);
    read_tokens(ConfigFields(generation, generation_path.string()), "eos_token_id", config.vocabulary_size,
                config.eos_tokens);
  }
  return config;
}

GenerationDefaults load_generation_defaults(const std::filesystem::path& model) {
  if (is_gguf_path(model)) {
    const json document = gguf_generation_document(GgufFile(model));
    return read_generation_defaults(ConfigFields(document, translated(model)));
  }
  const auto path = model / "generation_config.json";
  if (!std::filesystem::exists(path)) return {};
  const json document = read_json_file(path);
  return read_generation_defaults(ConfigFields(document, path.string()));
}

}  // namespace troupe
