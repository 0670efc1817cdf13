// SPDX-License-Identifier: Apache-2.0
// BurstGPT: CSV with the columns Timestamp (seconds), Request tokens and
// Response tokens; Session ID, Elapsed time, Model and the rest are not needed.
// Each row is a conversation of one turn, also within a session, because its
// request tokens hold the session's history already. Rows with 0 response
// tokens were failures: they are left out and counted.
#pragma once

#include <memory>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

std::unique_ptr<ConversationSource> read_burstgpt_trace(TraceInput input);

}  // namespace troupe::loadgen
