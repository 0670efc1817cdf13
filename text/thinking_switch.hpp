// SPDX-License-Identifier: Apache-2.0
// Chat templates of models that can answer with reasoning and without take a variable
// that says which, and tell of it nowhere: it is found by rendering a question with each
// value of the names in use.
#pragma once

#include <string>
#include <string_view>

namespace troupe {

class ChatTemplate;

// The variable's name; empty: the template has none. source: the template's.
std::string probe_thinking_switch(const ChatTemplate& chat_template, std::string_view source);

}  // namespace troupe
