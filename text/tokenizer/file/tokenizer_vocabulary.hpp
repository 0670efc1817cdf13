// SPDX-License-Identifier: Apache-2.0
// The entries of a tokenizer.json's vocabulary, by id.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "text/token_id.hpp"
#include "text/tokenizer/file/tokenizer_fields.hpp"
#include "text/tokenizer/model/token_table.hpp"

namespace troupe {

struct VocabularyEntry {
  std::string content;  // as the vocabulary spells it
  std::string bytes;    // the token's text; empty for special tokens
  bool is_special = false;
};

// All throw std::runtime_error naming the field.
TokenId read_token_id(const TokenizerField& field, std::size_t max_id);
// Entries by id; holes are empty entries.
std::vector<VocabularyEntry> read_vocabulary(const TokenizerField& field, std::size_t max_id);
// As Unigram has it: an array of [content, score], where the place is the id.
std::vector<VocabularyEntry> read_scored_vocabulary(const TokenizerField& field);
// Puts an entry at its id; no two share one.
void place_entry(const TokenizerField& field, TokenId token, const std::string& content,
                 std::vector<VocabularyEntry>& vocabulary);
// Tokens spelled "<0x00>" to "<0xFF>"; -1: there is none.
std::array<TokenId, 256> byte_tokens(const TokenTable& ids);
TokenTable ids_by_content(const TokenizerField& field, const std::vector<VocabularyEntry>& vocabulary);

}  // namespace troupe
