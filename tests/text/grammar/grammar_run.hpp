// SPDX-License-Identifier: Apache-2.0
// Shared by tests of grammars: small vocabularies, and answers drawn from masks.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/grammar_matcher.hpp"

namespace troupe {

// A token for every byte, its id the byte; then `longer`; then the end token.
inline std::shared_ptr<const GrammarVocabulary> byte_vocabulary(const std::vector<std::string>& longer = {}) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  tokens.insert(tokens.end(), longer.begin(), longer.end());
  tokens.emplace_back();
  const auto end = static_cast<TokenId>(tokens.size() - 1);
  return std::make_shared<GrammarVocabulary>(tokens, std::vector<TokenId>{end});
}

inline GrammarMatcher matcher_of(Grammar grammar) {
  static const auto vocabulary = byte_vocabulary();
  return {std::make_shared<const Grammar>(std::move(grammar)), vocabulary};
}

inline bool accepts_bytes(GrammarMatcher& matcher, std::string_view text) {
  for (const char byte : text)
    if (!matcher.accept(static_cast<unsigned char>(byte))) return false;
  return true;
}

// True if the text, as a whole, is in the grammar.
inline bool matches(const GrammarMatcher& start, std::string_view text) {
  GrammarMatcher matcher = start;
  return accepts_bytes(matcher, text) && matcher.may_end();
}

inline std::vector<TokenId> allowed_tokens(const GrammarMatcher& matcher, std::size_t vocabulary_size) {
  std::vector<std::uint32_t> mask((vocabulary_size + 31) / 32, 0xFFFFFFFF);
  matcher.allow(mask);
  std::vector<TokenId> tokens;
  for (std::size_t word = 0; word < mask.size(); ++word)
    for (std::uint32_t bits = mask[word]; bits != 0; bits &= bits - 1)
      tokens.push_back(static_cast<TokenId>(word * 32 + static_cast<std::size_t>(std::countr_zero(bits))));
  return tokens;
}

// An answer of tokens drawn from the masks; it ends as soon as it is long and may. nullopt: no token was
// allowed, or the answer grew without end.
inline std::optional<std::string> random_answer(const GrammarMatcher& start,
                                                const GrammarVocabulary& vocabulary, std::mt19937_64& random,
                                                std::size_t long_bytes = 300) {
  GrammarMatcher matcher = start;
  std::string answer;
  while (answer.size() < 100'000) {
    const std::vector<TokenId> tokens = allowed_tokens(matcher, vocabulary.size());
    if (tokens.empty()) return std::nullopt;
    if (matcher.may_end() && (answer.size() > long_bytes || random() % 8 == 0)) return answer;
    // A long answer takes what closes: marks, quotes and the end come first.
    TokenId token = tokens[random() % tokens.size()];
    if (answer.size() > long_bytes)
      for (const TokenId other : tokens)
        if (std::string_view("\"]}").find(vocabulary.bytes(other)) != std::string_view::npos &&
            !vocabulary.bytes(other).empty() && random() % 2 == 0)
          token = other;
    if (!matcher.accept(token)) return std::nullopt;
    if (vocabulary.is_end(token)) return answer;
    answer += vocabulary.bytes(token);
  }
  return std::nullopt;
}

}  // namespace troupe
