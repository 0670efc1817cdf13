// SPDX-License-Identifier: Apache-2.0
#include "http/router.hpp"

#include <algorithm>
#include <array>

namespace troupe {
namespace {

constexpr std::string_view kReadOnly = "GET, HEAD, OPTIONS";
constexpr std::string_view kPostOnly = "POST, OPTIONS";
constexpr std::string_view kReadOrDelete = "GET, HEAD, DELETE, OPTIONS";
constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::string_view kResponsePrefix = "/v1/responses/";
constexpr std::string_view kInputItemsSuffix = "/input_items";

constexpr RouteMatch entry(Route route, std::string_view name, std::string_view allow, bool is_public) {
  return {.route = route, .name = name, .allow = allow, .is_public = is_public, .rest = {}, .query = {}};
}

constexpr std::array kRoutes = {
    entry(Route::kChatCompletions, "/v1/chat/completions", kPostOnly, false),
    entry(Route::kCompletions, "/v1/completions", kPostOnly, false),
    entry(Route::kResponses, "/v1/responses", kPostOnly, false),
    entry(Route::kModels, "/v1/models", kReadOnly, false),
    entry(Route::kHealth, "/health", kReadOnly, true),
    entry(Route::kReady, "/ready", kReadOnly, true),
    entry(Route::kLive, "/live", kReadOnly, true),
    entry(Route::kPing, "/ping", kReadOnly, true),
    entry(Route::kMetrics, "/metrics", kReadOnly, true),
    entry(Route::kVersion, "/version", kReadOnly, true),
};

// Of the path of something with an id; nothing if the id would be empty.
RouteMatch match_with_id(std::string_view path, std::string_view prefix, RouteMatch match) {
  if (!path.starts_with(prefix) || path.size() == prefix.size()) return {};
  match.rest = path.substr(prefix.size());
  return match;
}

RouteMatch match_response(std::string_view path) {
  auto items = entry(Route::kInputItems, "/v1/responses/{id}/input_items", kReadOnly, false);
  if (path.ends_with(kInputItemsSuffix))
    return match_with_id(path.substr(0, path.size() - kInputItemsSuffix.size()), kResponsePrefix, items);
  return match_with_id(path, kResponsePrefix,
                       entry(Route::kResponse, "/v1/responses/{id}", kReadOrDelete, false));
}

RouteMatch match_path(std::string_view path) {
  for (const auto& route : kRoutes) {
    if (path == route.name) return route;
  }
  if (path.starts_with(kResponsePrefix)) return match_response(path);
  return match_with_id(path, kModelPrefix, entry(Route::kModel, "/v1/models/{id}", kReadOnly, false));
}

}  // namespace

RouteMatch match_route(std::string_view target) {
  const std::size_t end = std::min(target.find('?'), target.size());
  RouteMatch match = match_path(target.substr(0, end));
  match.query = target.substr(std::min(end + 1, target.size()));
  return match;
}

bool is_allowed(const RouteMatch& match, std::string_view method) {
  std::string_view list = match.allow;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(", "), list.size());
    if (list.substr(0, comma) == method) return true;
    list.remove_prefix(std::min(comma + 2, list.size()));
  }
  return false;
}

std::string_view method_label(std::string_view method) {
  constexpr std::array<std::string_view, 7> kKnown = {"GET",    "HEAD",  "POST",   "PUT",
                                                      "DELETE", "PATCH", "OPTIONS"};
  const auto* known = std::find(kKnown.begin(), kKnown.end(), method);
  return known == kKnown.end() ? "other" : *known;
}

}  // namespace troupe
