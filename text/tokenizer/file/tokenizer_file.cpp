// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/file/tokenizer_file.hpp"

#include <utility>

#include "text/tokenizer/file/tokenizer_fields.hpp"
#include "text/tokenizer/file/tokenizer_model.hpp"
#include "text/tokenizer/file/tokenizer_steps.hpp"
#include "text/tokenizer/file/word_level_file.hpp"
#include "text/tokenizer/post_processor.hpp"
#include "text/tokenizer/token_decoder.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxAddedTokenBytes = 512;

using Vocabulary = std::vector<VocabularyEntry>;
// Arguments: the model, its own vocabulary, whether words are spelled in bytes.
using ModelReader = WordModelParts (*)(const TokenizerField&, const Vocabulary&, bool);

// Files of before 2022 name no type.
std::string type_by_fields(const TokenizerField& model) {
  if (!model["merges"].is_null()) return "BPE";
  if (model["vocab"].value().is_array()) return "Unigram";
  return model["max_input_chars_per_word"].is_null() ? "unknown" : "WordPiece";
}

struct ModelType {
  ModelReader read;
  bool is_scored = false;  // the vocabulary is an array of pieces and scores
};

ModelType model_type(const TokenizerField& model) {
  const std::string type = model.string_or("type", type_by_fields(model));
  if (type == "BPE")
    return {[](const TokenizerField& field, const Vocabulary& vocabulary,
               bool is_byte_level) -> WordModelParts { return read_bpe(field, vocabulary, is_byte_level); }};
  if (type == "WordPiece")
    return {
        [](const TokenizerField& field, const Vocabulary& vocabulary, bool is_byte_level) -> WordModelParts {
          return read_word_piece(field, vocabulary, is_byte_level);
        }};
  if (type == "Unigram")
    return {
        [](const TokenizerField& field, const Vocabulary& vocabulary, bool is_byte_level) -> WordModelParts {
          return read_unigram(field, vocabulary, is_byte_level);
        },
        true};
  if (type == "WordLevel")
    return {
        [](const TokenizerField& field, const Vocabulary& vocabulary, bool is_byte_level) -> WordModelParts {
          return read_word_level(field, vocabulary, is_byte_level);
        }};
  model["type"].fail(type + " is not supported, only BPE, WordPiece, WordLevel and Unigram are");
}

std::vector<AddedToken> read_added_tokens(const TokenizerField& field, std::size_t max_id) {
  std::vector<AddedToken> tokens;
  if (field.is_null()) return tokens;
  for (const TokenizerField& entry : field.elements()) {
    AddedToken token;
    token.token = read_token_id(entry["id"], max_id);
    token.content = entry["content"].as_string();
    if (token.content.empty() || token.content.size() > kMaxAddedTokenBytes) {
      entry["content"].fail("expected 1 to 512 bytes, got " + std::to_string(token.content.size()));
    }
    token.is_single_word = entry.bool_or("single_word", false);
    token.strips_left = entry.bool_or("lstrip", false);
    token.strips_right = entry.bool_or("rstrip", false);
    token.is_special = entry.bool_or("special", false);
    token.is_normalized = entry.bool_or("normalized", !token.is_special);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void place_added_tokens(const TokenizerField& field, const PipelineTokenizerParts& parts,
                        const TokenTable& ids, std::vector<VocabularyEntry>& vocabulary) {
  for (const AddedToken& token : parts.added_tokens) {
    const std::optional<TokenId> known = ids.find(token.content);
    if (known && *known != token.token) {
      field.fail("\"" + token.content + "\" has id " + std::to_string(token.token) + ", but " +
                 std::to_string(*known) + " in the vocabulary");
    }
    place_entry(field, token.token, token.content, vocabulary);
  }
}

// tokenizer_config.json says "<s>" or {"content": "<s>", …}.
std::optional<TokenId> read_config_token(const TokenizerField& config, const char* name,
                                         const TokenTable& ids) {
  if (config.is_null() || config[name].is_null()) return std::nullopt;
  const TokenizerField field = config[name];
  const std::string content = field.is_string() ? field.as_string() : field["content"].as_string();
  const std::optional<TokenId> token = ids.find(content);
  if (!token && !content.empty()) field.fail("\"" + content + "\" is not in the vocabulary");
  return token;
}

// The configuration's add_bos_token and add_eos_token, where it has them, win over
// the post-processor: that is what Hugging Face's loaders do.
void read_enclosing_token(const TokenizerField& config, const char* name, std::optional<TokenId> token,
                          const char* token_name, std::vector<TokenId>& tokens) {
  if (config[name].is_null()) return;
  tokens.clear();
  if (!config.bool_or(name, false)) return;
  if (!token) config[name].fail(std::string("true, but there is no ") + token_name);
  tokens.push_back(*token);
}

void read_config(const TokenizerField& config, const TokenTable& ids, PipelineTokenizerParts& parts) {
  if (config.is_null()) return;
  parts.bos_token = read_config_token(config, "bos_token", ids);
  parts.eos_token = read_config_token(config, "eos_token", ids);
  read_enclosing_token(config, "add_bos_token", parts.bos_token, "bos_token", parts.enclosing_tokens.prefix);
  read_enclosing_token(config, "add_eos_token", parts.eos_token, "eos_token", parts.enclosing_tokens.suffix);
}

}  // namespace

PipelineTokenizerParts read_tokenizer(const json& tokenizer, const json& config) {
  const TokenizerField file(tokenizer, "");
  const TokenizerField model = file["model"];
  const ModelType type = model_type(model);
  const TokenizerField added = file["added_tokens"];
  // Ids far beyond the number of entries would only be there to waste memory.
  const std::size_t max_id = 65'536 + 4 * (model["vocab"].value().size() + added.value().size());

  PipelineTokenizerParts parts;
  std::vector<VocabularyEntry> vocabulary =
      type.is_scored ? read_scored_vocabulary(model["vocab"]) : read_vocabulary(model["vocab"], max_id);
  parts.added_tokens = read_added_tokens(added, max_id);
  const std::size_t num_model_entries = vocabulary.size();
  place_added_tokens(added, parts, ids_by_content(model["vocab"], vocabulary), vocabulary);
  for (const AddedToken& token : parts.added_tokens) {
    vocabulary[static_cast<std::size_t>(token.token)].is_special = token.needs_trust();
  }

  PreTokenizerParts pre_tokenizer = read_pre_tokenizer(file["pre_tokenizer"]);
  DecoderParts decoder = read_decoder(file["decoder"]);
  if (pre_tokenizer.is_byte_level != decoder.is_byte_level) {
    file["decoder"].fail_unsupported("ByteLevel in only one of pre_tokenizer and decoder");
  }
  // Only CLIP's files have both, and transformers decodes its suffix like this.
  if (decoder.is_byte_level) decoder.end_of_word = model.string_or("end_of_word_suffix", "");
  // Added tokens beyond the model's own are none of the model's words.
  const std::vector<VocabularyEntry> model_entries(
      vocabulary.begin(), vocabulary.begin() + static_cast<std::ptrdiff_t>(num_model_entries));
  parts.model = type.read(model, model_entries, pre_tokenizer.is_byte_level);
  parts.normalizer_steps = read_normalizer(file["normalizer"]);
  parts.pre_tokenizer_steps = std::move(pre_tokenizer.steps);
  parts.num_stripped_leading_spaces = decoder.num_stripped_leading_spaces;

  for (VocabularyEntry& entry : vocabulary) entry.bytes = decoded(entry.content, decoder);
  for (const AddedToken& token : parts.added_tokens) {
    VocabularyEntry& entry = vocabulary[static_cast<std::size_t>(token.token)];
    entry.is_special = token.is_special;
    if (token.is_special) entry.bytes.clear();
    if (!token.is_special && decoder.is_byte_level) entry.bytes = token.content;
  }
  const TokenTable ids = ids_by_content(added, vocabulary);
  parts.enclosing_tokens = read_post_processor(file["post_processor"], ids);
  parts.pair_tokens = read_pair_processor(file["post_processor"], ids);
  read_config(TokenizerField(config, "tokenizer_config.json"), ids, parts);
  parts.vocabulary = std::move(vocabulary);
  return parts;
}

}  // namespace troupe
