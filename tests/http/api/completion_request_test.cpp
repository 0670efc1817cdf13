// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/openai_api.hpp"

#include <string>

#include <doctest/doctest.h>

#include "tests/http/running_server.hpp"

using namespace troupe;

namespace completion_request_test {
namespace {

std::variant<ApiRequest, ApiError> parse(const std::string& body) {
  return parse_completion_request(body, test::demo_models(), {});
}
ApiRequest accepted(const std::string& fields) {
  const auto parsed = parse("{" + fields + "}");
  const auto* error = std::get_if<ApiError>(&parsed);
  INFO(fields, " -> ", error == nullptr ? "" : error->message);
  REQUIRE(error == nullptr);
  return std::get<ApiRequest>(parsed);
}
std::string wrong_field(const std::string& fields) {
  const auto parsed = parse("{" + fields + "}");
  CAPTURE(fields);
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed).field.value_or("");
}

}  // namespace

TEST_CASE("completion request: 16 tokens unless said otherwise") {
  CHECK(accepted(R"("prompt":"x")").generation.max_tokens == 16);
  CHECK(accepted(R"("prompt":"x","max_tokens":null)").generation.max_tokens == 16);
  CHECK(accepted(R"("prompt":"x","max_tokens":99)").generation.max_tokens == 99);
  CHECK(accepted(R"("prompt":"x")").shape == ResponseShape::kCompletion);
}

TEST_CASE("completion request: a prompt is text or token ids, alone or in a list") {
  CHECK(std::get<TextPrompt>(accepted(R"("prompt":"x")").generation.prompt).text == "x");
  CHECK(std::get<TextPrompt>(accepted(R"("prompt":["y"])").generation.prompt).text == "y");
  const std::vector<std::int32_t> ids = {1, 2, 3};
  CHECK(std::get<TokenPrompt>(accepted(R"("prompt":[1,2,3])").generation.prompt).tokens == ids);
  CHECK(std::get<TokenPrompt>(accepted(R"("prompt":[[1,2,3]])").generation.prompt).tokens == ids);
}

TEST_CASE("completion request: several prompts are one request each, times n") {
  const ApiRequest request = accepted(R"("prompt":["a",[1,2],"c"],"n":2)");
  CHECK(std::get<TextPrompt>(request.generation.prompt).text == "a");
  CHECK(request.num_choices == 2);
  REQUIRE(request.more_prompts.size() == 2);
  CHECK(std::get<TokenPrompt>(request.more_prompts[0]).tokens == std::vector<std::int32_t>{1, 2});
  CHECK(std::get<TextPrompt>(request.more_prompts[1]).text == "c");
  std::string prompts = "\"a\"";
  for (int i = 1; i < 64; ++i) prompts += ",\"a\"";
  accepted("\"n\":2,\"prompt\":[" + prompts + "]");
  CHECK(wrong_field("\"n\":2,\"prompt\":[" + prompts + ",\"a\"]") == "prompt");
}

TEST_CASE("completion request: other prompts are refused") {
  for (const std::string prompt :
       {"null", "7", "true", "{}", "[]", "[-1]", "[1,\"a\"]", "[2147483648]", "[1.5]"}) {
    CHECK(wrong_field("\"prompt\":" + prompt) == "prompt");
  }
  for (const std::string prompt : {"[[]]", "[null]", "[[1,[2]]]", "[[\"a\"]]", "[{}]"}) {
    CHECK(wrong_field("\"prompt\":" + prompt) == "prompt[0]");
  }
  CHECK(wrong_field(R"("prompt":["a",7])") == "prompt[1]");
  CHECK(wrong_field(R"("max_tokens":3)") == "prompt");
}

TEST_CASE("completion request: echo is passed on") {
  CHECK(accepted(R"("prompt":"x","echo":true)").generation.echo);
  accepted(R"("prompt":"x","suffix":null,"logprobs":null,"best_of":1)");
  CHECK(wrong_field(R"("prompt":"x","echo":1)") == "echo");
  CHECK(accepted(R"("prompt":"x","echo":true,"max_tokens":0)").generation.max_tokens == 0);
  CHECK(wrong_field(R"("prompt":"x","max_tokens":0)") == "max_tokens");
  CHECK(wrong_field(R"("prompt":"x","add_special_tokens":1)") == "add_special_tokens");
  const auto plain = accepted(R"("prompt":"x","add_special_tokens":false)");
  CHECK_FALSE(std::get<TextPrompt>(plain.generation.prompt).adds_special_tokens);
  CHECK(std::get<TextPrompt>(plain.generation.prompt).reads_special_tokens);
}

TEST_CASE("completion request: a suffix goes with each prompt of text, and without echo") {
  const ApiRequest request = accepted(R"("prompt":["x","y"],"suffix":"z")");
  CHECK(std::get<TextPrompt>(request.generation.prompt).suffix == "z");
  CHECK(std::get<TextPrompt>(request.more_prompts.at(0)).suffix == "z");
  CHECK_FALSE(std::get<TextPrompt>(accepted(R"("prompt":"x","suffix":"")").generation.prompt).suffix);
  CHECK(wrong_field(R"("prompt":"x","suffix":7)") == "suffix");
  CHECK(wrong_field(R"("prompt":[1,2],"suffix":"z")") == "suffix");
  CHECK(wrong_field(R"("prompt":"x","suffix":"z","echo":true)") == "echo");
}

TEST_CASE("completion request: prompt_logprobs are a number up to twenty, and not streamed") {
  CHECK(accepted(R"("prompt":"x","prompt_logprobs":0)").generation.prompt_logprobs == 0);
  const ApiRequest request = accepted(R"("prompt":"x","prompt_logprobs":20)");
  CHECK(request.generation.scores_prompt());
  CHECK_FALSE(request.wants_logprobs);
  CHECK_FALSE(accepted(R"("prompt":"x","prompt_logprobs":null)").generation.scores_prompt());
  for (const std::string wrong : {"21", "-1", "true", "1.5", "\"1\"", "1,\"stream\":true"})
    CHECK(wrong_field(R"("prompt":"x","prompt_logprobs":)" + wrong) == "prompt_logprobs");
}

TEST_CASE("completion request: best_of is at least n, bounds the prompts, and can't be streamed") {
  const ApiRequest best = accepted(R"("prompt":"x","best_of":5,"n":2)");
  CHECK(best.num_candidates == 5);
  CHECK(best.num_choices == 2);
  CHECK(best.generation.is_ranked);
  const ApiRequest all = accepted(R"("prompt":"x","best_of":2,"n":2,"stream":true)");
  CHECK(all.num_candidates == 2);
  CHECK_FALSE(all.generation.is_ranked);
  CHECK(accepted(R"("prompt":"x","n":3)").num_candidates == 3);
  CHECK(accepted(R"("prompt":["x","y"],"best_of":64)").more_prompts.size() == 1);
  for (const std::string wrong : {"0", "129", "1.5", "true", "\"2\""})
    CHECK(wrong_field(R"("prompt":"x","best_of":)" + wrong) == "best_of");
  CHECK(wrong_field(R"("prompt":"x","best_of":2,"n":3)") == "best_of");
  CHECK(wrong_field(R"("prompt":"x","best_of":2,"stream":true)") == "best_of");
  CHECK(wrong_field(R"("prompt":["x","y"],"best_of":65)") == "prompt");
}

TEST_CASE("completion request: answers are searched for with as many beams as best_of or n says") {
  const ApiRequest best = accepted(R"("prompt":["x","y"],"use_beam_search":true,"best_of":4,"n":2,)"
                                   R"("length_penalty":0.5,"early_stopping":"never","temperature":0)");
  REQUIRE(best.generation.beams);
  CHECK(best.generation.beams->width == 4);
  CHECK(best.generation.beams->num_answers == 2);
  CHECK(best.generation.beams->length_penalty == 0.5);
  CHECK(best.generation.beams->stop == BeamStop::kNever);
  CHECK(best.num_candidates == 1);  // of requests to the engine
  CHECK(best.num_choices == 1);
  CHECK(best.more_prompts.size() == 1);
  const ApiRequest all = accepted(R"("prompt":"x","use_beam_search":true,"n":3,"early_stopping":true)");
  CHECK(all.generation.beams->width == 3);
  CHECK(all.generation.beams->num_answers == 3);
  CHECK(all.generation.beams->stop == BeamStop::kFirst);
  CHECK(accepted(R"("prompt":"x","use_beam_search":true,"n":2)").generation.beams->stop ==
        BeamStop::kHopeless);
  CHECK_FALSE(accepted(R"("prompt":"x","use_beam_search":false,"length_penalty":1)").generation.beams);
}

TEST_CASE("completion request: what a search can't have, and what only a search has, is refused by name") {
  for (const std::string field : {R"("stream":true)",
                                  R"("temperature":0.5)",
                                  R"("top_p":0.9)",
                                  R"("top_k":5)",
                                  R"("min_p":0.1)",
                                  R"("presence_penalty":1)",
                                  R"("frequency_penalty":1)",
                                  R"("repetition_penalty":1.1)",
                                  R"("repeat_penalty":1.1)",
                                  R"("logit_bias":{"5":1})",
                                  R"("min_tokens":2)",
                                  R"("stop":["a"])",
                                  R"("include_stop_str_in_output":true)",
                                  R"("logprobs":1)",
                                  R"("prompt_logprobs":1)",
                                  R"("echo":true)",
                                  R"("response_format":{"type":"json_object"})",
                                  R"("regex":"a")",
                                  R"("grammar":"root ::= \"a\"")",
                                  R"("best_of":17)",
                                  R"("length_penalty":11)",
                                  R"("early_stopping":"soon")"}) {
    CAPTURE(field);
    CHECK(wrong_field(R"("prompt":"x","use_beam_search":true,)" + field) ==
          field.substr(1, field.find('"', 1) - 1));
  }
  CHECK(wrong_field(R"("prompt":"x","use_beam_search":true,"n":17)") == "n");
  CHECK(wrong_field(R"("prompt":"x","use_beam_search":1)") == "use_beam_search");
  CHECK(wrong_field(R"("prompt":"x","length_penalty":2)") == "length_penalty");
  CHECK(wrong_field(R"("prompt":"x","early_stopping":true)") == "early_stopping");
  const std::string nine = R"("prompt":["a","b","c","d","e","f","g","h","i"],"use_beam_search":true,"n":)";
  CHECK(wrong_field(nine + "15") == "prompt");  // of 135 answers
  CHECK(accepted(nine + "14").more_prompts.size() == 8);
}

TEST_CASE("completion request: logprobs are a number up to five, with echo the prompt's as well") {
  const auto top = [](const std::string& field) {
    const ApiRequest request = accepted(R"("prompt":"x",)" + field);
    CHECK(request.wants_logprobs == request.generation.sampling.wants_logprobs());
    return request.generation.sampling.top_logprobs;
  };
  CHECK(top(R"("logprobs":null)") == SamplingParameters::kNoLogprobs);
  CHECK(top(R"("logprobs":false)") == SamplingParameters::kNoLogprobs);
  CHECK(top(R"("logprobs":0)") == 0);
  CHECK(top(R"("logprobs":5)") == 5);
  for (const std::string wrong : {"6", "-1", "true", "1.5", "\"1\""})
    CHECK(wrong_field(R"("prompt":"x","logprobs":)" + wrong) == "logprobs");
  CHECK(accepted(R"("prompt":"x","logprobs":1,"echo":true)").generation.scores_prompt());
  CHECK_FALSE(accepted(R"("prompt":"x","logprobs":null,"echo":true)").generation.scores_prompt());
}

TEST_CASE("completion request: what load generators send is understood") {
  const ApiRequest request = accepted(
      R"("model":"demo","prompt":[5,6],"max_tokens":64,"min_tokens":64,"ignore_eos":true,
         "stop":null,"temperature":0,"stream":true,"repetition_penalty":1.0,"logprobs":null,
         "stream_options":{"include_usage":true,"continuous_usage_stats":true})");
  CHECK(request.generation.ignore_eos);
  CHECK(request.generation.min_tokens == 64);
  CHECK(request.stream);
  CHECK(request.continuous_usage_stats);
}

}  // namespace completion_request_test
