// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/file/word_piece_file.hpp"

#include <optional>
#include <string>

namespace troupe {
namespace {

std::size_t read_max_characters(const TokenizerField& field, std::size_t fallback) {
  if (field.is_null()) return fallback;
  if (!field.value().is_number_unsigned()) {
    field.fail("expected a number of characters, got " + field.value().dump());
  }
  return field.value().get<std::size_t>();
}

}  // namespace

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
