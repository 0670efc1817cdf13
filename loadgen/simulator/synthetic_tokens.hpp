// SPDX-License-Identifier: Apache-2.0
// Token ids for simulated prompts: equal where the plan says that tokens are
// equal, else different, which is all that a prefix cache looks at.
#pragma once

#include <cstdint>
#include <vector>

#include "loadgen/workload/planned_conversation.hpp"

namespace troupe::loadgen {

void append_prefix(std::vector<std::int32_t>& tokens, const PrefixBlock& block);
// Tokens of a client's turn, and of its answer.
void append_prompt(std::vector<std::int32_t>& tokens, std::uint64_t conversation, std::uint32_t turn,
                   std::uint32_t count);
void append_answer(std::vector<std::int32_t>& tokens, std::uint64_t conversation, std::uint32_t turn,
                   std::uint32_t count);

}  // namespace troupe::loadgen
