// SPDX-License-Identifier: Apache-2.0
// Traces written in the test, read by the real readers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen::test {

using ReadTrace = std::function<std::unique_ptr<ConversationSource>(TraceInput)>;

// The name in messages is "trace".
TraceInput trace_input(const std::string& text);

// Of reading all of it; empty if nothing is refused.
std::string trace_refusal(const ReadTrace& read, const std::string& text);

// Reads thousands of versions of a trace with bytes changed, cut, doubled and
// thrown in. Each must be read or refused with the trace's name; returns the
// message of the first that was refused otherwise, or nothing.
std::string mistreat(const ReadTrace& read, const std::string& text);

}  // namespace troupe::loadgen::test
