// SPDX-License-Identifier: Apache-2.0
// WordPiece, the model of BERT's family: a word is the longest entry it begins
// with, then the longest continuing entry ("##ing"), and so on; where there is
// none, the whole word is one unknown token.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/token_id.hpp"
#include "text/tokenizer/model/token_table.hpp"
#include "text/tokenizer/token_trie.hpp"

namespace troupe {

struct WordPieceEntry {
  std::string content;
  TokenId token = 0;
};

struct WordPieceParts {
  std::vector<WordPieceEntry> entries;  // distinct; without those that no text may become
  std::string continuing_prefix = "##";
  TokenId unknown_token = 0;
  std::size_t max_characters = 100;  // a longer word is unknown
};

class WordPieceModel {
 public:
  explicit WordPieceModel(const WordPieceParts& parts);

  // Appends the tokens of one word. At most as many steps a byte as a word may have
  // characters, and as the longest entry has bytes. Throws EncodingStopped.
  void encode(std::string_view word, EncodingBudget& budget, std::vector<TokenId>& out) const;

  // A word of any length may be unknown.
  std::size_t max_token_bytes() const { return EncodingBudget::kUnlimited; }

 private:
  bool is_too_long(std::string_view word) const;
  bool append_pieces(std::string_view word, EncodingBudget& budget, std::vector<TokenId>& out) const;

  TokenTable whole_words_;  // most words of a text need one look-up
  TokenTrie beginnings_;
  TokenTrie continuations_;
  TokenId unknown_token_;
  std::size_t max_characters_;
};

}  // namespace troupe
