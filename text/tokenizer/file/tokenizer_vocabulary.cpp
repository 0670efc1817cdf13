// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/file/tokenizer_vocabulary.hpp"

#include <cstdint>

namespace troupe {
TokenId read_token_id(const TokenizerField& field, std::size_t max_id) {
  const nlohmann::json& value = field.value();
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > max_id) {
    field.fail("expected an id from 0 to " + std::to_string(max_id) + ", got " + value.dump());
  }
  return value.get<TokenId>();
}

void place_entry(const TokenizerField& field, TokenId token, const std::string& content,
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
    const TokenId token = read_token_id(TokenizerField(id, "model.vocab[\"" + content + "\"]"), max_id);
    if (!content.empty()) {
      place_entry(field, token, content, vocabulary);
    } else if (static_cast<std::size_t>(token) >= vocabulary.size()) {
      vocabulary.resize(static_cast<std::size_t>(token) + 1);  // Whisper's: no text becomes it, it says none
    }
  }
  return vocabulary;
}

std::vector<VocabularyEntry> read_scored_vocabulary(const TokenizerField& field) {
  const nlohmann::json& pieces = field.value();
  if (!pieces.is_array()) {
    field.fail(std::string("expected an array of pieces and scores, got ") + pieces.type_name());
  }
  std::vector<VocabularyEntry> vocabulary;
  vocabulary.reserve(pieces.size());
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const nlohmann::json& piece = pieces[id];
    const bool is_scored =
        piece.is_array() && piece.size() == 2 && piece[0].is_string() && piece[1].is_number();
    if (!is_scored) {
      field.fail("expected a piece and its score for token " + std::to_string(id) + ", got " +
                 piece.dump().substr(0, 64));
    }
    place_entry(field, static_cast<TokenId>(id), piece[0].get_ref<const std::string&>(), vocabulary);
  }
  return vocabulary;
}

std::array<TokenId, 256> byte_tokens(const TokenTable& ids) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::array<TokenId, 256> tokens{};
  for (std::size_t byte = 0; byte < tokens.size(); ++byte) {
    const std::string content{'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
    tokens[byte] = ids.find(content).value_or(-1);
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

}  // namespace troupe
