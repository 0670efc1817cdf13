// SPDX-License-Identifier: Apache-2.0
#include "http/router.hpp"

#include <algorithm>
#include <array>

namespace troupe {
namespace {

constexpr std::string_view kReadOnly = "GET, HEAD, OPTIONS";
constexpr std::string_view kPostOnly = "POST, OPTIONS";
constexpr std::string_view kModelPrefix = "/v1/models/";

constexpr RouteMatch entry(Route route, std::string_view name, std::string_view allow,
                           bool is_public) {
  return {.route = route, .name = name, .allow = allow, .is_public = is_public, .rest = {}};
}

constexpr std::array kRoutes = {
    entry(Route::kChatCompletions, "/v1/chat/completions", kPostOnly, false),
    entry(Route::kCompletions, "/v1/completions", kPostOnly, false),
    entry(Route::kModels, "/v1/models", kReadOnly, false),
    entry(Route::kHealth, "/health", kReadOnly, true),
    entry(Route::kReady, "/ready", kReadOnly, true),
    entry(Route::kLive, "/live", kReadOnly, true),
    entry(Route::kPing, "/ping", kReadOnly, true),
    entry(Route::kMetrics, "/metrics", kReadOnly, true),
    entry(Route::kVersion, "/version", kReadOnly, true),
};

}  // namespace

RouteMatch match_route(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  for (const auto& route : kRoutes) {
    if (path == route.name) return route;
  }
  if (path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size()) {
    RouteMatch match = entry(Route::kModel, "/v1/models/{id}", kReadOnly, false);
    match.rest = path.substr(kModelPrefix.size());
    return match;
  }
  return {};
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
  constexpr std::array<std::string_view, 7> kKnown = {"GET",     "HEAD",  "POST", "PUT",
                                                      "DELETE", "PATCH", "OPTIONS"};
  const auto* known = std::find(kKnown.begin(), kKnown.end(), method);
  return known == kKnown.end() ? "other" : *known;
}

}  // namespace troupe
