// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/translator_config.hpp"

#include <cmath>
#include <optional>

#include "gpu/model/json_file.hpp"
#include "gpu/pages/kv_layout.hpp"

namespace troupe {
namespace {

void read_heads(const ConfigFields& fields, ModelConfig& config) {
  config.num_heads = fields.required_count("decoder_attention_heads", kMaxHeads);
  const std::uint32_t in_encoder = fields.required_count("encoder_attention_heads", kMaxHeads);
  if (in_encoder != config.num_heads)
    fields.refuse("encoder_attention_heads " + std::to_string(in_encoder) +
                  " other than decoder_attention_heads " + std::to_string(config.num_heads) +
                  " is not supported");
  config.num_kv_heads = config.num_heads;
  const auto stated = fields.count("head_dim", kMaxHeadDim);
  if (!stated && config.hidden_size % config.num_heads != 0)
    fields.refuse("d_model " + std::to_string(config.hidden_size) +
                  " is no multiple of decoder_attention_heads " + std::to_string(config.num_heads));
  config.head_dim = stated.value_or(config.hidden_size / config.num_heads);
  if (config.head_dim % 8 != 0 || config.head_dim > kMaxHeadDim)
    fields.refuse("heads of " + std::to_string(config.head_dim) +
                  " are not supported (a multiple of 8 up to " + std::to_string(kMaxHeadDim) + " is)");
}

void read_sizes(const ConfigFields& fields, ModelConfig& config) {
  TranslatorConfig& translator = *config.translator;
  config.hidden_size = fields.required_count("d_model", kMaxWidth);
  if (config.hidden_size % 2 != 0)
    fields.refuse("d_model " + std::to_string(config.hidden_size) + " is odd, and waves come in pairs");
  config.intermediate_size = fields.required_count("decoder_ffn_dim", kMaxWidth);
  translator.encoder_intermediate_size = fields.required_count("encoder_ffn_dim", kMaxWidth);
  config.num_layers = fields.required_count("decoder_layers", kMaxLayers);
  translator.num_encoder_layers = fields.required_count("encoder_layers", kMaxLayers);
  config.vocabulary_size = fields.required_count("vocab_size", kMaxVocabulary);
  config.context_length = 2 * fields.required_count("max_position_embeddings", kMaxContext);
  read_heads(fields, config);
  const double hidden = config.hidden_size, query = config.query_width();
  const double parameters =
      config.num_layers * hidden * (8 * query + 2.0 * config.intermediate_size) +
      translator.num_encoder_layers * hidden * (4 * query + 2.0 * translator.encoder_intermediate_size) +
      2.0 * config.vocabulary_size * hidden;
  if (parameters > kMaxParameters) fields.refuse("the stated sizes make more than 1e13 parameters");
}

Activation read_activation(const ConfigFields& fields) {
  const auto stated = fields.text("activation_function").value_or("relu");
  if (stated == "swish" || stated == "silu") return Activation::kSilu;
  return fields.activation("activation_function", "relu");
}

std::optional<std::int32_t> read_token(const ConfigFields& fields, const char* name,
                                       std::uint32_t vocabulary) {
  const nlohmann::json* value = fields.find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() >= vocabulary)
    fields.refuse(std::string(name) + " is " + ConfigFields::shown(*value) + ", expected a token id below " +
                  std::to_string(vocabulary));
  return value->get<std::int32_t>();
}

// A field of ours says which token ends a source; null: none does.
std::int32_t read_source_end(const ConfigFields& fields, const ModelConfig& config) {
  if (fields.has("source_end_token_id"))
    return read_token(fields, "source_end_token_id", config.vocabulary_size).value_or(-1);
  return config.eos_tokens.empty() ? -1 : config.eos_tokens.front();
}

void read_tokens(const ConfigFields& fields, ModelConfig& config) {
  TranslatorConfig& translator = *config.translator;
  translator.source_vocabulary = fields.count("source_vocab_size", kMaxVocabulary).value_or(0);
  if (translator.source_vocabulary >= config.vocabulary_size)
    fields.refuse("source_vocab_size " + std::to_string(translator.source_vocabulary) +
                  " leaves none of vocab_size " + std::to_string(config.vocabulary_size) + " to the answers");
  const std::uint32_t of_answers = config.vocabulary_size - translator.source_vocabulary;
  if (const auto end = read_token(fields, "eos_token_id", of_answers)) config.eos_tokens = {*end};
  translator.source_end = read_source_end(fields, config);
  const auto start = read_token(fields, "decoder_start_token_id", of_answers);
  if (!start) fields.refuse("decoder_start_token_id is missing");
  translator.answer_begins = {*start};
  if (const auto forced = read_token(fields, "forced_bos_token_id", of_answers))
    translator.answer_begins.push_back(*forced);
}

void read_marian(const ConfigFields& fields, TranslatorConfig& translator) {
  translator.norms_first = fields.flag("normalize_before", false);
  if (translator.norms_first) fields.refuse("normalize_before is not supported");
  translator.has_logit_bias = true;
  if (!fields.flag("share_encoder_decoder_embeddings", true) && translator.source_vocabulary == 0)
    fields.refuse("share_encoder_decoder_embeddings of false needs source_vocab_size");
}

// Its first position is that of the padding and one.
void read_m2m100(const ConfigFields& fields, const ModelConfig& config, TranslatorConfig& translator) {
  translator.norms_first = true;
  translator.ends_at_slowest = true;
  translator.has_logit_bias = fields.flag("final_logits_bias", false);
  translator.first_position =
      static_cast<std::uint32_t>(read_token(fields, "pad_token_id", config.vocabulary_size).value_or(1)) + 1;
}

}  // namespace

ModelConfig read_translator_config(const std::string& architecture, const ConfigFields& fields,
                                   const std::filesystem::path&) {
  ModelConfig config;
  config.architecture = architecture;
  TranslatorConfig& translator = config.translator.emplace();
  if (fields.find("quantization_config") != nullptr)
    fields.refuse("quantized weights (quantization_config) are not supported for this network");
  read_sizes(fields, config);
  read_tokens(fields, config);
  config.attention_bias = true;
  config.weight_type = fields.weight_type();
  config.tied_embeddings = fields.flag("tie_word_embeddings", true);
  translator.activation = read_activation(fields);
  const bool is_marian = architecture.starts_with("Marian");
  if (fields.flag("scale_embedding", !is_marian))
    translator.embedding_scale = std::sqrt(static_cast<float>(config.hidden_size));
  if (is_marian) {
    read_marian(fields, translator);
  } else {
    read_m2m100(fields, config, translator);
  }
  return config;
}

}  // namespace troupe
