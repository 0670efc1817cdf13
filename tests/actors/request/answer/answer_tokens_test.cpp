// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/answer_tokens.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/actors/byte_tokenizer.hpp"
#include "text/detokenizer.hpp"

using namespace troupe;

namespace {

// The bytes of some tokens, one after the other.
std::string bytes_of(const std::vector<AnswerToken>& tokens) {
  std::string bytes;
  for (const AnswerToken& token : tokens) bytes += token.token.bytes;
  return bytes;
}

struct Answer {
  // A token comes; what it makes known is shown up to `num_held` bytes.
  std::string push(std::int32_t token, std::size_t num_held = 0) {
    const std::string fresh = detokenizer.push(token);
    tokens.add(token, {.logprob = -1.0F, .top = {}});
    tokens.extend(fresh);
    held += fresh;
    const std::string text = held.substr(0, held.size() - num_held);
    held.erase(0, text.size());
    shown = tokens.show(text);
    return text;
  }

  ByteTokenizer tokenizer;
  StreamingDetokenizer detokenizer{tokenizer};
  AnswerTokens tokens{tokenizer};
  std::string held;
  std::vector<AnswerToken> shown;
};

}  // namespace

TEST_CASE("answer tokens: a token goes with its text") {
  Answer answer;
  CHECK(answer.push('a') == "a");
  CHECK(bytes_of(answer.shown) == "a");
  CHECK(answer.push('b') == "b");
  CHECK(bytes_of(answer.shown) == "b");
  CHECK(answer.shown[0].text_offset == 1);
  CHECK(answer.tokens.take_rest().empty());
}

TEST_CASE("answer tokens: the parts of a character go together, with its offset") {
  Answer answer;
  answer.push('x');
  for (const char byte : std::string("\xE2\x82")) {
    CHECK(answer.push(static_cast<unsigned char>(byte)).empty());
    CHECK(answer.shown.empty());
  }
  CHECK(answer.push(0xAC) == "\u20AC");
  REQUIRE(bytes_of(answer.shown) == "\u20AC");
  for (const AnswerToken& token : answer.shown) {
    CHECK(token.text_offset == 1);
    CHECK(token.token.text == "\uFFFD");
  }
  answer.push('y');
  CHECK(answer.shown[0].text_offset == 2);  // characters, not bytes
}

TEST_CASE("answer tokens: text that is held back holds its tokens back") {
  Answer answer;
  CHECK(answer.push('a', 1).empty());
  CHECK(answer.shown.empty());
  CHECK(answer.push('b', 2).empty());
  CHECK(answer.push('c', 1) == "ab");
  CHECK(bytes_of(answer.shown) == "ab");
  CHECK(bytes_of(answer.tokens.take_rest()) == "c");
  CHECK(answer.tokens.take_rest().empty());
}

TEST_CASE("answer tokens: tokens without text wait for some, or for the end") {
  Answer answer;
  CHECK(answer.push(ByteTokenizer::kEos).empty());
  CHECK(answer.shown.empty());
  CHECK(answer.push('a') == "a");
  CHECK(bytes_of(answer.shown) == "<eos>a");  // special tokens go by their names
  answer.push(ByteTokenizer::kEos);
  CHECK(bytes_of(answer.tokens.take_rest()) == "<eos>");
}

TEST_CASE("answer tokens: the most likely ones are told in order") {
  ByteTokenizer tokenizer;
  AnswerTokens tokens(tokenizer);
  tokens.add('a', {.logprob = -2.0F, .top = {{.id = 'b', .logprob = -0.5F}, {.id = 256, .logprob = -1.0F}}});
  const auto rest = tokens.take_rest();
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].token.logprob == -2.0F);
  REQUIRE(rest[0].top.size() == 2);
  CHECK(rest[0].top[0].text == "b");
  CHECK(rest[0].top[1].text == "<eos>");
  CHECK(rest[0].top[1].logprob == -1.0F);
}
