// SPDX-License-Identifier: Apache-2.0
// Unigram, the model of T5's and XLM-R's vocabularies: a word is cut into those pieces
// whose scores have the largest sum.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/token_id.hpp"
#include "text/tokenizer/token_trie.hpp"

namespace troupe {

struct UnigramPiece {
  std::string content;
  TokenId token = 0;
  double score = 0.0;  // logarithm of its probability
};

struct UnigramParts {
  std::vector<UnigramPiece> pieces;  // distinct; without those that no text may become
  TokenId unknown_token = 0;
  double unknown_score = 0.0;  // of a character that no piece is
  bool has_byte_fallback = false;
  // With byte fallback, of text that no piece has: its bytes' tokens, if each has one (-1: none).
  std::array<TokenId, 256> byte_tokens = {};
};

// Working memory of UnigramModel::encode; one for each thread.
struct UnigramScratch {
  // The best way to cut a beginning of the word.
  struct Ending {
    double score = 0.0;
    std::uint32_t num_bytes = 0;  // of its last piece; 0: no way ends here
    TokenId token = -1;
  };
  std::vector<Ending> endings;  // [word + 1]
  std::vector<Ending> pieces;   // of the best way, the last one first
};

class UnigramModel {
 public:
  explicit UnigramModel(const UnigramParts& parts);

  // Appends the tokens of one word; neighbouring unknown characters are one token. At most as
  // many steps a character as the longest piece has bytes, 16 bytes of memory a byte. Equal
  // sums: the piece that begins earlier. Throws EncodingStopped.
  void encode(std::string_view word, UnigramScratch& scratch, EncodingBudget& budget,
              std::vector<TokenId>& out) const;

  // A run of unknown characters of any length is one token.
  std::size_t max_token_bytes() const { return EncodingBudget::kUnlimited; }

 private:
  void find_endings(std::string_view word, UnigramScratch& scratch, EncodingBudget& budget) const;
  void find_pieces(std::size_t word_bytes, UnigramScratch& scratch) const;
  void append_unknown(std::string_view text, std::vector<TokenId>& out) const;

  TokenTrie pieces_;
  std::vector<double> scores_;  // by token
  TokenId unknown_token_;
  double unknown_score_;
  bool has_byte_fallback_;
  std::array<TokenId, 256> byte_tokens_;
};

}  // namespace troupe
