// SPDX-License-Identifier: Apache-2.0
#include "text/fill_in.hpp"

#include <doctest/doctest.h>

#include "text/tokenizer/gguf_tokenizer.hpp"

namespace troupe {
namespace {

constexpr std::int64_t kNormal = 1, kControl = 3, kUserDefined = 4;

// Bytes of ASCII letters, and `markers` from id 26 on.
std::unique_ptr<Tokenizer> tokenizer_with(const std::vector<std::string>& markers,
                                          std::int64_t type = kUserDefined) {
  GgufVocabulary keys;
  keys.model = "gpt2";
  keys.pre = "qwen2";
  for (char letter = 'a'; letter <= 'z'; ++letter) keys.tokens.emplace_back(1, letter);
  keys.token_type.assign(keys.tokens.size(), kNormal);
  for (const std::string& marker : markers) {
    keys.tokens.push_back(marker);
    keys.token_type.push_back(type);
  }
  return make_gguf_tokenizer(keys);
}

std::vector<TokenId> encoded(const Tokenizer& tokenizer, std::string_view prefix, std::string_view suffix) {
  const auto format = find_fill_in_format(tokenizer);
  REQUIRE(format);
  const auto text = fill_in_text(*format, prefix, suffix);
  return tokenizer.encode_trusting(text.text, text.trusted);
}

}  // namespace

TEST_CASE("fill in: prefix, suffix and the place for the middle have a model's own tokens in front") {
  const std::vector<std::vector<std::string>> families = {
      {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
      {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
      {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
      {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
      {"▁<PRE>", "▁<SUF>", "▁<MID>"},
  };
  for (const auto& markers : families) {
    CAPTURE(markers[0]);
    for (const std::int64_t type : {kControl, kUserDefined}) {
      const auto tokenizer = tokenizer_with(markers, type);
      CHECK(encoded(*tokenizer, "ab", "c") == std::vector<TokenId>{26, 0, 1, 27, 2, 28});
      CHECK(encoded(*tokenizer, "", "c") == std::vector<TokenId>{26, 27, 2, 28});
    }
  }
}

TEST_CASE("fill in: where there is no token for the middle the suffix comes first") {
  const auto tokenizer = tokenizer_with({"[PREFIX]", "[SUFFIX]"}, kControl);
  CHECK(encoded(*tokenizer, "ab", "c") == std::vector<TokenId>{27, 2, 26, 0, 1});
}

TEST_CASE("fill in: tokens that end what is filled in are those of the vocabulary") {
  const auto tokenizer =
      tokenizer_with({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|endoftext|>"});
  CHECK(find_fill_in_format(*tokenizer)->end_tokens == std::vector<TokenId>{30, 29});
}

TEST_CASE("fill in: a vocabulary without all of the tokens has no format") {
  CHECK_FALSE(find_fill_in_format(*tokenizer_with({})));
  CHECK_FALSE(find_fill_in_format(*tokenizer_with({"<|fim_prefix|>", "<|fim_suffix|>"})));
  // Words that merely look like them can't be told from text.
  CHECK_FALSE(
      find_fill_in_format(*tokenizer_with({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, kNormal)));
}

}  // namespace troupe
