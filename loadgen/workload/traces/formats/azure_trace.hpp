// SPDX-License-Identifier: Apache-2.0
// Azure's LLM inference traces of 2023 and 2024: CSV with the columns
// TIMESTAMP, ContextTokens and GeneratedTokens; times like
// "2023-11-16 18:15:46.6805900" or with "+00:00" behind. Each row is a
// conversation of one turn; rows without generated tokens are left out.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

std::unique_ptr<ConversationSource> read_azure_trace(TraceInput input);

// Since 1970, in UTC; nothing if it is no such time.
std::optional<std::chrono::nanoseconds> parse_timestamp(std::string_view text);

}  // namespace troupe::loadgen
