// SPDX-License-Identifier: Apache-2.0
// The smallest tokenizer there is: a byte is a token, and one id above them
// ends an answer. For tests of everything that isn't about text.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

class ByteTokenizer : public Tokenizer {
 public:
  static constexpr TokenId kEos = 256;
  static constexpr std::size_t kVocabularySize = 257;

  ByteTokenizer() {
    for (std::size_t byte = 0; byte < bytes_.size(); ++byte) bytes_[byte] = static_cast<char>(byte);
  }

  std::vector<TokenId> encode_within(EncodingBudget& budget, std::string_view text,
                                     std::span<const TextRange>) const override {
    std::vector<TokenId> tokens;
    for (const char byte : text) {
      budget.spend(1);
      tokens.push_back(static_cast<unsigned char>(byte));
      budget.check_tokens(tokens.size());
    }
    return tokens;
  }
  std::string_view token_bytes(TokenId token) const override {
    if (token < 0 || token >= kEos) return {};
    return {&bytes_[static_cast<std::size_t>(token)], 1};
  }
  std::string_view token_content(TokenId token) const override {
    return token == kEos ? "<eos>" : token_bytes(token);
  }
  bool is_special(TokenId token) const override { return token == kEos; }
  std::optional<TokenId> token_id(std::string_view content) const override {
    if (content == "<eos>") return kEos;
    if (content.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(content[0]);
  }
  std::size_t vocabulary_size() const override { return kVocabularySize; }
  std::optional<TokenId> bos_token() const override { return std::nullopt; }
  std::optional<TokenId> eos_token() const override { return kEos; }
  std::vector<TokenId> prefix_tokens() const override { return {}; }
  std::vector<TokenId> suffix_tokens() const override { return {}; }
  std::size_t max_token_bytes() const override { return 1; }
  std::size_t num_stripped_leading_spaces() const override { return 0; }

 private:
  std::array<char, 256> bytes_{};
};

}  // namespace troupe
