// SPDX-License-Identifier: Apache-2.0
#include "http/json/json_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <system_error>

namespace troupe {
namespace {

// 0: copied; 'u': written as \u00XX; else the letter after the backslash.
constexpr std::array<char, 256> make_escapes() {
  std::array<char, 256> escapes{};
  for (std::size_t c = 0; c < 0x20; ++c) escapes[c] = 'u';
  escapes['\b'] = 'b';
  escapes['\f'] = 'f';
  escapes['\n'] = 'n';
  escapes['\r'] = 'r';
  escapes['\t'] = 't';
  escapes['"'] = '"';
  escapes['\\'] = '\\';
  escapes[0x7F] = 'u';
  return escapes;
}
constexpr auto kEscapes = make_escapes();

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  append_json_escaped(out, text);
  out.push_back('"');
}

void append_json_escaped(std::string& out, std::string_view text) {
  std::size_t run = 0;  // start of what has not been copied yet
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char escape = kEscapes[static_cast<unsigned char>(text[i])];
    if (escape == 0) continue;
    out.append(text, run, i - run);
    run = i + 1;
    out.push_back('\\');
    out.push_back(escape);
    if (escape != 'u') continue;
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(text[i]);
    out.append("00");
    out.push_back(kHex[byte >> 4]);
    out.push_back(kHex[byte & 15]);
  }
  out.append(text, run, text.size() - run);
}

void append_json_integer(std::string& out, std::int64_t number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_json_number(std::string& out, double number) {
  constexpr int kDigitsAfterPoint = 3;
  std::array<char, 64> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number,
                                          std::chars_format::fixed, kDigitsAfterPoint);
  if (!std::isfinite(number) || error != std::errc{}) {
    out += "null";
    return;
  }
  out.append(digits.data(), end);
}

void append_json_time(std::string& out, std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 40> text{};
  out.append(text.data(), std::strftime(text.data(), text.size(), "\"%Y-%m-%dT%H:%M:%SZ\"", &parts));
}

void append_json_float(std::string& out, float number) {
  std::array<char, 32> digits;
  const float unsigned_zero = number + 0.0F;  // not "-0"
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), unsigned_zero).ptr;
  out.append(digits.data(), end);
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string_view shorten(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  const auto is_continuation = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  while (max_bytes > 0 && is_continuation(text[max_bytes])) --max_bytes;
  return text.substr(0, max_bytes);
}

}  // namespace troupe
