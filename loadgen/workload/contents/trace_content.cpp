// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/contents/trace_content.hpp"

#include "loadgen/workload/random_source.hpp"
#include "loadgen/workload/traces/trace_selection.hpp"

namespace troupe::loadgen {

TraceContent::TraceContent(const ClassSettings& settings, bool keeps_classes, std::uint64_t seed)
    : trace_(settings.trace),
      repeats_(settings.repeats),
      keeps_classes_(keeps_classes),
      think_time_s_(settings.think_time_s),
      seed_(seed),
      source_(open_trace(trace_)) {}

bool TraceContent::fill(std::uint64_t number, PlannedConversation& conversation) {
  const auto request_class = conversation.request_class;
  if (!read_next(conversation)) return false;
  if (!keeps_classes_) conversation.request_class = request_class;
  // Later rounds share prefixes among themselves, not with those before.
  if (num_rounds_ > 0)
    for (auto& block : conversation.prefix) block.id = mixed(block.id, num_rounds_);
  RandomSource random(seed_, RandomStream::kThinkTime, number);
  for (std::size_t i = 1; i < conversation.turns.size(); ++i) {
    auto& think_time = conversation.turns[i].think_time;
    if (think_time.count() == 0) think_time = seconds_to_nanoseconds(think_time_s_.sample(random));
  }
  return true;
}

bool TraceContent::read_next(PlannedConversation& conversation) {
  if (source_->next(conversation)) return true;
  if (!repeats_) return false;
  ++num_rounds_;
  source_ = open_trace(trace_);
  return source_->next(conversation);
}

std::vector<std::string> TraceContent::warnings() const { return source_->warnings(); }

}  // namespace troupe::loadgen
