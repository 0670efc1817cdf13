// SPDX-License-Identifier: Apache-2.0
// The tokenizer of most language models: added tokens are found first, the text
// between them is normalized, cut into words, and each word is byte-pair
// encoded.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.hpp"
#include "text/bpe_model.hpp"
#include "text/normalizer.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/token_table.hpp"
#include "text/tokenizer.hpp"

namespace troupe {

struct VocabularyEntry {
  std::string content;  // as the vocabulary spells it
  std::string bytes;    // what it stands for; empty for special tokens
  bool is_special = false;
};

struct BpeTokenizerParts {
  std::vector<VocabularyEntry> vocabulary;  // by id; holes are empty entries
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer_steps;
  std::vector<PreTokenizerStep> pre_tokenizer_steps;
  BpeModelParts model;
  std::size_t num_stripped_leading_spaces = 0;
  std::optional<TokenId> bos_token;
  std::optional<TokenId> eos_token;
  std::vector<TokenId> prefix_tokens;
};

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeTokenizerParts parts);

  std::vector<TokenId> encode_trusting(std::string_view text,
                                       std::span<const TextRange> trusted) const override;
  std::string_view token_bytes(TokenId token) const override;
  std::string_view token_content(TokenId token) const override;
  bool is_special(TokenId token) const override;
  std::optional<TokenId> token_id(std::string_view content) const override;
  std::size_t vocabulary_size() const override { return vocabulary_.size(); }
  std::optional<TokenId> bos_token() const override { return bos_token_; }
  std::optional<TokenId> eos_token() const override { return eos_token_; }
  std::vector<TokenId> prefix_tokens() const override { return prefix_tokens_; }
  std::size_t num_stripped_leading_spaces() const override { return num_stripped_leading_spaces_; }

 private:
  struct Scratch;

  void encode_segment(std::string_view text, bool is_beginning, Scratch& scratch) const;
  void encode_valid_text(std::string_view text, bool is_beginning, Scratch& scratch) const;
  void encode_words(std::string_view text, bool is_beginning, Scratch& scratch) const;

  std::vector<VocabularyEntry> vocabulary_;
  TokenTable ids_;
  AddedTokenMatcher raw_tokens_;         // matched in the text as it came
  AddedTokenMatcher normalized_tokens_;  // matched in the normalized text
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  BpeModel model_;
  std::size_t num_stripped_leading_spaces_;
  std::optional<TokenId> bos_token_;
  std::optional<TokenId> eos_token_;
  std::vector<TokenId> prefix_tokens_;
};

}  // namespace troupe
