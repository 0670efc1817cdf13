// SPDX-License-Identifier: Apache-2.0
// Trace files of each format that the load generator reads: refused with a line, or a
// plan whose parts keep what planned_conversation.hpp promises.
#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "loadgen/workload/traces/formats/csv_trace.hpp"
#include "loadgen/workload/traces/formats/mooncake_trace.hpp"
#include "loadgen/workload/traces/formats/plan_file.hpp"
#include "loadgen/workload/traces/formats/sharegpt_file.hpp"
#include "loadgen/workload/traces/length_scaling.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/fuzz/property.hpp"

namespace troupe::fuzz {
namespace {

using namespace loadgen;

constexpr std::size_t kMaxConversations = 4096;

TraceInput input_of(std::string_view bytes) {
  return {std::make_unique<std::istringstream>(std::string(bytes)), "trace"};
}

std::uint64_t tokens_of(const PlannedConversation& conversation) {
  std::uint64_t total = 0;
  for (const auto& block : conversation.prefix) total += block.num_tokens;
  for (const auto& turn : conversation.turns) total += std::uint64_t{turn.prompt_tokens} + turn.output_tokens;
  return total;
}

void check_lengths(PlannedConversation conversation) {
  constexpr std::uint32_t kMaxTokens = 4096;
  for (const double factor : {0.25, 3.5, 1e9}) {
    PlannedConversation scaled = conversation;
    scale_lengths(scaled, factor);
    require(scaled.turns.size() == conversation.turns.size(), "turns go when lengths are scaled");
    if (shrink_to_fit(scaled, kMaxTokens))
      require(!scaled.turns.empty() && tokens_of(scaled) <= kMaxTokens, "a conversation that fits does not");
  }
  if (shrink_to_fit(conversation, kMaxTokens))
    require(!conversation.turns.empty() && tokens_of(conversation) <= kMaxTokens,
            "a conversation that fits does not");
}

std::vector<PlannedConversation> plan_of(const std::function<std::unique_ptr<ConversationSource>()>& open) {
  std::vector<PlannedConversation> plan;
  try {
    const auto source = open();
    PlannedConversation conversation;
    while (plan.size() < kMaxConversations && source->next(conversation)) plan.push_back(conversation);
    source->warnings();
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).starts_with("trace"), "a refusal names no file");
  }
  for (std::size_t i = 0; i < plan.size(); ++i) {
    require(!plan[i].turns.empty(), "a conversation has no turns");
    require(plan[i].start.count() >= 0, "a conversation starts before the run");
    require(i == 0 || plan[i - 1].start <= plan[i].start,
            "conversations are not in the order of their start");
    check_lengths(plan[i]);
  }
  return plan;
}

std::string written(const std::vector<RequestClass>& classes, const std::vector<PlannedConversation>& plan) {
  std::ostringstream out;
  PlanWriter writer(out, classes);
  for (const auto& conversation : plan) writer.write(conversation);
  return out.str();
}

}  // namespace

void fuzz_azure_trace(std::string_view bytes) {
  plan_of([&] { return read_azure_trace(input_of(bytes)); });
}

void fuzz_burstgpt_trace(std::string_view bytes) {
  plan_of([&] { return read_burstgpt_trace(input_of(bytes)); });
}

void fuzz_mooncake_trace(std::string_view bytes) {
  plan_of([&] { return read_mooncake_trace(input_of(bytes)); });
}

void fuzz_sharegpt_file(std::string_view bytes) {
  const auto all = plan_of([&] { return read_sharegpt_file(input_of(bytes), {}); });
  const auto usual =
      plan_of([&] { return read_sharegpt_file(input_of(bytes), {.only_usual_lengths = true}); });
  require(usual.size() <= all.size(), "more conversations are usual than there are");
}

// A plan that is written and read again is the same.
void fuzz_plan_file(std::string_view bytes) {
  std::vector<RequestClass> classes;
  try {
    classes = read_plan_classes(input_of(bytes));
  } catch (const std::runtime_error&) {
    return;
  }
  const std::string first = written(classes, plan_of([&] { return read_plan_file(input_of(bytes)); }));
  const auto again_classes = read_plan_classes(input_of(first));
  const auto again = plan_of([&] { return read_plan_file(input_of(first)); });
  require(written(again_classes, again) == first, "a plan is another one after it was written");
}

}  // namespace troupe::fuzz
