// SPDX-License-Identifier: Apache-2.0
#include "gpu/networks/recurrent_config.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "gpu/networks/label_names.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t kUsualContext = 65536;  // of a state nothing but the limit says so

void read_sizes(const ConfigFields& fields, ModelConfig& config) {
  config.hidden_size = fields.required_count("hidden_size", kMaxWidth);
  config.vocabulary_size = fields.required_count("vocab_size", kMaxVocabulary);
  config.context_length = fields.count("max_position_embeddings", kMaxContext).value_or(kUsualContext);
  config.weight_type = fields.weight_type();
}

void check_parameters(const ConfigFields& fields, const ModelConfig& config, double width) {
  const double hidden = config.hidden_size;
  const double parameters =
      8.0 * config.num_layers * hidden * (hidden + width) + config.vocabulary_size * (hidden + width);
  if (parameters > kMaxParameters) fields.refuse("the stated sizes make more than 1e13 parameters");
}

std::optional<std::int32_t> token(const ConfigFields& fields, const char* name, std::uint32_t vocabulary) {
  const nlohmann::json* value = fields.find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() >= vocabulary)
    fields.refuse(std::string(name) + " is " + ConfigFields::shown(*value) +
                  ", expected a token id below vocab_size " + std::to_string(vocabulary));
  return value->get<std::int32_t>();
}

void read_layers(const ConfigFields& fields, ModelConfig& config) {
  RecurrentConfig& recurrent = *config.recurrent;
  config.num_layers = fields.count("num_layers", kMaxLayers).value_or(1);
  recurrent.embedding_size = fields.count("embedding_size", kMaxWidth).value_or(config.hidden_size);
  check_parameters(fields, config, recurrent.embedding_size);
  if (fields.flag("bidirectional", false)) fields.refuse("bidirectional is not supported");
  if (const auto end = token(fields, "eos_token_id", config.vocabulary_size)) config.eos_tokens = {*end};
}

void read_language_model(const ConfigFields& fields, ModelConfig& config) {
  config.bos_token = token(fields, "bos_token_id", config.vocabulary_size);
  config.tied_embeddings = fields.flag("tie_word_embeddings", false);
  if (config.tied_embeddings && config.recurrent->embedding_size != config.hidden_size)
    fields.refuse("tie_word_embeddings needs an embedding_size of hidden_size " +
                  std::to_string(config.hidden_size));
}

RecurrentAttention read_attention(const ConfigFields& fields) {
  const auto name = fields.text("attention").value_or("none");
  if (name == "none") return RecurrentAttention::kNone;
  if (name == "dot") return RecurrentAttention::kDot;
  if (name == "general") return RecurrentAttention::kGeneral;
  if (name == "additive") return RecurrentAttention::kAdditive;
  fields.refuse("attention \"" + name.substr(0, 48) +
                "\" is not supported (none, dot, general and additive are)");
}

void read_seq2seq(const ConfigFields& fields, ModelConfig& config) {
  RecurrentConfig& recurrent = *config.recurrent;
  recurrent.source_vocabulary = fields.required_count("source_vocab_size", kMaxVocabulary);
  if (recurrent.source_vocabulary >= config.vocabulary_size)
    fields.refuse("source_vocab_size " + std::to_string(recurrent.source_vocabulary) +
                  " leaves none of vocab_size " + std::to_string(config.vocabulary_size) + " to the target");
  const auto start = token(fields, "decoder_start_token_id", config.vocabulary_size);
  if (!start) fields.refuse("decoder_start_token_id is missing");
  recurrent.decoder_start = *start;
  recurrent.source_end = token(fields, "source_end_token_id", config.vocabulary_size).value_or(-1);
  recurrent.attention = read_attention(fields);
}

void read_tree(const ConfigFields& fields, ModelConfig& config) {
  TreeLstmConfig& tree = *config.tree;
  config.num_layers = 1;
  tree.embedding_size = fields.count("embedding_size", kMaxWidth).value_or(config.hidden_size);
  check_parameters(fields, config, tree.embedding_size);
  tree.labels = read_labels(fields);
  tree.unknown_word = token(fields, "unk_token_id", config.vocabulary_size);
}

}  // namespace

ModelConfig read_recurrent_config(const std::string& architecture, const ConfigFields& fields,
                                  const std::filesystem::path&) {
  ModelConfig config;
  config.architecture = architecture;
  read_sizes(fields, config);
  if (architecture.find("Tree") != std::string::npos) {
    config.tree.emplace().is_binary = architecture.starts_with("Binary");
    read_tree(fields, config);
    return config;
  }
  config.recurrent.emplace().kind =
      architecture.starts_with("Gru") ? RecurrentKind::kGru : RecurrentKind::kLstm;
  read_layers(fields, config);
  if (architecture.ends_with("ForCausalLM")) {
    read_language_model(fields, config);
  } else {
    read_seq2seq(fields, config);
  }
  return config;
}

}  // namespace troupe
