// SPDX-License-Identifier: Apache-2.0
// The messages of a chat as a template's variable, in the form that the template
// understands. Calls and results that it does not show are written as text:
//
//   assistant: <tool_call>{"name": …, "arguments": …}</tool_call>
//   user:      <tool_response>…</tool_response>
//
// or, where the model's own notation is known, as the model writes calls, and results as they come.
#pragma once

#include <vector>

#include "text/chat_message.hpp"
#include "text/jinja/template_value.hpp"
#include "text/tool_dialect.hpp"

namespace troupe {

// Long texts are not copied: the messages must outlive what is rendered from the result.
TemplateValue::Array template_messages(const std::vector<ChatMessage>& messages, const ToolDialect& dialect);
TemplateValue::Array template_messages(std::vector<ChatMessage>&& messages, const ToolDialect&) = delete;

}  // namespace troupe
