// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include "text/byte_alphabet.hpp"
#include "text/tokenizer_fields.hpp"
#include "text/tokenizer_steps.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxAddedTokenBytes = 512;

TokenId read_id(const TokenizerField& field, std::size_t max_id) {
  const json& value = field.value();
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max_id) {
    field.fail("expected an id from 0 to " + std::to_string(max_id) + ", got " + value.dump());
  }
  return value.get<TokenId>();
}

// Puts an entry at its id; no two share one.
void place(const TokenizerField& field, TokenId token, const std::string& content,
           std::vector<VocabularyEntry>& vocabulary) {
  const auto index = static_cast<std::size_t>(token);
  if (index >= vocabulary.size()) vocabulary.resize(index + 1);
  std::string& present = vocabulary[index].content;
  if (content.empty()) field.fail("token " + std::to_string(token) + " is an empty string");
  if (!present.empty() && present != content) {
    field.fail("id " + std::to_string(token) + " belongs to both \"" + present + "\" and \"" + content +
               "\"");
  }
  present = content;
}

std::vector<VocabularyEntry> read_vocabulary(const TokenizerField& field, std::size_t max_id) {
  if (!field.value().is_object()) {
    field.fail(std::string("expected an object, got ") + field.value().type_name());
  }
  std::vector<VocabularyEntry> vocabulary;
  vocabulary.reserve(field.value().size());
  for (const auto& [content, id] : field.value().items()) {
    place(field, read_id(TokenizerField(id, "model.vocab[\"" + content + "\"]"), max_id), content,
          vocabulary);
  }
  return vocabulary;
}

std::vector<AddedToken> read_added_tokens(const TokenizerField& field, std::size_t max_id) {
  std::vector<AddedToken> tokens;
  if (field.is_null()) return tokens;
  for (const TokenizerField& entry : field.elements()) {
    AddedToken token;
    token.token = read_id(entry["id"], max_id);
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

TokenTable ids_by_content(const TokenizerField& field, const std::vector<VocabularyEntry>& vocabulary) {
  TokenTable ids(vocabulary.size());
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& content = vocabulary[id].content;
    if (!content.empty() && !ids.add(content, static_cast<TokenId>(id))) {
      field.fail("token \"" + content + "\" has two ids, one is " + std::to_string(id));
    }
  }
  return ids;
}

// A merge is "left right" or ["left", "right"].
std::pair<std::string, std::string> read_pair(const TokenizerField& field) {
  if (field.value().is_array()) {
    const std::vector<TokenizerField> sides = field.elements();
    if (sides.size() != 2) field.fail("expected two tokens, got " + std::to_string(sides.size()));
    return {sides[0].as_string(), sides[1].as_string()};
  }
  const std::string text = field.as_string();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    field.fail("expected two tokens with one space between them, got \"" + text + "\"");
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

std::vector<BpeMerge> read_merges(const TokenizerField& field, const TokenTable& ids,
                                  const std::vector<VocabularyEntry>& vocabulary) {
  std::vector<BpeMerge> merges;
  if (!field.value().is_array()) {
    field.fail(std::string("expected an array, got ") + field.value().type_name());
  }
  merges.reserve(field.value().size());
  for (std::size_t i = 0; i < field.value().size(); ++i) {
    const TokenizerField entry(field.value()[i], "model.merges[" + std::to_string(i) + "]");
    const auto [left, right] = read_pair(entry);
    const auto find = [&](const std::string& content) {
      const std::optional<TokenId> token = ids.find(content);
      if (!token) entry.fail("token \"" + content + "\" is not in the vocabulary");
      return *token;
    };
    const BpeMerge merge{find(left), find(right), find(left + right)};
    // No text may become a special token, not even through merges.
    if (!vocabulary[static_cast<std::size_t>(merge.result)].is_special) merges.push_back(merge);
  }
  return merges;
}

// "<0x0A>" is the byte 10.
std::optional<char> byte_of(std::string_view content) {
  if (content.size() != 6 || !content.starts_with("<0x") || content[5] != '>') return std::nullopt;
  std::uint8_t byte = 0;
  const char* end = content.data() + 5;
  const auto result = std::from_chars(content.data() + 3, end, byte, 16);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return static_cast<char>(byte);
}

std::string decoded(const std::string& content, const DecoderParts& decoder) {
  if (decoder.is_byte_level) return bytes_from_alphabet(content).value_or(content);
  std::string text = content;
  for (const auto& [from, to] : decoder.replacements) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  if (decoder.has_byte_fallback) {
    if (const std::optional<char> byte = byte_of(text)) return std::string(1, *byte);
  }
  return text;
}

std::optional<std::array<TokenId, 256>> find_byte_tokens(const TokenTable& ids) {
  std::array<TokenId, 256> tokens{};
  for (std::size_t byte = 0; byte < tokens.size(); ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const std::string content{'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
    const std::optional<TokenId> token = ids.find(content);
    if (!token) return std::nullopt;
    tokens[byte] = *token;
  }
  return tokens;
}

void refuse_unsupported_model(const TokenizerField& model) {
  const json& dropout = model["dropout"].value();
  if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0)) {
    model["dropout"].fail_unsupported("dropout " + dropout.dump());
  }
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string affix = model.string_or(name, "");
    if (!affix.empty()) model[name].fail_unsupported("\"" + affix + "\"");
  }
}

// The part of the vocabulary that words are made of.
std::vector<BpeEntry> make_entries(const std::vector<VocabularyEntry>& vocabulary, bool starts_from_bytes) {
  std::vector<BpeEntry> entries;
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const VocabularyEntry& entry = vocabulary[id];
    if (entry.content.empty()) continue;
    const std::optional<std::string> bytes =
        starts_from_bytes ? bytes_from_alphabet(entry.content) : entry.content;
    if (bytes) entries.push_back({*bytes, static_cast<TokenId>(id), !entry.is_special});
  }
  return entries;
}

BpeModelParts read_model(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                         bool is_byte_level) {
  refuse_unsupported_model(model);
  const TokenTable ids = ids_by_content(model["vocab"], vocabulary);
  BpeModelParts parts;
  parts.entries = make_entries(vocabulary, is_byte_level);
  parts.merges = read_merges(model["merges"], ids, vocabulary);
  parts.starts_from_bytes = is_byte_level;
  parts.ignores_merges = model.bool_or("ignore_merges", false);
  parts.fuses_unknown = model.bool_or("fuse_unk", false);
  if (model.bool_or("byte_fallback", false)) parts.byte_fallback = find_byte_tokens(ids);
  if (!model["unk_token"].is_null()) {
    parts.unknown_token = ids.find(model["unk_token"].as_string());
    if (!parts.unknown_token) model["unk_token"].fail("is not in the vocabulary");
  }
  return parts;
}

void place_added_tokens(const TokenizerField& field, const BpeTokenizerParts& parts, const TokenTable& ids,
                        std::vector<VocabularyEntry>& vocabulary) {
  for (const AddedToken& token : parts.added_tokens) {
    const std::optional<TokenId> known = ids.find(token.content);
    if (known && *known != token.token) {
      field.fail("\"" + token.content + "\" has id " + std::to_string(token.token) + ", but " +
                 std::to_string(*known) + " in the vocabulary");
    }
    place(field, token.token, token.content, vocabulary);
  }
}

// What the post-processor puts in front of a single text.
std::vector<TokenId> read_prefix(const TokenizerField& processor, const TokenTable& ids) {
  std::vector<TokenId> prefix;
  if (processor.is_null()) return prefix;
  const std::string type = processor.type();
  if (type == "Sequence") {
    for (const TokenizerField& part : processor["processors"].elements()) {
      const std::vector<TokenId> more = read_prefix(part, ids);
      prefix.insert(prefix.end(), more.begin(), more.end());
    }
  } else if (type == "TemplateProcessing") {
    for (const TokenizerField& part : processor["single"].elements()) {
      if (part["SpecialToken"].is_null()) break;
      const TokenizerField name = part["SpecialToken"]["id"];
      const std::optional<TokenId> token = ids.find(name.as_string());
      if (!token) name.fail("\"" + name.as_string() + "\" is not in the vocabulary");
      prefix.push_back(*token);
    }
  } else if (type != "ByteLevel") {
    processor.fail_unsupported("post-processor " + type);
  }
  return prefix;
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

// The configuration's add_bos_token, where it has one, wins over the
// post-processor: that is what Hugging Face's loaders do.
void read_config(const TokenizerField& config, const TokenTable& ids, BpeTokenizerParts& parts) {
  if (config.is_null()) return;
  parts.bos_token = read_config_token(config, "bos_token", ids);
  parts.eos_token = read_config_token(config, "eos_token", ids);
  if (config["add_bos_token"].is_null()) return;
  parts.prefix_tokens.clear();
  if (config.bool_or("add_bos_token", false)) {
    if (!parts.bos_token) config["add_bos_token"].fail("true, but there is no bos_token");
    parts.prefix_tokens.push_back(*parts.bos_token);
  }
}

}  // namespace

BpeTokenizerParts read_bpe_tokenizer(const json& tokenizer, const json& config) {
  const TokenizerField file(tokenizer, "");
  const TokenizerField model = file["model"];
  const TokenizerField added = file["added_tokens"];
  // Ids far beyond the number of entries would only be there to waste memory.
  const std::size_t max_id = 65'536 + 4 * (model["vocab"].value().size() + added.value().size());

  BpeTokenizerParts parts;
  std::vector<VocabularyEntry> vocabulary = read_vocabulary(model["vocab"], max_id);
  parts.added_tokens = read_added_tokens(added, max_id);
  const std::size_t num_model_entries = vocabulary.size();
  place_added_tokens(added, parts, ids_by_content(model["vocab"], vocabulary), vocabulary);
  for (const AddedToken& token : parts.added_tokens) {
    vocabulary[static_cast<std::size_t>(token.token)].is_special = token.needs_trust();
  }

  PreTokenizerParts pre_tokenizer = read_pre_tokenizer(file["pre_tokenizer"]);
  const DecoderParts decoder = read_decoder(file["decoder"]);
  if (pre_tokenizer.is_byte_level != decoder.is_byte_level) {
    file["decoder"].fail_unsupported("ByteLevel in only one of pre_tokenizer and decoder");
  }
  // Added tokens beyond the model's own are none of the model's words.
  const std::vector<VocabularyEntry> model_entries(
      vocabulary.begin(), vocabulary.begin() + static_cast<std::ptrdiff_t>(num_model_entries));
  parts.model = read_model(model, model_entries, pre_tokenizer.is_byte_level);
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
  parts.prefix_tokens = read_prefix(file["post_processor"], ids);
  read_config(TokenizerField(config, "tokenizer_config.json"), ids, parts);
  parts.vocabulary = std::move(vocabulary);
  return parts;
}

}  // namespace troupe
