// SPDX-License-Identifier: Apache-2.0
// Recorded agents, as agentperf-local keeps them: JSON lines, a turn each, with the whole
// prompt of the turn:
//   {"conversation_id": …, "messages": [{"role": …, "content": …}, …],
//    "recorded_prompt_tokens": 9496, "recorded_completion_tokens": 89,
//    "simulated_tool_delay_ms_after": 176.7}
// Lines of one id that follow one another are a conversation. A turn's new tokens are what
// its prompt has more than the prompt and the answer before it: results of tools, at least one
// token (a prompt may have lost the thoughts of an answer). The tools' delay is the think
// time of the next turn. There are no times of conversations.
#pragma once

#include <memory>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

// keeps_text: send what was said, too: of the first turn the system message and the user's, of a later one
// the results of tools and whatever is new, as one message of the user.
std::unique_ptr<ConversationSource> read_agents_trace(TraceInput input, bool keeps_text);

}  // namespace troupe::loadgen
