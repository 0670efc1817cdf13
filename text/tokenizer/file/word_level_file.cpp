// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/file/word_level_file.hpp"

#include <optional>
#include <string>

namespace troupe {

WordLevelParts read_word_level(const TokenizerField& model, const std::vector<VocabularyEntry>& vocabulary,
                               bool is_byte_level) {
  if (is_byte_level) model.fail_unsupported("WordLevel after ByteLevel");
  WordLevelParts parts;
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const VocabularyEntry& entry = vocabulary[id];
    if (entry.content.empty() || entry.is_special) continue;
    parts.words.emplace_back(entry.content, static_cast<TokenId>(id));
  }
  const std::string unknown = model.string_or("unk_token", "<unk>");
  const std::optional<TokenId> token = ids_by_content(model["vocab"], vocabulary).find(unknown);
  if (!token) model["unk_token"].fail("\"" + unknown + "\" is not in the vocabulary");
  parts.unknown_token = *token;
  return parts;
}

}  // namespace troupe
