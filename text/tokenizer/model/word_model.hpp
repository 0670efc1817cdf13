// SPDX-License-Identifier: Apache-2.0
// The model of a tokenizer.json, of whichever type: turns one word into tokens.
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/model/bpe_model.hpp"
#include "text/tokenizer/model/unigram_model.hpp"
#include "text/tokenizer/model/word_level_model.hpp"
#include "text/tokenizer/model/word_piece_model.hpp"

namespace troupe {

using WordModelParts = std::variant<BpeModelParts, WordPieceParts, UnigramParts, WordLevelParts>;

// Working memory of WordModel::encode; one for each thread.
struct WordScratch {
  BpeScratch bpe;
  UnigramScratch unigram;
};

class WordModel {
 public:
  explicit WordModel(WordModelParts parts);

  // Appends the tokens of one word. Bytes that aren't UTF-8 count as characters
  // outside the vocabulary. Throws EncodingStopped.
  void encode(std::string_view word, WordScratch& scratch, EncodingBudget& budget,
              std::vector<TokenId>& out) const;

  // The most bytes of a word that become one token; kUnlimited: not known.
  std::size_t max_token_bytes() const;

 private:
  std::variant<BpeModel, WordPieceModel, UnigramModel, WordLevelModel> model_;
};

}  // namespace troupe
