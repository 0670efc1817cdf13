// SPDX-License-Identifier: Apache-2.0
// Our own traces: any plan, saved and replayed exactly. JSON lines; the first
// is {"troupe_plan": 1, "classes": [{"name": …, "ttft_ns": …, …}]}, each other a
// conversation in the order of the plan:
// {"class": 0, "start_ns": 5000, "prefix": [[ID, TOKENS], …], "turns":
//  [{"prompt_tokens": 12, "output_tokens": 80, "think_ns": …, "text": …, "answer": …}]}
// Members that are 0 or empty may be missing.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <vector>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

class PlanWriter {
 public:
  // Writes the first line. Keeps the stream, whose state says whether writing
  // worked.
  PlanWriter(std::ostream& out, const std::vector<RequestClass>& classes);
  // Texts are expected to be UTF-8; bytes that are not are replaced.
  void write(const PlannedConversation& conversation);

 private:
  std::ostream& out_;
};

// Sets also the conversations' class, in the order of read_plan_classes().
std::unique_ptr<ConversationSource> read_plan_file(TraceInput input);

// Classes in the first line; throws std::runtime_error.
std::vector<RequestClass> read_plan_classes(TraceInput input);

}  // namespace troupe::loadgen
