// SPDX-License-Identifier: Apache-2.0
#include "http/api/answers/trace_query.hpp"

#include <charconv>
#include <string>
#include <utility>

#include "http/wire/query_fields.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMostRequests = 1000;

// False: it is no whole number of T.
template <class T>
bool read_whole(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

ApiError wrong_field(std::string field, std::string_view expected) {
  return {.kind = ApiErrorKind::kInvalidRequest,
          .message = field + " must be " + std::string(expected),
          .field = std::move(field)};
}

}  // namespace

std::variant<RecentQuery, ApiError> parse_trace_query(std::string_view query) {
  RecentQuery wanted;
  while (!query.empty()) {
    const auto [key, value] = take_query_field(query);
    if (key == "limit" &&
        (!read_whole(value, wanted.limit) || wanted.limit < 1 || wanted.limit > kMostRequests))
      return wrong_field("limit", "a whole number from 1 to 1000");
    if (key == "after" && (!read_whole(value, wanted.ended_after) || wanted.ended_after < 0))
      return wrong_field("after", "a time in nanoseconds since 1970");
  }
  return wanted;
}

}  // namespace troupe
