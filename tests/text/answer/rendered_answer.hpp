// SPDX-License-Identifier: Apache-2.0
// An answer as a chat template shows it behind a question.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/text/jinja/template_input.hpp"
#include "text/chat_template.hpp"
#include "text/client_json.hpp"
#include "text/template_messages.hpp"

namespace troupe {

// tools: JSON, shown where the template shows tools. "": the template refuses.
inline std::string rendered_answer(const ChatTemplate& chat, const ChatMessage& answer,
                                   std::string_view tools) {
  const std::string question = "A question?";
  const std::vector<ChatMessage> messages = {{.role = "user", .content = question}, answer};
  ChatTemplateInput input;
  input.messages = template_messages(messages, chat.tool_dialect());
  input.add_generation_prompt = false;
  if (chat.tool_dialect().shows_tools) input.tools = parse_client_json(tools).value();
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  const auto result = joined(chat.render(input));
  return result.is_error ? "" : result.text.substr(result.text.rfind(question) + question.size());
}

}  // namespace troupe
