// SPDX-License-Identifier: Apache-2.0
#include "text/role_dialect.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/chat_template.hpp"
#include "text/rendered_probe.hpp"
#include "text/template_messages.hpp"

namespace troupe {
namespace {

constexpr const char* kInstruction = "probe_instruction";

// nullopt: the template refuses.
std::optional<std::string> rendered(const ChatTemplate& chat_template,
                                    const std::vector<ChatMessage>& messages) {
  ChatTemplateInput input;
  input.messages = template_messages(messages, chat_template.tool_dialect());
  input.now = {};  // the same in all
  return rendered_probe(chat_template, std::move(input));
}

// All texts of the messages, in their order, and messages[at] not as an assistant's, which
// is what some templates take every unknown role for.
bool shows_in_place(const ChatTemplate& chat_template, std::vector<ChatMessage> messages, std::size_t at) {
  const auto text = rendered(chat_template, messages);
  if (!text) return false;
  std::size_t from = 0;
  for (const ChatMessage& message : messages) {
    if (message.content.empty()) continue;
    const auto found = text->find(message.content, from);
    if (found == std::string::npos) return false;
    from = found + message.content.size();
  }
  messages[at].role = "assistant";
  return rendered(chat_template, messages) != text;
}

// Some templates have a text of their own in front of a chat without a system.
bool keeps_beginning(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                     const ChatMessage& more) {
  auto longer = messages;
  longer.push_back(more);
  const auto before = rendered(chat_template, messages), behind = rendered(chat_template, longer);
  if (!before || !behind) return false;
  const auto num_kept = before->find(messages.back().content) + messages.back().content.size();
  return before->compare(0, num_kept, *behind, 0, num_kept) == 0;
}

bool shows_later(const ChatTemplate& chat_template, const std::string& role) {
  const ChatMessage question{.role = "user", .content = "probe_question"};
  const ChatMessage instruction{.role = role, .content = kInstruction};
  ChatMessage calling{.role = "assistant"};
  calling.tool_calls.push_back({.id = "a1b2c3d4e", .name = "probe_function", .arguments = "{}"});
  ChatMessage result{.role = "tool", .content = "probe_result"};
  result.tool_call_id = calling.tool_calls.front().id;
  const std::vector<ChatMessage> called = {question, calling, result};
  if (!keeps_beginning(chat_template, called, instruction)) return false;
  auto behind_result = called;
  behind_result.push_back(instruction);
  const ChatMessage answer{.role = "assistant", .content = "probe_answer"};
  const ChatMessage other_question{.role = "user", .content = "probe_other_question"};
  const std::vector<ChatMessage> answered = {question, answer, instruction, other_question};
  return shows_in_place(chat_template, behind_result, called.size()) &&
         shows_in_place(chat_template, answered, 2);
}

bool is_instruction(const ChatMessage& message) {
  return message.role == "system" || message.role == "developer";
}

void append_behind_line(std::string& text, std::string_view more) {
  if (!text.empty()) text += "\n\n";
  text += more;
}

std::string marked(const std::string& text) { return "<system>\n" + text + "\n</system>"; }

class ShownRoles {
 public:
  explicit ShownRoles(const RoleDialect& dialect) : dialect_(dialect) {}

  void add(ChatMessage message) {
    if (message.role == "developer" && !dialect_.shows_developer) message.role = "system";
    if (!is_instruction(message)) return add_other(std::move(message));
    if (!is_beginning_ && !dialect_.shows_later_systems) return join(marked(message.content));
    if (is_beginning_ && !dialect_.shows_several_systems && !messages_.empty())
      return append_behind_line(messages_.back().content, message.content);
    messages_.push_back(std::move(message));
  }

  std::vector<ChatMessage> end() && {
    end_waiting();
    return std::move(messages_);
  }

 private:
  void add_other(ChatMessage message) {
    is_beginning_ = false;
    auto waiting = std::exchange(waiting_, {});
    if (message.role == "tool") {
      if (!waiting.empty()) append_behind_line(message.content, waiting);
    } else if (message.role == "user" && !waiting.empty()) {
      append_behind_line(waiting, message.content);
      message.content = std::move(waiting);
    } else if (!waiting.empty()) {
      messages_.push_back({.role = "user", .content = std::move(waiting)});
    }
    messages_.push_back(std::move(message));
  }

  // Templates insist on turns of user and assistant, and most cut a loop of tools where a
  // user's message begins: the text joins the one that is there.
  void join(const std::string& text) {
    const std::string& before = messages_.back().role;
    append_behind_line(before == "user" || before == "tool" ? messages_.back().content : waiting_, text);
  }

  void end_waiting() {
    if (!waiting_.empty()) messages_.push_back({.role = "user", .content = std::exchange(waiting_, {})});
  }

  const RoleDialect& dialect_;
  std::vector<ChatMessage> messages_;
  std::string waiting_;  // behind an assistant's message, for what comes next
  bool is_beginning_ = true;
};

}  // namespace

RoleDialect probe_role_dialect(const ChatTemplate& chat_template) {
  const ChatMessage question{.role = "user", .content = "probe_question"};
  const ChatMessage developer{.role = "developer", .content = kInstruction};
  const ChatMessage system{.role = "system", .content = "probe_system"};
  RoleDialect dialect;
  dialect.shows_later_systems = shows_later(chat_template, "system");
  dialect.shows_developer = shows_in_place(chat_template, {developer, question}, 0) &&
                            (!dialect.shows_later_systems || shows_later(chat_template, "developer"));
  const auto several = [&](const std::string& role) {
    return shows_in_place(chat_template, {system, {.role = role, .content = kInstruction}, question}, 1);
  };
  dialect.shows_several_systems = several("system") && (!dialect.shows_developer || several("developer"));
  return dialect;
}

bool shows_roles(const RoleDialect& dialect, const std::vector<ChatMessage>& messages) {
  if (dialect == RoleDialect{}) return true;
  bool is_beginning = true;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!is_instruction(messages[i])) {
      is_beginning = false;
      continue;
    }
    if (messages[i].role == "developer" && !dialect.shows_developer) return false;
    if (!is_beginning && !dialect.shows_later_systems) return false;
    if (is_beginning && i > 0 && !dialect.shows_several_systems) return false;
  }
  return true;
}

std::vector<ChatMessage> with_shown_roles(std::vector<ChatMessage> messages, const RoleDialect& dialect) {
  ShownRoles shown(dialect);
  for (ChatMessage& message : messages) shown.add(std::move(message));
  return std::move(shown).end();
}

}  // namespace troupe
