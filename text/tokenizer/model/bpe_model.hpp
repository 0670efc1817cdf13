// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding of one piece of text: start from bytes (byte-level) or
// characters (sentencepiece-style), join the pair of lowest rank until no pair
// is left.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/encoding_budget.hpp"
#include "text/token_id.hpp"
#include "text/tokenizer/model/merge_table.hpp"
#include "text/tokenizer/model/token_table.hpp"

namespace troupe {

struct BpeEntry {
  std::string bytes;  // the token's text
  TokenId token = 0;
  // Special tokens: no text becomes one, neither whole nor through merges.
  bool is_reachable = true;
};

struct BpeMerge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
};

struct BpeModelParts {
  std::vector<BpeEntry> entries;  // distinct texts
  std::vector<BpeMerge> merges;   // by rank
  bool starts_from_bytes = true;  // else from characters
  bool ignores_merges = false;    // a piece that is an entry is that token
  // Entries that end a piece have it behind their texts; empty: they are as all others.
  std::string end_of_word;
  // Characters outside the vocabulary: their bytes' tokens if all 256 are
  // known, else the unknown token, else nothing.
  std::optional<std::array<TokenId, 256>> byte_fallback;
  std::optional<TokenId> unknown_token;
  bool fuses_unknown = false;  // neighbouring unknown characters are one token
};

// Working memory of BpeModel::encode; one for each thread.
struct BpeScratch {
  struct Symbol {
    TokenId token;
    std::int32_t previous;  // -1: none
    std::int32_t next;
    // The merge with the next symbol; until that is looked up the character's code, kNever if it has none.
    MergeTable::Rank rank;
  };
  std::vector<Symbol> symbols;
  // Rank and position of pairs, in one number so that comparing them is cheap.
  std::vector<std::uint64_t> heap;
  bool after_unknown = false;  // the last character was not of the vocabulary
};

class BpeModel {
 public:
  explicit BpeModel(BpeModelParts parts);

  // Appends the tokens of one piece. O(n log n) time, about 40 bytes of memory a
  // byte. Bytes that aren't UTF-8 count as characters outside the vocabulary.
  // Throws EncodingStopped.
  void encode(std::string_view piece, BpeScratch& scratch, EncodingBudget& budget,
              std::vector<TokenId>& out) const;

  // The most bytes of a piece that become one token. kUnlimited: a run of unknown
  // characters is one token, or none.
  std::size_t max_token_bytes() const { return max_token_bytes_; }

 private:
  static constexpr MergeTable::Rank kNumCodes = 129;

  void start(std::string_view word, BpeScratch& scratch, EncodingBudget& budget) const;
  void start_from_bytes(std::string_view piece, BpeScratch& scratch) const;
  void start_from_characters(std::string_view piece, BpeScratch& scratch) const;
  void start_last(std::string_view character, BpeScratch& scratch) const;
  void append_unknown(BpeScratch& scratch) const;
  void rank_pairs(BpeScratch& scratch) const;
  void find_coded_ranks();
  std::optional<TokenId> character_token(std::string_view character, MergeTable::Rank code) const;
  void encode_word(std::string_view word, BpeScratch& scratch, EncodingBudget& budget,
                   std::vector<TokenId>& out) const;
  MergeTable::Rank pair_rank(const BpeScratch& scratch, std::int32_t left) const;
  void merge_pair(BpeScratch& scratch, std::int32_t left) const;
  void merge_few(BpeScratch& scratch) const;
  void merge_many(BpeScratch& scratch, EncodingBudget& budget) const;
  void find_whole_words(const std::vector<BpeEntry>& entries);
  std::size_t longest_token(const std::vector<BpeEntry>& entries) const;

  TokenTable characters_;  // reachable entries
  // Pieces that are encoded as exactly one token, so that most words of a text
  // need one look-up and no merging.
  TokenTable whole_words_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_tokens_;  // reachable entries of one byte; -1: none
  std::string end_of_word_;
  std::array<TokenId, 256> last_byte_tokens_;  // entries of one byte and end_of_word_
  // ASCII and the "\u2581", of which most texts are, have codes, [0, kNumCodes), which save a look-up by hash
  // for each character and pair of a word.
  std::array<TokenId, kNumCodes> coded_tokens_;  // -1: none
  std::vector<MergeTable::Rank> coded_ranks_;    // of pairs: kNumCodes x left + right
  std::optional<std::array<TokenId, 256>> byte_fallback_;
  std::optional<TokenId> unknown_token_;
  bool fuses_unknown_;
  bool starts_from_bytes_;
  // No token has a "\u2581" behind another character, so nothing merges across
  // the beginning of a sentencepiece word.
  bool has_word_borders_ = false;
  std::size_t max_token_bytes_;
};

}  // namespace troupe
