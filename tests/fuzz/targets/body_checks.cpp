// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/targets/body_checks.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>

#include <boost/json/serialize.hpp>

#include "http/api/answers/error_response.hpp"
#include "http/json/json_document.hpp"
#include "tests/fuzz/property.hpp"

namespace troupe::fuzz {
namespace {

namespace json = boost::json;

// Boost.JSON 1.81 reads a number to the last digit or the one before.
bool is_close(double a, double b) { return a == b || std::abs(a - b) <= 1e-14 * std::abs(a); }

bool is_same(const json::value& a, const json::value& b) {
  if (a.is_double() && b.is_number()) return is_close(a.get_double(), b.to_number<double>());
  if (a.is_array() && b.is_array())
    return std::equal(a.get_array().begin(), a.get_array().end(), b.get_array().begin(), b.get_array().end(),
                      is_same);
  if (a.is_object() && b.is_object()) {
    const auto& other = b.get_object();
    return a.get_object().size() == other.size() &&
           std::all_of(a.get_object().begin(), a.get_object().end(), [&](const auto& member) {
             const auto* found = other.if_contains(member.key());
             return found != nullptr && is_same(member.value(), *found);
           });
  }
  return a == b;
}

}  // namespace

const ServedModels& models() {
  static const ServedModels served({{.name = "demo", .context_length = 2048, .defaults = {}},
                                    {.name = "minilm",
                                     .kind = ModelKind::kEmbedding,
                                     .context_length = 256,
                                     .defaults = {},
                                     .embedding_size = 4},
                                    {.name = "ranker",
                                     .kind = ModelKind::kClassifying,
                                     .context_length = 256,
                                     .defaults = {},
                                     .labels = {"LABEL_0"}}});
  return served;
}

void check_error(const ApiError& error) {
  require(!error.message.empty(), "a refusal says nothing");
  const HttpError answer = to_http_error(error);
  require(answer.status >= 400 && answer.status < 500, "a body's fault is said to be ours");
  const auto sent = parse_json_object(error_json(answer), kLimits);
  require(std::holds_alternative<json::object>(sent), "an error is sent that is no JSON");
}

void check_document(std::string_view body) {
  const auto document = parse_json(body, kLimits);
  if (const auto* error = std::get_if<ApiError>(&document)) return check_error(*error);
  const auto& value = std::get<json::value>(document);
  const auto again = parse_json(json::serialize(value), kLimits);
  require(std::holds_alternative<json::value>(again), "a document is refused after it was written");
  require(is_same(value, std::get<json::value>(again)), "a document is another one after it was written");
}

}  // namespace troupe::fuzz
