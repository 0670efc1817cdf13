// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/model/bpe_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace troupe {
namespace {

struct Vocabulary {
  BpeModelParts parts;
  std::map<std::string, TokenId> ids;
};

// Letters a, b, c and random merges of what is there already. In a random order
// a merge may come before the one that makes its parts.
Vocabulary random_vocabulary(std::mt19937& random) {
  Vocabulary vocabulary;
  std::vector<std::string> words;
  const auto add = [&](const std::string& word) {
    if (vocabulary.ids.emplace(word, static_cast<TokenId>(words.size())).second) {
      words.push_back(word);
    }
    return vocabulary.ids[word];
  };
  for (const char* letter : {"a", "b", "c"}) add(letter);
  std::set<std::pair<TokenId, TokenId>> pairs;
  for (std::size_t i = random() % 20; i > 0; --i) {
    const std::string left = words[random() % words.size()];
    const std::string right = words[random() % words.size()];
    if (left.size() + right.size() > 40) continue;
    if (!pairs.emplace(vocabulary.ids[left], vocabulary.ids[right]).second) continue;
    vocabulary.parts.merges.push_back({vocabulary.ids[left], vocabulary.ids[right], add(left + right)});
  }
  if (random() % 2 == 0) {
    std::shuffle(vocabulary.parts.merges.begin(), vocabulary.parts.merges.end(), random);
  }
  for (const auto& [word, id] : vocabulary.ids) vocabulary.parts.entries.push_back({word, id, true});
  return vocabulary;
}

// The definition: merge the leftmost pair of the lowest rank, start again.
std::vector<TokenId> naive_encoding(const Vocabulary& vocabulary, const std::string& text) {
  std::vector<TokenId> tokens;
  for (const char c : text) tokens.push_back(vocabulary.ids.at(std::string(1, c)));
  while (true) {
    std::size_t best_rank = vocabulary.parts.merges.size();
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        const BpeMerge& merge = vocabulary.parts.merges[rank];
        if (merge.left != tokens[i] || merge.right != tokens[i + 1]) continue;
        best_rank = rank;
        best = i;
      }
    }
    if (best_rank == vocabulary.parts.merges.size()) return tokens;
    tokens[best] = vocabulary.parts.merges[best_rank].result;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("bpe model: agrees with the definition on random vocabularies") {
  std::mt19937 random(42);
  for (int round = 0; round < 400; ++round) {
    Vocabulary vocabulary = random_vocabulary(random);
    for (const bool starts_from_bytes : {true, false}) {
      vocabulary.parts.starts_from_bytes = starts_from_bytes;
      const BpeModel model(vocabulary.parts);
      BpeScratch scratch;
      for (int i = 0; i < 10; ++i) {
        std::string text;
        for (std::size_t n = random() % 60; n > 0; --n) text += "abc"[random() % 3];
        std::vector<TokenId> tokens;
        EncodingBudget budget;
        model.encode(text, scratch, budget, tokens);
        REQUIRE(tokens == naive_encoding(vocabulary, text));
      }
    }
  }
}

TEST_CASE("bpe model: cutting at word borders changes nothing") {
  // The same vocabulary with and without an entry that spans a border.
  const std::string m = "\u2581";
  BpeModelParts parts;
  parts.starts_from_bytes = false;
  const auto add = [&](const std::string& text) {
    parts.entries.push_back({text, static_cast<TokenId>(parts.entries.size()), true});
    return parts.entries.back().token;
  };
  const TokenId meta = add(m), a = add("a"), b = add("b");
  const TokenId meta_a = add(m + "a"), two = add(m + m), ab = add("ab");
  parts.merges = {{meta, a, meta_a}, {meta, meta, two}, {a, b, ab}};
  const BpeModel with_borders(parts);
  add("b" + m);
  const BpeModel without_borders(parts);
  std::mt19937 random(9);
  BpeScratch scratch;
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::size_t n = random() % 30; n > 0; --n)
      text += std::vector{m, std::string("a"), std::string("b")}[random() % 3];
    std::vector<TokenId> cut, whole;
    EncodingBudget budget;
    with_borders.encode(text, scratch, budget, cut);
    without_borders.encode(text, scratch, budget, whole);
    REQUIRE(cut == whole);
  }
}

TEST_CASE("bpe: the last character of a piece is the entry with the end of a word behind it") {
  BpeModelParts parts;
  parts.end_of_word = "</w>";
  parts.entries = {{"a", 0}, {"b", 1}, {"a</w>", 2}, {"b</w>", 3}, {"ab</w>", 4}, {"ab", 5}};
  parts.merges = {{0, 3, 4}, {0, 1, 5}};
  parts.unknown_token = 9;
  const auto tokens_of = [](const BpeModelParts& chosen, std::string_view piece) {
    BpeScratch scratch;
    EncodingBudget budget;
    std::vector<TokenId> tokens;
    BpeModel(chosen).encode(piece, scratch, budget, tokens);
    return tokens;
  };
  for (const bool is_byte_level : {true, false}) {
    CAPTURE(is_byte_level);
    parts.starts_from_bytes = is_byte_level;
    CHECK(tokens_of(parts, "a") == std::vector<TokenId>{2});
    CHECK(tokens_of(parts, "ab") == std::vector<TokenId>{4});
    CHECK(tokens_of(parts, "aba") == std::vector<TokenId>{5, 2});
    CHECK(tokens_of(parts, "abab") == std::vector<TokenId>{5, 4});
    CHECK(tokens_of(parts, "abc") == std::vector<TokenId>{5, 9});
    CHECK(tokens_of(parts, "a</w>") == std::vector<TokenId>{0, 9, 9, 9, 9});
    CHECK(tokens_of(parts, "").empty());
  }
  // Bytes that are no character hide none in front of them.
  CHECK(tokens_of(parts, "a\x80\x80\x80").front() == 0);
}

}  // namespace troupe
