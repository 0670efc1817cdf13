// SPDX-License-Identifier: Apache-2.0
// What is said in the conversations of one class of a workload.
#pragma once

#include <cstdint>
#include <memory>

#include "loadgen/planned_conversation.hpp"
#include "loadgen/workload_settings.hpp"

namespace troupe::loadgen {

class ConversationContent {
 public:
  virtual ~ConversationContent() = default;
  // Writes prefix, system text and turns of conversation number `number`;
  // false when there are no more. Contents may throw std::runtime_error, at the
  // line of a file that makes no sense.
  virtual bool fill(std::uint64_t number, PlannedConversation& conversation) = 0;
};

// Opens the files that the class names. `class_index` keeps the prefixes of
// different classes apart.
std::unique_ptr<ConversationContent> make_content(const ClassSettings& settings, std::uint32_t class_index,
                                                  std::uint64_t seed);

}  // namespace troupe::loadgen
