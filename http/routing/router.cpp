// SPDX-License-Identifier: Apache-2.0
#include "http/routing/router.hpp"

#include <algorithm>
#include <array>

namespace troupe {
namespace {

constexpr std::string_view kReadOnly = "GET, HEAD, OPTIONS";
constexpr std::string_view kGetOnly = "GET, OPTIONS";
constexpr std::string_view kPostOnly = "POST, OPTIONS";
constexpr std::string_view kReadOrDelete = "GET, HEAD, DELETE, OPTIONS";
constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr std::string_view kResponsePrefix = "/v1/responses/";
constexpr std::string_view kPagePrefix = "/page/";
constexpr std::string_view kInputItemsSuffix = "/input_items";
constexpr std::string_view kCancelSuffix = "/cancel";
constexpr std::string_view kStreamSuffix = "/stream";
constexpr std::string_view kChatPrefix = "/v1/chat/completions/";
constexpr std::string_view kCompletionPrefix = "/v1/completions/";

constexpr RouteMatch entry(Route route, std::string_view name, std::string_view allow,
                           Audience audience = Audience::kClients) {
  return {.route = route, .name = name, .allow = allow, .audience = audience, .rest = {}, .query = {}};
}

constexpr std::array kRoutes = {
    entry(Route::kChatCompletions, "/v1/chat/completions", kPostOnly),
    entry(Route::kCompletions, "/v1/completions", kPostOnly),
    entry(Route::kResponses, "/v1/responses", kPostOnly),
    entry(Route::kEmbeddings, "/v1/embeddings", kPostOnly),
    entry(Route::kClassify, "/v1/classify", kPostOnly),
    entry(Route::kClassify, "/classify", kPostOnly),
    entry(Route::kScore, "/v1/score", kPostOnly),
    entry(Route::kScore, "/score", kPostOnly),
    entry(Route::kRerank, "/v1/rerank", kPostOnly),
    entry(Route::kRerank, "/rerank", kPostOnly),
    entry(Route::kRerank, "/v2/rerank", kPostOnly),
    entry(Route::kMessages, "/v1/messages", kPostOnly),
    entry(Route::kCountTokens, "/v1/messages/count_tokens", kPostOnly),
    entry(Route::kTokenize, "/tokenize", kPostOnly),
    entry(Route::kDetokenize, "/detokenize", kPostOnly),
    entry(Route::kModels, "/v1/models", kReadOnly),
    entry(Route::kHealth, "/health", kReadOnly, Audience::kAnybody),
    entry(Route::kReady, "/ready", kReadOnly, Audience::kAnybody),
    entry(Route::kLive, "/live", kReadOnly, Audience::kAnybody),
    entry(Route::kPing, "/ping", kReadOnly, Audience::kAnybody),
    entry(Route::kMetrics, "/metrics", kReadOnly, Audience::kOperators),
    entry(Route::kTraces, "/traces", kReadOnly, Audience::kOperators),
    entry(Route::kVersion, "/version", kReadOnly, Audience::kOperators),
    entry(Route::kOpenApi, "/openapi.json", kReadOnly),
    entry(Route::kPage, "/", kReadOnly, Audience::kBrowsers),
};

// Paths of something with an id.
constexpr RouteMatch kInputItems = entry(Route::kInputItems, "/v1/responses/{id}/input_items", kReadOnly);
constexpr RouteMatch kCancelled = entry(Route::kCancelResponse, "/v1/responses/{id}/cancel", kPostOnly);
constexpr RouteMatch kResponse = entry(Route::kResponse, "/v1/responses/{id}", kReadOrDelete);
constexpr RouteMatch kChatStream = entry(Route::kAnswerStream, "/v1/chat/completions/{id}/stream", kGetOnly);
constexpr RouteMatch kCompletionStream = entry(Route::kAnswerStream, "/v1/completions/{id}/stream", kGetOnly);
constexpr RouteMatch kModel = entry(Route::kModel, "/v1/models/{id}", kReadOnly);
constexpr RouteMatch kPageFile = entry(Route::kPage, "/page/{file}", kReadOnly, Audience::kBrowsers);

constexpr std::array kOllamaRoutes = {
    entry(Route::kOllamaRoot, "/", kReadOnly, Audience::kAnybody),
    entry(Route::kOllamaVersion, "/api/version", kReadOnly),
    entry(Route::kOllamaTags, "/api/tags", kReadOnly),
    entry(Route::kOllamaRunning, "/api/ps", kReadOnly),
    entry(Route::kOllamaShow, "/api/show", kPostOnly),
    entry(Route::kOllamaChat, "/api/chat", kPostOnly),
    entry(Route::kOllamaGenerate, "/api/generate", kPostOnly),
    entry(Route::kOllamaEmbed, "/api/embed", kPostOnly),
    entry(Route::kOllamaEmbeddings, "/api/embeddings", kPostOnly),
};

// Of the path of something with an id; nothing if the id would be empty.
RouteMatch match_with_id(std::string_view path, std::string_view prefix, RouteMatch match) {
  if (!path.starts_with(prefix) || path.size() == prefix.size()) return {};
  match.rest = path.substr(prefix.size());
  return match;
}

// An id has no slash: what is below it is a path of its own, which there is or is not.
RouteMatch match_response(std::string_view path) {
  if (path.ends_with(kInputItemsSuffix))
    return match_with_id(path.substr(0, path.size() - kInputItemsSuffix.size()), kResponsePrefix,
                         kInputItems);
  if (path.ends_with(kCancelSuffix))
    return match_with_id(path.substr(0, path.size() - kCancelSuffix.size()), kResponsePrefix, kCancelled);
  if (path.find('/', kResponsePrefix.size()) != std::string_view::npos) return {};
  return match_with_id(path, kResponsePrefix, kResponse);
}

RouteMatch match_stream(std::string_view path, std::string_view prefix, const RouteMatch& match) {
  if (!path.ends_with(kStreamSuffix)) return {};
  path.remove_suffix(kStreamSuffix.size());
  return match_with_id(path, prefix, match);
}

RouteMatch match_path(std::string_view path, Door door) {
  if (door == Door::kOllama) {
    for (const auto& route : kOllamaRoutes) {
      if (path == route.name) return route;
    }
  }
  for (const auto& route : kRoutes) {
    if (path == route.name) return route;
  }
  if (path.starts_with(kResponsePrefix)) return match_response(path);
  if (path.starts_with(kChatPrefix)) return match_stream(path, kChatPrefix, kChatStream);
  if (path.starts_with(kCompletionPrefix)) return match_stream(path, kCompletionPrefix, kCompletionStream);
  if (path.starts_with(kPagePrefix)) return match_with_id(path, kPagePrefix, kPageFile);
  return match_with_id(path, kModelPrefix, kModel);
}

}  // namespace

RouteMatch match_route(std::string_view target, Door door) {
  const std::size_t end = std::min(target.find('?'), target.size());
  RouteMatch match = match_path(target.substr(0, end), door);
  match.query = target.substr(std::min(end + 1, target.size()));
  return match;
}

std::vector<RouteMatch> api_routes() {
  std::vector<RouteMatch> routes(kRoutes.begin(), kRoutes.end());
  routes.insert(routes.end(),
                {kResponse, kInputItems, kCancelled, kChatStream, kCompletionStream, kModel, kPageFile});
  return routes;
}

bool is_served(const RouteMatch& match, Door door) {
  switch (door) {
    case Door::kApi: return true;
    case Door::kMetrics: return is_probe(match);
    case Door::kOllama: return match.audience != Audience::kBrowsers;
    case Door::kReserve: break;
  }
  return match.audience == Audience::kAnybody;
}

ApiStyle style_of(const RouteMatch& match, Door door) {
  if (match.route == Route::kMessages || match.route == Route::kCountTokens) return ApiStyle::kAnthropic;
  const bool is_ollama = door == Door::kOllama && !match.name.starts_with("/v1/");
  return is_ollama ? ApiStyle::kOllama : ApiStyle::kOpenAi;
}

bool needs_key(const RouteMatch& match, Door door) {
  const bool is_open = match.audience == Audience::kAnybody || match.audience == Audience::kBrowsers;
  return !is_open && door != Door::kMetrics;
}

bool is_probe(const RouteMatch& match) {
  return match.audience == Audience::kOperators || match.audience == Audience::kAnybody;
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
