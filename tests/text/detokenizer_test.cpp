// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.hpp"

#include <doctest/doctest.h>

#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/text/text_data.hpp"
#include "text/utf8.hpp"

namespace troupe {
namespace {

// Any tokens: every piece is whole characters, and together they are what
// decoding at once says.
void check_random_streams(const Tokenizer& tokenizer, unsigned seed) {
  std::mt19937 random(seed);
  for (int round = 0; round < 500; ++round) {
    std::vector<TokenId> tokens;
    for (std::size_t i = random() % 30; i > 0; --i) {
      // A few ids beyond both ends of the vocabulary as well.
      tokens.push_back(static_cast<TokenId>(random() % (tokenizer.vocabulary_size() + 4)) - 2);
    }
    StreamingDetokenizer detokenizer(tokenizer);
    std::string joined;
    for (const TokenId token : tokens) {
      const std::string piece = detokenizer.push(token);
      REQUIRE(valid_utf8_prefix(piece) == piece.size());
      joined += piece;
    }
    joined += detokenizer.finish();
    REQUIRE(joined == tokenizer.decode(tokens));
  }
}

}  // namespace

TEST_CASE("detokenizer: byte-level streams join to the one-shot decoding") {
  check_random_streams(*load_tokenizer(fixture_dir() / "byte_level"), 11);
}

TEST_CASE("detokenizer: special tokens are dropped, except those in markers") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  std::vector<TokenId> special;
  for (std::size_t id = 0; id < tokenizer->vocabulary_size(); ++id)
    if (tokenizer->is_special(static_cast<TokenId>(id))) special.push_back(static_cast<TokenId>(id));
  REQUIRE(special.size() >= 2);
  const std::string shown(tokenizer->token_content(special[0]));
  const std::string dropped(tokenizer->token_content(special[1]));
  REQUIRE(shown.find(dropped) == std::string::npos);
  StreamingDetokenizer without(*tokenizer), with(*tokenizer, {"before" + shown});
  CHECK(without.push(special[0]) == "");
  CHECK(with.push(special[0]) == shown);
  CHECK(with.push(special[1]) == "");
  StreamingDetokenizer marking(*tokenizer, {shown}, true);
  CHECK(marking.push(special[0]) == kSpecialTokenMark + shown);
  for (const TokenId token : tokenizer->encode(shown)) CHECK(marking.push(token)[0] != kSpecialTokenMark);
}

TEST_CASE("detokenizer: sentencepiece streams join to the one-shot decoding") {
  check_random_streams(*load_tokenizer(fixture_dir() / "sentencepiece"), 12);
}

TEST_CASE("detokenizer: a character spread over tokens comes out whole") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const std::string smile = "\U0001F600";
  const std::vector<TokenId> tokens = tokenizer->encode(smile);
  REQUIRE(tokens.size() == 4);
  StreamingDetokenizer detokenizer(*tokenizer);
  for (int i = 0; i < 3; ++i) CHECK(detokenizer.push(tokens[i]).empty());
  CHECK(detokenizer.push(tokens[3]) == smile);
  CHECK(detokenizer.finish().empty());
}

TEST_CASE("detokenizer: a character that is never completed becomes U+FFFD at the end") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  const std::vector<TokenId> tokens = tokenizer->encode("\U0001F600");
  StreamingDetokenizer detokenizer(*tokenizer);
  CHECK(detokenizer.push(tokens[0]).empty());
  CHECK(detokenizer.finish() == kReplacementCharacter);
}

TEST_CASE("detokenizer: the space that sentencepiece adds is not part of an answer") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "sentencepiece");
  StreamingDetokenizer detokenizer(*tokenizer);
  std::string text;
  for (const TokenId token : tokenizer->encode("the  the")) text += detokenizer.push(token);
  CHECK(text + detokenizer.finish() == "the  the");
}

TEST_CASE("detokenizer: behind other tokens the text is what it is within theirs") {
  for (const std::string name : {"sentencepiece", "byte_level"}) {
    const auto tokenizer = load_tokenizer(fixture_dir() / name);
    std::vector<TokenId> tokens = tokenizer->prefix_tokens();
    for (const TokenId token : tokenizer->encode("the cat,  the  dog")) tokens.push_back(token);
    const std::string whole = tokenizer->decode(tokens);
    for (std::size_t num_before = 0; num_before <= tokens.size(); ++num_before) {
      CAPTURE(num_before);
      const auto before = std::span(tokens).first(num_before);
      StreamingDetokenizer detokenizer(*tokenizer);
      detokenizer.follow(before);
      std::string text = tokenizer->decode(before);
      for (const TokenId token : std::span(tokens).subspan(num_before)) text += detokenizer.push(token);
      CHECK(text + detokenizer.finish() == whole);
    }
  }
}

TEST_CASE("detokenizer: special tokens say nothing") {
  const auto tokenizer = load_tokenizer(fixture_dir() / "byte_level");
  StreamingDetokenizer detokenizer(*tokenizer);
  CHECK(detokenizer.push(*tokenizer->token_id("<|im_end|>")).empty());
}

}  // namespace troupe
