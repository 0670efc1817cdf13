// SPDX-License-Identifier: Apache-2.0
#include "gpu/model/model_config.hpp"

#include <algorithm>

#include "gpu/model/config_fields.hpp"
#include "gpu/model/gguf_config.hpp"
#include "gpu/model/gguf_file.hpp"
#include "gpu/model/json_file.hpp"
#include "gpu/networks/families/decoder_config.hpp"
#include "gpu/networks/families/families.hpp"

namespace troupe {
namespace {

using nlohmann::json;

// By "architectures", or by "model_type" where a file has none.
const Family& read_family(const ConfigFields& fields) {
  const json* names = fields.find("architectures");
  const auto type = fields.text("model_type");
  if (names == nullptr && type) {
    if (const Family* family = find_family_of_type(*type)) return *family;
    fields.refuse("the model_type " + ConfigFields::shown(*type) +
                  " is not supported, and architectures is missing");
  }
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    fields.refuse("architectures does not name the network");
  }
  const Family* family = find_family(names->front().get<std::string>());
  if (family == nullptr) {
    fields.refuse("the architecture " + ConfigFields::shown(names->front()) + " is not supported (" +
                  known_architectures() + " are)");
  }
  return *family;
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
  const ConfigFields fields(document, translated(path));
  const Family& family = read_family(fields);
  ModelConfig config = family.read(std::string(family.architecture), fields, path.parent_path());
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
  const Family& family = read_family(fields);
  ModelConfig config = family.read(std::string(family.architecture), fields, model);
  if (!config.has_pages() || config.translator) return config;

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
