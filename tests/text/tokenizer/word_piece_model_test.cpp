// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model/word_piece_model.hpp"

#include <doctest/doctest.h>

#include <string>

namespace troupe {
namespace {

using Tokens = std::vector<TokenId>;

constexpr TokenId kUnknown = 0;

WordPieceParts parts_of(const std::vector<std::string>& words) {
  WordPieceParts parts;
  parts.unknown_token = kUnknown;
  for (const std::string& word : words) {
    parts.entries.push_back({word, static_cast<TokenId>(parts.entries.size() + 1)});
  }
  return parts;
}

Tokens encoded(const WordPieceParts& parts, const std::string& word) {
  EncodingBudget budget;
  Tokens tokens;
  WordPieceModel(parts).encode(word, budget, tokens);
  return tokens;
}

}  // namespace

TEST_CASE("wordpiece: a word is its longest beginning, then the longest continuations") {
  const WordPieceParts parts = parts_of({"un", "##aff", "##able", "##a", "unaf", "##ffable"});
  CHECK(encoded(parts, "unable") == Tokens{1, 3});
  // Greedy: "unaf" is taken although only "un" leads on.
  CHECK(encoded(parts, "unaffable") == Tokens{kUnknown});
  CHECK(encoded(parts_of({"un", "##aff", "##able"}), "unaffable") == Tokens{1, 2, 3});
}

TEST_CASE("wordpiece: a word that is an entry is that entry") {
  CHECK(encoded(parts_of({"a", "##b", "ab"}), "ab") == Tokens{3});
}

TEST_CASE("wordpiece: one part that is in no entry makes the whole word unknown") {
  const WordPieceParts parts = parts_of({"un", "##able"});
  CHECK(encoded(parts, "unablex") == Tokens{kUnknown});
  CHECK(encoded(parts, "xable") == Tokens{kUnknown});
  CHECK(encoded(parts, "able") == Tokens{kUnknown});  // continues only
  CHECK(encoded(parts, "unun") == Tokens{kUnknown});  // begins only
}

TEST_CASE("wordpiece: a word may begin with an entry that is spelled as a continuation") {
  CHECK(encoded(parts_of({"##a"}), "##a") == Tokens{1});
}

TEST_CASE("wordpiece: an entry that is nothing but the prefix continues no word") {
  CHECK(encoded(parts_of({"a", "##"}), "ab") == Tokens{kUnknown});
}

TEST_CASE("wordpiece: words are measured in characters, and unknown beyond the limit") {
  WordPieceParts parts = parts_of({"\u00e9", "##\u00e9", "a", "##a"});
  parts.max_characters = 3;
  CHECK(encoded(parts, "\u00e9\u00e9\u00e9") == Tokens{1, 2, 2});
  CHECK(encoded(parts, "\u00e9\u00e9\u00e9\u00e9") == Tokens{kUnknown});
  CHECK(encoded(parts, "aaa") == Tokens{3, 4, 4});
  CHECK(encoded(parts, "aaaa") == Tokens{kUnknown});
  CHECK(encoded(parts, std::string(1000, 'a')) == Tokens{kUnknown});
  parts.max_characters = 0;
  CHECK(encoded(parts, "a") == Tokens{kUnknown});
}

TEST_CASE("wordpiece: bytes that aren't UTF-8 are an unknown word") {
  CHECK(encoded(parts_of({"a"}), "\xff\xc3") == Tokens{kUnknown});
}

TEST_CASE("wordpiece: without a prefix every entry continues words") {
  WordPieceParts parts = parts_of({"a", "b"});
  parts.continuing_prefix = "";
  CHECK(encoded(parts, "abba") == Tokens{1, 2, 2, 1});
}

// Each letter is followed to the end of the word before only it is taken.
TEST_CASE("wordpiece: the work for a word is bounded by its characters' square") {
  const WordPieceParts parts = parts_of({"a", "##a", "##" + std::string(99, 'a') + "b"});
  EncodingBudget budget;
  Tokens tokens;
  WordPieceModel(parts).encode(std::string(100, 'a'), budget, tokens);
  CHECK(tokens.size() == 100);
  CHECK(budget.num_steps() > 4000);
  CHECK(budget.num_steps() < 6000);
}

TEST_CASE("wordpiece: a budget of tokens ends the encoding") {
  EncodingBudget budget(2);
  Tokens tokens;
  CHECK_THROWS_AS(WordPieceModel(parts_of({"a", "##a"})).encode("aaa", budget, tokens), EncodingStopped);
}

}  // namespace troupe
