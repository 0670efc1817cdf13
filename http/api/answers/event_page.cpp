// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/event_page.hpp"

#include <charconv>
#include <optional>
#include <string>

#include "http/wire/query_fields.hpp"

namespace troupe {
namespace {

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

ApiError invalid(std::string_view message, std::string_view field) {
  return {
      .kind = ApiErrorKind::kInvalidRequest, .message = std::string(message), .field = std::string(field)};
}

}  // namespace

std::variant<EventPage, ApiError> parse_event_page(std::string_view query, std::string_view last_event_id) {
  EventPage page;
  if (!last_event_id.empty()) {
    const auto colon = last_event_id.rfind(':');
    const auto number = number_in(last_event_id.substr(colon == std::string_view::npos ? 0 : colon + 1));
    if (!number) return invalid("Last-Event-ID must be the id of an event of this stream", "Last-Event-ID");
    page.after = *number;
  }
  while (!query.empty()) {
    const auto [key, value] = take_query_field(query);
    if (key == "stream") {
      if (value != "true" && value != "false") return invalid("stream must be true or false", "stream");
      page.is_stream = value == "true";
    } else if (key == "starting_after") {
      const auto number = number_in(value);
      if (!number) return invalid("starting_after must be the number of an event", "starting_after");
      page.after = *number;
    }
  }
  return page;
}

}  // namespace troupe
