// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/logprobs_json.hpp"

#include <limits>

#include <doctest/doctest.h>
#include <boost/json/parse.hpp>

using namespace troupe;

namespace {

std::string json_of(ResponseShape shape, std::span<const AnswerToken> tokens) {
  std::string out;
  append_logprobs(out, shape, tokens);
  CHECK_NOTHROW(boost::json::parse(out));
  return out;
}

LikelyToken likely(std::string text, float logprob) {
  return {.text = text, .bytes = text, .logprob = logprob};
}

// "Hé", whose second character takes two tokens.
const std::vector<AnswerToken> kTokens = {
    {.token = likely("H", -0.25F), .top = {likely("H", -0.25F), likely("\"", -3.5F)}},
    {.token = {.text = "\uFFFD", .bytes = "\xC3", .logprob = -1e-7F},
     .top = {likely("x", -1.0F)},
     .text_offset = 1},
    {.token = {.text = "\uFFFD", .bytes = "\xA9", .logprob = 0.0F}, .top = {}, .text_offset = 1},
};

}  // namespace

TEST_CASE("logprobs json: a chat's tokens have their bytes and the most likely ones") {
  CHECK(json_of(ResponseShape::kChat, kTokens) ==
        R"({"content":[)"
        R"({"token":"H","logprob":-0.25,"bytes":[72],"top_logprobs":[)"
        R"({"token":"H","logprob":-0.25,"bytes":[72]},{"token":"\"","logprob":-3.5,"bytes":[34]}]},)"
        "{\"token\":\"\uFFFD\",\"logprob\":-1e-07,\"bytes\":[195],\"top_logprobs\":["
        "{\"token\":\"x\",\"logprob\":-1,\"bytes\":[120]}]},"
        "{\"token\":\"\uFFFD\",\"logprob\":0,\"bytes\":[169],\"top_logprobs\":[]}"
        R"(],"refusal":null})");
  CHECK(json_of(ResponseShape::kChat, {}) == R"({"content":[],"refusal":null})");
}

TEST_CASE("logprobs json: a completion's lists stand side by side, and the chosen token is among the top") {
  CHECK(json_of(ResponseShape::kCompletion, kTokens) ==
        "{\"text_offset\":[0,1,1],\"token_logprobs\":[-0.25,-1e-07,0],"
        "\"tokens\":[\"H\",\"\uFFFD\",\"\uFFFD\"],"
        "\"top_logprobs\":[{\"H\":-0.25,\"\\\"\":-3.5},{\"x\":-1,\"\uFFFD\":-1e-07},{\"\uFFFD\":0}]}");
  CHECK(json_of(ResponseShape::kCompletion, {}) ==
        R"({"text_offset":[],"token_logprobs":[],"tokens":[],"top_logprobs":[]})");
}

TEST_CASE("logprobs json: of the first token of a prompt nothing is known") {
  const std::vector<AnswerToken> tokens = {{.token = likely("a", 0.0F), .has_logprob = false},
                                           {.token = likely("b", -2.0F), .top = {}, .text_offset = 1}};
  CHECK(json_of(ResponseShape::kCompletion, tokens) ==
        R"({"text_offset":[0,1],"token_logprobs":[null,-2],"tokens":["a","b"],)"
        R"("top_logprobs":[null,{"b":-2}]})");
}

TEST_CASE("logprobs json: a response has the list alone") {
  const std::vector<AnswerToken> one = {{.token = likely("a", -2.0F)}};
  CHECK(json_of(ResponseShape::kResponse, one) ==
        R"([{"token":"a","logprob":-2,"bytes":[97],"top_logprobs":[]}])");
  CHECK(json_of(ResponseShape::kResponse, {}) == "[]");
}

TEST_CASE("logprobs json: the impossible is -9999, and several tokens with one text count once") {
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<AnswerToken> one = {
      {.token = likely("a", never), .top = {likely("b", -1.0F), likely("b", -2.0F)}}};
  CHECK(json_of(ResponseShape::kCompletion, one) ==
        R"({"text_offset":[0],"token_logprobs":[-9999],"tokens":["a"],"top_logprobs":[{"b":-1,"a":-9999}]})");
}

TEST_CASE("logprobs json: a prompt's tokens are by id, each with its rank where that is known") {
  const auto with_id = [](std::string text, float logprob, std::int32_t id) {
    LikelyToken token = likely(std::move(text), logprob);
    token.id = id;
    return token;
  };
  const LikelyToken a = with_id("a", -0.5F, 7), b = with_id("b", -2.0F, 8), c = with_id("c", -4.0F, 9);
  const std::vector<AnswerToken> tokens = {{.token = a, .has_logprob = false},
                                           {.token = b, .top = {a, b}},
                                           {.token = c, .top = {a}},
                                           {.token = a}};
  std::string out;
  append_prompt_logprobs(out, tokens);
  const std::string of_a = R"("7":{"logprob":-0.5,"rank":1,"decoded_token":"a"})";
  CHECK(out == R"([null,{"8":{"logprob":-2,"rank":2,"decoded_token":"b"},)" + of_a +
                   R"(},{"9":{"logprob":-4,"rank":null,"decoded_token":"c"},)" + of_a +
                   R"(},{"7":{"logprob":-0.5,"rank":null,"decoded_token":"a"}}])");
}
