// SPDX-License-Identifier: Apache-2.0
// The conversations of a trace file, in its order.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "loadgen/workload/contents/conversation_content.hpp"
#include "loadgen/workload/distribution.hpp"

namespace troupe::loadgen {

class TraceContent final : public ConversationContent {
 public:
  // `keeps_classes`: conversations have classes of their own (those of a plan
  // file that is the whole workload).
  TraceContent(const ClassSettings& settings, bool keeps_classes, std::uint64_t seed);
  bool fill(std::uint64_t number, PlannedConversation& conversation) override;
  std::vector<std::string> warnings() const override;

 private:
  bool read_next(PlannedConversation& conversation);

  TraceSettings trace_;
  bool repeats_;
  bool keeps_classes_;
  Distribution think_time_s_;
  std::uint64_t seed_;
  std::uint64_t num_rounds_ = 0;  // finished ones
  std::unique_ptr<ConversationSource> source_;
};

}  // namespace troupe::loadgen
