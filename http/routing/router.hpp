// SPDX-License-Identifier: Apache-2.0
// Which path means what, which methods it takes and whether it needs the key.
// Paths are matched byte by byte: nothing is decoded, folded or normalised, so
// nothing can be spelled in a way that passes one check and not the next.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe {

enum class Route : std::uint8_t {
  kChatCompletions,
  kCompletions,
  kResponses,
  kResponse,
  kCancelResponse,
  kInputItems,
  kAnswerStream,
  kEmbeddings,
  kClassify,
  kScore,
  kRerank,
  kMessages,
  kCountTokens,
  kTokenize,
  kDetokenize,
  kModels,
  kModel,
  kHealth,
  kReady,
  kLive,
  kPing,
  kMetrics,
  kTraces,
  kVersion,
  kOpenApi,
  kPage,
  // Ollama's API, behind its own door only
  kOllamaRoot,
  kOllamaVersion,
  kOllamaTags,
  kOllamaRunning,
  kOllamaShow,
  kOllamaChat,
  kOllamaGenerate,
  kOllamaEmbed,
  kOllamaEmbeddings,  // its old form
  kUnknown,
};

// The callers a path is for.
enum class Audience : std::uint8_t {
  kClients,    // with a key, if there are keys
  kOperators,  // with a key, too; without one on the port for metrics
  kAnybody,    // probes
  kBrowsers,   // the web page: without a key, which it asks for itself
};

// How a connection got in.
enum class Door : std::uint8_t {
  kApi,
  kMetrics,  // the port for metrics: for operators and anybody
  kReserve,  // kept back when connections are full: for probes only
  kOllama,   // the port for Ollama's API: that, and all of kApi but the web page
};
// Doors of a few connections each, of which the quietest leaves when one is wanted.
constexpr bool is_small(Door door) { return door == Door::kMetrics || door == Door::kReserve; }

// The API whose shape an answer's error has.
enum class ApiStyle : std::uint8_t { kOpenAi, kAnthropic, kOllama };

struct RouteMatch {
  Route route = Route::kUnknown;
  std::string_view name = "other";  // for logs: one of few
  std::string_view allow;           // the methods, as in the Allow field
  Audience audience = Audience::kClients;
  std::string_view rest;   // the id in it: of a model or a response; or a file of the page
  std::string_view query;  // behind the question mark
};

// target: a request target in origin form, which the match refers to.
RouteMatch match_route(std::string_view target, Door door = Door::kApi);
bool is_served(const RouteMatch& match, Door door);
// Also of what is not served.
ApiStyle style_of(const RouteMatch& match, Door door);
// Where the server has keys.
bool needs_key(const RouteMatch& match, Door door);
bool is_probe(const RouteMatch& match);  // of health or metrics
bool is_allowed(const RouteMatch& match, std::string_view method);

// Every path of the API's own door, those with an id in them too.
std::vector<RouteMatch> api_routes();

// One of the methods of HTTP, or "other": safe as a label.
std::string_view method_label(std::string_view method);

}  // namespace troupe
