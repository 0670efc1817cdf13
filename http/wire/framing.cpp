// SPDX-License-Identifier: Apache-2.0
#include "http/wire/framing.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

namespace troupe {
namespace {

constexpr std::size_t kMaxLengthDigits = 10;
constexpr std::array<std::string_view, 9> kMethods = {"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                                      "CONNECT", "OPTIONS", "TRACE", "PATCH"};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

std::optional<HttpError> refuse(unsigned status, std::string why) {
  HttpError error = http_error(status, std::move(why));
  error.close = true;
  return error;
}

// Only a path is routed: no scheme, no authority, no asterisk, nothing but
// visible ASCII.
std::optional<HttpError> check_request_line(const RequestHeader& header) {
  if (std::find(kMethods.begin(), kMethods.end(), header.method) == kMethods.end()) {
    return refuse(501, "this method is not implemented");
  }
  if (header.target.empty() || header.target[0] != '/') {
    return refuse(400, "the request target must be a path that begins with /");
  }
  const auto is_visible = [](char c) { return c > ' ' && c < 0x7F; };
  if (!std::all_of(header.target.begin(), header.target.end(), is_visible)) {
    return refuse(400, "the request target must be visible ASCII");
  }
  return std::nullopt;
}

std::optional<HttpError> check_single_fields(const RequestHeader& header) {
  const std::size_t num_hosts = header.count("Host");
  if (num_hosts > 1 || (num_hosts == 0 && !header.is_http_1_0)) {
    return refuse(400, "exactly one Host field is required, got " + std::to_string(num_hosts));
  }
  for (const std::string_view name : {"Authorization", "Content-Type", "Origin", "Expect"}) {
    if (header.count(name) > 1) {
      return refuse(400, "the field " + std::string(name) + " is given more than once");
    }
  }
  return std::nullopt;
}

std::optional<HttpError> check_transfer_encoding(const RequestHeader& header, Framing& framing) {
  const std::size_t num = header.count("Transfer-Encoding");
  if (num == 0) return std::nullopt;
  if (header.is_http_1_0) return refuse(400, "HTTP/1.0 has no Transfer-Encoding");
  if (num > 1 || header.count("Content-Length") > 0) {
    return refuse(400, "the length of the body is given twice");
  }
  if (!equal_ignoring_case(header.value("Transfer-Encoding"), "chunked")) {
    return refuse(501, "the only Transfer-Encoding understood is chunked");
  }
  framing.is_chunked = true;
  return std::nullopt;
}

std::optional<HttpError> check_content_length(const RequestHeader& header, const Limits& limits,
                                              Framing& framing) {
  const std::size_t num = header.count("Content-Length");
  if (num == 0) return std::nullopt;
  const std::string_view text = header.value("Content-Length");
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (num > 1 || text.empty() || text.size() > kMaxLengthDigits ||
      !std::all_of(text.begin(), text.end(), is_digit)) {
    return refuse(400, "Content-Length must be given once, as 1 to 10 digits");
  }
  std::from_chars(text.data(), text.data() + text.size(), framing.content_length);
  if (framing.content_length > limits.max_body_bytes) {
    return refuse(413, "the body may have " + std::to_string(limits.max_body_bytes) +
                           " bytes, announced are " + std::to_string(framing.content_length));
  }
  return std::nullopt;
}

std::optional<HttpError> check_expectations(const RequestHeader& header, Framing& framing) {
  const std::string_view encoding = header.value("Content-Encoding");
  if (!encoding.empty() && !equal_ignoring_case(encoding, "identity")) {
    return refuse(415, "compressed request bodies are not accepted");
  }
  const std::string_view expect = header.value("Expect");
  if (!expect.empty() && !equal_ignoring_case(expect, "100-continue")) {
    return refuse(417, "the only expectation understood is 100-continue");
  }
  const bool has_body = framing.is_chunked || framing.content_length > 0;
  framing.expects_continue = !expect.empty() && has_body && !header.is_http_1_0;
  return std::nullopt;
}

bool has_token(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view entry = list.substr(0, comma);
    while (!entry.empty() && (entry.front() == ' ' || entry.front() == '\t')) entry.remove_prefix(1);
    while (!entry.empty() && (entry.back() == ' ' || entry.back() == '\t')) entry.remove_suffix(1);
    if (equal_ignoring_case(entry, token)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

bool wants_keep_alive(const RequestHeader& header) {
  bool asks_to_close = false;
  bool asks_to_keep = false;
  for (const auto& field : header.fields) {
    if (!equal_ignoring_case(field.name, "Connection")) continue;
    asks_to_close = asks_to_close || has_token(field.value, "close");
    asks_to_keep = asks_to_keep || has_token(field.value, "keep-alive");
  }
  return !asks_to_close && (asks_to_keep || !header.is_http_1_0);
}

}  // namespace

std::string_view RequestHeader::value(std::string_view name) const {
  for (const auto& field : fields) {
    if (equal_ignoring_case(field.name, name)) return field.value;
  }
  return {};
}

std::size_t RequestHeader::count(std::string_view name) const {
  return static_cast<std::size_t>(
      std::count_if(fields.begin(), fields.end(),
                    [name](const HeaderField& field) { return equal_ignoring_case(field.name, name); }));
}

std::variant<Framing, HttpError> check_framing(const RequestHeader& header, const Limits& limits) {
  Framing framing;
  if (auto error = check_request_line(header)) return *error;
  if (auto error = check_single_fields(header)) return *error;
  if (auto error = check_transfer_encoding(header, framing)) return *error;
  if (auto error = check_content_length(header, limits, framing)) return *error;
  if (auto error = check_expectations(header, framing)) return *error;
  framing.keep_alive = wants_keep_alive(header);
  return framing;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace troupe
