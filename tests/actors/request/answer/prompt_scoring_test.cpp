// SPDX-License-Identifier: Apache-2.0
#include "actors/request/answer/prompt_scoring.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/actors/byte_tokenizer.hpp"

using namespace troupe;

namespace {

struct Scored {
  std::string text;                  // of the echo
  std::vector<AnswerToken> echo;     // its tokens
  std::vector<AnswerToken> answers;  // of PromptScores
  std::size_t num_pieces = 0;
};

bool are_equal(const LikelyToken& a, const LikelyToken& b) {
  return a.text == b.text && a.bytes == b.bytes && a.logprob == b.logprob && a.id == b.id;
}

bool are_equal(const std::vector<AnswerToken>& a, const std::vector<AnswerToken>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return are_equal(one.token, other.token) && one.text_offset == other.text_offset &&
           one.has_logprob == other.has_logprob && one.top.size() == other.top.size();
  });
}

Scored score(const std::string& prompt, std::size_t max_tokens) {
  const ByteTokenizer tokenizer;
  std::vector<std::int32_t> tokens;
  for (const char byte : prompt) tokens.push_back(static_cast<unsigned char>(byte));
  auto logprobs = std::make_shared<std::vector<TokenLogprobs>>();
  for (std::size_t i = 1; i < tokens.size(); ++i)
    logprobs->push_back(
        {.logprob = -static_cast<float>(i), .top = {{.id = 'x', .logprob = 0}, {.id = 'y', .logprob = -1}}});
  AnswerTokens echo(tokenizer);
  StreamingDetokenizer detokenizer(tokenizer);
  PromptScoring scoring(tokenizer, tokens, std::move(logprobs),
                        {.num_alternatives = 1, .echo = &echo, .detokenizer = &detokenizer});
  Scored scored;
  for (; !scoring.is_done(); ++scored.num_pieces) {
    const std::string text = scoring.score(max_tokens);
    for (AnswerToken& token : echo.show(text)) scored.echo.push_back(std::move(token));
    scored.text += text;
  }
  CHECK(echo.take_rest().empty());
  scored.answers = scoring.take_scores()->tokens;
  return scored;
}

}  // namespace

TEST_CASE("prompt scoring: pieces of any size give what one piece gives, characters cut in two, too") {
  const std::string prompt =
      "a\xE2\x82\xAC"
      "bc\xC3\xA4\xFF"
      "d";
  const Scored whole = score(prompt, prompt.size());
  CHECK(whole.num_pieces == 1);
  CHECK(whole.text ==
        "a\xE2\x82\xAC"
        "bc\xC3\xA4\xEF\xBF\xBD"
        "d");
  REQUIRE(whole.answers.size() == prompt.size());
  CHECK_FALSE(whole.answers[0].has_logprob);
  CHECK(whole.answers[1].token.logprob == -1);
  CHECK(whole.answers[1].top.size() == 1);
  CHECK(whole.echo[1].top.size() == 2);
  for (std::size_t size = 1; size < prompt.size(); ++size) {
    const Scored pieces = score(prompt, size);
    CHECK(pieces.num_pieces == (prompt.size() + size - 1) / size);
    CHECK(pieces.text == whole.text);
    CHECK(are_equal(pieces.echo, whole.echo));
    CHECK(are_equal(pieces.answers, whole.answers));
  }
}

TEST_CASE("prompt scoring: without an echo no text, without a wish no scores") {
  const ByteTokenizer tokenizer;
  const std::vector<std::int32_t> prompt = {'a', 'b'};
  const auto logprobs = std::make_shared<const std::vector<TokenLogprobs>>(1);
  PromptScoring scored(tokenizer, prompt, logprobs, {.num_alternatives = 0});
  CHECK(scored.score(5).empty());
  CHECK(scored.take_scores()->tokens.size() == 2);
  AnswerTokens echo(tokenizer);
  StreamingDetokenizer detokenizer(tokenizer);
  PromptScoring echoed(tokenizer, prompt, logprobs, {.echo = &echo, .detokenizer = &detokenizer});
  CHECK(echoed.score(5) == "ab");
  CHECK(echoed.take_scores() == nullptr);
}
