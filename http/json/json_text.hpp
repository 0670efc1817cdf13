// SPDX-License-Identifier: Apache-2.0
// Writes JSON by appending to a string. Used for every byte of JSON the server
// sends: no DOM is built, least of all for a token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// The text as a JSON string with its quotes. The text must be valid UTF-8; it
// is copied as it is except for quotes, backslashes and control characters.
void append_json_string(std::string& out, std::string_view text);
// The same without the quotes. A text may be cut anywhere, between bytes of a
// character too: its pieces join to what the whole becomes.
void append_json_escaped(std::string& out, std::string_view text);
void append_json_integer(std::string& out, std::int64_t number);
// With three digits after the point; null if it is not finite.
void append_json_number(std::string& out, double number);

// RFC 3339 in UTC, with quotes: "2026-11-23T15:04:05Z".
void append_json_time(std::string& out, std::int64_t unix_seconds);

// The shortest digits that mean this number; it must be finite.
void append_json_float(std::string& out, float number);

std::string json_string(std::string_view text);

// At most max_bytes of the text, never half a character.
std::string_view shorten(std::string_view text, std::size_t max_bytes);

}  // namespace troupe
