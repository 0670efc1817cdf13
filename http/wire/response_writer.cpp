// SPDX-License-Identifier: Apache-2.0
#include "http/wire/response_writer.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

namespace troupe {
namespace {

std::string_view reason_phrase(unsigned status) {
  // clang-format off
  constexpr std::array<std::pair<unsigned, std::string_view>, 23> kPhrases = {{
      {200, "OK"}, {204, "No Content"}, {304, "Not Modified"}, {400, "Bad Request"}, {401, "Unauthorized"},
      {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"},
      {408, "Request Timeout"}, {413, "Content Too Large"}, {414, "URI Too Long"},
      {415, "Unsupported Media Type"}, {417, "Expectation Failed"}, {421, "Misdirected Request"}, {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"}, {500, "Internal Server Error"},
      {501, "Not Implemented"}, {503, "Service Unavailable"}, {507, "Insufficient Storage"},
      {505, "HTTP Version Not Supported"}, {409, "Conflict"}, {422, "Unprocessable Content"}}};
  // clang-format on
  for (const auto& [code, phrase] : kPhrases) {
    if (code == status) return phrase;
  }
  return "Unknown";
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

// The date changes once a second; each thread keeps the one it wrote last.
void append_date(std::string& out) {
  thread_local std::time_t newest = -1;
  thread_local std::string text;
  const std::time_t now = std::time(nullptr);
  if (now != newest) {
    newest = now;
    std::tm parts{};
    ::gmtime_r(&now, &parts);
    std::array<char, 40> buffer{};
    const std::size_t size = std::strftime(buffer.data(), buffer.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    text.assign(buffer.data(), size);
  }
  append_field(out, "Date", text);
}

void append_head(std::string& out, const ResponseContext& context, unsigned status,
                 std::string_view content_type) {
  out.append("HTTP/1.1 ").append(std::to_string(status)).append(" ");
  out.append(reason_phrase(status)).append("\r\n");
  append_date(out);
  if (!content_type.empty()) append_field(out, "Content-Type", content_type);
  append_field(out, "X-Request-Id", context.request_id);
  if (!context.traceresponse.empty()) append_field(out, "traceresponse", context.traceresponse);
  if (!context.cors_origin.empty()) {
    append_field(out, "Access-Control-Allow-Origin", context.cors_origin);
    append_field(out, "Access-Control-Expose-Headers",
                 "X-Request-Id, traceresponse, Retry-After, x-ratelimit-limit-requests, "
                 "x-ratelimit-remaining-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
                 "x-ratelimit-reset-tokens");
    append_field(out, "Vary", "Origin");
  }
  out.append(context.limit_fields);
  if (!context.keep_alive) {
    append_field(out, "Connection", "close");
  } else if (context.is_http_1_0) {
    append_field(out, "Connection", "keep-alive");
  }
}

bool has_body(unsigned status) { return status != 204 && status != 304; }

void append_length(std::string& out, const ResponseContext& context, const Reply& reply) {
  if (reply.long_body && !reply.is_counted) {
    if (!context.is_http_1_0) append_field(out, "Transfer-Encoding", "chunked");
    return;
  }
  const std::uint64_t size = reply.long_body ? reply.long_body->num_left() : reply.body.size();
  append_field(out, "Content-Length", std::to_string(size));
}

}  // namespace

void append_reply(std::string& out, const ResponseContext& context, const Reply& reply) {
  append_head(out, context, reply.status, has_body(reply.status) ? reply.content_type : "");
  if (reply.retry_after_s > 0) {
    append_field(out, "Retry-After", std::to_string(reply.retry_after_s));
  }
  if (!reply.allow.empty()) append_field(out, "Allow", reply.allow);
  if (reply.status == 401) append_field(out, "WWW-Authenticate", "Bearer");
  if (!reply.cors_headers.empty()) {
    append_field(out, "Access-Control-Allow-Methods", reply.allow);
    append_field(out, "Access-Control-Allow-Headers", reply.cors_headers);
    append_field(out, "Access-Control-Max-Age", "600");
  }
  out.append(reply.more_fields);
  if (has_body(reply.status)) append_length(out, context, reply);
  out.append("\r\n");
  if (!context.is_head && has_body(reply.status)) out.append(reply.body);
}

void append_stream_head(std::string& out, const ResponseContext& context, std::string_view content_type) {
  append_head(out, context, 200, content_type);
  append_field(out, "Cache-Control", "no-store");
  append_field(out, "X-Accel-Buffering", "no");
  if (!context.is_http_1_0) append_field(out, "Transfer-Encoding", "chunked");
  out.append("\r\n");
}

std::string checked_request_id(std::string_view id, std::size_t max_bytes) {
  id = id.substr(0, max_bytes);
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (!std::all_of(id.begin(), id.end(), is_plain)) return {};
  return std::string(id);
}

}  // namespace troupe
