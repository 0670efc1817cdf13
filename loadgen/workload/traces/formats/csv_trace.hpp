// SPDX-License-Identifier: Apache-2.0
// Traces whose rows are lone requests, a time and two lengths: each becomes a conversation of one
// turn. Rows without output tokens got no answer; they are left out, and a warning counts them.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

// Azure's LLM inference traces of 2023 and 2024: the columns TIMESTAMP, ContextTokens and
// GeneratedTokens; times like "2023-11-16 18:15:46.6805900" or with "+00:00" behind.
std::unique_ptr<ConversationSource> read_azure_trace(TraceInput input);

// Since 1970, in UTC; nothing if it is no such time.
std::optional<std::chrono::nanoseconds> parse_timestamp(std::string_view text);

// BurstGPT: the columns Timestamp (seconds), Request tokens and Response tokens; Session ID,
// Elapsed time, Model and the rest are not needed. A row is a conversation of its own also within
// a session, because its request tokens hold the session's history already.
std::unique_ptr<ConversationSource> read_burstgpt_trace(TraceInput input);

}  // namespace troupe::loadgen
