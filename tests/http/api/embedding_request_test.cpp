// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/openai_api.hpp"

#include <string>

#include <doctest/doctest.h>

#include "tests/http/running_server.hpp"

using namespace troupe;

namespace {

std::variant<ApiEmbeddingRequest, ApiError> parse(const std::string& body, const Limits& limits = {}) {
  return parse_embedding_request(body, test::demo_models(), limits);
}
ApiEmbeddingRequest accepted_body(const std::string& body) {
  const auto parsed = parse(body);
  const auto* error = std::get_if<ApiError>(&parsed);
  INFO(body, " -> ", error == nullptr ? "" : error->message);
  REQUIRE(error == nullptr);
  return std::get<ApiEmbeddingRequest>(parsed);
}
ApiError refused_body(const std::string& body, const Limits& limits = {}) {
  const auto parsed = parse(body, limits);
  CAPTURE(body.substr(0, 200));
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed);
}
ApiEmbeddingRequest accepted(const std::string& more_fields) {
  return accepted_body(R"({"input":"hi",)" + more_fields + "}");
}
ApiError refused(const std::string& more_fields) {
  return refused_body(R"({"input":"hi",)" + more_fields + "}");
}
std::vector<std::variant<TextPrompt, TokenPrompt>> inputs(const std::string& input) {
  return accepted_body("{\"input\":" + input + "}").embedding.inputs;
}
ApiError refused_input(const std::string& input, const Limits& limits = {}) {
  return refused_body("{\"input\":" + input + "}", limits);
}
std::string text(const std::variant<TextPrompt, TokenPrompt>& input) {
  return std::get<TextPrompt>(input).text;
}
std::vector<std::int32_t> tokens(const std::variant<TextPrompt, TokenPrompt>& input) {
  return std::get<TokenPrompt>(input).tokens;
}
std::string list_of(int number, const std::string& element) {
  std::string list = "[" + element;
  for (int i = 1; i < number; ++i) list += "," + element;
  return list + "]";
}

}  // namespace

TEST_CASE("embedding request: what is left out has OpenAI's defaults") {
  const ApiEmbeddingRequest request = accepted_body(R"({"input":"hi"})");
  CHECK(request.embedding.model == 1);  // the first that makes embeddings
  CHECK(request.format == EmbeddingFormat::kFloat);
  CHECK(request.dimensions == 0);
  CHECK(!request.embedding.truncates);
  CHECK(request.embedding.id.empty());
}

TEST_CASE("embedding request: the input is a text, texts, token ids or lists of them") {
  const auto one = inputs(R"("a\u00e9")");
  REQUIRE(one.size() == 1);
  CHECK(text(one[0]) == "a\xc3\xa9");
  const auto texts = inputs(R"(["a","b","a"])");
  REQUIRE(texts.size() == 3);
  CHECK(text(texts[1]) == "b");
  const auto ids = inputs("[1,2,2147483647]");
  REQUIRE(ids.size() == 1);
  CHECK(tokens(ids[0]) == std::vector<std::int32_t>{1, 2, 2147483647});
  const auto lists = inputs("[[1],[2,3.0]]");
  REQUIRE(lists.size() == 2);
  CHECK(tokens(lists[1]) == std::vector<std::int32_t>{2, 3});
  const auto mixed = inputs(R"(["a",[7]])");
  CHECK(text(mixed[0]) == "a");
  CHECK(tokens(mixed[1]) == std::vector<std::int32_t>{7});
}

TEST_CASE("embedding request: a wrong input is named, and which of them it is") {
  struct Row {
    std::string input, field, message;
  };
  const Row rows[] = {
      {"null", "input", "input is required"},
      {"\"\"", "input", "input must not be empty"},
      {"[]", "input", "input must not be an empty list"},
      {"7", "input",
       "input must be a string, a list of strings, a list of token ids or a list of such lists, got 7"},
      {"{}", "input", ""},
      {"true", "input", ""},
      {R"(["a",""])", "input[1]", "input[1] must not be empty"},
      {R"(["a",[]])", "input[1]", "input[1] must not be an empty list"},
      {R"(["a",3])", "input[1]", "input[1] must be a string or a list of token ids, got 3"},
      {R"(["a",null])", "input[1]", ""},
      {"[null]", "input[0]", ""},
      {R"([{"text":"a"}])", "input[0]", ""},
      {R"([1,"a"])", "input", "input must be made of token ids from 0 to 2147483647, got a string"},
      {"[-1]", "input", ""},
      {"[2147483648]", "input", ""},
      {"[1.5]", "input", ""},
      {"[[1],[2,-1]]", "input[1]", ""},
      {"[[[1]]]", "input[0]", ""},
  };
  for (const auto& row : rows) {
    CAPTURE(row.input);
    const ApiError error = refused_input(row.input);
    CHECK(error.kind == ApiErrorKind::kInvalidRequest);
    CHECK(error.field == row.field);
    if (!row.message.empty()) CHECK(error.message == row.message);
  }
  CHECK(refused_body("{}").field == "input");
  CHECK(refused_body("[]").message == "the body must be a JSON object, got a list of 0");
}

TEST_CASE("embedding request: at most 2,048 inputs, of which the ids of one text are one") {
  CHECK(inputs(list_of(2048, "\"a\"")).size() == 2048);
  CHECK(refused_input(list_of(2049, "\"a\"")).message ==
        "input may hold at most 2048 inputs a request, got 2049");
  CHECK(refused_input(list_of(2049, "[1]")).field == "input");
  CHECK(tokens(inputs(list_of(5000, "1"))[0]).size() == 5000);
  CHECK(refused_input(R"(["a","b","c"])", {.max_embedding_inputs = 2}).field == "input");
}

TEST_CASE("embedding request: encoding_format is float or base64") {
  CHECK(accepted(R"("encoding_format":"float")").format == EmbeddingFormat::kFloat);
  CHECK(accepted(R"("encoding_format":"base64")").format == EmbeddingFormat::kBase64);
  CHECK(accepted(R"("encoding_format":null)").format == EmbeddingFormat::kFloat);
  for (const std::string bad : {"\"Float\"", "\"bytes\"", "\"\"", "1", "[\"float\"]"})
    CHECK(refused("\"encoding_format\":" + bad).field == "encoding_format");
}

TEST_CASE("embedding request: dimensions are taken up to the model's size") {
  CHECK(accepted(R"("dimensions":1)").dimensions == 1);
  CHECK(accepted(R"("dimensions":4)").dimensions == 4);
  CHECK(accepted(R"("dimensions":null)").dimensions == 0);
  CHECK(refused(R"("dimensions":5)").message == "dimensions must be an integer from 1 to 4, got 5");
  for (const std::string bad : {"0", "-1", "1.5", "\"2\"", "[2]", "true"})
    CHECK(refused("\"dimensions\":" + bad).field == "dimensions");
}

TEST_CASE("embedding request: inputs may be cut to the model's limit, and to no other") {
  CHECK(accepted(R"("truncate_prompt_tokens":-1)").embedding.truncates);
  CHECK(accepted(R"("truncate_prompt_tokens":256)").embedding.truncates);
  CHECK(accepted(R"("truncate_prompt_tokens":100000)").embedding.truncates);
  CHECK(!accepted(R"("truncate_prompt_tokens":null)").embedding.truncates);
  CHECK(refused(R"("truncate_prompt_tokens":255)").message ==
        "truncate_prompt_tokens must be -1 or at least 256, the most tokens this model takes, got 255");
  for (const std::string bad : {"-2", "0", "1.5", "true", "\"256\""})
    CHECK(refused("\"truncate_prompt_tokens\":" + bad).field == "truncate_prompt_tokens");
}

TEST_CASE("embedding request: the model must be one that makes embeddings") {
  CHECK(accepted(R"("model":"minilm")").embedding.model == 1);
  CHECK(refused(R"("model":"demo")").kind == ApiErrorKind::kInvalidRequest);
  CHECK(refused(R"("model":"demo")").field == "model");
  CHECK(refused(R"("model":"ada")").kind == ApiErrorKind::kModelNotFound);
  CHECK(refused(R"("model":7)").field == "model");
}

TEST_CASE("embedding request: unknown fields are ignored, known ones that ask for more are refused") {
  accepted(R"("user":"u-1","whatever":{"a":[1]})");
  CHECK(refused(R"("user":1)").field == "user");
  for (const std::string nothing :
       {R"("add_special_tokens":true)", R"("embed_dtype":"float32")", R"("endianness":"little")",
        R"("endianness":"native")", R"("input_type":null)", R"("late_chunking":false)", R"("stream":false)",
        R"("truncation_side":"right")"})
    accepted(nothing);
  for (const std::string field :
       {"add_special_tokens", "embed_dtype", "endianness", "input_type", "late_chunking", "messages",
        "normalize", "prompt_name", "stream", "task", "truncation_side"}) {
    CAPTURE(field);
    CHECK(refused("\"" + field + "\":\"query\"").field == field);
  }
}
