// SPDX-License-Identifier: Apache-2.0
// Makes the conversations of a trace longer or shorter, as the model at hand
// needs them.
#pragma once

#include <cstdint>

#include "loadgen/workload/planned_conversation.hpp"

namespace troupe::loadgen {

// Multiplies all lengths; texts go, because they would no longer be as long.
// Blocks keep their ids: equal ones of all conversations change alike.
void scale_lengths(PlannedConversation& conversation, double factor);

// Shrinks a conversation to at most `max_tokens` in all: synthesized lengths in
// proportion, the prefix at its end. One with texts loses its last turns
// instead; false if not even the first one fits.
bool shrink_to_fit(PlannedConversation& conversation, std::uint32_t max_tokens);

}  // namespace troupe::loadgen
