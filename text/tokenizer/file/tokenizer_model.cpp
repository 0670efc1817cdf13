// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/file/tokenizer_model.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "text/tokenizer/byte_alphabet.hpp"

namespace troupe {
namespace {

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

std::optional<std::array<TokenId, 256>> find_byte_tokens(const TokenTable& ids) {
  const std::array<TokenId, 256> tokens = byte_tokens(ids);
  if (std::find(tokens.begin(), tokens.end(), -1) != tokens.end()) return std::nullopt;
  return tokens;
}

void refuse_unsupported_model(const TokenizerField& model) {
  const nlohmann::json& dropout = model["dropout"].value();
  if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0)) {
    model["dropout"].fail_unsupported("dropout " + dropout.dump());
  }
  const std::string prefix = model.string_or("continuing_subword_prefix", "");
  if (!prefix.empty()) model["continuing_subword_prefix"].fail_unsupported("\"" + prefix + "\"");
}

// As entries of BpeModelParts have it.
// Bytes: it is put behind every word, so a long one would make prompts cost much.
constexpr std::size_t kMostSuffix = 64;

std::string read_end_of_word(const TokenizerField& model, bool is_byte_level) {
  const std::string suffix = model.string_or("end_of_word_suffix", "");
  if (suffix.empty()) return suffix;
  const TokenizerField field = model["end_of_word_suffix"];
  if (suffix.size() > kMostSuffix)
    field.fail_unsupported("one of " + std::to_string(suffix.size()) + " bytes");
  if (model.bool_or("byte_fallback", false)) field.fail_unsupported("\"" + suffix + "\" with byte_fallback");
  const std::optional<std::string> bytes = is_byte_level ? bytes_from_alphabet(suffix) : suffix;
  if (!bytes) field.fail_unsupported("\"" + suffix + "\", which is not spelled in bytes,");
  return *bytes;
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

// An unknown character scores this much less than the least likely piece, as sentencepiece has it.
constexpr double kUnknownPenalty = 10.0;

std::size_t read_max_characters(const TokenizerField& field, std::size_t fallback) {
  if (field.is_null()) return fallback;
  if (!field.value().is_number_unsigned()) {
    field.fail("expected a number of characters, got " + field.value().dump());
  }
  return field.value().get<std::size_t>();
}

}  // namespace

BpeModelParts read_bpe(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                       bool is_byte_level) {
  refuse_unsupported_model(model);
  const TokenTable ids = ids_by_content(model["vocab"], vocabulary);
  BpeModelParts parts;
  parts.entries = make_entries(vocabulary, is_byte_level);
  parts.merges = read_merges(model["merges"], ids, vocabulary);
  parts.starts_from_bytes = is_byte_level;
  parts.end_of_word = read_end_of_word(model, is_byte_level);
  parts.ignores_merges = model.bool_or("ignore_merges", false);
  parts.fuses_unknown = model.bool_or("fuse_unk", false);
  if (model.bool_or("byte_fallback", false)) parts.byte_fallback = find_byte_tokens(ids);
  if (!model["unk_token"].is_null()) {
    parts.unknown_token = ids.find(model["unk_token"].as_string());
    if (!parts.unknown_token) model["unk_token"].fail("is not in the vocabulary");
  }
  return parts;
}

UnigramParts read_unigram(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                          bool is_byte_level) {
  if (is_byte_level) model.fail_unsupported("Unigram after ByteLevel");
  const TokenizerField vocab = model["vocab"];
  if (vocabulary.empty()) vocab.fail("has no pieces");
  UnigramParts parts;
  parts.unknown_token = read_token_id(model["unk_id"], vocabulary.size() - 1);
  parts.has_byte_fallback = model.bool_or("byte_fallback", false);
  parts.byte_tokens = byte_tokens(ids_by_content(vocab, vocabulary));
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const auto score = vocab.value()[id][1].get<double>();
    least = std::min(least, score);
    if (vocabulary[id].is_special) continue;
    parts.pieces.push_back({vocabulary[id].content, static_cast<TokenId>(id), score});
  }
  parts.unknown_score = least - kUnknownPenalty;
  return parts;
}

WordPieceParts read_word_piece(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                               bool is_byte_level) {
  if (is_byte_level) model.fail_unsupported("WordPiece after ByteLevel");
  WordPieceParts parts;
  parts.continuing_prefix = model.string_or("continuing_subword_prefix", parts.continuing_prefix);
  parts.max_characters = read_max_characters(model["max_input_chars_per_word"], parts.max_characters);
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const VocabularyEntry& entry = vocabulary[id];
    if (entry.content.empty() || entry.is_special) continue;
    parts.entries.push_back({entry.content, static_cast<TokenId>(id)});
  }
  const std::string unknown = model.string_or("unk_token", "[UNK]");
  const std::optional<TokenId> token = ids_by_content(model["vocab"], vocabulary).find(unknown);
  if (!token) model["unk_token"].fail("\"" + unknown + "\" is not in the vocabulary");
  parts.unknown_token = *token;
  return parts;
}

}  // namespace troupe
