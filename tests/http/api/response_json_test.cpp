// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/response_json.hpp"

#include <array>

#include <doctest/doctest.h>

#include "http/api/answers/error_response.hpp"
#include "tests/http/running_server.hpp"

using namespace troupe;

namespace {

const Finished kLength{.reason = FinishReason::kLength,
                       .stop_string = {},
                       .stop_token = {},
                       .usage = {.prompt_tokens = 3, .completion_tokens = 2, .cached_tokens = 0}};

std::string completed_json(const ResponseIdentity& identity, std::string_view text,
                           const Finished& finished) {
  std::string out;
  AnswerJson json(out);
  append_completed(json, identity, std::array{ChoiceView{.text = text, .finished = &finished}}, finished);
  return out;
}

}  // namespace

TEST_CASE("response json: a chat completion") {
  CHECK(
      completed_json({.id = "chatcmpl-1", .created = 12, .model = "demo", .shape = ResponseShape::kChat},
                     "a\nb", kLength) ==
      R"({"id":"chatcmpl-1","object":"chat.completion","created":12,"model":"demo","choices":[{"index":0,)"
      R"("message":{"role":"assistant","content":"a\nb","refusal":null},"logprobs":null,"finish_reason":"length","stop_reason":null}],)"
      R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"system_fingerprint":null})");
}

TEST_CASE("response json: a chat completion with reasoning and calls") {
  std::string out;
  AnswerJson json(out);
  const std::vector<CallDelta> calls = {{.index = 0, .id = "call_1", .name = "f", .arguments = "{\"a\": 1}"},
                                        {.index = 1, .id = "call_2", .name = "g", .arguments = "{}"}};
  Finished finished;
  finished.called_tools = true;
  append_completed(
      json, {.id = "chatcmpl-1", .created = 12, .model = "demo", .shape = ResponseShape::kChat},
      std::array{ChoiceView{.text = "", .finished = &finished, .reasoning = "hm", .calls = calls}}, finished);
  CHECK(
      out.find(
          R"("message":{"role":"assistant","content":null,"refusal":null,"reasoning_content":"hm","tool_calls":[)"
          R"({"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},)"
          R"({"id":"call_2","type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,)"
          R"("finish_reason":"tool_calls")") != std::string::npos);
}

TEST_CASE("response json: a text completion") {
  CHECK(
      completed_json({.id = "cmpl-1", .created = 12, .model = "demo", .shape = ResponseShape::kCompletion},
                     "x", kLength) ==
      R"({"id":"cmpl-1","object":"text_completion","created":12,"model":"demo","choices":[{"index":0,)"
      R"("text":"x","logprobs":null,"finish_reason":"length","stop_reason":null}],)"
      R"("usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"system_fingerprint":null})");
}

TEST_CASE("response json: models") {
  const std::string demo =
      R"({"id":"demo","object":"model","created":1700000000,"owned_by":"troupe","max_model_len":2048,"capabilities":["completion"]})";
  const std::string vectors =
      R"({"id":"minilm","object":"model","created":1700000001,"owned_by":"troupe","max_model_len":256,"capabilities":["embedding","score","rerank"],"embedding_size":4})";
  CHECK(model_json(test::embedding_model()) == vectors);
  CHECK(model_list_json({test::demo_model()}) == R"({"object":"list","data":[)" + demo + "]}");
  CHECK(model_list_json(test::demo_models().all()) ==
        R"({"object":"list","data":[)" + demo + "," + vectors + "]}");
}

TEST_CASE("response json: every kind of error has its status, type, code and time to come back") {
  struct Row {
    ApiErrorKind kind;
    unsigned status;
    std::string type, code;
    bool comes_back;
  };
  const Row rows[] = {
      {ApiErrorKind::kInvalidRequest, 400, "invalid_request_error", "", false},
      {ApiErrorKind::kContextTooLong, 400, "invalid_request_error", "context_length_exceeded", false},
      {ApiErrorKind::kModelNotFound, 404, "invalid_request_error", "model_not_found", false},
      {ApiErrorKind::kOverloaded, 429, "rate_limit_error", "overloaded", true},
      {ApiErrorKind::kUnavailable, 503, "server_error", "unavailable", true},
      {ApiErrorKind::kInternal, 500, "server_error", "internal_error", false},
  };
  for (const auto& row : rows) {
    const HttpError error = to_http_error({.kind = row.kind, .message = "m", .field = "f"});
    CHECK(error.status == row.status);
    CHECK(error.type == row.type);
    CHECK(error.code == row.code);
    CHECK((error.retry_after_s > 0) == row.comes_back);
    const std::string code = row.code.empty() ? "null" : "\"" + row.code + "\"";
    CHECK(error_json(error) ==
          R"({"error":{"message":"m","type":")" + row.type + R"(","param":"f","code":)" + code + "}}");
  }
}

TEST_CASE("response json: timings say where the time went, and nothing that is not known") {
  using std::chrono::milliseconds;
  const Usage usage{.prompt_tokens = 30, .completion_tokens = 11, .cached_tokens = 10};
  RequestTimings timings;
  timings.queue = milliseconds(2);
  timings.prefill = milliseconds(40);
  timings.decode = milliseconds(100);
  timings.total = milliseconds(150);
  timings.decoded_tokens = 10;
  std::string out;
  append_timings_member(out, timings, usage);
  CHECK(out == R"(,"timings":{"queue_ms":2.000,"prefill_ms":40.000,"decode_ms":100.000,"total_ms":150.000,)"
               R"("prompt_tokens_per_second":500.000,"tokens_per_second":100.000})");
  timings.encode = milliseconds(1);
  timings.suspended = milliseconds(7);
  timings.decoded_tokens = 0;  // a single token: no rate
  out.clear();
  append_timings_member(out, timings, {.prompt_tokens = 10, .completion_tokens = 1, .cached_tokens = 10});
  CHECK(out == R"(,"timings":{"queue_ms":2.000,"encode_ms":1.000,"prefill_ms":40.000,"decode_ms":100.000,)"
               R"("suspended_ms":7.000,"total_ms":150.000})");
  out.clear();
  append_timings_member(out, {}, usage);
  CHECK(out.empty());
}
