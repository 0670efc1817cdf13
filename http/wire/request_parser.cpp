// SPDX-License-Identifier: Apache-2.0
#include "http/wire/request_parser.hpp"

#include <optional>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "http/wire/framing.hpp"
#include "http/wire/header_scanner.hpp"

namespace troupe {
namespace {

namespace beast_http = boost::beast::http;
using BeastParser = beast_http::request_parser<beast_http::string_body>;

constexpr std::size_t kMinChunkedBytes = 5;  // 0 CR LF CR LF

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::size_t count_fields(const BeastParser& parser) {
  return static_cast<std::size_t>(std::distance(parser.get().begin(), parser.get().end()));
}

}  // namespace

struct RequestParser::Implementation {
  explicit Implementation(const Limits& limits_) : limits(limits_) { restart(); }

  void restart() {
    scanner.emplace(limits);
    beast.emplace();
    beast->header_limit(static_cast<std::uint32_t>(limits.max_header_bytes + 1));
    beast->body_limit(boost::none);  // until the policy has seen the header
    state = State::kHeader;
    request = {};
    num_header_bytes = num_body_bytes = 0;
    expects_continue = false;
  }

  void advance() {
    if (state == State::kHeader) advance_header();
    if (state == State::kBody) advance_body();
  }

  void advance_header() {
    const std::string_view fresh = std::string_view(buffer).substr(num_header_bytes);
    num_header_bytes += scanner->scan(fresh);
    if (scanner->error()) return refuse(*scanner->error());
    if (!scanner->is_complete()) return;
    boost::system::error_code error;
    std::size_t parsed = 0;  // start line and fields are taken in separate steps
    while (!beast->is_header_done() && !error && parsed < num_header_bytes) {
      parsed += beast->put({buffer.data() + parsed, num_header_bytes - parsed}, error);
    }
    if ((error && error != beast_http::error::need_more) || !beast->is_header_done()) {
      return refuse_malformed(error);
    }
    buffer.erase(0, num_header_bytes);
    check_header();
  }

  void check_header() {
    const auto& message = beast->get();
    std::vector<HeaderField> fields;
    for (const auto& field : message) {
      fields.push_back({view(field.name_string()), view(field.value())});
    }
    num_fields = fields.size();
    const RequestHeader header{.method = view(message.method_string()),
                               .target = view(message.target()),
                               .is_http_1_0 = message.version() == 10,
                               .fields = fields};
    request.method = header.method;
    request.target = header.target;
    request.is_http_1_0 = header.is_http_1_0;
    request.host = header.value("Host");
    request.authorization = header.value("Authorization");
    request.api_key = header.value("X-Api-Key");
    request.content_type = header.value("Content-Type");
    request.accept = header.value("Accept");
    request.if_none_match = header.value("If-None-Match");
    request.last_event_id = header.value("Last-Event-ID");
    request.origin = header.value("Origin");
    request.request_id = header.value("X-Request-Id");
    request.cors_headers = header.value("Access-Control-Request-Headers");
    if (header.count("traceparent") == 1) request.traceparent = header.value("traceparent");
    request.tracestate = header.value("tracestate");
    const auto framing = check_framing(header, limits);
    if (const auto* error = std::get_if<HttpError>(&framing)) return refuse(*error);
    request.keep_alive = std::get<Framing>(framing).keep_alive;
    expects_continue = std::get<Framing>(framing).expects_continue;
    is_chunked = std::get<Framing>(framing).is_chunked;
    beast->body_limit(limits.max_body_bytes);
    beast->eager(true);
    state = State::kBody;
  }

  void advance_body() {
    // The shortest chunked body has five bytes. Beast 1.81 asserts that it has
    // them all when it comes back to a last chunk that is also the first.
    const bool is_too_short = is_chunked && num_body_bytes == 0 && buffer.size() < kMinChunkedBytes;
    if (is_too_short) return;
    boost::system::error_code error;
    std::size_t parsed = 0;
    while (!beast->is_done() && !error && parsed < buffer.size()) {
      parsed += beast->put({buffer.data() + parsed, buffer.size() - parsed}, error);
    }
    buffer.erase(0, parsed);
    num_body_bytes += parsed;
    if (error == beast_http::error::body_limit) {
      return refuse(413, "the body may have " + std::to_string(limits.max_body_bytes) + " bytes");
    }
    if (error && error != beast_http::error::need_more) return refuse_malformed(error);
    // What is buffered belongs to this body as long as it is not complete.
    const std::uint64_t on_wire = num_body_bytes + (beast->is_done() ? 0 : buffer.size());
    if (on_wire > limits.max_body_bytes + limits.max_wire_overhead_bytes) {
      return refuse(413, "the chunks of the body cost too much beside their content");
    }
    if (!beast->is_done()) return;
    if (count_fields(*beast) > num_fields) return refuse(400, "trailers are not accepted");
    request.body = std::move(beast->get().body());
    state = State::kComplete;
  }

  void refuse_malformed(const boost::system::error_code& error) {
    refuse(error == beast_http::error::bad_version ? 505 : 400,
           "this is not valid HTTP/1.1: " + error.message());
  }
  void refuse(unsigned status, std::string why) { refuse(http_error(status, std::move(why))); }
  void refuse(HttpError why) {
    refusal = std::move(why);
    refusal.close = true;
    state = State::kRefused;
    buffer.clear();
  }

  const Limits& limits;
  State state = State::kHeader;
  std::string buffer;  // bytes not yet understood
  std::optional<HeaderScanner> scanner;
  std::optional<BeastParser> beast;
  HttpRequest request;
  HttpError refusal;
  std::size_t num_header_bytes = 0;  // scanned, still in the buffer
  std::size_t num_fields = 0;
  std::uint64_t num_body_bytes = 0;
  bool expects_continue = false;
  bool is_chunked = false;
};

RequestParser::RequestParser(const Limits& limits)
    : implementation_(std::make_unique<Implementation>(limits)) {}
RequestParser::~RequestParser() = default;

RequestParser::State RequestParser::feed(std::string_view bytes) {
  if (state() == State::kRefused) return state();
  implementation_->buffer.append(bytes);
  implementation_->advance();
  return state();
}

RequestParser::State RequestParser::state() const { return implementation_->state; }

HttpRequest RequestParser::take() {
  HttpRequest request = std::move(implementation_->request);
  implementation_->restart();
  implementation_->advance();
  return request;
}

const HttpError& RequestParser::error() const { return implementation_->refusal; }
const HttpRequest& RequestParser::request() const { return implementation_->request; }

bool RequestParser::take_expectation() {
  const bool is_waiting = implementation_->state == State::kBody && implementation_->expects_continue &&
                          implementation_->buffer.empty() && implementation_->num_body_bytes == 0;
  if (is_waiting) implementation_->expects_continue = false;
  return is_waiting;
}

bool RequestParser::has_started() const {
  return implementation_->state != State::kHeader || !implementation_->buffer.empty();
}

std::size_t RequestParser::num_buffered() const { return implementation_->buffer.size(); }
std::uint64_t RequestParser::num_body_bytes() const { return implementation_->num_body_bytes; }

}  // namespace troupe
