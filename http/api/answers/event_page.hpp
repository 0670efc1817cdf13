// SPDX-License-Identifier: Apache-2.0
// The part of a stream that a client asks for when it comes back:
// GET /v1/responses/{id}?stream=true&starting_after=N, or the field Last-Event-ID of
// event streams, "ID:N".
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "actors/request/api_error.hpp"

namespace troupe {

struct EventPage {
  bool is_stream = false;
  std::int64_t after = -1;  // the last event that the client has; -1: none
};

// query: of the target, without its '?'; keys it does not know are ignored. It wins over
// the field, which may be empty.
std::variant<EventPage, ApiError> parse_event_page(std::string_view query, std::string_view last_event_id);

}  // namespace troupe
