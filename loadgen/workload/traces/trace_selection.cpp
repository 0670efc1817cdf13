// SPDX-License-Identifier: Apache-2.0
#include "loadgen/workload/traces/trace_selection.hpp"

#include <stdexcept>
#include <utility>

#include "loadgen/workload/distribution.hpp"
#include "loadgen/workload/toml/setting_check.hpp"
#include "loadgen/workload/traces/formats/agents_trace.hpp"
#include "loadgen/workload/traces/formats/csv_trace.hpp"
#include "loadgen/workload/traces/formats/mooncake_trace.hpp"
#include "loadgen/workload/traces/formats/plan_file.hpp"
#include "loadgen/workload/traces/formats/sharegpt_file.hpp"
#include "loadgen/workload/traces/length_scaling.hpp"

namespace troupe::loadgen {
namespace {

using std::chrono::nanoseconds;
using Format = TraceSettings::Format;

class TraceSelection final : public ConversationSource {
 public:
  TraceSelection(std::unique_ptr<ConversationSource> trace, TraceSettings settings)
      : trace_(std::move(trace)),
        settings_(std::move(settings)),
        from_(seconds_to_nanoseconds(settings_.from_s)),
        until_(seconds_to_nanoseconds(settings_.until_s)) {}

  bool next(PlannedConversation& conversation) override {
    if (settings_.max_conversations > 0 && num_selected_ == settings_.max_conversations) return false;
    while (trace_->next(conversation) && conversation.start < until_) {
      last_start_ = conversation.start;
      if (conversation.start < from_ || !fit(conversation)) continue;
      conversation.start -= from_;
      ++num_selected_;
      return true;
    }
    if (num_selected_ == 0) refuse_empty();
    return false;
  }

  std::vector<std::string> warnings() const override {
    auto warnings = trace_->warnings();
    if (num_too_long_ > 0)
      warnings.push_back(settings_.file +
                         ": conversations left out because they are longer than the context: " +
                         std::to_string(num_too_long_));
    return warnings;
  }

 private:
  bool fit(PlannedConversation& conversation);
  [[noreturn]] void refuse_empty() const;

  std::unique_ptr<ConversationSource> trace_;
  TraceSettings settings_;
  nanoseconds from_;
  nanoseconds until_;
  nanoseconds last_start_{0};
  std::uint64_t num_selected_ = 0;
  std::uint64_t num_too_long_ = 0;
};

bool TraceSelection::fit(PlannedConversation& conversation) {
  if (settings_.length_factor != 1) scale_lengths(conversation, settings_.length_factor);
  if (settings_.max_context_tokens == 0 || shrink_to_fit(conversation, settings_.max_context_tokens))
    return true;
  ++num_too_long_;
  return false;
}

void TraceSelection::refuse_empty() const {
  if (from_.count() == 0 && until_ == nanoseconds::max())
    throw std::runtime_error(settings_.file + ": expected at least one conversation, got none");
  const auto seconds = [](nanoseconds time) {
    return number_text(std::chrono::duration<double>(time).count());
  };
  throw std::runtime_error(settings_.file + ": expected conversations between " +
                           number_text(settings_.from_s) + " s and " + number_text(settings_.until_s) +
                           " s, got none; the last one read is at " + seconds(last_start_) + " s");
}

}  // namespace

std::unique_ptr<ConversationSource> open_trace(const TraceSettings& settings) {
  auto input = open_trace_input(settings.file);
  std::unique_ptr<ConversationSource> trace;
  switch (settings.format) {
    case Format::kAzure: trace = read_azure_trace(std::move(input)); break;
    case Format::kMooncake: trace = read_mooncake_trace(std::move(input)); break;
    case Format::kBurstGpt: trace = read_burstgpt_trace(std::move(input)); break;
    case Format::kShareGpt:
      trace = read_sharegpt_file(std::move(input), {.keeps_text = settings.keeps_text,
                                                    .only_usual_lengths = settings.only_usual_lengths});
      break;
    case Format::kAgents: trace = read_agents_trace(std::move(input), settings.keeps_text); break;
    case Format::kPlan: trace = read_plan_file(std::move(input)); break;
  }
  return select_from_trace(std::move(trace), settings);
}

std::unique_ptr<ConversationSource> select_from_trace(std::unique_ptr<ConversationSource> trace,
                                                      const TraceSettings& settings) {
  return std::make_unique<TraceSelection>(std::move(trace), settings);
}

}  // namespace troupe::loadgen
