// SPDX-License-Identifier: Apache-2.0
// Mooncake's traces (FAST '25): JSON lines like
// {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, …]}
// with times in milliseconds. Each id stands for 512 tokens of the prompt, the
// last one for the rest; equal ids are equal tokens, so a request becomes a
// conversation of one turn whose prompt is all prefix blocks.
#pragma once

#include <memory>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

std::unique_ptr<ConversationSource> read_mooncake_trace(TraceInput input);

}  // namespace troupe::loadgen
