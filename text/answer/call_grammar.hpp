// SPDX-License-Identifier: Apache-2.0
// The answers that call a tool, as a grammar: whoever demands a call (tool_choice "required", or a
// function by its name) gets one that the parser reads back, with arguments that obey their schema.
#pragma once

#include <string>
#include <string_view>

#include "text/answer/answer_parser.hpp"
#include "text/grammar/grammar.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

struct CallDemand {
  std::string name = {};    // the function's; empty: any of the tools
  bool is_for_one = false;  // the answer ends behind its first call
};

// Reasoning may come first, where the model has any. A schema that no grammar can enforce gives way to any
// object, unless its function is `strict`. Throws GrammarError: that, no tool of this name, or calls in tags
// (CallStyle::kTagged), whose values end where their text does.
Grammar grammar_of_calls(const AnswerReading& reading, const CallDemand& demand, const Tokenizer& tokenizer);

}  // namespace troupe
