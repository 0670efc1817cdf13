// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model/word_level_model.hpp"

namespace troupe {

WordLevelModel::WordLevelModel(const WordLevelParts& parts)
    : words_(parts.words.size()), unknown_token_(parts.unknown_token) {
  for (const auto& [word, token] : parts.words) words_.add(word, token);
}

void WordLevelModel::encode(std::string_view word, EncodingBudget& budget, std::vector<TokenId>& out) const {
  budget.spend(word.size());
  out.push_back(words_.find(word).value_or(unknown_token_));
  budget.check_tokens(out.size());
}

}  // namespace troupe
