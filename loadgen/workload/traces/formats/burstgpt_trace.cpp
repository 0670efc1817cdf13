// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/burstgpt_trace.hpp"

#include <charconv>
#include <utility>

#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/traces/formats/csv_trace.hpp"

namespace troupe::loadgen {
namespace {

std::optional<std::chrono::nanoseconds> parse_seconds(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || !(seconds >= 0 && seconds < kEndOfTimeS))
    return std::nullopt;
  return seconds_to_nanoseconds(seconds);
}

}  // namespace

std::unique_ptr<ConversationSource> read_burstgpt_trace(TraceInput input) {
  return read_csv_trace(std::move(input), {.time_column = "Timestamp",
                                           .prompt_column = "Request tokens",
                                           .output_column = "Response tokens",
                                           .parse_time = parse_seconds,
                                           .expected_time = "seconds of at least 0"});
}

}  // namespace troupe::loadgen
