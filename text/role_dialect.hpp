// SPDX-License-Identifier: Apache-2.0
// Instructions at places where a chat template does not expect them: messages of the
// role `developer`, and of `system` behind the chat's beginning, which agents send after
// each result of a tool. Many templates refuse these or drop them silently. Rendering a
// few small chats tells which; then the text goes where the template shows it, and
// nothing in front of it changes, so that the KV of the prompt's beginning is found.
#pragma once

#include <vector>

#include "text/chat_message.hpp"

namespace troupe {

class ChatTemplate;

struct RoleDialect {
  bool shows_developer = true;        // else: `system`
  bool shows_several_systems = true;  // at the beginning; else: one message
  // Behind other messages, in place. Else: text in <system> marks at the end of the message of the user or
  // tool before it, or at the beginning of the user's next one.
  bool shows_later_systems = true;
  bool operator==(const RoleDialect&) const = default;
};

// Renders the template a few times; its tool dialect is known.
RoleDialect probe_role_dialect(const ChatTemplate& chat_template);

bool shows_roles(const RoleDialect& dialect, const std::vector<ChatMessage>& messages);
// The same chat in roles that the template shows.
std::vector<ChatMessage> with_shown_roles(std::vector<ChatMessage> messages, const RoleDialect& dialect);

}  // namespace troupe
