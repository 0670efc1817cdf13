// SPDX-License-Identifier: Apache-2.0
// The requests of which a client asks the spans: GET /traces?limit=N&after=NANOSECONDS.
#pragma once

#include <string_view>
#include <variant>

#include "actors/request/api_error.hpp"
#include "telemetry/tracing/recent_spans.hpp"

namespace troupe {

// query: of the target, without its '?'; keys it does not know are ignored. The tenant is left
// to the caller.
std::variant<RecentQuery, ApiError> parse_trace_query(std::string_view query);

}  // namespace troupe
