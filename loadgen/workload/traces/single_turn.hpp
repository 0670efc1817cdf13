// SPDX-License-Identifier: Apache-2.0
// Common to the traces of lone requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "loadgen/workload/planned_conversation.hpp"

namespace troupe::loadgen {

// Leaves number and class alone. A prompt has at least one token, also where a
// trace says 0, because no server takes an empty one.
void plan_single_turn(PlannedConversation& conversation, std::chrono::nanoseconds start,
                      std::uint32_t prompt_tokens, std::uint32_t output_tokens);

// How many rows were left out because they had no answer; empty if none.
std::vector<std::string> unanswered_warning(const std::string& name, std::uint64_t count);

}  // namespace troupe::loadgen
