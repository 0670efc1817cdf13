// SPDX-License-Identifier: Apache-2.0
// The texts of the conversations of one class of a workload.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/workload_settings.hpp"

namespace troupe::loadgen {

class ConversationContent {
 public:
  virtual ~ConversationContent() = default;
  // Writes prefix, system text and turns of conversation number `number`, and a
  // trace's own start; false when there are no more. Contents may throw std::runtime_error, at the
  // line of a file that makes no sense.
  virtual bool fill(std::uint64_t number, PlannedConversation& conversation) = 0;
  virtual std::vector<std::string> warnings() const { return {}; }
};

// Opens the files that the class names.
std::unique_ptr<ConversationContent> make_content(const WorkloadSettings& settings, std::uint32_t class_index,
                                                  std::uint64_t seed);

}  // namespace troupe::loadgen
