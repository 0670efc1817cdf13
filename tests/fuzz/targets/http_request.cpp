// SPDX-License-Identifier: Apache-2.0
// Requests on one connection: the same however the bytes were cut into packets.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/api/answers/error_response.hpp"
#include "http/json/json_document.hpp"
#include "http/wire/request_parser.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/fuzz/split_positions.hpp"

namespace troupe::fuzz {
namespace {

// So small that few bytes reach them.
constexpr Limits small_limits() {
  Limits limits;
  limits.max_request_line_bytes = 48;
  limits.max_header_bytes = 160;
  limits.max_header_fields = 6;
  limits.max_body_bytes = 24;
  limits.max_wire_overhead_bytes = 32;
  return limits;
}
constexpr Limits kSmall = small_limits();
constexpr Limits kUsual;

struct Outcome {
  std::vector<std::string> requests;
  unsigned refused = 0;  // status, 0: not refused
  std::string error;     // as it is sent
  bool is_waiting = false;
  bool operator==(const Outcome&) const = default;
};

std::string shown(const HttpRequest& request) {
  std::string text = request.method + " " + request.target;
  text += request.is_http_1_0 ? " 1.0" : " 1.1";
  text += request.keep_alive ? " keep" : " close";
  for (const auto* field :
       {&request.host, &request.authorization, &request.content_type, &request.accept, &request.origin,
        &request.request_id, &request.cors_headers, &request.traceparent, &request.tracestate, &request.body})
    text += "\n" + *field;
  return text;
}

Outcome parse(const Pieces& pieces, const Limits& limits) {
  RequestParser parser(limits);
  Outcome outcome;
  for (const std::string_view piece : pieces) {
    parser.feed(piece);
    while (parser.state() == RequestParser::State::kComplete) {
      const HttpRequest request = parser.take();
      require(request.body.size() <= limits.max_body_bytes, "a body is longer than allowed");
      require(!request.method.empty() && !request.target.empty(), "a request has no method or target");
      outcome.requests.push_back(shown(request));
    }
  }
  if (parser.state() == RequestParser::State::kRefused) {
    outcome.refused = parser.error().status;
    outcome.error = error_json(parser.error());
  }
  outcome.is_waiting = outcome.refused == 0 && parser.has_started();
  return outcome;
}

void check_all_splits(std::string_view bytes, const Limits& limits) {
  const Outcome whole = parse({bytes}, limits);
  if (whole.refused != 0) {
    require(whole.refused >= 400 && whole.refused <= 505, "a refusal has no status of an error");
    const auto error = parse_json_object(whole.error, kUsual);
    require(std::holds_alternative<boost::json::object>(error), "an error is sent that is no JSON");
  }
  for_each_split(bytes, [&](const Pieces& pieces) {
    require(parse(pieces, limits) == whole, "another outcome when cut elsewhere");
  });
}

}  // namespace

void fuzz_http_request(std::string_view bytes) {
  check_all_splits(bytes, kUsual);
  check_all_splits(bytes, kSmall);
}

}  // namespace troupe::fuzz
