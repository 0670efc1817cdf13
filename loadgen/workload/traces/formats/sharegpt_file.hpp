// SPDX-License-Identifier: Apache-2.0
// Conversations as ShareGPT's files have them: a JSON list of
// {"id": …, "conversations": [{"from": "human", "value": …}, {"from": "gpt", …}, …]}.
// Kept is what begins with a human turn that has a reply, up to the last reply;
// the rest is left out, and a warning counts it. There is no tokenizer here:
// lengths are estimated from words. There are no times.
#pragma once

#include <memory>

#include "loadgen/workload/planned_conversation.hpp"
#include "loadgen/workload/traces/trace_input.hpp"

namespace troupe::loadgen {

struct ShareGptOptions {
  bool keeps_text = true;  // else only the lengths
  // Leaves out what vLLM's benchmark does (is_valid_sequence): first prompts or
  // replies under 4 tokens, prompts over 1024, both together over 2048.
  bool only_usual_lengths = false;
};

std::unique_ptr<ConversationSource> read_sharegpt_file(TraceInput input, ShareGptOptions options);

}  // namespace troupe::loadgen
