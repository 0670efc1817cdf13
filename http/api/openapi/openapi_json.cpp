// SPDX-License-Identifier: Apache-2.0
#include "http/api/openapi/openapi_json.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

#include "http/api/openapi/request_fields.hpp"
#include "http/routing/router.hpp"

namespace troupe {
namespace {

namespace json = boost::json;

struct StatusMeaning {
  unsigned status = 0;
  std::string_view meaning;
};
// Of any request.
constexpr std::array kRefusals = {
    StatusMeaning{401, "a key is needed"},
    StatusMeaning{403, "a web page of another origin asked"},
    StatusMeaning{405, "not with this method; Allow names those there are"},
    StatusMeaning{408, "the request did not arrive in time"},
    StatusMeaning{414, "the request line is too long"},
    StatusMeaning{417, "an expectation other than 100-continue"},
    StatusMeaning{421, "the Host is not one of this server's"},
    StatusMeaning{431, "the header is too large"},
    StatusMeaning{500, "a fault of the server"},
    StatusMeaning{501, "a method or a transfer encoding that the server does not know"},
    StatusMeaning{503, "loading, shutting down, full, or the engine has failed"},
};
// Of those with a body.
constexpr std::array kBodyRefusals = {
    StatusMeaning{400, "a field is wrong: param names it"},
    StatusMeaning{404, "there is no such model"},
    StatusMeaning{413, "the body is too large"},
    StatusMeaning{415, "the body is not JSON"},
    StatusMeaning{429, "too many requests wait; Retry-After says when to ask again"},
};
constexpr StatusMeaning kNoSuchThing{404, "there is nothing of that id"};
constexpr StatusMeaning kWrongQuery{400, "a field of the query is wrong: param names it"};
constexpr StatusMeaning kNoSpans{404, "no spans are kept in memory"};
constexpr StatusMeaning kStoreFull{507, "the store is full"};

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }
json::value parsed(std::string_view text) { return json::parse(view(text)); }

json::object reference(std::string_view schema) {
  return {{"$ref", "#/components/schemas/" + std::string(schema)}};
}

json::object content(std::string_view type, json::value schema) {
  return {{view(type), json::object{{"schema", std::move(schema)}}}};
}

bool is_streamed(Route route) {
  return route == Route::kChatCompletions || route == Route::kCompletions || route == Route::kResponses ||
         route == Route::kMessages || route == Route::kResponse;
}

json::object good_answer(Route route) {
  json::object types = content("application/json", json::object{{"type", "object"}});
  const json::object text = {{"type", "string"}};
  if (is_streamed(route)) types.emplace("text/event-stream", json::object{{"schema", text}});
  if (route == Route::kAnswerStream) types = content("text/event-stream", text);
  if (route == Route::kMetrics) types = content("text/plain", text);
  if (route == Route::kPage) types = content("text/html", text);
  return {{"description", "the answer"}, {"content", std::move(types)}};
}

void add_refusal(json::object& responses, const StatusMeaning& refusal, std::string_view schema) {
  responses.emplace(std::to_string(refusal.status),
                    json::object{{"description", view(refusal.meaning)},
                                 {"content", content("application/json", reference(schema))}});
}

json::object responses_of(const RouteMatch& route, bool has_body) {
  json::object responses = {{"200", good_answer(route.route)}};
  const bool is_anthropic = style_of(route, Door::kApi) == ApiStyle::kAnthropic;
  const std::string_view schema = is_anthropic ? "AnthropicError" : "Error";
  for (const StatusMeaning& refusal : kRefusals) add_refusal(responses, refusal, schema);
  if (has_body)
    for (const StatusMeaning& refusal : kBodyRefusals) add_refusal(responses, refusal, schema);
  const bool has_id = route.name.find('{') != std::string_view::npos;
  if (has_id) add_refusal(responses, kNoSuchThing, schema);
  if (route.name.starts_with("/v1/responses/")) add_refusal(responses, kWrongQuery, schema);
  if (route.route == Route::kResponses) add_refusal(responses, kStoreFull, schema);
  if (route.route == Route::kTraces) {
    add_refusal(responses, kWrongQuery, schema);
    add_refusal(responses, kNoSpans, schema);
  }
  return responses;
}

// The {parts} of a path.
json::array path_parameters(std::string_view path) {
  json::array parameters;
  for (auto begin = path.find('{'); begin != std::string_view::npos; begin = path.find('{', begin + 1)) {
    const auto name = path.substr(begin + 1, path.find('}', begin) - begin - 1);
    parameters.push_back(json::object{{"name", view(name)},
                                      {"in", "path"},
                                      {"required", true},
                                      {"schema", json::object{{"type", "string"}}}});
  }
  return parameters;
}

const RequestBody* body_of(Route route) {
  const auto& bodies = request_bodies();
  const auto found = std::find_if(bodies.begin(), bodies.end(),
                                  [&](const RequestBody& body) { return body.route == route; });
  return found == bodies.end() ? nullptr : &*found;
}

// "post_v1_chat_completions"
std::string operation_id(std::string_view method, std::string_view path) {
  std::string id(method);
  for (const char c : path) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_word) id += c;
    if (!is_word && id.back() != '_') id += '_';
  }
  while (id.back() == '_') id.pop_back();
  return id;
}

json::object operation(const RouteMatch& route, std::string_view method) {
  const RequestBody* body = method == "post" ? body_of(route.route) : nullptr;
  json::object out = {{"operationId", operation_id(method, route.name)}};
  if (auto parameters = path_parameters(route.name); !parameters.empty())
    out.emplace("parameters", std::move(parameters));
  if (body != nullptr)
    out.emplace("requestBody", json::object{{"required", true},
                                            {"content", content("application/json", reference(body->name))}});
  out.emplace("responses", responses_of(route, body != nullptr));
  if (!needs_key(route, Door::kApi)) out.emplace("security", json::array{});
  return out;
}

json::object paths() {
  json::object out;
  for (const RouteMatch& route : api_routes()) {
    json::object methods;
    for (const char* method : {"GET", "HEAD", "POST", "DELETE"}) {
      if (!is_allowed(route, method)) continue;
      std::string name = method;
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return static_cast<char>(c - 'A' + 'a'); });
      methods.emplace(name, operation(route, name));
    }
    out.emplace(view(route.name), std::move(methods));
  }
  return out;
}

json::object schema_of(const RequestBody& body) {
  json::object properties;
  json::array required;
  for (const auto& group : body.fields) {
    for (const RequestField& field : group) {
      json::value schema = parsed(field.schema);
      if (field.is_required) {
        required.push_back(view(field.name));
      } else {
        schema = json::object{{"anyOf", json::array{std::move(schema), json::object{{"type", "null"}}}}};
      }
      properties.emplace(view(field.name), std::move(schema));
    }
  }
  json::object out = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) out.emplace("required", std::move(required));
  out.emplace("examples", json::array{parsed(body.example)});
  return out;
}

json::object schemas() {
  json::object out = {
      {"Error", parsed(R"({"type":"object","required":["error"],"properties":{"error":{"type":"object",)"
                       R"("required":["message","type","param","code"],"properties":{"message":)"
                       R"({"type":"string"},"type":{"type":"string"},"param":{"type":["string","null"]},)"
                       R"("code":{"type":["string","null"]}}}}})")},
      {"AnthropicError",
       parsed(
           R"({"type":"object","required":["type","error"],"properties":{"type":{"const":"error"},)"
           R"("error":{"type":"object","required":["type","message"],"properties":)"
           R"({"type":{"type":"string"},"message":{"type":"string"}}},"request_id":{"type":"string"}}})")}};
  for (const RequestBody& body : request_bodies()) out.emplace(view(body.name), schema_of(body));
  return out;
}

}  // namespace

std::string openapi_json(std::string_view version) {
  return json::serialize(json::object{
      {"openapi", "3.1.0"},
      {"info", json::object{{"title", "troupe"},
                            {"version", view(version)},
                            {"license", json::object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
      {"paths", paths()},
      {"components",
       json::object{
           {"schemas", schemas()},
           {"securitySchemes", parsed(R"({"bearer":{"type":"http","scheme":"bearer"},)"
                                      R"("header":{"type":"apiKey","in":"header","name":"X-Api-Key"}})")}}},
      {"security", parsed(R"([{"bearer":[]},{"header":[]}])")}});
}

}  // namespace troupe
