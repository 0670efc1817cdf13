// SPDX-License-Identifier: Apache-2.0
// The answers that call tools, as a grammar: each call is one that the parser reads back, of a tool that
// there is, with arguments that obey their schema.
#pragma once

#include <string>
#include <string_view>

#include "text/answer/answer_parser.hpp"
#include "text/grammar/grammar.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace troupe {

struct CallDemand {
  std::string name = {};     // the function's; empty: any of the tools
  bool is_for_one = false;   // the answer ends behind its first call
  bool may_be_text = false;  // text around calls, or alone; not with a name
};

// Any text that is no call can be told from one by how calls begin: may_be_text is possible.
bool can_bind_text(const AnswerFormat& format);

// Reasoning may come first, where the model has any. A schema that no grammar can enforce gives way to any
// arguments, unless its function is `strict` and a call is demanded; so do all of those where the grammar
// would be too large. Throws GrammarError: no tool of this name, or what a strict function asks for can't be
// enforced or written.
Grammar grammar_of_calls(const AnswerReading& reading, const CallDemand& demand, const Tokenizer& tokenizer);

}  // namespace troupe
