// SPDX-License-Identifier: Apache-2.0
// Bytes that the load generator reads of a server: event streams, answers and metrics, the
// same however their bytes were cut.
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadgen/client/http/answer_reader.hpp"
#include "loadgen/client/http/sse_parser.hpp"
#include "loadgen/client/server/metrics_text.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"
#include "tests/fuzz/split_positions.hpp"

namespace troupe::fuzz {
namespace {

using namespace loadgen;

struct Events {
  std::vector<std::pair<std::string, std::string>> events;  // name and data
  bool is_too_long = false;
  bool operator==(const Events&) const = default;
};

Events events_of(const Pieces& pieces, std::size_t max_event_bytes) {
  SseParser parser(max_event_bytes);
  Events read;
  for (const std::string_view piece : pieces) {
    const bool fits = parser.feed(piece, [&](const SseEvent& event) {
      require(event.data.size() <= max_event_bytes, "an event is longer than allowed");
      read.events.emplace_back(event.name, event.data);
    });
    require(!fits || !read.is_too_long, "a reader goes on after an event that is too long");
    read.is_too_long = !fits;
  }
  return read;
}

// All but times, which depend on when bytes come.
struct Read {
  Outcome outcome;
  std::uint16_t status;
  std::string error, text, finish_reason;
  std::uint32_t num_chunks;
  bool is_at_end;
  bool operator==(const Read&) const = default;
};

Read read_answer(const Pieces& pieces, bool is_streamed) {
  constexpr SteadyTime kNow{std::chrono::hours(1)};
  AnswerReader reader(is_streamed);
  std::string kept;
  for (const std::string_view piece : pieces) {
    if (reader.has_verdict() && !reader.is_complete()) break;  // the connection is closed
    kept += piece;
    kept.erase(0, reader.feed(kept, kNow));
  }
  const bool is_at_end = reader.is_at_end();
  reader.end("", kNow);
  require(reader.has_verdict(), "an answer that ended has no verdict");
  const Answer answer = reader.take_answer();
  require(answer.outcome != Outcome::kUnfinished, "an answer that ended is unfinished");
  require(answer.error.find('\n') == std::string::npos, "an error has several lines");
  return {answer.outcome,    answer.status, answer.error, answer.content.text, answer.content.finish_reason,
          answer.num_chunks, is_at_end};
}

}  // namespace

void fuzz_sse_stream(std::string_view bytes) {
  for (const std::size_t max_event_bytes : {std::size_t{1} << 20, std::size_t{24}}) {
    const Events whole = events_of({bytes}, max_event_bytes);
    for_each_split(bytes, [&](const Pieces& pieces) {
      require(events_of(pieces, max_event_bytes) == whole, "other events when cut elsewhere");
    });
  }
}

void fuzz_load_answer(std::string_view bytes) {
  for (const bool is_streamed : {true, false}) {
    const Read whole = read_answer({bytes}, is_streamed);
    for_each_split(bytes, [&](const Pieces& pieces) {
      const Read cut = read_answer(pieces, is_streamed);
      require(cut == whole, "another answer when cut elsewhere");
    });
  }
}

void fuzz_metrics_text(std::string_view bytes) {
  BatchCounters counters;
  read_sample(bytes, counters);
  const bool is_known = is_known_server(bytes);
  bool has_line = false;
  for (std::size_t begin = 0; begin < bytes.size();) {
    const auto end = std::min(bytes.find('\n', begin), bytes.size());
    has_line = has_line || is_known_server(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  require(is_known == has_line, "a metric is in the text but in none of its lines");
}

}  // namespace troupe::fuzz
