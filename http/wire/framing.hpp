// SPDX-License-Identifier: Apache-2.0
// Decides from a parsed header where the body ends and whether the request is
// one we answer at all. Stricter than the parser: wherever two readers could
// disagree about where a request ends, it is refused and the connection closed
// (request smuggling starts there). Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "http/api/answers/error_response.hpp"
#include "http/limits.hpp"

namespace troupe {

struct HeaderField {
  std::string_view name, value;
};

struct RequestHeader {
  std::string_view method, target;
  bool is_http_1_0 = false;
  std::span<const HeaderField> fields;

  // The value of the first field of that name, any case; empty if there is none.
  std::string_view value(std::string_view name) const;
  std::size_t count(std::string_view name) const;
};

struct Framing {
  bool is_chunked = false;
  std::uint64_t content_length = 0;
  bool expects_continue = false;
  bool keep_alive = true;
};

std::variant<Framing, HttpError> check_framing(const RequestHeader& header, const Limits& limits);

bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace troupe
