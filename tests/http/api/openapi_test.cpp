// SPDX-License-Identifier: Apache-2.0
// The document and the readers say the same.
#include "http/api/openapi/openapi_json.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "http/api/openapi/request_fields.hpp"
#include "http/api/requests/openai_api.hpp"
#include "tests/http/running_server.hpp"
#include "tests/support/file_text.hpp"

using namespace troupe;
using namespace troupe::test;

namespace json = boost::json;

namespace {

constexpr const char* kChatBody = R"({"messages":[{"role":"user","content":"hi"}]})";

ServedModels models() {
  ServedModelInfo embedding = embedding_model();
  embedding.prompts.texts["query"] = "query: ";
  ServedModelInfo demo = demo_model();
  demo.hears_lengths = true;
  return ServedModels({demo, embedding, ranking_model(), mood_model()});
}

template <typename Request>
std::optional<ApiError> error_of(const std::variant<Request, ApiError>& parsed) {
  const auto* error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? std::nullopt : std::optional(*error);
}

std::optional<ApiError> refusal(Route route, const std::string& body) {
  const ServedModels served = models();
  switch (route) {
    case Route::kChatCompletions: return error_of(parse_chat_request(body, served, {}));
    case Route::kCompletions: return error_of(parse_completion_request(body, served, {}));
    case Route::kResponses: return error_of(parse_responses_request(body, served, {}));
    case Route::kMessages: return error_of(parse_messages_request(body, served, {}));
    case Route::kCountTokens: return error_of(parse_count_tokens_request(body, served, {}));
    case Route::kEmbeddings: return error_of(parse_embedding_request(body, served, {}));
    case Route::kClassify: return error_of(parse_classify_request(body, served, {}));
    case Route::kScore: return error_of(parse_score_request(body, served, {}));
    case Route::kRerank: return error_of(parse_rerank_request(body, served, {}));
    case Route::kTokenize: return error_of(parse_tokenize_request(body, served, {}));
    case Route::kDetokenize: return error_of(parse_detokenize_request(body, served, {}));
    default: break;
  }
  return ApiError{.message = "no such body"};
}

std::string model_for(Route route) {
  if (route == Route::kEmbeddings) return "\"minilm\"";
  if (route == Route::kClassify) return "\"moods\"";
  return route == Route::kScore || route == Route::kRerank ? "\"ranker\"" : "\"demo\"";
}

// Of fields whose schema does not say all.
std::vector<std::string> known_values(Route route, std::string_view name) {
  static const std::map<std::string_view, std::vector<std::string>> kKnown = {
      {"min_tokens", {"0", "16"}},
      {"logprobs", {"0", "5", "false"}},
      {"response_format", {R"({"type":"json_object"})"}},
      {"tool_choice", {R"("auto")"}},
      {"thinking", {R"({"type":"disabled"})"}},
      {"prompt_name", {R"("query")"}},
      {"reasoning", {R"({"effort":"none"})"}},
      {"stop_token_ids", {"[1,2147483647]"}},
      {"stream_options", {R"({"include_usage":true})"}},
  };
  if (name == "model") return {model_for(route)};
  if (name == "logprobs" && route == Route::kChatCompletions) return {"true", "false"};
  if (name == "tool_choice" && (route == Route::kMessages || route == Route::kCountTokens))
    return {R"({"type":"auto"})"};
  const auto found = kKnown.find(name);
  return found == kKnown.end() ? std::vector<std::string>{} : found->second;
}

bool has_type(const json::object& schema, std::string_view type) {
  const auto& types = schema.at("type");
  if (types.is_string()) return types.get_string() == type;
  const auto& list = types.get_array();
  return std::find(list.begin(), list.end(), json::value(json::string(type.data(), type.size()))) !=
         list.end();
}

std::vector<std::string> good_values(Route route, const RequestField& field, const json::object& schema) {
  if (auto known = known_values(route, field.name); !known.empty()) return known;
  std::vector<std::string> values;
  if (const auto* options = schema.if_contains("enum"))
    for (const auto& option : options->get_array()) values.push_back(json::serialize(option));
  for (const char* bound : {"minimum", "maximum"})
    if (const auto* value = schema.if_contains(bound)) values.push_back(json::serialize(*value));
  if (!values.empty()) return values;
  if (has_type(schema, "boolean")) return {"true", "false"};
  if (has_type(schema, "integer")) return {"7"};
  if (has_type(schema, "number")) return {"0.5"};
  if (has_type(schema, "string")) return {"\"a\""};
  return {has_type(schema, "array") ? "[]" : "{}"};
}

std::vector<std::string> bad_values(const json::object& schema) {
  std::vector<std::string> values = {has_type(schema, "object") || has_type(schema, "array") ? "true" : "{}"};
  if (schema.contains("enum")) values.emplace_back("\"something else\"");
  const auto* least = schema.if_contains("minimum");
  const auto* above = schema.if_contains("exclusiveMinimum");
  if (above != nullptr) values.push_back(json::serialize(*above));
  if (least != nullptr) values.push_back(std::to_string(least->to_number<std::int64_t>() - 1));
  if (const auto* most = schema.if_contains("maximum"))
    values.push_back(std::to_string(most->to_number<std::int64_t>() + 1));
  return values;
}

// The example with the field in it, and what that needs beside it.
std::string body_with(const RequestBody& body, const RequestField& field, const std::string& value) {
  json::object out = json::parse(json::string_view(body.example.data(), body.example.size())).get_object();
  const bool is_of_chat = body.route == Route::kTokenize && field.name != "prompt" &&
                          field.name != "add_special_tokens" && field.name != "return_token_strs";
  if (is_of_chat) out = json::parse(kChatBody).get_object();
  if (field.name == "top_logprobs" && body.route == Route::kChatCompletions) out["logprobs"] = true;
  if (field.name == "length_penalty" || field.name == "early_stopping") out["use_beam_search"] = true;
  out[json::string_view(field.name.data(), field.name.size())] = json::parse(value);
  return json::serialize(out);
}

json::object schema_of(const RequestField& field) {
  return json::parse(json::string_view(field.schema.data(), field.schema.size())).get_object();
}

}  // namespace

TEST_CASE("openapi: each documented field is accepted as documented, and otherwise refused by its name") {
  for (const RequestBody& body : request_bodies()) {
    CAPTURE(body.name);
    REQUIRE_FALSE(refusal(body.route, std::string(body.example)));
    std::set<std::string_view> names;
    for (const auto& group : body.fields) {
      for (const RequestField& field : group) {
        CAPTURE(field.name);
        CHECK(names.insert(field.name).second);
        const json::object schema = schema_of(field);
        const bool is_in_example =
            body.example.find("\"" + std::string(field.name) + "\":") != std::string::npos;
        if (!is_in_example && field.name != "messages") {
          for (const std::string& value : good_values(body.route, field, schema)) {
            const auto error = refusal(body.route, body_with(body, field, value));
            CHECK_MESSAGE(!error, value, " -> ", error->message);
          }
        }
        for (const std::string& value : bad_values(schema)) {
          const auto error = refusal(body.route, body_with(body, field, value));
          REQUIRE_MESSAGE(error, value, " is accepted");
          CHECK_MESSAGE(error->field.value_or("").starts_with(field.name), value, " -> ", error->message);
        }
      }
    }
  }
}

TEST_CASE("openapi: trees that are classified are documented as they are accepted") {
  ServedModelInfo trees = mood_model();
  trees.classifies_trees = true;
  const ServedModels served({trees});
  for (const char* input : {R"({"word":"a"})", R"-([{"word":"a"},"(3 b)"])-"})
    CHECK_FALSE(error_of(parse_classify_request(std::string(R"({"input":)") + input + "}", served, {})));
  for (const RequestBody& body : request_bodies()) {
    if (body.route != Route::kClassify) continue;
    for (const auto& fields : body.fields)
      for (const RequestField& field : fields) {
        if (field.name != "input") continue;
        const json::object schema = schema_of(field);
        CHECK(has_type(schema, "object"));
        CHECK(has_type(schema.at("items").at("anyOf").at(0).get_object(), "object"));
      }
  }
}

TEST_CASE("openapi: a field is required if its absence is refused") {
  for (const RequestBody& body : request_bodies()) {
    const json::object example =
        json::parse(json::string_view(body.example.data(), body.example.size())).get_object();
    for (const auto& group : body.fields) {
      for (const RequestField& field : group) {
        CAPTURE(body.name);
        CAPTURE(field.name);
        const json::string_view name(field.name.data(), field.name.size());
        if (!example.contains(name)) continue;
        json::object without = example;
        without.erase(name);
        const auto error = refusal(body.route, json::serialize(without));
        // Of /tokenize one of two is, and the other one is named.
        CHECK((error && error->field == field.name) == (field.is_required || body.route == Route::kTokenize));
      }
    }
  }
}

TEST_CASE("openapi: each field that a reader asks for is documented") {
  std::set<std::string> documented = {"name", "type"};  // within tools and choices
  for (const RequestBody& body : request_bodies())
    for (const auto& group : body.fields)
      for (const RequestField& field : group) documented.emplace(field.name);
  const std::regex asks(
      R"re(\bfields\.(?:find|boolean|string|integer|number|bits64)\(\s*"(\w+)"|\(fields, "(\w+)")re");
  std::size_t num_found = 0;
  const auto folder = std::filesystem::path(TROUPE_SOURCE_DIR) / "http" / "api" / "requests";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with(".cpp") || name == "ollama_requests.cpp") continue;
    const std::string source = file_text(file.path());
    for (std::sregex_iterator match(source.begin(), source.end(), asks), end; match != end; ++match) {
      const std::string field = (*match)[1].matched ? (*match)[1] : (*match)[2];
      CHECK_MESSAGE(documented.count(field) == 1, name, " reads ", field);
      ++num_found;
    }
  }
  CHECK(num_found > 60);
}

TEST_CASE("openapi: the server gives a document of all its paths, each with its methods and errors") {
  RunningServer server;
  TestClient client(server.port());
  client.send(get_request("/openapi.json"));
  const TestResponse response = client.read_response();
  CHECK(response.status == 200);
  const auto document = json::parse(response.body).get_object();
  CHECK(document.at("openapi") == "3.1.0");
  const auto& paths = document.at("paths").get_object();
  CHECK(paths.size() == api_routes().size());
  std::set<std::string> ids;
  for (const RouteMatch& route : api_routes()) {
    CAPTURE(route.name);
    const auto& methods = paths.at(json::string_view(route.name.data(), route.name.size())).get_object();
    CHECK(methods.contains("post") == is_allowed(route, "POST"));
    CHECK(methods.contains("get") == is_allowed(route, "GET"));
    CHECK(methods.contains("delete") == is_allowed(route, "DELETE"));
    for (const auto& method : methods) {
      const auto& operation = method.value().get_object();
      CHECK(ids.insert(std::string(operation.at("operationId").as_string())).second);
      for (const char* status : {"414", "417", "431", "501", "503"})
        CHECK(operation.at("responses").as_object().contains(status));
      const bool takes_body = method.key() == "post" && route.route != Route::kCancelResponse;
      CHECK(operation.contains("requestBody") == takes_body);
    }
  }
  const auto& errors = paths.at("/v1/messages").at("post").at("responses").at("400").at("content");
  CHECK(errors.at("application/json").at("schema").at("$ref") == "#/components/schemas/AnthropicError");
}
