// SPDX-License-Identifier: Apache-2.0
// Which path means what, which methods it takes and whether it needs the key.
// Paths are matched byte by byte: nothing is decoded, folded or normalised, so
// nothing can be spelled in a way that passes one check and not the next.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

enum class Route : std::uint8_t {
  kChatCompletions,
  kCompletions,
  kResponses,
  kResponse,
  kInputItems,
  kModels,
  kModel,
  kHealth,
  kReady,
  kLive,
  kPing,
  kMetrics,
  kVersion,
  kUnknown,
};

struct RouteMatch {
  Route route = Route::kUnknown;
  std::string_view name = "other";  // for logs: one of few
  std::string_view allow;           // the methods, as in the Allow field
  bool is_public = false;           // answered without a key
  std::string_view rest;            // the id in it: of a model or a response
  std::string_view query;           // what follows the question mark
};

// target: a request target in origin form, which the match refers to.
RouteMatch match_route(std::string_view target);
bool is_allowed(const RouteMatch& match, std::string_view method);

// One of the methods of HTTP, or "other": safe as a label.
std::string_view method_label(std::string_view method);

}  // namespace troupe
