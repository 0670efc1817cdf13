// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/formats/csv_trace.hpp"

#include <utility>

#include "loadgen/workload/traces/csv_reader.hpp"
#include "loadgen/workload/traces/single_turn.hpp"
#include "loadgen/workload/traces/trace_clock.hpp"

namespace troupe::loadgen {
namespace {

enum Column : std::size_t { kTime, kPrompt, kOutput };

class CsvTrace final : public ConversationSource {
 public:
  CsvTrace(TraceInput input, CsvTraceFormat format)
      : format_(std::move(format)),
        rows_(std::move(input), {format_.time_column, format_.prompt_column, format_.output_column}) {}

  bool next(PlannedConversation& conversation) override {
    while (rows_.next_row()) {
      const auto time = format_.parse_time(rows_.text(kTime));
      if (!time) rows_.fail(kTime, format_.expected_time);
      const auto start = clock_.since_begin(*time, rows_.input());
      const std::uint32_t prompt_tokens = rows_.count(kPrompt);
      const std::uint32_t output_tokens = rows_.count(kOutput);
      if (output_tokens > 0) {
        plan_single_turn(conversation, start, prompt_tokens, output_tokens);
        return true;
      }
      ++num_unanswered_;
    }
    return false;
  }

  std::vector<std::string> warnings() const override {
    return unanswered_warning(rows_.input().name(), num_unanswered_);
  }

 private:
  CsvTraceFormat format_;
  CsvReader rows_;
  TraceClock clock_;
  std::uint64_t num_unanswered_ = 0;
};

}  // namespace

std::unique_ptr<ConversationSource> read_csv_trace(TraceInput input, CsvTraceFormat format) {
  return std::make_unique<CsvTrace>(std::move(input), std::move(format));
}

}  // namespace troupe::loadgen
