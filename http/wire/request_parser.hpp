// SPDX-License-Identifier: Apache-2.0
// Bytes in, requests out: Beast's parser between our header scanner and our
// framing policy. Pure; however the bytes are cut, the outcome is the same.
// One parser serves one connection: take() hands out a request and goes on
// with the bytes that followed it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/api/answers/error_response.hpp"
#include "http/limits.hpp"

namespace troupe {

struct HttpRequest {
  std::string method;
  std::string target;
  bool is_http_1_0 = false;
  bool keep_alive = true;
  // empty if absent
  std::string host, authorization, api_key, content_type, accept, origin, request_id, cors_headers,
      if_none_match, last_event_id;
  std::string traceparent, tracestate;
  std::string body;
};

class RequestParser {
 public:
  enum class State : std::uint8_t {
    kHeader,    // waits for (the rest of) a header
    kBody,      // waits for (the rest of) a body
    kComplete,  // take() it
    kRefused,   // error() says why; nothing that follows is looked at
  };

  // The limits must outlive the parser.
  explicit RequestParser(const Limits& limits);
  explicit RequestParser(Limits&&) = delete;
  ~RequestParser();

  State feed(std::string_view bytes);
  State state() const;

  // In kComplete: hands out the request, then parses what is left of the bytes.
  HttpRequest take();
  // In kRefused.
  const HttpError& error() const;
  // The request as far as it is known: method, target, ids once the header is
  // there.
  const HttpRequest& request() const;

  // The client waits for "100 Continue"; true once per request.
  bool take_expectation();
  bool has_started() const;              // at least one byte of a request is there
  std::size_t num_buffered() const;      // bytes not yet understood
  std::uint64_t num_body_bytes() const;  // on the wire, of the body under way

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace troupe
