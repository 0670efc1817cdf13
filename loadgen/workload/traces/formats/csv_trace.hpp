// SPDX-License-Identifier: Apache-2.0
// Traces whose rows are lone requests: a time and two lengths.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

struct CsvTraceFormat {
  std::string time_column;
  std::string prompt_column;
  std::string output_column;
  // On any clock; nothing if it is no time.
  std::function<std::optional<std::chrono::nanoseconds>(std::string_view)> parse_time;
  std::string expected_time;  // for messages
};

// Each row becomes a conversation of one turn. Rows without output tokens got
// no answer; they are left out, and a warning counts them.
std::unique_ptr<ConversationSource> read_csv_trace(TraceInput input, CsvTraceFormat format);

}  // namespace troupe::loadgen
