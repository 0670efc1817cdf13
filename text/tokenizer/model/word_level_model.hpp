// SPDX-License-Identifier: Apache-2.0
// WordLevel: a word is an entry of the vocabulary, or unknown.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/token_id.hpp"
#include "text/tokenizer/model/token_table.hpp"

namespace troupe {

struct WordLevelParts {
  std::vector<std::pair<std::string, TokenId>> words;  // distinct; without those that no text may become
  TokenId unknown_token = 0;
};

class WordLevelModel {
 public:
  explicit WordLevelModel(const WordLevelParts& parts);

  // Appends the token of one word. Throws EncodingStopped.
  void encode(std::string_view word, EncodingBudget& budget, std::vector<TokenId>& out) const;

  // A word of any length may be unknown.
  std::size_t max_token_bytes() const { return EncodingBudget::kUnlimited; }

 private:
  TokenTable words_;
  TokenId unknown_token_;
};

}  // namespace troupe
