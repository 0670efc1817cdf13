// SPDX-License-Identifier: Apache-2.0
#include "loadgen/client/http/sse_parser.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace troupe::loadgen;

namespace {

using Events = std::vector<std::pair<std::string, std::string>>;  // name, data

Events parse(const std::vector<std::string_view>& pieces) {
  SseParser parser(1000);
  Events events;
  for (const auto piece : pieces)
    REQUIRE(parser.feed(piece, [&](const SseEvent& event) { events.emplace_back(event.name, event.data); }));
  return events;
}

}  // namespace

TEST_CASE("sse: events are the same at every split into three pieces") {
  const std::string_view stream =
      ": ping\r\n\r\n"
      "data: one\n\n"
      "event: error\r\ndata: two\r\ndata:three\r\n\r\n"
      "id: 7\nretry: 5\ndata\n\n"
      "data: never ended\n";
  const Events expected = {{"", "one"}, {"error", "two\nthree"}, {"", ""}};
  for (std::size_t first = 0; first <= stream.size(); ++first)
    for (std::size_t second = first; second <= stream.size(); ++second)
      CHECK(parse({stream.substr(0, first), stream.substr(first, second - first), stream.substr(second)}) ==
            expected);
}

TEST_CASE("sse: an event's name does not outlive it") {
  CHECK(parse({"event: error\ndata: a\n\ndata: b\n\n"}) == Events{{"error", "a"}, {"", "b"}});
  CHECK(parse({"event: error\n\ndata: b\n\n"}) == Events{{"", "b"}});
}

TEST_CASE("sse: an event longer than allowed is refused, in one line or in many") {
  const auto ignore = [](const SseEvent&) {};
  SseParser one_line(100);
  CHECK(one_line.feed("data: " + std::string(90, 'x'), ignore));
  CHECK_FALSE(one_line.feed(std::string(20, 'x'), ignore));
  CHECK_FALSE(one_line.feed("\n\n", ignore));

  SseParser many_lines(100);
  std::size_t num_taken = 0;
  while (num_taken < 1000 && many_lines.feed("data: 12345678\n", ignore)) ++num_taken;
  CHECK(num_taken < 15);
}
