// SPDX-License-Identifier: Apache-2.0
// The tokenizer of most language models: added tokens are found first, the text
// between them is normalized and cut into words, and a model turns each word into
// tokens.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/added_tokens.hpp"
#include "text/tokenizer/file/tokenizer_vocabulary.hpp"
#include "text/tokenizer/model/token_table.hpp"
#include "text/tokenizer/model/word_model.hpp"
#include "text/tokenizer/normalizer/normalizer.hpp"
#include "text/tokenizer/post_processor.hpp"
#include "text/tokenizer/pre_tokenizer.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

struct PipelineTokenizerParts {
  std::vector<VocabularyEntry> vocabulary;  // by id; holes are empty entries
  std::vector<AddedToken> added_tokens;
  std::vector<NormalizerStep> normalizer_steps;
  std::vector<PreTokenizerStep> pre_tokenizer_steps;
  WordModelParts model;
  std::size_t num_stripped_leading_spaces = 0;
  std::optional<TokenId> bos_token;
  std::optional<TokenId> eos_token;
  EnclosingTokens enclosing_tokens;
  std::optional<PairTokens> pair_tokens = {};
};

class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(PipelineTokenizerParts parts);

  std::vector<TokenId> encode_within(EncodingBudget& budget, std::string_view text,
                                     std::span<const TextRange> trusted) const override;
  std::string_view token_bytes(TokenId token) const override;
  std::string_view token_content(TokenId token) const override;
  bool is_special(TokenId token) const override;
  std::optional<TokenId> token_id(std::string_view content) const override;
  std::size_t vocabulary_size() const override { return vocabulary_.size(); }
  std::optional<TokenId> bos_token() const override { return bos_token_; }
  std::optional<TokenId> eos_token() const override { return eos_token_; }
  std::vector<TokenId> prefix_tokens() const override { return enclosing_tokens_.prefix; }
  std::vector<TokenId> suffix_tokens() const override { return enclosing_tokens_.suffix; }
  std::optional<PairTokens> pair_tokens() const override { return pair_tokens_; }
  std::size_t max_token_bytes() const override { return max_token_bytes_; }
  std::size_t num_stripped_leading_spaces() const override { return num_stripped_leading_spaces_; }

 private:
  struct Scratch;

  void encode_segment(std::string_view text, bool is_beginning, Scratch& scratch) const;
  void encode_valid_text(std::string_view text, bool is_beginning, Scratch& scratch) const;
  void encode_words(std::string_view text, bool is_beginning, Scratch& scratch) const;
  std::size_t longest_token(const std::vector<AddedToken>& added_tokens) const;

  std::vector<VocabularyEntry> vocabulary_;
  TokenTable ids_;
  AddedTokenMatcher raw_tokens_;         // matched in the text as it came
  AddedTokenMatcher normalized_tokens_;  // matched in the normalized text
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  WordModel model_;
  std::size_t max_token_bytes_;  // of the text as it came; kUnlimited: not known
  std::size_t num_stripped_leading_spaces_;
  std::optional<TokenId> bos_token_;
  std::optional<TokenId> eos_token_;
  EnclosingTokens enclosing_tokens_;
  std::optional<PairTokens> pair_tokens_;
};

}  // namespace troupe
