// SPDX-License-Identifier: Apache-2.0
#include "actors/request/prompt/prompt_end.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/actors/byte_tokenizer.hpp"

namespace troupe {
namespace {

// A byte is a token, between two that are around.
class EnclosingTokenizer final : public ByteTokenizer {
 public:
  std::vector<TokenId> prefix_tokens() const override { return {1}; }
  std::vector<TokenId> suffix_tokens() const override { return {2}; }
};

// A token is a word of many letters.
class WordTokenizer final : public ByteTokenizer {
 public:
  std::string_view token_bytes(TokenId) const override { return "antidisestablishmentarianism"; }
  bool is_special(TokenId) const override { return false; }
};

std::string text_of(const std::vector<std::int32_t>& tokens) { return ByteTokenizer().decode(tokens); }

TEST_CASE("prompt end: a short prompt is read whole, between the encoder's own tokens") {
  const auto prompt = ByteTokenizer().encode("How long?");
  const auto input = encode_prompt_end(ByteTokenizer(), prompt, EnclosingTokenizer(), 40);
  REQUIRE(input.size() == 11);
  CHECK(input.front() == 1);
  CHECK(input.back() == 2);
  CHECK(text_of({input.begin() + 1, input.end() - 1}) == "How long?");
}

TEST_CASE("prompt end: of a long prompt the end is read, as much as fits, and no part of a character") {
  const auto prompt = ByteTokenizer().encode(std::string(100'000, 'x') + "\xC3\xA9 the question");
  const auto input = encode_prompt_end(ByteTokenizer(), prompt, EnclosingTokenizer(), 15);
  CHECK(text_of({input.begin() + 1, input.end() - 1}) == " the question");
  CHECK(encode_prompt_end(ByteTokenizer(), prompt, EnclosingTokenizer(), 2).empty());
  CHECK(encode_prompt_end(ByteTokenizer(), prompt, EnclosingTokenizer(), 0).empty());
  CHECK(encode_prompt_end(ByteTokenizer(), {}, EnclosingTokenizer(), 15).size() == 2);
}

TEST_CASE("prompt end: tokens that the other tokenizer takes for many are cut, the last ones stay") {
  const std::vector<std::int32_t> prompt(50, 7);
  const auto input = encode_prompt_end(WordTokenizer(), prompt, ByteTokenizer(), 21);
  CHECK(text_of(input) == "establishmentarianism");
}

TEST_CASE("prompt end: special tokens, which end turns, are no text") {
  auto prompt = ByteTokenizer().encode("abc");
  prompt.insert(prompt.begin() + 1, ByteTokenizer::kEos);
  CHECK(text_of(encode_prompt_end(ByteTokenizer(), prompt, ByteTokenizer(), 20)) == "abc");
}

}  // namespace
}  // namespace troupe
